"""A Spark pipeline: a row, its table, a fold, its line in the catalogue, its replay, its row in the documentation."""

PIPELINE = '''"""What became of topics: each creation, change and deletion."""

from collections.abc import Iterable
from typing import Final

from quorate.events import Event, TopicCreated, TopicDeleted, TopicUpdated
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold, Nothing
from quorate_spark.serving import TopicChange

READS: Final = frozenset[type[Event]]({TopicCreated, TopicUpdated, TopicDeleted})


def step(state: Nothing, fact: Fact) -> tuple[Nothing, Iterable[TopicChange]]:
    """One row for each event."""
    event, stamp = fact.event, fact.stamp
    if not isinstance(event, TopicCreated | TopicUpdated | TopicDeleted):
        return state, ()
    change = TopicChange(event_offset=stamp.offset, time_ms=stamp.time_ms, topic=event.topic, by_event=fact.type)
    return state, (change,)


TOPIC_CHANGES: Final = Fold("topic_changes", "1", READS, Nothing(), step)
'''
ROW = '''class TopicChange(Row, frozen=True, kw_only=True):
    """Table ``topic_changes``: every creation, change and deletion of a topic."""

    time_ms: int
    topic: str
    by_event: str
    """Type of the event."""


class Audit(Row'''
REPLAYED = """def _topic_changes(facts: Facts) -> dict[Any, dict[str, Any]]:
    return {
        stamp.offset: {
            "event_offset": stamp.offset,
            "time_ms": stamp.time_ms,
            "topic": event.topic,
            "by_event": type(event).__name__,
        }
        for stamp, event in facts
        if isinstance(event, e.TopicCreated | e.TopicUpdated | e.TopicDeleted)
    }


def _terms(facts"""
WRITTEN = {"spark/quorate_spark/pipelines/topic_changes.py": PIPELINE}
CHANGES = {
    "spark/quorate_spark/serving.py": [
        ("class Audit(Row", ROW),
        (
            '    Table("audit", Audit, ("event_offset",)),\n',
            (
                '    Table("topic_changes", TopicChange, ("event_offset",)),\n'
                '    Table("audit", Audit, ("event_offset",)),\n'
            ),
        ),
    ],
    "spark/quorate_spark/pipelines/catalogue.py": [
        (
            "from quorate_spark.pipelines.terms import TERMS\n",
            (
                "from quorate_spark.pipelines.terms import TERMS\n"
                "from quorate_spark.pipelines.topic_changes import TOPIC_CHANGES\n"
            ),
        ),
        ("SYNC_SETS, TERMS)", "SYNC_SETS, TERMS, TOPIC_CHANGES)"),
    ],
    "tests/spark/replay.py": [
        (
            '        "terms": _terms(facts),\n',
            '        "terms": _terms(facts),\n        "topic_changes": _topic_changes(facts),\n',
        ),
        ("def _terms(facts", REPLAYED),
    ],
    "docs/spark.md": [
        (
            "| `audit` | event |",
            "| `topic_changes` | change of a topic | when, which, by which event |\n| `audit` | event |",
        )
    ],
}
FILES_MAX = 5
TESTS = ["tests/unit/spark/test_folds.py", "tests/unit/spark/test_sinks.py"]
