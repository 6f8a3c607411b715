"""Every stateful pipeline of the serving store; a new one is a line here."""

from quorate_spark.limits import FLAPPING_ELECTIONS, FLAPPING_WINDOW_MS
from quorate_spark.pipelines.audit import AUDIT
from quorate_spark.pipelines.availability import AVAILABILITY
from quorate_spark.pipelines.elections import ELECTIONS
from quorate_spark.pipelines.entities import ENTITIES
from quorate_spark.pipelines.flapping import flapping
from quorate_spark.pipelines.fold import AnyFold
from quorate_spark.pipelines.leases import LEASES
from quorate_spark.pipelines.sync_sets import SYNC_SETS
from quorate_spark.pipelines.terms import TERMS


def folds(threshold: int = FLAPPING_ELECTIONS, window_ms: int = FLAPPING_WINDOW_MS) -> tuple[AnyFold, ...]:
    """All of them; the arguments are flapping's."""
    of_keys = (AUDIT, AVAILABILITY, ELECTIONS, ENTITIES, LEASES, SYNC_SETS, TERMS)
    return (*of_keys, flapping(threshold, window_ms))
