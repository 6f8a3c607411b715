"""``/metrics``: what a worker counts, as Prometheus text.

Source: Prometheus exposition format 0.0.4.
"""

from collections.abc import Iterator

from quorate_projections.answers import Answers
from quorate_projections.materialized_views import MaterializedViews

PREFIX = "quorate_projections_"


def exposition(materialized_views: MaterializedViews, answers: Answers) -> str:
    """All metrics, one sample per line."""
    return "\n".join(_lines(materialized_views, answers)) + "\n"


def _lines(materialized_views: MaterializedViews, answers: Answers) -> Iterator[str]:
    health = materialized_views.health()
    gauges = [
        ("ready", "1 when /ready says yes.", int(health.ready)),
        ("failed", "1 while the table stands still.", int(health.failed is not None)),
        ("offset", "Events reflected.", health.offset),
        ("age_seconds", "Time since the rows were all there was.", health.age_ms / 1000),
        ("waiting", "Callers waiting for an offset.", materialized_views.waiting),
    ]
    if health.lag is not None and health.end_offset is not None:
        gauges.append(("end_offset", "Where the log ends, as the node read from last said.", health.end_offset))
        gauges.append(("lag_events", "Events behind that end.", health.lag))
    for name, text, value in gauges:
        yield from (f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} gauge", f"{PREFIX}{name} {value}")
    counters = [
        ("applied_total", "Events applied since the start.", materialized_views.folding.applied),
        ("rewinds_total", "How often events were lost on the way and read again.", materialized_views.rewinds),
    ]
    for name, text, value in counters:
        yield from (f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} counter", f"{PREFIX}{name} {value}")
    for name, text, counts in (
        ("reads_total", "Answers from a view.", answers.reads),
        ("changes_total", "Events that changed rows of a view.", materialized_views.store.changes),
    ):
        yield from (f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} counter")
        yield from (f'{PREFIX}{name}{{view="{view}"}} {count}' for view, count in counts.items())
