"""What a node says to the others: at once, or when what it vouches for is durable.

Rules: acks, votes and vote requests are *held*: a promise leaves when the disk has what it promises, for a node that
restarts must be bound by all it has said (dissertation §3.8: term, vote and log are stable before a server answers).
Everything else is *sent*; AppendEntries too, before the leader's own write is durable (dissertation §10.2.1).
"""

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Network, NodeId
from quorate.consensus.raft.core import Core
from quorate.consensus.raft.held import HeldFrames
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import Message


class Outbox:
    """On the loop, in turns. Stamps what is held with the term and the journal's position of now."""

    def __init__(self, journal: Journal, network: Network, core: Core) -> None:
        self._journal = journal
        self._network = network
        self._core = core
        self.held = HeldFrames()

    def send(self, peer: NodeId, message: Message) -> None:
        """At once."""
        self._network.send(peer, codec.encode(message))

    def hold(self, peer: NodeId, message: Message, *, progress: bool = False) -> None:
        """When every operation of the journal so far is durable. ``progress``: a plain success ack."""
        self.held.hold(self._journal.seq, self._core.term, peer, codec.encode(message), progress=progress)

    def release(self) -> None:
        """Let out what the disk has covered."""
        for peer, frame in self.held.release(self._journal.durable_seq, self._core.term):
            self._network.send(peer, frame)
