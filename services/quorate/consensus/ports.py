"""What consensus asks of the world, and what the controller may ask of consensus.

Rules: everything here runs on the node's one thread, except a ``DiskWorker``'s job. Nothing awaits: a result comes
back through a callback. The simulator replaces ``Scheduler``, ``random.Random``, ``Network``, ``Disk`` + ``DiskWorker``
and ``Store``, and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NewType, Protocol, TypeVar

import msgspec

from quorate.errors import StorageError

NodeId = NewType("NodeId", int)
Term = NewType("Term", int)
TERM_MAX = Term((1 << 31) - 1)
"""The last one: a record batch says the term it was written in as an int32, its leader epoch."""
Index = NewType("Index", int)
"""A Raft log position, from 1. (An *offset* counts events, from 0; the two are never mixed.)"""
MAX_ENTRY_BYTES = 4 * 1024 * 1024 - 4096
"""Every node takes entries of so many bytes, and none a longer one. A segment of the journal holds one."""
MAX_ROW_BYTES = 6 * 1024 * 1024
"""No row of the state is longer: what would make one so is refused before it is written (metadata/row_bounds.py). A
frame holds one: between voters, in a snapshot, and to the process that replays. Old logs may have made longer ones."""

Family = Literal["meta", "rows", "requests", "events", "groups", "history", "staged"]
"""Key spaces of the store: see consensus/storage/store.py for what each holds."""


class StoreOp(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One put (``value`` bytes) or delete (``value`` None) in one family."""

    family: Family
    key: bytes
    value: bytes | None


class Store(Protocol):
    """An ordered key-value store with atomic, unsynced writes. ``RocksStore``; in tests ``MemoryStore``."""

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value now."""

    def scan(self, family: Family, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < stop`` in key order, as of the call."""

    def last(self, family: Family) -> tuple[bytes, bytes] | None:
        """The pair with the greatest key."""

    def write(self, ops: Sequence[StoreOp]) -> None:
        """All or nothing; visible at once; *not* synced. Raises StorageError."""

    def sync(self) -> None:
        """Make everything written before this call durable. Called on the disk worker's thread. Raises StorageError."""

    def close(self) -> None:
        """Release it; what was not synced may be lost. Raises StorageError."""

    def damaged(self, reason: object) -> StorageError:
        """The error to raise for what was read from the store and cannot be what was written; the node will stop."""


StoreT_co = TypeVar("StoreT_co", bound=Store, covariant=True)


class StorePlace(Protocol[StoreT_co]):
    """Where a node's store lies. Used only at start."""

    def open(self, *, must_exist: bool) -> StoreT_co:
        """The store, or a new one. Raises StoreDamagedError for one that is damaged, or missing but ``must_exist``."""

    def set_aside(self, tag: str) -> None:
        """Move the store out of the way, and keep it for inspection under a name with ``tag``; those kept before go.
        Called again with the same tag (after a crash), it removes what was begun in its place. Raises StorageError.
        """


class Disk(Protocol):
    """The files of one journal directory; calls may raise StorageError. Used on the worker's thread (or at start)."""

    def names(self) -> list[str]:
        """File names present, sorted."""

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Bytes of a file; short at its end."""

    def peek(self, name: str, offset: int, size: int) -> bytes | None:
        """Bytes of a file as they lie there, short at its end; None if there is no such file. From any thread."""

    def create(self, name: str, size: int) -> None:
        """A new file of ``size`` zero bytes, written (not only allocated) and synced, its directory entry too."""

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Overwrite in place; not synced."""

    def sync(self, name: str) -> None:
        """``fdatasync`` the file. A failure is final: the caller stops the node."""

    def remove(self, name: str) -> None:
        """Unlink, and sync the directory."""


class DiskWorker(Protocol):
    """One dedicated thread that runs jobs in the order given and reports each back on the node's thread."""

    def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Run ``job`` off the loop, then ``done`` on it. If ``job`` raises, the node stops: ``done`` never runs."""

    def pending(self) -> int:
        """Jobs submitted and not yet reported done."""


class Syncer(Protocol):
    """Makes writes durable without a thread. One at a time; belongs to the node's thread."""

    def write(self, name: str, offset: int, data: bytes, done: Callable[[], None]) -> bool:
        """Overwrite in place and begin to sync; ``done``, later, when that is durable. False: it does not, and the disk
        worker must, also what may be written already. A sync that fails stops the node. Raises StorageError.
        """


class Network(Protocol):
    """Unreliable, unordered-across-reconnects datagrams between voters; frames are bytes made by
    consensus/transport/codec.py.
    """

    def send(self, peer: NodeId, frame: bytes) -> None:
        """Try to deliver; silently dropped without a connection. Leaves with the others of the turn, at its end."""

    def connected(self, peer: NodeId) -> bool:
        """Is there an open, authenticated connection *to* this peer?"""


class LeaderCause(msgspec.Struct, frozen=True, gc=False):
    """What the winner of an election saw; nothing is attributed beyond it."""

    kind: Literal["first start", "connection closed", "silent", "handed over"]
    previous_leader: NodeId | None = None
    silent_for_ms: int = 0


class Progress(msgspec.Struct, frozen=True, gc=False):
    """How far one voter's log is, as its leader knows it."""

    node_id: NodeId
    last_index: Index
    """Durable there (of the leader itself: appended)."""
    silent_s: float
    """Since the leader last heard of it."""


class Machine(Protocol):
    """The replicated state machine, as the engine sees it (implemented by controller/machine.py)."""

    def applied_index(self) -> Index:
        """The last index whose effects are in the store (may be ahead of the journal after a crash). 0 when new."""

    def applied_term(self) -> Term:
        """The term of the entry at ``applied_index``. 0 when new."""

    def apply(self, index: Index, term: Term, entry: bytes) -> None:
        """Execute one committed entry (``b''`` = a Raft no-op). Raises only to stop the node."""

    def applied(self) -> None:
        """End of a slice of applies: write the store, then answer callers."""

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        """``cause``: this node may now decide in ``term`` (its barrier is applied). None: it may no longer."""

    def snapshot_rows(self) -> Iterable[tuple[Family, bytes, bytes]]:
        """Every row of ``rows``, ``requests`` and ``groups`` as of ``applied_index`` at the call, read as it is
        iterated; what is applied later is not in it.
        """

    def prepare(self) -> Iterator[None]:
        """Read the store's new rows, some a step, without letting anybody see them. ``install`` comes next."""

    def install(self, index: Index, term: Term) -> None:
        """The store was replaced by a snapshot at ``index``, and ``prepare`` has read it: that is the state now."""


class RaftEngine(Protocol):
    """A Raft node: one log, one leader per term. Not thread-safe; nothing blocks."""

    node_id: NodeId
    voters: tuple[NodeId, ...]

    @property
    def term(self) -> Term:
        """The current term."""

    @property
    def leader_id(self) -> NodeId | None:
        """Who this node believes leads; None while unknown."""

    @property
    def is_leader(self) -> bool:
        """Is this node leader in ``term``? (It may have been deposed without knowing.)"""

    @property
    def commit_index(self) -> Index:
        """Highest index known committed."""

    @property
    def applied_index(self) -> Index:
        """Highest index applied here."""

    @property
    def caught_up(self) -> bool:
        """Has it applied all that is committed, or had it a moment ago (consensus/raft/caught_up.py)?"""

    @property
    def voting(self) -> bool:
        """False while this node may not vote: it lost its journal. An arriving snapshot does not matter."""

    @property
    def founders(self) -> Mapping[NodeId, str]:
        """Of the leader of a log without facts: the directories whose votes elected it, this node's too. Empty when
        nobody knows.
        """

    @property
    def waits_for(self) -> str:
        """Why this node cannot take part in elections, and what would help; empty when it can."""

    def forget(self, reason: str, done: Callable[[], None]) -> None:
        """What this node voted and acknowledged before may be more than it knows: from here on it counts for nothing,
        until it has come back like one that lost its journal. ``done`` when that is durable.
        """

    @property
    def followers_that_lost(self) -> int:
        """How often this leader had proof that a follower lost entries which it had acknowledged."""

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator must know, in sentences."""

    @property
    def installing(self) -> bool:
        """True while a snapshot arrives: the store is behind and jumps; the node is not ready."""

    @property
    def election_timeout_s(self) -> float:
        """The smallest election timeout in force here: it follows what the node measures of its own pace."""

    def decidable_term(self) -> Term:
        """``term`` when leader and its first entry of this term is applied and it is not handing over, else 0: no
        decision, no read before.
        """

    def propose(self, entry: bytes, term: Term) -> Index | None:
        """Append in ``term``; None = ``term`` is not (or no longer) decidable here, *provably nothing was proposed*.
        Raises UsageError for an entry of a size that is not allowed.
        """

    def progress(self) -> tuple[Progress, ...]:
        """Every voter, this node too; empty unless this node leads."""

    def read_index(self, done: Callable[[Index | None], None]) -> None:
        """Linearizable read on the leader: ``done(index)`` once a majority confirmed the leadership and ``index`` is
        applied; ``done(None)`` when it cannot be known. Batched per turn; always called, within the election
        timeout.
        """

    def read_barrier(self, done: Callable[[Index | None], None]) -> None:
        """Linearizable read on any node: ``done(index)`` once everything committed before this call is applied *here*.
        The leader is asked, one question per turn; needs no write of any journal. ``done(None)`` as in read_index.
        """

    def receive(self, peer: NodeId, frame: bytes) -> None:
        """A consensus frame from an authenticated peer. Raises PeerError if malformed (nothing changed)."""

    def peer_connected(self, peer: NodeId) -> None:
        """A connection to the peer is up."""

    def peer_disconnected(self, peer: NodeId) -> None:
        """The last connection to the peer closed; of the leader it hints at an election."""

    def transfer_leadership(self, to: NodeId | None = None) -> bool:
        """Ask the most caught-up (or the named) voter to campaign at once; False if not leader or nobody is fit."""

    def step_down(self, reason: str) -> None:
        """Stop leading now (storage trouble, lost invariants)."""

    def start(self) -> None:
        """Begin ticking."""

    def stop(self) -> None:
        """Stop ticking; no callback runs afterwards."""
