"""The view ``broker_availability`` as it was folded when it kept for itself who is of a set."""

from typing import assert_never

import msgspec

from quorate.events import (
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    Stamp,
)
from quorate_projections.views.broker_availability import RECENT, AvailabilityRow, BrokerRow, Outage
from quorate_projections.views.view import Rows

Mine = BrokerDataCleaned | BrokerFenced | BrokerIdApplied | BrokerRegistered | BrokerUnfenced
_replace = msgspec.structs.replace


def fold(rows: Rows[AvailabilityRow], stamp: Stamp, event: Mine) -> None:
    """Change one broker, or forget some."""
    row = rows.get(event.broker_set)
    if isinstance(event, BrokerIdApplied) and not row.known:
        row = AvailabilityRow()
    row = _replace(row, broker_set=event.broker_set, cluster=row.cluster or event.cluster)
    if isinstance(event, BrokerDataCleaned):
        row = _replace(row, known=not (event.whole_set and event.broker_ids))
        gone = event.broker_ids or tuple(broker.broker_id for broker in row.brokers)
        brokers = [broker for broker in row.brokers if broker.broker_id not in gone]
    else:
        old = next((b for b in row.brokers if b.broker_id == event.broker_id), BrokerRow(broker_id=event.broker_id))
        brokers = [broker for broker in row.brokers if broker.broker_id != event.broker_id]
        brokers = sorted([*brokers, _changed(old, stamp, event)], key=lambda broker: broker.broker_id)
    if not brokers:
        rows.drop(event.broker_set)
        return
    down = tuple(broker.broker_id for broker in brokers if broker.state == "down")
    rows.put(event.broker_set, _replace(row, brokers=tuple(brokers), down=down))


def _changed(
    broker: BrokerRow, stamp: Stamp, event: BrokerFenced | BrokerIdApplied | BrokerRegistered | BrokerUnfenced
) -> BrokerRow:
    match event:
        case BrokerIdApplied():
            return BrokerRow(broker_id=event.broker_id, since_offset=stamp.offset, since_ms=stamp.time_ms)
        case BrokerRegistered():
            if broker.state == "down":  # Heard, but not unfenced: still no candidate.
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
    """The outage is over."""
    up = _replace(broker, state="up", since_offset=stamp.offset, since_ms=stamp.time_ms)
    if broker.state != "down":
        return up
    over = _replace(broker.recent[-1], unfenced_offset=stamp.offset, unfenced_ms=stamp.time_ms)
    return _replace(up, down_ms=broker.down_ms + stamp.time_ms - over.fenced_ms, recent=(*broker.recent[:-1], over))
