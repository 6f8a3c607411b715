"""What a view is: a name, an initial value, and a pure fold from (rows, stamp, event) to rows.

Rules: a fold looks at nothing but its arguments, changes nothing but rows of its own view, never reads a clock, and
raises when an event cannot be: the table then stands still and says so. Every event is either ``mine`` or ``not_mine``
of every view (tests/unit/projections/test_views.py), so that a new event is a decision and not an oversight. Who
changes what a fold makes of the log raises ``version``: rows of another version are rebuilt, never read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from quorate.events import Event, Stamp

Row = TypeVar("Row", bound=msgspec.Struct)
Row_co = TypeVar("Row_co", bound=msgspec.Struct, covariant=True)
Mine = TypeVar("Mine")


class Rows(Protocol[Row]):
    """The rows of one view, as its fold sees them; others see a change when every fold of the event has returned."""

    def get(self, key: str) -> Row:
        """The row under a key; the view's initial value when there is none."""

    def put(self, key: str, row: Row) -> None:
        """Set a row."""

    def drop(self, key: str) -> None:
        """Take a row away; one that is not there already is."""


class Shelf(Protocol[Row_co]):
    """The rows of one view at one offset, as ``compose`` sees them."""

    def under(self, prefix: str) -> Iterator[tuple[str, Row_co]]:
        """Rows whose key begins so, by key."""


@dataclass(frozen=True)
class View(Generic[Row, Mine]):
    """One table."""

    name: str
    """Lower-case letters and underscores; part of every row's key."""
    what: str
    """One sentence for whoever lists the views."""
    initial: Row
    """The row of a key nobody has written."""
    fold: Callable[[Rows[Row], Stamp, Mine], None]
    mine: frozenset[type[Event]]
    not_mine: frozenset[type[Event]]
    version: int = 1
    row: Any = None
    """Type of the rows, when they are of several; else that of the initial value."""
    prefix: str = ""
    """Only rows whose key begins so are shown, without it; the others are for ``compose``."""
    compose: Callable[[Shelf[Row], Row], msgspec.Struct] | None = None
    """What is shown of a row, when that is more than the row."""
    led_by: str = ""
    """Field whose value and a slash begin every key: filtering by it looks at those rows only."""

    @property
    def row_type(self) -> Any:
        """What a stored row is decoded as."""
        return self.row or type(self.initial)


def offset_key(offset: int) -> str:
    """An offset as part of a key: by key means by offset."""
    return f"{offset:020d}"
