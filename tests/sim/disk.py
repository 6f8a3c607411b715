"""A machine's storage in virtual time: files that remember what was synced, a slow worker, and a store behind it.

Rules: the running process sees what it wrote (``SimDisk.view``); the disk holds only what was synced. Each worker
does one job at a time, and that takes time. Nothing survives a crash that the crash did not choose to spare. An error
that was injected is an ``InjectedError``: no other error of a disk excuses a node that stops.

Theory: every operation of the process is put in the list of its job and takes effect on the view at once. Each worker
has at most one job in flight. When the job ends, its syncs (and creations, and removals) reach the disk.
A crash during a job picks a point in its operations, inside a write included; what lies behind the point never
happened. Then *kill* spares everything that happened (the page cache lives on, still unsynced), *power loss* spares
what was synced and either a random prefix of the unsynced writes, the last one torn, or any subset of their sectors.
The synthetic store follows the same two rules at the granularity of its atomic writes.

A sync that fails leaves what it should have written *clean* in the page cache (ext4, XFS; "fsyncgate"): a process that
starts next reads it, a later sync does not write it, and a power loss takes it. Only who writes it again has it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Literal

from quorate.consensus.journal.frames import decode_header, segment_id
from quorate.consensus.ports import Family, StoreOp
from quorate.consensus.raft.snapshots import SNAPSHOT_FAMILIES
from quorate.consensus.storage.directory import VoterFileContent
from quorate.consensus.storage.store import FAMILIES, StoreDamagedError
from quorate.errors import StorageError
from tests.sim.room import PLENTY
from tests.sim.world import Call, Loop, World

Loss = Literal["kill", "power"]
SECTOR = 512
"""Bytes a disk writes as one."""
STORE_SYNC_FACTOR = 10.0
"""A sync of the store takes so much longer than one of the journal: it has more to write."""
READ_FACTOR = 20.0
"""A read of old entries takes so much longer: much may happen to the log meanwhile."""
PAGE = 4096
"""Bytes a kernel writes back as one."""
Rot = Literal["unreadable", "lost", "bit"]
ROTS: tuple[Rot, ...] = ("unreadable", "lost", "bit")
"""What becomes of a row: its block fails its checksum, it is gone, it is another."""


class InjectedError(StorageError):
    """An error of a disk that the simulator made."""


class _Write:
    __slots__ = ("data", "name", "offset")

    def __init__(self, name: str, offset: int, data: bytes) -> None:
        self.name = name
        self.offset = offset
        self.data = data


class _Sync:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _FailedSync:
    """The kernel gave up on the file's unsynced writes and calls their pages clean."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _Create:
    __slots__ = ("name", "size")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size


class _Remove:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _StoreSync:
    """The store's writes up to number ``upto`` become durable."""

    __slots__ = ("upto",)

    def __init__(self, upto: int) -> None:
        self.upto = upto


class _Replace:
    """A small file is replaced whole, and durable with that."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


_Op = _Write | _Sync | _FailedSync | _Create | _Remove | _StoreSync | _Replace
Files = dict[str, bytearray]


def _bytes(ops: list[_Op]) -> int:
    return sum(len(op.data) for op in ops if isinstance(op, _Write))


def _put(files: Files, write: _Write, size: int) -> None:
    content = files.get(write.name)
    if content is None:
        return
    end = write.offset + size
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[write.offset : end] = write.data[:size]


def _pages(write: _Write) -> range:
    return range(write.offset // PAGE, (write.offset + max(len(write.data), 1) - 1) // PAGE + 1)


def _sectors(write: _Write) -> Iterator[_Write]:
    """The write, cut at the sectors' edges."""
    at, end = write.offset, write.offset + len(write.data)
    while at < end:
        stop = min(end, (at // SECTOR + 1) * SECTOR)
        yield _Write(write.name, at, write.data[at - write.offset : stop - write.offset])
        at = stop


class SimDisk:
    """The ``Disk`` port of one node; outlives its processes. ``image`` is what a power loss cannot take."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.view: Files = {}
        self.image: Files = {}
        self._unsynced: list[_Write] = []
        self._clean: list[_Write] = []
        """Lost by a failed sync, and still seen by whoever reads."""
        self._jobs: list[list[_Op]] = []
        """Operations of the jobs in flight, in the order the jobs began."""
        self._job: list[_Op] | None = None
        """Of the job whose code runs now."""
        self.failing = False
        self.full = False
        self.unreadable = False
        self.free = PLENTY
        """Bytes, as who asks is told; what is written takes none of it."""
        self.dies_after: int | None = None
        """How many more operations a start may do before its machine dies."""
        self.died = False
        """Did it?"""
        self.bad: set[tuple[str, int]] = set()
        """Sectors of files that cannot be read any more, by number."""
        self.rotten: set[str] = set()
        """Sealed segments of a running node's journal that are not what was written any more."""
        self.on_synced: Callable[[], None] = lambda: None
        self.lost_bytes = 0
        self.torn_writes = 0
        self.sectors_lost = 0
        self.pages_dropped = 0
        self.store_synced: Callable[[int], None] = lambda _upto: None
        self.hurt = False
        """Something durable was taken from the journal: a node may find it lost. Else a node that does is wrong."""
        self.cut = False
        """And the store beside it shows that."""
        self.small: bytes | None = None
        """The small file; it survives ``wipe``, which takes the journal alone."""

    # The port.

    def names(self) -> list[str]:
        """File names present, sorted."""
        return sorted(self.view)

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Bytes of a file as the process sees it."""
        content = self._content(name)
        end = len(content) if size < 0 else min(offset + size, len(content))
        if self.unreadable or any(of == name and offset // SECTOR <= at and at * SECTOR < end for of, at in self.bad):
            raise InjectedError(f"{name}: input/output error")
        return bytes(content[offset:end])

    def forget_reads(self, name: str) -> None:
        """Nothing is remembered."""

    def peek(self, name: str, offset: int, size: int) -> bytes | None:
        """The same; None if there is no such file."""
        return self.read(name, offset, size) if name in self.view else None

    @contextmanager
    def readable(self) -> Iterator[None]:
        """For who looks on and is no process: all of it can be read."""
        hidden = self.unreadable, self.bad
        self.unreadable, self.bad = False, set()
        try:
            yield
        finally:
            self.unreadable, self.bad = hidden

    def create(self, name: str, size: int) -> None:
        """A new file of zero bytes, durable when the job ends."""
        if name in self.view:
            raise StorageError(f"{name} exists")
        if self.full:
            raise InjectedError(f"{name}: no space left on device")
        self._record(_Create(name, size))

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Overwrite in place; unsynced."""
        self._content(name)
        self._record(_Write(name, offset, bytes(data)))

    def sync(self, name: str) -> None:
        """What was written to the file is durable when the job ends."""
        self._content(name)
        if self.failing:
            self._record(_FailedSync(name))
            raise InjectedError(f"{name}: input/output error")
        self._record(_Sync(name))

    def remove(self, name: str) -> None:
        """Unlink; durable when the job ends."""
        self._content(name)
        self._record(_Remove(name))

    def sync_store(self, upto: int) -> None:
        """The store asks for its writes up to ``upto`` to be durable."""
        self._record(_StoreSync(upto))

    def replace_small(self, data: bytes) -> None:
        """The small file beside the journal is replaced when the job ends, or not at all."""
        if self.failing or self.full:
            raise InjectedError("voter.json: input/output error" if self.failing else "voter.json: no space left")
        self._record(_Replace(data))

    def _content(self, name: str) -> bytearray:
        content = self.view.get(name)
        if content is None:
            raise StorageError(f"{name}: no such file")
        return content

    def _record(self, op: _Op) -> None:
        """Show it to the process now; let it happen now if no job is running (a start), else with the job."""
        if self._job is None:
            self.lives()
        match op:
            case _Write():
                _put(self.view, op, len(op.data))
            case _Create():
                self.view[op.name] = bytearray(op.size)
            case _Remove():
                del self.view[op.name]
            case _Sync() | _FailedSync() | _StoreSync() | _Replace():
                pass
        if self._job is None:
            self._happen(op)
        else:
            self._job.append(op)

    def lives(self) -> None:
        """One more operation of a start. Raises InjectedError in the middle of one, and from then on."""
        if self.dies_after == 0:
            self.died = True
            raise InjectedError("the machine died in the middle of a start")
        if self.dies_after is not None:
            self.dies_after -= 1

    # What becomes of it.

    def begin_job(self, code: Call) -> int:
        """Run a job's code: what it does happens when the job ends. A name for the job. Raises what the code raises."""
        self._job = job = list[_Op]()
        self._jobs.append(job)
        try:
            code()
        finally:
            self._job = None
        return id(job)

    def end_job(self, name: int) -> None:
        """A job in flight is done: all of it happened."""
        at = next(at for at, job in enumerate(self._jobs) if id(job) == name)
        job, had_rotten = self._jobs.pop(at), bool(self.rotten)
        for op in job:
            self._happen(op)
        if had_rotten and not self.rotten:  # Its entries were trimmed before anybody read them.
            self.hurt = False
        if job:
            self.on_synced()

    def _happen(self, op: _Op) -> None:
        match op:
            case _Write():
                self._unsynced.append(op)
            case _Create():
                self.image[op.name] = bytearray(op.size)
            case _Remove():
                self.image.pop(op.name, None)
                self.bad = {at for at in self.bad if at[0] != op.name}
                self.rotten.discard(op.name)
                self._unsynced = [write for write in self._unsynced if write.name != op.name]
                self._clean = [write for write in self._clean if write.name != op.name]
            case _StoreSync():
                self.store_synced(op.upto)
            case _Sync():
                self._image_takes(op.name)
            case _Replace():
                self.small = op.data
            case _FailedSync():
                self._clean += [write for write in self._unsynced if write.name == op.name]
                self.pages_dropped += sum(write.name == op.name for write in self._unsynced)
                self._unsynced = [write for write in self._unsynced if write.name != op.name]

    def _image_takes(self, name: str) -> None:
        """All that is dirty; a page that was lost and is dirty again goes whole."""
        taken = [write for write in self._unsynced if write.name == name]
        if self._clean and taken:
            dirty = {(name, page) for write in taken for page in _pages(write)}
            again = [write for write in self._clean if any((write.name, page) in dirty for page in _pages(write))]
            self._clean = [write for write in self._clean if write not in again]
            taken = again + taken
        for write in taken:
            _put(self.image, write, len(write.data))
        self._unsynced = [write for write in self._unsynced if write.name != name]

    def crash(self, loss: Loss) -> None:
        """The process is gone, and with ``power`` the page cache too."""
        jobs, self._jobs, self._job = self._jobs, [], None
        for job in jobs:
            for op in self._interrupted(job):
                self._happen(op)
        survivors = self._unsynced
        if loss == "power":
            survivors, self._unsynced, self._clean = self._spared(survivors), [], []
            for write in survivors:
                _put(self.image, write, len(write.data))
        self.view = {name: bytearray(content) for name, content in self.image.items()}
        for write in self._clean + self._unsynced:
            _put(self.view, write, len(write.data))
        self.failing, self.dies_after, self.died = False, None, False

    def _interrupted(self, job: list[_Op]) -> list[_Op]:
        """The part of a job that happened before the crash; its last write may be cut short."""
        if not job or isinstance(job[-1], _FailedSync):  # Of that the process died: all before it happened.
            return job
        happened = job[: self._random.randrange(len(job) + 1)]
        if happened and isinstance(happened[-1], _Write):
            happened[-1] = self._cut(happened[-1])
        self.lost_bytes += _bytes(job) - _bytes(happened)
        return happened

    def _spared(self, writes: list[_Write]) -> list[_Write]:
        """What of the unsynced writes the power loss found on its way: in their order, or in the disk's."""
        if not writes or self._random.random() < 0.5:
            return self._torn(writes)
        share = self._random.random()
        sectors: dict[tuple[str, int], list[_Write]] = {}
        for part in (part for write in writes for part in _sectors(write)):
            sectors.setdefault((part.name, part.offset // SECTOR), []).append(part)
        spared: list[_Write] = []
        for parts in sectors.values():  # What was written to one sector later is not there without what was earlier.
            if self._random.random() < share:
                spared += parts[: 1 + self._random.randrange(len(parts))]
            else:
                self.sectors_lost += 1
        self.lost_bytes += sum(len(write.data) for write in writes) - sum(len(part.data) for part in spared)
        return spared

    def _torn(self, writes: list[_Write]) -> list[_Write]:
        """A random prefix of unsynced writes, the last one cut short."""
        spared = writes[: self._random.randrange(len(writes) + 1)] if writes else []
        lost = sum(len(write.data) for write in writes[len(spared) :])
        if spared and self._random.random() < 0.5:
            whole = len(spared[-1].data)
            spared[-1] = self._cut(spared[-1])
            lost += whole - len(spared[-1].data)
        self.lost_bytes += lost
        return spared

    def _cut(self, write: _Write) -> _Write:
        size = self._random.randrange(len(write.data) + 1)
        self.torn_writes += size < len(write.data)
        return _Write(write.name, write.offset, write.data[:size])

    def settle(self, name: str) -> None:
        """What reads see of a file is all there is of it: no write to it is under way any more."""
        self.image[name] = bytearray(self.view[name])
        self._unsynced = [write for write in self._unsynced if write.name != name]
        self._clean = [write for write in self._clean if write.name != name]

    def wipe(self) -> None:
        """The directory is lost (the process must be dead)."""
        self.view, self.image, self._unsynced, self._clean = {}, {}, [], []
        self._jobs, self._job = [], None
        self.bad, self.rotten = set(), set()
        self.hurt = True

    def settled(self, name: str) -> bool:
        """Is what reads see of a file what a power loss would leave, with nothing of it under way?"""
        under_way = [*self._unsynced, *self._clean, *(op for job in self._jobs for op in job)]
        return not any(getattr(op, "name", "") == name for op in under_way)

    @property
    def unsound(self) -> bool:
        """Will a node sooner or later meet something in its journal that it cannot read, or that is another?"""
        return bool(self.bad or self.rotten)

    # Whole directories (``directories``).

    @property
    def begun(self) -> bool:
        """Is there a journal that was written to?"""
        return any(name.endswith(".journal") and any(content[:SECTOR]) for name, content in self.view.items())

    @property
    def names_owner(self) -> bool:
        """Does a segment of the journal still say whose it is?"""
        headers = [
            decode_header(bytes(data[:SECTOR])) for name, data in self.view.items() if segment_id(name) is not None
        ]
        return any(header is not None and header.owner is not None for header in headers)

    def copied(self, *, running: bool, loss: Loss) -> dict[str, bytes]:
        """A copy of the journal: what reads see, or what a power loss now would leave."""
        files = self.view
        if running and loss == "power":
            files = {name: bytearray(content) for name, content in self.image.items()}
            for write in self._spared(list(self._unsynced)):
                _put(files, write, len(write.data))
        elif running:  # Without what is in flight.
            files = {name: bytearray(content) for name, content in self.image.items()}
            for write in self._clean + self._unsynced:
                _put(files, write, len(write.data))
        return {name: bytes(content) for name, content in files.items()}

    def restore(self, files: dict[str, bytes], small: bytes | None) -> None:
        """A copy takes the place of everything (the process must be dead)."""
        self.wipe()
        self.view = {name: bytearray(content) for name, content in files.items()}
        self.image = {name: bytearray(content) for name, content in files.items()}
        self.small, self.hurt, self.cut = small, False, False

    def content(self) -> tuple[Files, Files, list[_Write], list[_Write], bool, bool]:
        """The journal as it is, to be put back (the process must be dead)."""
        return self.view, self.image, self._unsynced, self._clean, self.hurt, self.cut

    def put_content(self, content: tuple[Files, Files, list[_Write], list[_Write], bool, bool]) -> None:
        """Put back what ``content`` gave."""
        self.view, self.image, self._unsynced, self._clean, self.hurt, self.cut = content
        self._jobs, self._job = [], None

    def marks(self) -> tuple[dict[str, bytes], dict[str, bytes], bytes | None]:
        """All that is there."""
        seen, held = ({name: bytes(content) for name, content in files.items()} for files in (self.view, self.image))
        return seen, held, self.small


class SimVoterFile:
    """The ``VoterFile`` port of one node; outlives its processes. ``copied``: it was put here from elsewhere."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self.copied = False

    def read(self) -> VoterFileContent | None:
        """At a start."""
        return None if self._disk.small is None else VoterFileContent(self._disk.small, self.copied)

    def replace(self, data: bytes) -> None:
        """All or nothing; durable when it returns. Used on the worker's thread, or at start. Raises StorageError."""
        self._disk.replace_small(data)
        self.copied = False


class SimWorker:
    """The ``DiskWorker`` port: one job at a time, each taking as long as the machine's disk pleases.

    A job's own code runs when the job begins, its operations reach the disk when it ends; so that the process learns
    nothing early, the next job begins only when the last is reported. ``on_error`` is called with what a job raised;
    the process is expected to die of it. ``factor``: how much longer its jobs take than the machine's others.
    """

    def __init__(
        self,
        world: World,
        loop: Loop,
        machine: "Slowness",
        disk: SimDisk,
        on_error: Callable[[Exception], None],
        factor: float = 1.0,
    ) -> None:
        self._world = world
        self._loop = loop
        self._machine = machine
        self._disk = disk
        self._on_error = on_error
        self._factor = factor
        self._queue: deque[tuple[Call, Call]] = deque()
        self._unreported = 0
        self._busy = False

    def submit(self, job: Call, done: Call) -> None:
        """Queue a job; see the port."""
        self._unreported += 1
        self._queue.append((job, done))
        self._next()

    def pending(self) -> int:
        """Jobs not yet reported done."""
        return self._unreported

    def _next(self) -> None:
        if self._busy or not self._queue or not self._loop.alive:
            return
        self._busy = True
        job, done = self._queue.popleft()
        try:
            name = self._disk.begin_job(job)
        except StorageError as error:
            self._on_error(error)
            return
        self._world.after(self._machine.job_s() * self._factor, partial(self._finish, name, done))

    def _finish(self, name: int, done: Call) -> None:
        if not self._loop.alive:
            return
        wait_s = self._machine.stalled_until - self._world.now
        if wait_s > 0:  # It may be healed before.
            self._world.after(min(wait_s, 0.02) + 0.0005, partial(self._finish, name, done))
            return
        self._disk.end_job(name)
        self._loop.io(partial(self._report, done))

    def _report(self, done: Call) -> None:
        self._unreported -= 1
        self._busy = False
        done()
        self._next()


class SimSyncer:
    """The ``Syncer`` port: a write on the loop, into the page cache at once, and a sync beside it. Sometimes the kernel
    will not, before the write or after it.
    """

    def __init__(self, worker: SimWorker, disk: SimDisk, random: Random) -> None:
        self._worker = worker
        self._disk = disk
        self._random = random

    def write(self, name: str, offset: int, data: bytes, done: Call) -> bool:
        """By the kernel, unless its ring is full."""
        luck = self._random.random()
        if luck < 0.05:
            return False
        self._disk.write(name, offset, data)
        if luck < 0.1:
            return False
        self._worker.submit(lambda: self._disk.sync(name), done)
        return True


class Slowness:
    """How slow a machine's disk is now. ``factor`` 1 is 0.1–3 ms a job; ``stalled_until`` is virtual seconds."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.factor = 1.0
        self.stalled_until = 0.0

    def job_s(self) -> float:
        """Duration of the next job, seconds."""
        base = 0.0001 + self._random.random() * (0.003 if self._random.random() < 0.7 else 0.0003)
        return base * self.factor


Rows = dict[Family, dict[bytes, bytes]]


class SimStore:
    """The ``Store`` port of one node; outlives its processes. Atomic writes; a crash may undo the unsynced last ones.

    Undo records of unsynced writes are kept; ``sync`` (a job of the disk worker) drops them when its job ends. What
    became of a row since it was written is kept apart, so that who looks on still sees what it was (``readable``).
    """

    def __init__(self, disk: SimDisk, random: Random) -> None:
        self._disk = disk
        self._random = random
        self._families: dict[Family, dict[bytes, bytes]] = {family: {} for family in FAMILIES}
        self._sorted: dict[Family, list[bytes] | None] = {}
        self._undo: deque[list[StoreOp]] = deque()
        self._written = 0
        self.undone = 0
        self.rotten = False
        """It cannot be opened."""
        self._rot: dict[tuple[Family, bytes], Rot] = {}
        self._looked_on = False
        self.on_damage: Callable[[StorageError], None] = lambda _error: None
        """Told of what a read met, before whoever read is."""
        disk.store_synced = self._synced

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value now. Raises StoreDamagedError."""
        value = self._families[family].get(key)
        return self._met(family, key, value) if self._rot else value

    def scan(self, family: Family, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Pairs with ``start <= key < stop`` in key order, as of the call."""
        rows = self._families[family]
        found = [key for key in self._keys(family) if key >= start and (stop is None or key < stop)]
        pairs = [(key, rows[key]) for key in found]
        return self._met_all(family, pairs) if self._rot else iter(pairs)

    def last(self, family: Family) -> tuple[bytes, bytes] | None:
        """The pair with the greatest key. Raises StoreDamagedError."""
        keys = self._keys(family)
        if not keys:
            return None
        value = self.get(family, keys[-1])
        return None if value is None else (keys[-1], value)

    def forget_reads(self) -> None:
        """Nothing is remembered."""

    def _met_all(self, family: Family, pairs: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for key, written in pairs:
            value = self._met(family, key, written)
            if value is not None:
                yield key, value

    def _met(self, family: Family, key: bytes, written: bytes | None) -> bytes | None:
        """What a process reads of that row."""
        rot = None if self._looked_on or written is None else self._rot.get((family, key))
        if rot is None or written is None:
            return written
        if rot == "unreadable":
            raise self.damaged("block checksum mismatch")
        return None if rot == "lost" else written[:-1] + bytes([written[-1] ^ 1])

    @contextmanager
    def readable(self) -> Iterator[None]:
        """For who looks on and is no process: all of it as it was written."""
        before, self._looked_on = self._looked_on, True
        try:
            yield
        finally:
            self._looked_on = before

    @property
    def hurt(self) -> bool:
        """Is something there not what was written?"""
        return self.rotten or bool(self._rot)

    def write(self, ops: Sequence[StoreOp]) -> None:
        """All or nothing; unsynced."""
        if self._disk.full:
            raise InjectedError("the store: no space left on device")
        self._disk.lives()
        self._undo.append([StoreOp(op.family, op.key, self._families[op.family].get(op.key)) for op in reversed(ops)])
        self._written += 1
        self._do(ops)

    def sync(self) -> None:
        """Called inside a disk job: durable when that job ends."""
        self._disk.sync_store(self._written)

    def close(self) -> None:
        """Nothing to release."""

    def damaged(self, reason: object) -> StorageError:
        """The error to raise for what was read from the store and cannot be what was written; the node will stop."""
        error = StoreDamagedError.at("simulated", reason)
        self.on_damage(error)
        return error

    def crash(self, loss: Loss) -> None:
        """``kill`` keeps every write; ``power`` undoes some of the unsynced ones, latest first."""
        if loss == "power" and self._undo:
            for _ in range(self._random.randrange(len(self._undo) + 1)):
                self._do(self._undo.pop())
                self._written -= 1
                self.undone += 1

    def settle(self) -> None:
        """All that was written is on its disk."""
        self._undo.clear()

    @property
    def empty(self) -> bool:
        """Was nothing ever written?"""
        return not any(self._families.values())

    def copied(self, *, running: bool, loss: Loss) -> Rows:
        """A copy; of one in use, without some of what a power loss might take."""
        rows = {family: dict(rows) for family, rows in self._families.items()}
        for undo in list(self._undo)[::-1][: self._random.randrange(len(self._undo) + 1) if running else 0]:
            if loss == "power":
                for op in undo:
                    found = rows.setdefault(op.family, {})
                    if op.value is None:
                        found.pop(op.key, None)
                    else:
                        found[op.key] = op.value
        return rows

    def restore(self, rows: Rows) -> None:
        """A copy takes the place of everything."""
        self.rotten = False
        self._rot.clear()
        self._families, self._sorted = {family: dict(rows.get(family, {})) for family in FAMILIES}, {}
        self._undo.clear()

    def begin_anew(self) -> None:
        """At a start: it is empty from now on."""
        self._disk.lives()
        self.restore({})

    def damage_log(self) -> str:
        """At any time: a batch of the event log, or a row that says how far the store is, is not what was written; what
        was done. A row of ``meta`` has no checksum but its block's: it can be read or not.
        """
        family: Family = "meta" if self._random.random() < 0.2 else "events"
        keys, rot = self._keys(family), self._random.choice(ROTS)
        if not keys:
            return "nothing there"
        if family == "meta":
            rot = "unreadable"
        self._rot[family, self._random.choice(keys)] = rot
        return f"{family} {rot}"

    def damage(self) -> str:
        """While nobody uses it: it cannot be opened any more, or one row of the state is gone or another; what was
        done. Nobody is told of the row.
        """
        rows = [(family, key) for family in SNAPSHOT_FAMILIES for key in self._keys(family)]
        kind = self._random.choice(("unreadable", "row lost", "row lost", "bit of a row", "bit of a row"))
        if kind == "unreadable" or not rows:
            self.rotten = True
            return "unreadable"
        family, key = self._random.choice(rows)
        value = bytearray(self._families[family][key])
        if kind == "row lost" or not value:
            self._do([StoreOp(family, key, None)])
            return "row lost"
        value[self._random.randrange(len(value))] ^= 1 << self._random.randrange(8)
        self._do([StoreOp(family, key, bytes(value))])
        return kind

    def content(self) -> tuple[Rows, deque[list[StoreOp]], int, dict[tuple[Family, bytes], Rot]]:
        """All of it, to be put back."""
        return self._families, self._undo, self._written, dict(self._rot)

    def put_content(self, content: tuple[Rows, deque[list[StoreOp]], int, dict[tuple[Family, bytes], Rot]]) -> None:
        """Put back what ``content`` gave."""
        self._families, self._undo, self._written, self._rot = content
        self._sorted = {}

    def _synced(self, upto: int) -> None:
        while len(self._undo) > self._written - upto:
            self._undo.popleft()

    def _keys(self, family: Family) -> list[bytes]:
        keys = self._sorted.get(family)
        if keys is None:
            keys = self._sorted[family] = sorted(self._families[family])
        return keys

    def _do(self, ops: Sequence[StoreOp]) -> None:
        for op in ops:
            rows = self._families[op.family]
            if (op.key in rows) != (op.value is not None):
                self._sorted[op.family] = None
            if op.value is None:
                rows.pop(op.key, None)
            else:
                rows[op.key] = op.value
            if self._rot:  # What is written anew is sound.
                self._rot.pop((op.family, op.key), None)


class SimStorePlace:
    """The ``StorePlace`` port: one store, or an empty one in its place."""

    def __init__(self, store: SimStore) -> None:
        self._store = store

    def open(self, *, must_exist: bool) -> SimStore:
        """The store."""
        del must_exist  # A machine that lost its store's folder alone is not simulated.
        if self._store.rotten:
            raise self._store.damaged("block checksum mismatch")
        return self._store

    def set_aside(self, tag: str) -> None:
        """From now on it is empty."""
        del tag
        self._store.begin_anew()
