"""The timeline of each broker: when it was up, when it was fenced and on what evidence, when its id was forgotten.

Rules: at any offset a broker has at most one interval that lasts; the next one begins with the event that ended it. A
fenced broker that registers stays fenced until it is unfenced.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
)
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold
from quorate_spark.serving import Availability

_replace = msgspec.structs.replace


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    """The interval that lasts of every broker of a set."""

    lasting: tuple[Availability, ...] = ()
    registered: tuple[int, ...] = ()


Told = BrokerIdApplied | BrokerRegistered | BrokerAddressChanged | BrokerFenced | BrokerUnfenced


def step(replicas: Replicas, fact: Fact) -> tuple[Replicas, Iterable[Availability]]:
    """The intervals the fact ends and begins."""
    event, (before, broker_set) = fact.event, fact.sets
    match event:
        case BrokerDataCleaned():
            there = set() if broker_set is None else {replica.broker_id for replica in broker_set.replicas}
            return _closed(replicas, {one.broker_id for one in replicas.lasting} - there, fact)
        case BrokerIdApplied() if broker_set is not None and broker_set.is_anew(before):
            _, gone = _closed(replicas, [one.broker_id for one in replicas.lasting], fact)
            after, rows = _told(Replicas(), event, fact)
            return after, (*gone, *rows)
        case BrokerIdApplied() | BrokerRegistered() | BrokerAddressChanged() | BrokerFenced() | BrokerUnfenced():
            return _told(replicas, event, fact)
        case _:
            return replicas, ()


def _told(replicas: Replicas, event: Told, fact: Fact) -> tuple[Replicas, Iterable[Availability]]:
    now = next((one for one in replicas.lasting if one.broker_id == event.broker_id), None)
    registered = {*replicas.registered}
    if isinstance(event, BrokerRegistered | BrokerAddressChanged):
        registered.add(event.broker_id)
    elif isinstance(event, BrokerIdApplied):
        registered.discard(event.broker_id)
    replicas = _replace(replicas, registered=tuple(sorted(registered)))
    status = _status(event, now, event.broker_id in registered)
    if now is not None and now.status == status:
        return replicas, ()
    fenced = event if isinstance(event, BrokerFenced) else None
    begun = Availability(
        event_offset=fact.stamp.offset,
        broker_set=event.broker_set,
        broker_id=event.broker_id,
        from_offset=fact.stamp.offset,
        broker_cluster=event.cluster,
        status=status,
        evidence="" if fenced is None else fenced.evidence,
        from_ms=fact.stamp.time_ms,
        last_heartbeat_ms=None if fenced is None else fenced.last_heartbeat_ms or None,
        to_offset=None,
        to_ms=None,
    )
    left, ended = _closed(replicas, [event.broker_id], fact)
    lasting = tuple(sorted([*left.lasting, begun], key=lambda one: one.broker_id))
    return _replace(replicas, lasting=lasting), (*ended, begun)


def _status(event: Told, now: Availability | None, registered: bool) -> str:
    match event:
        case BrokerFenced():
            return "fenced"
        case BrokerIdApplied():
            return "applied"
        case BrokerUnfenced():
            return "up" if registered else "applied"
        case _:
            return "fenced" if now is not None and now.status == "fenced" else "up"


def _closed(replicas: Replicas, ids: Iterable[int], fact: Fact) -> tuple[Replicas, tuple[Availability, ...]]:
    """Without the lasting intervals of these brokers, and those intervals, ended."""
    gone = {*ids}
    offset, at = fact.stamp.offset, fact.stamp.time_ms
    ended = tuple(
        _replace(one, event_offset=offset, to_offset=offset, to_ms=at)
        for one in replicas.lasting
        if one.broker_id in gone
    )
    left = tuple(one for one in replicas.lasting if one.broker_id not in gone)
    brokers = tuple(one for one in replicas.registered if one not in gone)
    return _replace(replicas, lasting=left, registered=brokers), ended


AVAILABILITY: Final = Fold(
    "availability",
    "2",
    frozenset(
        {
            BrokerAddressChanged,
            BrokerDataCleaned,
            BrokerFenced,
            BrokerIdApplied,
            BrokerRegistered,
            BrokerUnfenced,
        }
    ),
    Replicas(),
    step,
)
