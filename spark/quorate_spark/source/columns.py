"""The columns every reader of the log sees, and the Spark types of each event's fields, derived from its Avro schema.

Rules: both implementations of the source have exactly ``COLUMNS``; the event itself is one column of JSON text with the
field names of its ``.avsc`` and every field present, so that a new event type changes nobody's columns (the order of a
map's entries, and how a control character is escaped, are not promised). ``typed`` turns it into columns for one event
type. A type this build does not know is an error, never an empty row.

Avro to Spark: int → int, long → bigint, boolean, string, bytes → binary (base64 in the JSON); optional → nullable;
array, map and record likewise.
"""

import json
from functools import cache
from typing import assert_never

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quorate import events
from quorate.errors import UsageError
from quorate.events.schema import Array, FieldType, Map, Optional, Primitive, Record, parse

COLUMNS = StructType(
    [
        StructField("offset", LongType(), nullable=False),
        StructField("term", IntegerType(), nullable=False),
        StructField("time", TimestampType(), nullable=False),
        StructField("time_ms", LongType(), nullable=False),
        StructField("type", StringType(), nullable=False),
        StructField("key", StringType(), nullable=False),
        StructField("principal", StringType(), nullable=False),
        StructField("cause", StringType(), nullable=False),
        StructField("request_id", StringType(), nullable=False),
        StructField("schema_id", IntegerType(), nullable=False),
        StructField("event", StringType(), nullable=False),
    ]
)
"""Event offset (from 0, gapless), Raft term, time decided (UTC; and the same as epoch milliseconds), event type, entity
key ``kind/tenant/name``, who asked, what led to it, the caller's request id (these three may be empty), id of the
schema it was written with, and the event as JSON."""
STAMP = tuple(name for name in COLUMNS.names if name != "event")
"""The columns beside the event."""

_SCALARS: dict[str, DataType] = {
    "string": StringType(),
    "bytes": BinaryType(),
    "int": IntegerType(),
    "long": LongType(),
    "boolean": BooleanType(),
}


def typed(frame: DataFrame, event: str) -> DataFrame:
    """The rows of one event type: the stamp's columns and one for each field of the event, in the schema's order.

    A field named as a column of the stamp is called ``event_<field>``. Raises UsageError when there is no such event.
    """
    kind = record_type(event)
    rows = frame.where(F.col("type") == event)
    parsed = rows.select(*STAMP, F.from_json("event", kind, {"mode": "FAILFAST"}).alias("event"))
    return parsed.select(*STAMP, *(F.col(f"event.{name}").alias(column_of(name)) for name in kind.names))


def column_of(field: str) -> str:
    """The name that ``typed`` gives a field of an event."""
    return f"event_{field}" if field in STAMP else field


@cache
def record_type(event: str) -> StructType:
    """The Spark type of an event's fields, by its newest schema. Raises UsageError when there is no such event."""
    return _record(newest_schema(event))


def newest_schema(event: str) -> Record:
    """The schema events of this type are written with now. Raises UsageError when there is no such event."""
    names = sorted({schema.name for schema in schemas().values()})
    if event not in names:
        raise UsageError(f"there is no event {event!r}; there are {', '.join(names)}")
    return schemas()[events.schema_id(getattr(events, event))]


@cache
def schemas() -> dict[int, Record]:
    """Every schema this build knows, by id; versions that are no longer the newest carry no documentation."""
    return {number: parse(json.loads(text), documented=False) for number, text in events.SCHEMAS.items()}


def _record(record: Record) -> StructType:
    return StructType([StructField(field.name, _type(field.type), nullable=True) for field in record.fields])


def _type(kind: FieldType) -> DataType:
    match kind:
        case Primitive(name):
            return _SCALARS[name]
        case Optional(item):
            return _type(item)
        case Array(items):
            return ArrayType(_type(items))
        case Map():
            return MapType(StringType(), StringType())
        case Record():
            return _record(kind)
        case _:
            assert_never(kind)
