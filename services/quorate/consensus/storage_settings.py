"""Limits of the storage room; the composition nests them into a node's settings.

Rules: every size of the journal, the store and the event log is here, in the unit its name ends with.
"""

from typing import Literal

import msgspec

from quorate.bounds import bounded
from quorate.consensus.ports import MAX_ENTRY_BYTES
from quorate.errors import UsageError

FRAME_OVERHEAD_BYTES = 48
"""Most that a journal frame adds to its payload: header, padding and closing byte."""
SEGMENT_HEADER_BYTES = 1024
"""What a journal segment needs before its first frame."""


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the journal."""

    segment_bytes: int = 4 * 1024 * 1024
    """One file. Small, because the next one is filled with zeros by the thread that also syncs."""
    max_entry_bytes: int = MAX_ENTRY_BYTES
    """Largest entry; a segment must hold at least one."""
    tail_bytes: int = 8 * 1024 * 1024
    """Entry bytes kept in memory; older ones are read back from their segment."""
    tail_entries: int = 20_000
    """Entries kept in memory, whichever limit comes first."""
    read_bytes: int = 256 * 1024
    """Bytes read from a segment at a time for entries that left memory."""
    sync: Literal["auto", "kernel", "thread"] = "auto"
    """Who syncs what is written: the kernel beside the node (Linux AIO), or a thread. ``auto``: the kernel if it can,
    and the thread while writes are slow. With ``kernel`` a node that cannot does not start."""
    loop_write_s: float = 0.0005
    """With ``auto``: a write that the thread shall do instead takes longer than this, averaged over about 32."""
    loop_retry_s: float = 10.0
    """For so long; then the kernel is tried again."""
    read_back_bytes: int = 2 * 1024 * 1024
    """What was read back and is kept, and what is being read, together: room for a read of each follower that lags."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("tail_bytes", "tail_entries"))
        need = self.max_entry_bytes + FRAME_OVERHEAD_BYTES + SEGMENT_HEADER_BYTES
        if self.segment_bytes < need:
            raise UsageError(f"segment_bytes must be at least {need}: one entry of max_entry_bytes must fit")
        if self.segment_bytes % 8 or self.segment_bytes > 1 << 30:  # Linux reads less than 2 GiB at a time.
            raise UsageError("segment_bytes must be a multiple of 8 and at most 1 GiB")
        if self.read_bytes < 4096:
            raise UsageError("read_bytes must be at least 4096")
        if self.read_back_bytes < 4 * self.read_bytes:
            raise UsageError("read_back_bytes must be at least four times read_bytes")


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the RocksDB store."""

    write_buffer_bytes: int = 2 * 1024 * 1024
    """Memtable of one family."""
    write_buffers_max: int = 8
    """Memtables of one family that may exist at once: two while the disk keeps pace, more when it is behind. With so
    many a write waits, and the node with it."""
    unmerged_files_max: int = 128
    """Files of one family that wait to be merged: with half as many writes are slowed down, with so many they wait."""
    write_buffers_total_bytes: int = 8 * 1024 * 1024
    """Memtables of all families together."""
    block_cache_bytes: int = 8 * 1024 * 1024
    open_files_max: int = 128

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)


class EventLogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the event log."""

    tail_bytes: int = 4 * 1024 * 1024
    """Batch bytes kept in memory for readers near the end."""
    tail_batches: int = 10_000
    """Batches kept in memory, whichever limit comes first."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("tail_bytes", "tail_batches"))


class ScrubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How fast what lies on disk is read again, to find damage while others still hold what it hurt."""

    bytes_per_s: int = 128 * 1024
    slice_bytes: int = 8 * 1024
    """Read in one go, on a thread of its own; smaller is gentler to the node."""
    period_s: float = 86_400.0
    """From the beginning of one pass to that of the next; the first begins with the node."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything this room lets an operator choose."""

    journal: JournalSettings = JournalSettings()
    store: StoreSettings = StoreSettings()
    event_log: EventLogSettings = EventLogSettings()
    scrub: ScrubSettings = ScrubSettings()
    worker_jobs_max: int = 1024
    """Jobs waiting for the disk thread; more means that nobody waits for answers, and the node stops."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)
