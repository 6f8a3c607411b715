"""Avro schemas as typed values: what an ``.avsc`` of ours may say, read strictly.

Rules: the subset is small on purpose (records, string, bytes, int, long, boolean, ``null`` first in a two-branch union,
arrays, maps of strings), every record and field is documented, an event's name is its file's name, and a nested
record that appears in two files is the same in both. Used by the generator and the compatibility check only; nothing
here runs in a node. Terms as in the Avro 1.12 specification.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, assert_never

import msgspec

from quorate.errors import UsageError

NAMESPACE = "quorate.events"
SCHEMAS_DIR = Path(__file__).resolve().parents[3] / "schemas"
"""Where the schemas are in a source tree; the tools take another folder as an argument."""

_RECORD_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")
_FIELD_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_KEY = re.compile(r"(?P<kind>[a-z-]+)/([a-z0-9-]+|\{(?P<verbatim>\+?)(?P<field>[a-z0-9_]+)\})")

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


class Primitive(msgspec.Struct, frozen=True):
    """A scalar."""

    name: Literal["string", "bytes", "int", "long", "boolean"]


class Optional(msgspec.Struct, frozen=True):
    """A scalar that may be absent: the union of null, first, and the scalar."""

    item: Primitive


class Array(msgspec.Struct, frozen=True):
    """A sequence."""

    items: "Primitive | Record"


class Map(msgspec.Struct, frozen=True):
    """Text to text."""


class Default(msgspec.Struct, frozen=True):
    """The value a reader takes for a field its writer did not have."""

    value: str | bytes | int | bool | tuple[()] | frozenset[str] | None
    """An empty tuple stands for the empty array, an empty frozenset for the empty map; of these and of bytes only the
    empty one is allowed.
    """


class Field(msgspec.Struct, frozen=True):
    """One named value of a record."""

    name: str
    type: "FieldType"
    default: Default | None
    doc: str


class Record(msgspec.Struct, frozen=True):
    """An event, or a value nested in one; ``key`` is the event's entity (``quorate.key``), empty for nested ones."""

    name: str
    fields: tuple[Field, ...]
    doc: str
    key: str = ""

    def field(self, name: str) -> Field | None:
        """The field of that name."""
        return next((field for field in self.fields if field.name == name), None)


FieldType = Primitive | Optional | Array | Map | Record


def load(folder: Path) -> dict[str, Record]:
    """Every event of the folder by name, in name order. Raises UsageError naming the file and what is wrong with it."""
    events: dict[str, Record] = {}
    nested: dict[str, Record] = {}
    for path in sorted(folder.rglob("*.avsc"), key=lambda path: path.stem):
        try:
            event = parse(json.loads(path.read_bytes()))
            if event.name != path.stem:
                raise UsageError(f"it defines {event.name}")
            for record in nested_records(event):
                if nested.setdefault(record.name, record) != record:
                    raise UsageError(f"{record.name} is not the same as in another file")
        except (UsageError, ValueError) as error:
            raise UsageError(f"{path.name}: {error}") from error
        if event.name in events:
            raise UsageError(f"{path.name}: there are two of them")
        events[event.name] = event
    if clash := sorted(events.keys() & nested.keys()):
        raise UsageError(f"both events and nested records: {', '.join(clash)}")
    return events


def parse(data: Json, *, documented: bool = True) -> Record:
    """An event's schema from its JSON; ``documented=False`` for the registry's copies. Raises UsageError."""
    event = _Parser(documented).record(data)
    if not isinstance(data, dict) or data.get("namespace") != NAMESPACE:
        raise UsageError(f"the namespace must be {NAMESPACE}")
    key = _KEY.fullmatch(event.key)
    if not key:
        raise UsageError('"quorate.key" must be like "broker-set/{broker_set}"')
    if name := key.group("field"):
        field = event.field(name)
        if field is None or field.type not in (Primitive("string"), Primitive("int"), Primitive("long")):
            raise UsageError(f'"quorate.key" needs a string or number field {name}')
    return event


def verbatim_kinds(events: Iterable[Record]) -> frozenset[str]:
    """The kinds of entities whose names stand in keys as they are written (``{+name}``, after RFC 6570): their names
    are texts in the order of what they name (``names.py``), which percent-encoding would lose. Raises UsageError where
    events about one kind differ.
    """
    forms: dict[str, set[bool]] = {}
    for event in events:
        if match := _KEY.fullmatch(event.key):
            forms.setdefault(match["kind"], set()).add(bool(match["verbatim"]))
    if mixed := sorted(kind for kind, form in forms.items() if len(form) > 1):
        raise UsageError(f'"quorate.key" is verbatim in one event and not in another: {", ".join(mixed)}')
    return frozenset(kind for kind, form in forms.items() if form == {True})


def nested_records(record: Record) -> Iterator[Record]:
    """The records inside, innermost first, each once."""
    seen: dict[str, Record] = {}
    for field in record.fields:
        inner = field.type.items if isinstance(field.type, Array) else field.type
        if isinstance(inner, Record):
            for deeper in (*nested_records(inner), inner):
                seen.setdefault(deeper.name, deeper)
    yield from seen.values()


def to_json(record: Record, *, documented: bool) -> dict[str, Json]:
    """Back to Avro's JSON, keys in one fixed order; without docs it is the canonical form that is fingerprinted."""
    defined: set[str] = set()
    head: dict[str, Json] = {"type": "record", "name": record.name, "namespace": NAMESPACE}
    return {**head, **_body(record, documented, defined), "quorate.key": record.key}


def fingerprint(record: Record) -> str:
    """SHA-256, in hex, of the canonical form: equal iff names, types, defaults and key are; docs do not count."""
    text = json.dumps(to_json(record, documented=False), separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class _Parser:
    """Reads one schema; a nested record is defined where it first occurs and named from then on, as Avro has it."""

    def __init__(self, documented: bool) -> None:
        self._documented = documented
        self._defined: dict[str, Record] = {}

    def record(self, data: Json) -> Record:
        """A record and everything in it. Raises UsageError."""
        if not isinstance(data, dict) or data.get("type") != "record":
            raise UsageError("not a record")
        if unknown := sorted(data.keys() - {"type", "name", "namespace", "doc", "quorate.key", "fields"}):
            raise UsageError(f"unknown property {unknown[0]}")
        name, fields = data.get("name"), data.get("fields")
        if not isinstance(name, str) or not _RECORD_NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a record name like MasterElected")
        if name in self._defined:
            raise UsageError(f"{name} is defined twice")
        if not isinstance(fields, list) or not fields:
            raise UsageError(f"{name} has no fields")
        parsed = tuple(self._field(field) for field in fields)
        if len({field.name for field in parsed}) != len(parsed):
            raise UsageError(f"{name} has two fields of one name")
        key = data.get("quorate.key", "")
        doc = self._doc(data, name)
        self._defined[name] = Record(name=name, fields=parsed, doc=doc, key=key if isinstance(key, str) else "")
        return self._defined[name]

    def _field(self, data: Json) -> Field:
        if not isinstance(data, dict) or data.keys() - {"name", "type", "default", "doc"}:
            raise UsageError(f"not a field of ours: {data!r}")
        name = data.get("name")
        if not isinstance(name, str) or not _FIELD_NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a field name like master_epoch")
        kind = self._type(data.get("type"))
        default = Default(_default(data["default"], kind, name)) if "default" in data else None
        return Field(name=name, type=kind, default=default, doc=self._doc(data, name))

    def _doc(self, data: dict[str, Json], name: str) -> str:
        doc = data.get("doc", "")
        if not isinstance(doc, str) or (self._documented and not doc.endswith((".", "?"))):
            raise UsageError(f"{name} has no doc that is a sentence")
        return doc

    def _type(self, data: Json) -> FieldType:
        match data:
            case "string" | "bytes" | "int" | "long" | "boolean":
                return Primitive(data)
            case str(name) if name in self._defined:
                return self._defined[name]
            case ["null", "string" | "bytes" | "int" | "long" | "boolean" as name]:
                return Optional(Primitive(name))
            case {"type": "map", "values": "string", **rest} if not rest:
                return Map()
            case {"type": "array", "items": items, **rest} if not rest:
                inner = self._type(items)
                if not isinstance(inner, Primitive | Record):
                    raise UsageError("an array holds scalars or records")
                return Array(inner)
            case {"type": "record"}:
                return self.record(data)
            case _:
                raise UsageError(f"a type we do not use: {data!r}")


def _default(value: Json, kind: FieldType, name: str) -> str | bytes | int | bool | tuple[()] | frozenset[str] | None:
    match kind, value:
        case Primitive("string"), str(text):
            return text
        case Primitive("bytes"), "":
            return b""
        case Primitive("boolean"), bool(truth):
            return truth
        case Primitive("int" | "long"), int(number) if not isinstance(number, bool):
            return number
        case Optional(), None:
            return None
        case (Array(), []):
            return ()
        case (Map(), dict()) if not value:
            return frozenset()
        case _:
            raise UsageError(f"{value!r} cannot be the default of {name}")


def _body(record: Record, documented: bool, defined: set[str]) -> dict[str, Json]:
    fields: list[Json] = []
    for field in record.fields:
        item: dict[str, Json] = {"name": field.name, "type": _type_json(field.type, documented, defined)}
        if field.default is not None:
            item["default"] = _default_json(field.default)
        fields.append(item | ({"doc": field.doc} if documented else {}))
    return {**({"doc": record.doc} if documented else {}), "fields": fields}


def _type_json(kind: FieldType, documented: bool, defined: set[str]) -> Json:
    match kind:
        case Primitive(name):
            return name
        case Optional(item):
            return ["null", item.name]
        case Map():
            return {"type": "map", "values": "string"}
        case Array(items):
            return {"type": "array", "items": _type_json(items, documented, defined)}
        case Record(name):
            if name in defined:  # Avro: a named type is defined once and referred to afterwards.
                return name
            defined.add(name)
            return {"type": "record", "name": name, **_body(kind, documented, defined)}
        case _:
            assert_never(kind)


def _default_json(default: Default) -> Json:
    match default.value:
        case tuple():
            return []
        case frozenset():
            return {}
        case bytes():
            return ""
        case value:
            return value
