"""The bytes voters exchange: one type byte, then a fixed layout per message.

Rules: nothing here builds an object that the layout does not name, so no frame can make a node run or allocate what it
did not ask for; every length is checked before it is used; a frame that is not exactly one well-formed message raises
PeerError. All integers are big-endian and unsigned. Entries carry a CRC-32 over their term and bytes, checked on
receipt, so that a follower never journals what its leader did not send.

Type bytes: 1–31 consensus, 32–39 the hello of ``consensus.transport.peers``, 64–255 belong to the controller
(``app_frame``): their payload is opaque here.
"""

import operator
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import astuple

from quorate.consensus.ports import TERM_MAX, Index, NodeId, Term
from quorate.errors import PeerError, UsageError
from quorate.leaf import native

APP_TYPE_MIN = 64
ENTRY_BYTES_MAX = 4 * 1024 * 1024
"""What a decoder accepts for one entry; what may be *proposed* is a little less (``MAX_ENTRY_BYTES``)."""
ENTRIES_MAX = 65_536
CLUSTER_ID_BYTES = 255
NUMBER_MAX = 1 << 62
"""No index or counter comes near it; above it our own arithmetic could leave the 64 bits of the layout."""
Entries = Sequence[tuple[Index, Term, bytes]]


class Message(msgspec.Struct, frozen=True, gc=False):
    """One frame between voters, decoded."""


class AppendEntries(Message, frozen=True, gc=False):
    """Leader → follower (Raft §5.3). ``seq`` counts the AppendEntries this process sent to anyone; acks repeat it."""

    term: Term
    seq: int
    prev_index: Index
    prev_term: Term
    commit: Index
    entries: tuple[tuple[Index, Term, bytes], ...]


class Ack(Message, frozen=True, gc=False):
    """Follower → leader. ``success``: everything below ``next_index`` equals the leader's log and is durable here.
    ``reset``: send again from ``next_index``. ``counts`` False: a node that lost its journal; no part of a majority.
    """

    term: Term
    seq: int
    next_index: Index
    reset: bool
    success: bool
    counts: bool


class RequestVote(Message, frozen=True, gc=False):
    """Candidate → voter (Raft §5.2). ``ballot`` is drawn anew for each candidacy and repeated in the answer, so that a
    vote given to an earlier life of a node that lost its journal is not counted. ``handover``: the leader asked for it,
    so do not protect that leader. ``listed``: what the candidate's log says of the voter (consensus/raft/founding.py).
    """

    term: Term
    ballot: int
    last_index: Index
    last_term: Term
    handover: bool
    listed: bytes = bytes(16)


class VoteGranted(Message, frozen=True, gc=False):
    """Voter → candidate; leaves only when the vote is durable. A refusal is silence. ``incarnation``: whose vote."""

    term: Term
    ballot: int
    incarnation: bytes = bytes(16)


class PreVote(Message, frozen=True, gc=False):
    """Would you vote for me in ``term``? Changes nothing there (Raft thesis §9.6). ``listed``: as RequestVote."""

    term: Term
    round: int
    last_index: Index
    last_term: Term
    listed: bytes = bytes(16)


class PreVoteAnswer(Message, frozen=True, gc=False):
    """``term`` is the voter's own: the asker adopts it if higher."""

    term: Term
    round: int
    granted: bool


class TermNotice(Message, frozen=True, gc=False):
    """You are behind: this is my term."""

    term: Term


class Alive(Message, frozen=True, gc=False):
    """A sign of life of a follower whose acks wait for its disk; vouches for nothing durable."""

    term: Term


class ReadProbe(Message, frozen=True, gc=False):
    """Is there a later term than mine? (Raft thesis §6.4, read index.)"""

    term: Term
    round: int


class ReadProbeAnswer(Message, frozen=True, gc=False):
    """``ok``: the answering voter knew no later term."""

    term: Term
    round: int
    ok: bool


class ReadAsk(Message, frozen=True, gc=False):
    """Follower → leader: from which index on do I know all that was committed before I asked? ``counts``: the asker's
    own word (it knows no later term than ``term``) may be counted towards the majority.
    """

    term: Term
    round: int
    counts: bool


class ReadIndexIs(Message, frozen=True, gc=False):
    """The answer to a ReadAsk; index 0: the asked node does not lead in that term, or could not prove it."""

    term: Term
    round: int
    index: Index


class TimeoutNow(Message, frozen=True, gc=False):
    """Leader → its successor: campaign at once (Raft thesis §3.10)."""

    term: Term


class RejoinAsk(Message, frozen=True, gc=False):
    """A node that lost its journal → every voter: what is your term?"""

    nonce: int


class RejoinTerm(Message, frozen=True, gc=False):
    """The answer; worthless when the answering node is itself ``voting`` False."""

    nonce: int
    term: Term
    voting: bool


class RejoinRead(Message, frozen=True, gc=False):
    """A node that lost its journal → the leader: forget my acks, then tell me a read index."""

    nonce: int
    term: Term


class RejoinIndex(Message, frozen=True, gc=False):
    """The read index, taken after the leader forgot the asker's acks."""

    nonce: int
    index: Index


class SnapshotBegin(Message, frozen=True, gc=False):
    """Leader → a follower behind its journal: state as of ``index`` is coming. ``next_offset`` events precede it."""

    term: Term
    snapshot_id: int
    index: Index
    index_term: Term
    next_offset: int
    time_ms: int


class NeedState(Message, frozen=True, gc=False):
    """A node that lost its store but not its log → the leader: send your state, of ``index`` or later, although my log
    matches yours. Repeated until a snapshot begins.
    """

    term: Term
    index: Index


class YouLost(Message, frozen=True, gc=False):
    """Leader → a follower whose answer proves that it lost what it had acknowledged in this very term: come back as one
    that lost its journal. Repeated while the follower's acks say that they count.
    """

    term: Term
    index: Index


class SnapshotChunk(Message, frozen=True, gc=False):
    """Chunk ``number`` (from 0). Layout of ``payload``: consensus/raft/snapshots.py. The last chunk says so."""

    term: Term
    snapshot_id: int
    number: int
    kind: int
    last: bool
    payload: bytes


SNAPSHOT_ARRIVING, SNAPSHOT_DONE, SNAPSHOT_UNKNOWN = 0, 1, 2


class SnapshotAck(Message, frozen=True, gc=False):
    """Follower → leader: chunks below ``next_chunk`` arrived. ``have_offset``: where the newest batch begins that the
    follower had. ``status``: arriving; done (the journal covers the snapshot's index, durably); unknown (begin again).
    """

    term: Term
    snapshot_id: int
    next_chunk: int
    have_offset: int
    status: int


_APPEND = struct.Struct("!BQQQQQI")
_ENTRY = struct.Struct("!QII")
_CHUNK = struct.Struct("!BQQQBBI")
_TERM = struct.Struct("!Q")
_TYPE_APPEND = 1
_TYPE_CHUNK = 17

_FIXED: dict[int, tuple[type[Message], struct.Struct]] = {
    2: (Ack, struct.Struct("!BQQQ???")),
    3: (RequestVote, struct.Struct("!BQQQQ?16s")),
    4: (VoteGranted, struct.Struct("!BQQ16s")),
    5: (PreVote, struct.Struct("!BQQQQ16s")),
    6: (PreVoteAnswer, struct.Struct("!BQQ?")),
    7: (TermNotice, struct.Struct("!BQ")),
    8: (Alive, struct.Struct("!BQ")),
    9: (ReadProbe, struct.Struct("!BQQ")),
    10: (ReadProbeAnswer, struct.Struct("!BQQ?")),
    11: (TimeoutNow, struct.Struct("!BQ")),
    12: (RejoinAsk, struct.Struct("!BQ")),
    13: (RejoinTerm, struct.Struct("!BQQ?")),
    14: (RejoinRead, struct.Struct("!BQQ")),
    15: (RejoinIndex, struct.Struct("!BQQ")),
    16: (SnapshotBegin, struct.Struct("!BQQQQQQ")),
    18: (SnapshotAck, struct.Struct("!BQQQQB")),
    19: (ReadAsk, struct.Struct("!BQQ?")),
    20: (ReadIndexIs, struct.Struct("!BQQQ")),
    24: (NeedState, struct.Struct("!BQQ")),
    25: (YouLost, struct.Struct("!BQQ")),
}
"""Messages that are only numbers, in the order of their fields."""

_TERMS = frozenset({"term", "last_term", "index_term"})


_DIRECTORIES = frozenset({"listed", "incarnation"})
"""Fields that are no numbers; they come last."""


def _limits(cls: type[Message]) -> tuple[int, ...]:
    numbers = [name for name in cls.__struct_fields__ if name not in _DIRECTORIES]
    return tuple(TERM_MAX if name in _TERMS else NUMBER_MAX for name in numbers)


_LIMITS = {number: _limits(cls) for number, (cls, _) in _FIXED.items()}


def _packer(cls: type[Message], number: int, layout: struct.Struct) -> Callable[[Any], bytes]:
    pack = layout.pack
    return lambda message: pack(number, *astuple(message))


_PACKERS = {cls: _packer(cls, number, layout) for number, (cls, layout) in _FIXED.items()}


def encode(message: Message) -> bytes:
    """The frame of any message."""
    if isinstance(message, AppendEntries):
        return append_frame(message, encode_entries(message.entries), len(message.entries))
    if isinstance(message, SnapshotChunk):
        head = _CHUNK.pack(
            _TYPE_CHUNK, message.term, message.snapshot_id, message.number, message.kind, message.last,
            zlib.crc32(message.payload),
        )  # fmt: skip
        return head + message.payload
    return _PACKERS[type(message)](message)


@native
def encode_entries(entries: Entries) -> bytes:
    """The entries part of an AppendEntries frame; the same bytes serve every follower."""
    parts: list[bytes] = []
    for _, term, entry in entries:
        parts.append(_ENTRY.pack(term, len(entry), zlib.crc32(entry, zlib.crc32(_TERM.pack(term)))))
        parts.append(entry)
    return b"".join(parts)


def append_frame(head: AppendEntries, entries: bytes, count: int) -> bytes:
    """``head`` (its own ``entries`` are ignored) with ``count`` entries encoded before."""
    return (
        _APPEND.pack(_TYPE_APPEND, head.term, head.seq, head.prev_index, head.prev_term, head.commit, count) + entries
    )


def decode(frame: bytes) -> Message:
    """One consensus message. Raises PeerError for anything else, an app frame included."""
    kind = frame[0] if frame else 0
    fixed = _FIXED.get(kind)
    if fixed is not None:
        cls, layout = fixed
        if len(frame) != layout.size:
            raise PeerError(f"{cls.__name__} of {len(frame)} bytes instead of {layout.size}")
        values = layout.unpack(frame)[1:]
        if True in map(operator.gt, values, _LIMITS[kind]):
            raise PeerError(f"{cls.__name__} with a number that no log can hold: {values}")
        return cls(*values)
    if kind == _TYPE_APPEND:
        return _decode_append(frame)
    if kind == _TYPE_CHUNK:
        return _decode_chunk(frame)
    raise PeerError(f"unknown consensus frame type {kind}" if frame else "empty frame")


def _decode_append(frame: bytes) -> AppendEntries:
    if len(frame) < _APPEND.size:
        raise PeerError("AppendEntries cut short")
    _, term, seq, prev_index, prev_term, commit, count = _APPEND.unpack_from(frame)
    if count > ENTRIES_MAX or max(seq, prev_index, commit) > NUMBER_MAX or max(term, prev_term) > TERM_MAX:
        raise PeerError("AppendEntries with a number out of bounds")
    entries = split_entries(frame, _APPEND.size, count, prev_index, ENTRY_BYTES_MAX, TERM_MAX)
    newest = prev_term
    for index, entry_term, _ in entries:
        if not newest <= entry_term <= term:  # Terms never fall along a log, and its leader's is the last.
            raise PeerError(f"entry {index} of term {entry_term}, behind term {newest}, from a leader of term {term}")
        newest = entry_term
    return AppendEntries(term, seq, prev_index, prev_term, commit, entries)


@native
def split_entries(
    frame: bytes, at: int, count: int, index: int, bytes_max: int, term_max: int
) -> tuple[tuple[Index, Term, bytes], ...]:
    """The ``count`` entries from ``at`` to the end of an AppendEntries frame, the first behind ``index``.

    Raises PeerError, also for an entry above ``bytes_max``, or of a term above ``term_max``.
    """
    entries: list[tuple[Index, Term, bytes]] = []
    end = len(frame)
    for _ in range(count):
        start = at + _ENTRY.size
        if start > end:
            raise PeerError("AppendEntries cut short")
        entry_term, size, crc = _ENTRY.unpack_from(frame, at)
        at = start + size
        if at > end or size > bytes_max or size == 1 or entry_term > term_max:
            raise PeerError("entry length or term out of bounds")
        entry = frame[start:at]
        if zlib.crc32(entry, zlib.crc32(_TERM.pack(entry_term))) != crc:
            raise PeerError(f"entry {index + 1} fails its CRC")
        index += 1
        entries.append((Index(index), Term(entry_term), entry))
    if at != end:
        raise PeerError("bytes after the last entry")
    return tuple(entries)


def _decode_chunk(frame: bytes) -> SnapshotChunk:
    if len(frame) < _CHUNK.size:
        raise PeerError("SnapshotChunk cut short")
    _, term, snapshot_id, number, kind, last, crc = _CHUNK.unpack_from(frame)
    payload = frame[_CHUNK.size :]
    if kind > 1 or last > 1 or max(snapshot_id, number) > NUMBER_MAX or term > TERM_MAX:
        raise PeerError("SnapshotChunk with a field out of bounds")
    if zlib.crc32(payload) != crc:
        raise PeerError(f"snapshot chunk {number} fails its CRC")
    return SnapshotChunk(term, snapshot_id, number, kind, bool(last), payload)


def app_frame(kind: int, payload: bytes) -> bytes:
    """A frame of the controller's own. ``kind`` 64–255. Raises UsageError for another."""
    if not APP_TYPE_MIN <= kind <= 255:
        raise UsageError(f"app frame type {kind} is not in 64–255")
    return bytes((kind,)) + payload


def is_app_frame(frame: bytes) -> bool:
    """Does the frame belong to the controller (``frame[0]`` is its type, the rest its payload)?"""
    return len(frame) > 0 and frame[0] >= APP_TYPE_MIN


HELLO_VERSION = 2
"""1: frames without tags. A peer of another version is refused by name: the two cannot speak on one link."""
_HELLO = struct.Struct("!BBQQ16s16s16sII32sB")
NO_LIFE: Final = bytes(16)
"""Sent by a voter that has met no life of the other."""
TYPE_HELLO = 32
_TYPE_PROOF = 33
_TYPE_REFUSED = 34
_TYPE_WELCOME = 35

RefusedReason = Literal[
    "version", "cluster id", "node id", "directory", "features", "cluster key", "malformed", "busy", "deadline",
    "frame tag", "life",
]  # fmt: skip
_REASONS: tuple[RefusedReason, ...] = (
    "version", "cluster id", "node id", "directory", "features", "cluster key", "malformed", "busy", "deadline",
    "frame tag", "life",
)  # fmt: skip


class Hello(Message, frozen=True, gc=False):
    """Who is speaking and to whom. ``dir_uuid`` 16 bytes names the data directory, ``nonce`` 32 bytes are fresh.

    ``life`` 16 bytes is this start of it; ``met``, said by who is dialed, the life it met last of the other's
    directory, or zeros (consensus/raft/lives.py).
    """

    cluster_id: str
    node_id: NodeId
    to_node_id: NodeId
    dir_uuid: bytes
    feature_min: int
    feature_max: int
    nonce: bytes
    life: bytes = bytes(16)
    met: bytes = bytes(16)


class Proof(Message, frozen=True, gc=False):
    """HMAC-SHA-256 over role and both hellos, under the cluster key."""

    mac: bytes


class Refused(Message, frozen=True, gc=False):
    """Why the connection is about to close."""

    reason: RefusedReason


class Welcome(Message, frozen=True, gc=False):
    """The dialer is proven; frames may follow."""


HelloMessage = Hello | Proof | Refused | Welcome


def encode_hello(message: HelloMessage) -> bytes:
    """The frame of a hello part. Raises UsageError when a field does not fit."""
    match message:
        case Hello():
            name = message.cluster_id.encode()
            if len(name) > CLUSTER_ID_BYTES or {len(message.dir_uuid), len(message.life), len(message.met)} != {16}:
                raise UsageError("a cluster id above 255 bytes, or a directory or life of another length than 16")
            if len(message.nonce) != 32:
                raise UsageError("a nonce of another length than 32")
            head = _HELLO.pack(
                TYPE_HELLO, HELLO_VERSION, message.node_id, message.to_node_id, message.dir_uuid,
                message.life, message.met, message.feature_min, message.feature_max, message.nonce, len(name),
            )  # fmt: skip
            return head + name
        case Proof():
            return bytes((_TYPE_PROOF,)) + message.mac
        case Refused():
            return bytes((_TYPE_REFUSED, _REASONS.index(message.reason)))
        case Welcome():
            return bytes((_TYPE_WELCOME,))


def decode_hello(frame: bytes) -> HelloMessage:
    """One part of the hello. Raises PeerError for anything else."""
    kind = frame[0] if frame else 0
    if kind == TYPE_HELLO:
        return _decode_hello(frame)
    if kind == _TYPE_PROOF and len(frame) == 33:
        return Proof(frame[1:])
    if kind == _TYPE_REFUSED and len(frame) == 2 and frame[1] < len(_REASONS):
        return Refused(_REASONS[frame[1]])
    if kind == _TYPE_WELCOME and len(frame) == 1:
        return Welcome()
    raise PeerError("not a hello")


def _decode_hello(frame: bytes) -> Hello:
    if len(frame) < _HELLO.size or len(frame) != _HELLO.size + frame[_HELLO.size - 1]:
        raise PeerError("hello of the wrong length")
    _, version, node, to_node, directory, life, met, low, high, nonce, _ = _HELLO.unpack_from(frame)
    if version != HELLO_VERSION:
        raise PeerError(f"hello version {version}, this node speaks {HELLO_VERSION}")
    try:
        cluster_id = frame[_HELLO.size :].decode()
    except UnicodeDecodeError as error:
        raise PeerError("cluster id is not UTF-8") from error
    return Hello(cluster_id, node, to_node, directory, low, high, nonce, life, met)
