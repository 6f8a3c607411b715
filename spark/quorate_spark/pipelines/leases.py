"""The lives of leases: who asked for each, how long it lived, and how it ended.

Rules: a number may be given again once its lease has ended; a life is told by the event that granted it. That a lease
ends without having begun cannot have been decided, and stops the query: InvariantBrokenError, from the model.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.events import LeaseCheckpointed, LeaseEnded, LeaseGranted
from quorate.model.words import lease_number
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold
from quorate_spark.serving import LeaseLife


class Living(msgspec.Struct, frozen=True):
    """The life that lasts."""

    now: LeaseLife | None = None


def step(living: Living, fact: Fact) -> tuple[Living, Iterable[LeaseLife]]:
    """The life after the fact, as its row."""
    event, stamp, now = fact.event, fact.stamp, living.now
    if isinstance(event, LeaseGranted):
        now = LeaseLife(
            event_offset=stamp.offset,
            granted_offset=stamp.offset,
            lease=lease_number(event.lease),
            ttl_s=event.ttl_s,
            principal=stamp.principal,
            granted_ms=stamp.time_ms,
            checkpoints=0,
            ended_by=None,
            ended_offset=None,
            ended_ms=None,
            silent_ms=None,
            keys=None,
        )
    elif now is None:
        return living, ()
    elif isinstance(event, LeaseCheckpointed):
        now = msgspec.structs.replace(now, event_offset=stamp.offset, checkpoints=now.checkpoints + 1)
    elif isinstance(event, LeaseEnded):
        ended = msgspec.structs.replace(
            now,
            event_offset=stamp.offset,
            ended_by=event.reason,
            ended_offset=stamp.offset,
            ended_ms=stamp.time_ms,
            silent_ms=event.silent_ms,
            keys=event.keys,
        )
        return Living(), (ended,)
    return Living(now), (now,)


LEASES: Final = Fold("leases", "1", frozenset({LeaseGranted, LeaseCheckpointed, LeaseEnded}), Living(), step)
