"""The wires between nodes, and all that can go wrong on them.

Rules: a frame arrives late, out of order, or never, one of consensus also twice (the controller's own messages go
over TCP, which does not repeat, and need no more); it never changes, and never reaches a process that was started after
it was sent. Everything is drawn from the world's one ``Random``.

Theory: a *line* stands for one TCP connection: each node dials every other, sends on the line it dialed and hears on
the one it was dialed on, after the product's own hello (``transport.hello``). A process that dies closes its lines, and
the other side hears of it unless the wire is cut; a cut wire loses frames silently at first (a hello it only delays, as
TCP does) and may break the line later; a reset loses what is in flight. Who lives, and is not cut off, dials again.
"""

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from quorate.consensus.ports import NodeId
from quorate.consensus.transport.codec import HelloMessage, Refused, RefusedReason, encode_hello, is_app_frame
from quorate.consensus.transport.hello import Acceptor, Dialer, Links, Party
from quorate.consensus.transport.packets import Tags
from tests.sim.world import Call, World

HELLO_S = 1.0
"""A hello that takes longer has failed."""
AGAIN_S = 0.03
"""How soon who found nobody dials again."""


class Endpoint(Protocol):
    """A process, as the network sees it."""

    alive: bool
    party: Party
    links: "Links[End]"

    def io(self, call: Call) -> None:
        """Something arrived: queue it for the next turn."""


class Weather(msgspec.Struct):
    """How bad the wires are now; shares in 0…1, times in virtual seconds. A seed draws its own."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    straggle: float = 0.0
    """Share of frames that arrive up to a second late."""
    delay_max_s: float = 0.002
    bytes_per_s: float = 50e6


class End:
    """One process's end of a line: what ``transport.hello`` calls a wire."""

    __slots__ = (
        "_fabric",
        "ended",
        "endpoint",
        "hello",
        "latest",
        "node",
        "open",
        "other",
        "parts",
        "to",
    )

    def __init__(self, fabric: "Fabric", node: NodeId, to: NodeId, endpoint: Endpoint) -> None:
        self._fabric = fabric
        self.node, self.to, self.endpoint = node, to, endpoint
        self.other: End
        self.hello: Acceptor | Dialer
        self.ended = self.open = False
        self.parts: deque[bytes] = deque()
        """Of the hello, on their way here."""
        self.latest = 0.0
        """When the last part of the hello that was sent arrives."""

    @property
    def peer(self) -> NodeId | None:
        """Who is at the other end, once it has said so."""
        return self.hello.peer

    @property
    def incarnation(self) -> bytes | None:
        """The directory of the other end, once it has said so."""
        return self.hello.incarnation

    def say(self, *messages: HelloMessage) -> None:
        """Send parts of the hello."""
        for message in messages:
            self._fabric.carry(self, encode_hello(message))

    def refuse(self, reason: RefusedReason, error: str = "") -> None:
        """Name the reason to the other side, and end it; a dialer whose line is open has nobody to say it to."""
        if not self.ended:
            self._fabric.counts[f"refused: {reason}{error and ' ' + error}"] += 1
            if not self.open or isinstance(self.hello, Acceptor):
                self.say(Refused(reason))
            self.end()

    def turned_away(self, reason: RefusedReason) -> None:
        """The other side will have no line with this one."""
        if isinstance(self.hello, Dialer):
            self.endpoint.party.handlers.turned_away(self.to, reason)
        self.end()

    def opened(self, incoming: Tags, outgoing: Tags) -> None:
        """The hello is over. Tags are not needed here: nothing changes on these wires."""
        del incoming, outgoing
        self.open = True
        if isinstance(self.hello, Acceptor):
            self._fabric.heard(self)
            self.endpoint.links.heard(self)
        else:
            self.endpoint.links.outbound[self.to] = self
            self.endpoint.party.handlers.connected(self.to)

    def end(self) -> None:
        """Close: the other side hears of it behind what was said."""
        if not self.ended:
            self.ended = True
            self._fabric.hang_up(self)

    def hear(self, frame: bytes) -> None:
        """A frame arrived, in a turn."""
        if not self.ended and self.open:
            self.endpoint.party.handlers.frame(self.to, frame)

    def hear_hello(self, part: bytes) -> None:
        """A part of a hello arrived, in a turn. A dialer that gave up too late says so without a tag."""
        if self.open and isinstance(self.hello, Acceptor):
            self.refuse("frame tag")
        elif not self.ended:
            self.hello.handle(part)


class Fabric:
    """All wires. ``tap`` sees every frame at the moment it leaves, before anything can happen to it; ``heard``, whom a
    node is about to hear.
    """

    def __init__(self, world: World, nodes: tuple[NodeId, ...]) -> None:
        self._world = world
        self._nodes = nodes
        self.weather = Weather()
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.counts: Counter[str] = Counter()
        self.tap: Callable[[NodeId, NodeId, bytes], None] = lambda _a, _b, _frame: None
        self.heard: Callable[[End], None] = lambda _end: None
        self._endpoints: dict[NodeId, Endpoint] = {}
        self._ends: dict[End, None] = {}
        """Of all lines that are not closed, in the order they were dialed."""
        self._latest: dict[tuple[NodeId, NodeId], float] = {}
        self._nonces = 0

    def nonce(self) -> bytes:
        """32 bytes that were never used."""
        self._nonces += 1
        return self._nonces.to_bytes(32)

    # Processes come and go.

    def attach(self, node: NodeId, endpoint: Endpoint) -> None:
        """A process started: it dials, for as long as it lives."""
        self._endpoints[node] = endpoint
        for peer in self._nodes:
            if peer != node:
                self._dial_later(endpoint, node, peer)

    def detach(self, node: NodeId) -> None:
        """A process died: its sockets close."""
        endpoint = self._endpoints.pop(node, None)
        for end in [end for end in self._ends if end.endpoint is endpoint]:
            end.end()

    # Lines.

    def _dial_later(self, endpoint: Endpoint, node: NodeId, peer: NodeId) -> None:
        delay_s = 0.001 + self._world.random.random() * AGAIN_S
        self._world.after(delay_s, lambda: self._dial(endpoint, node, peer))

    def _dial(self, endpoint: Endpoint, node: NodeId, peer: NodeId) -> None:
        if not endpoint.alive:
            return
        called = self._endpoints.get(peer)
        if called is None or not called.alive or (node, peer) in self.cut or (peer, node) in self.cut:
            self._dial_later(endpoint, node, peer)
            return
        dialer, dialed = End(self, node, peer, endpoint), End(self, peer, node, called)
        dialer.other, dialed.other = dialed, dialer
        hello = dialer.hello = Dialer(endpoint.party, dialer, peer)
        dialed.hello = Acceptor(called.party, dialed)
        for end in (dialer, dialed):
            self._ends[end] = None
            self._world.after(HELLO_S, partial(end.endpoint.io, partial(self._too_late, end)))
        endpoint.io(lambda: hello.greet() if not dialer.ended else None)

    @staticmethod
    def _too_late(end: End) -> None:
        if not end.open:
            end.refuse("deadline")

    def carry(self, end: End, part: bytes) -> None:
        """A part of a hello: late, but in its order."""
        world = self._world
        end.latest = max(end.latest + 1e-7, world.now + 0.0001 + world.random.random() * self.weather.delay_max_s)
        end.other.parts.append(part)
        world.after(end.latest - world.now, lambda: self._arrive(end.other))

    def _arrive(self, end: End) -> None:
        if end.ended or not end.endpoint.alive:
            return
        if (end.to, end.node) in self.cut:
            self._world.after(0.03, lambda: self._arrive(end))
            return
        part = end.parts.popleft()
        self._world.note(f"{end.to}>{end.node} hello {len(part)}")
        end.endpoint.io(lambda: end.hear_hello(part))

    def hang_up(self, end: End) -> None:
        """One side closed, or its process died; each that lives is told, late if the wire is cut."""
        self._ends.pop(end, None)
        self._world.after(0.0, lambda: self._gone(end))
        cut = (end.node, end.to) in self.cut
        late_s = max(0.0, end.latest - self._world.now) + 0.0002
        self._world.after(late_s + self._world.random.random() * (0.5 if cut else 0.002), lambda: self._told(end.other))

    def _told(self, end: End) -> None:
        if not end.ended:
            end.ended = True
            self._ends.pop(end, None)
            self._gone(end)

    def _gone(self, end: End) -> None:
        if not end.endpoint.alive:
            return
        end.endpoint.io(lambda: self._lost(end))
        if isinstance(end.hello, Dialer):
            self._dial_later(end.endpoint, end.node, end.to)

    @staticmethod
    def _lost(end: End) -> None:
        if end.endpoint.links.lost(end):
            end.endpoint.party.handlers.disconnected(end.to)

    def reset(self, a: NodeId, b: NodeId) -> None:
        """The connections of the two break; what is in flight is lost."""
        ends = [end for end in self._ends if (end.node, end.to) == (a, b)]
        self.counts["resets"] += bool(ends)
        for end in ends:
            end.end()

    def connected(self, a: NodeId, b: NodeId) -> bool:
        """Has ``a`` a line to ``b`` (a cut wire does not show)?"""
        endpoint = self._endpoints.get(a)
        return endpoint is not None and b in endpoint.links.outbound

    def heal(self) -> None:
        """All wires whole again."""
        self.cut.clear()

    # Frames.

    def send(self, a: NodeId, b: NodeId, frame: bytes) -> None:
        """From ``a`` to ``b``, if luck will have it."""
        self.tap(a, b, frame)
        endpoint, weather, random = self._endpoints.get(a), self.weather, self._world.random
        end = endpoint.links.outbound.get(b) if endpoint is not None else None
        if end is None or end.ended:
            return
        if (a, b) in self.cut or random.random() < weather.loss:
            self.counts["frames lost"] += 1
            return
        arrival = self._world.now + 0.0001 + random.random() * weather.delay_max_s + len(frame) / weather.bytes_per_s
        if random.random() < weather.reorder:
            self.counts["frames reordered"] += 1
            arrival += random.random() * 0.05
        elif random.random() < weather.straggle:
            self.counts["frames reordered"] += 1
            arrival += random.random()
        else:
            arrival = max(arrival, self._latest.get((a, b), 0.0) + 1e-7)
            self._latest[a, b] = arrival
        receiver = end.other
        self._world.after(arrival - self._world.now, partial(self._deliver, receiver, frame))
        if not is_app_frame(frame) and random.random() < weather.duplicate:
            self.counts["frames duplicated"] += 1
            late_s = arrival - self._world.now + random.random() * 0.03
            self._world.after(late_s, partial(self._deliver, receiver, frame))

    def _deliver(self, end: End, frame: bytes) -> None:
        if end.ended or not end.endpoint.alive or (end.to, end.node) in self.cut:
            self.counts["frames lost"] += 1
            return
        self._world.note(f"{end.to}>{end.node} {len(frame)}")
        end.endpoint.io(partial(end.hear, frame))


class SimNetwork:
    """The ``Network`` port of one process: what it sends leaves at the end of its turn, or never, if it dies before."""

    def __init__(self, fabric: Fabric, node: NodeId, at_turns_end: Callable[[Callable[[], None]], None]) -> None:
        self._fabric = fabric
        self._node = node
        self._at_turns_end = at_turns_end
        self._waiting: list[tuple[NodeId, bytes]] = []

    def send(self, peer: NodeId, frame: bytes) -> None:
        """Try."""
        if not self._waiting:
            self._at_turns_end(self._flush)
        self._waiting.append((peer, frame))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for peer, frame in waiting:
            self._fabric.send(self._node, peer, frame)

    def connected(self, peer: NodeId) -> bool:
        """Is there a line?"""
        return self._fabric.connected(self._node, peer)
