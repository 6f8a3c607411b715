"""The event log as a DataFrame: ``format("quorate")``, and the same columns by Spark's own Kafka connector."""

from quorate_spark.source.columns import COLUMNS, STAMP, typed
from quorate_spark.source.frames import events, register
from quorate_spark.source.options import SourceOptions

__all__ = ["COLUMNS", "STAMP", "SourceOptions", "events", "register", "typed"]
