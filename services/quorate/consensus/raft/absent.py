"""What a library imports where it is there, and we do without."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def absent(name: str) -> Iterator[None]:
    """As if this package were not installed, for what is imported meanwhile; who imported it before still has it."""
    own = {found: sys.modules.pop(found) for found in tuple(sys.modules) if found.split(".")[0] == name}
    sys.modules[name] = None  # type: ignore[assignment]  # So says importlib that it is not to be found.
    try:
        yield
    finally:
        del sys.modules[name]
        sys.modules.update(own)
