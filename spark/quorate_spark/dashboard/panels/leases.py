"""Leases, a page at a time in the order of their numbers, each with the keys that go with it.

Rules: what is left of a lease is known to the leader, and only now: it is laid over the facts (``View.soft``).
"""

from itertools import islice
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from quorate.events import ordered_name
from quorate.model.ordered import OrderedMap
from quorate.model.words import lease_number, sentence
from quorate_spark.dashboard.model import State, lease_name
from quorate_spark.dashboard.panels.values import shown
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.soft_state import LeaseSoft

KEYS_SHOWN: Final = 3
LIMIT_MAX: Final = 100
"""As many as a node tells of at once."""


class KeyName(msgspec.Struct, frozen=True, kw_only=True):
    """A key by its name."""

    name: str
    shown: str


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One lease."""

    lease: str
    key: str
    """Of its events in the log."""
    ttl_s: int
    granted_ms: int
    offset: int
    """The event that granted it."""
    by: str
    remaining_s: int
    """What was left when a leader last wrote it down; 0: all of it."""
    keys: int
    names: list[KeyName]
    """The first of its keys."""
    live: LeaseSoft | UnsetType


class LastWord(msgspec.Struct, frozen=True, kw_only=True):
    """The last event of a lease."""

    offset: int
    t: int
    text: str


class Leases(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/leases."""

    leases: list[LeaseRow]
    total: int
    next: str | None
    """``from`` of the next page."""
    last: LastWord | None
    """Of the one lease that was asked for: the last word of the log about it, also when it has ended."""


def numbers(state: State, start: int, lease: int | None, limit: int) -> list[int]:
    """The leases of a page, and the one after it."""
    if lease is not None:
        return [lease] if lease in state.model.leases else []
    return [_number(name) for name, _ in islice(state.leases.items(lease_name(start)), limit + 1)]


def _number(name: bytes) -> int:
    return int.from_bytes(name, "big", signed=True)


def leases(view: View, start: int, lease: int | None, limit: int) -> Leases:
    """A page of leases, or one of them."""
    found = numbers(view.state, start, lease, limit)
    return Leases(
        leases=[_row(view, number) for number in found[:limit]],
        total=len(view.state.leases),
        next=lease_number(found[limit]) if len(found) > limit else None,
        last=None if lease is None else _last(view, lease),
    )


def _row(view: View, number: int) -> LeaseRow:
    model, spool = view.state.model, view.log.spool
    lease = model.leases[number]
    granted = view.state.leases.get(lease_name(number)) or 0
    keys = model.attached.get(number, OrderedMap[None]())
    live = view.soft.leases.get(number, UNSET) if view.soft else UNSET
    return LeaseRow(
        lease=lease_number(number),
        key=f"lease/{number}",
        ttl_s=lease.ttl_s,
        granted_ms=lease.granted_ms,
        offset=granted,
        by=spool.principal_names.texts[spool.principals[granted]],
        remaining_s=lease.remaining_s,
        keys=len(keys),
        names=[KeyName(name=ordered_name(name), shown=shown(name)) for name in islice(keys, KEYS_SHOWN)],
        live=live,
    )


def _last(view: View, lease: int) -> LastWord | None:
    spool = view.log.spool
    offset = next(spool.of_key(f"lease/{lease}", view.offset), None)
    if offset is None:
        return None
    return LastWord(offset=offset, t=spool.times[offset], text=sentence(spool.fact(offset).event))
