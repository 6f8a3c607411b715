"""The leader's side of replication: what each follower is sent, what its answers are worth, what is committed.

Rules: entries leave in the turn that appended them, also before the leader's own write is durable (dissertation
§10.2.1), and the next ones before the last are acknowledged (§10.2.2): one AppendEntries to one follower in a turn, and
so many bytes in flight. An acknowledgement counts in its own term only; nothing counts of a follower that lost its
journal. A follower that needs entries which are trimmed is sent the state instead (consensus/raft/snapshots.py).
"""

import structlog

from quorate.clock import Timer
from quorate.consensus.ports import Index, NodeId, Progress
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.common import Common
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.flow import Nearing, PeerFlow
from quorate.consensus.raft.guard import commit_ceiling
from quorate.consensus.raft.snapshots import SnapshotSender
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import Ack, Alive, AppendEntries, NeedState, SnapshotAck, YouLost
from quorate.errors import InvariantBrokenError, PeerError

_log = structlog.get_logger(__name__)


class Replication:
    """Owns the flow to each follower, and the snapshots on their way."""

    def __init__(self, common: Common, applying: Applying) -> None:
        ports = common.ports
        self._me, self._others, self._quorum = common.node_id, common.others, common.quorum
        self._core, self._journal, self._settings = common.core, ports.journal, common.settings
        self._network, self._clock, self._rng = ports.network, ports.scheduler, ports.rng
        self._outbox, self._turns = common.outbox, common.turns
        self._applying = applying
        self.flows: dict[NodeId, PeerFlow] = {}
        self.senders: dict[NodeId, SnapshotSender] = {}
        self._nearing: dict[NodeId, Nearing] = {}
        self.reset()
        self.followers_that_lost = self._seq = 0
        self._blob: tuple[tuple[int, int, int], bytes, int] = ((0, 0, 0), b"", 0)
        self._news_due = False
        self._news_timer: Timer | None = None

    def reset(self) -> None:
        """A leadership begins, or is over."""
        self.flows = {other: PeerFlow() for other in self._others}
        self.senders = {}
        self._nearing = {}

    def stop(self) -> None:
        """No callback any more."""
        if self._news_timer is not None:
            self._news_timer.cancel()

    # ── what operators and the controller ask ──

    def progress(self) -> tuple[Progress, ...]:
        """Every voter, this node too."""
        now, core = self._clock.monotonic(), self._core
        others = [Progress(peer, core.match(peer), max(0.0, now - core.last_response(peer))) for peer in self._others]
        return (Progress(self._me, Index(self._journal.last_index), 0.0), *others)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator must know, in sentences."""
        lost = ", ".join(str(peer) for peer in self._others if self.flows[peer].lost)
        sentence = f"node {lost} lost entries that it had acknowledged, and does not count before it has come back"
        return (sentence,) if lost else ()

    def successor(self, wanted: NodeId | None) -> NodeId | None:
        """The most caught-up voter that could lead, or the wanted one; None if nobody can."""
        core = self._core
        fit = [
            peer
            for peer in self._others
            if self._network.connected(peer)
            and core.match(peer) > 0
            and wanted in (None, peer)
            and not self.flows[peer].needs_state
        ]
        return max(fit, key=core.match) if fit else None

    # ── sending ──

    def feed_all(self, now: float) -> None:
        """What every follower needs: in most turns nothing."""
        core, last, commit = self._core, self._journal.last_index, self._core.commit_index
        for peer, flow in self.flows.items():
            if (
                core.next_index(peer) <= last
                or flow.resend
                or flow.needs_state
                or (commit > flow.commit_sent and self._tell_commit())
            ):
                self.feed(peer, now, heartbeat=False)
        self._news_due = False

    def heartbeat(self) -> None:
        """Something to every follower."""
        now = self._clock.monotonic()
        for peer in self._others:
            self.feed(peer, now, heartbeat=True)

    def feed(self, peer: NodeId, now: float, *, heartbeat: bool) -> None:
        """At most one AppendEntries to one follower."""
        flow, core, journal, settings = self.flows[peer], self._core, self._journal, self._settings
        if flow.needs_state:
            self._offer_snapshot(peer, now)
        last, commit = journal.last_index, core.commit_index
        next_index = min(core.next_index(peer), Index(last + 1))
        if next_index > last and not (heartbeat or flow.resend or (commit > flow.commit_sent and self._tell_commit())):
            return
        entries_end = Index(next_index - 1)
        blob, count = b"", 0
        if next_index <= journal.base_index:
            if not flow.needs_state:
                self._offer_snapshot(peer, now)
            flow.resend = False
            next_index, entries_end = Index(journal.base_index + 1), journal.base_index
        elif next_index <= last and flow.bytes_in_flight < settings.window_bytes:
            blob, count = self._entries_from(next_index)
            if count:  # Else they are being read back: heartbeats go on.
                # Believed to arrive (dissertation §10.2.2): what is lost is found by the next one's consistency check.
                entries_end = Index(next_index + count - 1)
                core.set_next_index(peer, Index(entries_end + 1))
                if entries_end < last:
                    self._turns.ask()
        news = min(commit, entries_end) > flow.commit_sent
        if not (count or heartbeat or flow.resend or news):
            return
        previous = Index(next_index - 1)
        previous_term = journal.term_at(previous)
        if previous_term is None:
            raise InvariantBrokenError(f"no term for {previous} between {journal.base_index} and {last}")
        self._seq += 1
        flow.sent(self._seq, entries_end, len(blob), previous if previous <= core.match(peer) else None)
        flow.resend = False
        flow.commit_sent = min(commit, entries_end)
        head = AppendEntries(core.term, self._seq, previous, previous_term, commit, ())
        self._network.send(peer, codec.append_frame(head, blob, count))

    def _tell_commit(self) -> bool:
        """Is the commit index worth a frame of its own? It waits a moment: the next entries would carry it along."""
        if not self._news_due and self._news_timer is None:
            self._news_timer = self._clock.call_later(self._settings.commit_news_s, self._on_news_timer)
        return self._news_due

    def _on_news_timer(self) -> None:
        self._news_timer = None
        commit = self._core.commit_index
        if any(flow.commit_sent < commit for flow in self.flows.values()):  # Else entries took it along.
            self._news_due = True
            self._turns.ask()

    def _entries_from(self, start: Index) -> tuple[bytes, int]:
        """Encoded once, however many followers are at the same place; anew after a truncation. None yet, if they left
        memory and are not back.
        """
        place = (start, self._journal.last_index, self._journal.generation)
        blob_place, blob, count = self._blob
        if blob_place != place:
            entries = self._journal.at_hand(start, self._settings.append_bytes, self._settings.append_entries)
            if entries is None:
                return b"", 0
            if not entries:
                raise InvariantBrokenError(f"entry {start} is not in the journal")
            blob, count = codec.encode_entries(entries), len(entries)
            self._blob = (place, blob, count)
        return blob, count

    def connected(self, peer: NodeId) -> None:
        """A connection is up: what was under way may be lost. Nothing waits for it; the next frame finds out."""
        self.flows[peer].resend = True
        if (sender := self.senders.get(peer)) is not None:
            sender.connected()

    # ── what is committed ──

    def count(self) -> None:
        """A match moved, or what is durable here: commit what a majority holds durably. This node's own copy counts
        when it is on its disk (dissertation §10.2.1), so others may commit an entry that is not. That the last one of
        them must be of this term (§3.6.2) the core sees to.
        """
        core = self._core
        core.count(commit_ceiling(self._journal.durable_index, core.matches(), self._quorum))

    # ── answers ──

    def lacks(self, peer: NodeId) -> bool:
        """Is there anything to send it now?"""
        return self.flows[peer].resend or self._core.next_index(peer) <= self._journal.last_index

    def on_ack(self, peer: NodeId, message: Ack) -> None:
        """A follower's answer to one AppendEntries."""
        flow, core = self.flows[peer], self._core
        # Of another term (BUG 2), or from before it lost its journal: a promise that binds nobody here.
        if core.role is not Role.LEADER or message.term != core.term or message.seq <= flow.ack_floor:
            return
        next_index = message.next_index
        if message.success and next_index > self._journal.last_index + 1:
            raise PeerError(f"node {peer} acknowledges {next_index - 1}, which was never sent")
        if flow.lost and message.counts:
            self._outbox.send(peer, YouLost(core.term, Index(0)))
        if flow.lost or not message.counts:
            self._move_uncounted(peer, message)
            return
        if message.reset and flow.proves_loss(message.seq, next_index):
            self._lost(peer)
            return
        if message.reset:
            if self.senders.get(peer) or not flow.take_reset(message.seq):
                core.note_alive(peer)
                return
            # A match never falls (dissertation, fig. 3.1): it holds what it acknowledged, or its next answer proves
            # that it does not.
            next_index = max(min(next_index, Index(self._journal.last_index + 1)), Index(core.match(peer) + 1))
        before = core.next_index(peer)
        core.acknowledged(peer, next_index, reset=message.reset, success=message.success)
        if message.success:
            self.count()
            self._has_entries(peer, next_index - 1)
            # The core takes every answer for the newest; with many in flight (§10.2.2) it is one of the oldest, and
            # what was sent since is not to be sent again.
            if core.next_index(peer) < before and not message.reset:
                core.set_next_index(peer, before)

    def _lost(self, peer: NodeId) -> None:
        """Its answer to what goes on from its own acknowledgement of this term says that it does not hold that. Not
        even its vote of this term is sure any more, so it comes back as one that forgot (consensus/raft/rejoin.py).
        """
        index = self._core.match(peer)
        self.followers_that_lost += 1
        _log.critical("a follower lost entries that it had acknowledged", follower=int(peer), up_to=int(index))
        flow = self.flows[peer]
        flow.lost = True
        flow.ack_floor = flow.last_seq
        flow.resend = True
        self._core.forget_match(peer)
        self._outbox.send(peer, YouLost(self._core.term, index))

    def forget_acks(self, peer: NodeId) -> None:
        """It forgot: what it acknowledged up to now, and is still on its way, counts for nothing."""
        self._core.forget_match(peer)
        flow = self.flows[peer]
        flow.ack_floor = flow.last_seq
        flow.lost = False

    def _move_uncounted(self, peer: NodeId, message: Ack) -> None:
        """A node that lost its journal: feed it, count on it for nothing. What it holds it is not sent again: a late
        answer may have moved the pipeline below the journal's beginning, and each snapshot offered for that would be
        called off by the next acknowledgement.
        """
        flow, core = self.flows[peer], self._core
        if message.reset and not self.senders.get(peer) and flow.take_reset(message.seq):
            core.set_next_index(peer, min(message.next_index, Index(self._journal.last_index + 1)))
        elif message.success:
            self._has_entries(peer, message.next_index - 1)
            if core.next_index(peer) < message.next_index:
                core.set_next_index(peer, message.next_index)

    def _has_entries(self, peer: NodeId, index: int) -> None:
        """It needs no snapshot, unless it said so."""
        if not self.flows[peer].needs_state:
            self.senders.pop(peer, None)
        self.flows[peer].confirmed(index)

    def on_alive(self, peer: NodeId, message: Alive) -> None:
        """It waits for its disk. A leader steps down that hears nothing of a majority (dissertation §6.2)."""
        if self._core.role is Role.LEADER and message.term == self._core.term:
            self._core.note_alive(peer)

    # ── snapshots ──

    def _offer_snapshot(self, peer: NodeId, now: float) -> None:
        """The follower needs entries that are trimmed: send it the state instead, if it is there to take it."""
        if not self._network.connected(peer):
            self.senders.pop(peer, None)
            return
        sender = self.senders.get(peer)
        if sender is not None and sender.stale(now):
            sender = None
        if sender is None:
            sender = self._applying.installer.snapshot(self._core.term, self._rng.getrandbits(61), self._turns.ask, now)
            if sender is None:
                return
            self.senders[peer] = sender
            self._nearing.pop(peer, None)
        for message in sender.messages(now):
            self._outbox.send(peer, message)

    def on_snapshot_ack(self, peer: NodeId, message: SnapshotAck) -> None:
        """How much of it has arrived."""
        sender = self.senders.get(peer)
        if sender is None or self._core.role is not Role.LEADER or message.term != self._core.term:
            return
        now = self._clock.monotonic()
        if sender.on_ack(message, now):
            del self.senders[peer]
            after = Index(sender.index + 1)
            if self.flows[peer].needs_state:  # Its log went on meanwhile.
                self.flows[peer].needs_state = False
                after = max(after, self._core.next_index(peer))
            self._core.set_next_index(peer, after)
            self.flows[peer].resend = True
            self._nearing[peer] = Nearing(sender.index, now)

    def kept_after(self, now: float) -> list[Index]:
        """After which entries a leader's journal must go on: those of snapshots under way, and of followers that took
        one and come nearer to its end. Who took it slowly would else need another, and so on.
        """
        if not self.senders and not self._nearing:
            return []
        patience_s, last = self._settings.snapshots.timeout_s, self._journal.last_index
        for peer in [*self._nearing]:
            if not self._nearing[peer].goes_on(self._core.match(peer), last, now, patience_s):
                del self._nearing[peer]
        return [sender.index for sender in self.senders.values()] + [one.index for one in self._nearing.values()]

    def on_need_state(self, peer: NodeId, message: NeedState) -> None:
        """Once this leader has applied all that the asker's log no longer holds, it can tell it."""
        core = self._core
        if core.role is Role.LEADER and message.term == core.term and self._applying.applied >= message.index:
            self.flows[peer].needs_state = True
            self._offer_snapshot(peer, self._clock.monotonic())
