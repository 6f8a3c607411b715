"""How a bug is planted in production code: a name replaced, or a method compiled again with one line changed.

Rules: only in a process that runs nothing else. What is to be changed must be there, or planting fails: a mutant that
changes nothing would count as one that nobody caught. So must every name that the change uses: a mutant that fails by a
NameError would count as one that was caught.
"""

import builtins
import dis
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType
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


def together(*changes: Callable[[], None]) -> Callable[[], None]:
    """A rule that is kept in several places is broken in all of them."""

    def change() -> None:
        for one in changes:
            one()

    return change


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
        there = sys.modules[function.__module__].__dict__
        exec(compile(text, f"<planted in {name}>", "exec"), there, compiled)
        if unknown := set(_global_names(compiled[name].__code__)) - set(there) - set(vars(builtins)):
            raise LookupError(f"what is planted in {name} uses {', '.join(sorted(unknown))}, which is not there")
        setattr(owner, name, wrapper(compiled[name]) if wrapper is not None else compiled[name])

    return change


def _global_names(code: CodeType) -> Iterator[str]:
    """Every global that a function reads, and those inside it."""
    for step in dis.get_instructions(code):
        if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            yield str(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)
