"""Which schema reads what another wrote: against Avro's own checker, and against a library that reads."""

import io
import json
from contextlib import suppress
from typing import Any

import avro.compatibility
import avro.schema
import fastavro
import pytest
from fastavro.utils import generate_many
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from quorate.metadata.avro_schemas import canonical, types_of
from quorate.metadata.compatibility import (
    COMPARISONS_MAX,
    DEPTH_MAX,
    TOLD_MAX,
    Comparisons,
    TooManyComparisonsError,
    breaks,
    unreadable,
)
from quorate.model.subjects import LEVELS, is_level
from tests.unit.metadata.avro_kit import SCHEMAS, evolved


def read(reader: Any, writer: Any) -> list[str]:
    """What our checker says."""
    types = [types_of(canonical(json.dumps(one))) for one in (reader, writer)]
    return unreadable(types[0], types[1], Comparisons())


def record(*fields: Any, name: str = "R", **more: Any) -> Any:
    """A record."""
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any = "int", **more: Any) -> Any:
    """A field."""
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> Any:
    """An enum."""
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> Any:
    """A fixed."""
    return {"type": "fixed", "name": name, "size": size}


TREE = record(field("v"), field("next", ["null", "R"]))
CASES: list[tuple[Any, Any, str]] = [
    ("long", "int", ""),
    ("float", "long", ""),
    ("double", "float", ""),
    ("string", "bytes", ""),
    ("bytes", "string", ""),
    ("int", "long", "the reader has int, the writer long"),
    ("float", "double", "the reader has float, the writer double"),
    ({"type": "int", "logicalType": "date"}, "int", ""),
    (["null", "long"], "int", ""),
    (["null", "string"], "int", "no branch of the reader's union reads int"),
    ("long", ["int", "long"], ""),
    ("long", ["null", "long"], "the reader has long, the writer null"),
    (["null", "long"], ["int", "null"], ""),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, ""),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, "/map: the reader has int, the writer long"),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "the reader has map, the writer array"),
    (record(field("a")), record(field("a"), field("b")), ""),
    (record(field("a"), field("b", default=1)), record(field("a")), ""),
    (record(field("a"), field("b")), record(field("a")), "/b: the writer has no such field, and the reader no default"),
    (record(field("b", aliases=["a"])), record(field("a")), ""),
    (record(name="x.R"), record(name="y.R"), ""),
    (record(name="S"), record(name="R"), "the reader has S, the writer R"),
    (record(name="S", aliases=["R"]), record(name="R"), ""),
    (record(name="y.S", aliases=["x.R"]), record(name="x.R"), ""),
    (enum("a", "b"), enum("a"), ""),
    (enum("a"), enum("a", "b"), "E lacks b, and has no default"),
    (enum("a", default="a"), enum("a", "b"), ""),
    (fixed(2), fixed(2), ""),
    (fixed(2), fixed(3), "F has 2 bytes at the reader, 3 at the writer"),
    (fixed(2), fixed(2, "G"), "the reader has F, the writer G"),
    (TREE, TREE, ""),
    (TREE, record(field("v", "long"), field("next", ["null", "R"])), "/v: the reader has int, the writer long"),
    (record(field("in", record(field("x", "int"), name="I"))), record(field("in", record(name="I"))), "/in/x: the wri"),
]


@pytest.mark.parametrize(("reader", "writer", "why"), CASES)
def test_schema_resolution(reader: Any, writer: Any, why: str) -> None:
    """What the specification says of each kind of type."""
    told = read(reader, writer)
    assert bool(told) == bool(why)
    assert why in "; ".join(told)


@given(SCHEMAS, SCHEMAS)
@settings(max_examples=600, deadline=None)
@example(TREE, record(field("v", "long"), field("next", ["null", "R"])))
def test_avros_own_checker_says_the_same(reader: Any, writer: Any) -> None:
    """Of whatever two schemas; both ways round."""
    for one, other in ((reader, writer), (writer, reader), (reader, reader)):
        parsed = [avro.schema.parse(json.dumps(schema)) for schema in (one, other)]
        checker: Any = avro.compatibility.ReaderWriterCompatibilityChecker
        found = checker().get_compatibility(*parsed).compatibility
        assert (not read(one, other)) == (found is avro.compatibility.SchemaCompatibilityType.compatible)


@given(SCHEMAS.flatmap(lambda writer: st.tuples(evolved(writer), st.just(writer))))
@settings(max_examples=300, deadline=None)
def test_what_is_said_to_be_readable_is_read(pair: tuple[Any, Any]) -> None:
    """By fastavro, whatever values the writer's schema has; and of schemas that grew of each other many are."""
    reader, writer = pair
    if told := read(reader, writer):
        event("not readable")
        assert told
        return
    event("readable")
    schemas = [fastavro.parse_schema(schema, {}) for schema in (reader, writer)]
    try:
        values = list(generate_many(schemas[1], 5))
    except RecursionError:  # It found no end of a type that is in itself.
        return
    for value in values:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schemas[1], value)
        body.seek(0)
        with suppress(UnicodeDecodeError):  # Bytes may be read as a string; whether these are one only they can say.
            fastavro.schemaless_reader(body, schemas[1], schemas[0])


A, AB, AX, X = record(field("a")), record(field("a"), field("b")), record(field("a"), field("x", default=1)), record()


@pytest.mark.parametrize(
    ("level", "new", "before", "broken_by"),
    [
        ("NONE", "int", [A], []),
        ("BACKWARD", A, [AB], []),
        ("BACKWARD", AB, [A], ["cannot read version 1"]),
        ("BACKWARD", AB, [A, AB], []),
        ("BACKWARD_TRANSITIVE", AB, [A, AB], ["cannot read version 1"]),
        ("FORWARD", AB, [A], []),
        ("FORWARD", A, [AB], ["cannot be read by version 1"]),
        ("FORWARD", A, [AB, A], []),
        ("FORWARD_TRANSITIVE", A, [AB, A], ["cannot be read by version 1"]),
        ("FULL", AX, [A], []),
        ("FULL", AB, [A], ["cannot read version 1"]),
        ("FULL", A, [AB], ["cannot be read by version 1"]),
        ("FULL_TRANSITIVE", X, [A, X], ["cannot be read by version 1"]),
        ("FULL_TRANSITIVE", AB, [], []),
    ],
)
def test_levels(level: str, new: Any, before: list[Any], broken_by: list[str]) -> None:
    """Backward: the new one reads the old; forward: the old reads the new; transitive: of all before it."""
    types = [types_of(canonical(json.dumps(one))) for one in (new, *before)]
    told = breaks(level, types[0], list(enumerate(types[1:], start=1)))
    assert [one.partition(":")[0] for one in told] == broken_by
    assert is_level(level)
    assert not is_level(level.lower())
    assert len(LEVELS) == 7


def test_what_rested_on_an_unreadable_pair_is_judged_again() -> None:
    """While a pair is judged it counts as readable, for a type may be in itself; what was found so falls with it."""

    def within(x: str) -> Any:
        inner = record(field("up", ["null", "R"]), name="I")
        return record(field("in", inner), field("x", x))

    other = record(name="Other", aliases=["R"])
    reader = record(field("r", [within("int"), other]), field("i", "I"), name="Top")
    writer = record(field("r", within("long")), field("i", "I"), name="Top")
    assert read(reader, writer) == ["/i/up: no branch of the reader's union reads R"]


def test_the_work_is_bounded() -> None:
    """Two large unions of types with nothing in common are given up after a number of comparisons, soon."""
    unions = [[fixed(1, f"{name}{number}") for number in range(1000)] for name in "ab"]
    types = [types_of(canonical(json.dumps(one))) for one in unions]
    with pytest.raises(TooManyComparisonsError):
        unreadable(types[0], types[1], Comparisons())
    assert len(unions[0]) * TOLD_MAX >= COMPARISONS_MAX


def chained(ends: Any, levels: int, width: int) -> Any:
    """Records of records: each has so many fields of the one before."""
    fields = [field("f0", record(field("x", ends), name="A0"))]
    for level in range(1, levels):
        inner = [field(f"g{number}", f"A{level - 1}") for number in range(width)]
        fields.append(field(f"f{level}", record(*inner, name=f"A{level}")))
    return record(*fields, name="Top")


def test_of_a_pair_few_sentences_are_kept() -> None:
    """Where a pair is met again nothing new is said: ten times as much at each level would fill the memory."""
    assert read(chained("string", 9, 10), chained("int", 9, 10)) == ["/f0/x: the reader has string, the writer int"]
    unions = [[record(field("x", kind), name=f"R{number}") for number in range(30)] for kind in ("int", "string")]
    assert len(read(unions[0], unions[1])) == TOLD_MAX
    wide = [record(*(field(f"f{number}", kind) for number in range(30))) for kind in ("int", "string")]
    assert len(read(wide[0], wide[1])) == TOLD_MAX
    old = [(number, types_of(canonical(json.dumps(unions[1])))) for number in range(9)]
    assert len(breaks("FULL_TRANSITIVE", types_of(canonical(json.dumps(unions[0]))), old)) == TOLD_MAX


def test_long_names_are_told_by_their_ends() -> None:
    """A schema may consist of one name, and so may a sentence about each of its types."""
    name = "n" * 1000
    reader, writer = (record(field(name, record(field("x", kind), name="I"))) for kind in ("int", "string"))
    (told,) = read(reader, writer)
    assert told.startswith("…nnn")
    assert told.endswith("nnn/x: the reader has int, the writer string")
    assert len(told) < 300


def test_types_within_types_are_followed_so_deep() -> None:
    """By name one may lead to the next a thousand times; that is refused, and never a matter of Python's stack."""

    def chain(levels: int, last: str) -> Any:
        fields = [field("f0", ["null", record(field("x", "int"), name="A0")], default=None)]
        for level in range(1, levels):
            inner = record(field("up", ["null", f"A{level - 1}"]), name=f"A{level}")
            fields.append(field(f"f{level}", ["null", inner], default=None))
        return record(*reversed([field("z", last), *reversed(fields)]), name="Top")

    def turned(levels: int, fresh: str) -> list[str]:
        """What a reader says that meets the last of them first."""
        writer = record(*chain(levels, f"A{levels - 1}")["fields"], name="Top")
        fields = [{**one, "name": fresh + one["name"]} if one["name"] != "z" else one for one in writer["fields"]]
        return read(record(*fields, name="Top"), writer)

    assert turned(DEPTH_MAX // 4, "h") == []
    with pytest.raises(TooManyComparisonsError):
        turned(400, "h")


@given(st.sampled_from(LEVELS), SCHEMAS)
@settings(max_examples=100, deadline=None)
def test_a_schema_may_follow_itself(level: str, schema: Any) -> None:
    """At every level."""
    same = types_of(canonical(json.dumps(schema)))
    assert breaks(level, same, [(1, same)]) == []
