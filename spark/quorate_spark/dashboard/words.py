"""How the page says a time, and how loud an event. All other words are of ``quorate.model``."""

import datetime as dt

from quorate.events import (
    BrokerFenced,
    ControllerLeaderElected,
    ElectionFailed,
    Event,
    MasterElected,
    SyncStateSetAltered,
)
from quorate_spark.dashboard.fold import FIRST


def clock(time_ms: int) -> str:
    """``08:35:48 UTC``."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%H:%M:%S UTC")


def tone(event: Event) -> str:
    """``bad``, ``warn``, ``strong``, or nothing special."""
    match event:
        case ElectionFailed():
            return "bad"
        case MasterElected():
            return "" if event.decided_by == FIRST else "strong"
        case ControllerLeaderElected():
            return "strong"
        case BrokerFenced():
            return "warn"
        case SyncStateSetAltered():
            return "warn" if len(event.new) < len(event.old) else ""
        case _:
            return ""
