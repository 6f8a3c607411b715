"""The leaf: what is done to bytes once for every entry, in C where that was built.

Rules: the Python function is the reference, and stays in the room whose bytes they are; ``@native`` puts the C function
of its name (leaf.c) in its place; ``record_writer`` and ``record_reader`` put one that knows the fields of a record.
That one only ever says yes. What it does not take as it stands (another type, a number too large, bytes that are wrong
in any way) it hands to the Python function: so errors are the same to the letter, and there is one place where they are
written. A build of another source, or one that does not load, is not used. ``QUORATE_PURE=1``: none is.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar, cast
from zlib import crc32

SOURCE: Final = Path(__file__).with_name("leaf.c")
PURE: Final = "QUORATE_PURE"

Function = TypeVar("Function", bound=Callable[..., Any])


def _chosen() -> tuple[ModuleType | None, str]:
    """The build to use, and how it is told of."""
    if os.environ.get(PURE) == "1":
        return None, f"pure: {PURE}=1"
    try:
        from quorate.leaf import _native  # noqa: PLC0415 - it may be missing

        if crc32(SOURCE.read_bytes()) != _native.SOURCE:
            return None, "pure: the native leaf was built of another source"
    except (ImportError, OSError):
        return None, "pure: no native leaf was built"
    return _native, "native"


_library, BUILD = _chosen()


def native(pure: Function) -> Function:
    """The C function of that name, which falls back on this one; this one itself, if there is no build to use."""
    return pure if _library is None else cast(Function, _library.made(pure))


def record_writer(prefix: bytes, names: tuple[str, ...], kinds: str) -> Callable[[Function], Function]:
    """For a function from a value to the prefix and its Avro record, whose fields are, in order, of these kinds: ``s``
    string, ``y`` bytes, ``i`` int, ``l`` long, ``b`` boolean, ``L`` array of longs.
    """

    def chosen(pure: Function) -> Function:
        return pure if _library is None else cast(Function, _library.writer(pure, prefix, names, kinds))

    return chosen


def record_reader(made: type, names: tuple[str, ...], kinds: str) -> Callable[[Function], Function]:
    """For a function from bytes and a position to the value made of such a record, and where it ends."""

    def chosen(pure: Function) -> Function:
        return pure if _library is None else cast(Function, _library.reader(pure, made, names, kinds))

    return chosen
