"""What can be true: one frozen type per fact, generated from ``schemas/``, with its bytes and its key.

Every event type and nested type is here, and ``Event``, their union: end a ``match`` over it with ``assert_never``.
"""

from quorate.events import _generated
from quorate.events._avro import UnknownSchemaError
from quorate.events._generated import *  # noqa: F403  Its __all__ is the catalogue: a new event needs no line here.
from quorate.events._generated import SCHEMAS
from quorate.events.codec import (
    EVENT_BYTES_MAX,
    about,
    decode,
    encode,
    entity_key,
    entity_name,
    key,
    kinds_about,
    schema_id,
)
from quorate.events.names import ordered_name, raw_name
from quorate.events.stamp import Stamp, stamp_of
from quorate.events.varint import DecodeError

__all__ = [
    "EVENT_BYTES_MAX",
    "SCHEMAS",
    "DecodeError",
    "Stamp",
    "UnknownSchemaError",
    "about",
    "decode",
    "encode",
    "entity_key",
    "entity_name",
    "key",
    "kinds_about",
    "ordered_name",
    "raw_name",
    "schema_id",
    "stamp_of",
]
__all__ += _generated.__all__
