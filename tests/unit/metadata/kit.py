"""Given, when, then for the rules: a state made by commands, a live table made by hand."""

from typing import Any, TypeVar

import msgspec

from quorate.events import Event, NodeAddresses, Stamp, Voter, decode, encode
from quorate.metadata import commands
from quorate.metadata.commands import Command, Refusal, Reply
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.model.evolve import evolve
from quorate.model.live import MemberHealth, NoMembers
from quorate.model.state import EMPTY, BrokerSet, State
from quorate.slices import Steps

R = TypeVar("R", bound=Reply)
Made = TypeVar("Made")

ADDRESSES = NodeAddresses(rpc="h:1", raft="h:2", kafka="h:3", http="h:4")
CREATE = commands.CreateCluster(
    cluster_id="c1", voters=(Voter(id=1, dir_uuid="u1", addresses=ADDRESSES),), feature_level=1
)


class Info(msgspec.Struct, frozen=True):
    """What a broker reported."""

    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    priority: int = 2**31 - 1
    last_heartbeat_ms: int = 0


class Live:
    """A live table: ids not named were never heard."""

    def __init__(self) -> None:
        self.living: dict[tuple[str, str, int], bool] = {}
        self.infos: dict[tuple[str, str, int], Info] = {}
        self.suspects: set[tuple[str, str, int]] = set()

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        return (cluster, broker_set, broker_id) in self.suspects

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        return self.living.get((cluster, broker_set, broker_id))

    def info(self, cluster: str, broker_set: str, broker_id: int) -> Info | None:
        return self.infos.get((cluster, broker_set, broker_id))


class Heard(NoMembers):
    """What is heard of members: of those not named nobody knows."""

    def __init__(self) -> None:
        self.living: dict[tuple[str, int], bool] = {}
        self.said: dict[tuple[str, int], MemberHealth] = {}
        self.at_ms: dict[tuple[str, int], int] = {}

    def alive(self, name: str, epoch: int) -> bool | None:
        return self.living.get((name, epoch))

    def health(self, name: str, epoch: int) -> MemberHealth | None:
        return self.said.get((name, epoch))

    def last_heard_ms(self, name: str, epoch: int) -> int:
        return self.at_ms.get((name, epoch), 0)


class World:
    """A state and what surrounds it; ``do`` decides and applies."""

    def __init__(self, policy: PolicySettings | None = None) -> None:
        self.state: State = EMPTY
        self.policy = policy or PolicySettings()
        self.live = Live()
        self.members = Heard()
        self.offset = 0
        self.term = 1
        self.now_ms = 1_000
        self.log: list[tuple[Event, Stamp]] = []

    def context(self) -> Context:
        return Context(
            now_ms=self.now_ms,
            term=self.term,
            next_revision=self.offset,
            policy=self.policy,
            live=self.live,
            members=self.members,
        )

    def decide(self, command: Command) -> Decision | Refusal:
        return decide(self.state, command, self.context())

    def do(self, command: Command) -> Decision | Refusal:
        """Decide, send each event through its bytes, apply it."""
        outcome = self.decide(command)
        if isinstance(outcome, Decision):
            for event in outcome.events:
                stamp = Stamp(offset=self.offset, term=self.term, time_ms=self.now_ms)
                self.state = evolve(self.state, decode(encode(event)), stamp)
                self.log.append((event, stamp))
                self.offset += 1
        return outcome

    def reply(self, command: Command, kind: type[R]) -> R:
        """Do it, and expect this kind of answer."""
        outcome = self.do(command)
        assert isinstance(outcome, Decision), outcome
        assert isinstance(outcome.reply, kind), outcome
        return outcome.reply

    def refused(self, command: Command) -> Refusal:
        """Do it, and expect a refusal, after which nothing has changed."""
        before = self.state
        outcome = self.do(command)
        assert isinstance(outcome, Refusal), outcome
        assert self.state is before
        return outcome

    def events(self, command: Command) -> tuple[Event, ...]:
        """Do it, and return what it wrote."""
        outcome = self.do(command)
        assert isinstance(outcome, Decision), outcome
        return outcome.events

    def heard(self, broker_id: int, *, alive: bool = True, name: str = "a", cluster: str = "C", **said: Any) -> None:
        """A heartbeat came from it, or (``alive`` False) its time is over."""
        self.live.living[cluster, name, broker_id] = alive
        if said:
            self.live.infos[cluster, name, broker_id] = Info(**said)

    def broker(self, broker_id: int, name: str = "a", *, alive: bool = True) -> None:
        """A broker applies for its id, registers, and beats."""
        self.reply(applying(broker_id, name), commands.BrokerIdApplied)
        self.reply(registering(broker_id, name), commands.BrokerIsRegistered)
        self.heard(broker_id, name=name, alive=alive)

    def member(self, name: str, incarnation: str = "1", **said: Any) -> int:
        """A member registers and catches up; its epoch."""
        fields = {"timeout_ms": 9_000, **said, "name": name, "incarnation": incarnation}
        epoch = self.reply(commands.RegisterMember(**fields), commands.MemberIs).registered_epoch(self.offset)
        self.reply(commands.HearMember(name=name, epoch=epoch, applied_revision=epoch), commands.MemberIs)
        return epoch

    def set_of(self, *ids: int, in_sync: tuple[int, ...] = ()) -> BrokerSet:
        """A set of living brokers with the first one as master, and these in sync."""
        for broker_id in ids:
            self.broker(broker_id)
        self.reply(commands.ElectMaster(broker_set="a", broker_id=ids[0]), commands.MasterIs)
        if in_sync:
            self.reply(altering(self.a, *in_sync), commands.SyncStateSetIs)
        return self.a

    @property
    def a(self) -> BrokerSet:
        return self.state.broker_sets["a"]


def applying(broker_id: int | None, name: str = "a", code: str | None = None) -> commands.ApplyBrokerId:
    """1013 by a broker whose check code follows from its id."""
    return commands.ApplyBrokerId(
        cluster="C",
        broker_set=name,
        broker_id=broker_id,
        register_check_code=f"10.0.0.{broker_id}:10911;77" if code is None else code,
    )


def registering(broker_id: int, name: str = "a", address: str | None = None, **more: object) -> commands.RegisterBroker:
    """1003 by a broker at the address of its check code, unless told otherwise."""
    fields = {"cluster": "C", "broker_set": name, "broker_id": broker_id, **more}
    return msgspec.convert({**fields, "address": address or f"10.0.0.{broker_id}:10911"}, commands.RegisterBroker)


def altering(found: BrokerSet, *new: int, **other: int) -> commands.AlterSyncStateSet:
    """As the present master would ask; ``other`` overrides a field."""
    command = commands.AlterSyncStateSet(
        broker_set=found.name,
        master=found.master or 0,
        master_epoch=found.master_epoch,
        sync_state_set=new,
        sync_state_set_epoch=found.sync_state_set_epoch,
    )
    return msgspec.structs.replace(command, **other)


LOST = commands.ElectMaster(
    broker_set="a", trigger="master lost", evidence="connection closed", last_heartbeat_ms=900, detected_ms=950
)
"""The controller noticed that the master of set ``a`` is gone."""


def counted(steps: Steps[Made]) -> tuple[Made, int]:
    """What the steps come to, and how many turns they gave in between."""
    turns = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Made = end.value
            return found, turns
        turns += 1
