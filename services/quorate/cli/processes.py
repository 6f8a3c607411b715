"""Child processes that cannot outlive us: started by us, ended by their id, and dying with us if we die.

Rules: a child is told its parent's id (``--die-with PID``) and asks the kernel for SIGKILL when that parent goes
(``PR_SET_PDEATHSIG``); where there is no such call it looks once a second. Nobody is ever ended by name.
"""

import asyncio
import ctypes
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from quorate.errors import QuorateError

_PR_SET_PDEATHSIG = 1
_WATCH_PERIOD_S = 1.0
LOG_BYTES_MAX = 16 * 1024 * 1024
"""A child's log that is longer begins anew ..."""
LOG_FILES = 3
"""... and so many older ones are kept."""
LOG_LOOK_S = 5.0
"""How often its length is looked at."""


class ChildError(QuorateError):
    """A child died when it should have served."""


def add_die_with(parser: ArgumentParser) -> None:
    """The argument by which a parent says who it is."""
    parser.add_argument("--die-with", type=int, metavar="PID", help="end when this parent process is gone")


def die_with(parent: int | None) -> None:
    """Called by a child, on its main thread, before anything else."""
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"the parent {parent} is gone")


async def until_orphaned(parent: int) -> None:
    """Return when the parent is gone; for systems without the kernel's help."""
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(_WATCH_PERIOD_S)


def shortened(log: Path, bytes_max: int = LOG_BYTES_MAX, files: int = LOG_FILES) -> bool:
    """When a log is too long, move what it says to ``<log>.1``, that to ``.2`` and so on, and let it begin anew.

    Its writer keeps the file and appends (``O_APPEND``), so it is copied until nothing was added, and then cut: what is
    written in that very moment may be lost. Raises OSError.
    """
    if log.stat().st_size <= bytes_max:
        return False
    for number in range(files - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    with log.open("rb+") as file, log.with_name(f"{log.name}.1").open("wb") as kept:
        while more := file.read(1 << 20):
            kept.write(more)
        file.truncate(0)
    return True


class Child:
    """One child process; its output goes to a file (or nowhere) of bounded length, its end is an event."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path | None, *, niceness: int = 0) -> None:
        self.name = name
        self._before = ["nice", "-n", str(niceness)] if niceness else []
        word, *rest = arguments  # The word's own option: a command may have further words, with options of theirs.
        self._arguments = [word, "--die-with", str(os.getpid()), *rest]
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._shortening: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Process id of the latest start."""
        if self._process is None:
            raise ChildError(f"{self.name} was never started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Started, and not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it (again); output is appended to its file."""
        with open(self._log or os.devnull, "ab") as output:  # noqa: ASYNC230, PTH123
            self._process = await asyncio.create_subprocess_exec(
                *self._before,
                sys.executable,
                "-m",
                "quorate",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches us alone; we end it in order
            )
        if self._log is not None:
            self._shortening = asyncio.create_task(self._keep_short(self._log, self._process))

    async def _keep_short(self, log: Path, process: asyncio.subprocess.Process) -> None:
        """While it lives; a log that cannot be shortened is left as it is."""
        while process.returncode is None:
            await asyncio.sleep(LOG_LOOK_S)
            with suppress(OSError):
                shortened(log)

    async def ended(self) -> int:
        """Wait for its end; the exit status, negative = the signal."""
        if self._process is None:
            raise ChildError(f"{self.name} was never started")
        return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing when it has already ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def stop(self, patience_s: float) -> int:
        """SIGTERM, and after ``patience_s`` seconds SIGKILL; the exit status."""
        self.signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.ended(), patience_s)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            return await self.ended()
