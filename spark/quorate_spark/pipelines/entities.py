"""The state of the cluster, one row per entity: what the model makes of each key's events.

Rules: the value is the entity of ``quorate.model``; of a set also since when its master is master. An event about
something that is not there cannot have been decided, and stops the query: InvariantBrokenError. What is gone stays as a
row without a value, so that a replay never revives it.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quorate.events import MasterElected, entity_name
from quorate.model.rows import Entity as Thing
from quorate.model.state import BrokerSet, Leader, Replica, Subject, SubjectVersion
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import ALL, Fold
from quorate_spark.serving import Entity


class Master(msgspec.Struct, frozen=True):
    """Of a broker set: by which event its master became it, and when."""

    offset: int | None = None
    since_ms: int | None = None


def step(master: Master, fact: Fact) -> tuple[Master, Iterable[Entity]]:
    """The entity after the fact, as its row."""
    kind, _, name = fact.key.split("/", 2)
    _, broker_set = fact.sets
    if broker_set is None or broker_set.master is None:
        master = Master()
    elif isinstance(fact.event, MasterElected):
        master = Master(fact.stamp.offset, fact.stamp.time_ms)
    row = Entity(
        event_offset=fact.stamp.offset,
        key=fact.key,
        kind=kind,
        name=entity_name(kind, name),
        time_ms=fact.stamp.time_ms,
        value=None if fact.after is None else msgspec.json.encode(_value(kind, fact.after, master)).decode(),
    )
    return master, (row,)


def _value(kind: str, thing: Thing, master: Master) -> dict[str, Any]:
    match thing:
        case BrokerSet():
            return {"kind": kind, **_broker_set(thing, master)}
        case Leader():
            return {"kind": kind, **_fields(thing, but="offset")}
        case Subject():
            return {"kind": kind, "subject": thing.subject, "versions": [_fields(one) for one in thing.versions]}
        case _:
            return {"kind": kind, **_fields(thing)}


def _fields(thing: Thing | Replica | SubjectVersion, but: str = "") -> dict[str, Any]:
    """All but one, defaults too."""
    return {name: getattr(thing, name) for name in thing.__struct_fields__ if name != but}


def _broker_set(broker_set: BrokerSet, master: Master) -> dict[str, Any]:
    return {
        "name": broker_set.name,
        "cluster": broker_set.cluster,
        "replicas": [_fields(replica, but="register_check_code") for replica in broker_set.replicas],
        "master": broker_set.master,
        "master_epoch": broker_set.master_epoch,
        "master_offset": master.offset,
        "master_since_ms": master.since_ms,
        "sync_state_set": broker_set.sync_state_set,
        "sync_state_set_epoch": broker_set.sync_state_set_epoch,
        "sync_known": broker_set.sync_known,
        "election_offset": None if broker_set.election is None else broker_set.election.offset,
        "election_acknowledged": broker_set.election is not None and broker_set.election.acknowledged,
    }


ENTITIES: Final = Fold("entities", "2", ALL, Master(), step)
