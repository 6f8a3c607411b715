"""The hello of two voters, part by part, where the log changes in the middle of it."""

from collections.abc import Callable

import pytest

from quorate.consensus.ports import NodeId
from quorate.consensus.transport.codec import HelloMessage, encode_hello
from quorate.consensus.transport.hello import Answering, Dialing, Party, PeerHandlers, PeerIdentity
from quorate.consensus.transport.packets import Tags

NEW = b"n" * 16
OLD = b"o" * 16


class Wire:
    """One end; what is said waits in ``said``."""

    def __init__(self) -> None:
        self.ended = self.open = False
        self.said: list[bytes] = []
        self.refused = ""

    def say(self, *messages: HelloMessage) -> None:
        self.said += map(encode_hello, messages)

    def refuse(self, reason: str, _error: str = "") -> None:
        self.ended, self.refused = True, reason

    def turned_away(self, reason: str) -> None:
        self.ended, self.refused = True, f"turned away: {reason}"

    def opened(self, _incoming: Tags, _outgoing: Tags) -> None:
        self.open = True


class Rig:
    """Node 1 dials node 2; each knows the other by OLD."""

    def __init__(self) -> None:
        self.named = {1: OLD, 2: OLD}
        self.held: list[Callable[[], None]] = []
        self.wires = Wire(), Wire()
        self.dialing = Dialing(self.party(1), self.wires[0], NodeId(2))
        self.answering = Answering(self.party(2), self.wires[1])

    def party(self, node: int) -> Party:
        """Keeping a life takes until ``held`` is called."""

        def meet(_peer: NodeId, _directory: bytes, _life: bytes, _told: bytes, done: Callable[[], None]) -> bool:
            self.held.append(done)
            return True

        peer = NodeId(3 - node)
        identity = PeerIdentity(cluster_id="c", node_id=NodeId(node), dir_uuid=OLD, key=b"k" * 32)
        handlers = PeerHandlers(
            frame=lambda _peer, _frame: None,
            connected=lambda _peer: None,
            disconnected=lambda _peer: None,
            directory_of=lambda of: self.named[of],
            meet=meet,
        )
        return Party(identity=identity, peers={peer}, handlers=handlers, nonce=lambda: b"r" * 32)

    def exchange(self) -> None:
        """All that was said arrives, until both wait."""
        ends = (self.dialing, self.answering)
        while any(wire.said for wire in self.wires):
            for here, there in ((0, 1), (1, 0)):
                parts, self.wires[here].said = self.wires[here].said, []
                for part in parts:
                    ends[there].handle(part)


def test_both_ends_open() -> None:
    """Once the life that speaks is kept."""
    rig = Rig()
    rig.dialing.greet()
    rig.exchange()
    assert [wire.open for wire in rig.wires] == [False, False]
    rig.held.pop()()
    assert [wire.open for wire in rig.wires] == [False, True]
    rig.exchange()
    assert [wire.open for wire in rig.wires] == [True, True]


@pytest.mark.parametrize("end", ["answering", "dialing"])
def test_a_directory_given_up_in_the_middle_of_its_hello_is_refused(end: str) -> None:
    """It was the one that the log names when it said hello, and is not when its life is kept, or it is welcomed."""
    rig = Rig()
    rig.dialing.greet()
    rig.exchange()
    if end == "answering":
        rig.named[1] = NEW
        rig.held.pop()()
    else:
        rig.held.pop()()
        rig.named[2] = NEW
        rig.exchange()
    wire = rig.wires[end == "answering"]
    assert (wire.open, wire.refused) == (False, "directory")
