"""How far consumer groups have come: positions kept by the cluster, through leader changes and restarts.

Rules: no I/O; a commit is answered when it is committed and applied on the leader, or with the reason why not. Only the
coordinator answers, for only it knows who is a member and that no newer commit exists. Ids, metadata and the number
of positions are bounded. A position lapses ``group_expiry_s`` (the cluster's: metadata/limits.py) after its commit,
unless its group has members: then it is committed again half-way, for a client that reads a silent log has nothing to
commit.

Theory: leaders' clocks jump, and hosts sleep. So age is not what a clock says but what passed by ordinary steps: a
clock is kept beside the positions, and moved on by the leader's own, from step to step, by a small part of
``group_expiry_s`` at most. A clock that jumps a year ahead, or a week in which nobody led, ages a position by one step.
"""

from collections.abc import Callable, Iterator

from quorate.clock import Scheduler
from quorate.controller import WriteResult
from quorate.gateway.kafka import group_rows
from quorate.gateway.kafka.group_rows import KeptClock, KeptOffset
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.kafka.view import GroupLedger
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import OffsetCommitPartition, OffsetCommitRequest

STEPS = 64
"""Of an expiry: what the kept clock is moved on by at once at most ..."""
STEP_SWEEPS = 4
"""... but by so many sweeps always: of a short expiry the clock would be late else, or an entry of each sweep."""
_ERRORS = {
    WriteResult.DONE: ErrorCode.NONE,
    WriteResult.BUSY: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    WriteResult.NO_ROOM: ErrorCode.POLICY_VIOLATION,
    WriteResult.NOT_LEADER: ErrorCode.NOT_COORDINATOR,
    WriteResult.LATE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Clients try again after 14, 15 and 16, and give up after 44."""


class GroupOffsets:
    """Positions of all groups."""

    def __init__(self, settings: KafkaSettings, scheduler: Scheduler, groups: Groups, ledger: GroupLedger) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._groups = groups
        self._ledger = ledger
        self._round: Iterator[tuple[bytes, bytes]] = iter(())

    def commit(
        self, request: OffsetCommitRequest, at: OffsetCommitPartition, done: Callable[[ErrorCode], None]
    ) -> None:
        """Keep a position of our partition."""
        error = self._groups.may_commit(request.group, request.generation, request.member_id, request.instance_id)
        if not error and at.offset < 0:
            error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        if not error and len((at.metadata or "").encode()) > self._settings.offset_metadata_bytes_max:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        if error:
            done(error)
            return
        time_ms = self._scheduler.time_ms()
        kept = KeptOffset(at.offset, at.leader_epoch, at.metadata, time_ms, self._passed_ms(time_ms))
        self._put(request.group, kept, done)

    def _put(self, group: str, kept: KeptOffset, done: Callable[[ErrorCode], None]) -> None:
        row = group_rows.encode(kept)
        self._ledger.put(group_rows.offset_key(group), row, lambda written: done(_ERRORS[written]))

    def forget(self, group: str, done: Callable[[ErrorCode], None]) -> None:
        """Remove what a group without members keeps."""
        entry = self._groups.find(group)
        if entry is not None and entry.members:
            done(ErrorCode.NON_EMPTY_GROUP)
        elif self._ledger.get(group_rows.offset_key(group)) is None:
            done(ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            self._ledger.put(group_rows.offset_key(group), None, lambda written: done(_ERRORS[written]))

    def kept(self, group: str) -> KeptOffset | None:
        """The position last committed, as applied here."""
        row = self._ledger.get(group_rows.offset_key(group))
        return None if row is None else group_rows.decode_offset(row)

    def of_groups(self) -> Iterator[str]:
        """Every group that has one."""
        return (group_rows.group_of(key) for key, _ in self._ledger.starting_with(group_rows.OFFSET))

    def sweep(self) -> None:
        """Look at the next few: what nobody uses lapses, what members use is kept alive."""
        lifetime_ms, now = self._ledger.expiry_s() * 1000, self._scheduler.time_ms()
        passed_ms = self._passed_ms(now)
        self._move_on(now, passed_ms)
        for _ in range(self._settings.group_rows_per_sweep):
            key, row = next(self._round, (b"", b""))
            if not key:
                self._round = self._ledger.starting_with(group_rows.OFFSET)
                return
            kept, group_id = group_rows.decode_offset(row), group_rows.group_of(key)
            age = passed_ms - kept.passed_ms
            if age <= lifetime_ms / 2 or self._ledger.get(key) != row or self._ledger.pending(key):
                continue  # A commit that is on its way must not be overtaken by what was kept before it.
            group = self._groups.find(group_id)
            if group is not None and group.members:
                renewed = KeptOffset(kept.offset, kept.leader_epoch, kept.metadata, now, passed_ms)
                self._put(group_id, renewed, _unheard)
            elif age > lifetime_ms:
                self._ledger.put(key, None, _unheard)

    def _kept_clock(self) -> KeptClock | None:
        row = self._ledger.get(group_rows.CLOCK)
        return None if row is None else group_rows.decode_clock(row)

    def _step_ms(self) -> float:
        return 1000 * max(self._ledger.expiry_s() / STEPS, STEP_SWEEPS * self._settings.sweep_period_s)

    def _passed_ms(self, now: int) -> int:
        """By the kept clock, now."""
        clock = self._kept_clock()
        return 0 if clock is None else clock.passed_ms + int(min(max(now - clock.time_ms, 0), self._step_ms()))

    def _move_on(self, now: int, passed_ms: int) -> None:
        """Keep how much has passed, now and then; at once when our clock is behind the one it was read from."""
        clock = self._kept_clock()
        due = clock is None or not 0 <= now - clock.time_ms < self._step_ms() / 2
        if due and not self._ledger.pending(group_rows.CLOCK) and next(self.of_groups(), None) is not None:
            # Without it nothing would lapse, and room would never come.
            self._ledger.put(group_rows.CLOCK, group_rows.encode(KeptClock(now, passed_ms)), _unheard, needed=True)


def _unheard(_: object) -> None:
    """Nobody waits for this; the next round looks again."""
