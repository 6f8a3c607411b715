"""Bytes of a journal segment: its header, its frames, its seal.

Rules: whole frames only; a frame never moves and is never overwritten. Checksums of frame headers are seeded with the
segment's id, so that a frame of another segment never passes for one of this.

Format 2, little-endian; 1 is read, its header names no owner. A segment is ``size`` bytes: the header at 0, the seal
at 512, frames from 1024 on, zeros after the last. A frame is a 40-byte header (magic u8, kind u8, lag u16, length
u32, seq u64, index u64, term u64, CRC32 of the payload u32, CRC32 of the header u32), the payload, zeros up to one
byte below a multiple of 8, and a closing byte that is not zero. ``lag`` is ``seq`` minus the last operation known
durable when the frame was made (65,535: no idea).

Theory: what a crash leaves of an unfinished write is a prefix of it, or any subset of its sectors; the rest reads as
the zeros the segment was born with. Since a frame begins and ends with a byte that is not zero, a frame that fails its
checksum *without* missing its end or a whole sector was once written completely and has been changed since: damage,
not a torn write. And ``lag`` of a later frame can prove that an operation had been durable: losing it is damage too.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from typing import Literal
from zlib import crc32

import msgspec

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.storage_settings import SEGMENT_HEADER_BYTES
from quorate.errors import StorageError
from quorate.leaf import native

FORMAT = 2
"""Of a segment. 1 named no owner, and is read."""
MAGIC = 0xF5
LAG_UNKNOWN = 0xFFFF
SECTOR_BYTES = 512
SEAL_AT = 512
FRAMES_AT = SEGMENT_HEADER_BYTES

Kind = Literal[1, 2, 3, 4, 5]
APPEND: Kind = 1
TRUNCATE: Kind = 2
VOTE: Kind = 3
RESET: Kind = 4
BASE: Kind = 5

_PREFIX = Layout("<BBHIQQQI")
_CRC = Layout("<I")
_pack_prefix = _PREFIX.pack
_pack_crc = _CRC.pack
FRAME_HEADER_BYTES = _PREFIX.size + _CRC.size
_CLOSING = b"\xa5"
_ENDS = tuple(bytes(zeros) + _CLOSING for zeros in range(8))
_HEADER = Layout("<8sHxxxxxxQQQQQQQQQQ16s")
_HEADER_1 = Layout("<8sHxxxxxxQQQQQQQQQ")
_SEAL = Layout("<8sQQQQ")
_HEADER_MAGIC = b"QUOJRNL\n"
_SEAL_MAGIC = b"QUOSEAL\n"


class Point(msgspec.Struct, frozen=True, gc=False):
    """A place in the log: an index and the term of the entry there."""

    index: Index
    term: Term


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Whose journal this is: the node, and the 16 bytes of its directory's id."""

    node_id: int
    incarnation: bytes


class SegmentHeader(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was true when the segment began; it makes every older segment dispensable but for its entries."""

    segment: int
    size: int
    start_seq: int
    """The first operation of this segment; all before it were durable in older ones when this was written."""
    base: Point
    last: Point
    term: Term
    voted_for: NodeId | None
    owner: Owner | None = None
    """None in segments of format 1."""


class Seal(msgspec.Struct, frozen=True, gc=False):
    """Written once the next segment exists: where the frames of this one end."""

    next_segment: int
    end: int
    end_seq: int


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One operation; ``start`` and ``end`` are offsets of the frame in its segment."""

    kind: int
    seq: int
    lag: int
    index: int
    term: int
    start: int
    length: int
    end: int
    intact: bool
    """Payload and closing byte are as written."""


def segment_name(segment: int) -> str:
    """The file of a segment."""
    return f"{segment:016x}.journal"


def segment_id(name: str) -> int | None:
    """The segment of a file; None for other files."""
    stem, dot, suffix = name.partition(".")
    if dot and suffix == "journal" and len(stem) == 16:
        try:
            return int(stem, 16)
        except ValueError:
            return None
    return None


def seed_of(segment: int) -> int:
    """Start value of the header checksums in this segment."""
    return crc32(segment.to_bytes(8, "little"))


def frame_bytes(length: int) -> int:
    """Size of a frame with a payload of ``length`` bytes."""
    return (FRAME_HEADER_BYTES + length + 8) & ~7


@native
def encode_frame(
    seed: int, kind: int, seq: int, lag: int, index: int, term: int, payload: bytes
) -> tuple[bytes, bytes, bytes]:
    """Header, payload (the very object given) and end of one frame, to be joined by who writes."""
    length = len(payload)
    prefix = _pack_prefix(MAGIC, kind, lag, length, seq, index, term, crc32(payload))
    return prefix + _pack_crc(crc32(prefix, seed)), payload, _ENDS[-(FRAME_HEADER_BYTES + 1 + length) % 8]


def decode_frame(data: bytes | memoryview, offset: int, seed: int) -> Frame | None:
    """The frame at ``offset``, ``intact`` or not; None if there is no valid frame header."""
    crc_at = offset + _PREFIX.size
    if crc_at + 4 > len(data) or data[offset] != MAGIC:
        return None
    if _CRC.unpack_from(data, crc_at)[0] != crc32(data[offset:crc_at], seed):
        return None
    _, kind, lag, length, seq, index, term, payload_crc = _PREFIX.unpack_from(data, offset)
    end = offset + frame_bytes(length)
    payload_at = offset + FRAME_HEADER_BYTES
    intact = (
        end <= len(data)
        and data[end - 1] == _CLOSING[0]
        and crc32(data[payload_at : payload_at + length]) == payload_crc
    )
    return Frame(kind, seq, lag, index, term, offset, length, end, intact)


def later_headers(data: bytes, offset: int, seed: int) -> Iterator[Frame]:
    """Every valid frame header after ``offset``; frames begin at multiples of 8."""
    at = data.find(MAGIC, offset + 1)
    while at >= 0:
        if at % 8 == 0 and (frame := decode_frame(data, at, seed)) is not None:
            yield frame
        at = data.find(MAGIC, at + 1)


def all_zero(data: bytes, start: int, stop: int) -> bool:
    """Is every byte in ``[start, stop)`` zero (as far as there are any)?"""
    stop = min(stop, len(data))
    return data.count(0, start, stop) == max(0, stop - start)


def could_be_torn(data: bytes, start: int, end: int) -> bool:
    """May ``[start, end)`` be what a crash left of an unfinished write: its end, or a whole sector, still zero?"""
    if all_zero(data, end - 1, len(data)):
        return True
    at = start
    while at < end:
        stop = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        if all_zero(data, at, stop):
            return True
        at = stop
    return False


def encode_header(header: SegmentHeader) -> bytes:
    """The bytes at offset 0."""
    body = _HEADER.pack(
        _HEADER_MAGIC,
        FORMAT,
        header.segment,
        header.size,
        header.start_seq,
        header.base.index,
        header.base.term,
        header.last.index,
        header.last.term,
        header.term,
        encode_vote(header.voted_for),
        header.owner.node_id if header.owner is not None else 0,
        header.owner.incarnation if header.owner is not None else bytes(16),
    )
    return body + _CRC.pack(crc32(body)) + _CLOSING


def decode_header(data: bytes) -> SegmentHeader | None:
    """The header at the start of ``data``; None if it is not valid. Raises StorageError for a newer version."""
    layout = _HEADER_1 if data[8:10] == b"\x01\0" else _HEADER
    if len(data) < HEADER_BYTES or _CRC.unpack_from(data, layout.size)[0] != crc32(data[: layout.size]):
        return None
    magic, version, segment, size, start_seq, base, base_term, last, last_term, term, vote, *owner = layout.unpack_from(
        data
    )
    if magic != _HEADER_MAGIC:
        return None
    if version not in (1, FORMAT):
        raise StorageError(f"journal format {version} is not known to this version")
    return SegmentHeader(
        segment=segment,
        size=size,
        start_seq=start_seq,
        base=Point(base, base_term),
        last=Point(last, last_term),
        term=term,
        voted_for=decode_vote(vote),
        owner=Owner(*owner) if owner and owner[0] else None,
    )


HEADER_BYTES = _HEADER.size + _CRC.size + len(_CLOSING)
SEAL_BYTES = _SEAL.size + _CRC.size + len(_CLOSING)


def encode_seal(segment: int, seal: Seal) -> bytes:
    """The bytes at ``SEAL_AT``."""
    body = _SEAL.pack(_SEAL_MAGIC, segment, seal.next_segment, seal.end, seal.end_seq)
    return body + _CRC.pack(crc32(body)) + _CLOSING


def decode_seal(data: bytes) -> Seal | None:
    """The seal of a segment given its bytes; None if there is no valid one."""
    body = data[SEAL_AT : SEAL_AT + _SEAL.size]
    if len(data) < FRAMES_AT or _CRC.unpack_from(data, SEAL_AT + _SEAL.size)[0] != crc32(body):
        return None
    magic, _, next_segment, end, end_seq = _SEAL.unpack(body)
    return Seal(next_segment, end, end_seq) if magic == _SEAL_MAGIC else None


def encode_vote(voted_for: NodeId | None) -> int:
    """A vote as an unsigned number: 0 for none."""
    return 0 if voted_for is None else voted_for + 1


def decode_vote(number: int) -> NodeId | None:
    """The vote in a number."""
    return NodeId(number - 1) if number else None
