"""The worker's answers over HTTP: views, rows, pages of rows. No Faust and no sockets in here.

Rules: every answer carries ``offset`` (it reflects the events before this one), ``time_ms`` (of the last of them) and
``age_ms``. An answer is made without awaiting, so it is a snapshot of one offset. A page is bounded in rows, bytes and
rows looked at; ``next`` is the ``after`` of the next one. Bad questions are told what is wrong with them.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from quorate.errors import StorageError, UsageError
from quorate_projections.materialized_views import MaterializedViews, TooManyWaitersError
from quorate_projections.store import RowStore, StoredRows
from quorate_projections.views import View
from quorate_projections.views.view import index_key

_encode = msgspec.json.Encoder().encode
COMPOSED_MAX: Final = 4096
"""Composed rows kept of a view."""
RESERVED: Final = frozenset({"limit", "after", "order", "prefix", "min_offset", "wait_ms"})


class Answer(msgspec.Struct, frozen=True):
    """A status and a body, JSON."""

    status: int
    body: bytes


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A question for a page of rows."""

    limit: int
    under: str
    """Prefix of the stored keys, which is not shown."""
    after: str | None
    prefix: str
    backwards: bool
    filters: tuple[tuple[str, str], ...]
    """(field, text its value must have)."""


class Composed(NamedTuple):
    """What was composed of a view's rows, until something in it changes."""

    store: RowStore
    change: int
    compose: Callable[[Any], msgspec.Struct]
    rows: dict[str, bytes]


class Answers:
    """Answers from one worker's rows."""

    def __init__(self, materialized_views: MaterializedViews) -> None:
        self._materialized_views = materialized_views
        self.reads = dict.fromkeys(materialized_views.store.views, 0)
        """View → answers given from it."""
        self._composed: dict[str, Composed] = {}

    # Waiting.

    async def waited(self, query: Mapping[str, str]) -> Answer | None:
        """Wait for ``min_offset`` if the query has it; an answer only when that was in vain."""
        if "min_offset" not in query:
            return None
        settings = self._materialized_views.settings
        try:
            offset = _integer(query, "min_offset", 0, 0)
            wait_s = min(_integer(query, "wait_ms", int(settings.wait_default_s * 1000), 0) / 1000, settings.wait_max_s)
            if await self._materialized_views.reached(offset, wait_s):
                return None
        except TooManyWaitersError as error:
            return self._refused(HTTPStatus.TOO_MANY_REQUESTS, "busy", str(error))
        except UsageError as error:
            return self._refused(HTTPStatus.BAD_REQUEST, "invalid", str(error))
        return self._refused(
            HTTPStatus.GATEWAY_TIMEOUT, "behind", f"{offset} events are not reflected within {wait_s:g} s"
        )

    # Answers.

    def views(self) -> Answer:
        """GET /views."""
        listed = [
            {
                "view": view.name,
                "what": view.what,
                "version": view.version,
                "fields": _field_names(view),
            }
            for view in self._materialized_views.store.views.values()
        ]
        return self._stamped(b'"views":' + _encode(listed))

    def row(self, name: str, key: str) -> Answer:
        """GET /views/{view}/{key}."""
        view = self._materialized_views.store.views.get(name)
        if view is None:
            return self._unknown(name)
        try:
            shown = self._shown(view, key, None)
        except StorageError as error:
            return self._unread(error)
        if shown is None:
            return self._refused(HTTPStatus.NOT_FOUND, "not_found", f"there is no {key!r} in {name}")
        self.reads[name] += 1
        head = b'"view":' + _encode(name) + b',"key":' + _encode(key)
        return self._stamped(head + b',"row":' + shown)

    def page(self, name: str, query: Mapping[str, str]) -> Answer:
        """GET /views/{view}."""
        view = self._materialized_views.store.views.get(name)
        if view is None:
            return self._unknown(name)
        try:
            asked = self._asked(view, query)
        except UsageError as error:
            return self._refused(HTTPStatus.BAD_REQUEST, "invalid", str(error))
        try:
            rows, following = self._rows(view, asked)
        except StorageError as error:
            return self._unread(error)
        self.reads[name] += 1
        head = b'"view":' + _encode(name) + b',"rows":[' + b",".join(rows)
        return self._stamped(head + b'],"next":' + _encode(following))

    def ready(self) -> Answer:
        """GET /ready."""
        health = self._materialized_views.health()
        return Answer(HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE, _encode(health))

    # How they come about.

    def _asked(self, view: View[Any, Any], query: Mapping[str, str]) -> Page:
        settings, fields = self._materialized_views.settings, _field_names(view)
        by_order = "order" in fields and query.get("order") in {"true", "false"}  # A topic's own, not that of the page.
        order = "asc" if by_order else query.get("order", "asc")
        if order not in {"asc", "desc"}:
            raise UsageError(f"order: {order[:40]!r} is neither asc nor desc")
        reserved = RESERVED - {"order"} if by_order else RESERVED
        filters = tuple((name, text) for name, text in query.items() if name not in reserved)
        unknown = [name for name, _ in filters if name not in fields]
        if unknown:
            raise UsageError(f"{unknown[0][:40]!r} is no field of {view.name}: {', '.join(fields)}")
        indexed = [index_key(text, "") for name, text in filters if name == view.indexed]
        return Page(
            limit=min(_integer(query, "limit", settings.page_default, 1), settings.page_max),
            under=indexed[0] if indexed else view.prefix,
            after=query.get("after"),
            prefix=query.get("prefix", ""),
            backwards=order == "desc",
            filters=filters,
        )

    def _rows(self, view: View[Any, Any], asked: Page) -> tuple[list[bytes], str | None]:
        """The rows of a page, as JSON, and the key to go on after; None: there are no more."""
        store, settings = self._materialized_views.store, self._materialized_views.settings
        after = None if asked.after is None else asked.under + asked.after
        rows: list[bytes] = []
        last, size, looked = "", 0, 0
        for stored_key, stored in store.scan(view.name, asked.under + asked.prefix, after, backwards=asked.backwards):
            if len(rows) >= asked.limit or size >= settings.page_bytes_max or looked >= settings.scan_max:
                return rows, last
            last = stored_key.removeprefix(asked.under)
            looked += 1
            if asked.filters and not _matches(store.decode(view.name, stored), asked.filters):
                continue
            row = self._shown(view, last, stored) or b"null"
            rows.append(b'{"key":' + _encode(last) + b',"row":' + row + b"}")
            size += len(row)
        return rows, None

    def _shown(self, view: View[Any, Any], key: str, stored: bytes | None) -> bytes | None:
        """A row as it is shown; None: there is none."""
        store = self._materialized_views.store
        if view.compose is None:
            return store.raw(view.name, view.prefix + key) if stored is None else stored
        change, kept = store.changes[view.name], self._composed.get(view.name)
        if kept is None or kept.store is not store or kept.change != change:
            kept = Composed(store, change, view.compose(StoredRows(store, view.name)), {})
            self._composed[view.name] = kept
        if key in kept.rows:
            return kept.rows[key]
        row = store.row(view.name, view.prefix + key)
        if row is None:
            return None
        if len(kept.rows) >= COMPOSED_MAX:
            kept.rows.clear()
        kept.rows[key] = shown = _encode(kept.compose(row))
        return shown

    def _stamp(self) -> bytes:
        position = self._materialized_views.store.position
        return b'{"offset":%d,"time_ms":%d,"age_ms":%d,' % (
            position.events,
            position.time_ms,
            self._materialized_views.age_ms,
        )

    def _stamped(self, rest: bytes) -> Answer:
        return Answer(HTTPStatus.OK, self._stamp() + rest + b"}")

    def _unread(self, error: StorageError) -> Answer:
        """A part of what was asked for is no answer. Nothing more is folded into rows that are damaged."""
        self._materialized_views.folding.fail(str(error))
        return self._refused(HTTPStatus.INTERNAL_SERVER_ERROR, "storage", str(error))

    def _unknown(self, name: str) -> Answer:
        return self._refused(HTTPStatus.NOT_FOUND, "not_found", f"there is no view {name[:40]!r}; GET /views")

    def _refused(self, status: HTTPStatus, code: str, message: str) -> Answer:
        return Answer(status, self._stamp() + b'"error":' + _encode({"code": code, "message": message}) + b"}")


def _field_names(view: View[Any, Any]) -> tuple[str, ...]:
    """The fields that a row may be filtered by: those of the stored row."""
    return tuple(field.name for field in msgspec.structs.fields(view.initial))


def _matches(row: msgspec.Struct, filters: tuple[tuple[str, str], ...]) -> bool:
    return all(_is(getattr(row, name, None), text) for name, text in filters)


def _is(value: object, text: str) -> bool:
    """Is this the value, or one of the values, that a query means by the text?"""
    if isinstance(value, tuple | dict):
        return any(_is(part, text) for part in value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value] == text
    return (b64encode(value).decode() if isinstance(value, bytes) else str(value)) == text


def _integer(query: Mapping[str, str], name: str, otherwise: int, least: int) -> int:
    text = query.get(name)
    if text is None:
        return otherwise
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < least:
        raise UsageError(f"{name}: {text[:40]!r} is no number from {least} on")
    return int(text)
