"""The differences between two offsets, entity by entity, field by field."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
from immutables import Map

from quorate.events import raw_name
from quorate.model.segments import segment
from quorate.model.state import KeyValue, Segment, Session
from quorate.model.words import lease_number, size
from quorate_spark.dashboard.model import BrokerSet, State
from quorate_spark.dashboard.panels.keys import ROW_BYTES
from quorate_spark.dashboard.panels.sessions import options
from quorate_spark.dashboard.panels.values import value
from quorate_spark.dashboard.panels.view import View

_K = TypeVar("_K", str, int)
_V = TypeVar("_V")

Plain = None | bool | int | str | list[int] | list[str]
"""A field's value."""


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
    changes = [*_changes(former, state), *_changes_of_keys(former, view)]
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


def _changes(a: State, b: State) -> Iterator[Changed]:
    """In the order: broker sets, topics, settings, nodes, leader, feature level."""
    for name in _differing(a.sets, b.sets):
        yield from _change("broker-set", name, _set(a.sets.get(name)), _set(b.sets.get(name)))
    for name in _differing(a.model.topics, b.model.topics):
        topics = [_flat(state.model.topics.get(name), but="topic") for state in (a, b)]
        yield from _change("topic", name, *topics)
    for name in _differing(a.model.configs, b.model.configs):
        before, after = (config.values if (config := state.model.configs.get(name)) else None for state in (a, b))
        yield from _change("config", name, before, after)
    for number in _differing(a.nodes, b.nodes):
        yield from _change("node", str(number), _flat(a.nodes.get(number)), _flat(b.nodes.get(number)))
    if a.leader != b.leader:
        yield from _change("leader", "controller", _flat(a.leader), _flat(b.leader))
    if a.model.feature_level != b.model.feature_level:
        levels = [state.model.feature_level for state in (a, b)]
        old, new = ({"level": level} if level else None for level in levels)
        yield from _change("feature-level", "cluster", old, new)


def _changes_of_keys(a: State, view: View) -> Iterator[Changed]:
    """Members, keys, then leases: those that an event between the two names. There may be very many that none does."""
    b, spool = view.state, view.log.spool
    touched = {spool.key_names.texts[number] for number in set(spool.keys[a.offset : b.offset])}
    for name in sorted(text.removeprefix("member/") for text in touched if text.startswith("member/")):
        members = [_flat(state.model.members.get(name), but="name") for state in (a, b)]
        yield from _change("member", name, *members)
    for name in sorted(text.removeprefix("key/") for text in touched if text.startswith("key/")):
        raw = raw_name(name)
        yield from _change("key", name, _key(a.model.keys.get(raw)), _key(b.model.keys.get(raw)))
    for number in sorted(int(text.removeprefix("lease/")) for text in touched if text.startswith("lease/")):
        leases = [_flat(state.model.leases.get(number), but="lease_id") for state in (a, b)]
        yield from _change("lease", lease_number(number), *leases)
    yield from _changes_of_held(a, b, touched)


def _changes_of_held(a: State, b: State, touched: set[str]) -> Iterator[Changed]:
    """Shards, segments, then sessions."""
    for name in sorted(text.removeprefix("shard/") for text in touched if text.startswith("shard/")):
        shards = [_flat(state.model.shards.get(name), but="name") for state in (a, b)]
        yield from _change("shard", name, *shards)
    for name in sorted(text.removeprefix("segment/") for text in touched if text.startswith("segment/")):
        yield from _change("segment", name, *(_segment(segment(state.model, name)) for state in (a, b)))
    for name in sorted(text.removeprefix("session/") for text in touched if text.startswith("session/")):
        yield from _change("session", name, *(_session(state.model.sessions.get(name)) for state in (a, b)))


def _segment(found: Segment | None) -> dict[str, Plain] | None:
    if found is None:
        return None
    in_sync: Plain = [f"{copy.member} in life {copy.member_epoch}" for copy in found.in_sync]
    names = ("start_offset", "end_offset", "leader", "member_epoch", "leader_epoch", "set_epoch")
    return {**{name: getattr(found, name) for name in names}, "copies": list(found.copies), "in_sync": in_sync}


def _session(found: Session | None) -> dict[str, Plain] | None:
    """A session's fields; of its will the topic."""
    if found is None:
        return None
    subscribed: Plain = [", ".join((one.filter, *options(one))) for one in found.subscriptions]
    names = ("member", "member_epoch", "session_epoch", "opened_ms", "expiry_s", "disconnected_ms")
    will = None if found.will is None else found.will.topic
    return {**{name: getattr(found, name) for name in names}, "will": will, "subscriptions": subscribed}


def _key(found: KeyValue | None) -> dict[str, Plain] | None:
    """A key's fields; of a value what fits a line."""
    if found is None:
        return None
    told = value(found.value, ROW_BYTES)
    text = f"{size(told.size)} that are no text" if told.text is None else told.text + ("…" if told.cut else "")
    lease = lease_number(found.lease) if found.lease else ""
    return {"value": text, "revision": found.mod_revision, "version": found.version, "lease": lease}


def _differing(a: Map[_K, _V], b: Map[_K, _V]) -> list[_K]:
    """Names of what differs, in order; what did not change is the same object in both states, mostly."""
    names = {name for name, value in b.items() if a.get(name) is not value}
    names.update(name for name in a if name not in b)
    return sorted(name for name in names if a.get(name) != b.get(name))


def _change(
    kind: str, name: str, before: Mapping[str, Plain] | None, after: Mapping[str, Plain] | None
) -> Iterator[Changed]:
    old, new = before or {}, after or {}
    names = [
        field for field in (*old, *(field for field in new if field not in old)) if old.get(field) != new.get(field)
    ]
    if not names and (before is None) == (after is None):
        return
    change = "added" if before is None else "removed" if after is None else "changed"
    fields = [Field(field=field, before=old.get(field), after=new.get(field)) for field in names]
    yield Changed(kind=kind, name=name, change=change, fields=fields)


def _set(broker_set: BrokerSet | None) -> dict[str, Plain] | None:
    """The fields of a set that say how it is; not how the dashboard counts."""
    if broker_set is None:
        return None
    flat: dict[str, Plain] = {
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
        if member.learner:
            flat[f"members.{member.id}.learner"] = True
    return flat


def _flat(struct: msgspec.Struct | None, but: str = "") -> dict[str, Plain] | None:
    """A value's fields, all but one, nested ones with dots."""
    if struct is None:
        return None
    flat: dict[str, Plain] = {}
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if name == but:
            continue
        if isinstance(value, msgspec.Struct):
            flat |= {f"{name}.{inner}": one for inner, one in (_flat(value) or {}).items()}
        elif isinstance(value, dict):
            flat |= {f"{name}.{inner}": str(one) for inner, one in value.items()}
        else:
            flat[name] = list(value) if isinstance(value, tuple) else value
    return flat
