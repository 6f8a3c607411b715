"""The wires between nodes, and all that can go wrong on them.

Rules: a frame arrives late, out of order, or never, one of consensus also twice (the controller's own messages go
over TCP, which does not repeat, and need no more); it never changes, and never reaches a process that was started after
it was sent. Everything is drawn from the world's one ``Random``.

Theory: a *session* per pair of nodes stands for their TCP connections. A process that dies closes its sessions, and the
other side hears of it unless the wire is cut; a cut wire loses frames silently at first and may break the session
later; a reset loses what is in flight. Whoever lives, and is not cut off, is connected again after a moment.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from quorate.consensus.codec import is_app_frame
from quorate.consensus.ports import NodeId
from tests.sim.world import World


class Endpoint(Protocol):
    """A process, as the network sees it."""

    alive: bool
    incarnation: int

    def on_frame(self, peer: NodeId, frame: bytes) -> None:
        """A frame arrived (called outside a turn: queue it)."""

    def on_connected(self, peer: NodeId) -> None:
        """A session with the peer is up (called outside a turn)."""

    def on_disconnected(self, peer: NodeId) -> None:
        """The session is down (called outside a turn)."""


class Weather(msgspec.Struct):
    """How bad the wires are now; shares in 0…1, times in virtual seconds. A seed draws its own."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    straggle: float = 0.0
    """Share of frames that arrive up to a second late."""
    delay_max_s: float = 0.002
    bytes_per_s: float = 50e6


class Session:
    """The connections of one pair; ``epoch`` changes whenever it is made anew."""

    __slots__ = ("epoch", "up")

    def __init__(self) -> None:
        self.up = False
        self.epoch = 0


class Fabric:
    """All wires. ``tap`` sees every frame at the moment it leaves, before anything can happen to it."""

    def __init__(self, world: World, nodes: tuple[NodeId, ...]) -> None:
        self._world = world
        self._nodes = nodes
        self.weather = Weather()
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.counts: Counter[str] = Counter()
        self.tap: Callable[[NodeId, NodeId, bytes], None] = lambda _a, _b, _frame: None
        self._endpoints: dict[NodeId, Endpoint] = {}
        self._sessions = {(a, b): Session() for a in nodes for b in nodes if a < b}
        self._latest: dict[tuple[NodeId, NodeId], float] = {}

    def session(self, a: NodeId, b: NodeId) -> Session:
        """The one of this pair."""
        return self._sessions[(a, b) if a < b else (b, a)]

    # Processes come and go.

    def attach(self, node: NodeId, endpoint: Endpoint) -> None:
        """A process started: it dials, and is dialled."""
        self._endpoints[node] = endpoint
        for peer in self._nodes:
            if peer != node:
                self._reconnect_later(node, peer)

    def detach(self, node: NodeId) -> None:
        """A process died: its sockets close."""
        for peer in self._nodes:
            if peer != node and self.session(node, peer).up:
                self._break(node, peer)

    def _up(self, node: NodeId) -> Endpoint | None:
        endpoint = self._endpoints.get(node)
        return endpoint if endpoint is not None and endpoint.alive else None

    # Sessions.

    def _reconnect_later(self, a: NodeId, b: NodeId) -> None:
        self._world.after(0.001 + self._world.random.random() * 0.03, lambda: self._connect(a, b))

    def _connect(self, a: NodeId, b: NodeId) -> None:
        session, left, right = self.session(a, b), self._up(a), self._up(b)
        if session.up or left is None or right is None:
            return
        if (a, b) in self.cut or (b, a) in self.cut:
            self._reconnect_later(a, b)
            return
        session.up = True
        session.epoch += 1
        left.on_connected(b)
        right.on_connected(a)

    def _break(self, a: NodeId, b: NodeId) -> None:
        """The session ends; each side that lives is told, late if the wire is cut. Then they dial again."""
        session = self.session(a, b)
        session.up = False
        session.epoch += 1
        for node, peer in ((a, b), (b, a)):
            endpoint = self._up(node)
            if endpoint is None:
                continue
            incarnation = endpoint.incarnation
            delay_s = 0.0002 + self._world.random.random() * (0.5 if (peer, node) in self.cut else 0.002)
            self._world.after(delay_s, partial(self._tell_down, node, peer, incarnation))
        if self._up(a) and self._up(b):
            self._reconnect_later(a, b)

    def _tell_down(self, node: NodeId, peer: NodeId, incarnation: int) -> None:
        endpoint = self._up(node)
        if endpoint is not None and endpoint.incarnation == incarnation and not self.session(node, peer).up:
            endpoint.on_disconnected(peer)

    def reset(self, a: NodeId, b: NodeId) -> None:
        """The connection breaks; what is in flight is lost."""
        if self.session(a, b).up:
            self.counts["resets"] += 1
            self._break(a, b)

    def connected(self, a: NodeId, b: NodeId) -> bool:
        """Is there a session (a cut wire does not show)?"""
        return self.session(a, b).up

    def heal(self) -> None:
        """All wires whole again."""
        self.cut.clear()

    # Frames.

    def send(self, a: NodeId, b: NodeId, frame: bytes) -> None:
        """From ``a`` to ``b``, if luck will have it."""
        self.tap(a, b, frame)
        session, weather, random = self.session(a, b), self.weather, self._world.random
        if not session.up:
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
        epoch = session.epoch
        self._world.after(arrival - self._world.now, lambda: self._deliver(a, b, frame, epoch))
        if not is_app_frame(frame) and random.random() < weather.duplicate:
            self.counts["frames duplicated"] += 1
            late_s = arrival - self._world.now + random.random() * 0.03
            self._world.after(late_s, lambda: self._deliver(a, b, frame, epoch))

    def _deliver(self, a: NodeId, b: NodeId, frame: bytes, epoch: int) -> None:
        receiver = self._up(b)
        if receiver is None or self.session(a, b).epoch != epoch or (a, b) in self.cut:
            self.counts["frames lost"] += 1
            return
        self._world.note(f"{a}>{b} {len(frame)}")
        receiver.on_frame(a, frame)


class SimNetwork:
    """The ``Network`` port of one process."""

    def __init__(self, fabric: Fabric, node: NodeId) -> None:
        self._fabric = fabric
        self._node = node

    def send(self, peer: NodeId, frame: bytes) -> None:
        """Try."""
        self._fabric.send(self._node, peer, frame)

    def connected(self, peer: NodeId) -> bool:
        """Is there a session?"""
        return self._fabric.connected(self._node, peer)
