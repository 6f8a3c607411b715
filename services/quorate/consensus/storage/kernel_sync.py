"""Syncs that the kernel carries out beside the loop (Linux AIO): no thread, and no hand-over of the interpreter's lock.

Rules: one sync at a time, and no write while one is under way: a write to pages that are being written back waits for
them (Redis keeps the same rule for its append-only file). A sync that fails is final. What is refused here, at start or
later, is the disk thread's to do, and nothing is lost by that: it writes the same bytes once more.

Theory: ``io_submit`` of an ``FDSYNC`` hands the sync to a worker of the kernel and returns; the end is counted in an
``eventfd``, which the loop watches like a socket. The write before it goes to the page cache, on the loop. That may
wait for the disk all the same: ext4 holds back a change of the file's time while it commits its own journal, and a
kernel short of clean pages makes writers wait. So each write is timed. When they take long on average, the next ones
are watched for whether they *waited* (a busy machine stops a thread that does not); if so, the thread does both for a
while (``JournalSettings.loop_write_s``).
"""

import asyncio
import ctypes
import errno
import os
import platform
import resource
import select
import struct
import sys
from collections.abc import Callable
from time import perf_counter

from quorate.consensus.storage.disk import FileDisk
from quorate.consensus.storage_settings import JournalSettings
from quorate.errors import StorageError, UsageError
from quorate.metrics import Metrics

_CALLS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""``io_setup``, ``io_destroy``, ``io_getevents``, ``io_submit``."""
_IOCB = struct.Struct("<QIIHhIQQqQII")
"""``struct iocb``: data, key, rw_flags, opcode, reqprio, fd, buf, nbytes, offset, reserved, flags, resfd."""
_FDSYNC = 3
_RESFD = 1
_EVENT = struct.Struct("<QQqq")
"""``struct io_event``: data, obj, res, res2."""
_PROBE_S = 5.0
_SMOOTHED = 32
"""Writes over which their time is averaged."""


def _waits() -> int:
    """How often this thread gave up the processor to wait for something."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _failed(call: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{call}: {os.strerror(code)}")


class KernelQueue:
    """One AIO context for one sync at a time. Raises OSError when the kernel, or a filter before it, will not."""

    def __init__(self) -> None:
        numbers = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
        if numbers is None:
            raise OSError(errno.ENOSYS, "Linux AIO is not known here")
        setup, self._destroy, self._get_events, self._submit = map(ctypes.c_long, numbers)
        # Without letting go of the interpreter's lock: none of these calls waits.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        if self._call(setup, ctypes.c_long(1), ctypes.byref(self._context)) != 0:
            raise _failed("io_setup")
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._iocb = ctypes.create_string_buffer(_IOCB.size)
        self._iocbs = (ctypes.c_void_p * 1)(ctypes.addressof(self._iocb))
        self._events = ctypes.create_string_buffer(_EVENT.size)
        self._one, self._none = ctypes.c_long(1), ctypes.c_long(0)
        self.busy = False

    def submit(self, fd: int) -> None:
        """Begin to sync ``fd``. Raises OSError."""
        _IOCB.pack_into(self._iocb, 0, 0, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _RESFD, self.eventfd)
        if self._call(self._submit, self._context, self._one, self._iocbs) != 1:
            raise _failed("io_submit")
        self.busy = True

    def result(self) -> int | None:
        """How the sync ended: 0, or an errno; None while it has not."""
        try:
            os.eventfd_read(self.eventfd)
        except BlockingIOError:
            return None
        got = self._call(self._get_events, self._context, self._none, self._one, self._events, None)
        if got != 1:
            raise _failed("io_getevents")
        self.busy = False
        outcome: int = _EVENT.unpack_from(self._events)[2]
        return -outcome

    def wait(self, timeout_s: float) -> int | None:
        """As ``result``, after so long at most. Not on a loop that has anything else to do."""
        poll = select.poll()
        poll.register(self.eventfd, select.POLLIN)
        poll.poll(timeout_s * 1000)
        return self.result()

    def close(self, timeout_s: float) -> bool:
        """Release it; False if a sync did not end in time: then the kernel keeps the context until the process ends."""
        ended = not self.busy or self.wait(timeout_s) is not None
        if ended:
            self._call(self._destroy, self._context)
        os.close(self.eventfd)
        return ended


class KernelSync:
    """The ``Syncer`` port over the files of a ``FileDisk``. Belongs to the loop's thread.

    Probes with a sync of ``name``, and raises OSError if that is refused, StorageError if it cannot be opened.
    ``on_fatal`` is called once, when a sync failed or its report could not be taken; nothing runs after it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: FileDisk,
        name: str,
        settings: JournalSettings,
        on_fatal: Callable[[BaseException], None],
        metrics: Metrics,
        queue: KernelQueue | None = None,
    ) -> None:
        self._loop, self._disk, self._settings = loop, disk, settings
        self._on_fatal = on_fatal
        self._metrics = metrics
        self._queue = queue or KernelQueue()
        self._done: Callable[[], None] | None = None
        self._name = name
        self._began = 0.0
        self._write_s = 0.0
        """A write's time, averaged; while they are watched, of those that waited."""
        self._watched = 0
        """Writes still to be watched."""
        self._not_before = 0.0
        """The loop's time until which the thread does it."""
        self._failed = self._closed = False
        try:
            self._queue.submit(disk.descriptor(name))
            error = self._queue.wait(_PROBE_S)
            if error != 0:
                raise OSError(error or errno.ETIMEDOUT, f"FDSYNC: {os.strerror(error or errno.ETIMEDOUT)}")
        except (OSError, StorageError):
            self._queue.close(0.0)
            raise
        loop.add_reader(self._queue.eventfd, self._ended)

    @property
    def active(self) -> bool:
        """Is it the kernel that syncs now, and not the thread?"""
        return self._loop.time() >= self._not_before

    def write(self, name: str, offset: int, data: bytes, done: Callable[[], None]) -> bool:
        """Write, and have the kernel sync; False when it cannot now. ``done`` runs on the loop once all is durable."""
        if self._failed or self._closed:
            return True  # And no report, ever: what the disk holds is not known, and no thread may vouch for it.
        if self._done is not None or not self.active:
            return False
        waits = _waits() if self._watched else 0
        began = perf_counter()
        self._disk.write(name, offset, data)
        self._note_write(perf_counter() - began, waited=self._watched == 0 or _waits() > waits)
        try:
            self._queue.submit(self._disk.descriptor(name))
        except OSError:
            self._not_before = self._loop.time() + self._settings.loop_retry_s
            return False
        self._name, self._done, self._began = name, done, began
        return True

    def close(self, timeout_s: float) -> bool:
        """No further report; False if a sync did not end within ``timeout_s``."""
        self._closed, self._done = True, None
        self._loop.remove_reader(self._queue.eventfd)
        return self._queue.close(timeout_s)

    def _note_write(self, seconds: float, *, waited: bool) -> None:
        self._write_s += ((seconds if waited else 0.0) - self._write_s) / _SMOOTHED
        slow = self._settings.sync == "auto" and self._write_s > self._settings.loop_write_s
        if slow and self._watched:
            self._not_before = self._loop.time() + self._settings.loop_retry_s
        if slow:
            self._write_s, self._watched = 0.0, 2 * _SMOOTHED
        elif self._watched:
            self._watched -= 1

    def _ended(self) -> None:
        """The loop saw the eventfd move."""
        try:
            error = self._queue.result()
            if error is None:
                return
            done, self._done = self._done, None
            if error:
                raise StorageError(f"sync {self._name}: {os.strerror(error)}")
            self._metrics.fsyncs += 1
            self._metrics.fsync_us.observe(int((perf_counter() - self._began) * 1e6))
            if done is not None:
                done()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the disk's state is unknown: fail-stop
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failed and not self._closed:
            self._failed = True
            self._on_fatal(error)


def kernel_sync(
    make: Callable[[], KernelSync], settings: JournalSettings, refused: Callable[[str], None]
) -> KernelSync | None:
    """One, if the settings want it and the kernel can; ``refused`` is told why not. Raises UsageError if the settings
    allow nothing else.
    """
    if settings.sync == "thread":
        return None
    try:
        return make()
    except (OSError, StorageError) as error:
        if settings.sync == "kernel":
            raise UsageError(f"storage.journal.sync is kernel, which is refused here: {error}") from error
        refused(str(error))
        return None
