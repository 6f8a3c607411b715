"""The live table keeps evidence: who was heard, when, and how far its log reached."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.controller.live import LiveEntry, LiveTable
from tests.stand_ins import Heartbeat
from tests.unit.controller.bench import Line


def table(**limits: float) -> LiveTable:
    """A table that began at 100 s."""
    defaults = {"started": 100.0, "timeout_s": 10.0, "timeout_max_s": 120.0, "entries_max": 10}
    return LiveTable(**(defaults | limits))  # type: ignore[arg-type]


def beat(broker_id: int = 1, **fields: int) -> Heartbeat:
    """A heartbeat of a broker of set a."""
    return Heartbeat("c", "a", broker_id, f"127.0.0.1:{30000 + broker_id}", **fields)


def test_never_heard_is_unknown_for_one_timeout_and_then_dead() -> None:
    """None while it is too early to say, False afterwards."""
    live = table()
    assert live.at(109.9).alive("c", "a", 1) is None
    assert live.at(110.0).alive("c", "a", 1) is False


def test_heard_is_alive_until_its_own_timeout() -> None:
    """A heartbeat keeps a broker alive for the timeout it carries, capped by the table's limit."""
    live = table(timeout_max_s=20.0)
    live.heard(beat(1, timeout_ms=3000), Line(), 100.0)
    live.heard(beat(2, timeout_ms=900_000), Line(), 100.0)
    assert live.at(103.0).alive("c", "a", 1) is True
    assert live.at(103.1).alive("c", "a", 1) is False
    assert [entry.broker_id for entry in live.overdue(121.0)] == [1, 2]
    assert live.at(120.0).alive("c", "a", 2) is True


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["beat", "look", "forget"]),
            st.integers(1, 4),
            st.sampled_from([0, 500, 3000, 10_000, 900_000]),
            st.floats(0.0, 8.0),
        ),
        max_size=60,
    )
)
def test_whoever_is_overdue_is_found_at_the_next_look(steps: list[tuple[str, int, int, float]]) -> None:
    """Whatever patience brokers ask for, shorten, or come back with: a look finds those that going through all does."""
    live, now = table(), 100.0
    for what, broker_id, timeout_ms, pause_s in steps:
        now += pause_s
        if what == "beat":
            live.heard(beat(broker_id, timeout_ms=timeout_ms), Line(), now)
            continue
        if what == "forget":
            for entry in [entry for entry in live if entry.broker_id == broker_id]:
                live.forget(entry)
            continue
        plain = [entry for entry in live if entry.alive and entry.seen + entry.timeout_s < now]
        found = live.overdue(now)
        assert sorted(entry.broker_id for entry in found) == sorted(entry.broker_id for entry in plain)
        for entry in found[: broker_id - 1]:  # Some are left: they are found again.
            live.mark_dead(entry, "heartbeat expired", now)


def test_offsets_move_only_forward_as_a_pair() -> None:
    """A lower (epoch, max offset) does not replace a higher one; a higher epoch does, whatever its offset."""
    live, line = table(), Line()
    live.heard(beat(epoch=2, max_offset=100, confirm_offset=90), line, 100.0)
    live.heard(beat(epoch=2, max_offset=50, confirm_offset=50), line, 101.0)
    entry = live.get("c", "a", 1)
    assert entry is not None
    assert (entry.epoch, entry.max_offset, entry.confirm_offset) == (2, 100, 90)
    live.heard(beat(epoch=3, max_offset=10, confirm_offset=5), line, 102.0)
    assert (entry.epoch, entry.max_offset, entry.confirm_offset) == (3, 10, 5)


def test_a_close_counts_only_on_the_channel_of_the_last_heartbeat() -> None:
    """A late close of an old connection makes nobody suspect."""
    live, old, new = table(), Line(), Line()
    live.heard(beat(), old, 100.0)
    live.heard(beat(), new, 101.0)
    assert live.closed(old, 102.0) == []
    (entry,) = live.closed(new, 103.0)
    assert entry.suspect
    assert live.at(103.0).alive("c", "a", 1) is True


def test_a_heartbeat_after_a_close_clears_the_suspicion() -> None:
    """A broker that reconnected was not dead."""
    live, line = table(), Line()
    live.heard(beat(), line, 100.0)
    (entry,) = live.closed(line, 101.0)
    live.heard(beat(), Line(), 101.5)
    assert not entry.suspect


def test_two_brokers_on_one_channel_are_both_suspect_when_it_closes() -> None:
    """A container of brokers shares a connection; its close is evidence about each."""
    live, line = table(), Line()
    for _ in range(2):
        live.heard(beat(1), line, 100.0)
        live.heard(beat(2), line, 100.0)
    assert sorted(entry.broker_id for entry in live.closed(line, 101.0)) == [1, 2]


def test_a_change_of_channel_looks_at_no_other_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are on the channel that it leaves; those are suspect together, in their order."""
    compared: list[object] = []

    def comparing(mine: object, other: object) -> bool:
        compared.append(other)
        return mine is other

    monkeypatch.setattr(LiveEntry, "__eq__", comparing)
    live, first, second = table(entries_max=100), Line(), Line()
    for broker_id in range(1, 101):
        live.heard(beat(broker_id), first, 100.0)
    live.heard(beat(100), second, 101.0)
    live.heard(beat(50), second, 101.0)
    live.heard(beat(50), first, 102.0)
    assert not compared
    monkeypatch.undo()
    assert [entry.broker_id for entry in live.closed(first, 103.0)] == [*range(1, 50), *range(51, 100), 50]
    assert [entry.broker_id for entry in live.closed(second, 103.0)] == [100]


def test_the_table_is_bounded() -> None:
    """One broker too many is counted and ignored, the known ones go on."""
    live, line = table(entries_max=1), Line()
    live.heard(beat(1), line, 100.0)
    live.heard(beat(2), Line(), 100.0)
    live.heard(beat(1), line, 105.0)
    assert (len(live), live.ignored, live.beats) == (1, 1, 3)
    assert live.at(115.0).alive("c", "a", 1) is True


def test_another_life_says_anew_how_far_its_log_reaches() -> None:
    """After a close or a death what a broker says counts, even if it is less: a wiped disk must not win elections."""
    for dead in (True, False):
        live, line = table(), Line()
        live.heard(beat(epoch=5, max_offset=1000, confirm_offset=900), line, 100.0)
        live.closed(line, 101.0)
        entry = live.get("c", "a", 1)
        assert entry is not None
        if dead:
            live.mark_dead(entry, "connection closed", 101.0)
        live.heard(beat(epoch=5, max_offset=10, confirm_offset=10), Line(), 102.0)
        assert (entry.alive, entry.epoch, entry.max_offset, entry.confirm_offset) == (True, 5, 10, 10)


def test_a_broker_that_fell_silent_and_speaks_again_on_the_same_channel_begins_anew() -> None:
    """Marked dead by its timeout with the channel still open; the next heartbeat revives it as it is now."""
    live, line = table(), Line()
    live.heard(beat(epoch=5, max_offset=1000), line, 100.0)
    (entry,) = live.overdue(110.1)
    live.mark_dead(entry, "heartbeat expired", 110.1)
    live.heard(beat(epoch=4, max_offset=10), line, 120.0)
    assert (entry.alive, entry.alive_since, entry.epoch, entry.max_offset) == (True, 120.0, 4, 10)


def test_a_forgotten_broker_is_as_if_never_heard_until_it_speaks_on_its_old_channel() -> None:
    """Forgetting leaves nothing behind: not in the table, not with the channel, and the next heartbeat counts."""
    live, line = table(), Line()
    live.heard(beat(), line, 100.0)
    (entry,) = live
    live.forget(entry)
    assert len(live) == 0
    assert live.closed(Line(), 101.0) == []
    live.heard(beat(), line, 102.0)
    assert [one.broker_id for one in live] == [1]
    assert [one.broker_id for one in live.closed(line, 103.0)] == [1]


def test_closed_and_forgotten_leaves_nothing() -> None:
    """A broker without a channel is forgotten as well."""
    live, line = table(), Line()
    live.heard(beat(), line, 100.0)
    (entry,) = live.closed(line, 101.0)
    live.forget(entry)
    assert live.get("c", "a", 1) is None


def test_a_change_of_address_on_the_same_channel_is_seen() -> None:
    """What is dialled after a close is where the broker said last that it serves."""
    live, line = table(), Line()
    live.heard(beat(), line, 100.0)
    live.heard(Heartbeat("c", "a", 1, "127.0.0.1:31000"), line, 101.0)
    (entry,) = live
    assert entry.address == "127.0.0.1:31000"


def test_a_heartbeat_without_a_timeout_gets_the_nodes_own() -> None:
    """Zero or less asks for nothing in particular."""
    live = table()
    live.heard(beat(timeout_ms=0), Line(), 100.0)
    assert live.at(110.0).alive("c", "a", 1) is True
    assert live.at(110.1).alive("c", "a", 1) is False


STEPS = st.lists(
    st.tuples(st.sampled_from(["beat", "beat", "close", "mark_dead", "forget"]), st.integers(1, 4)), max_size=40
)


@given(steps=STEPS, lines=st.integers(1, 3))
def test_how_many_live_and_how_many_are_suspect_is_counted_as_it_changes(
    steps: list[tuple[str, int]], lines: int
) -> None:
    """Whatever happens in whatever order, the counts are what counting would give."""
    live, channels = table(), [Line() for _ in range(lines)]
    for now, (step, broker_id) in enumerate(steps, 100):
        entry = live.get("c", "a", broker_id)
        if step == "beat":
            live.heard(beat(broker_id), channels[(broker_id + now) % lines], now)
        elif step == "close":
            live.closed(channels[broker_id % lines], now)
            channels[broker_id % lines] = Line()
        elif entry is not None and step == "mark_dead":
            live.mark_dead(entry, "heartbeat expired", now)
        elif entry is not None:
            live.forget(entry)
        assert live.living == sum(one.alive for one in live)
        assert live.suspects == sum(one.suspect for one in live)
