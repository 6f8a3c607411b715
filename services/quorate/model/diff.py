"""What differs between two states, entity by entity.

Rules: pure; works in steps. An entity that is in both is told by the fields that differ, each before and after. All are
compared; only those of the page that is asked for are told.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

import msgspec

from quorate.model.rows import ROWS_PER_STEP, Entity, entities, named
from quorate.model.state import State
from quorate.slices import Steps, sorting

Fields = dict[str, Any]
"""Names and plain values of an entity's fields, for programs that need not know its type."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One entity; ``before`` and ``after`` hold all its fields when it was added or removed, else those that differ."""

    key: str
    """``kind/name``."""
    kind: str
    name: str
    change: Literal["added", "removed", "changed"]
    before: Fields | None
    after: Fields | None


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """A page of them, by key."""

    count: int
    """Of all there are, on this page or not."""
    page: list[Change]
    more: bool
    """Some come behind this page."""


def changes(before: State, after: State, behind: str = "", limit: int = sys.maxsize) -> Steps[Changes]:
    """Those whose keys come behind one. It costs a look at every entity, and the keys of those that differ."""
    count, keys = 0, list[str]()
    for looked_at, key in enumerate(_compared(before, after), start=1):
        if key:
            count += 1
            if key > behind:
                keys.append(key)
        if looked_at % ROWS_PER_STEP == 0:
            yield
    in_order = yield from sorting(keys)
    page: list[Change] = []
    for key in islice(in_order, limit):
        page.append(_change(key, before, after))
        if len(page) % ROWS_PER_STEP == 0:
            yield
    return Changes(count=count, page=page, more=len(keys) > limit)


def _compared(before: State, after: State) -> Iterator[str]:
    """The key of each entity that differs; of each other one, nothing."""
    for kind, name, old in entities(before):
        new = named(after, kind, name)
        yield "" if new is old or new == old else f"{kind}/{name}"
    for kind, name, _ in entities(after):
        yield "" if named(before, kind, name) is not None else f"{kind}/{name}"


def _change(key: str, old: State, new: State) -> Change:
    kind, _, name = key.partition("/")
    before, after = _fields(named(old, kind, name)), _fields(named(new, kind, name))
    if before is None or after is None:
        what: Literal["added", "removed"] = "added" if before is None else "removed"
        return Change(key=key, kind=kind, name=name, change=what, before=before, after=after)
    differing = [field for field in after if before[field] != after[field]]
    return Change(
        key=key,
        kind=kind,
        name=name,
        change="changed",
        before={field: before[field] for field in differing},
        after={field: after[field] for field in differing},
    )


def _fields(entity: Entity | None) -> Fields | None:
    """Every field as plain values, defaults included."""
    return None if entity is None else {name: _plain(getattr(entity, name)) for name in entity.__struct_fields__}


def _plain(value: object) -> object:
    """As ``msgspec.to_builtins``, which would leave out the defaults of the structs inside."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return msgspec.to_builtins(value)
