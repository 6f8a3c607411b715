"""The log itself: events newest first, with a filter in words.

Rules: a filter is turned into sets of numbers once and then compared with the columns of the spool; no event is
decoded but those that are shown.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from quorate.errors import UsageError
from quorate.events import KeyPut, RoleChangeAcknowledged
from quorate.model.words import sentence
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.rows import Names
from quorate_spark.dashboard.spool import Fact, Spool
from quorate_spark.dashboard.words import tone

COUNTED_MAX = 1_000_000
"""Events a filter looks at to count matches; beyond that it only finds the page."""
WORDS_MAX = 16
VALUE_BYTES = 1_024
"""Of a key's value in a list, and in what browsers are pushed."""

EXACT_MAX: Final = (1 << 53) - 1
"""The largest number up to which a browser counts."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The cause of an event."""

    text: str
    offset: int | None


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    offset: int
    t: int
    type: str
    key: str
    principal: str
    cause: Cause
    term: int
    schema: int
    request: str
    text: str
    tone: str
    value: object
    """Its fields, as a browser can read them."""
    cut: bool
    """Only the beginning of a long value: ask for the event alone."""


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/log."""

    events: list[EventRow]
    next: int | None
    matched: int | None
    types: dict[str, int] | None


def row(fact: Fact, spool: Spool, *, whole: bool = False) -> EventRow:
    """An event as a row; of a long value, unless it is ``whole``, only how it begins."""
    stamp, event = fact.stamp, fact.event
    cut = isinstance(event, KeyPut) and len(event.value) > VALUE_BYTES and not whole
    if cut and isinstance(event, KeyPut):
        event = msgspec.structs.replace(event, value=event.value[:VALUE_BYTES])
    led = event.election_offset if isinstance(event, RoleChangeAcknowledged) else None
    return EventRow(
        offset=stamp.offset,
        t=stamp.time_ms,
        type=type(event).__name__,
        key=spool.key_names.texts[spool.keys[stamp.offset]],
        principal=stamp.principal,
        cause=Cause(text=stamp.cause, offset=led),
        term=stamp.term,
        schema=int.from_bytes(fact.frame[1:5], "big"),
        request=stamp.request_id,
        text=sentence(fact.event),
        tone=tone(event),
        value=_readable(msgspec.to_builtins(event)),
        cut=cut,
    )


def _readable(value: object) -> object:
    """The same, numbers that a browser would round as text."""
    match value:
        case dict():
            return {name: _readable(field) for name, field in value.items()}
        case list() | tuple():
            return [_readable(one) for one in value]
        case int() if abs(value) > EXACT_MAX:
            return str(value)
        case _:
            return value


def _numbers(names: Names, holds: Callable[[str], bool]) -> frozenset[int]:
    return frozenset(number for number, name in enumerate(names.texts) if holds(name.lower()))


Test = Callable[[int], bool]
"""Does the event at an offset match?"""


def _compile(spool: Spool, word: str) -> Test:
    """One word of a filter. Raises UsageError."""
    name, colon, value = word.partition(":")
    match name if colon else "":
        case "type":
            wanted = _numbers(spool.type_names, lambda text: any(text.startswith(one) for one in value.split(",")))
            return lambda offset: spool.types[offset] in wanted
        case "key":
            wanted = _numbers(spool.key_names, lambda text: text.startswith(value))
            return lambda offset: spool.keys[offset] in wanted
        case "set":
            wanted = _numbers(spool.key_names, lambda text: text == f"broker-set/{value}")
            return lambda offset: spool.keys[offset] in wanted
        case "by":
            wanted = _numbers(spool.principal_names, lambda text: value in text)
            return lambda offset: spool.principals[offset] in wanted
        case "term":
            if not value.isdecimal() or len(value) > 18:
                raise UsageError(f"q: {word[:40]!r}: a term is a number")
            term = int(value)
            return lambda offset: spool.terms[offset] == term
        case _:
            return _anywhere(spool, word)


def _anywhere(spool: Spool, word: str) -> Test:
    types = _numbers(spool.type_names, lambda text: word in text)
    keys = _numbers(spool.key_names, lambda text: word in text)
    principals = _numbers(spool.principal_names, lambda text: word in text)
    causes = _numbers(spool.cause_names, lambda text: word in text)
    return lambda offset: (
        spool.types[offset] in types
        or spool.keys[offset] in keys
        or spool.principals[offset] in principals
        or spool.causes[offset] in causes
    )


def _matching(spool: Spool, words: list[str], offsets: Iterable[int]) -> Iterator[int]:
    matches: Iterator[int] = iter(offsets)
    for word in words:
        matches = filter(_compile(spool, word), matches)
    return matches


def events(view: View, q: str = "", before: int | None = None, limit: int = 100) -> Events:
    """A page of the events that match, newest first. Raises UsageError for a filter that makes no sense."""
    spool, end = view.log.spool, view.offset
    words = q.lower().split()
    if len(words) > WORDS_MAX:
        raise UsageError(f"q: at most {WORDS_MAX} words")
    start = end if before is None else min(before, end)
    matched: int | None = None
    types: dict[str, int] | None = None
    if end <= COUNTED_MAX:
        if words:
            offsets = list(_matching(spool, words, range(end)))
            counted = Counter(map(spool.types.__getitem__, offsets))
            page = [offset for offset in reversed(offsets) if offset < start][: limit + 1]
        else:
            counted = Counter(spool.types[:end])
            page = list(range(start - 1, max(-1, start - limit - 2), -1))
        matched = counted.total()
        types = {spool.type_names.texts[number]: count for number, count in counted.most_common()}
    else:
        page = []
        for offset in _matching(spool, words, range(start - 1, -1, -1)):
            page.append(offset)
            if len(page) > limit:
                break
    rows = [row(spool.fact(offset), spool) for offset in page[:limit]]
    return Events(events=rows, next=page[limit - 1] if len(page) > limit else None, matched=matched, types=types)


def one(view: View, offset: int) -> Events:
    """One event alone; none when there is no such event yet."""
    spool = view.log.spool
    rows = [row(spool.fact(offset), spool, whole=True)] if 0 <= offset < view.offset else []
    return Events(events=rows, next=None, matched=len(rows), types=None)
