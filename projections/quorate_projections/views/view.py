"""A view: a name, an initial value, and a pure fold from (rows, change) to rows.

Rules: a fold looks at nothing but its arguments, changes nothing but rows of its own view, never reads a clock, and
raises when an event cannot be: the table then stands still and says so. A change to what a fold makes of the log
raises ``version``: rows of another version are rebuilt, never read.

Two kinds of views. One that shows *state* is a question to the model (``showing``): the row of an entity, and of what
the model does not keep only when it changed. It names kinds of entities and no event, so that a new event needs nothing
here. One that keeps *history* folds by itself: its ``mine`` names the kinds it means, all others pass it by.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from quorate.events import Event, Stamp, kinds_about
from quorate.model.rows import Entity

Row = TypeVar("Row", bound=msgspec.Struct)
Row_co = TypeVar("Row_co", bound=msgspec.Struct, covariant=True)
Mine = TypeVar("Mine")


class Change(msgspec.Struct, Generic[Mine], frozen=True, gc=False):
    """An event, and what the model makes of the entity it touches."""

    stamp: Stamp
    event: Mine
    kind: str
    """Of the entity, such as ``broker-set``."""
    name: str
    """Of the entity."""
    entity: Entity | None
    """After the event; None: it is not there."""


class Rows(Protocol[Row]):
    """The rows of one view, as its fold sees them; others see a change when every fold of the event has returned."""

    def get(self, key: str) -> Row:
        """The row under a key; the view's initial value when there is none."""

    def put(self, key: str, row: Row) -> None:
        """Set a row."""

    def drop(self, key: str) -> None:
        """Take a row away; one that is not there already is."""


class RowLookup(Protocol[Row_co]):
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
    fold: Callable[[Rows[Row], Change[Mine]], None]
    mine: frozenset[type[Event]]
    """The kinds of events that are folded."""
    version: int = 1
    row: Any = None
    """Type of the rows, when they are of several; else that of the initial value."""
    prefix: str = ""
    """Only rows whose key begins so are shown, without it; the others are for ``compose``."""
    compose: Callable[[RowLookup[Row]], Callable[[Row], msgspec.Struct]] | None = None
    """What makes of a row what is shown, when that is more than the stored one; made anew when rows of the view change,
    so that many rows cost one look at what they share.
    """
    indexed: str = ""
    """Field by which every row stands a second time, under ``index_key``: filtering by it looks at those rows only."""

    @property
    def row_type(self) -> Any:
        """The type of a stored row."""
        return self.row or type(self.initial)


Show = Callable[[Any, Row, Stamp], Row]
"""The row of an entity, from the entity, the row before, and the stamp of the event that touched it."""


def showing(name: str, what: str, initial: Row, shows: dict[str, tuple[str, Show[Row]]], **more: Any) -> View[Row, Any]:
    """A view of state. ``shows``: kind of entity → what its rows' keys begin with, and what shows it."""

    def fold(rows: Rows[Row], change: Change[Any]) -> None:
        prefix, show = shows[change.kind]
        key = prefix + change.name
        if change.entity is None:
            rows.drop(key)
            return
        before = rows.get(key)
        row = show(change.entity, before, change.stamp)
        if row != before:
            rows.put(key, row)

    return View(name=name, what=what, initial=initial, fold=fold, mine=kinds_about(*shows), **more)


def row_of(kind: type[Row], source: object, **others: object) -> Row:
    """A row with what an entity or an event says by the same names, and ``others`` beside."""
    return msgspec.structs.replace(msgspec.convert(source, kind, from_attributes=True), **others)


def index_key(value: str, key: str) -> str:
    """Where a row stands a second time: by the value of a field, then by its own key."""
    return f"by/{value}/{key}"


def offset_key(offset: int) -> str:
    """An offset as part of a key: by key means by offset."""
    return f"{offset:020d}"
