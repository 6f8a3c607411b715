"""Committed offsets: who may commit what, when they lapse, and that nothing newer is ever overtaken."""

import random
from collections.abc import Callable

import pytest

from quorate.controller import WriteResult
from quorate.errors import InvariantBrokenError
from quorate.gateway.kafka import group_rows
from quorate.gateway.kafka.group_rows import KeptMembers, KeptOffset
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.offsets import GroupOffsets
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import JoinGroupRequest, OffsetCommitPartition, OffsetCommitRequest, SyncGroupRequest
from quorate.wire.kafka_responses import JoinedGroup
from tests.kafka_tools.fakes import FakeLedger
from tests.sim.world import Loop, World

SETTINGS = KafkaSettings(group_rows_per_sweep=2, offset_metadata_bytes_max=10)


class Desk:
    """Groups and their offsets over a ledger in memory, in virtual time."""

    def __init__(self) -> None:
        self.world = World(1)
        scheduler = Loop(self.world, "desk", lambda: None)
        self.ledger = FakeLedger()
        self.ledger.lifetime_s = 100.0
        self.groups = Groups(SETTINGS, scheduler, random.Random(1), self.ledger)
        self.offsets = GroupOffsets(SETTINGS, scheduler, self.groups, self.ledger)
        self.clock = scheduler

    def commit(
        self, offset: int, *, group: str = "g", metadata: str | None = "note", generation: int = -1
    ) -> list[int]:
        answers: list[int] = []
        request = OffsetCommitRequest(group, generation, "", None, ())
        self.offsets.commit(request, OffsetCommitPartition(0, offset, 3, metadata), answers.append)
        return answers

    def sweep_for(self, seconds: float) -> None:
        """Time passes, with a sweep a second, and a few rounds of sweeps after it."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.run_until(min(self.world.now + 1, until))
            self.offsets.sweep()
        self.sweep()

    def sweep(self) -> None:
        """A few rounds."""
        for _ in range(10):
            self.offsets.sweep()

    def at(self, group: str = "g") -> int | None:
        kept = self.offsets.kept(group)
        return None if kept is None else kept.offset

    def member(self) -> None:
        """Somebody joins the group."""
        joined: list[JoinedGroup] = []
        request = JoinGroupRequest("g", 600_000, 600_000, "", None, "consumer", (("range", b""),), False)
        self.groups.join(request, ("client", "host"), joined.append)
        self.world.run_until(self.world.now + 1)
        sync = SyncGroupRequest("g", joined[0].generation, joined[0].member_id, None, ())
        self.groups.sync(sync, lambda _error, _assignment: None)


def test_a_commit_comes_back_whole() -> None:
    """Offset, epoch and metadata, the last one committed, a group each."""
    desk = Desk()
    assert desk.commit(7) == desk.commit(42) == desk.commit(1, group="other", metadata=None) == [0]
    kept = desk.offsets.kept("g")
    assert kept is not None
    assert (kept.offset, kept.leader_epoch, kept.metadata) == (42, 3, "note")
    assert desk.at("other") == 1
    assert desk.at("nobody") is None
    assert set(desk.offsets.of_groups()) == {"g", "other"}


def test_a_commit_is_answered_when_it_is_kept() -> None:
    """Not before; and until then the old position is the position."""
    desk = Desk()
    desk.commit(1)
    desk.ledger.held = True
    answers = desk.commit(2)
    assert (answers, desk.at()) == ([], 1)
    desk.ledger.release()
    assert (answers, desk.at()) == ([0], 2)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (WriteResult.BUSY, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (WriteResult.NO_ROOM, ErrorCode.POLICY_VIOLATION),
        (WriteResult.NOT_LEADER, ErrorCode.NOT_COORDINATOR),
        (WriteResult.LATE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_was_not_kept_is_told_as_kafka_tells_it(outcome: WriteResult, error: ErrorCode) -> None:
    """Each reason has its error code; the position stays what it was."""
    desk = Desk()
    desk.commit(1)
    desk.ledger.outcome = outcome
    assert desk.commit(2) == [error]
    assert desk.at() == 1


def test_what_cannot_be_a_position_is_refused() -> None:
    """A negative offset, long metadata, no group, a generation that is not: each its error, and nothing is kept."""
    desk = Desk()
    assert desk.commit(-1) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    assert desk.commit(1, metadata="é" * 6) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert desk.commit(1, group="") == [ErrorCode.INVALID_GROUP_ID]
    assert desk.commit(1, generation=4) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert not desk.ledger.rows


def test_an_unused_position_lapses() -> None:
    """After the expiry, for every group, however few are looked at in one sweep; not before."""
    desk = Desk()
    for number in range(9):
        desk.commit(number, group=f"g{number}")
    desk.sweep_for(99)
    assert len(list(desk.offsets.of_groups())) == 9
    desk.sweep_for(3)
    assert not list(desk.offsets.of_groups())


def test_a_jump_of_the_clock_is_one_step() -> None:
    """A leader's clock a year ahead for a moment, then back, then an hour back for good, then a week in which nobody
    swept: each ages a position by a small part of the expiry, and then time passes as ever.
    """
    desk = Desk()
    desk.commit(5)
    desk.sweep_for(10)
    year_ms = 365 * 24 * 3600 * 1000
    for skew_ms in (year_ms, 0, -3_600_000):
        desk.clock.wall_skew_ms = skew_ms
        desk.sweep()
        desk.sweep_for(1)
        assert desk.at() == 5
    desk.world.run_until(desk.world.now + 7 * 24 * 3600)
    desk.sweep()
    assert desk.at() == 5
    desk.sweep_for(75)
    assert desk.at() == 5
    desk.sweep_for(15)
    assert desk.at() is None


def test_the_kept_clock_is_written_seldom_and_only_for_positions() -> None:
    """It is an entry of the log each time: none without positions, and a few dozen in an expiry with some."""
    desk = Desk()
    desk.sweep_for(200)
    assert not desk.ledger.rows
    desk.commit(5)
    desk.member()
    written: list[bytes] = []
    for _ in range(100):
        desk.sweep_for(1)
        row = desk.ledger.rows[b"clock"]
        if row not in written:
            written.append(row)
    assert 50 <= len(written) <= 2 * 64 + 1


def test_a_position_in_use_does_not_lapse() -> None:
    """A group with members may read a silent log for ever without a commit; once they are gone it lapses."""
    desk = Desk()
    desk.commit(5)
    desk.member()
    for _ in range(10):
        desk.sweep_for(60)
        assert desk.at() == 5
    desk.groups.clear()
    desk.sweep_for(101)
    assert desk.at() is None


def test_a_commit_under_way_is_not_overtaken() -> None:
    """Neither lapsing nor renewing touches a position that is just being committed."""
    desk = Desk()
    desk.commit(5)
    desk.sweep_for(99)
    desk.ledger.held = True
    answers = desk.commit(6)
    desk.sweep_for(5)
    desk.member()
    desk.sweep_for(0)
    desk.ledger.release()
    assert (answers, desk.at()) == ([0], 6)


@pytest.mark.parametrize("expiry_s", [0.001, 3.0, 20.0])
def test_a_short_expiry_holds_too(expiry_s: float) -> None:
    """Nothing lapses before, all of it within two sweeps after; and the kept clock is no entry of each sweep."""
    desk = Desk()
    desk.ledger.lifetime_s = expiry_s
    desk.commit(5)
    written: set[bytes | None] = set()
    for _ in range(int(expiry_s) - 1):
        desk.sweep_for(1)
        written.add(desk.ledger.rows.get(b"clock"))
        assert desk.at() == 5
    desk.sweep_for(4)
    assert desk.at() is None
    assert len(written) <= expiry_s / 2 + 1


def test_the_clock_that_lets_positions_lapse_is_kept_though_nothing_else_has_room() -> None:
    """Else nothing would ever lapse, and there would never be room."""
    desk = Desk()
    desk.commit(5)
    asked: list[bool] = []
    put = desk.ledger.put

    def full(key: bytes, row: bytes | None, done: Callable[[WriteResult], None], *, needed: bool = False) -> None:
        asked.append(needed)
        put(key, row, done) if needed or row is None else done(WriteResult.NO_ROOM)

    desk.ledger.put = full  # type: ignore[method-assign]
    assert desk.commit(5, group="more") == [ErrorCode.POLICY_VIOLATION]
    desk.sweep_for(200)
    assert asked.count(True) > 0
    assert desk.at() is None


def test_a_row_with_a_damaged_text_is_said_to_be_damaged() -> None:
    """As any other that none of ours wrote."""
    offset = group_rows.encode(KeptOffset(1, 1, "abcd", 1)).replace(b"abcd", b"\xff\xfe\xff\xfe")
    with pytest.raises(InvariantBrokenError, match="kept offset"):
        group_rows.decode_offset(offset)
    members = group_rows.encode(KeptMembers(1, "abcd", "range", "m", ())).replace(b"abcd", b"\xff\xfe\xff\xfe")
    with pytest.raises(InvariantBrokenError, match="kept members"):
        group_rows.decode_members(members)
