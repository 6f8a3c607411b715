"""The links between voters: TCP, each direction its own connection, every peer proven before its first frame is read.

Rules: a node dials every peer and sends only on the connection it dialed; it receives on those it accepted. A
connection carries nothing before both sides proved that they hold the cluster key, over nonces of this connection;
cluster, node, directory and features must agree, and what does not is refused *by name*, to the other side and in
the log. Lengths are limited, tightly before the proof; the hello has a deadline; what a slow peer does not take is
dropped with its connection rather than kept without bound. After the hello everything is under a tag (``packets``):
what the proven peer did not send in this place is refused as ``frame tag`` and changes nothing. Frames of one loop turn
leave in one write.

Theory. Hello: dialer sends ``Hello`` (D); acceptor answers ``Hello`` (A) and ``Proof`` HMAC(key, "A" D A); dialer
checks, sends ``Proof`` HMAC(key, "D" D A); acceptor checks, sends ``Welcome``. D names the dialer's life, A the one met
before it; each side makes durable what it learns of that before its last word (consensus/lives.py). Both nonces are in
D and A, so neither proof can be replayed, and the role letter keeps one from being reflected. The tags' keys are made
of the same two frames. So nobody on the path can say or change anything; they can read it, unless both ``ssl`` contexts
are given.
"""

import asyncio
import contextlib
import hashlib
import hmac
import random
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import cast

import msgspec
import structlog

from quorate.admission import Admission
from quorate.consensus import codec, packets
from quorate.consensus.codec import Hello, HelloMessage, Proof, Refused, RefusedReason, Welcome
from quorate.consensus.lives import NO_LIFE
from quorate.consensus.packets import LENGTH, TagError, Tags
from quorate.consensus.ports import NodeId
from quorate.consensus.seldom import Seldom
from quorate.consensus.settings import PeerSettings
from quorate.errors import PeerError, UsageError

_DIALER, _ACCEPTOR = b"D", b"A"
_log = structlog.get_logger(__name__)


def _told_refused(**fields: object) -> None:
    _log.warning("peer connection refused", **fields)


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
    """This start of ours (consensus/lives.py)."""
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


def judge_hello(hello: Hello, own: PeerIdentity, directory: bytes | None) -> RefusedReason | None:
    """Why a hello for this node cannot be accepted; None if it can. Whether it is *true* the proof will show."""
    if hello.cluster_id != own.cluster_id:
        return "cluster id"
    if hello.to_node_id != own.node_id or hello.node_id == own.node_id:
        return "node id"
    if directory is not None and hello.dir_uuid != directory:
        return "directory"
    if hello.feature_max < own.feature_min or hello.feature_min > own.feature_max:
        return "features"
    return None


class _Link(asyncio.Protocol):
    """Framing, deadline and refusal of one connection; its ends say what a frame means."""

    def __init__(self, peers: "Peers") -> None:
        self._peers = peers
        self._buffer = bytearray()
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport
        self.peer: NodeId | None = None
        self.incarnation: bytes | None = None
        self.open = False
        self.ended = False
        self.incoming: Tags
        self.outgoing: Tags
        self._size_min, self._size_max = 1, peers.settings.hello_bytes_max
        self._packets = 0
        self._unfinished: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock of the hello."""
        self.transport = cast("asyncio.Transport", transport)
        settings = self._peers.settings
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux.
            opened: socket.socket = transport.get_extra_info("socket")
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(settings.unanswered_s * 1000))
        self._deadline = asyncio.get_running_loop().call_later(settings.hello_timeout_s, self.refuse, "deadline")
        self.greet()

    def greet(self) -> None:
        """What this end says first."""

    def data_received(self, data: bytes) -> None:
        """Cut frames; anything wrong ends this connection and nothing else."""
        buffer = self._buffer
        if buffer:
            buffer += data
            del buffer[: self._cut(buffer)]
        elif (at := self._cut(data)) < len(data):
            buffer += data[at:]
        if buffer and self.open and self._unfinished is None and not self.ended:
            self._watch_packet()

    def _cut(self, data: bytes | bytearray) -> int:
        """Take what is whole; up to where that was."""
        at, end = 0, len(data)
        try:
            while end - at >= LENGTH.size and not self.ended:
                (size,) = LENGTH.unpack_from(data, at)
                if not self._size_min <= size <= self._size_max:
                    raise PeerError(f"{size} bytes announced; {self._size_min} to {self._size_max} are allowed")
                start = at + LENGTH.size
                if end - start < size:
                    break
                at = start + size
                self._take(data, start, at)
        except PeerError as error:
            self.refuse("frame tag" if isinstance(error, TagError) else "malformed", str(error))
        return at

    def _watch_packet(self) -> None:
        """A length is believed before its tag can be checked: a forged one must not silence the link for long."""
        waited = self._packets

        def look() -> None:
            self._unfinished = None
            if self._packets == waited and self._buffer:
                self.refuse("deadline")
            elif self._buffer:
                self._watch_packet()

        self._unfinished = asyncio.get_running_loop().call_later(self._peers.settings.packet_timeout_s, look)

    def _take(self, data: bytes | bytearray, start: int, end: int) -> None:
        """A part of the hello, or a packet."""
        if not self.open:
            self.handle(bytes(data[start:end]))
            return
        self._packets += 1
        for frame in packets.unpack(self.incoming, data, start, end):
            if self.ended:
                break
            self.handle(frame)

    def handle(self, frame: bytes) -> None:
        """One frame."""
        raise NotImplementedError

    def opened(self, incoming: Tags, outgoing: Tags) -> None:
        """Both sides are proven; from here on everything is under a tag."""
        self.open = True
        self._size_min = packets.OVERHEAD_BYTES + 1
        self._size_max = packets.OVERHEAD_BYTES + self._peers.settings.frame_bytes_max
        self.incoming, self.outgoing = incoming, outgoing
        if self._deadline is not None:
            self._deadline.cancel()

    def say(self, *messages: HelloMessage) -> None:
        """Parts of the hello; a refusal also later."""
        frames = [codec.encode_hello(message) for message in messages]
        if self.open:
            self.transport.write(packets.pack(self.outgoing, frames, self._peers.settings.packet_bytes))
        else:
            self.transport.write(b"".join(LENGTH.pack(len(frame)) + frame for frame in frames))

    def refuse(self, reason: RefusedReason, error: str = "") -> None:
        """Name the reason and close."""
        if not self.ended:
            self._peers.refused(self.peer, reason, error=error)
            if not self.open or isinstance(self, _Inbound):
                self.say(Refused(reason))
            self.end()

    def end(self) -> None:
        """Close; what is written still leaves."""
        self._over()
        self.transport.close()

    def _over(self) -> None:
        self.ended = True
        for timer in (self._deadline, self._unfinished):
            if timer is not None:
                timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """However it ended."""
        self._over()
        self._peers.link_lost(self)


class _Inbound(_Link):
    """A connection a peer dialed: it proves itself, then its frames come in."""

    def __init__(self, peers: "Peers") -> None:
        super().__init__(peers)
        self._proof_wanted: bytes | None = None
        self._proven = False
        self._hellos = b"", b""
        self._life = self._told = NO_LIFE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See _Link; of too many that prove nothing the oldest goes."""
        super().connection_made(transport)
        leaving = self._peers.admit(self)
        if leaving is not None:
            leaving.refuse("busy")

    @property
    def greeted(self) -> bool:
        """It named a cluster and a voter that are right; its proof is due."""
        return self._proof_wanted is not None

    def handle(self, frame: bytes) -> None:
        """Hello, proof, then frames, once the life that speaks is kept."""
        if self.open and self.peer is not None:
            self._peers.handlers.frame(self.peer, frame)
        elif self._proof_wanted is None:
            self._answer(frame)
        elif self._proven:
            raise PeerError("hello parts out of order")
        else:
            message = codec.decode_hello(frame)
            if not isinstance(message, Proof) or not hmac.compare_digest(message.mac, self._proof_wanted):
                self.refuse("cluster key")
                return
            self._proven = True
            meet = self._peers.handlers.meet
            if self.peer is None or self.incarnation is None:
                raise PeerError("a proof without a hello")
            if not meet(self.peer, self.incarnation, self._life, self._told, self._welcome):
                self.refuse("life")

    def _welcome(self) -> None:
        """Who it is, and in which life, is kept: it may speak."""
        if self.ended:
            return
        self.say(Welcome())
        key = self._peers.identity.key
        self.opened(Tags(key, _DIALER, *self._hellos), Tags(key, _ACCEPTOR, *self._hellos))
        self._peers.inbound_open(self)

    def _answer(self, frame: bytes) -> None:
        peers, own = self._peers, self._peers.identity
        if len(frame) > 1 and frame[0] == codec.TYPE_HELLO and frame[1] != codec.HELLO_VERSION:
            self.refuse("version")
            return
        hello = codec.decode_hello(frame)
        if not isinstance(hello, Hello):
            raise PeerError("the first frame is no hello")
        known = hello.node_id in peers.addresses
        self.peer = hello.node_id if known else None
        self.incarnation = hello.dir_uuid
        reason = judge_hello(hello, own, peers.handlers.directory_of(hello.node_id))
        if reason is None and not known:
            reason = "node id"
        if reason is not None:
            self.refuse(reason)
            return
        self._life = hello.life
        self._told = peers.handlers.met(hello.node_id, hello.dir_uuid)
        answer = peers.hello_to(hello.node_id, self._told)
        answer_frame = codec.encode_hello(answer)
        self._hellos = frame, answer_frame
        self._proof_wanted = proof(own.key, _DIALER, frame, answer_frame)
        self.say(answer, Proof(proof(own.key, _ACCEPTOR, frame, answer_frame)))


class _Outbound(_Link):
    """A connection this node dialed: both prove themselves, then our frames go out."""

    def __init__(self, peers: "Peers", peer: NodeId) -> None:
        super().__init__(peers)
        self.peer = peer
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hello = b""
        self._answer = b""
        self._told = NO_LIFE
        self._proven = False

    def greet(self) -> None:
        """The dialer speaks first."""
        if self.peer is not None:
            hello = self._peers.hello_to(self.peer)
            self._hello = codec.encode_hello(hello)
            self.say(hello)

    def handle(self, frame: bytes) -> None:
        """Hello, proof, welcome; then nothing but a refusal may come back."""
        message = codec.decode_hello(frame)
        match message:
            case Refused():
                self._peers.refused(self.peer, message.reason, error="said by the peer")
                self._peers.turned_away(self.peer, message.reason)
                self.end()
            case Hello() if not self._answer:
                self._check(message, frame)
            case Proof() if self._answer and not self._proven:
                self._prove(message)
            case Welcome() if self._proven and not self.open:
                key = self._peers.identity.key
                hellos = self._hello, self._answer
                self.opened(Tags(key, _ACCEPTOR, *hellos), Tags(key, _DIALER, *hellos))
                self._peers.outbound_open(self)
            case _:
                raise PeerError("hello parts out of order")

    def _check(self, hello: Hello, frame: bytes) -> None:
        peers = self._peers
        self._answer = frame
        self._told = hello.met
        self.incarnation = hello.dir_uuid
        reason = judge_hello(hello, peers.identity, peers.handlers.directory_of(hello.node_id))
        if hello.node_id != self.peer:
            reason = "node id"
        if reason is not None:
            self.refuse(reason)

    def _prove(self, message: Proof) -> None:
        key = self._peers.identity.key
        if not hmac.compare_digest(message.mac, proof(key, _ACCEPTOR, self._hello, self._answer)):
            self.refuse("cluster key")
            return
        self._proven = True
        if self.peer is not None:
            self._peers.handlers.judge(self.peer, self._told, self._prove_ourselves)

    def _prove_ourselves(self) -> None:
        """What the peer told of an earlier life, if anything, is durable here: it may keep this one."""
        if not self.ended:
            self.say(Proof(proof(self._peers.identity.key, _DIALER, self._hello, self._answer)))

    def connection_lost(self, exc: Exception | None) -> None:
        """See _Link; the dialer may try again."""
        super().connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)


class Peers:
    """The ``Network`` port over TCP. Made on the loop; ``start`` listens and dials, ``stop`` ends everything.

    ``addresses``: host and port of every *other* voter.
    """

    def __init__(
        self,
        identity: PeerIdentity,
        addresses: Mapping[NodeId, tuple[str, int]],
        settings: PeerSettings,
        rng: random.Random,
        handlers: PeerHandlers,
        *,
        ssl_server: ssl.SSLContext | None = None,
        ssl_client: ssl.SSLContext | None = None,
    ) -> None:
        self.identity = identity
        self.addresses = dict(addresses)
        self.settings = settings
        self.handlers = handlers
        self.refusals: dict[RefusedReason, int] = {}
        """Connections refused by us or by the other side, by reason."""
        self._rng = rng
        self._ssl_server = ssl_server
        self._ssl_client = ssl_client
        self._server: asyncio.Server | None = None
        self._dialers: list[asyncio.Task[None]] = []
        self._unproven: Admission[_Inbound] = Admission(
            places=settings.unproven_max, reserved=0, per_address=0, busy=lambda link: link.greeted
        )
        self._inbound: dict[NodeId, _Inbound] = {}
        self._outbound: dict[NodeId, _Outbound] = {}
        self._waiting: dict[NodeId, list[bytes]] = {}
        self._refusals: Seldom | None = None
        self._stopping = False

    async def start(self, host: str, port: int) -> None:
        """Listen, then dial everybody. Raises UsageError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Inbound(self), host, port, ssl=self._ssl_server, backlog=1024
            )
        except OSError as error:
            raise UsageError(f"peer listener {host}:{port}: {error}") from error
        self._dialers = [loop.create_task(self._dial(peer, *where)) for peer, where in self.addresses.items()]

    async def stop(self) -> None:
        """Send what is waiting, close everything; no handler is called afterwards."""
        self._flush()
        self._stopping = True
        if self._refusals is not None:
            self._refusals.stop()
        for task in self._dialers:
            task.cancel()
        await asyncio.gather(*self._dialers, return_exceptions=True)
        for link in [*self._outbound.values(), *self._inbound.values(), *self._unproven.guests()]:
            link.end()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    # ── Network ──

    def send(self, peer: NodeId, frame: bytes) -> None:
        """See port."""
        if peer not in self._outbound:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.setdefault(peer, []).append(frame)

    def connected(self, peer: NodeId) -> bool:
        """See port."""
        return peer in self._outbound

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for peer, frames in waiting.items():
            link = self._outbound.get(peer)
            if link is None or link.ended:
                continue
            data = packets.pack(link.outgoing, frames, self.settings.packet_bytes)
            if link.transport.get_write_buffer_size() + len(data) > self.settings.buffer_bytes_max:
                _log.warning("peer does not take what it is sent", peer=peer)
                link.ended = True
                link.transport.abort()
            else:
                link.transport.write(data)

    # ── dialing ──

    async def _dial(self, peer: NodeId, host: str, port: int) -> None:
        """Keep one connection to the peer, for ever."""
        settings, loop = self.settings, asyncio.get_running_loop()
        delay = settings.reconnect_min_s
        while True:
            link: _Outbound | None = None
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(settings.hello_timeout_s):
                    _, link = await loop.create_connection(
                        lambda: _Outbound(self, peer), host, port, ssl=self._ssl_client
                    )
            if link is not None:
                await self._until_lost(link)
                if link.open:
                    delay = settings.reconnect_min_s
            await asyncio.sleep(delay * self._rng.uniform(0.5, 1.0))
            delay = min(delay * 2, settings.reconnect_max_s)

    async def _until_lost(self, link: _Outbound) -> None:
        try:
            await link.lost
        finally:
            link.end()

    # ── what links report ──

    def hello_to(self, peer: NodeId, met: bytes = NO_LIFE) -> Hello:
        """A hello with a fresh nonce. ``met``: the life met last of the peer, told to one that dialed."""
        own = self.identity
        return Hello(
            own.cluster_id,
            own.node_id,
            peer,
            own.dir_uuid,
            own.feature_min,
            own.feature_max,
            secrets.token_bytes(32),
            self.handlers.life(),
            met,
        )

    def admit(self, link: _Inbound) -> _Inbound | None:
        """One more that has proven nothing; answers which of them must go for it."""
        return self._unproven.enter(link, "")

    def refused(self, peer: NodeId | None, reason: RefusedReason, *, error: str = "") -> None:
        """Count and tell, once a period; not a word after ``stop``."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        if not self._stopping:
            if self._refusals is None:
                loop = asyncio.get_running_loop()
                self._refusals = Seldom(self.settings.refusal_log_period_s, loop.call_later, _told_refused)
            detail = {"error": error} if error else {}
            self._refusals.tell((peer, reason), peer=peer, reason=reason, **detail)
            self.handlers.refused(peer, reason)

    def turned_away(self, peer: NodeId | None, reason: RefusedReason) -> None:
        """A peer's word of us."""
        if peer is not None and not self._stopping:
            self.handlers.turned_away(peer, reason)

    def judge_again(self) -> None:
        """The log names other directories now: who is not the one it names is no peer."""
        for link in [*self._outbound.values(), *self._inbound.values()]:
            known = self.handlers.directory_of(link.peer) if link.peer is not None else None
            if known is not None and link.incarnation not in (None, known):
                link.refuse("directory")

    def inbound_open(self, link: _Inbound) -> None:
        """A peer proved itself; an older connection of the same peer is dead or about to be."""
        self._unproven.leave(link)
        if link.peer is not None:
            older = self._inbound.get(link.peer)
            self._inbound[link.peer] = link
            if older is not None:
                older.end()

    def outbound_open(self, link: _Outbound) -> None:
        """We may send."""
        if link.peer is not None and not self._stopping:
            self._outbound[link.peer] = link
            self.handlers.connected(link.peer)

    def link_lost(self, link: _Link) -> None:
        """Of a proven peer: tell when it was the last one."""
        peer = link.peer
        if isinstance(link, _Inbound):
            self._unproven.leave(link)
        if peer is None or not link.open:
            return
        if self._inbound.get(peer) is link:
            del self._inbound[peer]
        elif self._outbound.get(peer) is link:
            del self._outbound[peer]
            self._waiting.pop(peer, None)
        else:
            return
        if peer not in self._inbound and peer not in self._outbound and not self._stopping:
            self.handlers.disconnected(peer)
