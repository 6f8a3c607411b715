"""The same columns by Spark's own Kafka connector and ``from_avro``: all in the JVM, for clusters and for speed.

Rules: it needs the jars of ``spark/jars/pom.xml`` on the session; start and end are resolved by the same code as those
of the Python source. Each event is decoded by the schema it was written with and read as its newest one; schemas newer
than this build are asked for when the query starts. A record that is no event, a schema id that was unknown then or (on
the nodes) a hole fails the query. Its checkpoint holds Kafka offsets only, so
name the cluster (option ``cluster``) where another log must be refused.
"""

import json
from collections.abc import Iterator
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.avro.functions import from_avro

from quorate import events
from quorate.asking import UnreachedError
from quorate.errors import UsageError
from quorate.events import DecodeError
from quorate.resolving import KEPT_MAX, UnregisteredSchemaError, resolver
from quorate_spark.source.columns import COLUMNS, newest_schema, schemas
from quorate_spark.source.log import PARTITION, EventLog, boundary
from quorate_spark.source.options import CLIENT, SourceOptions

FRAME_BYTES = 5
"""A zero and the schema id come before the Avro body."""


def frame(spark: SparkSession, options: SourceOptions, streaming: bool) -> DataFrame:
    """The log as ``COLUMNS``. Raises UsageError without the jars, LogError when the log cannot be reached."""
    reader = spark.readStream if streaming else spark.read
    try:
        raw = reader.format("kafka").options(**_connector_options(options, streaming)).load()
    except AnalysisException as error:
        if "kafka" not in str(error).lower():
            raise
        raise UsageError(
            "source=kafka needs the jars of Spark's Kafka connector; docs/spark.md says how to get them"
        ) from error
    return _columns(raw, options)


def _connector_options(options: SourceOptions, streaming: bool) -> dict[str, str]:
    log = EventLog(options)
    try:
        log.check_cluster()
        start = boundary(log, options, "starting")
        end = None if streaming else boundary(log, options, "ending")
    finally:
        log.close()
    client = {"client.rack": options.rack, "isolation.level": "read_committed", **options.client}
    chosen = {
        "kafka.bootstrap.servers": options.nodes,
        "assign": json.dumps({options.topic: [PARTITION]}),
        "startingOffsets": json.dumps({options.topic: {str(PARTITION): start}}),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        **{CLIENT + name: value for name, value in client.items() if value},
    }
    if end is None:
        return chosen | {"maxOffsetsPerTrigger": str(options.max_events_per_trigger)}
    return chosen | {"endingOffsets": json.dumps({options.topic: {str(PARTITION): max(start, end)}})}


def _columns(raw: DataFrame, options: SourceOptions) -> DataFrame:
    texts = F.map_from_entries(
        F.transform("headers", lambda header: F.struct(header["key"], F.decode(header["value"], "UTF-8")))
    )
    headed = raw.withColumn("header", texts)
    offset = _needed("offset").cast("long")
    if not options.mirror:
        missing = F.format_string("event %d is missing: event %d came instead", F.col("offset"), offset)
        offset = F.when(offset == F.col("offset"), offset).otherwise(F.raise_error(missing).cast("long"))
    time_ms = _needed("time_ms").cast("long")
    schema_id = F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("int")
    values: dict[str, Column] = {
        "offset": offset,
        "term": _needed("term").cast("int"),
        "time": F.timestamp_millis(time_ms),
        "time_ms": time_ms,
        "type": _needed("type"),
        "key": F.decode("key", "UTF-8"),
        "principal": _needed("principal"),
        "cause": _needed("cause"),
        "request_id": _needed("request_id"),
        "schema_id": schema_id,
        "event": _event(schema_id, options.registry),
    }
    return headed.select(*(values[name].alias(name) for name in COLUMNS.names))


def _needed(header: str) -> Column:
    text = F.col("header")[header]
    message = F.format_string(f"the record at position %d is no event of a log: no {header}", F.col("offset"))
    return F.coalesce(text, F.raise_error(message).cast("string"))


def _event(schema_id: Column, registry: str) -> Column:
    """JSON of the event, by the schema its frame names."""
    body = F.substring("value", FRAME_BYTES + 1, 2**31 - 1)
    frame_id = F.when(F.substring("value", 1, 1) == F.lit(b"\0"), schema_id)
    unknown = F.format_string("event %d has schema id %s, unknown to this build", F.col("offset"), schema_id)

    def branch(cases: Column | None, of: tuple[int, str, str]) -> Column:
        number, written, newest = of
        options = {"mode": "FAILFAST", "avroSchema": newest}
        decoded = F.to_json(from_avro(body, written, options), {"ignoreNullFields": "false"})
        is_it = frame_id == number
        return F.when(is_it, decoded) if cases is None else cases.when(is_it, decoded)

    known = ((number, events.SCHEMAS[number], _newest(number)) for number in sorted(events.SCHEMAS))
    cases: Column | None = reduce(branch, [*known, *_newer(registry)], None)
    if cases is None:
        raise UsageError("there are no schemas")
    return cases.otherwise(F.raise_error(unknown).cast("string"))


def _newest(number: int) -> str:
    name = schemas()[number].name
    return events.SCHEMAS[events.schema_id(getattr(events, newest_schema(name).name))]


def _newer(registry: str) -> Iterator[tuple[int, str, str]]:
    """Id, schema and this build's schema of the newer versions that a registry has now, of events this build knows."""
    first = max(events.SCHEMAS) + 1
    for number in range(first, first + KEPT_MAX):  # Ids are given without gaps.
        try:
            newer = resolver(registry).learn(number)
        except (UnregisteredSchemaError, UnreachedError):  # An event of one more fails the query, which says so.
            return
        except DecodeError:
            continue
        yield number, newer.text, newer.reader
