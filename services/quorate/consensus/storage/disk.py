"""Real files and the one thread that may wait for them.

Rules: the loop waits for no disk; jobs given to a ``DiskWorker`` do, and the kernel (``kernel_sync``). A failed write
or sync is never retried: after a failed ``fdatasync`` the kernel may call lost pages clean, so the node stops and
recovers by reading (fail-stop). New files are filled with *written* zeros, because an allocated but unwritten extent
costs a metadata commit at each later sync.

Theory: jobs run in the order given. As each ends its ``done`` is put on a list, and the loop is woken once for all that
ended before it looked; so a burst of small jobs costs one wake-up, and a long job delays no report but its own.
"""

import asyncio
import contextlib
import contextvars
import errno
import fcntl
import os
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import perf_counter_ns

from quorate.consensus.storage.directory import VoterFileContent
from quorate.consensus.storage.store import RocksStore, StoreDamagedError, forget_pages
from quorate.consensus.storage_settings import StoreSettings
from quorate.errors import DirectoryInUseError, DiskFullError, StorageError
from quorate.metrics import Metrics

_ZEROS = bytes(256 * 1024)

Job = Callable[[], None]


class DirectoryLock:
    """An advisory lock on a data directory, held as long as this object (or the process) lives.

    Raises DirectoryInUseError when another process holds it, StorageError when the directory cannot be used.
    """

    def __init__(self, directory: str) -> None:
        path = os.path.join(directory, "lock")
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"data directory {directory}: {error}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise DirectoryInUseError(f"data directory {directory} is in use by another node") from error

    def release(self) -> None:
        """Let another node have it; releasing twice does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FileDisk:
    """The ``Disk`` port over the files of one directory.

    ``metrics`` counts the syncs and how long they took; whoever syncs, one at a time, touches those two.
    """

    def __init__(self, directory: str, metrics: Metrics | None = None) -> None:
        self._directory = directory
        self._metrics = metrics or Metrics()
        self._fds: dict[str, int] = {}
        self._closed = False
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self._directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            sync_directory(os.path.dirname(os.path.abspath(directory)))
        except OSError as error:
            raise StorageError(f"journal directory {directory}: {error}") from error

    def names(self) -> list[str]:
        """File names present, sorted. Raises StorageError."""
        try:
            return sorted(os.listdir(self._directory))
        except OSError as error:
            raise StorageError(f"list {self._directory}: {error}") from error

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """``size`` bytes from ``offset`` (to the end when -1); short at the end of the file. Raises StorageError."""
        try:
            fd = self._open(name)
            if size < 0:
                size = max(0, os.fstat(fd).st_size - offset)
            return os.pread(fd, size, offset)
        except OSError as error:
            raise StorageError(f"read {name}: {error}") from error

    def peek(self, name: str, offset: int, size: int) -> bytes | None:
        """As it lies there, through a descriptor of its own; None if there is no such file. Raises StorageError."""
        try:
            fd = os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"read {name}: {error}") from error
        try:
            return os.pread(fd, size, offset)
        except OSError as error:
            raise StorageError(f"read {name}: {error}") from error
        finally:
            os.close(fd)

    def forget_reads(self, name: str) -> None:
        """What is peeked at of a file that is synced comes from the disk next. From any thread. Raises StorageError."""
        forget_pages(Path(self._path(name)))

    def create(self, name: str, size: int) -> None:
        """A new file of ``size`` written zero bytes, durable with its name. Raises StorageError, also if it exists, and
        DiskFullError when there is no room for it: then nothing of it is left.
        """
        try:
            self._check_open()
            fd = os.open(self._path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"create {name}: {error}") from error
        self._fds[name] = fd
        try:
            for offset in range(0, size, len(_ZEROS)):
                _write_all(fd, _ZEROS[: size - offset], offset)
            os.fsync(fd)
            os.fsync(self._directory_fd)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self.remove(name)
                raise DiskFullError(f"create {name}: {error}") from error
            raise StorageError(f"create {name}: {error}") from error

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Overwrite in place; not synced. Raises StorageError."""
        try:
            _write_all(self._open(name), data, offset)
        except OSError as error:
            raise StorageError(f"write {name}: {error}") from error

    def sync(self, name: str) -> None:
        """``fdatasync``. Raises StorageError, and that is final."""
        started = perf_counter_ns()
        try:
            os.fdatasync(self._open(name))
        except OSError as error:
            raise StorageError(f"sync {name}: {error}") from error
        self._metrics.fsyncs += 1
        self._metrics.fsync_us.observe((perf_counter_ns() - started) // 1000)

    def descriptor(self, name: str) -> int:
        """Of an open file, for who syncs it. Raises StorageError."""
        try:
            return self._open(name)
        except OSError as error:
            raise StorageError(f"open {name}: {error}") from error

    def remove(self, name: str) -> None:
        """Unlink, and sync the directory. Raises StorageError."""
        try:
            self._check_open()
            fd = self._fds.pop(name, None)
            if fd is not None:
                os.close(fd)
            os.unlink(self._path(name))
            os.fsync(self._directory_fd)
        except OSError as error:
            raise StorageError(f"remove {name}: {error}") from error

    def close(self) -> None:
        """Close the files; what was not synced may be lost. From here on nothing is written, whoever still would."""
        self._closed = True
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
        if self._directory_fd >= 0:
            os.close(self._directory_fd)
            self._directory_fd = -1

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _open(self, name: str) -> int:
        fd = self._fds.get(name)
        if fd is None:
            self._check_open()
            fd = self._fds[name] = os.open(self._path(name), os.O_RDWR | os.O_CLOEXEC)
        return fd

    def _check_open(self) -> None:
        if self._closed:  # The directory may be another node's by now.
            raise OSError(errno.EBADF, "the directory is closed")


class FileVoterFile:
    """The ``VoterFile`` port: ``voter.json`` in the data directory, replaced by a rename.

    Its last line names the file it was written as: inode number and generation, which is how NFS tells a file from a
    later one with its number. A copy of the directory has other files. (A file system that tells no generation is
    asked for the number alone. A block device that is copied whole keeps both: consensus/storage/directory.py finds
    that by the lives its peers met.)
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, "voter.json")

    def read(self) -> VoterFileContent | None:
        """What was written last, and whether it still stands where it was written. Raises StorageError."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"read {self._path}: {error}") from error
        try:
            content = os.read(fd, os.fstat(fd).st_size + 1)
            data, newline, place = content.removesuffix(b"\n").rpartition(b"\n")
            return VoterFileContent(data + newline, copied=place != _place(fd))
        except OSError as error:
            raise StorageError(f"read {self._path}: {error}") from error
        finally:
            os.close(fd)

    def replace(self, data: bytes) -> None:
        """All or nothing; durable when it returns. Used on the worker's thread, or at start. Raises StorageError."""
        fresh = self._path + ".new"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write_all(fd, data + _place(fd) + b"\n", 0)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(fresh, self._path)
            sync_directory(self._directory)
        except OSError as error:
            raise StorageError(f"write {self._path}: {error}") from error


class StoreFolder:
    """The ``StorePlace`` port: ``store`` in the data directory. One damaged store is kept beside it."""

    def __init__(self, directory: str, settings: StoreSettings) -> None:
        self._directory = directory
        self._path = os.path.join(directory, "store")
        self._settings = settings

    def open(self, *, must_exist: bool) -> RocksStore:
        """The store, or a new one. Raises StoreDamagedError for one that is damaged, or missing but ``must_exist``."""
        if must_exist and not os.path.isdir(self._path):
            raise StoreDamagedError.at(self._path, "it is missing")
        try:
            os.makedirs(self._path, mode=0o700, exist_ok=True)  # RocksDB would let others in.
        except OSError as error:
            raise StorageError(f"store {self._path}: {error}") from error
        return RocksStore(self._path, self._settings, must_exist=must_exist)

    def set_aside(self, tag: str) -> None:
        """Move the store out of the way, and keep it for inspection under a name with ``tag``; those kept before go.
        Called again with the same tag (after a crash), it removes what was begun in its place. Raises StorageError.
        """
        kept = f"store.damaged-{tag}"
        try:
            names = os.listdir(self._directory)
            if kept not in names:
                if "store" in names:
                    os.rename(self._path, os.path.join(self._directory, kept))
            elif "store" in names:  # It was moved before; what is here was just begun.
                shutil.rmtree(self._path)
            sync_directory(self._directory)
            for name in names:
                if name.startswith("store.damaged-") and name != kept:
                    shutil.rmtree(os.path.join(self._directory, name))
        except OSError as error:
            raise StorageError(f"set {self._path} aside: {error}") from error


_GET_GENERATION = 0x80087601
"""``FS_IOC_GETVERSION`` of Linux."""


def _place(fd: int) -> bytes:
    generation = bytes(8)
    with contextlib.suppress(OSError):
        generation = fcntl.ioctl(fd, _GET_GENERATION, generation)
    return b"%d %d" % (os.fstat(fd).st_ino, int.from_bytes(generation[:4], "little"))


def _write_all(fd: int, data: bytes, offset: int) -> None:
    written = os.pwrite(fd, data, offset)
    while written < len(data):  # Only a nearly full disk or a signal makes a regular file write short.
        written += os.pwrite(fd, data[written:], offset + written)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class ThreadWorker:
    """The ``DiskWorker`` port: one dedicated thread. ``submit`` belongs to the loop's thread, jobs to the worker's.

    ``on_fatal(error)`` runs on the loop, once, at the first job or report that raises; nothing runs after it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_fatal: Callable[[BaseException], None],
        jobs_max: int = 1024,
        name: str = "quorate-disk",
    ) -> None:
        self._loop = loop
        self._context = contextvars.copy_context()  # A report runs in it: its lines in the log name the node.
        self._on_fatal = on_fatal
        self._jobs_max = jobs_max
        self._jobs: SimpleQueue[tuple[Job, Job] | None] = SimpleQueue()
        self._ended: deque[Job] = deque()
        self._woken = False
        self._pending = 0
        self._stopped = self._abandoned = False
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Job) -> None:
        """Run ``job`` on the thread, then ``done`` on the loop. After a failure or ``close`` neither ever runs.

        Raises StorageError when too many jobs wait: then nobody heeds the answers and the node must stop.
        """
        if self._stopped:
            return
        if self._pending >= self._jobs_max:
            raise StorageError(f"{self._pending} jobs wait for the disk")
        self._pending += 1
        self._jobs.put((job, done))

    def pending(self) -> int:
        """Jobs submitted and not yet reported done."""
        return self._pending

    def close(self, timeout_s: float | None) -> bool:
        """Finish the jobs submitted and end the thread; False if it did not within ``timeout_s``: then it ends with the
        job under way, which may still write, and begins no other.

        Their ``done`` still runs if the loop does.
        """
        self._jobs.put(None)
        self._thread.join(timeout_s)
        self._stopped = True
        self._abandoned = self._thread.is_alive()
        return not self._abandoned

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None and not self._abandoned:
            job, done = item
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - whatever it was, the disk's state is unknown: fail-stop
                self._call_loop(lambda error=error: self._fail(error))  # type: ignore[misc]
                return
            self._ended.append(done)
            if not self._woken:
                self._woken = True
                self._call_loop(self._report)

    def _call_loop(self, callback: Job) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, context=self._context)
        except RuntimeError:  # The loop is closed: the node is gone, and with it everyone who waits.
            self._stopped = True

    def _report(self) -> None:
        self._woken = False  # Before looking: a job that ends from here on wakes us again.
        while self._ended and not self._stopped:
            self._pending -= 1
            done = self._ended.popleft()
            try:
                done()
            except BaseException as error:  # noqa: BLE001 - a report that cannot be taken leaves a wrong image
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._stopped:
            self._stopped = True
            self._on_fatal(error)
