"""What survives beside the journal: the applied state, its index, the event batches.

Rules: a write is atomic and visible at once, durable only after ``sync``. After a kill the store may be *ahead* of the
journal, after a power loss *behind* what it was: both are normal, the journal is applied again from ``read_applied``
on. What is not normal is a store behind the journal's base: it lost what it had synced, and the leader must send its
state (a lone node does not start); nor a journal that holds less than was durable when the store was written
(``Applied.durable_seq``).

Families and keys (numbers are unsigned, 64 bits, big-endian, so that key order is number order):

========  ==================================  ============================================================
family    key                                 value
========  ==================================  ============================================================
meta      ``applied``                         ``Applied``: index, term, next offset, time_ms, durable_seq, sums
meta      ``identity``                        ``Identity``, msgpack
meta      ``term/`` + term                    first offset of that term's events (consensus/storage/event_log.py)
meta      ``consensus/…``                     the engine's own
rows      the entity's event key              its row (model/rows.py)
requests  the request's key                   its memory (metadata/requests.py)
events    offset of the batch's last event    the record batch, offset and epoch patched in
groups    the consumer group's key            its committed offsets
history   see history/checkpoints.py          rows of checkpoints of the state
staged    snapshot id, family, key            rows of an arriving snapshot (consensus/raft/staging.py)
========  ==================================  ============================================================

Batches have the offset of their *last* event as key: the first key at or after an offset is the batch that holds it.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import Struct as Layout
from typing import get_args
from weakref import WeakSet

import msgspec
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
)

from quorate.consensus.ports import Family, Index, Store, StoreOp, Term
from quorate.consensus.storage_settings import StoreSettings
from quorate.errors import StorageError, UsageError

FAMILIES: tuple[Family, ...] = get_args(Family)
FORMAT = 2
"""2: a voter file stands beside the store (consensus/storage/directory.py). 1 had none, and is read."""
_APPLIED_KEY = b"applied"
_IDENTITY_KEY = b"identity"
_APPLIED = Layout(">QQQQQ")
_APPLIED_BEFORE = Layout(">QQQQ")
"""Without ``durable_seq``."""
_OFFSET = Layout(">Q")
SUMS_BYTES = 64
"""Of ``Applied.sums``."""


STORE_REMEDY = (
    "start the node again: a damaged store is moved aside and made anew, "
    "from this node's own journal or from the leader"
)
"""What an operator is told when the store is not what was written."""


_WANTS = tuple(
    os.strerror(code)
    for code in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
    )
)
"""What RocksDB says, somewhere in its sentence, when it may not, or for want of something: what is stored is sound."""


class StoreDamagedError(StorageError):
    """What was read from the store is not what was written. The journal beside it may be sound."""

    @classmethod
    def at(cls, path: str, reason: object) -> "StoreDamagedError":
        """Which store, what was met, and what to do."""
        return cls(f"store {path} is damaged: {reason}; {STORE_REMEDY}")


class Applied(msgspec.Struct, frozen=True, gc=False):
    """How far the store has got."""

    index: Index
    term: Term
    """Term of the entry at ``index``."""
    next_offset: int
    time_ms: int
    """Time of the last event, wall-clock milliseconds."""
    sums: bytes = b""
    """What the rows written with it add up to (metadata/sums.py); empty where nobody had worked that out."""
    durable_seq: int = 0
    """Operations of this node's journal that were durable when it was written; 0 where nobody had said so."""


class Identity(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Whose data this is."""

    cluster_id: str
    node_id: int
    dir_uuid: str
    format_version: int = FORMAT


offset_key: Callable[[int], bytes] = _OFFSET.pack
"""A number as a key: key order is number order."""


def key_offset(key: bytes) -> int:
    """The number in the last 8 bytes of a key."""
    return int.from_bytes(key[-8:], "big")


def applied_ops(
    index: int, term: int, next_offset: int, time_ms: int, sums: bytes = b"", durable_seq: int = 0
) -> list[StoreOp]:
    """What to write with the effects of the entry at ``index``; ``sums``: of all rows after it. ``durable_seq``: the
    journal's, now.
    """
    return [StoreOp("meta", _APPLIED_KEY, _APPLIED.pack(index, term, next_offset, time_ms, durable_seq) + sums)]


def read_applied(store: Store) -> Applied | None:
    """How far the store has got; None when nothing was ever applied. Raises StorageError."""
    value = store.get("meta", _APPLIED_KEY)
    if value is None:
        return None
    layout = next((shape for shape in (_APPLIED, _APPLIED_BEFORE) if len(value) - shape.size in (0, SUMS_BYTES)), None)
    if layout is None:
        raise store.damaged(f"the applied index is {len(value)} bytes")
    index, term, next_offset, time_ms, *durable = layout.unpack_from(value)
    return Applied(Index(index), Term(term), next_offset, time_ms, value[layout.size :], *durable)


def read_identity(store: Store) -> Identity | None:
    """Whose data this is; None for a fresh store. Raises StorageError."""
    value = store.get("meta", _IDENTITY_KEY)
    if value is None:
        return None
    try:
        return msgspec.msgpack.decode(value, type=Identity)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise store.damaged(f"the identity cannot be read: {error}") from error


def claim_identity(store: Store, identity: Identity) -> None:
    """Write it into a fresh store, or one of an older format, durably. Raises UsageError, naming the difference, if it
    is somebody else's.
    """
    owner = read_identity(store)
    if owner is not None and owner.format_version < identity.format_version:
        owner = msgspec.structs.replace(owner, format_version=identity.format_version)
    elif owner is not None and owner == identity:
        return
    for name in Identity.__struct_fields__ if owner is not None else ():
        theirs, ours = getattr(owner, name), getattr(identity, name)
        if theirs != ours:
            raise UsageError(f"the data directory belongs to {name} {theirs!r}, not {ours!r}")
    store.write([StoreOp("meta", _IDENTITY_KEY, msgspec.msgpack.encode(identity))])
    store.sync()


class _Opened:
    """What a scan reads with, until the store is closed."""

    __slots__ = ("__weakref__", "cursor")

    def __init__(self, cursor: RdictIter) -> None:
        self.cursor: RdictIter | None = cursor


class RocksStore:
    """The ``Store`` port over RocksDB. Calls belong to the loop's thread, ``sync`` to the worker's.

    RocksDB writes its log into the page cache at once (so a kill loses nothing) and ``sync`` makes that log durable
    without holding the interpreter, so the loop goes on. It recovers to a *point in time*: a consistent prefix of the
    writes. (The mode that tolerates only a torn tail leaves a hole when an older log file lost its end and a newer one
    did not; and it refuses a tail of zeros, which is what a power loss leaves. That synced writes were not lost is
    checked against the journal's base.)

    ``must_exist``: this node had one, so that an empty one in its place is damage. Raises StoreDamagedError for one
    that is damaged or missing, StorageError for one that is in use, or that cannot be opened for want of room,
    descriptors or rights. A read may want those too, when it opens a table.
    """

    def __init__(self, path: str, settings: StoreSettings | None = None, *, must_exist: bool = False) -> None:
        settings = settings or StoreSettings()
        self.path = path
        self.on_damage: Callable[[StorageError], None] = _nobody
        """Told of a read that failed, of damage or not, before whoever read is: it may be a caller who goes on."""
        self._scans: WeakSet[_Opened] = WeakSet()
        """Those that somebody still reads, or may."""
        self._cache_bytes = settings.block_cache_bytes
        self._cache = cache = Cache(settings.block_cache_bytes)
        options = _options(settings, cache)
        options.create_if_missing(not must_exist)
        try:
            self._db = Rdict(path, options, {family: _options(settings, cache) for family in FAMILIES})
            self._families = {family: self._db.get_column_family(family) for family in FAMILIES}
            self._handles = {family: self._db.get_column_family_handle(family) for family in FAMILIES}
        except Exception as error:
            raise self._error(error) from error

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value now. Raises StorageError."""
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:
            raise self._unread(error) from error
        return value

    def scan(self, family: Family, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < stop`` in key order, as of the call; nothing is read before the first is asked
        for, and that may be by another thread. Raises StorageError.
        """
        try:
            opened = _Opened(self._families[family].iter())
        except Exception as error:
            raise self._unread(error) from error
        self._scans.add(opened)
        return self._walk(opened, start, stop)

    def _walk(self, opened: _Opened, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """An iterator of RocksDB simply ends at a block it cannot read: its status says why it ended. No name here
        holds it while others run: it must be gone when the store closes, whoever still holds the scan.
        """
        try:
            if opened.cursor is not None:
                opened.cursor.seek(start)
            while opened.cursor is not None and opened.cursor.valid():
                key: bytes = opened.cursor.key()
                if stop is not None and key >= stop:
                    return
                yield key, opened.cursor.value()
                if opened.cursor is not None:
                    opened.cursor.next()
            if opened.cursor is not None:
                opened.cursor.status()
                return
        except Exception as error:
            raise self._unread(error) from error
        raise StorageError(f"store {self.path}: it was closed while it was read")

    def last(self, family: Family) -> tuple[bytes, bytes] | None:
        """The pair with the greatest key. Raises StorageError."""
        try:
            cursor = self._families[family].iter()
            cursor.seek_to_last()
            if cursor.valid():
                return cursor.key(), cursor.value()
            cursor.status()
        except Exception as error:
            raise self._unread(error) from error
        return None

    def forget_reads(self) -> None:
        """Whatever is read from here on comes from the disk: no block stays in the cache, no page of a table in the
        kernel's. From any thread. Raises StorageError.
        """
        self._cache.set_capacity(0)
        self._cache.set_capacity(self._cache_bytes)
        for table in Path(self.path).glob("*.sst"):
            forget_pages(table)

    def _error(self, error: Exception) -> StorageError:
        """What kept RocksDB from opening or reading: damage, unless it is in use or wants something."""
        if "/LOCK:" in str(error) or any(want in str(error) for want in _WANTS):
            return StorageError(f"store {self.path}: {error}")
        return StoreDamagedError.at(self.path, error)

    def _unread(self, error: Exception) -> StorageError:
        failure = self._error(error)
        self.on_damage(failure)
        return failure

    def damaged(self, reason: object) -> StoreDamagedError:
        """The error for what a read met; ``on_damage`` hears of it."""
        error = StoreDamagedError.at(self.path, reason)
        self.on_damage(error)
        return error

    def write(self, ops: Sequence[StoreOp]) -> None:
        """All or nothing; visible at once; not synced. Raises StorageError, and then the node must stop."""
        batch = WriteBatch(raw_mode=True)
        handles = self._handles
        try:
            for op in ops:
                if op.value is None:
                    batch.delete(op.key, handles[op.family])
                else:
                    batch.put(op.key, op.value, handles[op.family])
            self._db.write(batch)
        except Exception as error:
            if "Corruption" in str(error):  # Met by a compaction in the background, and told to the next writer.
                raise self._unread(error) from error
            raise StorageError(f"store: {error}") from error

    def sync(self) -> None:
        """Make everything written before this call durable. Raises StorageError, and then the node must stop."""
        try:
            self._db.flush_wal(True)
        except Exception as error:
            raise StorageError(f"store sync: {error}") from error

    def close(self) -> None:
        """Release it, for whoever opens it next; what was not synced may be lost. A scan that somebody still holds can
        only fail from here on: RocksDB would stay open for it. Closing twice does nothing. Raises StorageError.
        """
        for opened in list(self._scans):
            opened.cursor = None
        if self._handles:
            self._families.clear()
            self._handles.clear()
            try:
                self._db.close()
            except Exception as error:
                if "Corruption" in str(error):
                    raise self._unread(error) from error
                raise StorageError(f"store close: {error}") from error


def forget_pages(path: Path) -> None:
    """Have the kernel forget what it has read of a file: the next read is the disk's. Nothing to do if it is gone.
    Raises StorageError.
    """
    try:
        with contextlib.suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        raise StorageError(f"read {path}: {error}") from error


def _options(settings: StoreSettings, cache: Cache) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_paranoid_checks(True)
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(settings.write_buffer_bytes)
    # The loop writes: it must not be made to wait because flushes or compactions of a slow disk are behind (ADR 66).
    options.set_max_write_buffer_number(settings.write_buffers_max)
    options.set_level_zero_slowdown_writes_trigger(settings.unmerged_files_max // 2)
    options.set_level_zero_stop_writes_trigger(settings.unmerged_files_max)
    options.set_db_write_buffer_size(settings.write_buffers_total_bytes)
    options.set_max_total_wal_size(4 * settings.write_buffers_total_bytes)
    options.set_max_open_files(settings.open_files_max)
    options.set_keep_log_file_num(2)
    options.set_max_background_jobs(2)
    return options


def _nobody(_: StorageError) -> None:
    """Nobody wants to know; whoever reads is told."""
