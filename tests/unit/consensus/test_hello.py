"""The hello of two voters, part by part, where the log changes in the middle of it."""

from collections.abc import Callable

import pytest

from quorate.consensus.ports import NodeId
from quorate.consensus.transport.codec import HelloMessage, encode_hello
from quorate.consensus.transport.hello import Acceptor, Dialer, Party, PeerHandlers, PeerIdentity
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

    def end(self) -> None:
        self.ended = True

    def opened(self, _incoming: Tags, _outgoing: Tags) -> None:
        self.open = True


class Rig:
    """Node 1 dials node 2; each knows the other by OLD."""

    def __init__(self) -> None:
        self.named = {1: OLD, 2: OLD}
        self.held: list[Callable[[], None]] = []
        self.wires = Wire(), Wire()
        self.dialing = Dialer(self.party(1), self.wires[0], NodeId(2))
        self.answering = Acceptor(self.party(2), self.wires[1])

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

    def hand_over(self, here: int) -> None:
        """What one end said arrives at the other."""
        parts, self.wires[here].said = self.wires[here].said, []
        for part in parts:
            if not self.wires[1 - here].ended:
                (self.dialing, self.answering)[1 - here].handle(part)

    def exchange(self) -> None:
        """All that was said arrives, until both wait."""
        while any(wire.said for wire in self.wires):
            self.hand_over(0)
            self.hand_over(1)


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
    assert not any(wire.ended for wire in rig.wires)


@pytest.mark.parametrize("end", ["answering", "dialing"])
def test_a_directory_given_up_before_its_proof_is_refused(end: str) -> None:
    """Its life is not kept: it would take the place of that of the directory which the log names, and is heard."""
    rig = Rig()
    rig.dialing.greet()
    rig.hand_over(0)
    rig.named[1 if end == "answering" else 2] = NEW
    rig.exchange()
    assert rig.wires[end == "answering"].refused == "directory"
    assert not rig.held
    assert not any(wire.open for wire in rig.wires)


@pytest.mark.parametrize("end", ["answering", "dialing"])
def test_a_directory_given_up_while_its_life_is_kept_is_not_heard(end: str) -> None:
    """It was the one that the log names when it proved itself, and is not when it is welcomed."""
    rig = Rig()
    rig.dialing.greet()
    rig.exchange()
    if end == "answering":
        rig.named[1] = NEW
        rig.held.pop()()
        assert rig.wires[1].refused == "directory"
    else:
        rig.held.pop()()
        rig.named[2] = NEW
        rig.exchange()
    wire = rig.wires[end == "answering"]
    assert (wire.open, wire.ended) == (False, True)
