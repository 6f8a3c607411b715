"""What controllers say to each other over the peer link, beside consensus: forwarded commands, closed channels.

Rules: one hop (a node never forwards what was forwarded to it); typed msgpack, decoded strictly: a malformed message is
a PeerError and changes nothing.
"""

from typing import Annotated, Final

import msgspec

from quorate.controller.outcomes import Answered, Busy, Caller, NotLeader, Refused, Unavailable, UnknownOutcome
from quorate.errors import PeerError
from quorate.metadata.commands import Command

TIME_MS_MAX: Final = 10**15
"""As an id of a request may say (metadata/requests.py): some thirty thousand years."""


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
    """The sender's channels to these brokers closed too. (Cluster, broker set, broker id) each."""

    brokers: tuple[tuple[str, str, int], ...]


class DiskIsLow(msgspec.Struct, frozen=True, gc=False, tag=True):
    """My disk has less free than the floor (space.py); said again each period while it is so."""

    free_bytes: int


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


class SumsAt(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a node's rows added up to once the entry at ``index`` was applied (metadata/sums.py)."""

    index: int
    term: int
    """Of the entry."""
    offset: int
    rows: bytes
    whole: bytes


class SumsAre(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The leader's, and which nodes it knows to have been wrong, in sentences by node id."""

    sums: SumsAt
    gone: tuple[tuple[int, str], ...] = ()


class SumsAsked(msgspec.Struct, frozen=True, gc=False, tag=True):
    """What are yours at this entry? Answered by ``SumsOf``."""

    index: int


class SumsOf(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Mine, at an entry that was asked for or differs; None: not known any more. ``proved``: my events, folded anew,
    say the same. ``gone``: I was wrong and stop, in a sentence.
    """

    index: int
    sums: SumsAt | None
    proved: bool = False
    gone: str = ""


class StateIsWrong(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A majority of voters, these, has these sums at an entry, and you have others: stop."""

    index: int
    agree: tuple[int, ...]
    sums: SumsAt


class ClockIs(msgspec.Struct, frozen=True, gc=False, tag=True):
    """What my clock says as this leaves."""

    time_ms: Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)]


SumsMessage = SumsAre | SumsAsked | SumsOf | StateIsWrong
VotersSay = QuorumQuestion | QuorumAnswer | ClockIs | DiskIsLow
Message = ForwardedCommand | CommandOutcome | BrokersClosed | VotersSay | SumsMessage

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
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(f"malformed controller message: {error}") from error
