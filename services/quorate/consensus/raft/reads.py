"""Linearizable reads, on the leader and on the others (dissertation §6.4): one round per turn for all that wait.

Rules: a read is answered with an index that was committed when it was asked, once a majority knew no later term after
that, and once it is applied here. The leader asks the others; a follower asks the leader, whose answer covers all it
has committed. Nothing is written, and no clock is trusted (§6.4.1 would need one).
"""

from quorate.consensus.ports import Index, NodeId
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.common import Common
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.elections import Elections
from quorate.consensus.raft.leadership import Leadership
from quorate.consensus.raft.membership import Membership
from quorate.consensus.raft.read_rounds import ReadDone, ReadRounds
from quorate.consensus.raft.replication import Replication
from quorate.consensus.transport.codec import (
    ReadAsk,
    ReadIndexIs,
    ReadProbe,
    ReadProbeAnswer,
    RejoinIndex,
    RejoinRead,
)


class Reads:
    """Owns the rounds."""

    def __init__(
        self,
        common: Common,
        membership: Membership,
        applying: Applying,
        elections: Elections,
        leadership: Leadership,
        replication: Replication,
    ) -> None:
        ports = common.ports
        self._me, self._others, self._quorum = common.node_id, common.others, common.quorum
        self._core, self._outbox, self._network = common.core, common.outbox, ports.network
        self._clock, self._timeout_s, self._turns = ports.scheduler, common.settings.read_timeout_s, common.turns
        self._membership = membership
        self._applying = applying
        self._elections = elections
        self._leadership = leadership
        self._replication = replication
        self.rounds = ReadRounds(common.node_id, common.quorum, common.settings.reads_max, ports.rng.getrandbits(61))
        self._running = False

    def start(self) -> None:
        """Take reads."""
        self._running = True

    def stop(self) -> None:
        """Answer all that wait, that it cannot be known; take none any more."""
        self._running = False
        self.rounds.fail()

    def barrier(self, done: ReadDone) -> None:
        """Linearizable read on any node: ``done`` hears the index to wait for, or None."""
        deadline = self._clock.monotonic() + self._timeout_s
        if not self._running or not self.rounds.add(deadline, done):
            done(None)
            return
        if not self._turns.asked:
            self._turns.ask()

    # ── the leader's round ──

    def begin_round(self) -> None:
        """Ask everybody whether they know a later term."""
        term = self._core.term
        number = self.rounds.begin(term, self._core.commit_index)
        for peer in self._others:
            self._outbox.send(peer, ReadProbe(term, number))
        self.rounds.count(number, term, self._me)

    def on_read_probe(self, peer: NodeId, message: ReadProbe) -> None:
        """Who knows no later term has voted for nobody in one, and whoever is elected after this needs such a vote."""
        sure = self._membership.is_sure()
        ok = self._core.term <= message.term and sure
        self._outbox.send(peer, ReadProbeAnswer(message.term, message.round, ok))

    def on_read_probe_answer(self, peer: NodeId, message: ReadProbeAnswer) -> None:
        """One more that knows none."""
        core = self._core
        if message.ok and core.role is Role.LEADER and message.term == core.term:
            self.rounds.count(message.round, message.term, peer)
            self.rounds.answer(self._applying.applied)

    # ── a follower's question ──

    def ask(self) -> None:
        """One question for all reads of this turn; none of an earlier term will be answered."""
        rounds, term = self.rounds, self._core.term
        rounds.end_rounds(but=term)
        if not rounds.queued:
            return
        leader = self._elections.leader
        number = rounds.begin(term, Index(0))
        if leader is None or leader == self._me or not self._network.connected(leader):
            rounds.told(number, Index(0))
        else:
            self._outbox.send(leader, ReadAsk(term, number, self._membership.is_sure()))

    def on_read_ask(self, peer: NodeId, message: ReadAsk) -> None:
        """Of three voters, this one and the asker are a majority: at a moment after its reads began the asker knew no
        later term, so everything committed before is in this log, and the commit index of now covers it.
        """
        if not self._leadership.term or message.term != self._core.term:
            self._outbox.send(peer, ReadIndexIs(message.term, message.round, Index(0)))
        elif message.counts and self._quorum == 2:
            self.answer_read(peer, message, self._core.commit_index)
        else:
            self.barrier(lambda index: self.answer_read(peer, message, index))

    def answer_read(self, peer: NodeId, message: ReadAsk, index: Index | None) -> None:
        """With the news of what is committed, which it must apply first and would else hear of a moment later."""
        if self._running:
            leads = self._leadership.term == message.term  # A read may be confirmed, and answered after the leadership.
            if leads and index and self._replication.flows[peer].commit_sent < index:
                self._replication.feed(peer, self._clock.monotonic(), heartbeat=True)
            self._outbox.send(peer, ReadIndexIs(message.term, message.round, index or Index(0)))

    def on_read_index_is(self, _: NodeId, message: ReadIndexIs) -> None:
        """The leader's answer."""
        self.rounds.told(message.round, message.index)
        self.rounds.answer(self._applying.applied)

    # ── for a node that lost its journal ──

    def on_rejoin_read(self, peer: NodeId, message: RejoinRead) -> None:
        """Forget its acks first, then read: what was committed with their help is below the answer."""
        core = self._core
        if core.role is not Role.LEADER or message.term != core.term:
            return
        self._replication.forget_acks(peer)

        def confirmed(index: Index | None) -> None:
            if index is not None and self._running:
                self._outbox.send(peer, RejoinIndex(message.nonce, index))

        self.barrier(confirmed)
