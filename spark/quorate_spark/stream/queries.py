"""The streaming queries: the serving tables in one, the archive in the other; each reads the topic once.

Rules: a batch goes to its sink under (query id, batch id). The id is Spark's, and lives as long as the checkpoint: a
new checkpoint is another query, whose batch numbers begin again. A batch is collected in the driver, and is as large as
``max_events_per_trigger`` allows.
"""

from collections.abc import Callable
from threading import Event
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quorate.errors import QuorateError
from quorate_spark.pipelines.archive import bronze
from quorate_spark.pipelines.catalogue import folds
from quorate_spark.pipelines.keyed import keyed
from quorate_spark.serving import Progress
from quorate_spark.sinks.delta import Archive
from quorate_spark.sinks.store import ARCHIVE, SERVING, ServingStore
from quorate_spark.source import events
from quorate_spark.stream.settings import StreamSettings

NAMED_WITHIN_S: Final = 60.0
"""How long a first batch waits to be told the id of its query."""


class SinkFailedError(QuorateError):
    """A batch could not be delivered."""


class Feed:
    """Delivers a query's batches to its sink, and keeps the error when one fails."""

    def __init__(self, deliver: Callable[[str, int, DataFrame], None]) -> None:
        self._deliver = deliver
        self._query_id = ""
        self._named = Event()
        self.failure: BaseException | None = None

    def named(self, query_id: str) -> None:
        """Spark has started the query and says its id."""
        self._query_id = query_id
        self._named.set()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """A batch; called by Spark. Raises SinkFailedError: why is in ``failure``, for Spark chokes on long texts."""
        try:
            if not self._named.wait(NAMED_WITHIN_S):
                raise QuorateError("Spark gave a batch of a query it has not started")
            self._deliver(self._query_id, batch_id, batch)
        except BaseException as error:  # noqa: BLE001  Whatever it was, it is kept and told.
            self.failure = error
            raise SinkFailedError(f"batch {batch_id}: {type(error).__name__}") from None


class Query:
    """One query: how it is started, and what there is of it now."""

    def __init__(self, name: str, start: Callable[[Feed], StreamingQuery], feed: Callable[[], Feed]) -> None:
        self.name = name
        self._start = start
        self._feed = feed
        self.feed: Feed | None = None
        self.running: StreamingQuery | None = None
        self.id = ""
        """Spark's; empty before the first start."""

    def start(self) -> None:
        """Begin, or go on where the checkpoint says. Raises what Spark raises."""
        self.feed = self._feed()
        self.running = self._start(self.feed)
        self.id = str(self.running.id)
        self.feed.named(self.id)


def queries(
    spark: SparkSession, settings: StreamSettings, store: ServingStore, clock_ms: Callable[[], int]
) -> list[Query]:
    """The serving query, and that of the archive if one is kept; none is started yet."""

    def served(query_id: str, batch_id: int, batch: DataFrame) -> None:
        store.apply(query_id, batch_id, [(row.table, row.event_offset, row.row) for row in batch.collect()])

    def start_serving(feed: Feed) -> StreamingQuery:
        chosen = folds(settings.flapping_elections, settings.flapping_window_ms)
        rows = keyed(events(spark, settings.source, settings.by), chosen)
        return _writer(rows, SERVING, settings.trigger_ms, settings, feed)

    all_queries = [Query(SERVING, start_serving, lambda: Feed(served))]
    if settings.archive:
        archive = Archive(settings.archive, settings.compact_every)

        def archived(query_id: str, batch_id: int, batch: DataFrame) -> None:
            taken = batch.toArrow()
            archive.apply(query_id, batch_id, taken)
            if taken.num_rows:  # Also of one that was appended before: it may have ended before it was noted.
                store.note(_progress(query_id, batch_id, archive.position(), taken, clock_ms()))

        def start_archive(feed: Feed) -> StreamingQuery:
            rows = bronze(events(spark, settings.source, settings.by))
            return _writer(rows, ARCHIVE, settings.archive_trigger_ms, settings, feed)

        all_queries.append(Query(ARCHIVE, start_archive, lambda: Feed(archived)))
    return all_queries


def _writer(rows: DataFrame, name: str, trigger_ms: int, settings: StreamSettings, feed: Feed) -> StreamingQuery:
    writer = rows.writeStream.queryName(name).outputMode("update" if name == SERVING else "append")
    writer = writer.option("checkpointLocation", f"{settings.checkpoint.rstrip('/')}/{name}").foreachBatch(feed)
    if settings.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{trigger_ms} milliseconds").start()


def _progress(query_id: str, batch_id: int, position: int, taken: pa.Table, now_ms: int) -> Progress:
    return Progress(
        name=ARCHIVE,
        query_id=query_id,
        batch_id=batch_id,
        position=position,
        last_event_ms=pc.max(taken["time_ms"]).as_py(),
        applied_ms=now_ms,
        seen_ms=now_ms,
        state="running",
        message="",
    )
