"""What the controller asks of the world beside consensus: peers to talk to, brokers to call, a place for its lines."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.ports import RaftEngine
from quorate.controller.in_flight import Flights
from quorate.controller.listeners import Listeners
from quorate.controller.machine import ReplicatedState
from quorate.controller.outcomes import Outcome
from quorate.metadata.commands import Command
from quorate.metrics import Metrics
from quorate.model.state import Topic

DialResult = Literal["accepted", "refused", "unknown"]
Submit = Callable[[Command, Callable[[Outcome], None]], None]
"""Has this node decide a command, if it leads."""


class RoleChange(msgspec.Struct, frozen=True, gc=False):
    """What 1008 tells a broker (Java ``NotifyBrokerRoleChangedRequestHeader`` and its body)."""

    master: int
    master_address: str
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    members: Mapping[int, str] = {}
    """Ours, where a member is told of another one: registered id → address. Empty: it is an election that is told."""


class BrokerLink(Protocol):
    """Calls *to* brokers. Every call ends in its callback, within a deadline of the link's own."""

    def notify(self, address: str, change: RoleChange, done: Callable[[bool], None]) -> None:
        """Push a role change; ``done(True)`` when the broker acknowledged it."""

    def dial(self, address: str, done: Callable[[DialResult], None]) -> None:
        """Try to connect: ``refused`` proves that nobody listens there; ``unknown`` proves nothing."""


class TopicLink(Protocol):
    """What the controller asks and tells brokers of topics. Every call ends in its callback, within a deadline."""

    def ask_topic(self, address: str, topic: str, done: Callable[[Mapping[str, Topic] | None], None]) -> None:
        """The topic by its name, nothing where the broker has none; None: it did not say."""

    def ask_all_topics(self, address: str, done: Callable[[Mapping[str, Topic] | None], None]) -> None:
        """Every topic of the broker by its name; None: it did not say."""

    def put_topic(self, address: str, topic: Topic, before: Topic | None, done: Callable[[bool], None]) -> None:
        """Make the topic, or make what was ``before`` so; ``done(True)`` when the broker acknowledged it."""


class PeerLink(Protocol):
    """Messages between controllers, beside consensus."""

    def send(self, peer: int, kind: int, payload: bytes) -> bool:
        """Hand over to the link; False = there is no connection, provably nothing was sent."""


class CommandLine(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The one canonical line of a command: what was asked, by whom, how it ended, how long it took."""

    command: str
    principal: str
    address: str = ""
    origin: str = ""
    cause: str = ""
    request_id: str = ""
    outcome: str
    detail: str = ""
    term: int
    offset: int = -1
    took_us: int


class CommandLog(Protocol):
    """Takes the canonical lines; must not block."""

    def __call__(self, line: CommandLine, /) -> None:
        """One command ended."""


class ControllerPorts(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller works with; the engine and the machine it applies to are whole before there is one."""

    engine: RaftEngine
    machine: ReplicatedState
    flights: Flights
    """The machine's."""
    listeners: Listeners
    """The machine tells them too."""
    scheduler: Scheduler
    peers: PeerLink
    metrics: Metrics
    command_log: CommandLog | None = None
