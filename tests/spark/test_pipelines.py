"""The pipelines in Spark itself: streaming in small batches with a restart, and the batch jobs over the archive."""

import json
import math
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from quorate.errors import UsageError
from quorate_spark.batch.history import history
from quorate_spark.batch.report import WEEK_MS, Week, weekly
from quorate_spark.batch.state import known, state
from quorate_spark.pipelines.archive import bronze
from quorate_spark.pipelines.catalogue import folds
from quorate_spark.pipelines.keyed import keyed
from quorate_spark.sinks.delta import Archive
from quorate_spark.sinks.sql import connect
from quorate_spark.sinks.store import ServingStore
from quorate_spark.source import COLUMNS
from quorate_spark.stream.application import SPARK
from quorate_spark.stream.queries import Feed
from tests.spark.compare import differences, stored
from tests.spark.replay import Facts, replay
from tests.spark.story import rows, story

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED, LENGTH = 11, 240


@pytest.fixture(scope="module")
def told() -> Facts:
    """A history over weeks."""
    return story(SEED, LENGTH)


@pytest.fixture(scope="module")
def lines(told: Facts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history as a folder of six files, which Spark reads one per batch, each in no order."""
    folder = tmp_path_factory.mktemp("lines")
    made = [json.dumps({**one, "time": _time(one["time_ms"])}) for one in rows(told)]
    for number in range(6):
        part = made[number * len(made) // 6 : (number + 1) * len(made) // 6]
        file = folder / f"{number}.json"
        file.write_text("\n".join(reversed(part)) + "\n")
        os.utime(file, (1_000_000 + number, 1_000_000 + number))  # Spark reads the oldest file first.
    return folder


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


@pytest.fixture
def spark_as_deployed(spark: "SparkSession") -> Iterator["SparkSession"]:
    """The session with the settings of the application that can be set late."""
    before = {name: spark.conf.get(name, None) for name in SPARK}
    for name, value in SPARK.items():
        spark.conf.set(name, value)
    yield spark
    for name, was in before.items():
        spark.conf.unset(name) if was is None else spark.conf.set(name, was)


def streamed(rows_: "DataFrame", feed: Feed, checkpoint: Path) -> Any:
    """Run a query over what is there; the query, ended."""
    mode = "append" if rows_.columns == COLUMNS.names else "update"
    writer = rows_.writeStream.outputMode(mode).foreachBatch(feed).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    feed.named(str(query.id))
    query.awaitTermination(120)
    return query


def test_streaming_with_a_restart_equals_the_replay(
    spark_as_deployed: "SparkSession", told: Facts, lines: Path, tmp_path: Path
) -> None:
    """A sink fails in the third batch, a restart from the checkpoint: all tables are the oracle's, each row once."""
    source = spark_as_deployed.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(lines))
    store = ServingStore(f"sqlite:///{tmp_path}/facts.db", lambda: 7)
    batches: list[int] = []

    def deliver(query_id: str, batch_id: int, batch: "DataFrame") -> None:
        batches.append(batch_id)
        store.apply(query_id, batch_id, [(row.table, row.event_offset, row.row) for row in batch.collect()])
        if batches == [0, 1, 2]:
            raise OSError("killed after the sink had committed")

    with pytest.raises(Exception, match="SinkFailedError"):
        streamed(keyed(source, folds()), Feed(deliver), tmp_path / "checkpoint")
    streamed(keyed(source, folds()), Feed(deliver), tmp_path / "checkpoint")
    assert batches == [0, 1, 2, 2, 3, 4, 5]
    progress = store.progress()
    store.close()
    assert progress is not None
    assert (progress.position, progress.batch_id) == (len(told), 5)
    database = connect(f"sqlite:///{tmp_path}/facts.db", read_only=True)
    assert differences(stored(database), replay(told)) == []
    database.close()


def test_an_event_from_the_future_halts_the_query(spark_as_deployed: "SparkSession", tmp_path: Path) -> None:
    """A type this version does not know ends the query with an error that names it; nothing of the batch is written."""
    made = [{**one, "time": _time(one["time_ms"])} for one in rows(story(1, 6))]
    (tmp_path / "in").mkdir()
    text = "\n".join(json.dumps(one) for one in [*made, {**made[-1], "offset": len(made), "type": "MoonLanded"}])
    (tmp_path / "in/0.json").write_text(text)
    source = spark_as_deployed.readStream.schema(COLUMNS).json(str(tmp_path / "in"))
    feed = Feed(lambda *_: (_ for _ in ()).throw(AssertionError("delivered")) if _[2].collect() else None)
    with pytest.raises(Exception, match="SinkFailedError"):
        streamed(keyed(source, folds()), feed, tmp_path / "checkpoint")
    assert "UnknownEventError: event 6 is a MoonLanded, which this version does not know: upgrade it" in str(
        feed.failure
    )


@pytest.fixture(scope="module")
def archive(told: Facts, lines: Path, spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> str:
    """The archive of the history, as the streaming query writes it."""
    folder = tmp_path_factory.mktemp("archive")
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(lines))
    kept = Archive(str(folder / "a"), compact_every=4)

    def deliver(query: str, batch: int, frame: "DataFrame") -> None:
        kept.apply(query, batch, frame.toArrow())

    feed = Feed(deliver)
    streamed(bronze(source), feed, folder / "checkpoint")
    assert kept.position() == len(told)
    return kept.uri


def test_the_state_as_of_an_offset_or_a_time_is_the_replay_s(spark: "SparkSession", told: Facts, archive: str) -> None:
    """After N events the entities are the oracle's; a time means all events up to it; files nobody names count not."""
    stray = pa.table({"offset": pa.array([3], pa.int64()), "key": ["x"], "date": ["2026-11-21"]})
    write_deltalake(Path(archive).parent / "other", stray)
    for file in (Path(archive).parent / "other").glob("*.parquet"):
        file.rename(Path(archive) / file.name)
    middle = len(told) // 2
    at = told[middle][0].time_ms
    of_time = max(stamp.offset for stamp, _ in told if stamp.time_ms <= at) + 1
    for cut, offset in (
        (history(spark, archive, offset=37), 37),
        (history(spark, archive, time_ms=at), of_time),
        (history(spark, archive), len(told)),
        (history(spark, archive, time_ms=0), 0),
    ):
        expected = {k: row for k, row in replay(told[:offset])["entities"].items() if row["value"] is not None}
        found = {one.key: json.loads(bytes(one.value)) for one in known(state(cut))}
        assert cut.position == offset
        assert found == {k: row["value"] for k, row in expected.items()}
    assert {one.kind for one in known(state(history(spark, archive), "topic"))} <= {"topic"}


def test_a_cut_that_cannot_be_is_refused(spark: "SparkSession", told: Facts, archive: str, tmp_path: Path) -> None:
    """Beyond the end, before the beginning, twice, or no archive at all: the message names what there is."""
    for offset in (-1, len(told) + 1):
        with pytest.raises(UsageError, match=f"holds {len(told)} events"):
            history(spark, archive, offset=offset)
    with pytest.raises(UsageError, match="not both"):
        history(spark, archive, offset=1, time_ms=1)
    with pytest.raises(UsageError, match="no archive"):
        history(spark, str(tmp_path))


def expected_weeks(told: Facts) -> dict[tuple[str, str], dict[str, Any]]:
    """The report by plain loops over the oracle's rows."""
    tables = replay(told)
    end = told[-1][0].time_ms
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name in {row["broker_set"] for row in tables["elections"].values()}:
        mine = {t: [r for r in tables[t].values() if r["broker_set"] == name] for t in
                ("elections", "outages", "sync_changes", "availability")}  # fmt: skip
        won = [row["time_ms"] for row in mine["elections"] if row["outcome"] == "elected"]
        entity = next(row for row in tables["entities"].values() if (row["kind"], row["name"]) == ("broker-set", name))
        last = end if entity["value"] is not None else entity["time_ms"]
        for week, (start, stop) in _weeks(min(won), last).items():
            parts = [
                min(stop, until) - max(start, row["fault_ms"])
                for row in mine["outages"]
                if (until := row["serving_ms"] or row["ended_ms"] or end) > start and row["fault_ms"] < stop
                if min(stop, until) > max(start, row["fault_ms"])
            ]
            seen = min(stop, last) - max(start, min(won))
            inside = {t: [r for r in rows_ if start <= _when(r) < stop] for t, rows_ in mine.items()}
            found[week, name] = {
                "observed_ms": seen,
                "unavailable_ms": sum(parts),
                "longest_ms": max(parts, default=None),
                "outages": len(inside["outages"]),
                "elections": sum(row["outcome"] == "elected" for row in inside["elections"]),
                "failed_elections": sum(row["outcome"] == "failed" for row in inside["elections"]),
                "unclean_elections": sum(row["unclean"] for row in inside["elections"]),
                "shrinks": sum(bool(row["left_set"]) for row in inside["sync_changes"]),
                "expands": sum(bool(row["joined_set"]) for row in inside["sync_changes"]),
                "fencings": sum(row["status"] == "fenced" for row in inside["availability"]),
            }
    return found


def _when(row: dict[str, Any]) -> int:
    found: int = row.get("time_ms") or row.get("fault_ms") or row["from_ms"]
    return found


def _weeks(first: int, last: int) -> dict[str, tuple[int, int]]:
    found, at = {}, first
    while at < last:
        year, week, _ = datetime.fromtimestamp(at / 1000, UTC).isocalendar()
        start = round(datetime.fromisocalendar(year, week, 1).replace(tzinfo=UTC).timestamp() * 1000)
        found[f"{year}-W{week:02d}"] = (start, start + WEEK_MS)
        at = start + WEEK_MS
    return found


def test_the_weekly_report_is_what_plain_loops_count(spark: "SparkSession", told: Facts, archive: str) -> None:
    """Every number of every line, over outages that cross Mondays, equals the oracle's; availability is their ratio."""
    lines = [Week(**row.asDict()) for row in weekly(history(spark, archive)).collect()]
    expected = expected_weeks(told)
    found = {
        (line.week, line.broker_set): {name: getattr(line, name) for name in next(iter(expected.values()))}
        for line in lines
    }
    assert found == expected
    assert len({line.week for line in lines}) >= 2
    assert any(line.outages for line in lines)
    for line in lines:
        assert math.isclose(line.availability, 1 - line.unavailable_ms / line.observed_ms)
        assert (line.median_ms is None) == (line.longest_ms is None)
