"""Closes a node's folders (0700) and files (0600) to everybody but their owner; refuses a secret that others can read.

Rules: what is new is made so, whatever the process's umask is, but for the files of RocksDB, which stand in a folder
that is closed; a process of our own sets its umask too (``only_ours``). What was there before is tightened, but nothing
that is not ours: the folder of another user, or one that everybody shares, is named and left alone.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

OTHERS: Final = 0o077
OURS: Final = ("journal", "store", "lock")
"""The names in a data directory that are ours, beside those that begin with ``voter``."""


def only_ours() -> None:
    """Files and folders that this process makes from now on are for nobody else."""
    os.umask(OTHERS)


def tightened(folder: Path) -> tuple[int, list[Path]]:
    """Make a data directory that exists, and what is ours in it, its owner's alone.

    Answers how many entries others could reach, and which they still may. Raises OSError.
    """
    closed, still = 0, []
    reached = bool(stat.S_IMODE(folder.stat().st_mode) & OTHERS)
    for path in _entries(folder):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(status.st_mode)
        if not mode & OTHERS or stat.S_ISLNK(status.st_mode):
            continue
        if status.st_uid != os.geteuid() or mode & stat.S_ISVTX:
            still.append(path)
            continue
        path.chmod(mode & ~OTHERS)
        closed += reached
    return closed, still


def _entries(folder: Path) -> Iterator[Path]:
    yield folder
    for path in folder.iterdir():
        if path.name in OURS or path.name.startswith("voter"):
            yield path
            if path.is_dir() and not path.is_symlink():
                yield from path.rglob("*")
