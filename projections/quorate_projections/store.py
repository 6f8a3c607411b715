"""Where the rows are: one RocksDB that holds the rows of all views and the position they reflect.

Rules: rows, the model's entities and position change together, in one write batch; whatever dies when, they fit each
other. No sync is needed: after a power loss all fall back together. A change is visible to readers once every fold of
its event has returned, and may be read before it is on disk, for the event is committed already. Rows of another
version of a view, or of the model, are never read.

Theory: a row's key is ``<view>/<key>``, its value JSON, so that a reader gets its bytes as they are. Changed rows stay
decoded in ``_dirty`` until the next ``save`` and in a bounded cache after it: a row that changes often is decoded once.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rocksdict import AccessType, Options, Rdict, ReadOptions, WriteBatch

from quorate.errors import StorageError, UsageError
from quorate.model.entity import MODEL_VERSION
from quorate.model.rows import Entity, decoded, encoded
from quorate_projections.views import VIEWS, View

META: Final = b"\xff/position"
"""Sorts after every row: no view's name begins with that byte."""
MODEL: Final = b"\xfe/"
"""Begins the keys of the model's entities."""
OPEN_FILES_MAX: Final = 64
"""Tables that are open at a time."""
_UNKNOWN: Final[Any] = object()
_encode = msgspec.json.Encoder().encode


class Position(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The part of the log that the rows reflect."""

    events: int = 0
    """Events reflected: those before this offset, which is the next one to apply."""
    kafka: int = 0
    """Kafka offset to read from; the same number on a node, more on a mirror (transaction markers)."""
    cluster_id: str = ""
    """Of the log they were made from; empty before its first event."""
    term: int = 0
    """Term of the last event."""
    time_ms: int = 0
    """Time of the last event."""
    versions: dict[str, int] = {}
    """View → version of its fold; and the model's, under ``/model``."""


class VersionsDifferError(UsageError):
    """The rows were made by other folds than those of this software."""


class RowStore:
    """Rows and position. Raises StorageError when the directory cannot be opened, VersionsDifferError."""

    def __init__(self, path: Path, views: Sequence[View[Any, Any]] = VIEWS, cache_rows: int = 20_000) -> None:
        self.path = path
        self.views = {view.name: view for view in views}
        self._decoders = {view.name: msgspec.json.Decoder(view.row_type) for view in views}
        self._dirty: dict[str, msgspec.Struct | None] = {}
        self._cache: dict[str, msgspec.Struct | None] = {}
        self._dirty_entities: dict[bytes, Entity | None] = {}
        self._entities: dict[bytes, Entity | None] = {}
        self._cache_rows = cache_rows
        self.unsaved = 0
        """Events applied since the last save."""
        self.changes = dict.fromkeys(self.views, 0)
        """View → events that changed rows of it since this store was opened."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = Rdict(str(path), _options())
        except Exception as error:  # rocksdict raises plain Exception.
            raise self._error(error) from error
        self._read_options = ReadOptions()
        self.position = self._stored_position()

    def _stored_position(self) -> Position:
        versions = {"/model": MODEL_VERSION} | {view.name: view.version for view in self.views.values()}
        stored = self._get(META)
        if stored is None:
            return Position(versions=versions)
        position = msgspec.json.decode(stored, type=Position)
        if position.versions != versions:
            self._db.close()
            raise VersionsDifferError(
                f"{self.path}: the rows were made by other folds ({position.versions}) than this software has"
                f" ({versions}): quorate projections rebuild"
            )
        return position

    # Changing.

    def merge(
        self,
        changes: Mapping[str, msgspec.Struct | None],
        touched: Sequence[str],
        position: Position,
        entity: tuple[bytes, Entity | None],
    ) -> None:
        """Take what an event changed: full key → row (None: dropped), of which views; its entity; the new position."""
        self._dirty.update(changes)
        self._dirty_entities[entity[0]] = entity[1]
        for name in touched:
            self.changes[name] += 1
        self.position = position
        self.unsaved += 1

    def save(self) -> None:
        """Write what is not on disk yet. Raises StorageError."""
        if not self.unsaved:
            return
        batch = WriteBatch(raw_mode=True)
        for key, row in self._dirty.items():
            if row is None:
                batch.delete(key.encode())
            else:
                batch.put(key.encode(), _encode(row))
        for name, entity in self._dirty_entities.items():
            if entity is None:
                batch.delete(MODEL + name)
            else:
                batch.put(MODEL + name, encoded(entity))
        batch.put(META, _encode(self.position))
        try:
            self._db.write(batch)
        except Exception as error:  # rocksdict raises plain Exception.
            raise self._error(error) from error
        if len(self._cache) + len(self._dirty) > self._cache_rows:
            self._cache.clear()
        self._cache.update(self._dirty)
        self._dirty.clear()
        if len(self._entities) + len(self._dirty_entities) > self._cache_rows:
            self._entities.clear()
        self._entities.update(self._dirty_entities)
        self._dirty_entities.clear()
        self.unsaved = 0

    def close(self) -> None:
        """Write what is left, and let the directory go."""
        self.save()
        self._db.close()

    # Reading. All of it raises StorageError for what cannot be read.

    def _get(self, key: bytes) -> bytes | None:
        try:
            stored: bytes | None = self._db.get(key)
        except Exception as error:  # rocksdict raises plain Exception.
            raise self._error(error) from error
        return stored

    def _error(self, error: Exception) -> StorageError:
        """What RocksDB said, and what helps against damage."""
        remedy = ": quorate projections rebuild" if "Corruption" in str(error) else ""
        return StorageError(f"{self.path}: {error}{remedy}")

    def entity(self, key: bytes) -> Entity | None:
        """The model's entity under an event's key; None when there is none."""
        for entities in (self._dirty_entities, self._entities):
            if key in entities:
                return entities[key]
        stored = self._get(MODEL + key)
        entity = None if stored is None else decoded(key, stored)
        if len(self._entities) >= self._cache_rows:
            self._entities.clear()
        self._entities[key] = entity
        return entity

    def row(self, view: str, key: str) -> msgspec.Struct | None:
        """The decoded row; None when there is none."""
        full = f"{view}/{key}"
        value = self._dirty.get(full, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._cache.get(full, _UNKNOWN)
        if value is _UNKNOWN:
            stored = self._get(full.encode())
            value = None if stored is None else self._decoders[view].decode(stored)
            if len(self._cache) >= self._cache_rows:
                self._cache.clear()
            self._cache[full] = value
        row: msgspec.Struct | None = value
        return row

    def raw(self, view: str, key: str) -> bytes | None:
        """The row as JSON; None when there is none."""
        full = f"{view}/{key}"
        row = self._dirty.get(full, _UNKNOWN)
        if row is not _UNKNOWN:
            return None if row is None else _encode(row)
        return self._get(full.encode())

    def scan(
        self, view: str, prefix: str = "", after: str | None = None, *, backwards: bool = False
    ) -> Iterator[tuple[str, bytes]]:
        """(key, JSON) of the rows whose key begins with ``prefix``, by key, after one key, be it one of them or not; do
        not await in between.
        """
        self.save()
        first = f"{view}/{prefix}".encode()
        end = first + b"\xff"  # UTF-8 has no such byte: after every key with this prefix.
        before = None if after is None else f"{view}/{after}".encode()
        try:
            cursor = self._db.iter(self._read_options)
            move = cursor.prev if backwards else cursor.next
            if backwards:
                cursor.seek_for_prev(end if before is None else min(before, end))
            else:
                cursor.seek(first if before is None else max(before, first))
            if cursor.valid() and cursor.key() == before:
                move()
            while cursor.valid() and (key := cursor.key()).startswith(first):
                yield key.decode().partition("/")[2], cursor.value()
                move()
            cursor.status()  # An iterator of RocksDB simply ends at a block it cannot read.
        except Exception as error:  # rocksdict raises plain Exception.
            raise self._error(error) from error

    def decode(self, view: str, row: bytes) -> msgspec.Struct:
        """A row from its JSON."""
        value: msgspec.Struct = self._decoders[view].decode(row)
        return value


def stored_position(path: Path) -> Position | None:
    """What the rows there reflect, also while another process has them open, and whatever folds made them; None: none
    can be read.
    """
    if not path.is_dir():
        return None
    try:
        rows = Rdict(str(path), _options(), access_type=AccessType.read_only())
        stored = rows.get(META)
        rows.close()
        return None if stored is None else msgspec.json.decode(stored, type=Position)
    except Exception:  # noqa: BLE001  rocksdict raises plain Exception.
        return None


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_keep_log_file_num(2)
    options.set_max_open_files(OPEN_FILES_MAX)
    return options


class StoredRows:
    """One view's rows as its ``compose`` sees them."""

    def __init__(self, store: RowStore, view: str) -> None:
        self._store = store
        self._view = view

    def under(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Rows whose key begins so, by key."""
        for key, row in self._store.scan(self._view, prefix):
            yield key, self._store.decode(self._view, row)
