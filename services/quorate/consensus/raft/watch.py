"""Does this node keep time, and does its disk?

Rules: a leader whose disk hangs steps down; a node whose disk hangs for too long stops. Time that the node itself slept
(SIGSTOP, a frozen container) counts neither against its disk nor as silence of the others.
"""

from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.common import Common, unsynced_s
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.elections import Elections
from quorate.consensus.raft.pace import Pace
from quorate.consensus.raft.snapshots import WatchedWorker
from quorate.errors import StorageError


class Watch:
    """Looks at the clock in every turn, at the disk once a tick. What it measures goes to ``pace``."""

    def __init__(
        self, common: Common, applying: Applying, elections: Elections, pace: Pace, store_syncs: WatchedWorker
    ) -> None:
        self._core, self._journal, self._settings = common.core, common.ports.journal, common.settings
        self._applying = applying
        self._elections = elections
        self._pace = pace
        self._store_syncs = store_syncs
        self._disk_watched_at = self._awake_since = self._expected_at = common.ports.scheduler.monotonic()

    def expect(self, when: float) -> None:
        """The next tick is due then."""
        self._expected_at = when

    def turn(self, now: float) -> None:
        """How late is this one, if the tick should have come before it?"""
        late_s = now - self._expected_at
        if late_s > 0.0:
            self._expected_at = now
            self._pace.note_turn(late_s, now)
            if late_s > self._settings.heartbeat_s:
                self._elections.timing.slept(late_s, now)
                self._core.slept(late_s)

    def look(self, now: float) -> None:
        """Once a tick. Raises StorageError for a disk that has not answered for so long that nobody should wait."""
        settings = self._settings
        if now - self._disk_watched_at > settings.disk_stall_step_down_s:  # It has not seen its disk hang meanwhile.
            self._awake_since = now
        self._disk_watched_at = now
        age = unsynced_s(self._journal, now)
        self._pace.note_turn(0.0, now)
        self._pace.note_sync(age, now)
        awake_s, fatal_s = now - self._awake_since, settings.disk_stall_fatal_s
        if age > fatal_s and awake_s > fatal_s:
            raise StorageError(f"the disk has not finished a sync for {age:.1f} s")
        store_age = self._store_syncs.oldest_age(now)
        if store_age > fatal_s and awake_s > fatal_s:  # Nobody waits for it, but the journal would grow without end.
            raise StorageError(f"the disk has not finished a sync of the store for {store_age:.1f} s")
        if reads := self._journal.read_back.under_way:
            read_age = now - next(iter(reads.values()))
            if min(read_age, awake_s) > fatal_s:
                raise StorageError(f"the disk has not finished a read of the journal for {read_age:.1f} s")
        waits_since = self._applying.waits_since
        if waits_since is not None:
            age = max(age, now - waits_since)
        if age > settings.disk_stall_step_down_s and self._core.role is Role.LEADER:
            self._core.resign()
