"""Elections, and the outages they end: the loss of a master, who was elected and why, who acknowledged it when.

Rules: an outage begins with the event by which the master was lost (it was fenced, its id was cleaned, an election
found nobody, or it was replaced) and ends with the election of a master, the return of the lost one, or the cleaning of
the set. A first election ends no outage: nobody could be served before. The fault is the close of the
connection, the last heartbeat of one that fell silent (then it is an estimate), else the time of the event. The set
serves again when the new master acknowledged its role; a delivery given up leaves that open.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.events import (
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    ElectionFailed,
    MasterElected,
    RoleChangeAcknowledged,
)
from quorate.model.brokers import fault_of
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold
from quorate_spark.serving import Election, Outage, Row

_replace = msgspec.structs.replace


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a set's past that its next event may concern."""

    master: int | None = None
    ever: bool = False
    """Had it ever a master?"""
    cleaned: bool = False
    """Is the master's id cleaned? It stays recorded as the master, and is it again once it registers again."""
    outage: Outage | None = None
    """The one that lasts."""
    ended: Outage | None = None
    """The one that ``election`` ended."""
    election: Election | None = None
    """The last successful one, until it is acknowledged."""


def step(watch: Watch, fact: Fact) -> tuple[Watch, Iterable[Row]]:
    """The outage or election that the fact begins, ends or completes."""
    event = fact.event
    match event:
        case MasterElected():
            return _elected(watch, event, fact)
        case ElectionFailed():
            return _failed(watch, event, fact)
        case RoleChangeAcknowledged():
            return _acknowledged(watch, event, fact)
        case BrokerFenced() if event.broker_id == watch.master and watch.outage is None:
            outage = _lost(fact, event.broker_id, event)
            return _replace(watch, outage=outage), (outage,)
        case BrokerUnfenced() if event.broker_id == watch.master and not watch.cleaned:
            return _returned(watch, fact)
        case BrokerRegistered() if event.broker_id == watch.master and watch.cleaned:
            return _registered(watch, event.broker_id, fact)
        case BrokerDataCleaned():
            return _cleaned(watch, event, fact)
        case _:
            return watch, ()


def _lost(fact: Fact, master: int, event: BrokerFenced | MasterElected | ElectionFailed | BrokerDataCleaned) -> Outage:
    """The outage that begins with this event."""
    evidence, detected = ("", 0) if isinstance(event, BrokerDataCleaned) else (event.evidence, event.detected_ms)
    fault, estimated = fault_of(event)
    return Outage(
        event_offset=fact.stamp.offset,
        broker_set=event.broker_set,
        outage_offset=fact.stamp.offset,
        broker_cluster=event.cluster,
        lost_by=fact.type,
        lost_master=master,
        evidence=evidence,
        fault_ms=fact.stamp.time_ms if fault is None else fault,
        fault_estimated=estimated,
        detected_ms=detected or fact.stamp.time_ms,
        failed_elections=0,
        ended_by=None,
        ended_offset=None,
        ended_ms=None,
        acknowledged_ms=None,
        serving_ms=None,
        unavailable_ms=None,
    )


def _over(outage: Outage, how: str, fact: Fact) -> Outage:
    """The outage, ended by this event."""
    offset, at = fact.stamp.offset, fact.stamp.time_ms
    return _replace(outage, event_offset=offset, ended_by=how, ended_offset=offset, ended_ms=at)


def _returned(watch: Watch, fact: Fact) -> tuple[Watch, Iterable[Row]]:
    """The lost master is there again, and still the master: it serves from now on."""
    after = _replace(watch, cleaned=False, outage=None)
    if watch.outage is None:
        return after, ()
    at = fact.stamp.time_ms
    ended = _over(watch.outage, "returned", fact)
    return after, (_replace(ended, serving_ms=at, unavailable_ms=at - ended.fault_ms),)


def _registered(watch: Watch, master: int, fact: Fact) -> tuple[Watch, Iterable[Row]]:
    """The id is the master's again; one that was fenced meanwhile is still away."""
    broker_set = fact.sets[1]
    replica = None if broker_set is None else broker_set.replica(master)
    if replica is not None and replica.fenced:
        return _replace(watch, cleaned=False), ()
    return _returned(watch, fact)


def _elected(watch: Watch, event: MasterElected, fact: Fact) -> tuple[Watch, Iterable[Row]]:
    outage = watch.outage
    if outage is None and watch.master is not None:
        outage = _lost(fact, watch.master, event)
    ended = None if outage is None else _over(outage, "elected", fact)
    election = _replace(
        _election(watch, event, fact, ended),
        outcome="elected",
        new_master=event.master,
        master_address=event.master_address,
        decided_by=event.decided_by,
        unclean=event.unclean,
        old_sync_state_set=_json(event.old_sync_state_set),
        sync_state_set=_json(event.sync_state_set),
    )
    after = Watch(master=event.master, ever=True, ended=ended, election=election)
    return after, (election,) if ended is None else (ended, election)


def _failed(watch: Watch, event: ElectionFailed, fact: Fact) -> tuple[Watch, Iterable[Row]]:
    outage = watch.outage
    if outage is None and watch.master is not None:
        outage = _lost(fact, watch.master, event)
    if outage is not None:
        outage = _replace(outage, event_offset=fact.stamp.offset, failed_elections=outage.failed_elections + 1)
    election = _election(watch, event, fact, outage)
    after = Watch(ever=watch.ever, outage=outage)
    return after, (election,) if outage is None else (outage, election)


def _election(watch: Watch, event: MasterElected | ElectionFailed, fact: Fact, outage: Outage | None) -> Election:
    """The row of an election, as one that found nobody."""
    stamp = fact.stamp
    return Election(
        event_offset=stamp.offset,
        election_offset=stamp.offset,
        time_ms=stamp.time_ms,
        term=stamp.term,
        broker_cluster=event.cluster,
        broker_set=event.broker_set,
        outcome="failed",
        first=not watch.ever,
        trigger_by=event.trigger,
        evidence=event.evidence,
        cause=stamp.cause,
        principal=stamp.principal,
        old_master=event.old_master,
        new_master=None,
        master_address="",
        master_epoch=event.master_epoch,
        decided_by="",
        explanation=event.explanation,
        unclean=False,
        candidates=_json(event.candidates),
        candidate_count=len(event.candidates),
        alive_count=sum(candidate.alive for candidate in event.candidates),
        old_sync_state_set=None,
        sync_state_set=None,
        last_heartbeat_ms=event.last_heartbeat_ms or None,
        detected_ms=event.detected_ms or None,
        proposed_ms=event.proposed_ms or None,
        committed_ms=None,
        notified_ms=None,
        acknowledged_ms=None,
        acks_offset=None,
        acks=None,
        outage_offset=None if outage is None else outage.outage_offset,
        fault_ms=None if outage is None else outage.fault_ms,
        unavailable_ms=None,
    )


def _acknowledged(watch: Watch, event: RoleChangeAcknowledged, fact: Fact) -> tuple[Watch, Iterable[Row]]:
    election = watch.election
    if election is None or election.election_offset != event.election_offset:
        return watch, ()
    mine = next((ack.acknowledged_ms for ack in event.acks if ack.broker_id == election.new_master), 0) or None
    away = None if mine is None or election.fault_ms is None else mine - election.fault_ms
    row = _replace(
        election,
        event_offset=fact.stamp.offset,
        committed_ms=event.committed_ms or None,
        notified_ms=min((ack.notified_ms for ack in event.acks if ack.notified_ms), default=None),
        acknowledged_ms=mine,
        acks_offset=fact.stamp.offset,
        acks=_json(event.acks),
        unavailable_ms=away,
    )
    after = _replace(watch, election=None, ended=None)
    if watch.ended is None:
        return after, (row,)
    served = _replace(
        watch.ended, event_offset=fact.stamp.offset, acknowledged_ms=mine, serving_ms=mine, unavailable_ms=away
    )
    return after, (served, row)


def _cleaned(watch: Watch, event: BrokerDataCleaned, fact: Fact) -> tuple[Watch, Iterable[Row]]:
    """Nothing left, or only the ids: the set is forgotten. Else its master may be lost."""
    before, broker_set = fact.sets
    if broker_set is None or broker_set.is_anew(before):
        return Watch(), () if watch.outage is None else (_over(watch.outage, "forgotten", fact),)
    if watch.master is None or broker_set.replica(watch.master) is not None or watch.cleaned:
        return watch, ()
    outage = watch.outage or _lost(fact, watch.master, event)
    return _replace(watch, cleaned=True, outage=outage), () if watch.outage else (outage,)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


ELECTIONS: Final = Fold(
    "elections",
    "2",
    frozenset(
        {
            BrokerDataCleaned,
            BrokerFenced,
            BrokerIdApplied,
            BrokerRegistered,
            BrokerUnfenced,
            ElectionFailed,
            MasterElected,
            RoleChangeAcknowledged,
        }
    ),
    Watch(),
    step,
)
