"""The differences between two offsets, entity by entity, field by field."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from quorate.events import entity_key, raw_name
from quorate.model.brokers import learners
from quorate.model.rows import entity_at
from quorate.model.segments import segment
from quorate.model.state import KeyValue, Segment, Session
from quorate.model.words import lease_number, size
from quorate_spark.dashboard.model import State
from quorate_spark.dashboard.panels.keys import ROW_BYTES
from quorate_spark.dashboard.panels.sessions import options
from quorate_spark.dashboard.panels.values import value
from quorate_spark.dashboard.panels.view import View

Plain = None | bool | int | str | list[int] | list[str]
"""A field's value."""
Raw = Plain | bytes | tuple[Any, ...]
"""The same as the model has it: whole, so that it can be compared."""
Fields = Mapping[str, Raw] | None
"""Of an entity; None: it is not there."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field that differs; null: it is not there."""

    field: str
    before: Plain
    after: Plain


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """One entity that differs."""

    kind: str
    name: str
    change: str
    """``added``, ``removed`` or ``changed``."""
    fields: list[Field]


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/diff."""

    from_: int = msgspec.field(name="from")
    to: int
    from_time: int | None
    to_time: int | None
    events: int
    types: dict[str, int]
    changed: list[Changed]
    more: int


def diff(view: View, former: State, limit: int = 500) -> Diff:
    """From a former state to the view's."""
    spool, state = view.log.spool, view.state
    changes = list(_changes(former, view))
    counted = Counter(spool.types[former.offset : state.offset])
    return Diff(
        from_=former.offset,
        to=state.offset,
        from_time=former.time,
        to_time=state.time,
        events=state.offset - former.offset,
        types={spool.type_names.texts[number]: count for number, count in counted.most_common()},
        changed=changes[:limit],
        more=max(0, len(changes) - limit),
    )


def _changes(former: State, view: View) -> Iterator[Changed]:
    """What the events between the two name, and differs. There may be very much that none does."""
    state, spool = view.state, view.log.spool
    touched = {spool.key_names.texts[number] for number in set(spool.keys[former.offset : state.offset])}
    if former.model.cluster is None and state.model.cluster is not None:  # The event that made it made these as well.
        touched |= {"feature-level/cluster", *(f"node/{number}" for number in state.nodes)}
    for kind, name in sorted(map(_parted, touched), key=_place):
        before, after = (_fields(kind, name, of) for of in (former, state))
        yield from _change(kind, lease_number(int(name)) if kind == "lease" else name, before, after)


def _parted(key: str) -> tuple[str, str]:
    kind, _, name = key.partition("/")
    return kind, name


def _place(thing: tuple[str, str]) -> tuple[int, str, int, str]:
    """Kinds in the order of the table, others behind them; in each by number or name."""
    kind, name = thing
    place = _TABLE.index(kind) if kind in _TABLE else len(_TABLE)
    return place, kind, int(name) if _NUMBER.fullmatch(name) else 0, name


def _fields(kind: str, name: str, state: State) -> Fields:
    """The fields of what a key names; of a kind that has no words of its own here, all that the model has."""
    found = _FIELDS.get(kind)
    return _flat(entity_at(state.model, entity_key(kind, name))) if found is None else found(state, name)


def _level(state: State) -> Fields:
    return {"level": state.model.feature_level} if state.model.feature_level else None


def _segment(found: Segment | None) -> Fields:
    if found is None:
        return None
    in_sync = [f"{copy.member} in life {copy.member_epoch}" for copy in found.in_sync]
    names = ("start_offset", "end_offset", "leader", "member_epoch", "leader_epoch", "set_epoch")
    return {**{name: getattr(found, name) for name in names}, "copies": list(found.copies), "in_sync": in_sync}


def _session(found: Session | None) -> Fields:
    """A session's fields; of its will the topic."""
    if found is None:
        return None
    subscribed = [", ".join((one.filter, *options(one))) for one in found.subscriptions]
    names = ("member", "member_epoch", "session_epoch", "opened_ms", "expiry_s", "disconnected_ms")
    will = None if found.will is None else found.will.topic
    return {**{name: getattr(found, name) for name in names}, "will": will, "subscriptions": subscribed}


def _key(found: KeyValue | None) -> Fields:
    """A key's fields."""
    if found is None:
        return None
    lease = lease_number(found.lease) if found.lease else ""
    return {"value": found.value, "revision": found.mod_revision, "version": found.version, "lease": lease}


def _text(data: bytes) -> str:
    """Of bytes what fits a line."""
    told = value(data, ROW_BYTES)
    return f"{size(told.size)} that are no text" if told.text is None else told.text + ("…" if told.cut else "")


def _change(kind: str, name: str, before: Fields, after: Fields) -> Iterator[Changed]:
    """What differs as the model has it, as it fits a line: two long values may be shown alike."""
    old, new = before or {}, after or {}
    names = [
        field for field in (*old, *(field for field in new if field not in old)) if old.get(field) != new.get(field)
    ]
    if not names and (before is None) == (after is None):
        return
    change = "added" if before is None else "removed" if after is None else "changed"
    fields = [Field(field=field, before=_plain(old.get(field)), after=_plain(new.get(field))) for field in names]
    yield Changed(kind=kind, name=name, change=change, fields=fields)


def _set(state: State, name: str) -> Fields:
    """The fields of a set that say how it is; not how the dashboard counts."""
    broker_set = state.sets.get(name)
    if broker_set is None:
        return None
    learning = learners(state.model, state.model.broker_sets[name])
    flat: dict[str, Raw] = {
        "cluster": broker_set.cluster,
        "master": broker_set.master,
        "epoch": broker_set.epoch,
        "sync": list(broker_set.sync),
        "sync_epoch": broker_set.sync_epoch,
        "lost_at": broker_set.lost_at,
        "last_failed": broker_set.last_failed,
    }
    for member in broker_set.members:
        flat |= {
            f"members.{member.id}.addr": member.addr,
            f"members.{member.id}.alive": member.alive,
            f"members.{member.id}.why": member.why,
        }
        if member.id in learning:
            flat[f"members.{member.id}.learner"] = True
    return flat


def _flat(struct: msgspec.Struct | None, but: str = "") -> Fields:
    """A value's fields, all but one, nested ones with dots."""
    if struct is None:
        return None
    flat: dict[str, Raw] = {}
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if name == but:
            continue
        if isinstance(value, msgspec.Struct):
            flat |= {f"{name}.{inner}": one for inner, one in (_flat(value) or {}).items()}
        elif isinstance(value, dict):
            flat |= {f"{name}.{inner}": str(one) for inner, one in value.items()}
        else:
            flat[name] = value.encode() if isinstance(value, str) and len(value) > ROW_BYTES else value
    return flat


def _plain(value: Raw) -> Plain:
    """A value for people: of bytes what fits a line; a list whose elements have fields tells each as a text."""
    if isinstance(value, tuple):
        return [_listed(one) if isinstance(one, msgspec.Struct) else one for one in value]
    return _text(value) if isinstance(value, bytes) else value


def _listed(struct: msgspec.Struct) -> str:
    """``version 3, schema id 1000004``: the fields that say something."""
    told = ((name.replace("_", " "), _plain(one)) for name, one in (_flat(struct) or {}).items())
    return ", ".join(
        f"{name} {one}" for name, one in told if one is not None and one is not False and one not in ("", [])
    )


_FIELDS: Final[dict[str, Callable[[State, str], Fields]]] = {
    "broker-set": _set,
    "topic": lambda state, name: _flat(state.model.topics.get(name), but="topic"),
    "config": lambda state, name: found.values if (found := state.model.configs.get(name)) else None,
    "node": lambda state, name: _flat(state.nodes.get(int(name))),
    "leader": lambda state, _: _flat(state.leader),
    "feature-level": lambda state, _: _level(state),
    "member": lambda state, name: _flat(state.model.members.get(name), but="name"),
    "key": lambda state, name: _key(state.model.keys.get(raw_name(name))),
    "lease": lambda state, name: _flat(state.model.leases.get(int(name)), but="lease_id"),
    "shard": lambda state, name: _flat(state.model.shards.get(name), but="name"),
    "segment": lambda state, name: _segment(segment(state.model, name)),
    "session": lambda state, name: _session(state.model.sessions.get(name)),
}
"""Of kinds that are told otherwise than the model has them, or in an order of their own."""
_TABLE: Final = list(_FIELDS)
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
