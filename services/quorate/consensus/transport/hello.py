"""The hello of two voters: who dials proves itself to who is dialed, and the other way round. Sans-I/O.

Rules: nothing is heard on a connection before both sides proved that they hold the cluster key, over nonces of this
connection; cluster, node, directory and features must agree, and what does not is refused *by name*. Each side makes
durable what it learns of lives before its last word (consensus/raft/lives.py).

Theory. The dialer sends ``Hello`` (D); the acceptor answers ``Hello`` (A) and ``Proof`` HMAC(key, "A" D A); the dialer
checks, sends ``Proof`` HMAC(key, "D" D A); the acceptor checks, sends ``Welcome``. D names the dialer's life, A the one
met before it. Both nonces are in D and A, so neither proof can be replayed, and the role letter keeps one from being
reflected. The keys of the tags that follow are made of the same two frames.
"""

import hashlib
import hmac
from collections.abc import Callable, Container
from typing import Generic, Protocol, TypeVar

import msgspec

from quorate.consensus.ports import NodeId
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import NO_LIFE, Hello, HelloMessage, Proof, Refused, RefusedReason, Welcome
from quorate.consensus.transport.packets import Tags
from quorate.errors import PeerError, UsageError

_DIALER, _ACCEPTOR = b"D", b"A"


class PeerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who this node says it is. ``dir_uuid``: 16 bytes, made with the data directory. ``key``: the cluster's secret."""

    cluster_id: str
    node_id: NodeId
    dir_uuid: bytes
    key: bytes
    feature_min: int = 1
    feature_max: int = 1

    def __post_init__(self) -> None:
        """Raise UsageError for what could never be proven."""
        if not self.key:
            raise UsageError("the cluster key is empty")
        if len(self.dir_uuid) != 16 or self.feature_min > self.feature_max:
            raise UsageError("a directory uuid has 16 bytes, and feature_min is at most feature_max")


def _keeps_nothing(_peer: NodeId, _inc: bytes, _life: bytes, _told: bytes, done: Callable[[], None]) -> bool:
    done()
    return True


class PeerHandlers(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told. All on the loop. ``frame`` may raise PeerError: the connection is dropped."""

    frame: Callable[[NodeId, bytes], None]
    connected: Callable[[NodeId], None]
    disconnected: Callable[[NodeId], None]
    refused: Callable[[NodeId | None, RefusedReason], None] = lambda _peer, _reason: None
    turned_away: Callable[[NodeId, RefusedReason], None] = lambda _peer, _reason: None
    """A peer would not have us, and says why."""
    directory_of: Callable[[NodeId], bytes | None] = lambda _peer: None
    """The directory uuid a peer must have; None: any."""

    life: Callable[[], bytes] = lambda: NO_LIFE
    """This start of ours (consensus/raft/lives.py)."""
    met: Callable[[NodeId, bytes], bytes] = lambda _peer, _incarnation: NO_LIFE
    """The life met last of a peer's directory."""
    judge: Callable[[NodeId, bytes, Callable[[], None]], None] = lambda _peer, _told, done: done()
    """A peer tells which life of ours it met last; the last argument is called when it may hear this one."""
    meet: Callable[[NodeId, bytes, bytes, bytes, Callable[[], None]], bool] = _keeps_nothing
    """A proven peer's directory, its life, which life it was told, and what to call when that is durable. False: it
    must be told of another life first."""


def proof(key: bytes, role: bytes, dialer_hello: bytes, acceptor_hello: bytes) -> bytes:
    """HMAC-SHA-256 over the role and both hello frames, 32 bytes."""
    return hmac.digest(key, role + dialer_hello + acceptor_hello, hashlib.sha256)


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """One voter, as it says hello. ``peers``: ids of the others. ``nonce`` makes 32 bytes that were never used."""

    identity: PeerIdentity
    peers: Container[NodeId]
    handlers: PeerHandlers
    nonce: Callable[[], bytes]

    def is_named(self, peer: NodeId | None, incarnation: bytes | None) -> bool:
        """Is this still the peer's directory? The log may have named another since it said hello."""
        known = None if peer is None else self.handlers.directory_of(peer)
        return known is None or known == incarnation

    def judge(self, hello: Hello) -> RefusedReason | None:
        """Why a hello for this node cannot be accepted; None if it can. Whether it is *true* the proof will show."""
        own = self.identity
        if hello.cluster_id != own.cluster_id:
            return "cluster id"
        if hello.to_node_id != own.node_id or hello.node_id == own.node_id:
            return "node id"
        if not self.is_named(hello.node_id, hello.dir_uuid):
            return "directory"
        if hello.feature_max < own.feature_min or hello.feature_min > own.feature_max:
            return "features"
        return None

    def hello_to(self, peer: NodeId, met: bytes = NO_LIFE) -> Hello:
        """With a fresh nonce. ``met``: the life met last of the peer, told to one that dialed."""
        own = self.identity
        return Hello(
            own.cluster_id,
            own.node_id,
            peer,
            own.dir_uuid,
            own.feature_min,
            own.feature_max,
            self.nonce(),
            self.handlers.life(),
            met,
        )


class Wire(Protocol):
    """The connection below one end of a hello."""

    ended: bool

    def say(self, *messages: HelloMessage) -> None:
        """Send parts of the hello."""

    def refuse(self, reason: RefusedReason, error: str = "") -> None:
        """Name the reason to the other side, and end the connection."""

    def turned_away(self, reason: RefusedReason) -> None:
        """The other side refuses, and has proven nothing if it dialed: end the connection."""

    def opened(self, incoming: Tags, outgoing: Tags) -> None:
        """Both sides are proven; from here on everything is under a tag."""

    def end(self) -> None:
        """Close the connection without a word."""


class Acceptor:
    """The end that was dialed. ``handle`` takes the parts of the hello; whatever else it raises PeerError for."""

    def __init__(self, party: Party, wire: Wire) -> None:
        self._party, self._wire = party, wire
        self._proof_wanted: bytes | None = None
        self._proven = False
        self._hellos = b"", b""
        self._life = self._told = NO_LIFE
        self.peer: NodeId | None = None
        self.incarnation: bytes | None = None

    @property
    def greeted(self) -> bool:
        """The other named a cluster and a voter that are right; its proof is due."""
        return self._proof_wanted is not None

    def handle(self, frame: bytes) -> None:
        """Hello, then proof; it is open once the life that speaks is kept."""
        if self._proof_wanted is None:
            self._answer(frame)
            return
        if self._proven:
            raise PeerError("hello parts out of order")
        message = codec.decode_hello(frame)
        if isinstance(message, Refused):
            self._wire.turned_away(message.reason)
            return
        if not isinstance(message, Proof) or not hmac.compare_digest(message.mac, self._proof_wanted):
            self._wire.refuse("cluster key")
            return
        self._proven = True
        if self.peer is None or self.incarnation is None:
            raise PeerError("a proof without a hello")
        if not self._party.is_named(self.peer, self.incarnation):  # Nor is its life kept in the place of another's.
            self._wire.refuse("directory")
            return
        if not self._party.handlers.meet(self.peer, self.incarnation, self._life, self._told, self._welcome):
            self._wire.refuse("life")

    def _welcome(self) -> None:
        """Who it is, and in which life, is kept: it may speak, unless the log names another one by now."""
        if self._wire.ended:
            return
        if not self._party.is_named(self.peer, self.incarnation):
            self._wire.refuse("directory")
            return
        self._wire.say(Welcome())
        key = self._party.identity.key
        self._wire.opened(Tags(key, _DIALER, *self._hellos), Tags(key, _ACCEPTOR, *self._hellos))

    def _answer(self, frame: bytes) -> None:
        party, own = self._party, self._party.identity
        if len(frame) > 1 and frame[0] == codec.TYPE_HELLO and frame[1] != codec.HELLO_VERSION:
            self._wire.refuse("version")
            return
        hello = codec.decode_hello(frame)
        if not isinstance(hello, Hello):
            raise PeerError("the first frame is no hello")
        is_peer = hello.node_id in party.peers
        self.peer = hello.node_id if is_peer else None
        self.incarnation = hello.dir_uuid
        reason = party.judge(hello)
        if reason is None and not is_peer:
            reason = "node id"
        if reason is not None:
            self._wire.refuse(reason)
            return
        self._life = hello.life
        self._told = party.handlers.met(hello.node_id, hello.dir_uuid)
        answer = party.hello_to(hello.node_id, self._told)
        answer_frame = codec.encode_hello(answer)
        self._hellos = frame, answer_frame
        self._proof_wanted = proof(own.key, _DIALER, frame, answer_frame)
        self._wire.say(answer, Proof(proof(own.key, _ACCEPTOR, frame, answer_frame)))


class Dialer:
    """The end that dialed."""

    def __init__(self, party: Party, wire: Wire, peer: NodeId) -> None:
        self._party, self._wire, self.peer = party, wire, peer
        self.incarnation: bytes | None = None
        self._hello = b""
        self._answer = b""
        self._told = NO_LIFE
        self._proven = self._open = False

    def greet(self) -> None:
        """The dialer speaks first."""
        hello = self._party.hello_to(self.peer)
        self._hello = codec.encode_hello(hello)
        self._wire.say(hello)

    def handle(self, frame: bytes) -> None:
        """Hello, proof, welcome; then nothing but a refusal may come back."""
        message = codec.decode_hello(frame)
        match message:
            case Refused():
                self._wire.turned_away(message.reason)
            case Hello() if not self._answer:
                self._check(message, frame)
            case Proof() if self._answer and not self._proven:
                self._prove(message)
            case Welcome() if self._proven and not self._open:
                if not self._party.is_named(self.peer, self.incarnation):  # For the other end it is open already.
                    self._wire.end()
                    return
                self._open = True
                key, hellos = self._party.identity.key, (self._hello, self._answer)
                self._wire.opened(Tags(key, _ACCEPTOR, *hellos), Tags(key, _DIALER, *hellos))
            case _:
                raise PeerError("hello parts out of order")

    def _check(self, hello: Hello, frame: bytes) -> None:
        party = self._party
        self._answer = frame
        self._told = hello.met
        self.incarnation = hello.dir_uuid
        reason = party.judge(hello)
        if hello.node_id != self.peer:
            reason = "node id"
        if reason is not None:
            self._wire.refuse(reason)

    def _prove(self, message: Proof) -> None:
        key = self._party.identity.key
        if not hmac.compare_digest(message.mac, proof(key, _ACCEPTOR, self._hello, self._answer)):
            self._wire.refuse("cluster key")
            return
        self._proven = True
        if not self._party.is_named(self.peer, self.incarnation):
            self._wire.refuse("directory")
            return
        self._party.handlers.judge(self.peer, self._told, self._prove_ourselves)

    def _prove_ourselves(self) -> None:
        """What the peer told of an earlier life, if anything, is durable here: it may keep this one."""
        if not self._wire.ended:
            self._wire.say(Proof(proof(self._party.identity.key, _DIALER, self._hello, self._answer)))


class Proven(Protocol):
    """A connection, as ``Links`` sees it."""

    @property
    def peer(self) -> NodeId | None:
        """Who is at the other end."""

    @property
    def incarnation(self) -> bytes | None:
        """Its directory."""

    def refuse(self, reason: RefusedReason, error: str = "") -> None:
        """Name the reason to the other side, and end the connection."""

    def end(self) -> None:
        """Close it; what is written still leaves."""


LinkT = TypeVar("LinkT", bound=Proven)


class Links(Generic[LinkT]):
    """The proven connections of a voter: of each peer one that it dialed, and one to it. A peer is heard on the newest
    alone.
    """

    def __init__(self) -> None:
        self.inbound: dict[NodeId, LinkT] = {}
        self.outbound: dict[NodeId, LinkT] = {}

    def heard(self, link: LinkT) -> None:
        """A peer proved itself; an older connection of the same peer is dead or about to be."""
        if link.peer is not None:
            older = self.inbound.get(link.peer)
            self.inbound[link.peer] = link
            if older is not None:
                older.end()

    def lost(self, link: LinkT) -> bool:
        """It is down. Was it in use, and is nothing left now?"""
        peer = link.peer
        if peer is None:
            return False
        for links in (self.inbound, self.outbound):
            if links.get(peer) is link:
                del links[peer]
                return peer not in self.inbound and peer not in self.outbound
        return False

    def judge_again(self, party: Party) -> None:
        """The log names other directories now: who is not the one it names is no peer."""
        for link in [*self.outbound.values(), *self.inbound.values()]:
            if link.incarnation is not None and not party.is_named(link.peer, link.incarnation):
                link.refuse("directory")
