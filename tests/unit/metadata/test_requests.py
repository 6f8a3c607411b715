"""Request ids: answered again while remembered, never run twice, honest when forgotten."""

import random

import msgspec
import pytest

from quorate.consensus.entry import Entry, decode_entry, encode_entry
from quorate.consensus.ports import Term
from quorate.controller.machine import remember
from quorate.errors import InvariantBrokenError, UsageError
from quorate.metadata.commands import ChangeConfig, Command, DeleteTopic, GrantLease, Refusal
from quorate.metadata.requests import (
    FORGOTTEN_MAX,
    SPANS_MAX,
    RememberedReply,
    RequestSettings,
    RequestTable,
    command_digest,
    request_time_ms,
    rows_gone,
)
from quorate.model.rows import ROWS_PER_STEP
from quorate.model.state import EMPTY
from quorate.slices import finished
from tests.unit.metadata.kit import counted

SMALL = RequestSettings(remembered_max=2, remembered_ms_max=1_000, ahead_ms_max=50)


def table_of(*entries: tuple[str, int, int], settings: RequestSettings = SMALL) -> RequestTable:
    """A table that remembered (id, first offset, time) one after the other, for principal ``p``."""
    table = RequestTable(settings=settings)
    for request_id, offset, time_ms in entries:
        table, _ = table.remember("p", request_id, offset, 1, b"r", time_ms)
    return table


def refusal(table: RequestTable, request_id: str, now_ms: int = 100) -> str:
    """The name of the refusal a recall ends in."""
    found = table.recall("p", request_id, now_ms)
    assert isinstance(found, Refusal), found
    return found.code


def test_a_remembered_request_is_told_its_answer() -> None:
    """Only to its own principal."""
    table = table_of(("5-a", 7, 5))
    found = table.recall("p", "5-a", 6)
    assert found == RememberedReply(principal="p", request_id="5-a", first_offset=7, count=1, time_ms=5, reply=b"r")
    assert table.recall("q", "5-a", 6) is None
    assert table.recall("p", "5-b", 6) is None


def test_another_command_under_a_known_id_is_refused() -> None:
    """By name, whoever kept it; without a digest on either side (an older build's entry) it is answered as ever."""
    first, other = (command_digest(DeleteTopic(topic=name)) for name in "ab")
    table, rows = RequestTable().remember("p", "5-a", 7, 1, b"r", 5, first)
    restored = finished(
        RequestTable.restoring([(key, value) for key, value in rows if value is not None], RequestSettings())
    )
    for one in (table, restored):
        assert isinstance(one.recall("p", "5-a", 6, first), RememberedReply)
        found = one.recall("p", "5-a", 6, other)
        assert isinstance(found, Refusal)
        assert found.code == "RequestIdReused"
        assert isinstance(one.recall("p", "5-a", 6), RememberedReply)
    old, _ = RequestTable().remember("p", "5-a", 7, 1, b"r", 5)
    assert isinstance(old.recall("p", "5-a", 6, other), RememberedReply)


def test_a_row_of_an_older_build_has_no_digest() -> None:
    """Its bytes, as that build wrote them, are read."""
    row = msgspec.msgpack.encode(
        {"principal": "p", "request_id": "5-a", "first_offset": 7, "count": 1, "time_ms": 5, "reply": b"r"}
    )
    table = finished(RequestTable.restoring([((7).to_bytes(8, "big"), row)], RequestSettings()))
    assert dict(table.rows()) == {(7).to_bytes(8, "big"): row}
    assert isinstance(table.recall("p", "5-a", 6, bytes(16)), RememberedReply)


def test_a_digest_is_of_the_command_and_not_of_how_it_was_written() -> None:
    """Equal commands, however their fields were ordered, have one; every field makes another."""
    one = ChangeConfig(scope="cluster", changes={"a": "1", "b": None})
    assert command_digest(one) == command_digest(ChangeConfig(scope="cluster", changes={"b": None, "a": "1"}))
    others: list[Command] = [
        ChangeConfig(scope="cluster", changes={"a": "1"}),
        ChangeConfig(scope="cluster", changes={"a": "1", "b": ""}),
        ChangeConfig(scope="controller", changes={"a": "1", "b": None}),
        DeleteTopic(topic="cluster"),
    ]
    assert len({command_digest(one), *map(command_digest, others)}) == 5


def test_a_command_that_cannot_be_written_has_no_digest() -> None:
    """A number of more than 64 bits, or text that is none: the caller's mistake, of whom it is told."""
    for command in GrantLease(lease=2**64, ttl_s=5), DeleteTopic(topic="\ud800"):
        with pytest.raises(UsageError, match="cannot be written"):
            command_digest(command)


def test_the_oldest_is_forgotten_for_the_newest_and_stays_refused() -> None:
    """Beyond the count; ids up to the horizon are unknown, newer ones are new."""
    table = table_of(("1-a", 0, 1), ("2-b", 1, 2), ("3-c", 2, 3))
    assert refusal(table, "1-a") == "RequestExpired"
    assert refusal(table, "1-never-ran") == "RequestExpired"
    assert isinstance(table.recall("p", "2-b", 100), RememberedReply)
    assert table.recall("p", "2-new", 100) is None


def test_the_old_are_forgotten_by_the_time_of_entries() -> None:
    """No clock: only the next entry's time counts, and exactly the limit is not too old."""
    table = table_of(("1-a", 0, 10), ("2-b", 1, 1_010))
    assert isinstance(table.recall("p", "1-a", 9_999), RememberedReply)
    table = table_of(("1-a", 0, 10), ("2-b", 1, 1_011))
    assert refusal(table, "1-a") == "RequestExpired"


def test_the_horizon_never_goes_back() -> None:
    """Forgetting an id with an earlier time leaves it."""
    table = table_of(("9-a", 0, 1), ("5-b", 1, 2), ("9-c", 2, 3), ("9-d", 3, 4))
    assert table.horizon_ms == 9
    assert refusal(table, "7-x") == "RequestExpired"


@pytest.mark.parametrize("request_id", ["", "a", "5", "5-", "-a", "5-ä", "5-a b", "5-" + "x" * 101, "1" * 16 + "-a"])
def test_ids_without_their_time_are_refused(request_id: str) -> None:
    """Such an id could never be told from a forgotten one."""
    assert request_time_ms(request_id) is None
    assert refusal(RequestTable(), request_id) == "InvalidRequestId"


def test_ids_from_the_future_are_refused() -> None:
    """They would push the horizon ahead of honest callers."""
    assert refusal(RequestTable(settings=SMALL), "151-a") == "InvalidRequestId"
    assert RequestTable(settings=SMALL).recall("p", "150-a", 100) is None


def test_a_long_reply_is_not_kept_but_its_place_is() -> None:
    """1,024 bytes are, 1,025 are not."""
    table = RequestTable()
    for size, kept in ((1_024, b"x" * 1_024), (1_025, None)):
        table, _ = table.remember("p", f"{size}-a", size, 2, b"x" * size, 5)
        found = table.recall("p", f"{size}-a", 5)
        assert isinstance(found, RememberedReply)
        assert (found.reply, found.first_offset, found.count) == (kept, size, 2)


def test_the_row_changes_keep_a_store_equal_to_the_table() -> None:
    """Put, delete and horizon; and the rows make an equal table that goes on equally."""
    table = RequestTable(settings=SMALL)
    store: dict[bytes, bytes] = {}
    for number in range(6):
        table, changes = table.remember("p", f"{number + 1}-{number}", number * 3, 3, b"r", number)
        for name, value in changes:
            if value is None:
                del store[name]
            else:
                store[name] = value
        assert store == dict(table.rows())
        again = finished(RequestTable.restoring(store.items(), SMALL))
        assert dict(again.rows()) == store
        after = [one.remember("p", "99-x", 99, 1, b"", number)[0] for one in (table, again)]
        assert dict(after[0].rows()) == dict(after[1].rows())
        assert after[0].replies == after[1].replies


def test_a_burst_is_forgotten_a_few_with_each() -> None:
    """All of it is too old at once: the oldest go first, so many with each request that comes; the horizon moves over
    those that went and no other, and the rows are the table's.
    """
    settings = msgspec.structs.replace(SMALL, remembered_max=100)
    table = table_of(*[(f"{number}-x", number, 1) for number in range(1, 6)], settings=settings)
    store, late_ms = dict(table.rows()), 2 * settings.remembered_ms_max
    kept = []
    for number in range(6, 9):
        before = table
        table, changes = table.remember("p", f"{late_ms}-{number}", number, 1, b"r", late_ms, forgotten_max=2)
        store = {name: value for name, value in {**store, **dict(changes)}.items() if value is not None}
        assert store == dict(table.rows())
        assert {name for name, value in changes if value is None} <= set(dict(rows_gone(before, table)))
        kept.append((len(table.replies), table.horizon_ms))
    assert kept == [(4, 2), (3, 4), (3, 5)]
    assert refusal(table, "5-x") == "RequestExpired"


def test_a_table_of_nothing_remembers_nothing() -> None:
    """Every request is forgotten as it comes, and said to be."""
    table = table_of(("5-a", 0, 1), settings=RequestSettings(remembered_max=0))
    assert refusal(table, "5-a") == "RequestExpired"
    assert dict(table.rows()) == {b"horizon": b"5"}


def test_a_horizon_survives_without_any_reply() -> None:
    """What was forgotten stays forgotten after a restart."""
    table = finished(RequestTable.restoring([(b"horizon", b"77")], SMALL))
    assert refusal(table, "77-a") == "RequestExpired"


def test_the_same_request_remembered_twice_does_not_lose_the_later() -> None:
    """It should not happen; if it does, forgetting the first must not forget the second."""
    table = table_of(("5-a", 0, 1), ("5-a", 1, 2), ("6-b", 2, 3))
    found = table.recall("p", "5-a", 100)
    assert isinstance(found, RememberedReply)
    assert found.first_offset == 1


def test_an_id_that_slipped_in_without_its_time_can_be_forgotten() -> None:
    """Apply never raises, whatever a peer wrote."""
    table = table_of(("x", 0, 1), ("5-a", 1, 2), ("6-b", 2, 3))
    assert table.horizon_ms == 0
    assert dict(table.rows())[b"horizon"] == b"0"


@pytest.mark.parametrize(("name", "value"), [(b"horizon", b"x"), (b"\0" * 8, b"\xc1"), (b"\0" * 8, b"\x80")])
def test_a_row_that_is_none_of_ours_stops_the_node(name: bytes, value: bytes) -> None:
    """Damaged rows are not guessed at."""
    with pytest.raises(InvariantBrokenError):
        finished(RequestTable.restoring([(name, value)], SMALL))


# ── clocks that were wrong ──

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
YEAR_MS = 365 * 24 * HOUR_MS


def told(table: RequestTable, time_ms: int) -> str:
    """What an unknown id of this time is told, at that time."""
    found = table.recall("p", f"{time_ms}-new", time_ms)
    return found.code if isinstance(found, Refusal) else "new"


def test_a_forgotten_id_far_ahead_does_not_push_the_horizon_over_honest_ones() -> None:
    """It has a span of its own: what lies in it may have run, what lies between was never forgotten."""
    table = RequestTable(settings=RequestSettings(remembered_max=1))
    times = (NOW_MS, NOW_MS + YEAR_MS, NOW_MS + YEAR_MS + 5, NOW_MS + 10, NOW_MS + 20, NOW_MS + 30)
    for offset, time_ms in enumerate(times):
        table, _ = table.remember("p", f"{time_ms}-x", offset, 1, b"r", NOW_MS)
    assert [told(table, NOW_MS + at) for at in (5, 20, 25, 40)] == ["RequestExpired", "RequestExpired", "new", "new"]
    assert [told(table, NOW_MS + YEAR_MS + at) for at in (-1, 0, 3, 5, 6)] == [
        "new", "RequestExpired", "RequestExpired", "RequestExpired", "new",
    ]  # fmt: skip


def test_no_forgotten_id_ever_looks_new_and_the_spans_are_few() -> None:
    """Whatever the times: ids in any order, near and far, over years; rows say all of it."""
    settings = RequestSettings(remembered_max=3, remembered_ms_max=1_000, ahead_ms_max=50)
    for seed in range(200):
        chance = random.Random(seed)
        table, forgotten, store = RequestTable(settings=settings), [], dict[bytes, bytes]()
        for number in range(60):
            time_ms = NOW_MS + chance.choice((0, 0, 0, YEAR_MS, -YEAR_MS, 5_000, 2 * YEAR_MS)) + chance.randrange(2_000)
            before = table
            table, changes = table.remember("p", f"{time_ms}-{number}", number, 1, b"r", NOW_MS + 10 * number)
            forgotten += [name for name in {*before.replies, ("p", f"{time_ms}-{number}")} if name not in table.replies]
            for name, value in changes:
                if value is None:
                    del store[name]
                else:
                    store[name] = value
        assert len(table.spans) <= SPANS_MAX
        for _, request_id in forgotten:
            found = table.recall("p", request_id, NOW_MS + 3 * YEAR_MS)
            assert isinstance(found, Refusal)
            assert found.code == "RequestExpired"
        again = finished(RequestTable.restoring(store.items(), settings))
        assert store == dict(table.rows()) == dict(again.rows())
        assert (again.horizon_ms, again.spans) == (table.horizon_ms, table.spans)


def test_a_jump_of_the_logs_time_ages_what_is_remembered_by_one_step() -> None:
    """A year in one step forgets nothing; the same time in ordinary steps forgets all that is older than the limit."""
    table = RequestTable()
    table, _ = table.remember("p", f"{NOW_MS}-first", 0, 1, b"r", NOW_MS)
    table, rows = table.step(YEAR_MS)
    assert dict(rows) == {b"skipped": b"%d" % (YEAR_MS - HOUR_MS // 16)}
    log_ms = NOW_MS + YEAR_MS
    table, _ = table.remember("p", f"{NOW_MS}-second", 1, 1, b"r", log_ms)
    assert isinstance(table.recall("p", f"{NOW_MS}-first", NOW_MS), RememberedReply)
    table, _ = table.remember("p", f"{NOW_MS}-third", 2, 1, b"r", log_ms + HOUR_MS - HOUR_MS // 16 + 1)
    assert not isinstance(table.recall("p", f"{NOW_MS}-first", NOW_MS), RememberedReply)
    assert isinstance(table.recall("p", f"{NOW_MS}-second", NOW_MS), RememberedReply)


@pytest.mark.parametrize(
    ("stepped", "kept"),
    [
        (False, (NOW_MS + YEAR_MS, (), 0)),
        (True, (-1, (), 2 * (YEAR_MS - HOUR_MS // 16))),
    ],
)
def test_entries_of_the_first_format_are_applied_as_they_were(
    stepped: bool, kept: tuple[int, tuple[object, ...], int]
) -> None:
    """All nodes make the same of a log that an earlier build began: one horizon, and every step counted whole."""
    table, before_ms = RequestTable(), 0
    for offset, time_ms in enumerate((NOW_MS, NOW_MS + YEAR_MS, NOW_MS + 2 * YEAR_MS)):
        entry = Entry(
            kind="events", decided_term=Term(1), base_offset=offset, count=1, time_ms=time_ms, principal="p",
            request_id=f"{time_ms}-x", stepped=stepped,
        )  # fmt: skip
        table, _ = remember(table, decode_entry(encode_entry(entry)), EMPTY, before_ms)
        before_ms = time_ms
    assert (table.horizon_ms, table.spans, table.skipped_ms) == kept


def test_the_time_that_does_not_count_is_a_row_like_others() -> None:
    """A store that takes the changes equals the table, and what a start makes of it; the row before is known."""
    before, _ = RequestTable().step(YEAR_MS)
    after, rows = before.step(YEAR_MS)
    store = dict(before.rows())
    assert dict(rows_gone(before, after)) == store == {b"skipped": b"%d" % before.skipped_ms}
    store.update({key: value for key, value in rows if value is not None})
    again = finished(RequestTable.restoring(store.items(), RequestSettings()))
    assert dict(again.rows()) == dict(after.rows()) == store
    assert again.skipped_ms == after.skipped_ms == 2 * before.skipped_ms
    assert before.step(1) == (before, ())


def test_many_rows_are_read_a_few_a_step() -> None:
    """A start with thousands of remembered requests gives the loop a turn in between, and reads the same table."""
    wide = RequestSettings(remembered_max=1_000)
    table = table_of(*[(f"{number + 1}-x", number, number) for number in range(100)], settings=wide)
    read, turns = counted(RequestTable.restoring(table.rows(), wide))
    assert turns >= 100 // ROWS_PER_STEP * 2
    assert dict(read.rows()) == dict(table.rows())


@pytest.mark.parametrize(("level", "kept"), [(2, 1), (3, 101 - FORGOTTEN_MAX)])
def test_so_many_are_forgotten_with_each_from_its_level_on(level: int, kept: int) -> None:
    """A build that does not know the level forgets all at once, and the rows must be equal on all nodes."""
    table = table_of(*[(f"{number}-x", number, 1) for number in range(1, 101)], settings=RequestSettings())
    time_ms = 2 * table.settings.remembered_ms_max
    entry = Entry(
        kind="events", decided_term=Term(1), base_offset=101, count=1, time_ms=time_ms, principal="p",
        request_id=f"{time_ms}-x",
    )  # fmt: skip
    table, _ = remember(table, entry, msgspec.structs.replace(EMPTY, feature_level=level), time_ms)
    assert len(table.replies) == kept
