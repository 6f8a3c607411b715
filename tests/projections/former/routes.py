"""What the view ``routes`` is composed of, as it was folded before it was a question to the model."""

from typing import assert_never

import msgspec

from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    ElectionFailed,
    MasterElected,
    Stamp,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
)
from quorate_projections.views.routes import SET, TOPIC, Endpoint, TopicPart
from quorate_projections.views.view import Rows

SetEvent = (
    BrokerAddressChanged
    | BrokerDataCleaned
    | BrokerFenced
    | BrokerIdApplied
    | BrokerRegistered
    | BrokerUnfenced
    | ElectionFailed
    | MasterElected
)
Mine = SetEvent | TopicCreated | TopicUpdated | TopicDeleted
_replace = msgspec.structs.replace


class SetPart(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="set"):
    """What a broker set contributes to routes."""

    broker_set: str = ""
    cluster: str = ""
    master: int | None = None
    brokers: tuple[Endpoint, ...] = ()
    """By broker id."""
    known: bool = True
    """False: only the ids are known (Java's half-known set); the next id applied for starts the set anew."""


Part = TopicPart | SetPart


def fold(rows: Rows[Part], stamp: Stamp, event: Mine) -> None:
    """Change one topic or one set."""
    match event:
        case TopicCreated() | TopicUpdated():
            part = TopicPart(
                topic=event.topic,
                read_queues=event.read_queues,
                write_queues=event.write_queues,
                permission=event.permission,
                system_flags=event.system_flags,
                order=event.order,
            )
            rows.put(TOPIC + event.topic, part)
        case TopicDeleted():
            rows.drop(TOPIC + event.topic)
        case _:
            old = rows.get(SET + event.broker_set)
            part_of_set = old if isinstance(old, SetPart) else SetPart()
            changed = _set(part_of_set, event)
            if changed.brokers:
                rows.put(SET + event.broker_set, changed)
            else:
                rows.drop(SET + event.broker_set)


def _set(part: SetPart, event: SetEvent) -> SetPart:
    part = _replace(part, broker_set=event.broker_set, cluster=part.cluster or event.cluster)
    match event:
        case MasterElected():
            return _replace(part, master=event.master)
        case ElectionFailed():
            return _replace(part, master=None)
        case BrokerIdApplied():
            known = part if part.known else SetPart(broker_set=event.broker_set, cluster=event.cluster)
            return _with(known, Endpoint(broker_id=event.broker_id, address=event.address))
        case BrokerRegistered() | BrokerAddressChanged():
            address = event.address if isinstance(event, BrokerRegistered) else event.new_address
            old = _broker(part, event.broker_id)
            return _with(part, _replace(old, address=address, registered=True, topics=event.topics))
        case BrokerFenced() | BrokerUnfenced():
            return _with(part, _replace(_broker(part, event.broker_id), fenced=isinstance(event, BrokerFenced)))
        case BrokerDataCleaned():
            if not event.broker_ids:
                return _replace(part, brokers=())
            left = tuple(broker for broker in part.brokers if broker.broker_id not in event.broker_ids)
            master = None if event.whole_set else part.master
            return _replace(part, brokers=left, master=master, known=not event.whole_set)
        case _:
            assert_never(event)


def _broker(part: SetPart, broker_id: int) -> Endpoint:
    found = (broker for broker in part.brokers if broker.broker_id == broker_id)
    return next(found, Endpoint(broker_id=broker_id, address=""))


def _with(part: SetPart, changed: Endpoint) -> SetPart:
    others = [broker for broker in part.brokers if broker.broker_id != changed.broker_id]
    return _replace(part, brokers=tuple(sorted([*others, changed], key=lambda broker: broker.broker_id)))
