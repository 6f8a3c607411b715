"""What is committed becomes the state: entry by entry, or all of it by a snapshot.

Rules: entries are applied in order, in bounded slices, and only what is known committed in this life of the node.
Before each slice what was applied is compared with what is committed (consensus/raft/applied_check.py). While a
snapshot arrives, and while the store is behind the journal's beginning, nothing is applied.
"""

from quorate.consensus.ports import Index, NodeId
from quorate.consensus.raft.applied_check import check_applied
from quorate.consensus.raft.common import Common
from quorate.consensus.raft.install import Installer
from quorate.consensus.raft.membership import store_was_lost
from quorate.consensus.raft.snapshots import Trimmer, WatchedWorker
from quorate.consensus.transport.codec import NeedState, SnapshotAck
from quorate.errors import InvariantBrokenError

_APPLY_CLOCK_EVERY = 4
"""Entries applied between two looks at the clock."""


class Applying:
    """Owns the applied index, the installer that moves it in one step, and the trimmer that follows it."""

    def __init__(self, common: Common, store_syncs: WatchedWorker) -> None:
        ports = common.ports
        self._core, self._journal, self._machine = common.core, ports.journal, ports.machine
        self._clock, self._settings = ports.scheduler, common.settings
        self._outbox, self._turns = common.outbox, common.turns
        applied = ports.machine.applied_index()
        self.needs_state = store_was_lost(applied, ports.journal.base_index)
        """The store lacks what no entry can tell any more: the leader must send its state."""
        self.applied = applied if self.needs_state else Index(max(applied, 1))
        self.waits_since: float | None = None
        """Since when entries that must be applied are being read back."""
        self._ask_at = ports.scheduler.monotonic()
        self.installer = Installer(
            ports.journal,
            ports.machine,
            ports.store,
            ports.event_log,
            store_syncs,
            ports.reader,
            common.settings.snapshots,
            self._installed,
        )
        self.trimmer = Trimmer(ports.journal, ports.store, store_syncs, common.settings.snapshots, self._ask_at)
        common.core.set_positions(applied=Index(max(self.applied, ports.journal.base_index)))

    @property
    def installing(self) -> bool:
        """A snapshot is arriving, or must."""
        return self.installer.active or self.needs_state

    def take_slice(self, now: float) -> Index | None:
        """Apply a bounded number of committed entries. Up to where they are committed; None if none was applied."""
        journal, machine = self._journal, self._machine
        commit = Index(min(self._core.commit_index, journal.last_index))
        waits, self.waits_since = self.waits_since, None
        if self.installer.active or self.needs_state:
            return None
        check_applied(self.applied, machine.applied_term(), commit, journal)
        if self.applied >= commit:
            return None
        settings = self._settings
        count = min(settings.apply_slice_entries, commit - self.applied)
        deadline = now + settings.apply_slice_s
        done = 0
        entries = journal.at_hand(self.applied + 1, settings.append_bytes, count)
        if entries is None:
            self.waits_since = now if waits is None else waits
            return None
        for index, term, entry in entries:
            machine.apply(index, term, entry)
            self.applied = index
            done += 1
            if done % _APPLY_CLOCK_EVERY == 0 and self._clock.monotonic() > deadline:
                break
        if not done:
            raise InvariantBrokenError(f"committed entry {self.applied + 1} is not in the journal")
        self._core.set_positions(applied=self.applied)
        machine.applied()
        return commit

    def _installed(self, peer: NodeId, index: Index, ack: SnapshotAck) -> None:
        """The store holds the snapshot and the journal begins at it (or had it)."""
        self.applied = max(self.applied, index)
        self.needs_state = self.needs_state and self.applied < self._journal.base_index
        self._core.set_positions(applied=self.applied, commit=index)
        if ack.term == self._core.term:
            self._outbox.hold(peer, ack)
        self._turns.ask()

    def tidy(self, kept_after: list[Index], now: float) -> None:
        """What only the passing of time makes due: drop a snapshot that never came whole, clear away what is not
        needed, trim the journal. ``kept_after``: what comes after these, followers need.
        """
        self.installer.expire(now)
        self.installer.sweep()
        if not self.installer.active:
            # The store may be ahead of the journal after a kill: what is applied but not yet known to be committed in
            # this life may be another entry here, and the journal must never begin at that.
            self.trimmer.consider(Index(min(self.applied, self._core.commit_index)), kept_after, now)

    def stop(self) -> None:
        """Call nobody back any more."""
        self.installer.stop()
        self.trimmer.stop()

    def ask_for_state(self, leader: NodeId | None, now: float) -> None:
        """The store was lost, the log was not: the leader would not know that it must send more than entries."""
        if now >= self._ask_at and leader is not None and not self.installer.active:
            self._ask_at = now + self._settings.rejoin_ask_s
            self._outbox.send(leader, NeedState(self._core.term, self._journal.base_index))
