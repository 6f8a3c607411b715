"""What members of the sample log hold, by a controller's own rules: shards with segments, and clients' sessions.

Two stores fall silent on the night, so leaders are elected, copies fall out of sync, and one shard is left without a
leader; a broker of MQTT falls silent too, and some of its clients come again at another one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from quorate.events import Event, Stamp
from quorate.metadata import commands
from quorate.metadata.commands import ByLeader, Command
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.model.evolve import evolve
from quorate.model.segments import fit, last, name_of, wants_leader
from quorate.model.state import EMPTY, Segment, State, Subscription, Will

if TYPE_CHECKING:
    from tests.browser.sample_log import SampleLog

SHARDS = {"orders": 2, "invoices": 3, "audit": 1, "old": 2, **{f"tenant-{number:02d}": 2 for number in range(1, 53)}}
"""Name → copies."""
CLIENTS = 64
RED = "audit"
"""Its only copy is at the store that stays silent."""


class Unheard:
    """No broker of RocketMQ is heard: nothing here asks for one."""

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> None:
        """Nobody knows."""

    def info(self, cluster: str, broker_set: str, broker_id: int) -> None:
        """Never heard."""

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """Nothing closed."""
        return False


class Controller:
    """Decides by the state that the facts so far add up to."""

    def __init__(self, facts: list[tuple[int, int, str, str, Event]]) -> None:
        self._facts, self._state, self._folded = facts, EMPTY, 0

    @property
    def state(self) -> State:
        """After all facts."""
        for offset in range(self._folded, len(self._facts)):
            time_ms, term, by, cause, event = self._facts[offset]
            stamp = Stamp(offset=offset, term=term, time_ms=time_ms, principal=by, cause=cause, request_id="")
            self._state = evolve(self._state, event, stamp)
        self._folded = len(self._facts)
        return self._state

    def events(self, command: Command, now_ms: int, term: int) -> tuple[Event, ...]:
        """What comes of a command; nothing of one that is refused."""
        context = Context(now_ms=now_ms, term=term, policy=PolicySettings(), live=Unheard())
        decision = decide(self.state, command, context)
        return decision.events if isinstance(decision, Decision) else ()


def held(sample: "SampleLog", hours: float) -> None:
    """All of it, spread over the night."""
    length = hours * 3_600_000

    def at(share: float, act: Iterable[Command]) -> None:
        sample.later(length * share, lambda: sample.all_decided(act))

    for number, (name, copies) in enumerate(SHARDS.items()):
        require = {"rack": "az-c"} if name == RED else {}
        spread = "rack" if copies > 1 else ""
        made = commands.CreateShard(shard=name, replication=copies, min_in_sync=1, spread=spread, require=require)
        at(0.17 + number / 10_000, [made])
    for number in range(CLIENTS):
        at(0.18 + number / 5_000, _client(sample, number))
    for turn in range(6):
        at(0.19 + turn / 40, _grow(sample, turn))
    for share in (0.215, 0.33, 0.345, 0.36, 0.37):
        at(share, _mend(sample))
    at(0.5, [commands.DeleteShard(shard="old")])
    at(0.6, _comes_again(sample))


def _client(sample: "SampleLog", number: int) -> Iterable[Command]:
    """A client of one of three brokers subscribes; each fifth has a will, each fourth goes again."""
    client, member = f"sensor/{number:02d}", f"mqtt-{(1, 2, 5)[number % 3]}"
    will = Will(topic=f"lost/{number:02d}", payload=b"gone", qos=1, delay_s=30) if number % 5 == 0 else None
    epoch = sample.controller.state.members[member].epoch
    yield commands.OpenSession(
        client=client, clean_start=False, expiry_s=360_000, member=member, member_epoch=epoch, will=will
    )
    mine = sample.controller.state.sessions[client].session_epoch
    filters = [f"commands/{number:02d}/#", "alarms/+", "time", f"site/{number % 7}/+/state"][: 1 + number % 4]
    added = tuple(Subscription(filter=one, qos=number % 3) for one in filters)
    yield commands.PutSubscriptions(client=client, session_epoch=mine, added=added)
    if number % 4 == 0:
        yield commands.CloseSession(client=client, session_epoch=mine)


def _comes_again(sample: "SampleLog") -> Iterable[Command]:
    """Some clients of the broker that stays silent go to another one."""
    for number in (1, 4, 7):
        client, member = f"sensor/{number:02d}", sample.controller.state.members["mqtt-6"]
        yield commands.OpenSession(
            client=client, clean_start=False, expiry_s=360_000, member="mqtt-6", member_epoch=member.epoch
        )


def _led(segment: Segment) -> ByLeader:
    return ByLeader(leader=segment.leader, leader_epoch=segment.leader_epoch, member_epoch=segment.member_epoch)


def _grow(sample: "SampleLog", turn: int) -> Iterable[Command]:
    """The two busy shards begin their next segments."""
    for name in ("orders", "invoices"):
        newest = last(sample.controller.state, name)
        assert newest is not None
        end = newest.start_offset + 40_000 + 1_000 * turn
        yield commands.NextSegment(shard=name, current=turn, end_offset=end, by=_led(newest))


def _mend(sample: "SampleLog") -> Iterable[Command]:
    """Leaders that are not there, or to leave, are followed by others; then leaders drop who is not there."""
    state = sample.controller.state
    every = [name_of(name, number) for name in sorted(state.shards) for number in sorted(state.segments.get(name, {}))]
    wanting = [name for name in every if wants_leader(state, _named(state, name))]
    yield commands.ElectSegmentLeaders(segments=tuple(wanting))
    for name in every:
        state = sample.controller.state
        segment = _named(state, name)
        new = tuple(copy for copy in segment.in_sync if fit(state, copy.member, copy.member_epoch))
        if fit(state, segment.leader, segment.member_epoch) and new != segment.in_sync:
            yield commands.AlterInSync(segment=name, by=_led(segment), set_epoch=segment.set_epoch, new=new)


def _named(state: State, name: str) -> Segment:
    shard, _, number = name.rpartition("/")
    return state.segments[shard][int(number)]
