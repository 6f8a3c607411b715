"""A data directory that stands in somebody's checkout is no part of it: git is told to pass it by."""

from contextlib import suppress
from pathlib import Path


def unseen_by_git(folder: Path) -> None:
    """A folder of ours that stands in somebody's checkout is no part of it, least of all a secret. What is there stays;
    where it cannot be written (a disk that is full), nothing else needs it.
    """
    ignored = folder / ".gitignore"
    with suppress(OSError):
        ignored.touch(mode=0o600, exist_ok=False)
        ignored.write_text("*\n", encoding="ascii")
