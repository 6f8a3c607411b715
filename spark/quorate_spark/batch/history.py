"""The archive as a DataFrame, cut at an offset or a time, and the folds run over it.

Rules: only files that the table names are read, never the folder. A cut is an offset: N means the first N events. A
time is turned into an offset first, because times of different controllers meet at a leader change and only offsets are
in order. The folds are those of the streaming queries, so batch and stream cannot differ.
"""

from dataclasses import dataclass
from typing import get_type_hints

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from quorate.errors import StorageError, UsageError
from quorate_spark.pipelines.fold import AnyFold
from quorate_spark.pipelines.keyed import keyed
from quorate_spark.serving import BY_ROW, Json, Row
from quorate_spark.sinks.delta import position
from quorate_spark.source import COLUMNS


@dataclass(frozen=True)
class History:
    """The first ``position`` events of an archive, with the source's columns."""

    events: DataFrame
    position: int

    def rows(self, *folds: AnyFold) -> DataFrame:
        """The rows that the folds put, as ``keyed.OUT``."""
        return keyed(self.events, folds)


def history(spark: SparkSession, archive: str, offset: int | None = None, time_ms: int | None = None) -> History:
    """The archive up to an offset (None: all it holds), or up to and with a time.

    Raises UsageError for a cut that cannot be or an archive that is not there, StorageError when it cannot be read.
    """
    if offset is not None and time_ms is not None:
        raise UsageError("a cut is an offset or a time, not both")
    try:
        if not DeltaTable.is_deltatable(archive):
            raise UsageError(f"{archive} is no archive: quorate stream --archive makes one")
        table = DeltaTable(archive)
        files, held = table.file_uris(), position(table)
    except (DeltaError, OSError) as error:
        raise StorageError(f"{archive}: {error}") from error
    if offset is not None and not 0 <= offset <= held:
        raise UsageError(f"the archive holds {held} events: there is no offset {offset}")
    everything = spark.read.schema(COLUMNS).parquet(*files)
    cut = offset if offset is not None else held
    if time_ms is not None:
        last = everything.where(F.col("time_ms") <= time_ms).agg(F.max("offset")).first()
        cut = 0 if last is None or last[0] is None else last[0] + 1
    return History(everything.where(F.col("offset") < cut), cut)


def table(rows: DataFrame, kind: type[Row]) -> DataFrame:
    """The rows of one table of serving.py, with its columns; JSON columns as text."""
    columns = ", ".join(f"{name} {_type(hint)}" for name, hint in get_type_hints(kind, include_extras=True).items())
    mine = rows.where(F.col("table") == BY_ROW[kind].name)
    return mine.select(F.from_json("row", columns, {"mode": "FAILFAST"}).alias("row")).select("row.*")


def _type(hint: object) -> str:
    types = {int: "LONG", bool: "BOOLEAN", str: "STRING", Json: "STRING"}
    return next(types[kind] for kind in types if hint in (kind, kind | None))
