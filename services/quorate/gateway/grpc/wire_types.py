"""Fields that came as another wire type than theirs. protobuf's reader takes such a field for one that it does not
know, and the request for one without it: a Put would be done without its lease. etcd refuses them, and so do we, in
its words.

Rules: what no message has a number for is left out, as protobuf says. The bytes of a request are looked at here only
where its reader has left something out, or where they are many.
"""

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from quorate.gateway.grpc.codes import UNREADABLE, CallError, StatusCode

VARINT, BITS_64, LONG, GROUP, GROUP_END, BITS_32 = range(6)
_TYPES: Final = {
    FieldDescriptor.TYPE_DOUBLE: BITS_64,
    FieldDescriptor.TYPE_FIXED64: BITS_64,
    FieldDescriptor.TYPE_SFIXED64: BITS_64,
    FieldDescriptor.TYPE_FLOAT: BITS_32,
    FieldDescriptor.TYPE_FIXED32: BITS_32,
    FieldDescriptor.TYPE_SFIXED32: BITS_32,
    FieldDescriptor.TYPE_STRING: LONG,
    FieldDescriptor.TYPE_BYTES: LONG,
    FieldDescriptor.TYPE_MESSAGE: LONG,
}
"""All others are numbers of as many bytes as they need."""
COUNTED_MAX: Final = 64 * 1024
"""Bytes of a request that protobuf counts."""
_SIZES: Final = {BITS_64: 8, BITS_32: 4}


def is_suspect(request: Message, size: int) -> bool:
    """Has the reader left out anything, here or in a message within? It is gone then. Of a large one nobody knows:
    counting it takes longer than looking at it.
    """
    if size > COUNTED_MAX:
        return True
    counted = request.ByteSize()
    request.DiscardUnknownFields()
    return request.ByteSize() != counted


def refuse_wrong(body: bytes, kind: Descriptor, at: int = 0, end: int | None = None) -> Iterator[None]:
    """Look at every field of a message that was read, in steps. Raises CallError."""
    end = len(body) if end is None else end
    groups = 0
    """Within so many that nobody knows."""
    while at < end:
        yield
        tag, at = _number(body, at)
        wire_type = tag & 7
        field = None if groups else kind.fields_by_number.get(tag >> 3)
        if field is not None and not _is_right(field, wire_type):
            text = f"{UNREADABLE}proto: wrong wireType = {wire_type} for field {_name_in_go(field)}"
            raise CallError(StatusCode.INTERNAL, text)
        groups += (wire_type == GROUP) - (wire_type == GROUP_END)
        start, at = _value(body, at, wire_type)
        if field is not None and field.message_type is not None:
            yield from refuse_wrong(body, field.message_type, start, at)


def _is_right(field: FieldDescriptor, wire_type: int) -> bool:
    """Many numbers may come in one piece too."""
    return wire_type == _TYPES.get(field.type, VARINT) or (field.is_repeated and wire_type == LONG)


def _name_in_go(field: FieldDescriptor) -> str:
    return "".join([part[:1].upper() + part[1:] for part in field.name.split("_")])


def _value(body: bytes, at: int, wire_type: int) -> tuple[int, int]:
    """Where it begins and ends; what is in a group counts as fields of their own."""
    if wire_type == VARINT:
        return at, _number(body, at)[1]
    if wire_type == LONG:
        size, at = _number(body, at)
        return at, at + size
    return at, at + _SIZES.get(wire_type, 0)


def _number(body: bytes, at: int) -> tuple[int, int]:
    """A number of as many bytes as it needs, and what is behind it."""
    found = shift = 0
    while (byte := body[at]) > 0x7F:
        found |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return found | byte << shift, at + 1
