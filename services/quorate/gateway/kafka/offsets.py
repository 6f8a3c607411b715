"""How far consumer groups have come: positions kept by the cluster, through leader changes and restarts.

Rules: no I/O; a commit is answered when it is committed and applied on the leader, or with the reason why not. Only the
coordinator answers, for only it knows who is a member and that no newer commit exists. Ids, metadata and the number
of positions are bounded. A position lapses ``group_expiry_s`` after its commit, by the leader's clock, unless its group
has members: then it is committed again half-way, for a client that reads a silent log has nothing to commit.
"""

from collections.abc import Callable, Iterator

from quorate.clock import Scheduler
from quorate.controller import Written
from quorate.gateway.kafka import group_rows
from quorate.gateway.kafka.group_rows import KeptOffset
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.kafka.view import GroupLedger
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import OffsetCommitPartition, OffsetCommitRequest

_ERRORS = {
    Written.DONE: ErrorCode.NONE,
    Written.BUSY: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    Written.NO_ROOM: ErrorCode.POLICY_VIOLATION,
    Written.NOT_LEADER: ErrorCode.NOT_COORDINATOR,
    Written.LATE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
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
        self._put(request.group, KeptOffset(at.offset, at.leader_epoch, at.metadata, self._scheduler.time_ms()), done)

    def _put(self, group: str, kept: KeptOffset, done: Callable[[ErrorCode], None]) -> None:
        row = group_rows.encode(kept)
        self._ledger.put(group_rows.offset_key(group), row, lambda written: done(_ERRORS[written]))

    def forget(self, group: str, done: Callable[[ErrorCode], None]) -> None:
        """Remove what a group without members keeps."""
        found = self._groups.find(group)
        if found is not None and found.members:
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
        lifetime_ms, now = self._settings.group_expiry_s * 1000, self._scheduler.time_ms()
        for _ in range(self._settings.group_rows_per_sweep):
            key, row = next(self._round, (b"", b""))
            if not key:
                self._round = self._ledger.starting_with(group_rows.OFFSET)
                return
            kept, group_id = group_rows.decode_offset(row), group_rows.group_of(key)
            age = now - kept.time_ms
            if age <= lifetime_ms / 2 or self._ledger.get(key) != row or self._ledger.pending(key):
                continue  # A commit that is on its way must not be overtaken by what was kept before it.
            group = self._groups.find(group_id)
            if group is not None and group.members:
                renewed = KeptOffset(kept.offset, kept.leader_epoch, kept.metadata, now)
                self._put(group_id, renewed, _unheard)
            elif age > lifetime_ms:
                self._ledger.put(key, None, _unheard)


def _unheard(_: object) -> None:
    """Nobody waits for this; the next round looks again."""
