"""Virtual time: in order, in turns, paused and resumed, and the same on every run."""

from collections.abc import Callable

from quorate.consensus.ports import NodeId
from quorate.consensus.transport.hello import Links, Party, PeerHandlers, PeerIdentity
from tests.sim.network import End, Fabric
from tests.sim.world import Loop, World


def test_timers_fire_in_order_and_not_before_their_time() -> None:
    """Calls happen in the order of their times; a cancelled one does not."""
    world = World(1)
    loop = Loop(world, "n1", lambda: None)
    fired: list[tuple[str, float]] = []
    loop.call_later(0.2, lambda: fired.append(("late", loop.monotonic())))
    loop.call_later(0.1, lambda: fired.append(("early", loop.monotonic())))
    loop.call_later(0.05, lambda: fired.append(("never", 0.0))).cancel()
    start = world.now
    world.run_until(start + 1)
    assert [name for name, _ in fired] == ["early", "late"]
    assert fired[0][1] >= start + 0.1 and fired[1][1] >= start + 0.2


def test_a_paused_process_runs_nothing_and_then_everything() -> None:
    """While paused no call runs; at resume all that was due runs in one turn."""
    world = World(1)
    turns: list[int] = []
    ran: list[int] = []
    loop = Loop(world, "n1", lambda: turns.append(len(ran)))
    loop.pause()
    for number in range(3):
        loop.call_later(0.1 * number, lambda number=number: ran.append(number))  # type: ignore[misc]
    world.run_until(world.now + 1)
    assert ran == []
    loop.resume()
    world.run_until(world.now + 1)
    assert sorted(ran) == [0, 1, 2] and turns == [3]


def test_a_dead_process_runs_nothing() -> None:
    """What was scheduled before the death never happens, even later in the same turn."""
    world = World(1)
    ran: list[str] = []
    loop = Loop(world, "n1", lambda: ran.append("turn end"))
    loop.call_soon(loop.die)
    loop.call_soon(lambda: ran.append("after death"))
    loop.call_later(0.1, lambda: ran.append("timer"))
    world.run_until(world.now + 1)
    assert ran == []


class Peer:
    """An endpoint that writes down what it hears."""

    def __init__(self, node: int) -> None:
        self.alive = True
        self.heard: list[str] = []
        self.links: Links[End] = Links()
        self.party = Party(
            identity=PeerIdentity(cluster_id="c", node_id=NodeId(node), dir_uuid=bytes(16), key=b"k"),
            peers={NodeId(1), NodeId(2)} - {node},
            handlers=PeerHandlers(
                frame=lambda _, frame: self.heard.append(frame.decode()),
                connected=lambda peer: self.heard.append(f"+{peer}"),
                disconnected=lambda peer: self.heard.append(f"-{peer}"),
            ),
            nonce=lambda: bytes(32),
        )

    def io(self, call: Callable[[], None]) -> None:
        """At once."""
        call()


def pair(seed: int) -> tuple[World, Fabric, Peer, Peer]:
    """Two connected endpoints."""
    world = World(seed)
    fabric = Fabric(world, (NodeId(1), NodeId(2)))
    left, right = Peer(1), Peer(2)
    fabric.attach(NodeId(1), left)
    fabric.attach(NodeId(2), right)
    world.run_until(world.now + 1)
    return world, fabric, left, right


def test_frames_keep_their_order_unless_told_otherwise() -> None:
    """Without reordering the frames of one wire arrive as sent; with it some do not."""
    for reorder, in_order in ((0.0, True), (0.5, False)):
        world, fabric, _, right = pair(3)
        fabric.weather.reorder = reorder
        for number in range(50):
            fabric.send(NodeId(1), NodeId(2), f"{number:02}".encode())
        world.run_until(world.now + 1)
        heard = [entry for entry in right.heard if not entry.startswith("+")]
        assert len(heard) == 50 and (heard == sorted(heard)) is in_order


def test_a_one_way_cut_stops_one_way() -> None:
    """A cut wire loses frames in its direction only, and does not show as disconnected."""
    world, fabric, left, right = pair(3)
    fabric.cut.add((NodeId(1), NodeId(2)))
    fabric.send(NodeId(1), NodeId(2), b"there")
    fabric.send(NodeId(2), NodeId(1), b"back")
    world.run_until(world.now + 1)
    assert "there" not in right.heard and "back" in left.heard and fabric.connected(NodeId(1), NodeId(2))


def test_a_death_is_heard_and_nothing_reaches_the_next_process() -> None:
    """When a process dies its peer is told, and what was in flight does not reach its successor."""
    world, fabric, left, right = pair(3)
    fabric.weather.delay_max_s = 0.2
    for _ in range(20):
        fabric.send(NodeId(1), NodeId(2), b"late")
    right.alive = False
    fabric.detach(NodeId(2))
    heir = Peer(2)
    fabric.attach(NodeId(2), heir)
    world.run_until(world.now + 1)
    assert left.heard in (["+2", "-2", "+2"], ["+2", "+2"])
    assert heir.heard == ["+1"] and "late" not in right.heard


def test_the_same_seed_is_the_same_world() -> None:
    """Two runs of a seed agree on their digest; another seed does not."""

    def run(seed: int) -> int:
        world, fabric, _, _ = pair(seed)
        fabric.weather.duplicate = 0.3
        fabric.weather.loss = 0.3
        for _ in range(50):
            fabric.send(NodeId(1), NodeId(2), b"x")
        world.run_until(world.now + 1)
        return world.trace

    assert run(5) == run(5) != run(6)
