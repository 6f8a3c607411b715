"""The index of timelines, elections and marks: built by the same pass over the same events as the state.

Rules: everything is a table whose rows begin with the offset of an event, so that "as of N" is a cut. A row that is
completed later (a gap that ends, an election that is acknowledged) says by which event; before it, it is open.
Numbers only (``rows``): about a hundred bytes per event.
"""

from array import array
from bisect import bisect_left
from typing import Final

import msgspec

from quorate.events import (
    BrokerDataCleaned,
    BrokerFenced,
    BrokerRegistered,
    BrokerUnfenced,
    ConfigChanged,
    ControllerLeaderElected,
    ElectionFailed,
    MasterElected,
    NodeStarted,
    RoleChangeAcknowledged,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
    VoterRebuilt,
)
from quorate.model.brokers import fault_of
from quorate_spark.dashboard.fold import FIRST
from quorate_spark.dashboard.model import BrokerSet, State
from quorate_spark.dashboard.rows import NOTHING, Names, Rows
from quorate_spark.dashboard.spool import Fact

MARKS: Final = ("config", "topic", "registered", "fenced", "unfenced", "node")
_MARK_OF: Final = {
    ConfigChanged: "config",
    TopicCreated: "topic",
    TopicUpdated: "topic",
    TopicDeleted: "topic",
    BrokerRegistered: "registered",
    BrokerFenced: "fenced",
    BrokerUnfenced: "unfenced",
    NodeStarted: "node",
    VoterRebuilt: "node",
}


class ElectionRow(msgspec.Struct, frozen=True, gc=False):
    """One election, in the order of its columns; None where nobody recorded it."""

    offset: int
    t: int
    set: int
    """Number of the set's name."""
    failed: bool
    kind: int
    """Number of the kind's name."""
    first: bool
    old: int | None
    new: int | None
    fault: int | None
    """Since when the set was without a master: what the event answers, or what an earlier one could not mend."""
    estimated: bool
    detected: int | None
    proposed: int | None
    lost_offset: int | None
    """The event by which the set lost its master; None: the election itself, or nothing was lost."""
    ack_offset: int | None = None
    committed: int | None = None
    notified: int | None = None
    """When the new master was told; replicas may have been told before it."""
    acked: int | None = None
    """When the new master acknowledged."""

    @property
    def unavailable_ms(self) -> int | None:
        """From the fault to the acknowledgement by the new master."""
        if self.acked is None or self.fault is None or self.failed:
            return None
        return max(self.acked - self.fault, 0)

    def as_of(self, offset: int) -> "ElectionRow":
        """The part of it that the first ``offset`` events tell."""
        if self.ack_offset is None or self.ack_offset < offset:
            return self
        return msgspec.structs.replace(self, ack_offset=None, committed=None, notified=None, acked=None)


_COLUMNS: Final = ElectionRow.__struct_fields__
_BOOLEAN: Final = frozenset({"failed", "first", "estimated"})
_ACK: Final = _COLUMNS.index("ack_offset")


class Lane:
    """The history of one broker set."""

    def __init__(self) -> None:
        self.masters = Rows(3)
        """offset, time, broker id or NOTHING."""
        self.sync = Rows(3)
        """offset, time, number in sync."""
        self.sizes = Rows(2)
        """offset, number of members."""
        self.gaps = Rows(4)
        """offset, from, offset of the end or NOTHING, to: when nobody was master."""
        self.elections = Rows(3)
        """offset, time, whether it failed."""


class Index:
    """The tables."""

    def __init__(self) -> None:
        self.leaders = Rows(6)
        """offset, time, node, term, previous node or NOTHING, silent for ms."""
        self.marks = Rows(2)
        """offset, kind (place in MARKS)."""
        self.removed = Rows(2)
        """offset, set."""
        self.gaps = Rows(4)
        """As a lane's, of all sets: offset, from, offset of the end or NOTHING, to."""
        self.elected = Rows(1)
        """offset: elections that had a winner, but the first one of each set."""
        self.failed = Rows(1)
        """offset: elections that had none."""
        self.lanes: dict[str, Lane] = {}
        self.set_names = Names()
        self.kind_names = Names()
        self.elections = Rows(len(_COLUMNS))
        """The columns of ElectionRow; read by ``election``."""
        self._by_kind: dict[int, array[int]] = {}
        self._acknowledged = 0
        self._open: dict[str, tuple[int, int]] = {}

    def add(self, fact: Fact, before: State, after: State) -> None:
        """One more event and what it did."""
        event, offset = fact.event, fact.stamp.offset
        mark = _MARK_OF.get(type(event))
        if mark is not None:
            self.marks.append(offset, MARKS.index(mark))
        if isinstance(event, ControllerLeaderElected):
            previous = NOTHING if event.previous_leader is None else event.previous_leader
            stamp = fact.stamp
            self.leaders.append(offset, stamp.time_ms, event.node_id, stamp.term, previous, event.silent_for_ms)
        name = getattr(event, "broker_set", None)
        if name is None:
            return
        was, now = before.sets.get(name), after.sets.get(name)
        lane = self._lane(name)
        if isinstance(event, MasterElected | ElectionFailed):
            lane.elections.append(offset, fact.stamp.time_ms, isinstance(event, ElectionFailed))
            self._election(event, fact, was)
        elif isinstance(event, RoleChangeAcknowledged):
            self._acknowledge(event, offset)
        elif isinstance(event, BrokerDataCleaned) and now is None:
            self.removed.append(offset, self.set_names.number(name))
        self._follow(name, lane, fact, was, now)

    def _lane(self, name: str) -> Lane:
        lane = self.lanes.get(name)
        if lane is None:
            lane = Lane()
            self.lanes = {**self.lanes, name: lane}  # A reader on another thread has the old one.
        return lane

    def _follow(self, name: str, lane: Lane, fact: Fact, was: BrokerSet | None, now: BrokerSet | None) -> None:
        """Note the changes of a set by any event."""
        offset, time = fact.stamp.offset, fact.stamp.time_ms
        size, old_size = len(now.members) if now else 0, len(was.members) if was else 0
        if size != old_size:
            lane.sizes.append(offset, size)
        master, old_master = now.master if now else None, was.master if was else None
        if master != old_master:
            lane.masters.append(offset, time, NOTHING if master is None else master)
        sync, old_sync = len(now.sync) if now else 0, len(was.sync) if was else 0
        if sync != old_sync:
            lane.sync.append(offset, time, sync)
        lost = now.lost_at if now else None
        if lost is not None and name not in self._open:
            self._open[name] = (
                lane.gaps.append(offset, lost, NOTHING, NOTHING),
                self.gaps.append(offset, lost, NOTHING, NOTHING),
            )
        elif lost is None and name in self._open:
            for table, row in zip((lane.gaps, self.gaps), self._open.pop(name), strict=True):
                table.put(row, 3, time)
                table.put(row, 2, offset)

    def _election(self, event: MasterElected | ElectionFailed, fact: Fact, was: BrokerSet | None) -> None:
        fault, estimated = fault_of(event)
        if was is not None and was.lost_at is not None:
            fault, estimated = was.lost_at, was.lost_estimated
        elected = isinstance(event, MasterElected)
        row = ElectionRow(
            offset=fact.stamp.offset,
            t=fact.stamp.time_ms,
            set=self.set_names.number(event.broker_set),
            failed=not elected,
            kind=self.kind_names.number(event.evidence or event.trigger),
            first=isinstance(event, MasterElected) and event.decided_by == FIRST,
            old=event.old_master,
            new=event.master if isinstance(event, MasterElected) else None,
            fault=fault,
            estimated=estimated,
            detected=event.detected_ms or None,
            proposed=event.proposed_ms or None,
            lost_offset=was.lost_offset if was else None,
        )
        number = self.elections.append(*(NOTHING if (v := getattr(row, c)) is None else int(v) for c in _COLUMNS))
        self._by_kind.setdefault(row.kind, array("q")).append(number)
        if row.failed:
            self.failed.append(row.offset)
        elif not row.first:
            self.elected.append(row.offset)

    def _acknowledge(self, event: RoleChangeAcknowledged, offset: int) -> None:
        number = self.elections.cut(event.election_offset)
        if number == len(self.elections) or self.elections.get(number, 0) != event.election_offset:
            return
        if self.elections.get(number, _ACK) != NOTHING:
            return
        master = self.election(number).new
        notices = [ack.notified_ms for ack in event.acks if ack.broker_id == master and ack.notified_ms > 0]
        answers = [ack.acknowledged_ms for ack in event.acks if ack.broker_id == master and ack.acknowledged_ms > 0]
        self.elections.put(number, _ACK + 1, event.committed_ms or NOTHING)
        self.elections.put(number, _ACK + 2, min(notices, default=NOTHING))
        self.elections.put(number, _ACK + 3, min(answers, default=NOTHING))
        self.elections.put(number, _ACK, offset)
        self._acknowledged = offset

    def election(self, number: int) -> ElectionRow:
        """An election by the number of its row."""
        cells = zip(_COLUMNS, self.elections.row(number), strict=True)
        values = [bool(cell) if name in _BOOLEAN else None if cell == NOTHING else cell for name, cell in cells]
        return ElectionRow(*values)  # type: ignore[arg-type]  # in the order of its columns

    def last_election_word(self) -> int:
        """One more than the last event that told something of an election."""
        number = len(self.elections) - 1
        return 0 if number < 0 else max(self.elections.get(number, 0), self._acknowledged) + 1

    def elections_before(self, offset: int) -> int:
        """How many elections happened before an offset."""
        return self.elections.cut(offset)

    def election_at(self, offset: int) -> ElectionRow | None:
        """The election that is the event at an offset."""
        number = self.elections.cut(offset)
        if number == len(self.elections) or self.elections.get(number, 0) != offset:
            return None
        return self.election(number)

    def alike(self, kind: int, offset: int, most: int) -> list[ElectionRow]:
        """The latest elections of a kind before an offset, at most so many."""
        numbers = self._by_kind.get(kind, array("q"))
        stop = bisect_left(numbers, self.elections.cut(offset))
        return [self.election(number).as_of(offset) for number in numbers[max(0, stop - most) : stop]]
