"""The links between voters: TCP, each direction its own connection, every peer proven before its first frame is read.

Rules: a node dials every peer and sends only on the connection it dialed; it receives on those it accepted. A
connection carries nothing before both sides proved that they hold the cluster key, over nonces of this connection;
cluster, node, directory and features must agree, and what does not is refused *by name*, to the other side and in
the log. Lengths are limited, tightly before the proof; the hello has a deadline; what a slow peer does not take is
dropped with its connection rather than kept without bound. After the hello everything is under a tag (``packets``):
what the proven peer did not send in this place is refused as ``frame tag`` and changes nothing. Frames of one turn
leave in one write, at its end (``Scheduler.at_turns_end``).

Theory. ``hello`` says how two voters prove themselves; the tags' keys are made of what was said there. So nobody on the
path can say or change anything; they can read it, unless both ``ssl`` contexts are given.
"""

import asyncio
import contextlib
import random
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import cast

import structlog

from quorate import tls
from quorate.admission import Admission
from quorate.consensus.ports import NodeId
from quorate.consensus.settings import PeerSettings
from quorate.consensus.transport import codec, packets
from quorate.consensus.transport.codec import HelloMessage, Refused, RefusedReason
from quorate.consensus.transport.hello import Acceptor, Dialer, Links, Party, PeerHandlers, PeerIdentity
from quorate.consensus.transport.log_throttle import LogThrottle
from quorate.consensus.transport.packets import LENGTH, TagError, Tags
from quorate.errors import PeerError
from quorate.listening import address_error

_log = structlog.get_logger(__name__)


PROBE_S = 1
"""An idle link is probed so often."""


def _told_refused(**fields: object) -> None:
    _log.warning("peer connection refused", **fields)


def _told_too_long(**fields: object) -> None:
    _log.error("frame is longer than peers take, and was not sent", **fields)


def _nonce() -> bytes:
    return secrets.token_bytes(32)


class _Link(asyncio.Protocol):
    """Framing, deadline and refusal of one connection; its ends say what a frame means."""

    hello: Acceptor | Dialer
    """Each end makes its own, before all else."""

    def __init__(self, peers: "Peers") -> None:
        self._peers = peers
        self._buffer = bytearray()
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport
        self.ended = False
        self.incoming: Tags | None = None
        self.outgoing: Tags | None = None
        """Both are there once both sides are proven: from then on the link is open."""
        self._size_min, self._size_max = 1, peers.settings.hello_bytes_max
        self._packets = 0
        self._unfinished: asyncio.TimerHandle | None = None

    @property
    def open(self) -> bool:
        """Both sides are proven."""
        return self.incoming is not None

    @property
    def peer(self) -> NodeId | None:
        """Who says to be at the other end."""
        return self.hello.peer

    @property
    def incarnation(self) -> bytes | None:
        """The directory it says to have."""
        return self.hello.incarnation

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock of the hello."""
        self.transport = cast("asyncio.Transport", transport)
        settings = self._peers.settings
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux.
            opened: socket.socket = transport.get_extra_info("socket")
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(settings.unanswered_s * 1000))
            # Two followers say nothing to each other at rest: a machine that is gone is found by probes alone.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
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
        if buffer and self.incoming is not None and self._unfinished is None and not self.ended:
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
            if not at and not self.open and tls.is_client_hello(data):
                self.refuse("malformed", "TLS is not spoken here", words=tls.REFUSAL)
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
        incoming = self.incoming
        if incoming is None:
            self.handle(bytes(data[start:end]))
            return
        self._packets += 1
        for frame in packets.unpack(incoming, data, start, end):
            if self.ended:
                break
            self.handle(frame)

    def handle(self, frame: bytes) -> None:
        """One frame."""
        raise NotImplementedError

    def opened(self, incoming: Tags, outgoing: Tags) -> None:
        """Both sides are proven; from here on everything is under a tag."""
        self._size_min = packets.OVERHEAD_BYTES + 1
        self._size_max = packets.OVERHEAD_BYTES + self._peers.settings.frame_bytes_max
        self.incoming, self.outgoing = incoming, outgoing
        if self._deadline is not None:
            self._deadline.cancel()

    def say(self, *messages: HelloMessage) -> None:
        """Parts of the hello; a refusal also later."""
        frames = [codec.encode_hello(message) for message in messages]
        if self.outgoing is not None:
            self.transport.write(packets.pack(self.outgoing, frames, self._peers.settings.packet_bytes))
        else:
            self.transport.write(b"".join(LENGTH.pack(len(frame)) + frame for frame in frames))

    def refuse(self, reason: RefusedReason, error: str = "", *, words: bytes = b"") -> None:
        """Name the reason, or say it in the words of another protocol, and close."""
        if not self.ended:
            self._peers.refused(self.peer, reason, error=error)
            if words:
                self.transport.write(words)
            elif not self.open or isinstance(self, _Inbound):
                self.say(Refused(reason))
            self.end()

    def turned_away(self, reason: RefusedReason) -> None:
        """The other side would not have us."""
        self._peers.refused(self.peer, reason, error="said by the peer")
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
        self.hello: Acceptor = Acceptor(peers.party, self)
        super().__init__(peers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock of the hello. Of too many that prove nothing the oldest goes."""
        super().connection_made(transport)
        leaving = self._peers.admit(self)
        if leaving is not None:
            leaving.refuse("busy")

    def handle(self, frame: bytes) -> None:
        """The hello, then frames."""
        if self.incoming is not None and self.peer is not None:
            self._peers.handlers.frame(self.peer, frame)
        else:
            self.hello.handle(frame)

    def opened(self, incoming: Tags, outgoing: Tags) -> None:
        """Both sides are proven; from here on everything is under a tag."""
        super().opened(incoming, outgoing)
        self._peers.inbound_open(self)


class _Outbound(_Link):
    """A connection this node dialed: both prove themselves, then our frames go out."""

    def __init__(self, peers: "Peers", peer: NodeId) -> None:
        self.hello: Dialer = Dialer(peers.party, self, peer)
        super().__init__(peers)
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def greet(self) -> None:
        """The dialer speaks first."""
        self.hello.greet()

    def handle(self, frame: bytes) -> None:
        """The hello; then nothing but a refusal may come back."""
        self.hello.handle(frame)

    def turned_away(self, reason: RefusedReason) -> None:
        """The dialed peer refused us: it is believed, and the refusal is told on."""
        super().turned_away(reason)
        self._peers.turned_away(self.peer, reason)

    def opened(self, incoming: Tags, outgoing: Tags) -> None:
        """Both sides are proven; from here on everything is under a tag."""
        super().opened(incoming, outgoing)
        self._peers.outbound_open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """However it ended. The dialer may try again."""
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
        at_turns_end: Callable[[Callable[[], None]], object],
        ssl_server: ssl.SSLContext | None = None,
        ssl_client: ssl.SSLContext | None = None,
    ) -> None:
        self._at_turns_end = at_turns_end
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
            places=settings.unproven_max, reserved=0, per_address=0, busy=lambda link: link.hello.greeted
        )
        self._links: Links[_Link] = Links()
        self._waiting: dict[NodeId, list[bytes]] = {}
        self._refusals: LogThrottle | None = None
        self._too_long: LogThrottle | None = None
        self._stopping = False

    async def start(self, host: str, port: int, begin: Callable[[], None] = lambda: None) -> None:
        """Listen, then dial everybody. ``begin`` is called in between, once the address is had and before anything is
        said. Raises AddressError if it cannot be had, and what ``begin`` raises.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Inbound(self), host, port, ssl=self._ssl_server, backlog=1024, start_serving=False
            )
            begin()
            await self._server.start_serving()
        except OSError as error:
            raise address_error("listeners.raft", host, port, error) from error
        self._dialers = [loop.create_task(self._dial(peer, *where)) for peer, where in self.addresses.items()]

    async def stop(self) -> None:
        """Send what is waiting, close everything; no handler is called afterwards."""
        self._flush()
        self._stopping = True
        for lines in (self._refusals, self._too_long):
            if lines is not None:
                lines.stop()
        for task in self._dialers:
            task.cancel()
        await asyncio.gather(*self._dialers, return_exceptions=True)
        for link in [*self._links.outbound.values(), *self._links.inbound.values(), *self._unproven.guests()]:
            link.end()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    # ── Network ──

    def send(self, peer: NodeId, frame: bytes) -> None:
        """Try to deliver; silently dropped without a connection. Leaves with the others of the turn, at its end. One
        that is longer than peers take is told in the log and dropped: it would end the link, and consensus with it.
        """
        if peer not in self._links.outbound:
            return
        if len(frame) > self.settings.frame_bytes_max:
            self._drop_too_long(peer, len(frame))
            return
        if not self._waiting:
            self._at_turns_end(self._flush)
        self._waiting.setdefault(peer, []).append(frame)

    def _drop_too_long(self, peer: NodeId, size: int) -> None:
        if self._too_long is None:
            loop = asyncio.get_running_loop()
            self._too_long = LogThrottle(self.settings.refusal_log_period_s, loop.call_later, _told_too_long)
        self._too_long.tell(peer, peer=peer, bytes=size, frame_bytes_max=self.settings.frame_bytes_max)

    def connected(self, peer: NodeId) -> bool:
        """Is there an open, authenticated connection *to* this peer?"""
        return peer in self._links.outbound

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for peer, frames in waiting.items():
            link = self._links.outbound.get(peer)
            if link is None or (outgoing := link.outgoing) is None or link.ended:
                continue
            data = packets.pack(outgoing, frames, self.settings.packet_bytes)
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

    @property
    def party(self) -> Party:
        """This voter, as it says hello."""
        return Party(identity=self.identity, peers=self.addresses, handlers=self.handlers, nonce=_nonce)

    # ── what links report ──

    def admit(self, link: _Inbound) -> _Inbound | None:
        """One more that has proven nothing; answers which of them must go for it."""
        return self._unproven.enter(link, "")

    def refused(self, peer: NodeId | None, reason: RefusedReason, *, error: str = "") -> None:
        """Count and tell, once a period; not a word after ``stop``."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        if not self._stopping:
            if self._refusals is None:
                loop = asyncio.get_running_loop()
                self._refusals = LogThrottle(self.settings.refusal_log_period_s, loop.call_later, _told_refused)
            said = {"peer": peer, "reason": reason, "error": error or None}
            self._refusals.tell((peer, reason), **{name: word for name, word in said.items() if word is not None})
            self.handlers.refused(peer, reason)

    def turned_away(self, peer: NodeId | None, reason: RefusedReason) -> None:
        """A peer's word of us."""
        if peer is not None and not self._stopping:
            self.handlers.turned_away(peer, reason)

    def judge_again(self) -> None:
        """The log names other directories now: who is not the one it names is no peer."""
        self._links.judge_again(self.party)

    def inbound_open(self, link: _Inbound) -> None:
        """A peer proved itself."""
        self._unproven.leave(link)
        self._links.heard(link)

    def outbound_open(self, link: _Outbound) -> None:
        """We may send."""
        if link.peer is not None and not self._stopping:
            self._links.outbound[link.peer] = link
            self.handlers.connected(link.peer)

    def link_lost(self, link: _Link) -> None:
        """Of a proven peer: tell when it was the last one."""
        peer = link.peer
        if isinstance(link, _Inbound):
            self._unproven.leave(link)
        elif peer is not None and self._links.outbound.get(peer) is link:
            self._waiting.pop(peer, None)
        if self._links.lost(link) and peer is not None and not self._stopping:
            self.handlers.disconnected(peer)
