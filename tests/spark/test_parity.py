"""The Python source and Spark's own connector: the same rows, for every event there can be."""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.avro.functions import from_avro

from quorate.events import Event
from quorate_spark.source import COLUMNS, SourceOptions, columns, events, typed
from tests import newer
from tests.kafka_tools.fakes import ServedLog
from tests.peers import peer
from tests.projections.history import commits
from tests.projections.log import HistoryLog
from tests.spark.feed import put
from tests.unit.events.strategies import CATALOGUE, any_event
from tests.unit.events.test_bytes import EVENTS, NESTED, module


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


def test_bytes_are_the_same_in_the_jvm(spark: SparkSession) -> None:
    """What the JVM makes of an event with bytes is our JSON, base64 and all, and ``typed``'s types read it back."""
    peer("spark")
    made = module("pure")
    old = made.Kept(whole=b"", old=b"\x00\xff")
    event = made.KeysMoved(space="s", first=b"\xfe" * 100, keys=(b"", b"\xffa"), values=(old, made.Kept(whole=b"k")))
    body = made.WRITERS[made.KeysMoved](event)[5:]
    text = msgspec.json.encode(msgspec.structs.asdict(event)).decode()
    frame = spark.createDataFrame([(body, text)], "body BINARY, text STRING")
    told = F.to_json(from_avro("body", json.dumps(NESTED), {"mode": "FAILFAST"}), {"ignoreNullFields": "false"})
    read = F.from_json("text", columns._record(EVENTS["KeysMoved"]), {"mode": "FAILFAST"})
    (row,) = frame.select(told.alias("told"), read.alias("read")).collect()
    assert json.loads(row.told) == json.loads(text)
    assert (row.read.first, row.read["keys"]) == (event.first, list(event.keys))
    assert [(value.whole, value.old) for value in row.read["values"]] == [(b"", b"\x00\xff"), (b"k", None)]


def test_both_implementations_read_newer_versions_as_ours(spark: SparkSession) -> None:
    """A log that a newer build wrote has the rows of the same log as this build writes it, but for the schema's id; the
    JVM knows what the registry had when the query was made. Without a registry both fail.
    """
    peer("spark")
    history = commits(1)
    log = [next(history) for _ in range(60)]
    theirs = [[newer.rewritten(record) for record in commit] for commit in log]
    with HistoryLog(history=iter(log)) as own, HistoryLog(history=iter(theirs)) as new:
        assert own.append_commits(60) == new.append_commits(60)
        with newer.served(newer.module().SCHEMAS) as registry:
            wanted = rows(events(spark, SourceOptions(nodes=own.bootstrap), streaming=False))
            for source in ("quorate", "kafka"):
                options = SourceOptions(nodes=new.bootstrap, registry=registry)
                found = rows(events(spark, options, source, streaming=False))
                assert all(row.pop("schema_id") in newer.module().SCHEMAS for row in found)
                assert found == [{name: row[name] for name in row if name != "schema_id"} for row in wanted]
        for source in ("quorate", "kafka"):
            with pytest.raises(PySparkException, match="schema id"):
                events(spark, SourceOptions(nodes=new.bootstrap), source, streaming=False).collect()  # type: ignore[arg-type]


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
