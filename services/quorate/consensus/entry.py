"""The bytes of one Raft entry: what was decided, in which term, at which offset.

Rules: encoded once, by the leader, when it proposes; journal, peers and store see only the bytes. The checksum is the
business of who carries the bytes (journal frame, peer frame). An entry that does not decode never came from us: it is
a typed error, and a node that must apply it stops. ``b""`` is Raft's own no-op and no ``Entry``.

Format 3, little-endian: version u8, kind u8, lengths of principal, cause, request id and reply u16 each, count u32,
length of the batch u32, decided term u64, base offset u64, time_ms u64; then the five byte strings in that order.
Format 2 is the same with the digest (16 bytes) at the end; only an entry that has one is written in it. Format 1 is
laid out like 3 and only read: the machine makes of it what it made when it was written (see ``stepped``).
"""

from struct import Struct as Layout
from struct import error as StructError  # noqa: N812 - a class, whatever its name says
from typing import Literal

import msgspec

from quorate.consensus.ports import MAX_ENTRY_BYTES, Term
from quorate.errors import PeerError, UsageError
from quorate.leaf import native

EntryKind = Literal["events", "groups", "membership"]

FIRST, WITH_DIGEST, FORMAT = 1, 2, 3
DIGEST_BYTES = 16
MAX_REPLY_BYTES = 1024

_HEAD = Layout("<BBHHHHIIQQQ")
_KINDS: tuple[EntryKind, ...] = ("events", "groups", "membership")
_CODES: dict[EntryKind, int] = {kind: code for code, kind in enumerate(_KINDS, start=1)}
EVENTS = _CODES["events"]


class EntryFormatError(PeerError):
    """These bytes are no entry of a version we know."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One decision. ``kind`` ``events`` carries a Kafka record batch v2; the other kinds carry their own payload."""

    kind: EntryKind
    decided_term: Term
    """Term in which the leader decided; valid only if stored under this same term."""
    base_offset: int
    """Offset of its first event; valid only if it is the next one when applied."""
    count: int = 0
    """Events in ``batch``."""
    time_ms: int = 0
    """When it was decided, wall-clock milliseconds since the Unix epoch."""
    principal: str = ""
    cause: str = ""
    request_id: str = ""
    reply: bytes = b""
    """Msgpack of the reply, kept for a retry; at most 1 KiB, and only with a ``request_id``."""
    batch: bytes = b""
    digest: bytes = b""
    """Of the command (metadata/requests.py), by which another one under the same id is told apart; 16 bytes, and only
    with a ``request_id``. Empty in entries of builds that had none.
    """
    stepped: bool = True
    """A long step of time before it counts as an ordinary one (metadata/requests.py). Not in entries of format 1."""


def encode_entry(entry: Entry, max_bytes: int = MAX_ENTRY_BYTES) -> bytes:
    """The bytes to propose. Raises UsageError if a part or the whole is too long, or a number does not fit."""
    reply, digest, request_id = entry.reply, entry.digest, entry.request_id
    if len(reply) > MAX_REPLY_BYTES or (reply and not request_id):
        raise UsageError(f"a reply is kept only with a request id and up to {MAX_REPLY_BYTES} bytes")
    if digest and (len(digest) != DIGEST_BYTES or not request_id or not entry.stepped):
        raise UsageError(f"a digest is kept only with a request id, not in format 1, and has {DIGEST_BYTES} bytes")
    data = entry_bytes(
        FIRST if not entry.stepped else WITH_DIGEST if digest else FORMAT,
        _CODES[entry.kind],
        entry.count,
        entry.decided_term,
        entry.base_offset,
        entry.time_ms,
        entry.principal,
        entry.cause,
        request_id,
        reply,
        entry.batch,
        digest,
    )
    if len(data) > max_bytes:
        raise too_long(data, max_bytes)
    return data


def too_long(data: bytes, max_bytes: int) -> UsageError:
    """What is said of an entry that is."""
    return UsageError(f"entry of {len(data)} bytes exceeds the limit of {max_bytes}")


@native
def entry_bytes(
    version: int,
    kind: int,
    count: int,
    term: int,
    base_offset: int,
    time_ms: int,
    principal: str,
    cause: str,
    request_id: str,
    reply: bytes,
    batch: bytes,
    digest: bytes,
) -> bytes:
    """Head and parts as they lie in an entry. Raises UsageError for what its field cannot hold."""
    who, why, which = principal.encode(), cause.encode(), request_id.encode()
    try:
        head = _HEAD.pack(
            version, kind, len(who), len(why), len(which), len(reply), count, len(batch), term, base_offset, time_ms
        )
    except StructError as error:
        raise UsageError(f"entry does not fit its format: {error}") from error
    return b"".join((head, who, why, which, reply, batch, digest))


def decode_entry(data: bytes, max_bytes: int = MAX_ENTRY_BYTES) -> Entry:
    """The entry in ``data``, all of it. Raises EntryFormatError."""
    return Entry(*entry_parts(data, max_bytes, MAX_REPLY_BYTES, _KINDS))  # By position: half the time.


@native
def entry_parts(
    data: bytes, max_bytes: int, reply_max: int, kinds: tuple[EntryKind, ...]
) -> tuple[EntryKind, Term, int, int, int, str, str, str, bytes, bytes, bytes, bool]:
    """The fields of the ``Entry`` in ``data``, in their order. Raises EntryFormatError."""
    if not _HEAD.size <= len(data) <= max_bytes:
        raise EntryFormatError(f"an entry has {_HEAD.size} to {max_bytes} bytes, not {len(data)}")
    version, code, principals, causes, ids, replies, count, batches, term, base, time_ms = _HEAD.unpack_from(data)
    if not FIRST <= version <= FORMAT or not 1 <= code <= len(kinds):
        raise EntryFormatError(f"unknown entry version {version} or kind {code}")
    cause_at = _HEAD.size + principals
    id_at = cause_at + causes
    reply_at = id_at + ids
    batch_at = reply_at + replies
    batch_end = batch_at + batches
    tail = DIGEST_BYTES if version == WITH_DIGEST else 0
    if batch_end + tail != len(data) or replies > reply_max or ((replies or tail) and not ids):
        raise EntryFormatError("lengths of an entry do not add up")
    try:
        return (
            kinds[code - 1],
            term,
            base,
            count,
            time_ms,
            data[_HEAD.size : cause_at].decode(),
            data[cause_at:id_at].decode(),
            data[id_at:reply_at].decode(),
            data[reply_at:batch_at],
            data[batch_at:batch_end],
            data[batch_end:],
            version != FIRST,
        )
    except UnicodeDecodeError as error:
        raise EntryFormatError(f"text of an entry is not UTF-8: {error}") from error
