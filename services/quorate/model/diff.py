"""What differs between two states, entity by entity.

Rules: pure; works in steps. An entity that is in both is told by the fields that differ, each before and after.
"""

from typing import Any, Literal

import msgspec

from quorate.model.rows import ROWS_PER_STEP, Entity, entities
from quorate.model.state import State
from quorate.slices import Steps

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


def changes(before: State, after: State) -> Steps[list[Change]]:
    """All of them, by key."""
    old = yield from _table(before)
    new = yield from _table(after)
    differences: list[Change] = []
    for count, name in enumerate(sorted(old.keys() | new.keys()), start=1):
        change = _change(name, old.get(name), new.get(name))
        if change is not None:
            differences.append(change)
        if count % ROWS_PER_STEP == 0:
            yield
    return differences


def _table(state: State) -> Steps[dict[tuple[str, str], Entity]]:
    table: dict[tuple[str, str], Entity] = {}
    for kind, name, entity in entities(state):
        table[kind, name] = entity
        if len(table) % ROWS_PER_STEP == 0:
            yield
    return table


def _change(key: tuple[str, str], old: Entity | None, new: Entity | None) -> Change | None:
    if old == new:
        return None
    kind, name = key
    before, after = _fields(old), _fields(new)
    if before is None or after is None:
        what: Literal["added", "removed"] = "added" if before is None else "removed"
        return Change(key=f"{kind}/{name}", kind=kind, name=name, change=what, before=before, after=after)
    differing = [field for field in after if before[field] != after[field]]
    return Change(
        key=f"{kind}/{name}",
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
