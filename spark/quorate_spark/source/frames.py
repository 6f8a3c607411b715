"""DataFrames of the log by either implementation: the one place a pipeline asks."""

from typing import Literal, get_args

from pyspark.sql import DataFrame, SparkSession

from quorate.errors import UsageError
from quorate_spark.source import connector
from quorate_spark.source.options import SourceOptions
from quorate_spark.source.reader import QuorateSource

Source = Literal["quorate", "kafka"]


def register(spark: SparkSession) -> None:
    """Make ``format("quorate")`` known to this session."""
    spark.dataSource.register(QuorateSource)


def events(
    spark: SparkSession, options: SourceOptions, source: Source = "quorate", streaming: bool = True
) -> DataFrame:
    """The log as ``COLUMNS``: a stream, or with ``streaming=False`` what is there now.

    ``source``: ``quorate`` reads in Python, ``kafka`` with Spark's own connector (its jars: docs/spark.md).
    Raises UsageError for options that cannot be.
    """
    if source not in get_args(Source):
        raise UsageError(f"source is quorate or kafka, not {source!r}")
    if streaming and (options.ending_offset or options.ending_time):
        raise UsageError("a stream has no end: endingOffset and endingTime are for a batch")
    if source == "kafka":
        return connector.frame(spark, options, streaming)
    register(spark)
    reader = spark.readStream if streaming else spark.read
    return reader.format("quorate").options(**options.texts()).load()
