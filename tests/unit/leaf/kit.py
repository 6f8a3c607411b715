"""The native leaf for tests: built of this source, whatever set-up made; and what two functions make of one call."""

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

from quorate.leaf import SOURCE
from quorate.leaf.build import build

Call = tuple[Any, ...]


def loaded(path: Path) -> ModuleType:
    """The library in that file, beside whatever is loaded already."""
    spec = spec_from_file_location("quorate.leaf._native", path)
    assert spec and spec.loader
    library = module_from_spec(spec)
    spec.loader.exec_module(library)
    return library


def compiled(source: Path = SOURCE) -> ModuleType:
    """A library of that source. Skips where nothing can be compiled."""
    with TemporaryDirectory() as folder:
        target = Path(folder, "_native.so")
        told = build(target, source)
        if not target.exists():
            pytest.skip(f"no native leaf: {told}")
        return loaded(target)


@cache
def library() -> ModuleType:
    """Of this tree's source, once."""
    return compiled()


def pure(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function, whether or not the native one is in its place."""
    found: Callable[..., Any] = getattr(function, "__self__", function)
    return found


class DeclinedError(Exception):
    """The native function handed the call on."""


def alone(function: Callable[..., Any], of: ModuleType | None = None) -> Callable[..., Any]:
    """The native function; what it does not take raises DeclinedError."""

    def declined(*_: Any, **__: Any) -> Any:
        raise DeclinedError

    declined.__name__ = pure(function).__name__
    made: Callable[..., Any] = (of or library()).made(declined)
    return made


def both(function: Callable[..., Any]) -> Callable[..., Any]:
    """The native function in the place of the Python one, as a node has it."""
    made: Callable[..., Any] = library().made(pure(function))
    return made


def outcome(function: Callable[..., Any], call: Call) -> object:
    """What it answers, to the type of every part; or what it raises, to the letter."""
    try:
        return typed(function(*call))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other must do the same
        return type(error), str(error)


def typed(value: object) -> object:
    """The value with its type, and so its parts."""
    if isinstance(value, tuple | list):
        return type(value), [typed(part) for part in value]
    return type(value), value


def references(value: object) -> int:
    """How many hold it."""
    return sys.getrefcount(value)
