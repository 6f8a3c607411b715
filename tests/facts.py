"""Which kinds of events there are to find: those that a decision writes."""

import importlib
import pkgutil
from typing import get_args

from quorate import metadata
from quorate.events import Event

_ROOM = [importlib.import_module(f"quorate.metadata.{found.name}") for found in pkgutil.iter_modules(metadata.__path__)]
WRITTEN = {
    kind.__name__ for kind in get_args(Event) if any(kind is one for room in _ROOM for one in vars(room).values())
}
"""By name: the room of decisions has no other use for an event than to write it."""
