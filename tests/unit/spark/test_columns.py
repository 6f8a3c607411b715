"""Spark's types for events, derived from their schemas."""

import pytest
from pyspark.sql.types import ArrayType, BinaryType, BooleanType, IntegerType, LongType, MapType, StringType, StructType

from quorate.errors import UsageError
from quorate.events.schema import Array, Optional, Primitive
from quorate_spark.source import columns
from quorate_spark.source.columns import COLUMNS, STAMP, column_of, newest_schema, record_type, schemas


def test_every_event_has_a_type_with_all_its_fields() -> None:
    """Each event's Spark type has the fields of its newest schema, in order."""
    for schema in schemas().values():
        newest = newest_schema(schema.name)
        assert record_type(schema.name).names == [field.name for field in newest.fields]


def test_avro_types_become_spark_types() -> None:
    """int, long, boolean, string, optional, array, map and nested records each have their counterpart."""
    elected = record_type("MasterElected")
    assert elected["master"].dataType == LongType()
    assert elected["master_epoch"].dataType == IntegerType()
    assert elected["unclean"].dataType == BooleanType()
    assert elected["old_master"].dataType == LongType()
    assert elected["old_master"].nullable
    assert elected["sync_state_set"].dataType == ArrayType(LongType())
    candidate = elected["candidates"].dataType
    assert isinstance(candidate, ArrayType)
    assert isinstance(candidate.elementType, StructType)
    assert candidate.elementType["verdict"].dataType == StringType()
    assert record_type("TopicCreated")["attributes"].dataType == MapType(StringType(), StringType())


def test_bytes_become_binary() -> None:
    """Alone, optional and in arrays; ``from_json`` reads the base64 that the event's JSON has (tests/spark)."""
    data = Primitive("bytes")
    assert [columns._type(kind) for kind in (data, Optional(data), Array(data))] == [
        BinaryType(),
        BinaryType(),
        ArrayType(BinaryType()),
    ]


def test_a_field_named_as_a_column_of_the_stamp_keeps_apart() -> None:
    """No event's columns hide the stamp's."""
    assert column_of("cause") == "event_cause"
    for schema in schemas().values():
        names = [column_of(name) for name in record_type(schema.name).names]
        assert not set(names) & set(STAMP)
        assert len(names) == len(set(names))


def test_the_columns_are_the_agreed_ones() -> None:
    """What others build on: names and types in this order."""
    assert COLUMNS.simpleString() == (
        "struct<offset:bigint,term:int,time:timestamp,time_ms:bigint,type:string,key:string,principal:string,"
        "cause:string,request_id:string,schema_id:int,event:string>"
    )


def test_an_event_nobody_knows_is_refused() -> None:
    """The message names what there is."""
    with pytest.raises(UsageError, match=r"no event 'MasterElect'.*MasterElected"):
        record_type("MasterElect")
