"""A command of ``quorate``; other packages bring theirs in the entry-point group ``quorate.commands``.

Rules: the name of the entry point is the word that is typed, its object has the two functions of a ``Command`` (a
module will do, so that other packages need not import this one); it is loaded when typed, so that
``quorate --help`` stays quick. ``run`` returns the exit status: 0 done, 1 refused or unhealthy, 2 used wrongly
(``errors.UsageError`` is turned into 2).
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

DONE: Final = 0
REFUSED: Final = 1
MISUSED: Final = 2
INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Command:
    """One word after ``quorate``."""

    arguments: Callable[[ArgumentParser], None]
    """Adds the command's own arguments."""
    run: Callable[[Namespace], int]
    """Does it; the exit status."""


def number(most: int = LONG_MAX) -> Callable[[str], int]:
    """Type of an argument: a number of 0 or more that a message of gRPC holds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit():
            raise ArgumentTypeError(f"expected a number of 0 or more, not {text[:40]!r}")
        if len(text) > len(str(most)) or int(text) > most:
            raise ArgumentTypeError(f"expected a number of {most} or less, not {text[:40]!r}")
        return int(text)

    return read
