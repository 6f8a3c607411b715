"""Nodes that differ find out, know who is wrong, and only that one stops."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from quorate.consensus.ports import Index, NodeId, StoreOp, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.controller import Comparison, ControllerSettings, Listeners, ReplicatedState, Reread, messages
from quorate.controller.comparing import StateIsWrongError, outvoted, packed
from quorate.controller.messages import SumsAt, SumsOf
from quorate.errors import StorageError
from quorate.history.checkpoints import Checkpoints
from quorate.history.refold import Refold
from quorate.history.settings import HistorySettings
from quorate.metadata.commands import DeleteTopic
from quorate.metadata.group_rows import encode_changes
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics
from quorate.slices import Steps
from tests.sim.world import Loop, World
from tests.stand_ins import MemoryStore
from tests.unit.controller.bench import Bench
from tests.unit.controller.test_controller import topic

SETTINGS = ControllerSettings()
WITHIN_S = 2.0
"""A wrong node has stopped by then."""


class Engine:
    """As much of a RaftEngine as comparing asks for."""

    def __init__(self, rig: "Rig", node: int, voters: int) -> None:
        self.node_id = NodeId(node)
        self.voters = tuple(NodeId(voter) for voter in range(1, voters + 1))
        self._rig = rig

    @property
    def is_leader(self) -> bool:
        return self._rig.leader == self.node_id

    def transfer_leadership(self, to: NodeId | None = None) -> bool:
        self._rig.leader = next(voter for voter in self.voters if voter != self.node_id)
        return True


class Voter:
    """One node: machine, checkpoints, comparison, and what it stopped of."""

    def __init__(self, rig: "Rig", node: int, voters: int) -> None:
        self.rig, self.node = rig, node
        self.loop = Loop(rig.world, f"n{node}", lambda: None)
        self.store = MemoryStore()
        self.log = EventLog(self.store)
        self.metrics = Metrics()
        self.stopped: list[Exception] = []
        self.stopped_at = 0.0
        listeners = Listeners()
        self.machine = ReplicatedState(self.store, self.log, Metrics(), RequestSettings(), listener=listeners)
        self.checkpoints = Checkpoints(
            self.store, self.machine, self.loop, HistorySettings(checkpoint_events=rig.checkpoint_events), self.fail
        )
        listeners.add(self.checkpoints)
        self.refold: Callable[[int, int], Steps[int | None]] = Refold(self.checkpoints, self.log, 100_000)
        self.comparison = Comparison(
            Engine(rig, node, voters),  # type: ignore[arg-type]
            self.machine,
            self.store,
            self.loop,
            self,
            rig.settings,
            self.metrics,
            self.replayed,
            Reread(self.machine, rig, 100_000),
            self.fail,
        )
        listeners.add(self.comparison)
        self.comparison.start()

    def replayed(self, agreed: int, offset: int) -> Steps[int | None]:
        """By what is in ``refold`` now."""
        return self.refold(agreed, offset)

    def gauges(self) -> tuple[float, ...]:
        """Comparisons, differences, alarms: as they are scraped."""
        read = {gauge.name: gauge.read for gauge in self.metrics.gauges}
        return read["state_comparisons"](), read["state_differences"](), read["state_alarms"]()

    def fail(self, error: Exception) -> None:
        self.stopped.append(error)
        self.stopped_at = self.rig.world.now
        self.comparison.stop()
        for other in self.rig.voters.values():
            if other is not self:
                other.comparison.disconnected(self.node)

    def send(self, peer: int, kind: int, payload: bytes) -> bool:
        """PeerLink, with a millisecond on the way."""
        if self.stopped or (self.node, peer) in self.rig.cut:
            return False
        other = self.rig.voters[peer]
        self.loop.call_later(0.001, lambda: other.comparison.sums_told(self.node, messages.decode(payload)))  # type: ignore[arg-type]
        return True

    def flip(self, name: str) -> None:
        """One bit of a topic's row in memory."""
        state = self.machine.state
        found = state.topics[name]
        flipped = msgspec.structs.replace(found, read_queues=found.read_queues ^ 64)
        self.machine.state = msgspec.structs.replace(state, topics=state.topics.set(name, flipped))
        self.machine.sums._kept.clear()  # As after a restart, or with more rows than digests are kept of.


class Rig:
    """So many voters that apply the log of one bench."""

    def __init__(
        self, voters: int = 3, *, settings: ControllerSettings = SETTINGS, checkpoint_events: int = 10
    ) -> None:
        self.world = World(1)
        self.settings = settings
        self.checkpoint_events = checkpoint_events
        self.leader = 1
        self.cut: set[tuple[int, int]] = set()
        self.base_index = Index(0)
        """Of every journal."""
        self.bench = Bench()
        self.bench.open()
        self.voters = {node: Voter(self, node, voters) for node in range(1, voters + 1)}
        for name in ("t", "u", "v"):
            self.bench.done(topic(name))
        self.apply()
        self.after(0.5)

    def entries(self, start: int, max_bytes: int, max_count: int) -> list[tuple[Index, Term, bytes]]:
        """As a journal gives them."""
        assert start > self.base_index
        log = self.bench.engine.log[start - 1 : start - 1 + max_count]
        return [(Index(index), Term(term), entry) for index, (term, entry) in enumerate(log, start=start)]

    def trim(self) -> None:
        """No journal has what was committed so far."""
        self.base_index = Index(len(self.bench.engine.log))

    def apply(self, voters: Iterator[Voter] | None = None) -> None:
        """All that was committed, on all that still run."""
        for voter in voters or iter(self.voters.values()):
            if not voter.stopped:
                for index in range(voter.machine.applied_index() + 1, len(self.bench.engine.log) + 1):
                    term, entry = self.bench.engine.log[index - 1]
                    voter.machine.apply(Index(index), Term(term), entry)
                voter.machine.applied()

    def done(self, command: Any) -> None:
        self.bench.done(command)
        self.apply()

    def after(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)

    def stopped(self) -> list[int]:
        return [node for node, voter in self.voters.items() if voter.stopped]

    def reason(self, node: int) -> str:
        (error,) = self.voters[node].stopped
        assert isinstance(error, StateIsWrongError)
        return str(error)


@pytest.mark.parametrize(("victim", "voters"), [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (1, 5), (4, 5)])
@pytest.mark.parametrize("checkpoint_events", [3, 1000])
def test_a_flipped_row_stops_the_node_that_has_it(victim: int, voters: int, checkpoint_events: int) -> None:
    """Follower or leader, of two, three or five: by name, within two seconds of when it shows; the others go on, and
    the leader lets another lead first. With two nodes it is the events that say who is wrong.
    """
    rig = Rig(voters, checkpoint_events=checkpoint_events)
    rig.voters[victim].flip("t")
    rig.done(topic("t", 8))
    began = rig.world.now
    rig.after(WITHIN_S)
    assert rig.stopped() == [victim]
    assert rig.voters[victim].stopped_at - began < WITHIN_S
    assert f"the state of node {victim} is wrong at index " in rig.reason(victim)
    assert rig.leader != victim
    another = rig.voters[1 if victim != 1 else 2]
    assert f"node {victim} stopped: its state was wrong" in " ".join(another.comparison.alarms())
    rig.after(5.0)
    assert rig.stopped() == [victim]


@pytest.mark.parametrize("victim", [1, 2])
def test_an_event_that_made_another_state_stops_the_node_where_it_did(victim: int) -> None:
    """Rows, sums and store of that node agree with each other: only its events, folded anew, tell."""
    rig = Rig(2)
    voter = rig.voters[victim]
    evolved = voter.machine._evolve

    def wrongly(entry: Any, term: Term) -> Any:
        adopted = evolved(entry, term)
        state = adopted.state
        return msgspec.structs.replace(adopted, state=msgspec.structs.replace(state, topics=state.topics.delete("w")))

    voter.machine._evolve = wrongly  # type: ignore[method-assign]
    rig.done(topic("w"))
    rig.after(WITHIN_S)
    assert rig.stopped() == [victim]
    assert "folded anew, make another state" in rig.reason(victim)


def test_a_row_of_the_store_that_changed_by_itself_is_found_when_nodes_differ() -> None:
    """What a disk returns is looked at too."""
    rig = Rig(2)
    rig.voters[2].store.write([StoreOp("groups", b"x", b"y")])
    rig.voters[2].machine.groups.put(b"z", b"1")
    rig.voters[2].machine.sums.group(b"z", None, b"1")
    rig.done(topic("t", 8))
    rig.after(WITHIN_S)
    assert rig.stopped() == [2]
    assert "rows in the store" in rig.reason(2)


def groups_entry(rig: Rig, *changes: tuple[bytes, bytes | None]) -> None:
    """Commit what consumer groups keep."""
    assert rig.bench.controller.keep_groups(encode_changes(changes)) is not None
    rig.bench.engine.commit()
    rig.apply()


def forget_a_group(voter: Voter) -> None:
    """Its machine loses a row of a group as it is written, and does not know."""
    kept = voter.machine._keep

    def careless(entry: Any, index: Index, term: Term) -> None:
        kept(msgspec.structs.replace(entry, batch=encode_changes(())), index, term)

    voter.machine._keep = careless  # type: ignore[method-assign]


@pytest.mark.parametrize("victim", [1, 2])
def test_what_is_in_no_event_the_journal_tells(victim: int) -> None:
    """A position of a group that one node of two lacks: its own journal says so."""
    rig = Rig(2)
    forget_a_group(rig.voters[victim])
    groups_entry(rig, (b"g", b"1"))
    rig.after(WITHIN_S)
    assert rig.stopped() == [victim]
    assert "what its journal says of b'g'" in rig.reason(victim)


@pytest.mark.parametrize("victim", [1, 2])
@pytest.mark.parametrize("lost", [True, False])
def test_a_request_that_is_not_remembered_is_told_by_the_journal(victim: int, lost: bool) -> None:
    """One node of two would run it again, or answer it otherwise."""
    rig = Rig(2)
    machine = rig.voters[victim].machine
    execute, evolved = machine._execute, machine._evolve
    ask(rig, 8)

    def losing(made: Any, term: Term) -> None:
        execute(msgspec.structs.replace(made, requests=machine.requests, request_rows=()), term)

    if lost:
        machine._execute = losing  # type: ignore[method-assign]
    else:
        machine._evolve = lambda entry, term: evolved(  # type: ignore[method-assign]
            msgspec.structs.replace(entry, reply=b"another"), term
        )
    ask(rig, 9)
    rig.after(WITHIN_S)
    assert rig.stopped() == [victim]
    assert ("was run at offset" if lost else "is not remembered as its journal says") in rig.reason(victim)


def test_a_journal_that_cannot_be_read_is_no_wrong_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that looks at itself and meets a bad disk stops of that; it is not told to put a sound store aside, and
    the others hear nothing of a wrong state. The one that lacks something is found as ever.
    """
    rig = Rig(2)
    entries, broken = rig.entries, StorageError("input/output error")
    forget_a_group(rig.voters[2])

    def failing(start: int, max_bytes: int, max_count: int) -> list[tuple[Index, Term, bytes]]:
        if len(tried) == 0:
            tried.append(start)
            raise broken
        return entries(start, max_bytes, max_count)

    tried: list[int] = []
    monkeypatch.setattr(rig, "entries", failing)
    groups_entry(rig, (b"g", b"1"))
    rig.after(WITHIN_S)
    stopped = [error for voter in rig.voters.values() for error in voter.stopped]
    assert [error for error in stopped if not isinstance(error, StateIsWrongError)] == [broken]


def ask(rig: Rig, queues: int) -> None:
    """A command with an id of its own."""
    rig.bench.submit(topic("t", queues), request_id=f"{rig.bench.loop.time_ms()}-{queues}")
    rig.bench.engine.commit()
    rig.apply()


@pytest.mark.parametrize("victim", [1, 3])
def test_what_no_entry_tells_a_majority_does(victim: int) -> None:
    """A position of a group that one node of three lacks, its entry trimmed: two nodes agree; at an index, for groups
    have no offset.
    """
    rig = Rig(3)
    forget_a_group(rig.voters[victim])
    groups_entry(rig, (b"g", b"1"))
    rig.trim()
    rig.after(WITHIN_S)
    assert rig.stopped() == [victim]
    assert "agree on another" in rig.reason(victim)


def test_two_nodes_that_nobody_can_tell_apart_say_so_and_go_on() -> None:
    """No majority, no entries: an alarm on both, named, and no guess; it ends when they agree again."""
    rig = Rig(2)
    forget_a_group(rig.voters[2])
    groups_entry(rig, (b"g", b"1"))
    rig.trim()
    rig.after(5.0)
    assert rig.stopped() == []
    for node, other in ((1, 2), (2, 1)):
        (alarm,) = rig.voters[node].comparison.alarms()
        assert alarm.startswith(f"the state of node {node} differs from that of node {other} at index ")
        assert alarm.endswith("nobody can tell which is wrong")
        assert not rig.voters[node].comparison.agrees
    del rig.voters[2].machine._keep
    groups_entry(rig, (b"g", None))
    rig.after(3.0)
    assert [voter.comparison.alarms() for voter in rig.voters.values()] == [(), ()]
    assert all(voter.comparison.agrees for voter in rig.voters.values())


def test_what_is_scraped_is_what_was_compared_and_found() -> None:
    """A follower counts each comparison, the leader none; a difference is counted on both sides of it, once; an alarm
    stands at everybody who knows of a node that differs, and ends when that node agrees.
    """
    rig = Rig(3)
    assert [voter.gauges()[1:] for voter in rig.voters.values()] == [(0, 0)] * 3
    counted = [voter.gauges()[0] for voter in rig.voters.values()]
    rig.done(topic("t", 7))
    rig.after(0.2)
    assert [voter.gauges()[0] for voter in rig.voters.values()] == [counted[0], counted[1] + 1, counted[2] + 1]
    assert counted[0] == 0
    rig.voters[3].flip("t")
    rig.done(topic("t", 8))
    rig.after(WITHIN_S)
    assert rig.stopped() == [3]
    assert [rig.voters[node].gauges()[1:] for node in (1, 2)] == [(1, 1), (0, 1)]
    assert rig.voters[3].gauges()[1:] == (1, 1)
    mark = rig.voters[1].machine.marked
    rig.voters[1].comparison.sums_told(3, SumsOf(mark.index, packed(mark)))  # It is back, and equal.
    rig.after(1.0)
    assert [rig.voters[node].gauges()[2] for node in (1, 2)] == [0, 0]


def test_a_difference_is_looked_into_again_only_now_and_then() -> None:
    """Nodes that nobody can tell apart do not spend their time on it."""
    rig = Rig(2)
    looks: list[int] = []
    genuine = rig.voters[2].refold

    def counted(agreed: int, offset: int) -> Steps[int | None]:
        looks.append(offset)
        return genuine(agreed, offset)

    rig.voters[2].refold = counted
    forget_a_group(rig.voters[2])
    groups_entry(rig, (b"g", b"1"))
    rig.trim()
    for number in range(50):
        rig.done(topic("t", 4 + number % 3))
        rig.after(0.5)
    assert rig.stopped() == []
    assert len(looks) == 1
    rig.after(10.0)
    rig.done(topic("t", 9))
    rig.after(2.0)
    assert len(looks) == 2


def test_who_is_behind_is_compared_when_it_gets_there() -> None:
    """A follower that applies later than the leader tells; one that lost the entry's sums says nothing."""
    rig = Rig(3)
    slow = rig.voters[3]
    before = slow.comparison.compared
    slow.flip("t")
    rig.bench.done(topic("t", 8))
    rig.apply(iter([rig.voters[1], rig.voters[2]]))
    rig.after(3.0)
    assert (rig.stopped(), slow.comparison.compared) == ([], before)
    rig.apply()
    rig.after(WITHIN_S)
    assert rig.stopped() == [3]


def test_nodes_that_agree_do_nothing_but_say_so() -> None:
    """Under changes of every kind, applied in slices of any size."""
    rig = Rig(3)
    for number in range(30):
        rig.bench.submit(topic(f"n{number % 4}", 4 + number), request_id=f"{rig.bench.loop.time_ms()}-{number}")
        rig.bench.engine.commit()
        if number % 3 == 0:
            assert rig.bench.controller.keep_groups(encode_changes(((b"g%d" % number, b"1"),))) is not None
            rig.bench.engine.commit()
        if number % 5 == 0:
            rig.bench.done(DeleteTopic(topic=f"n{number % 4}"))
        rig.apply(iter([rig.voters[1 + number % 3]]))
        rig.after(0.07)
    rig.apply()
    rig.after(2.0)
    assert rig.stopped() == []
    assert all(not voter.comparison.alarms() for voter in rig.voters.values())
    assert rig.voters[2].comparison.compared > 10
    assert sum(voter.comparison.differences for voter in rig.voters.values()) == 0


def test_a_row_that_changed_in_memory_is_found_at_the_next_checkpoint() -> None:
    """Also one that nobody writes again, so that no comparison sees it."""
    rig = Rig(3, checkpoint_events=20)
    rig.voters[2].flip("v")
    for number in range(30):
        rig.done(topic("t", 4 + number % 3))
    rig.after(1.0)
    assert rig.stopped() == [2]
    assert "are not those that were written" in str(rig.voters[2].stopped[0])


def test_a_checkpoint_whose_rows_changed_is_no_beginning() -> None:
    """The events after it would be folded on a lie: an earlier one is taken."""
    rig = Rig(3, checkpoint_events=3)
    for number in range(80):
        rig.done(topic("t", 4 + number % 3))
        rig.after(0.01)
    voter = rig.voters[2]
    offset = voter.machine.offset
    assert len(voter.checkpoints.offsets) > 1
    for _ in range(len(voter.checkpoints.offsets)):
        assert finished(voter.refold(offset, offset)) == voter.machine.sums.rows
        found = [key for key, _ in voter.checkpoints._scan(voter.checkpoints.offsets[-1])]
        voter.store.write([StoreOp("history", found[-1], None)])
        assert finished(voter.refold(offset, offset)) == voter.machine.sums.rows
        voter.checkpoints.offsets.pop()


def test_too_many_events_are_not_folded() -> None:
    """It would hold up what the node is for."""
    rig = Rig(3, checkpoint_events=1000)
    voter = rig.voters[1]
    refold = Refold(voter.checkpoints, voter.log, voter.machine.offset - 1)
    assert finished(refold(0, voter.machine.offset)) is None
    assert finished(refold(0, voter.machine.offset - 1)) is not None


def finished(steps: Steps[int | None]) -> int | None:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: int | None = end.value
            return result


def said(value: str, *, proved: bool = False) -> SumsOf:
    """What a node says."""
    return SumsOf(7, SumsAt(7, 1, 5, value.encode(), b""), proved=proved)


@pytest.mark.parametrize(
    ("found", "voters", "verdict"),
    [
        ({1: said("a"), 2: said("b")}, 2, ([], [])),
        ({1: said("a"), 2: said("b")}, 3, ([], [])),
        ({1: said("a"), 2: said("b"), 3: said("a")}, 3, ([1, 3], [2])),
        ({1: said("a"), 2: said("b"), 3: said("c")}, 3, ([], [])),
        ({1: said("a"), 2: said("b", proved=True), 3: said("a")}, 3, ([1, 3], [])),
        ({1: said("a", proved=True), 2: said("b", proved=True), 3: said("a")}, 3, ([1, 3], [2])),
        ({1: said("a"), 2: said("b"), 3: SumsOf(7, None)}, 3, ([], [])),
        ({1: said("a"), 2: said("a"), 3: said("b"), 4: said("c")}, 5, ([], [])),
        ({1: said("a"), 2: said("a"), 3: said("b"), 4: said("c"), 5: said("a")}, 5, ([1, 2, 5], [3, 4])),
    ],
)
def test_a_majority_of_voters_is_right_unless_events_speak_against_it(
    found: dict[int, SumsOf], voters: int, verdict: tuple[list[int], list[int]]
) -> None:
    """Of all voters, not of those that answered; silence is no opinion."""
    assert outvoted(found, voters) == verdict


def test_a_verdict_is_believed_only_with_a_majority_of_others_and_ones_own_sums() -> None:
    """A lone peer, or one that is mistaken about ours, stops nobody."""
    rig = Rig(3)
    mine = rig.voters[2].machine.marked
    other = SumsAt(mine.index, mine.term, mine.offset, b"x" * 32, b"y" * 32)
    same = packed(mine)
    compared = rig.voters[2].comparison
    for agree, sums in (((1,), other), ((1, 2), other), ((1, 7), other), ((1, 3), same)):
        compared.sums_told(1, messages.StateIsWrong(mine.index, agree, sums))
    compared.sums_told(9, messages.StateIsWrong(mine.index, (1, 3), other))
    rig.after(1.0)
    assert rig.stopped() == []
    compared.sums_told(1, messages.StateIsWrong(mine.index, (1, 3), other))
    rig.after(1.0)
    assert rig.stopped() == [2]
