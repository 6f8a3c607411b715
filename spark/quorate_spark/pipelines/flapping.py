"""Broker sets whose master changes too often.

Rules: no timer and no clock: a row says until when the set flaps if nothing more happens, and whoever reads it compares
that with the time it asks about. So the row is a function of the log alone, like every other.
"""

from collections.abc import Iterable

import msgspec

from quorate.events import MasterElected
from quorate_spark.limits import FLAPPING_ELECTIONS, FLAPPING_WINDOW_MS
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold
from quorate_spark.serving import Flapping


class Recent(msgspec.Struct, frozen=True):
    """Times of the elections of the window, in their order."""

    elected_ms: tuple[int, ...] = ()


def flapping(threshold: int = FLAPPING_ELECTIONS, window_ms: int = FLAPPING_WINDOW_MS) -> Fold[Recent]:
    """Sets with ``threshold`` elections or more within ``window_ms``."""

    def step(recent: Recent, fact: Fact) -> tuple[Recent, Iterable[Flapping]]:
        event, now = fact.event, fact.stamp.time_ms
        if not isinstance(event, MasterElected):
            return recent, ()
        times = (*(at for at in recent.elected_ms if at > now - window_ms), now)
        row = Flapping(
            event_offset=fact.stamp.offset,
            broker_set=event.broker_set,
            broker_cluster=event.cluster,
            elections=len(times),
            window_ms=window_ms,
            threshold=threshold,
            since_ms=times[0] if len(times) >= threshold else None,
            until_ms=times[-threshold] + window_ms if len(times) >= threshold else None,
        )
        return Recent(times), (row,)

    return Fold("flapping", f"1 {threshold} {window_ms}", frozenset({MasterElected}), Recent(), step)
