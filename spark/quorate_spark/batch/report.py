"""How reliable each broker set was, week by week (ISO weeks, UTC).

Rules: a set is observed from its first master on, to the end of the history, or to its last event when it is gone. An
outage counts in each week by its part that lies there; one whose end nobody acknowledged counts to the election, one
that lasts to the end of the history. Elections, changes and fencings count in the week of their event.
"""

from typing import Final

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from quorate_spark.batch.history import History, table
from quorate_spark.pipelines.availability import AVAILABILITY
from quorate_spark.pipelines.elections import ELECTIONS
from quorate_spark.pipelines.entities import ENTITIES
from quorate_spark.pipelines.sync_sets import SYNC_SETS
from quorate_spark.serving import Availability, Election, Entity, Outage, SyncChange

WEEK_MS: Final = 7 * 24 * 3600 * 1000
MONDAY_MS: Final = 4 * 24 * 3600 * 1000
"""The first Monday of the epoch, 1970-01-05."""


class Week(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    week: str
    """Such as ``2026-W47``."""
    broker_set: str
    observed_ms: int
    """How much of the week it was observed."""
    unavailable_ms: int
    """How much of that it had no serving master."""
    availability: float
    """The share that is left, 0 to 1."""
    outages: int
    """That began in the week."""
    longest_ms: int | None
    """The longest part of an outage within the week; null = there was none."""
    median_ms: int | None
    """Of the parts of outages within the week."""
    elections: int
    """Masters elected."""
    failed_elections: int
    unclean_elections: int
    shrinks: int
    """Changes by which somebody left the sync state set."""
    expands: int
    fencings: int


def weekly(history: History) -> DataFrame:
    """A row for each week and broker set observed in it, with the fields of ``Week``, by week and set."""
    rows = history.rows(AVAILABILITY, ELECTIONS, ENTITIES, SYNC_SETS).cache()
    end = history.events.agg(F.max("time_ms").alias("end_ms"))
    elections, outages = table(rows, Election), table(rows, Outage)
    observed = _split(_observed(elections, table(rows, Entity), end), "observed_ms")
    lines = observed.join(_away(outages, end), ["week_ms", "broker_set"], "left")
    for counted in (
        _count(elections, "time_ms", elections="outcome = 'elected'", failed_elections="outcome = 'failed'",
               unclean_elections="unclean"),
        _count(outages, "fault_ms", outages="true"),
        _count(table(rows, SyncChange), "time_ms", shrinks="left_set != '[]'", expands="joined_set != '[]'"),
        _count(table(rows, Availability), "from_ms", fencings="status = 'fenced'"),
    ):  # fmt: skip
        lines = lines.join(counted, ["week_ms", "broker_set"], "left")
    counts = [name for name in Week.__struct_fields__ if name not in ("longest_ms", "median_ms")]
    weeks = lines.fillna(0, [name for name in counts if name in lines.columns]).withColumn(
        "availability", 1 - F.col("unavailable_ms") / F.col("observed_ms")
    )
    monday = F.timestamp_millis("week_ms")
    week = F.format_string("%d-W%02d", F.extract(F.lit("YEAROFWEEK"), monday), F.extract(F.lit("WEEK"), monday))
    return weeks.withColumn("week", week).select(*Week.__struct_fields__).orderBy("week", "broker_set")


def _observed(elections: DataFrame, entities: DataFrame, end: DataFrame) -> DataFrame:
    """From the first master of each set to the end of what is known of it."""
    began = elections.where("outcome = 'elected'").groupBy("broker_set").agg(F.min("time_ms").alias("from_ms"))
    sets = entities.where("kind = 'broker-set'").select(F.col("name").alias("broker_set"), "value", "time_ms")
    until = F.when(F.col("value").isNull(), F.col("time_ms")).otherwise(F.col("end_ms"))
    return began.join(sets, "broker_set").crossJoin(end).withColumn("to_ms", until)


def _away(outages: DataFrame, end: DataFrame) -> DataFrame:
    spans = outages.crossJoin(end).select(
        "broker_set",
        F.col("fault_ms").alias("from_ms"),
        F.coalesce("serving_ms", "ended_ms", "end_ms").alias("to_ms"),
    )
    parts = _parts(spans).groupBy("week_ms", "broker_set")
    return parts.agg(
        F.sum("part_ms").alias("unavailable_ms"),
        F.max("part_ms").alias("longest_ms"),
        F.percentile("part_ms", 0.5).cast("long").alias("median_ms"),
    )


def _split(spans: DataFrame, name: str) -> DataFrame:
    return _parts(spans).groupBy("week_ms", "broker_set").agg(F.sum("part_ms").alias(name))


def _parts(spans: DataFrame) -> DataFrame:
    """Each span, cut at the Mondays: ``week_ms`` (when that week began) and ``part_ms``."""
    weeks = F.sequence(_week(F.col("from_ms")), _week(F.col("to_ms")), F.lit(WEEK_MS))
    cut = spans.where("to_ms > from_ms").withColumn("week_ms", F.explode(weeks))
    part = F.least("to_ms", F.col("week_ms") + WEEK_MS) - F.greatest("from_ms", "week_ms")
    return cut.withColumn("part_ms", part).where("part_ms > 0")


def _week(time_ms: Column) -> Column:
    """When the week of a time began."""
    return F.floor((time_ms - MONDAY_MS) / WEEK_MS).cast("long") * WEEK_MS + MONDAY_MS


def _count(rows: DataFrame, time: str, **conditions: str) -> DataFrame:
    """How many rows of each week and set meet each condition."""
    counts = [F.count_if(F.expr(condition)).alias(name) for name, condition in conditions.items()]
    return rows.withColumn("week_ms", _week(F.col(time))).groupBy("week_ms", "broker_set").agg(*counts)
