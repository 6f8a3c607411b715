"""Avro schemas of others: read as strictly as the specification, against two libraries that read them too."""

import json
from contextlib import suppress
from typing import Any

import avro.schema
import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate.metadata import avro_schemas
from quorate.metadata.avro_schemas import DEFAULTS_MAX, DEPTH_MAX, SCHEMA_BYTES_MAX, canonical, types_of
from tests.unit.metadata.avro_kit import SCHEMAS, VALID


@pytest.mark.parametrize("schema", VALID)
def test_what_is_a_schema_is_read_by_all(schema: Any) -> None:
    """Ours and both libraries; what is kept is the same schema to them."""
    text = canonical(json.dumps(schema))
    assert json.loads(text) == schema
    assert canonical(text) == text
    fastavro.parse_schema(json.loads(text), {})
    avro.schema.parse(text)


@given(SCHEMAS)
@settings(max_examples=200, deadline=None)
def test_made_up_schemas_are_read_by_all(schema: Any) -> None:
    """Whatever is put together of all kinds of types."""
    text = canonical(json.dumps(schema))
    fastavro.parse_schema(json.loads(text), {})
    avro.schema.parse(text)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("unheard", "no type that is defined before"),
        (7, "no type"),
        (None, "no type"),
        ({}, "no type"),
        ({"type": 7}, "no type"),
        ({"type": "array"}, "no type"),
        ({"type": "map", "items": "int"}, "no type"),
        ({"type": "record", "fields": []}, "no type"),
        ({"type": "record", "name": "R"}, "no fields"),
        ({"type": "record", "name": "R", "fields": {}}, "no fields"),
        ({"type": "record", "name": "7", "fields": []}, "no name"),
        ({"type": "record", "name": "R", "namespace": "a..b", "fields": []}, "no name"),
        ({"type": "record", "name": "R", "namespace": 7, "fields": []}, "no namespace"),
        ({"type": "record", "name": "int", "fields": []}, "defined already"),
        ({"type": "record", "name": "R", "fields": [7]}, "no field"),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "no field"),
        ({"type": "record", "name": "R", "fields": [{"name": "a-b", "type": "int"}]}, "no name of a field"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "order": "up"}]}, "no order"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}, "two fields of one name"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "R2"}]}, "defined before"),
        ({"type": "enum", "name": "E"}, "symbols are names"),
        ({"type": "enum", "name": "E", "symbols": ["a", "a"]}, "same symbol twice"),
        ({"type": "enum", "name": "E", "symbols": ["a b"]}, "symbols are names"),
        ({"type": "enum", "name": "E", "symbols": ["a"], "default": "b"}, "none of its symbols"),
        ({"type": "fixed", "name": "F"}, "no size"),
        ({"type": "fixed", "name": "F", "size": -1}, "no size"),
        ({"type": "fixed", "name": "F", "size": True}, "no size"),
        (["int", "int"], "same type twice"),
        (["int", ["null"]], "a union directly in a union"),
        ([{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}], "defined already"),
    ],
)
def test_what_is_none_is_told_with_the_place(schema: Any, why: str) -> None:
    """Why, and where."""
    with pytest.raises(UsageError, match=why):
        canonical(json.dumps(schema))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("null", [None], [0, ""]),
        ("boolean", [True], [0, "true"]),
        ("int", [0, -(2**31)], [2**31, 1.5, True, None]),
        ("long", [2**63 - 1], [2**63, "1"]),
        ("double", [1, 0.5], ["1", True]),
        ("string", ["é"], [1, None]),
        ({"type": "enum", "name": "E", "symbols": ["a"]}, ["a"], ["b", 1]),
        ({"type": "fixed", "name": "F", "size": 1}, ["x"], [1]),
        ({"type": "array", "items": "int"}, [[], [1]], [{}, ["a"]]),
        ({"type": "map", "values": "int"}, [{}, {"k": 1}], [[], {"k": "a"}]),
        (["null", "int"], [None, 3], ["x"]),
        ({"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}, [{"x": 1}], [{}, {"x": "1"}, 1]),
        ({"type": "record", "name": "I", "fields": [{"name": "x", "type": "int", "default": 1}]}, [{}], [7]),
    ],
)
def test_a_default_is_a_value_of_its_type(kind: Any, good: list[Any], bad: list[Any]) -> None:
    """It is what a reader is given, so it has to be one."""

    def text(default: object) -> str:
        return json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, "default": default}]})

    for default in good:
        canonical(text(default))
    for default in bad:
        with pytest.raises(UsageError, match="default"):
            canonical(text(default))


def test_a_default_is_held_against_each_type_once() -> None:
    """Records that hold each other are two ways to the same question at every level: fifty levels are few steps."""

    def defaulted(default: object) -> str:
        inner = {"type": "record", "name": "B", "fields": [{"name": "f", "type": ["A", "B"]}]}
        outer = {"type": "record", "name": "A", "fields": [{"name": "f", "type": ["A", inner]}]}
        return json.dumps({"type": "record", "name": "T", "fields": [{"name": "d", "type": outer, "default": default}]})

    default: object = "x"
    for _ in range(50):
        default = {"f": default}
    with pytest.raises(UsageError, match=r"its default .* is no A"):
        canonical(defaulted(default))


def test_defaults_are_checked_in_so_many_steps() -> None:
    """Many values, each held against many types, are given up by name; many values of one type are not."""
    fixed = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(100)]

    def of(items: object, values: list[Any]) -> str:
        kind = {"type": "array", "items": items}
        return json.dumps({"type": "record", "name": "T", "fields": [{"name": "d", "type": kind, "default": values}]})

    values = [number + 0.5 for number in range(DEFAULTS_MAX // 50)]
    canonical(of("double", values))
    too_many = of([*fixed, "double"], values)
    with pytest.raises(UsageError, match=f"more than {DEFAULTS_MAX} steps"):
        canonical(too_many)
    assert types_of(too_many).name == "T"  # One that is stored is compared all the same.


def test_spaces_and_the_order_of_attributes_make_no_other_schema() -> None:
    """A field's name comes first, a record's type; what is nobody's attribute is kept, and counts."""
    one = (
        '{"name": "R", "fields": [{"type": "int", "doc": "d", "name": "a"}], "type": "record", "zz": 1, "logical": {}}'
    )
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"d"}],"logical":{},"zz":1}'
    assert canonical(one) == text
    assert canonical(one.replace('"zz": 1', '"zz": 2')) != text


def test_names_are_found_in_their_namespace() -> None:
    """That of the type around them, else none; a full name says its own."""
    inner = {"type": "fixed", "name": "F", "size": 1}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "F"}, {"name": "c", "type": "x.y.F"}]
    schema = {"type": "record", "name": "x.y.R", "fields": [*fields, {"name": "d", "type": ["null", "R"]}]}
    read = types_of(canonical(json.dumps(schema)))
    assert read.name == "x.y.R"
    assert [field.type.label for field in read.fields] == ["x.y.F", "x.y.F", "x.y.F", "union"]
    assert read.fields[3].type.branches[1] is read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 50_000,
        '{"type":"array","items":' * (DEPTH_MAX + 1) + '"int"' + "}" * (DEPTH_MAX + 1),
        json.dumps("x" * SCHEMA_BYTES_MAX),
        json.dumps({"type": "int", "doc": "é" * (SCHEMA_BYTES_MAX // 3)}, ensure_ascii=False)
        + " " * (SCHEMA_BYTES_MAX),
        json.dumps({"type": "int", "doc": "é" * (SCHEMA_BYTES_MAX // 2)}, ensure_ascii=False),
        '{"type": "int", "big": 1e999}',
        '{"type": "int", "big": 1' + "0" * 10_000 + "}",
        '{"type": "int", "odd": "\\ud800"}',
        "\ud800",
    ],
)
def test_no_text_is_too_much(text: str) -> None:
    """What is no JSON, too deep, too long or no text at all is refused like anything else, and before it costs much."""
    with pytest.raises(UsageError):
        canonical(text)


@given(st.text(max_size=200) | st.recursive(st.none() | st.text(max_size=8), st.lists, max_leaves=20).map(json.dumps))
@settings(max_examples=200, deadline=None)
def test_nothing_else_is_raised(text: str) -> None:
    """Whatever comes."""
    with suppress(UsageError):
        canonical(text)


def test_a_name_in_a_type_of_its_own_a_size_and_aliases() -> None:
    """``{"type": "R"}`` is R; a fixed type has its size; aliases are texts or it is no schema."""
    inside = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", {"type": "R"}]}]}
    (field,) = types_of(json.dumps(inside)).fields
    assert [branch.name or branch.kind for branch in field.type.branches] == ["null", "R"]
    assert types_of('{"type": "fixed", "name": "F", "size": 4}').size == 4
    with pytest.raises(UsageError, match="aliases are texts"):
        types_of('{"type": "record", "name": "R", "aliases": 1, "fields": []}')


def test_types_are_kept_as_long_as_their_texts_are_short_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their bytes, not by their number alone: types of long texts take very much. What was asked about last stays;
    a text that is not to be kept is read all the same.
    """
    kept = avro_schemas._Kept()
    monkeypatch.setattr(avro_schemas, "_kept", kept)
    long = [json.dumps({"type": "fixed", "name": f"F{n}", "size": 4, "doc": "x" * 60_000}) for n in range(100)]
    first = types_of(long[0])
    for text in long:
        types_of(text)
        assert types_of(long[0]) is first
    assert 1_900_000 < kept.size <= 2 * 1024 * 1024
    assert kept.size == sum(map(len, kept._types))
    assert types_of(long[1], kept=False).name == "F1"
    assert long[1] not in kept._types
    for number in range(600):
        types_of(f'{{"type": "fixed", "name": "S{number}", "size": 4}}')
    assert len(kept) == 512
    assert long[0] not in kept._types
    with pytest.raises(UsageError):
        types_of('"nothing"')
    assert (len(kept), kept.size) == (512, sum(map(len, kept._types)))


def test_an_error_is_a_record_and_an_enum_has_its_symbols() -> None:
    """As the specification has them; what follows of each kind of named type is read."""
    assert types_of('{"type": "error", "name": "E", "fields": []}').kind == "record"
    assert types_of('{"type": "enum", "name": "E", "symbols": ["A"]}').symbols == ("A",)
