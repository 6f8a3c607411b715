"""The one invariant: an event is applied iff its offset is the position; rows and position move together.

Rules: the model comes first, then the views' folds, which are given what it made of the event's entity. An offset that
is smaller: it is reflected already, skip. Larger: something between was lost; apply nothing, read again. So whoever
delivers events may drop, repeat or seek as he likes: that costs time, never exactness. A fold that raises changes
nothing: the position stays, the rows stay readable, and the reason is kept in ``failed``.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, get_args

import msgspec

from quorate.errors import StorageError
from quorate.events import ClusterCreated, DecodeError, Event, Stamp, about, decode, key
from quorate.model.entity import entity_after
from quorate.resolving import Resolver, SchemaNeededError
from quorate_projections.record import Headers, RecordError, event_offset, read_event, read_stamp
from quorate_projections.store import Position, RowStore
from quorate_projections.views import View
from quorate_projections.views.view import Change


class TakeResult(Enum):
    """The outcome of a record."""

    APPLIED = auto()
    REPEATED = auto()
    """Reflected already."""
    GAP = auto()
    """Events before it are missing."""
    UNREAD = auto()
    """Its schema is newer than this software and was not asked for yet: ``learn``, and take it again."""
    FAILED = auto()
    """It, or one before it, cannot be applied: ``failed`` says why."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why the table stands still."""

    offset: int
    """Of the event that could not be applied."""
    reason: str


class _ViewRows:
    """One view's rows as its fold sees them: changes of this event, then the store."""

    __slots__ = ("_changes", "_initial", "_name", "_store")

    def __init__(self, name: str, initial: msgspec.Struct, store: RowStore, changes: dict[str, Any]) -> None:
        self._name = name
        self._initial = initial
        self._store = store
        self._changes = changes

    def get(self, key: str) -> Any:
        full = f"{self._name}/{key}"
        row = self._changes[full] if full in self._changes else self._store.row(self._name, key)
        return self._initial if row is None else row

    def put(self, key: str, row: msgspec.Struct) -> None:
        self._changes[f"{self._name}/{key}"] = row

    def drop(self, key: str) -> None:
        self._changes[f"{self._name}/{key}"] = None


class Folding:
    """Applies records to a store, each exactly once. ``resolver``: of schemas that this software does not have."""

    def __init__(self, store: RowStore, resolver: Resolver | None = None) -> None:
        self.store = store
        self._resolver = resolver
        self._decode = decode if resolver is None else resolver.decode_known
        self.needed: int | None = None
        """Id of the schema of the record that was left unread, until it is learned."""
        self.failed: Failure | None = None
        self.applied = 0
        """Events applied since it was made."""
        self._changes: dict[str, Any] = {}
        handles = {view.name: _ViewRows(view.name, view.initial, store, self._changes) for view in store.views.values()}
        self._folds: dict[type[Event], Sequence[tuple[View[Any, Any], _ViewRows]]] = {
            kind: [(view, handles[view.name]) for view in store.views.values() if kind in view.mine]
            for kind in get_args(Event)
        }

    def take(self, kafka: int, headers: Headers, value: bytes | None) -> TakeResult:
        """Look at one record; ``kafka`` is its Kafka offset. Never raises for what a record says."""
        if self.failed is not None:
            return TakeResult.FAILED
        position = self.store.position
        try:
            offset = event_offset(headers)
            if offset != position.events:
                return TakeResult.REPEATED if offset < position.events else TakeResult.GAP
            stamp, event = read_stamp(headers), read_event(value, self._decode)
            cluster_id = _cluster_id(position, stamp, event)
        except SchemaNeededError as needed:
            self.needed = needed.number
            return TakeResult.UNREAD
        except RecordError as error:
            return self.fail(str(error))
        after = Position(
            events=offset + 1,
            kafka=kafka + 1,
            cluster_id=cluster_id,
            term=stamp.term,
            time_ms=stamp.time_ms,
            versions=position.versions,
        )
        return self._fold(stamp, event, after)

    def _fold(self, stamp: Stamp, event: Event, after: Position) -> TakeResult:
        changes, touched, size = self._changes, list[str](), 0
        changes.clear()
        try:
            place = key(event)
            entity = entity_after(self.store.entity(place), event, stamp)
        except StorageError as error:
            return self.fail(str(error))
        except Exception as error:  # noqa: BLE001  As below.
            return self.fail(f"the model cannot take {type(event).__name__}: {error!r}")
        change = Change(stamp, event, *about(event), entity)
        for view, rows in self._folds[type(event)]:
            try:
                view.fold(rows, change)
            except StorageError as error:
                return self.fail(str(error))
            except Exception as error:  # noqa: BLE001  A fold's defect must stop the table, not the worker.
                return self.fail(f"the fold of {view.name} failed on {type(event).__name__}: {error!r}")
            if len(changes) > size:
                size = len(changes)
                touched.append(view.name)
        self.store.merge(changes, touched, after, (place, entity))
        self.applied += 1
        return TakeResult.APPLIED

    def learn(self) -> None:
        """Ask a registry for the schema of the record that was left unread, if one was; waits for the answer.

        Raises UnreachedError; where no answer can help, it stands still.
        """
        if self._resolver is None or self.needed is None:
            return
        try:
            self._resolver.learn(self.needed)
        except DecodeError as error:
            self.fail(f"a record that cannot be read: {error}")
        self.needed = None

    def fail(self, reason: str) -> TakeResult:
        """Stand still at the position."""
        if self.failed is None:
            self.failed = Failure(offset=self.store.position.events, reason=reason)
        return TakeResult.FAILED


def _cluster_id(position: Position, stamp: Stamp, event: Event) -> str:
    """The cluster whose log this is. Raises RecordError for what no log of ours has."""
    if position.events == 0:
        if not isinstance(event, ClusterCreated):
            raise RecordError(f"offset 0 holds {type(event).__name__} and not ClusterCreated")
        return event.cluster_id
    if stamp.term < position.term or stamp.time_ms < position.time_ms:
        raise RecordError(
            f"term {stamp.term} at {stamp.time_ms} after term {position.term} at {position.time_ms}: another history"
        )
    return position.cluster_id
