"""What controllers say to each other over the peer link, beside consensus: forwarded commands, witnesses.

Rules: one hop (a node never forwards what was forwarded to it); typed msgpack, decoded strictly: a malformed message is
a PeerError and changes nothing.
"""

from typing import Final

import msgspec

from quorate.controller.outcomes import Answered, Busy, Caller, NotLeader, Refused, Unavailable, UnknownOutcome
from quorate.errors import PeerError
from quorate.metadata.commands import Command


class ForwardedCommand(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Please decide this for my caller, within ``patience_ms`` from now."""

    id: int
    patience_ms: int
    caller: Caller
    cause: str
    request_id: str
    command: Command


class CommandOutcome(msgspec.Struct, frozen=True, gc=False, tag=True):
    """How a forwarded command ended."""

    id: int
    outcome: Answered | Refused | NotLeader | Busy | Unavailable | UnknownOutcome


class BrokersClosed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A witness: the channels of these brokers to me closed too. (Cluster, broker set, broker id) each."""

    brokers: tuple[tuple[str, str, int], ...]


class QuorumQuestion(msgspec.Struct, frozen=True, gc=False, tag=True):
    """You lead, I think: how far is every voter?"""

    id: int


class VoterIs(msgspec.Struct, frozen=True, gc=False):
    """One voter, as the leader knows it."""

    node_id: int
    last_index: int
    """Of its log, durable."""
    silent_ms: int
    """Since the leader last heard of it."""


class QuorumIs(msgspec.Struct, frozen=True, gc=False):
    """The quorum, by its leader."""

    leader: int
    term: int
    commit_index: int
    voters: tuple[VoterIs, ...]


class QuorumAnswer(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The answer; None: I do not lead."""

    id: int
    quorum: QuorumIs | None


Message = ForwardedCommand | CommandOutcome | BrokersClosed | QuorumQuestion | QuorumAnswer

KIND: Final = 64
"""The peer-link frame type of every message here (consensus keeps 0–63 for itself)."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Bytes for the peer link."""
    return _encoder.encode(message)


def decode(payload: bytes) -> Message:
    """A message from a peer. Raises PeerError."""
    try:
        return _decoder.decode(payload)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise PeerError(f"malformed controller message: {error}") from error
