"""Who a data directory is, and what it may do: the small file beside journal and store.

Rules: a voter is its node id *and* its directory's incarnation, an id made once with the directory. What the file
says is replaced whole and is durable before anybody acts on it. A directory that may have forgotten a vote says so here
(``may_not_vote``), outside the store, so that it stays said whatever becomes of the store. A file that is missing or
damaged beside a store that had one is made again from the store's identity, and then says that it may not vote.

Theory. Each start is a *life* with an id of its own; the file lists them, so each names the one before. Other voters
keep the last life they met of this node. A life they met that is not in the list was lived by another copy of the
directory: what was voted and acknowledged then is not known here (consensus/raft/rejoin.py says how it comes back).
A file knows the place it was written at (``consensus.storage.disk.FileVoterFile``): one that stands elsewhere was
copied, and then the directory it was copied from may have gone on.

A voter's new directory is heard once its name is durable here, and not only in the store, which is synced seldom: a
node that took its store's older word for the newest would hear the directory that was given up, whose place another
one has taken in elections, and refuse that one (docs/adr/0065).
"""

import threading
from collections.abc import Callable, Mapping
from typing import Protocol
from zlib import crc32

import msgspec

from quorate.consensus.ports import DiskWorker, NodeId
from quorate.consensus.storage.store import Identity
from quorate.errors import StorageError, UsageError

VOTER_FORMAT = 1
LIVES_MAX = 1000
"""Lives a file lists. A voter that met an older one only is taken for one that met another copy."""
COPIED = "this directory is a copy: what it was copied from may have voted and acknowledged since"
MISSING = "voter.json was missing"
DAMAGED = "voter.json was damaged"


class VoterFileContent(msgspec.Struct, frozen=True, gc=False):
    """What was read: ``copied`` when it does not stand where it was written."""

    data: bytes
    copied: bool


class VoterFile(Protocol):
    """One small file. ``FileVoterFile`` (consensus/storage/disk.py); ``MemoryVoterFile`` in tests."""

    def read(self) -> VoterFileContent | None:
        """What was written last; None when there is no file. Raises StorageError."""

    def replace(self, data: bytes) -> None:
        """All or nothing; durable when it returns. Raises StorageError.

        Called at start, on the worker's thread, and on the loop's when a node fails: the caller sees to one at a time.
        """


class PeerLife(msgspec.Struct, frozen=True, gc=False):
    """The last life met of another voter."""

    incarnation: str
    life: str


class Voter(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the file says. A new field needs a default."""

    format_version: int = VOTER_FORMAT
    cluster_id: str
    node_id: int
    incarnation: str
    """Id of this directory, a uuid."""
    begun: bool = False
    """A journal was made: one that is missing was lost."""
    admitted: bool = False
    """It is known to be one of the founders, or has come in or back since, and learned all it needs to vote."""
    lives: tuple[str, ...] = ()
    """Ids of the starts of this directory, the latest last."""
    met: dict[int, PeerLife] = {}
    """By node id."""
    named: dict[int, str] = {}
    """The directories of the other voters, by node id, as the log named them when it was last applied here."""
    may_not_vote: str = ""
    """Why it may have forgotten votes or acknowledgements; empty when it has not."""
    rebuild_store: str = ""
    """Why the store is to be thrown away and fetched from the leader; empty when it is sound."""


class Directory:
    """The file's content in memory, and its changes. Made by ``open``. Belongs to the loop's thread."""

    def __init__(self, file: VoterFile, voter: Voter) -> None:
        self._file = file
        self.voter = voter
        self._changes = 0
        self._written = 0
        """How many changes the file holds. Guarded by ``_writing``, as the file is."""
        self._writing = threading.Lock()
        self._meeting: set[int] = set()
        self._naming: set[int] = set()

    @classmethod
    def open(
        cls,
        file: VoterFile,
        *,
        cluster_id: str,
        node_id: NodeId,
        store: Identity | None,
        fresh: str,
        check: Callable[[str], None] = lambda _incarnation: None,
    ) -> "Directory":
        """The directory of this node: as found, or new with the incarnation ``fresh``. Durable when it returns.

        ``store``: the identity in the store beside it, which must be the same. ``check`` is told the incarnation before
        anything is written, and raises UsageError if what else lies here is another's. Raises UsageError, naming the
        difference, if it is another's; StorageError if it is damaged and nothing tells who it was.
        """
        content = file.read()
        voter = None if content is None else decode_voter(content.data)
        if voter is None:
            if content is not None and store is None:
                raise StorageError(
                    "voter.json is damaged and there is no store to tell whose directory this is: restore the file, or "
                    "remove the whole data directory and have the node rebuilt (quorate member rebuild)"
                )
            voter = _from_store(store, cluster_id, node_id, fresh, MISSING if content is None else DAMAGED)
        check_voter(voter, cluster_id, node_id)
        if store is not None:
            _same("the store", store.cluster_id, store.node_id, cluster_id, node_id)
            if store.dir_uuid != voter.incarnation:
                raise UsageError(
                    f"the store belongs to directory {store.dir_uuid}, voter.json to {voter.incarnation}: put back "
                    "the store that belongs here"
                )
        check(voter.incarnation)
        directory = cls(file, voter)
        if content is not None and content.copied and voter.begun:
            directory.voter = msgspec.structs.replace(voter, may_not_vote=voter.may_not_vote or COPIED)
        if content is None or content.copied or directory.voter != voter:
            directory.save()
        return directory

    @property
    def node_id(self) -> NodeId:
        """Whose it is."""
        return NodeId(self.voter.node_id)

    @property
    def incarnation(self) -> str:
        """Id of the directory, a uuid."""
        return self.voter.incarnation

    @property
    def life(self) -> str:
        """Id of this start; empty before ``begin``."""
        return self.voter.lives[-1] if self.voter.lives else ""

    @property
    def may_not_vote(self) -> str:
        """Why it may not; empty when it may."""
        return self.voter.may_not_vote

    @property
    def rebuild_store(self) -> str:
        """Why the store is to be fetched from the leader; empty when it is sound."""
        return self.voter.rebuild_store

    def knows(self, life: str) -> bool:
        """Was it lived here?"""
        return life in self.voter.lives

    def met(self, peer: NodeId) -> PeerLife | None:
        """The last life met of another voter."""
        return self.voter.met.get(peer)

    def met_durably(self, peer: NodeId) -> bool:
        """Would this be known after a crash now?"""
        return peer in self.voter.met and peer not in self._meeting

    def named(self, peer: NodeId) -> str:
        """The directory of another voter, as the log named it when it was last applied here; empty if it did not."""
        return self.voter.named.get(peer, "")

    def named_durably(self, peer: NodeId) -> bool:
        """Would a crash now leave it the directory it had before?"""
        return peer not in self._naming

    # ── changes: at start, durable at once ──

    def begin(self, life: str) -> None:
        """Another start, which others may meet from now on. One that says nothing to anybody takes no place in the
        list: a thousand of them would drive out the life that the others met. Raises StorageError.
        """
        self.save(begun=True, lives=(*self.voter.lives, life)[-LIVES_MAX:])

    def forbid_vote(self, reason: str) -> None:
        """Durably, *before* anything that was forgotten is replaced. Raises StorageError."""
        self.save(may_not_vote=reason)

    def want_store(self, reason: str) -> None:
        """The store is damaged: it will be fetched from the leader. Durable. Raises StorageError."""
        self.save(rebuild_store=reason)

    def save(self, **changes: object) -> None:
        """Make the changes, and all made before, durably, now: at start, and when the node has failed. Raises
        StorageError.
        """
        self._change(changes)()

    # ── changes: while running, durable when ``done`` is called ──

    def meet(
        self, peer: NodeId, incarnation: str, life: str, worker: DiskWorker | None, done: Callable[[], None]
    ) -> None:
        """Another life of a peer."""
        met = PeerLife(incarnation, life)
        self._meeting.add(peer)

        def durable() -> None:
            if self.voter.met.get(peer) == met:
                self._meeting.discard(peer)
            done()

        self.save_later(worker, durable, met={**self.voter.met, int(peer): met})

    def name(self, names: Mapping[int, str], worker: DiskWorker | None, done: Callable[[], None]) -> None:
        """The log names these directories of other voters."""
        changed = {peer for peer, name in names.items() if self.voter.named.get(peer, name) != name}
        self._naming |= changed

        def durable() -> None:
            self._naming -= {peer for peer in changed if self.voter.named[peer] == names[peer]}  # Each for itself.
            done()

        self.save_later(worker, durable, named={**self.voter.named, **names})

    def save_later(self, worker: DiskWorker | None, done: Callable[[], None] | None = None, **changes: object) -> None:
        """Make the changes in memory now, on disk when the worker comes to it. Without a worker: at once."""
        write, then = self._change(changes), done or _nothing
        if worker is None:
            write()
            then()
        else:
            worker.submit(write, then)

    def _change(self, changes: Mapping[str, object]) -> Callable[[], None]:
        """Make the changes in memory. What puts them on disk, on any thread: never an older file over a newer one."""
        self.voter = msgspec.structs.replace(self.voter, **changes)
        self._changes = number = self._changes + 1
        data = encode_voter(self.voter)

        def write() -> None:
            with self._writing:
                if self._written < number:
                    self._file.replace(data)
                    self._written = number

        return write


def encode_voter(voter: Voter) -> bytes:
    """As it stands in the file: JSON, and a line with its checksum."""
    voter = msgspec.structs.replace(voter, met=dict(sorted(voter.met.items())), named=dict(sorted(voter.named.items())))
    text = msgspec.json.format(msgspec.json.encode(voter), indent=1)
    return b"%s\n%08x\n" % (text, crc32(text))


def decode_voter(data: bytes) -> Voter | None:
    """What the file says; None if it is damaged. Raises StorageError for a newer version."""
    text, _, rest = data.rpartition(b"}\n")
    text += b"}"
    if rest != b"%08x\n" % crc32(text):
        return None
    try:
        voter = msgspec.json.decode(text, type=Voter)
    except msgspec.DecodeError as error:
        raise StorageError(f"voter.json: {error}") from error
    if voter.format_version != VOTER_FORMAT:
        raise StorageError(f"voter.json of format {voter.format_version} is not known to this version")
    return voter


def check_voter(voter: Voter, cluster_id: str, node_id: NodeId) -> None:
    """Is the file this node's? Raises UsageError, naming the difference."""
    _same("voter.json", voter.cluster_id, voter.node_id, cluster_id, node_id)


def _from_store(store: Identity | None, cluster_id: str, node_id: NodeId, fresh: str, lost: str) -> Voter:
    """A file for a directory that has none: new, of a version that had none, or one that lost it."""
    if store is None:
        return Voter(cluster_id=cluster_id, node_id=node_id, incarnation=fresh)
    had_none = store.format_version < 2
    return Voter(
        cluster_id=store.cluster_id,
        node_id=store.node_id,
        incarnation=store.dir_uuid,
        begun=True,
        admitted=had_none,
        may_not_vote="" if had_none else lost,
    )


def _same(what: str, cluster_id: str, node_id: int, our_cluster: str, our_node: int) -> None:
    if cluster_id != our_cluster:
        raise UsageError(f"the data directory ({what}) belongs to cluster_id {cluster_id!r}, not {our_cluster!r}")
    if node_id != our_node:
        raise UsageError(f"the data directory ({what}) belongs to node_id {node_id!r}, not {our_node!r}")


def _nothing() -> None:
    """Nobody waits."""
