"""The live table keeps evidence: who was heard, when, and how far its log reached."""

from quorate.controller.live import Heartbeat, LiveTable
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
    assert live.alive("c", "a", 1, 109.9) is None
    assert live.alive("c", "a", 1, 110.0) is False


def test_heard_is_alive_until_its_own_timeout() -> None:
    """A heartbeat keeps a broker alive for the timeout it carries, capped by the table's limit."""
    live = table(timeout_max_s=20.0)
    live.heard(beat(1, timeout_ms=3000), Line(), 100.0)
    live.heard(beat(2, timeout_ms=900_000), Line(), 100.0)
    assert live.alive("c", "a", 1, 103.0) is True
    assert live.alive("c", "a", 1, 103.1) is False
    assert [entry.broker_id for entry in live.overdue(121.0)] == [1, 2]
    assert live.alive("c", "a", 2, 120.0) is True


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
    assert live.alive("c", "a", 1, 103.0) is True


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


def test_the_table_is_bounded() -> None:
    """One broker too many is counted and ignored, the known ones go on."""
    live, line = table(entries_max=1), Line()
    live.heard(beat(1), line, 100.0)
    live.heard(beat(2), Line(), 100.0)
    live.heard(beat(1), line, 105.0)
    assert (len(live), live.ignored, live.beats) == (1, 1, 3)
    assert live.alive("c", "a", 1, 115.0) is True
