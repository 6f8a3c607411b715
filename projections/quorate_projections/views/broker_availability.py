"""The view ``broker_availability``: since when each broker is up or down, how often and how long it was away, by set.

Rules: down is what the controller recorded (fenced), from that event to the one that unfenced it; times are the events'
own, so every worker computes the same. The last RECENT outages are kept, older ones only as a count and a sum.
"""

from typing import Literal, assert_never

import msgspec

from quorate.events import (
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    Stamp,
)
from quorate.model.state import BrokerSet
from quorate_projections.views.view import Change, Rows, View

Mine = BrokerDataCleaned | BrokerFenced | BrokerIdApplied | BrokerRegistered | BrokerUnfenced
_replace = msgspec.structs.replace
RECENT = 16


class Outage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """From one event to another; times are epoch milliseconds."""

    fenced_offset: int
    fenced_ms: int
    evidence: str
    last_heartbeat_ms: int
    """0: never heard."""
    detected_ms: int
    unfenced_offset: int | None = None
    unfenced_ms: int | None = None
    """None: not over."""


class BrokerRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One broker of the set."""

    broker_id: int
    state: Literal["applied", "up", "down"] = "applied"
    """``applied``: it has an id and has not registered yet."""
    since_offset: int = -1
    since_ms: int = 0
    outages: int = 0
    down_ms: int = 0
    """Sum of the outages that are over, milliseconds."""
    recent: tuple[Outage, ...] = ()
    """The last ones, oldest first."""


class AvailabilityRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The brokers of one set."""

    broker_set: str = ""
    cluster: str = ""
    down: tuple[int, ...] = ()
    """Ids of those that are down."""
    known: bool = True
    """False: only the ids are known."""
    brokers: tuple[BrokerRow, ...] = ()
    """By broker id."""


def fold(rows: Rows[AvailabilityRow], change: Change[Mine]) -> None:
    """Change one broker; who is not of the set any more, as the model has it, is forgotten."""
    stamp, event, broker_set = change.stamp, change.event, change.entity
    if not isinstance(broker_set, BrokerSet):
        rows.drop(event.broker_set)
        return
    there = {replica.broker_id for replica in broker_set.replicas}
    brokers = {broker.broker_id: broker for broker in rows.get(event.broker_set).brokers if broker.broker_id in there}
    if not isinstance(event, BrokerDataCleaned):
        old = brokers.get(event.broker_id, BrokerRow(broker_id=event.broker_id))
        brokers[event.broker_id] = _changed(old, stamp, event)
    row = AvailabilityRow(
        broker_set=broker_set.name,
        cluster=broker_set.cluster,
        down=tuple(number for number in sorted(brokers) if brokers[number].state == "down"),
        known=broker_set.sync_known,
        brokers=tuple(brokers[number] for number in sorted(brokers)),
    )
    rows.put(event.broker_set, row)


def _changed(
    broker: BrokerRow, stamp: Stamp, event: BrokerFenced | BrokerIdApplied | BrokerRegistered | BrokerUnfenced
) -> BrokerRow:
    match event:
        case BrokerIdApplied():
            return BrokerRow(broker_id=event.broker_id, since_offset=stamp.offset, since_ms=stamp.time_ms)
        case BrokerRegistered():
            if broker.state != "applied":  # Down: heard, but not unfenced, so no candidate. Up: it has news, no more.
                return broker
            return _replace(broker, state="up", since_offset=stamp.offset, since_ms=stamp.time_ms)
        case BrokerFenced():
            outage = Outage(
                fenced_offset=stamp.offset,
                fenced_ms=stamp.time_ms,
                evidence=event.evidence,
                last_heartbeat_ms=event.last_heartbeat_ms,
                detected_ms=event.detected_ms,
            )
            return _replace(
                broker,
                state="down",
                since_offset=stamp.offset,
                since_ms=stamp.time_ms,
                outages=broker.outages + 1,
                recent=(*broker.recent, outage)[-RECENT:],
            )
        case BrokerUnfenced():
            return _returned(broker, stamp)
        case _:
            assert_never(event)


def _returned(broker: BrokerRow, stamp: Stamp) -> BrokerRow:
    """The outage is over, if there was one."""
    if broker.state == "up":
        return broker
    up = _replace(broker, state="up", since_offset=stamp.offset, since_ms=stamp.time_ms)
    if broker.state != "down":
        return up
    over = _replace(broker.recent[-1], unfenced_offset=stamp.offset, unfenced_ms=stamp.time_ms)
    return _replace(up, down_ms=broker.down_ms + stamp.time_ms - over.fenced_ms, recent=(*broker.recent[:-1], over))


VIEW = View(
    name="broker_availability",
    what="Since when each broker is up or down, its outages and their sum, by broker set.",
    initial=AvailabilityRow(),
    fold=fold,
    version=2,
    mine=frozenset({BrokerDataCleaned, BrokerFenced, BrokerIdApplied, BrokerRegistered, BrokerUnfenced}),
)
