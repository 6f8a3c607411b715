"""A command of ``quorate``; other packages bring theirs in the entry-point group ``quorate.commands``.

Rules: the name of the entry point is the word that is typed, its object has the two functions of a ``Command`` (a
module will do, so that other packages need not import this one); it is loaded when typed, so that
``quorate --help`` stays quick. ``run`` returns the exit status: 0 done, 1 refused or unhealthy, 2 used wrongly
(``errors.UsageError`` is turned into 2).
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

DONE: Final = 0
REFUSED: Final = 1
MISUSED: Final = 2


@dataclass(frozen=True)
class Command:
    """One word after ``quorate``."""

    arguments: Callable[[ArgumentParser], None]
    """Adds the command's own arguments."""
    run: Callable[[Namespace], int]
    """Does it; the exit status."""
