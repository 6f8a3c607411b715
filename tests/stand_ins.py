"""Stand-ins for a clock, a disk, its worker and a decoded heartbeat: nothing waits, nothing is written or sent."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from quorate.consensus.ports import Family, StoreOp
from quorate.consensus.storage.directory import VoterFileContent
from quorate.consensus.storage.disk import Job
from quorate.consensus.storage.store import FAMILIES, StoreDamagedError
from quorate.errors import StorageError, check


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start_s: float = 0.0, epoch_ms: int = 1_700_000_000_000) -> None:
        self.now_s = start_s
        self._epoch_ms = epoch_ms

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self.now_s += seconds

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return self.now_s

    def time_ms(self) -> int:
        """Wall-clock milliseconds, moving with ``now_s``."""
        return self._epoch_ms + int(self.now_s * 1000)


class InlineWorker:
    """A ``DiskWorker`` without a thread.

    It runs a job and its ``done`` when submitted; while ``held``, only when told to ``run``.
    """

    def __init__(self) -> None:
        self.held = False
        self._waiting: deque[tuple[Job, Job]] = deque()
        self._running = False

    def submit(self, job: Job, done: Job) -> None:
        """Run it now, unless held (or already running one: order is kept)."""
        self._waiting.append((job, done))
        if not self.held and not self._running:
            self.run()

    def run(self, count: int = -1) -> None:
        """Run the first ``count`` waiting jobs, all when -1."""
        self._running = True
        try:
            while self._waiting and count != 0:
                job, done = self._waiting.popleft()
                job()
                done()
                count -= 1
        finally:
            self._running = False

    def pending(self) -> int:
        """Jobs submitted and not yet run."""
        return len(self._waiting)


class MemoryStore:
    """The ``Store`` port without files. ``crash`` goes back to a write boundary at or after the last sync."""

    def __init__(self) -> None:
        self.on_damage: Callable[[StorageError], None] = lambda _: None
        self._values: dict[Family, dict[bytes, bytes]] = {family: {} for family in FAMILIES}
        self._keys: dict[Family, list[bytes]] = {family: [] for family in FAMILIES}
        self._undo: list[list[StoreOp]] = []

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value now."""
        return self._values[family].get(key)

    def scan(self, family: Family, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < stop`` in key order, as of the call."""
        keys, values = self._keys[family], self._values[family]
        end = len(keys) if stop is None else bisect_left(keys, stop)
        return iter([(key, values[key]) for key in keys[bisect_left(keys, start) : end]])

    def last(self, family: Family) -> tuple[bytes, bytes] | None:
        """The pair with the greatest key."""
        keys = self._keys[family]
        return (keys[-1], self._values[family][keys[-1]]) if keys else None

    def write(self, ops: Sequence[StoreOp]) -> None:
        """All or nothing; visible at once; not synced."""
        self._undo.append([self._put(op) for op in ops][::-1])

    def sync(self) -> None:
        """What was written before cannot be lost any more."""
        self._undo.clear()

    def forget_reads(self) -> None:
        """There is no disk to read from."""

    def damaged(self, reason: object) -> StoreDamagedError:
        """The error to raise for what was read from the store and cannot be what was written; the node will stop."""
        error = StoreDamagedError.at("in memory", reason)
        self.on_damage(error)
        return error

    @property
    def unsynced(self) -> int:
        """Writes since the last sync."""
        return len(self._undo)

    def crash(self, keep: int = 0) -> None:
        """Lose all unsynced writes but the first ``keep``."""
        check(0 <= keep <= len(self._undo), f"there are {len(self._undo)} unsynced writes, not {keep}")
        for undo in reversed(self._undo[keep:]):
            for op in undo:
                self._put(op)
        self._undo.clear()

    def close(self) -> None:
        """Nothing to release: the same object can be opened again."""

    def _put(self, op: StoreOp) -> StoreOp:
        """Do it; the operation that undoes it."""
        values, keys = self._values[op.family], self._keys[op.family]
        before = values.get(op.key)
        if op.value is not None:
            values[op.key] = op.value
            if before is None:
                insort(keys, op.key)
        elif before is not None:
            del values[op.key]
            del keys[bisect_left(keys, op.key)]
        return StoreOp(op.family, op.key, before)


class MemoryVoterFile:
    """The ``VoterFile`` port without a file. ``copy`` is what a copy of the directory finds."""

    def __init__(self, data: bytes | None = None, *, copied: bool = False) -> None:
        self.data = data
        self.copied = copied

    def read(self) -> VoterFileContent | None:
        """What was written last; None when there is no file."""
        return None if self.data is None else VoterFileContent(self.data, self.copied)

    def replace(self, data: bytes) -> None:
        """All or nothing; durable when it returns. Used on the worker's thread, or at start. Raises StorageError."""
        self.data, self.copied = data, False

    def copy(self) -> "MemoryVoterFile":
        """The file at another place."""
        return MemoryVoterFile(self.data, copied=True)


class Heartbeat(msgspec.Struct, gc=False):
    """904 as received (Java ``BrokerHeartbeatRequestHeader``); offsets in bytes of the commit log, -1 = unknown."""

    cluster: str
    broker_set: str
    broker_id: int
    address: str
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    timeout_ms: int = 10_000
    priority: int = 2_147_483_647
