"""Events to bytes and back, and the key an event is stored and published under.

Rules: the frame is Confluent's (a zero, the schema id in four bytes big-endian, the Avro body), so that stock
deserializers read it; ``decode`` accepts exactly one event and nothing after it; within one schema id the bytes of an
event are determined. No fastavro here: it is the oracle of the tests.

Source: Avro 1.12 specification, "Binary encoding"; Confluent Schema Registry, "Wire format".
"""

import struct
from functools import lru_cache
from urllib.parse import quote, unquote

from quorate.errors import UsageError
from quorate.events._avro import UnknownSchemaError
from quorate.events._generated import KEYS, READERS, SCHEMA_IDS, VERBATIM, WRITERS, Event
from quorate.events.varint import DecodeError

TENANT = "default"
EVENT_BYTES_MAX = 4 * 1024 * 1024
"""No event is larger encoded; four times the largest command."""
KEPT_NAME_MAX = 256
"""Clients name keys as long as they like. What is kept of names by their number, here and elsewhere, is of those that
are no longer than this.
"""

_FRAME = struct.Struct(">BI")


def encode(event: Event) -> bytes:
    """Confluent frame of at most EVENT_BYTES_MAX bytes. Raises UsageError for a value its schema cannot hold."""
    try:
        data = WRITERS[type(event)](event)
    except (TypeError, AttributeError, KeyError, UnicodeEncodeError) as error:
        raise UsageError(f"{type(event).__name__} cannot be written: {error}") from error
    if len(data) > EVENT_BYTES_MAX:
        raise UsageError(f"{type(event).__name__} of {len(data)} bytes is too large")
    return data


def decode(data: bytes) -> Event:
    """The event in a Confluent frame, as its writer's schema says. Raises DecodeError, UnknownSchemaError."""
    if len(data) > EVENT_BYTES_MAX:
        raise DecodeError(f"a frame of {len(data)} bytes is too large")
    try:
        magic, schema_id = _FRAME.unpack_from(data)
        if magic != 0:
            raise DecodeError(f"magic byte {magic}")
        reader = READERS.get(schema_id)
        if reader is None:
            raise UnknownSchemaError(f"schema id {schema_id}")
        event, end = reader(data, 5)
    except (IndexError, struct.error) as error:
        raise DecodeError("truncated") from error
    except UnicodeDecodeError as error:
        raise DecodeError("text that is not UTF-8") from error
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes after the event")
    return event


def schema_id(event: type[Event]) -> int:
    """The id events of this type are written with. Raises UsageError when it is no event type."""
    number = SCHEMA_IDS.get(event)
    if number is None:
        raise UsageError(f"{event.__name__} is not an event")
    return number


def key(event: Event) -> bytes:
    """The key of the one entity the event touches: ``kind/tenant/name``. Raises UsageError as ``encode`` does."""
    try:
        kind, name = KEYS[type(event)]
        return entity_key(kind, str(name(event)))
    except (TypeError, KeyError, UnicodeEncodeError) as error:
        raise UsageError(f"{type(event).__name__} has no key: {error}") from error


def about(event: Event) -> tuple[str, str]:
    """Kind and name of the one entity the event touches."""
    kind, name = KEYS[type(event)]
    return kind, str(name(event))


def kinds_about(*entities: str) -> frozenset[type[Event]]:
    """The kinds of events that touch entities of these kinds, as their schemas say (``broker-set``, ``topic`` …)."""
    return frozenset(kind for kind, (entity, _) in KEYS.items() if entity in entities)


def entity_name(kind: str, text: str) -> str:
    """The name of an entity, from its text in a key."""
    return unquote(text) if "%" in text and kind not in VERBATIM else text


def entity_key(kind: str, name: str) -> bytes:
    """``kind/default/name``, the name percent-encoded but for RFC 3986's unreserved characters; where its schema says
    so, as it is.
    """
    return _kept_key(kind, name) if len(name) <= KEPT_NAME_MAX else _key(kind, name)


def _key(kind: str, name: str) -> bytes:
    return f"{kind}/{TENANT}/{name if kind in VERBATIM else quote(name, safe='')}".encode()


_kept_key = lru_cache(maxsize=16_384)(_key)
