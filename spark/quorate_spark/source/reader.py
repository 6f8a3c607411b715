"""``format("quorate")``: the log as a Python data source, streaming and batch, without a jar.

Rules: the offset in a checkpoint is ``{"log": identity, "next": position}``; another log than the one the checkpoint
names is refused, so is an end before what was read; a range that was trimmed fails its task. A round (asking the log
for its end) happens at most once in ``poll_interval_ms`` while nothing happens, whatever the trigger, and not at all
while there are known events to read; a long poll hears the first new event at once. Readers hold no connection until
they need one: Spark pickles them to its workers.

Theory: Spark's driver keeps one reader in one Python process for a query and asks it, batch by batch, for the end of
the next; each range becomes one task, or several of ``events_per_task``, and what a worker reads for it is determined,
so that a batch repeated after a crash is the same rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from quorate.errors import UsageError
from quorate.events import Event
from quorate_spark.source.columns import COLUMNS
from quorate_spark.source.log import EventLog, GrowthPoll, LogRecord, LostRangeError, WrongLogError, boundary, pooled
from quorate_spark.source.options import SourceOptions
from quorate_spark.source.pace import Pace

ROWS_AT_ONCE = 8_192
"""Rows of one Arrow batch."""

_JSON = msgspec.json.Encoder()


class Position(msgspec.Struct, frozen=True):
    """Where a query is, as its checkpoint keeps it."""

    log: str
    """``EventLog.identity``."""
    next: int
    """The position to read next."""


@dataclass(frozen=True)
class Range(InputPartition):
    """Positions from ``start`` to before ``end``."""

    start: int
    end: int


class QuorateSource(DataSource):
    """``spark.readStream.format("quorate")`` and ``spark.read.format("quorate")``; options: ``SourceOptions``."""

    @classmethod
    def name(cls) -> str:
        """The word after ``format``."""
        return "quorate"

    def schema(self) -> StructType:
        """The agreed columns."""
        return COLUMNS

    def reader(self, schema: StructType) -> "BatchReader":
        """For ``spark.read``. Raises UsageError for a wrong option."""
        return BatchReader(SourceOptions.parse(self.options), schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 - Spark's name
        """For ``spark.readStream``. Raises UsageError for a wrong option."""
        options = SourceOptions.parse(self.options)
        if options.ending_offset or options.ending_time:
            raise UsageError("a stream has no end: endingOffset and endingTime are for spark.read")
        return StreamReader(options, schema)


class RangeReader:
    """Shared by both readers, in a worker: reads a range into Arrow batches."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range. Raises LostRangeError, LogError; DecodeError for an event this build cannot know."""
        if not isinstance(partition, Range):
            raise UsageError(f"not a range of ours: {partition!r}")
        arrow = to_arrow_schema(self._schema, timezone="UTC")
        log = self._log()
        records = log.records(partition.start, partition.end)
        while rows := [row(record, log.event(record)) for record in islice(records, ROWS_AT_ONCE)]:
            columns = zip(*rows, strict=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)], schema=arrow
            )

    def _log(self) -> EventLog:
        return pooled(msgspec.json.encode(self._options).decode())

    def _ranges(self, start: int, end: int) -> Sequence[Range]:
        step = self._options.events_per_task
        return [Range(at, min(at + step, end)) for at in range(start, end, step)]


class BatchReader(RangeReader, DataSourceReader):
    """Events between two offsets or times, as they are when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges to read. Raises LostRangeError, WrongLogError, LogError."""
        log = self._log()
        log.check_cluster()
        start, end = boundary(log, self._options, "starting"), boundary(log, self._options, "ending")
        return self._ranges(start, end) or [Range(start, start)]  # Of no ranges Spark would make one of its own.


class StreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches from where the checkpoint says."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._rounds = Pace(options.poll_interval_ms)
        self._identities = Pace(options.identity_interval_ms)
        self._identity = ""
        self._end = -1
        """The newest end that was heard of; -1 = none yet."""
        self._target: int | None = None
        """With the trigger ``availableNow``: where to stop."""
        self._bell: GrowthPoll | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins. Raises LogError when the log cannot be reached."""
        log = self._log()
        return _plain(Position(log.check_cluster(), boundary(log, self._options, "starting")))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most ``max_events_per_trigger``."""
        return ReadMaxRows(self._options.max_events_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what there is now and no more."""
        self._target = self._ask_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; ``start`` itself when there is nothing new.

        Raises WrongLogError, LostRangeError when the log ends before ``start``, LogError.
        """
        here = self._position(start)
        if self._target is not None:
            end = max(self._target, here.next)
        else:
            end = self._end if self._end > here.next else self._ask_end(here)
        if isinstance(limit, ReadMaxRows):
            end = min(end, here.next + limit.max_rows)
        elif not isinstance(limit, ReadAllAvailable):
            raise UsageError(f"a limit this source does not know: {limit}")
        return _plain(Position(here.log, end))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest end heard of, for the query's progress; costs no round."""
        return _plain(Position(self._identity, self._end)) if self._end >= 0 else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a batch. Raises WrongLogError."""
        return self._ranges(self._position(start).next, self._position(end).next)

    def stop(self) -> None:
        """The query ended."""
        if self._bell is not None:
            self._bell.close()
        pooled.cache_clear()

    def _position(self, offset: dict[str, Any]) -> Position:
        try:
            position = msgspec.convert(offset, Position)
        except msgspec.ValidationError as error:
            raise UsageError(f"the checkpoint holds no offset of this source: {offset} ({error})") from error
        if not self._identity or self._identities.due():
            self._identity = self._log().check_cluster()
        if position.log != self._identity:
            raise WrongLogError(
                f"the checkpoint is of log {position.log}, and {self._options.nodes} serves {self._identity};"
                " another log, or the mirror instead of the nodes, needs a new checkpoint"
            )
        return position

    def _new_event(self, position: int) -> bool:
        self._bell = self._bell or GrowthPoll(self._options)
        return self._bell.rings(position, self._options.poll_interval_ms)

    def _ask_end(self, here: Position | None = None) -> int:
        if here is None or self._end < 0 or not self._new_event(here.next):
            self._rounds.wait()
        end = self._log().end()
        if here is not None and here.next > end:
            raise LostRangeError(f"the log ends at {end}, before position {here.next} that was read already")
        self._end = end
        return end


def _plain(position: Position) -> dict[str, Any]:
    return {"log": position.log, "next": position.next}


def row(record: LogRecord, event: Event) -> tuple[object, ...]:
    """A record, and what it says, as ``COLUMNS`` has it. Raises WrongLogError for a type that is not the header's."""
    if type(event).__name__ != record.type:
        raise WrongLogError(f"event {record.offset} is called {record.type} and is {type(event).__name__}")
    return (
        record.offset,
        record.term,
        record.time_ms * 1000,  # Microseconds, as Spark's timestamps are.
        record.time_ms,
        record.type,
        record.key,
        record.principal,
        record.cause,
        record.request_id,
        int.from_bytes(record.value[1:5]),
        _JSON.encode(msgspec.structs.asdict(event)).decode(),
    )
