"""How the page says times and numbers, and how loud an event. Its sentence is ``quorate.model.words``'."""

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


def plural(count: int, one: str, many: str = "") -> str:
    """``1 set``, ``2 sets``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


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
