"""The Python source and Spark's own connector: the same rows, for every event there can be."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import DataFrame, SparkSession

from quorate.events import Event
from quorate_spark.source import COLUMNS, SourceOptions, events, typed
from tests.kafka_tools.fakes import ServedLog
from tests.peers import peer
from tests.spark.feed import put
from tests.unit.events.strategies import CATALOGUE, any_event


def rows(frame: DataFrame) -> list[dict[str, object]]:
    """In the order of the log, the event's JSON as the value it is."""
    return [{**row.asDict(), "event": json.loads(row.event)} for row in sorted(frame.collect())]


def served_examples(served: ServedLog, each: int) -> Counter[str]:
    """Fill a log with events of every type, each drawn from its schema; how many of which type."""
    count: Counter[str] = Counter()

    @settings(
        max_examples=each * len(CATALOGUE) * 10,  # Chance favours some types: with fewer one may never be drawn.
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(any_event())
    def fill(event: Event) -> None:
        name = type(event).__name__
        if count[name] < each:
            put(served, [event], 1 + count[name] % 3, principal="a/ü", cause="why\t", request_id=f"r-{count.total()}")
            count[name] += 1

    fill()
    return count


def test_both_implementations_give_the_same_rows_for_every_event_type(spark: SparkSession) -> None:
    """Every column of every row is equal, whatever the event's type and whatever text, number or list is in it."""
    peer("spark")
    with ServedLog() as served:
        count = served_examples(served, 8)
        assert count.keys() == CATALOGUE.keys()
        options = SourceOptions(nodes=served.bootstrap)
        python = events(spark, options, "quorate", streaming=False).cache()
        jvm = events(spark, options, "kafka", streaming=False).cache()
        assert python.schema.simpleString() == jvm.schema.simpleString() == COLUMNS.simpleString()
        ours, theirs = rows(python), rows(jvm)
        assert len(ours) == count.total() == served.log.end_offset
        for mine, its in zip(ours, theirs, strict=True):
            assert mine == its
        for name in ("ClusterCreated", "MasterElected", "BrokerRegistered", "ConfigChanged"):
            one, other = (typed(frame, name).orderBy("offset").collect() for frame in (python, jvm))
            assert one == other, name
            assert len(one) == count[name]


@pytest.mark.parametrize(
    "part",
    [
        {"starting_offset": "3", "ending_offset": "9"},
        {"starting_time": "2023-11-14T22:13:22Z", "ending_time": "1700000007000"},
        {"starting_offset": "latest"},
        {"starting_offset": "9", "ending_offset": "3"},
    ],
)
def test_both_implementations_read_the_same_part(spark: SparkSession, part: dict[str, Any]) -> None:
    """A part by offsets or by times is the same part; one that ends before it begins is empty."""
    peer("spark")
    with ServedLog() as served:
        served.append(12, 1)
        options = SourceOptions(nodes=served.bootstrap, **part)
        ours, theirs = (rows(events(spark, options, source, streaming=False)) for source in ("quorate", "kafka"))
        assert ours == theirs
        wanted = {"3": range(3, 9), "2023-11-14T22:13:22Z": range(2, 7)}.get(next(iter(part.values())), range(0))
        assert [row["offset"] for row in ours] == list(wanted)
