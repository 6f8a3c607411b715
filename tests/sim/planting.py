"""How a bug is planted in production code: a name replaced, or a method compiled again with one line changed.

Rules: only in a process that runs nothing else. What is to be changed must be there, or planting fails: a mutant that
changes nothing would count as one that nobody caught.
"""

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import msgspec


class Mutant(msgspec.Struct, frozen=True):
    """One planted bug."""

    what: str
    apply: Callable[[], None]
    script: Callable[[int], None] | None = None
    """Only this schedule is known to catch it; it is run instead of random seeds."""
    test: str = ""
    """The unit test that catches it, where the simulator cannot see it: a pytest id."""


def swap(owner: object, name: str, replacement: object) -> None:
    """Put ``replacement`` in the place of a method or function that must exist."""
    getattr(owner, name)
    setattr(owner, name, replacement)


def edit(owner: Any, name: str, old: str, new: str) -> Callable[[], None]:
    """A change of the text of one function or method, not made yet."""

    def change() -> None:
        found = inspect.getattr_static(owner, name)
        wrapper = type(found) if isinstance(found, (classmethod, staticmethod, property)) else None
        function: Any = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        source = textwrap.dedent(inspect.getsource(function))
        if old not in source:
            raise LookupError(f"{name} does not say {old!r} any more")
        lines = source.replace(old, new, 1).splitlines()
        while lines[0].startswith("@"):
            lines.pop(0)
        text = "from __future__ import annotations\n" + "\n".join(lines)
        compiled: dict[str, Any] = {}
        exec(compile(text, f"<planted in {name}>", "exec"), sys.modules[function.__module__].__dict__, compiled)
        setattr(owner, name, wrapper(compiled[name]) if wrapper is not None else compiled[name])

    return change
