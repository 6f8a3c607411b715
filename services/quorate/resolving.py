"""Events whose schema this build does not know, read by the schema they were written with.

Rules: for readers of the log (views, Spark, the page), never for a node: it stops at what it does not know. An id this
build knows is read by the generated code and nobody is asked. Any other id is looked up once, in the registry that
every node serves, and its events are read by Avro's schema resolution as the newest version this build has of that
event: fields it does not have are dropped, fields the writer did not have get their defaults. An event it has no
version of is an error by name. Bounds are those of the generated code: nothing after the event, no length beyond its
end, nothing but what our own schema can hold.

Source: Avro 1.12 specification, "Schema Resolution"; Confluent Schema Registry, ``GET /schemas/ids/{id}``.
"""

import json
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import IO, Any, Final, cast, get_args

import fastavro
import msgspec
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from quorate.asking import Request, UnreachedError, addresses, exchange
from quorate.errors import QuorateError, UsageError
from quorate.events import SCHEMAS, DecodeError, Event, UnknownSchemaError, decode, encode, schema_id

TIMEOUT_S: Final = 1.0
"""For each node that is asked."""
KEPT_MAX: Final = 256
"""Schemas of newer builds that are kept; then the one that was asked for first goes."""
TEXT_MAX: Final = 1024 * 1024
"""No schema is longer."""
ANSWER_BYTES_MAX: Final = 4 * TEXT_MAX
"""No registry's answer is: JSON in JSON, with its escapes."""
FRAME_BYTES: Final = 5
"""A zero and the schema id come before the Avro body."""
NAMESPACE: Final = "quorate.events"
KINDS: Final[dict[str, type[Event]]] = {kind.__name__: kind for kind in get_args(Event)}

Fetch = Callable[[int], str]
"""The schema of an id. Raises UnregisteredSchemaError, UnreachedError."""


class SchemaNeededError(QuorateError):
    """Nobody was asked yet for the schema of this event."""

    def __init__(self, number: int) -> None:
        super().__init__(f"schema id {number} was not asked for yet")
        self.number = number


class UnregisteredSchemaError(UnknownSchemaError):
    """No registry that was asked knows the id."""


class UnknownKindError(UnknownSchemaError):
    """The schema is of an event this build has no version of: upgrade it."""


class IncompatibleSchemaError(DecodeError):
    """The schema is no Avro schema with bounds, or our version of the event cannot be read from it."""


class NewerSchema:
    """A schema of an event this build knows, by which events are read as its own version.

    Raises UnknownKindError, IncompatibleSchemaError.
    """

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        schema = _record(number, text)
        kind = KINDS.get(schema["name"]) if schema.get("namespace") == NAMESPACE else None
        if kind is None:
            name = schema["name"]
            raise UnknownKindError(f"schema id {number} is of {name}, which this build does not know: upgrade it")
        self.kind = kind
        self.reader = SCHEMAS[schema_id(kind)]
        """The schema of our version."""
        try:
            self._writer_schema = fastavro.parse_schema(schema, {})
        except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
            raise IncompatibleSchemaError(f"schema id {number} is no Avro schema: {error!r}") from error
        self._reader_schema = fastavro.parse_schema(json.loads(self.reader), {})

    def decode(self, data: bytes) -> Event:
        """The event in a frame. Raises DecodeError, IncompatibleSchemaError."""
        body = _Body(data)
        try:
            source = cast("IO[bytes]", body)  # It is read from, and nothing else.
            found = fastavro.schemaless_reader(source, self._writer_schema, self._reader_schema)
            event: Event = msgspec.convert(found, self.kind)
            encode(event)  # Whatever our own schema cannot hold is no event here either.
        except (SchemaResolutionError, msgspec.ValidationError, UsageError) as error:
            name = self.kind.__name__
            raise IncompatibleSchemaError(f"schema id {self.number} cannot be read as {name}: {error}") from error
        except UnicodeDecodeError as error:
            raise DecodeError("text that is not UTF-8") from error
        except (EOFError, IndexError, OverflowError, ValueError) as error:
            raise DecodeError(f"not what schema id {self.number} says: {error}") from error
        if body.left:
            raise DecodeError(f"{body.left} bytes after the event")
        return event


class Resolver:
    """Reads events of known schemas and, by a registry, of newer ones."""

    def __init__(self, fetch: Fetch, kept_max: int = KEPT_MAX) -> None:
        self._fetch = fetch
        self._kept_max = kept_max
        self._kept: dict[int, NewerSchema] = {}

    def decode(self, data: bytes) -> Event:
        """The event in a Confluent frame; waits for a registry where its schema is new. Raises DecodeError (of it
        UnregisteredSchemaError, UnknownKindError, IncompatibleSchemaError), UnreachedError.
        """
        try:
            return self.decode_known(data)
        except SchemaNeededError as needed:
            return self.learn(needed.number).decode(data)

    def decode_known(self, data: bytes) -> Event:
        """The same without asking anybody. Raises DecodeError, SchemaNeededError."""
        try:
            return decode(data)
        except UnknownSchemaError:
            number = int.from_bytes(data[1:FRAME_BYTES], "big")
            newer = self._kept.get(number)
            if newer is None:
                raise SchemaNeededError(number) from None
            return newer.decode(data)

    def learn(self, number: int) -> NewerSchema:
        """The schema of an id this build does not know. Raises what ``decode`` raises."""
        newer = self._kept.get(number)
        if newer is None:
            newer = NewerSchema(number, self._fetch(number))
            while len(self._kept) >= self._kept_max:
                self._kept.pop(next(iter(self._kept)))
            self._kept[number] = newer
        return newer


def registry(nodes: str, timeout_s: float = TIMEOUT_S) -> Fetch:
    """Asks nodes (their HTTP addresses, ``host:port,…``) one after the other, until one knows the id: in the middle of
    an upgrade not all do. Without any, no id is known. Raises UsageError.
    """
    asked = addresses(nodes) if nodes else ()

    def fetch(number: int) -> str:
        troubles: list[UnreachedError] = []
        for address in asked:
            try:
                text = _registered(address, number, timeout_s)
            except UnreachedError as error:
                troubles.append(error)
                continue
            if text is not None:
                return text
        if troubles:
            told = "; ".join(map(str, troubles))
            raise UnreachedError(f"schema id {number} is new, and no registry says what it is: {told}", sent=True)
        whom = f"nor to the registry of {', '.join(asked)}" if asked else "and no registry was named"
        raise UnregisteredSchemaError(f"schema id {number} is not known here, {whom}")

    return fetch


@lru_cache(maxsize=16)
def resolver(nodes: str) -> Resolver:
    """The one of this process that asks these nodes. Raises UsageError."""
    return Resolver(registry(nodes))


class _Registered(msgspec.Struct):
    schema: str


def _registered(address: str, number: int, timeout_s: float) -> str | None:
    """The schema as a node has it; None: it does not know the id. Raises UnreachedError."""
    status, answer = exchange(address, Request("GET", f"/schemas/ids/{number}"), timeout_s, ANSWER_BYTES_MAX)
    if status == HTTPStatus.NOT_FOUND:
        return None
    try:
        if status == HTTPStatus.OK:
            return msgspec.json.decode(answer, type=_Registered).schema
        told = str(status)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        told = str(error)
    raise UnreachedError(f"node {address}: {told}, not the answer of a registry", sent=True)


class _Body:
    """What comes after a frame's schema id, handed out exactly as it is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = FRAME_BYTES

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._at

    def read(self, size: int) -> bytes:
        """The next bytes. Raises DecodeError when there are fewer, or the number is negative."""
        if not 0 <= size <= self.left:
            raise DecodeError("truncated, or a length that cannot be")
        self._at += size
        return self._data[self._at - size : self._at]


def _record(number: int, text: str) -> dict[str, Any]:
    """A schema from its text: a record that has bounds. Raises IncompatibleSchemaError."""
    try:
        if len(text) > TEXT_MAX:
            raise ValueError(f"{len(text)} characters")
        schema: Any = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("name"), str):
            raise ValueError("no record")
        _may_be_empty(schema, {})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IncompatibleSchemaError(f"schema id {number} is no schema of an event: {error!r}") from error
    return schema


def _may_be_empty(kind: Any, named: dict[str, bool | None]) -> bool:
    """May a value of this type take no byte? ``named``: the same of the types that were named before; None: of one that
    is not read to its end. Raises ValueError for what could go on for ever: a list of nothings, a record in itself,
    nothing made of records of nothing (ten of ten of ten …); and for a name that stands for two types.
    """
    if _names_type(kind) and _short(str(kind["name"])) in named:
        raise ValueError(f"{kind['name']} is named twice")
    match kind:
        case {"type": "record", "name": str(name), "fields": list(fields)}:
            named[_short(name)] = None
            empties = [_may_be_empty(field["type"], named) for field in fields]
            parts = [field["type"] for field in fields]
            if all(empties) and any(_names_type(part) or _short(str(part)) in named for part in parts):
                raise ValueError(f"{name} is nothing, made of nothings")
            named[_short(name)] = all(empties)
            return all(empties)
        case {"type": "array", "items": items}:
            if _may_be_empty(items, named):
                raise ValueError("an array of what takes no bytes")
            return False
        case {"type": "map", "values": values}:
            _may_be_empty(values, named)
            return False
        case {"type": "fixed", "name": str(name), "size": int(size)}:
            named[_short(name)] = empty = size == 0
            return empty
        case {"type": "enum", "name": str(name)}:
            named[_short(name)] = False
            return False
        case {"type": dict() | list() | str() as inner}:
            return _may_be_empty(inner, named)
        case list(branches):
            for branch in branches:
                _may_be_empty(branch, named)
            return False
        case str(name):
            known = named.get(_short(name), name == "null")
            if known is None:
                raise ValueError(f"{name} is inside itself")
            return known
        case _:
            raise ValueError(f"no type: {kind!r}")


def _names_type(kind: Any) -> bool:
    """Is a named type defined here?"""
    return isinstance(kind, dict) and kind.get("type") in ("record", "fixed", "enum")


def _short(name: str) -> str:
    return name.rpartition(".")[2]
