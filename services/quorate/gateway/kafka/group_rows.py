"""The rows of a consumer group: its positions and, while it has members, these and their assignments.

Rules: two rows a group, ``offset/<group>`` and ``members/<group>``, and one ``clock`` for all, msgpack, fields only
ever added at the end. The leader alone writes them (controller/group_writer.py); every node has them.
Theory: Kafka's own coordinator keeps both in ``__consumer_offsets``: with its members kept, a group that loses its
coordinator goes on in the same generation at the next one, and nothing is read twice.
"""

from typing import TypeVar

import msgspec

from quorate.errors import InvariantBrokenError

T = TypeVar("T")
OFFSET = b"offset/"
MEMBERS = b"members/"
CLOCK = b"clock"


class KeptOffset(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A committed position in the one partition: the next offset to read."""

    offset: int
    leader_epoch: int
    metadata: str | None
    time_ms: int
    """When it was committed, Unix ms by the leader's clock."""
    passed_ms: int = 0
    """And by the kept clock; it lapses when that has gone ``group_expiry_s`` further."""


class KeptClock(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How much time has passed for positions: a jump of a leader's clock, or a time without a leader, is one step."""

    time_ms: int
    """The leader's clock when this was written."""
    passed_ms: int


class KeptMember(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One member of a generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


class KeptMembers(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A generation whose assignments have been given."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[KeptMember, ...]


_encode = msgspec.msgpack.Encoder().encode
_OFFSETS = msgspec.msgpack.Decoder(KeptOffset)
_CLOCK = msgspec.msgpack.Decoder(KeptClock)
_MEMBERS = msgspec.msgpack.Decoder(KeptMembers)


def offset_key(group: str) -> bytes:
    """Where a group's position is kept."""
    return OFFSET + group.encode()


def members_key(group: str) -> bytes:
    """Where a group's members are kept."""
    return MEMBERS + group.encode()


def group_of(key: bytes) -> str:
    """Whose row this is."""
    return key.partition(b"/")[2].decode()


def encode(row: KeptOffset | KeptMembers | KeptClock) -> bytes:
    """A row's bytes."""
    return _encode(row)


def decode_offset(row: bytes) -> KeptOffset:
    """Raises InvariantBrokenError for a row that is none of ours."""
    return _decoded(_OFFSETS, row, "a kept offset is damaged")


def decode_clock(row: bytes) -> KeptClock:
    """Raises InvariantBrokenError for a row that is none of ours."""
    return _decoded(_CLOCK, row, "the kept clock is damaged")


def decode_members(row: bytes) -> KeptMembers:
    """Raises InvariantBrokenError for a row that is none of ours."""
    return _decoded(_MEMBERS, row, "kept members are damaged")


def _decoded(decoder: msgspec.msgpack.Decoder[T], row: bytes, damaged: str) -> T:
    try:
        return decoder.decode(row)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvariantBrokenError(f"{damaged}: {error}") from error
