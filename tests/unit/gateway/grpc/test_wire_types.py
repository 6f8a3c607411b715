"""Fields of a wire type that is not theirs are refused in etcd's words, and those that nobody knows are not."""

from typing import Any

import pytest

from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.pb import journal_pb2 as journal
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.wire_types import COUNTED_MAX, is_suspect, refuse_wrong
from quorate.wire.kafka_primitives import uvarint

KEY = b"\x0a\x01k"


def bits_32(number: int) -> bytes:
    return bytes([number << 3 | 5]) + b"abcd"


def within(number: int, *parts: bytes) -> bytes:
    """A message within, or any other bytes."""
    body = b"".join(parts)
    return bytes([number << 3 | 2]) + uvarint(len(body)) + body


def read(kind: Any, body: bytes) -> int:
    """As a call does; how many fields were looked at. Raises CallError."""
    suspect = is_suspect(kind.FromString(body), len(body))
    return sum(1 for _ in refuse_wrong(body, kind.DESCRIPTOR)) if suspect else 0


WRONG = {
    "the lease of a put": (pb.PutRequest, KEY + bits_32(3), 5, "Lease"),
    "the value of a put": (pb.PutRequest, KEY + bits_32(2), 5, "Value"),
    "a lease": (pb.LeaseGrantRequest, bits_32(1) + bits_32(2), 5, "TTL"),
    "the end of a deletion": (pb.DeleteRangeRequest, KEY + bits_32(2), 5, "RangeEnd"),
    "one that is there rightly too": (pb.PutRequest, KEY + bits_32(1), 5, "Key"),
    "behind one that nobody knows": (pb.PutRequest, KEY + bits_32(15) + bits_32(3), 5, "Lease"),
    "a number that should be bytes": (pb.RangeRequest, b"\x08\x01", 0, "Key"),
    "bytes that should be a number": (pb.LeaseGrantRequest, within(1, b"12"), 2, "TTL"),
    "eight bytes": (pb.LeaseGrantRequest, b"\x11" + bytes(8), 1, "ID"),
    "a group": (pb.PutRequest, KEY + b"\x1b\x1c", 3, "Lease"),
    "many numbers": (pb.WatchRequest, within(1, KEY, bits_32(5)), 5, "Filters"),
    "a message": (pb.TxnRequest, within(2, bits_32(2)), 5, "RequestPut"),
    "a put of a transaction": (pb.TxnRequest, within(2, within(2, KEY, bits_32(2))), 5, "Value"),
    "the last of many": (pb.TxnRequest, within(1, b"\x08\x01") * 2 + within(1, b"\x08\x01", bits_32(3)), 5, "Key"),
    "deep within": (pb.TxnRequest, within(3, within(4, within(2, within(1, bits_32(4))))), 5, "Revision"),
    "in many bytes": (pb.PutRequest, KEY + within(2, bytes(COUNTED_MAX)) + bits_32(3), 5, "Lease"),
    "in a map": (journal.CreateShardRequest, within(5, KEY, bits_32(2)), 5, "Value"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_field_of_another_wire_type_is_refused(what: str) -> None:
    """By its number and its name as Go has it, wherever it is."""
    kind, body, wire_type, name = WRONG[what]
    with pytest.raises(CallError) as refused:
        read(kind, body)
    text = f"grpc: error unmarshalling request: proto: wrong wireType = {wire_type} for field {name}"
    assert (refused.value.code, refused.value.text) == (StatusCode.INTERNAL, text)


RIGHT = {
    "a number": (pb.PutRequest, KEY + bits_32(15), 2),
    "bytes": (pb.PutRequest, within(15, bits_32(3)) + KEY, 2),
    "eight bytes": (pb.PutRequest, b"\x79" + bytes(8) + KEY, 2),
    "in many bytes": (pb.PutRequest, KEY + within(2, bytes(COUNTED_MAX)) + bits_32(15), 3),
    "a group": (pb.PutRequest, b"\x7b" + bits_32(3) + b"\x7b" + bits_32(1) + b"\x7c\x7c" + KEY, 7),
    "within": (pb.TxnRequest, within(2, within(2, KEY, b"\xf8\xff\xff\xff\x0f\x80\x01")), 4),
    "beside numbers in one piece": (pb.WatchRequest, within(1, within(5, b"\x00\x01"), b"\x28\x01", bits_32(15)), 4),
}


@pytest.mark.parametrize("what", RIGHT)
def test_a_field_that_nobody_knows_is_left_out(what: str) -> None:
    """Whatever it is, and whatever is in it; every field is a step of its own."""
    kind, body, fields = RIGHT[what]
    assert read(kind, body) == fields


def test_what_is_known_is_not_looked_at() -> None:
    """A request that the reader took as a whole costs no second look, also where it says its numbers otherwise."""
    assert read(pb.PutRequest, pb.PutRequest(key=b"k", value=b"v", lease=7).SerializeToString()) == 0
    assert read(pb.WatchRequest, within(1, within(5, b"\x00\x01"), b"\x28\x01")) == 0
    assert read(journal.CreateShardRequest, within(5, KEY)) == 0
