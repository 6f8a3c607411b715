"""The dashboard's state of a cluster at an offset: immutable values that share what did not change.

Rules: everything here is a sum of events and nothing else; a value never changes. ``offset`` of a state counts the
events in it; every other offset is the place of one event in the log. Times are epoch milliseconds.
"""

import msgspec
from immutables import Map

from quorate.events import NodeAddresses
from quorate.model.brokers import UNSET_PRIORITY
from quorate.model.ordered import OrderedMap
from quorate.model.state import State as Model

STATUSES = ("lost", "last", "flap", "shrunk", "new", "full")
"""The words for a set's condition, worst first."""
RECENT_MAX = 32
"""Elections of a set whose times are remembered in its state; flapping is judged by them."""


class _Value(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base of all values here."""


class AcknowledgedRole(_Value, frozen=True, kw_only=True):
    """The last role change a broker acknowledged."""

    role: str
    """``master`` or ``slave``."""
    epoch: int
    offset: int


class Member(_Value, frozen=True, kw_only=True):
    """One broker of a set."""

    id: int
    addr: str
    registered: bool = False
    fenced: bool = False
    why: str = "not registered yet"
    """Why it does not count as alive; empty when it does."""
    since: int
    """When it became alive, or stopped being so."""
    priority: int | None = None
    """As the last election saw it."""
    reported: AcknowledgedRole | None = None

    @property
    def alive(self) -> bool:
        """The log's word: registered and not fenced."""
        return self.registered and not self.fenced


class BrokerSet(_Value, frozen=True, kw_only=True):
    """One broker set, and what an operator asks about it."""

    name: str
    cluster: str
    members: tuple[Member, ...] = ()
    """By id."""
    half: bool = False
    """The model knows only its ids."""
    master: int | None = None
    master_since: int | None = None
    master_offset: int | None = None
    epoch: int = 0
    sync: tuple[int, ...] = ()
    sync_epoch: int = 0
    sync_since: int | None = None
    lost_at: int | None = None
    """Since when there is no master, or it is away: fenced or cleaned since it was elected (``brokers.fault_of``)."""
    lost_estimated: bool = False
    """Is that the last heartbeat of a master that fell silent?"""
    lost_offset: int | None = None
    """The event that said so."""
    last_failed: int | None = None
    failure: str = ""
    """The explanation of that failed election."""
    elections: int = 0
    recent: tuple[int, ...] = ()
    """Times of the latest elections but the first one of all, at most RECENT_MAX."""
    touched: int = 0
    status: str = "new"
    """One of STATUSES as far as it does not depend on the clock; ``flap`` does."""
    alive: int = 0
    """Members alive."""
    diverged: tuple[int, ...] = ()
    """Living members that acknowledged an older epoch, where there is a master to follow."""

    def member(self, broker_id: int | None) -> Member | None:
        """The member with this id. Sets have a handful: a scan beats a map."""
        for member in self.members:
            if member.id == broker_id:
                return member
        return None


class Leader(_Value, frozen=True, kw_only=True):
    """The controller that leads, and how it came to."""

    node_id: int
    term: int
    offset: int
    since: int
    previous: int | None
    cause: str
    silent_for_ms: int


def said_priority(reported: int | None) -> int | None:
    """None too for a broker that set none."""
    return None if reported == UNSET_PRIORITY else reported


def settled(broker_set: BrokerSet) -> BrokerSet:
    """The set with what follows from its other fields."""
    return msgspec.structs.replace(
        broker_set,
        status=_status(broker_set),
        alive=sum(member.alive for member in broker_set.members),
        diverged=_diverged(broker_set),
    )


def _status(broker_set: BrokerSet) -> str:
    """A master that is elected while it is fenced is not lost: only what comes after its election says so."""
    if broker_set.lost_at is not None:
        return "lost"
    if broker_set.master is None:
        return "new"
    if len(broker_set.sync) == 1 and len(broker_set.members) > 1:
        return "last"
    return "full" if len(broker_set.sync) >= len(broker_set.members) else "shrunk"


def _diverged(broker_set: BrokerSet) -> tuple[int, ...]:
    """Alive members that have not taken the master's epoch; whoever is in sync with that master has."""
    if broker_set.master is None or broker_set.lost_at is not None:
        return ()
    behind = (m for m in broker_set.members if m.reported and m.reported.epoch < broker_set.epoch and m.alive)
    return tuple(m.id for m in behind if m.id not in broker_set.sync)


class Node(_Value, frozen=True, kw_only=True):
    """A controller node at its last start (``started`` None: it has not started yet)."""

    id: int
    addresses: NodeAddresses
    version: str = ""
    started: int | None = None


class State(_Value, frozen=True, kw_only=True):
    """Everything the first ``offset`` events add up to."""

    offset: int = 0
    time: int | None = None
    """Of the last event; None before the first."""
    term: int = 0
    model: Model = Model()
    """The controller's own state; beside it stands what it does not keep."""
    leader: Leader | None = None
    nodes: Map[int, Node] = Map()
    """Voters that have not started yet, too."""
    sets: Map[str, BrokerSet] = Map()
    """Each as the model has it, with its times."""
    leases: OrderedMap[int] = OrderedMap()
    """In the order of their numbers (``lease_name``): the event that granted each."""


def lease_name(lease: int) -> bytes:
    """A lease in the order of its number as it is printed."""
    return (lease % (1 << 64)).to_bytes(8, "big")


EMPTY = State()
"""Before the first event."""
