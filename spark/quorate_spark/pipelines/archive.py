"""The bronze archive: every event, every column, as the source gave it; the sink adds the UTC date, its partition."""

from pyspark.sql import DataFrame

from quorate_spark.source import COLUMNS


def bronze(events: DataFrame) -> DataFrame:
    """All columns of the source in their order, and nothing else."""
    return events.select(*COLUMNS.names)
