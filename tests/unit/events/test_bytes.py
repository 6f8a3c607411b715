"""Fields of bytes, in every place where one may stand: in a schema made here.

Both builds of the generated module are held against fastavro, and to what JSON makes of bytes.
"""

import io
import json
import sys
from base64 import b64encode
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate import leaf
from quorate.errors import UsageError
from quorate.events import DecodeError, generate, schema
from tests.unit.events.strategies import plain, records
from tests.unit.leaf.kit import library, outcome
from tests.unit.leaf.test_events import handed_on

PLAIN: Any = {
    "type": "record", "name": "KeyPut", "namespace": "quorate.events", "doc": "A key has a value.",
    "quorate.key": "keys/{space}",
    "fields": [
        {"name": "space", "type": "string", "doc": "Where it is."},
        {"name": "key", "type": "bytes", "doc": "It."},
        {"name": "lease", "type": "long", "default": 0, "doc": "Until when."},
        {"name": "value", "type": "bytes", "default": "", "doc": "What it has."},
    ],
}  # fmt: skip
KEPT: Any = {
    "type": "record", "name": "Kept", "doc": "A value.",
    "fields": [
        {"name": "whole", "type": "bytes", "doc": "All of it."},
        {"name": "old", "type": ["null", "bytes"], "default": None, "doc": "Before."},
    ],
}  # fmt: skip
NESTED: Any = {
    "type": "record", "name": "KeysMoved", "namespace": "quorate.events", "doc": "Keys are elsewhere.",
    "quorate.key": "keys/{space}",
    "fields": [
        {"name": "space", "type": "string", "doc": "Where they are."},
        {"name": "first", "type": ["null", "bytes"], "default": None, "doc": "The least."},
        {"name": "keys", "type": {"type": "array", "items": "bytes"}, "default": [], "doc": "All."},
        {"name": "values", "type": {"type": "array", "items": KEPT}, "doc": "Theirs."},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}, "doc": "More."},
    ],
}  # fmt: skip
EVENTS = {made["name"]: schema.parse(made) for made in (PLAIN, NESTED)}
PARSED: dict[str, Any] = {made["name"]: fastavro.parse_schema(made, {}) for made in (PLAIN, NESTED)}


@cache
def module(build: str) -> ModuleType:
    """The generated module: ``pure``, ``native`` with the Python functions behind, or ``alone`` without."""
    with TemporaryDirectory() as folder:
        for made in (PLAIN, NESTED):
            Path(folder, f"{made['name']}.avsc").write_text(json.dumps(made))
        text = generate.plan(Path(folder))[generate.MODULE]
    found = ModuleType(f"bytes_{build}")
    own = SimpleNamespace(writer=handed_on(library().writer), reader=handed_on(library().reader))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, found.__name__, found)
        patch.setattr(leaf, "_library", {"pure": None, "native": library(), "alone": own}[build])
        exec(compile(text, found.__name__, "exec"), found.__dict__)
    return found


def any_event() -> st.SearchStrategy:
    """One of either type, of the pure module."""
    return st.one_of([records(event, module("pure")) for event in EVENTS.values()])


def as_in(build: str, event: msgspec.Struct) -> Any:
    """The same value of the type that another build of the module has."""
    return msgspec.convert(plain(event), getattr(module(build), type(event).__name__))


def written(build: str, event: msgspec.Struct) -> bytes:
    """Its frame."""
    own = as_in(build, event)
    frame: bytes = module(build).WRITERS[type(own)](own)
    return frame


def read_alike(build: str, number: int, frame: bytes) -> object:
    """The fields that are read of a frame, as of that schema, and where the event ends; or the error."""

    def told(data: bytes) -> tuple[dict[str, Any], int]:
        value, end = module(build).READERS[number](data, 5)
        return plain(value), end

    return outcome(told, (frame,))


def read(build: str, frame: bytes) -> tuple[dict[str, Any], int]:
    """The fields that are read, and where the event ends."""
    value, end = module(build).READERS[int.from_bytes(frame[1:5], "big")](frame, 5)
    return plain(value), end


@given(any_event())
def test_bytes_are_written_as_fastavro_writes_them_and_read_back(event: Any) -> None:
    """Whatever the bytes, the frame is fastavro's, fastavro reads it, and it comes back; the leaf alone takes the event
    of plain fields.
    """
    name, out = type(event).__name__, io.BytesIO()
    fastavro.schemaless_writer(out, PARSED[name], plain(event), strict=True)
    builds = ["pure", "native"] + ["alone"] * (name == "KeyPut" and abs(event.lease) < 2**62)
    for build in builds:
        frame = written(build, event)
        assert frame[5:] == out.getvalue()
        assert read(build, frame) == (plain(event), len(frame))
    found: Any = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), PARSED[name], None)
    assert msgspec.convert(found, type(event)) == event


@given(any_event(), st.data())
def test_bad_lengths_are_refused_alike(event: Any, data: st.DataObject) -> None:
    """A frame that is cut, or any byte of it another, gives the same event or the same error in both builds."""
    frame = bytearray(written("pure", event))
    frame[data.draw(st.integers(5, len(frame) - 1))] = data.draw(st.integers(0, 255))
    for bad in (bytes(frame), bytes(frame[: data.draw(st.integers(5, len(frame)))])):
        number = int.from_bytes(bad[1:5], "big")
        assert read_alike("native", number, bad) == read_alike("pure", number, bad)


@pytest.mark.parametrize("build", ["pure", "native"])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"\x00\x06ab", "longer than what is left", id="longer than the rest"),
        pytest.param(b"\x00\x01", "negative", id="a negative length"),
        pytest.param(b"\x00" + b"\xfe" * 9 + b"\x01", "longer than what is left", id="longer than any memory"),
    ],
)
def test_bytes_that_cannot_be_there_are_refused(build: str, body: bytes, says: str) -> None:
    """A length that does not fit allocates nothing and is a DecodeError."""
    with pytest.raises(DecodeError, match=says):
        read(build, written(build, module("pure").KeyPut(space="", key=b""))[:5] + body)


@pytest.mark.parametrize("build", ["pure", "native"])
@pytest.mark.parametrize("value", ["text", None, 7, [1]], ids=repr)
def test_what_is_no_bytes_is_not_written(build: str, value: Any) -> None:
    """Text is not bytes, and neither is anything else."""
    kind = module(build).KeyPut
    with pytest.raises((TypeError, UsageError)):
        module(build).WRITERS[kind](kind(space="s", key=value))


def test_empty_bytes_are_a_default_and_others_none() -> None:
    """A field may begin as no bytes, in the type, in the served schema, and for a reader of older events."""
    event = module("pure").KeyPut(space="s", key=b"k")
    assert (event.lease, event.value) == (0, b"")
    fields = {field["name"]: field for field in json.loads(module("pure").SCHEMAS[1])["fields"]}
    assert (fields["value"]["type"], fields["value"]["default"]) == ("bytes", "")
    assert schema.parse(json.loads(module("pure").SCHEMAS[1])) == EVENTS["KeyPut"]


@given(any_event())
def test_json_has_bytes_as_base64_and_back(event: Any) -> None:
    """As HTTP, ``-o json``, Spark's column and a view's row have them; the event comes back from it."""
    text = msgspec.json.encode(event)
    assert msgspec.json.decode(text, type=type(event)) == event
    if type(event).__name__ == "KeyPut":
        assert json.loads(text)["key"] == msgspec.to_builtins(event)["key"] == b64encode(event.key).decode()
