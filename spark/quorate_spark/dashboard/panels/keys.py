"""Keys: what is below a prefix, a page at a time; and one key with every change of it.

Rules: a page costs what is on it, however many keys there are: what lies below the next slash is counted, not read. A
search looks at so many keys, and says where it goes on. A stored value is public, as the log is.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from quorate.errors import InvariantBrokenError, UsageError
from quorate.events import KeyDeleted, KeyPut, LeaseEnded, ordered_name
from quorate.model.ordered import OrderedMap, after_prefix
from quorate.model.state import KeyValue
from quorate.model.words import lease_number, sentence
from quorate_spark.dashboard.panels.values import Value, named, shown, value
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.rows import NOTHING
from quorate_spark.dashboard.spool import Fact

LOOKED_MAX: Final = 20_000
"""Keys that one question of a search looks at."""
WORDS_MAX: Final = 16
ROW_BYTES: Final = 160
"""Of a value in a list."""
CHANGE_BYTES: Final = 2_048
"""Of a value in a key's history."""
WHOLE_BYTES: Final = 65_536
"""Of the value of the key that is looked at."""
SEPARATOR: Final = b"/"


class KeyRow(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="key"):
    """One key."""

    name: str
    """As the log has it."""
    shown: str
    """For eyes."""
    value: Value
    create_revision: int
    mod_revision: int
    version: int
    lease: str
    """Empty: none."""
    t: int
    """When it was put, and by whom."""
    by: str


class Below(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="below"):
    """All keys with one more segment in common, where there are several."""

    prefix: str
    shown: str
    keys: int


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/keys."""

    prefix: str
    shown: str
    above: list[tuple[str, str]]
    """Each prefix above this one, and this one: as the log has it, and its last segment for eyes."""
    lease: str
    total: int
    """Keys below the prefix, or of the lease."""
    entries: list[KeyRow | Below]
    next: str | None
    """``from`` of the next page."""
    looked: int | None
    """Keys a search looked at for this page; null: nothing was searched."""


class KeyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a key."""

    offset: int
    revision: int
    t: int
    by: str
    cause: str
    what: str
    """``created``, ``put`` or ``deleted``."""
    lease: str
    value: Value | None
    text: str
    """What happened, in words."""


class KeyDetail(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/key."""

    name: str
    shown: str
    above: list[tuple[str, str]]
    """Prefixes it is below, as of a list."""
    key: KeyRow | None
    """Null: it is not there."""
    changes: list[KeyChange]
    """Newest first."""
    next: int | None
    """``before`` of the next page."""


def keys(view: View, prefix: str, start: str, q: str, lease: int | None, *, flat: bool, limit: int) -> Keys:
    """What is below a prefix, from ``start`` on. Raises UsageError."""
    below = named("prefix", prefix)
    first, end = max(below, named("from", start)), after_prefix(below)
    words = q.lower().encode().split()
    if len(words) > WORDS_MAX:
        raise UsageError(f"q: at most {WORDS_MAX} words")
    tree = view.state.model.keys
    chosen = tree if lease is None else view.state.model.attached.get(lease, OrderedMap[None]())
    looked, behind = None, None
    found: list[tuple[bytes, int]]
    if words:
        found, looked, behind = _search(chosen, first, end, words, limit + 1)
    elif flat or lease is not None:
        found = [(name, 0) for name, _ in islice(chosen.items(first, end), limit + 1)]
    else:
        found = list(islice(_segments(chosen, below, first, end), limit + 1))
    if len(found) > limit:
        behind = _between(found[limit - 1][0], found[limit][0])
    return Keys(
        prefix=prefix,
        shown=shown(below),
        above=_above(below),
        lease="" if lease is None else lease_number(lease),
        total=chosen.count(below, end),
        entries=[_entry(view, *one) for one in found[:limit]],
        next=None if behind is None else ordered_name(behind),
        looked=looked,
    )


def _segments(
    tree: OrderedMap[KeyValue] | OrderedMap[None], below: bytes, first: bytes, end: bytes | None
) -> Iterator[tuple[bytes, int]]:
    """Each key that stands alone in its segment (0), and each segment with several keys, counted."""
    at: bytes | None = first
    while at is not None and (found := next(tree.items(at, end), None)) is not None:
        name = found[0]
        slash = name.find(SEPARATOR, len(below) + 1)  # One at the very beginning parts nothing.
        segment = name[: slash + 1] if slash >= 0 else name
        behind = after_prefix(segment) if slash >= 0 else name + b"\x00"
        count = tree.count(segment, behind) if slash >= 0 else 1
        if count > 1:
            yield segment, count
            at = behind
        else:
            yield name, 0
            at = name + b"\x00"


def _search(
    tree: OrderedMap[KeyValue] | OrderedMap[None], first: bytes, end: bytes | None, words: list[bytes], most: int
) -> tuple[list[tuple[bytes, int]], int, bytes | None]:
    """Keys that hold all words, how many were looked at, and where it goes on when that were too many."""
    found: list[tuple[bytes, int]] = []
    looked = 0
    for name, _ in tree.items(first, end):
        if looked == LOOKED_MAX:
            return found, looked, name
        looked += 1
        lower = name.lower()
        if all(word in lower for word in words):
            found.append((name, 0))
            if len(found) == most:
                break
    return found, looked, None


def _between(last: bytes, following: bytes) -> bytes:
    """The shortest name that comes after one and not after the next: names may be longer than an address."""
    same = next(
        (place for place, pair in enumerate(zip(last, following, strict=False)) if pair[0] != pair[1]), len(last)
    )
    return following[: same + 1]


def _above(below: bytes) -> list[tuple[str, str]]:
    """The segments of a prefix."""
    above, start = [], 0
    while start < len(below):
        slash = below.find(SEPARATOR, start + 1 if start == 0 else start)
        stop = len(below) if slash < 0 else slash + 1
        above.append((ordered_name(below[:stop]), shown(below[start:stop])))
        start = stop
    return above


def _entry(view: View, name: bytes, count: int) -> KeyRow | Below:
    if count:
        return Below(prefix=ordered_name(name), shown=shown(name), keys=count)
    found = view.state.model.keys.get(name)
    if found is None:
        raise InvariantBrokenError(f"the key {name!r} is counted and is not there")
    return key_row(view, found, ROW_BYTES)


def key_row(view: View, found: KeyValue, most: int) -> KeyRow:
    """A key."""
    spool = view.log.spool
    # Its decision may not be here to its end yet; all events of one have its time and its author.
    decided = min(found.mod_revision, view.offset - 1)
    return KeyRow(
        name=found.key,
        shown=shown(named("key", found.key)),
        value=value(found.value, most),
        create_revision=found.create_revision,
        mod_revision=found.mod_revision,
        version=found.version,
        lease=lease_number(found.lease) if found.lease else "",
        t=spool.times[decided],
        by=spool.principal_names.texts[spool.principals[decided]],
    )


def key(view: View, name: str, before: int | None, limit: int) -> KeyDetail:
    """One key, and its changes before an offset, newest first. Raises UsageError."""
    raw = named("name", name)
    end = view.offset if before is None else min(before, view.offset)
    spool = view.log.spool
    found = view.state.model.keys.get(raw)
    offsets = list(islice(spool.of_key(f"key/{name}", end), limit + 1))
    return KeyDetail(
        name=name,
        shown=shown(raw),
        above=_above(raw)[:-1],
        key=None if found is None else key_row(view, found, WHOLE_BYTES),
        changes=list(_changes(view, map(spool.fact, offsets[:limit]))),
        next=offsets[limit - 1] if len(offsets) > limit else None,
    )


def _changes(view: View, facts: Iterable[Fact]) -> Iterator[KeyChange]:
    for fact in facts:
        event, stamp = fact.event, fact.stamp
        if not isinstance(event, KeyPut | KeyDeleted):
            continue
        revision = stamp.offset + event.following
        yield KeyChange(
            offset=stamp.offset,
            revision=revision,
            t=stamp.time_ms,
            by=stamp.principal,
            cause=stamp.cause,
            what="deleted" if isinstance(event, KeyDeleted) else "created" if _begins(view, stamp.offset) else "put",
            lease=lease_number(event.lease) if event.lease else "",
            value=value(event.value, CHANGE_BYTES) if isinstance(event, KeyPut) else None,
            text=_why(view, event, revision) if isinstance(event, KeyDeleted) else sentence(event),
        )


def _begins(view: View, offset: int) -> bool:
    """Was the key not there before?"""
    spool = view.log.spool
    before = spool.previous[offset]
    return before == NOTHING or spool.type_names.texts[spool.types[before]] == KeyDeleted.__name__


def _why(view: View, event: KeyDeleted, revision: int) -> str:
    """A key that went with its lease: what became of the lease is the last event of the decision."""
    if event.lease and revision < view.offset:
        ended = view.log.spool.fact(revision).event
        if isinstance(ended, LeaseEnded) and ended.lease == event.lease:
            return sentence(ended)
    return sentence(event)
