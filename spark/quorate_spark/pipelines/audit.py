"""Every event as a row: principal, time, cause.

Rules: every event, so that the rows up to the store's position are gapless; the sink counts on it.
"""

from collections.abc import Iterable
from typing import Final

from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import ALL, Fold, Nothing
from quorate_spark.serving import Audit


def step(nothing: Nothing, fact: Fact) -> tuple[Nothing, Iterable[Audit]]:
    """The event's row."""
    stamp = fact.stamp
    row = Audit(
        event_offset=stamp.offset,
        term=stamp.term,
        time_ms=stamp.time_ms,
        type=fact.type,
        key=fact.key,
        principal=stamp.principal,
        cause=stamp.cause,
        request_id=stamp.request_id,
        schema_id=fact.schema_id,
        event=fact.text,
    )
    return nothing, (row,)


AUDIT: Final = Fold("audit", "1", ALL, Nothing(), step)
