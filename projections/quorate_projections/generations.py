"""The data directory: generations of rows, one of which is current; a rebuild makes the next one beside it.

Rules: ``CURRENT`` names the current generation and is replaced atomically. One worker serves a directory, one rebuild
builds in it (two lock files). A rebuild never touches the current generation. Those before it are removed by the worker
that serves it, when it begins or switches to it, and where no worker runs by the rebuild.
"""

import fcntl
import os
import shutil
from pathlib import Path
from typing import IO, Final

from quorate.errors import UsageError
from quorate.unseen import unseen_by_git

CURRENT: Final = "CURRENT"
FIRST: Final = "g000001"


class Busy(UsageError):  # noqa: N818  It says what the directory is.
    """Somebody else holds the lock."""


class Generations:
    """The generations under one directory; created when absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        unseen_by_git(folder)

    @property
    def current(self) -> str:
        """Name of the current generation."""
        try:
            return (self.folder / CURRENT).read_text(encoding="utf-8").strip() or FIRST
        except FileNotFoundError:
            return FIRST

    def path(self, name: str) -> Path:
        """Where a generation's rows are."""
        return self.folder / name

    def fresh(self) -> str:
        """A new name after the current one; what a broken-off rebuild left under it is removed."""
        name = f"g{int(self.current[1:]) + 1:06d}"
        self.remove(name)
        return name

    def switch(self, name: str) -> None:
        """Make a generation the current one."""
        draft = self.folder / f"{CURRENT}.new"
        draft.write_text(name + "\n", encoding="utf-8")
        draft.replace(self.folder / CURRENT)

    def remove(self, name: str) -> None:
        """Remove a generation's rows, if there are any."""
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def remove_before(self, name: str) -> None:
        """Remove those before a generation; for who holds the lock ``serving``, and has none of them open."""
        for found in self.folder.glob("g*"):
            number = found.name[1:]
            if number.isdecimal() and int(number) < int(name[1:]):
                self.remove(found.name)

    def lock(self, purpose: str) -> IO[bytes]:
        """Hold the lock ``serving`` or ``rebuild`` until the answer is closed. Raises Busy."""
        handle = (self.folder / f"{purpose}.lock").open("ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            handle.close()
            raise Busy(f"{self.folder}: another process holds {purpose}.lock") from error
        os.set_inheritable(handle.fileno(), False)
        return handle
