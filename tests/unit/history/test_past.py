"""Any offset is answered as the fold of the events before it says, whatever is kept, lost, or too much."""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from quorate.consensus.ports import StoreOp
from quorate.consensus.storage.store import offset_key
from quorate.controller import ReadView
from quorate.errors import StorageError, UsageError
from quorate.history.checkpoints import MARK, NOTE, ROW, Checkpoints
from quorate.history.past import NoAnswer
from quorate.history.replay import Batches, Begin, Done, End, Failed, Replay, Rows, framed, told
from quorate.history.settings import HistorySettings
from quorate.metadata.commands import DeleteTopic, PutKey, PutTopic, RaiseFeatureLevel, RecordNodeStart
from quorate.model.live import Silence
from quorate.model.rows import from_rows, rows
from quorate.wire.avro import decode_events
from tests.unit.controller.bench import ADDRESSES, Line
from tests.unit.history.kit import Times, plain

SMALL = HistorySettings(checkpoint_events=7, questions_max=3, states_max=2, worker_states=2)


def lived(settings: HistorySettings = SMALL, topics: int = 40) -> Times:
    """A past of some sixty events: topics come, change and go, a broker set elects."""
    times = Times(settings=settings)
    bench = times.bench
    bench.open()
    bench.broker_set([Line(), Line()])
    for number in range(topics):
        queues = number % 5 + 1
        bench.done(PutTopic(topic=f"t{number % 9}", read_queues=queues, write_queues=queues, permission=6))
        if number % 4 == 3:
            bench.done(DeleteTopic(topic=f"t{number % 9}"))
        if number == topics // 2:
            bench.in_sync(1, 2)
        bench.after(0.001)
    return times


def at(times: Times, offset: int, wait_s: float = 0.01) -> Any:
    """The answer, after a while."""
    answers: list[ReadView | NoAnswer] = []
    times.past.at(offset, answers.append)
    times.bench.after(wait_s)
    assert len(answers) == 1
    return answers[0]


@pytest.mark.parametrize("every", [3, 7, 10_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_state_at_any_offset_is_the_fold_of_the_events_before_it(every: int, seed: int) -> None:
    """With many checkpoints, few or none; back and forth, so that kept states are used and pushed out."""
    times = lived(HistorySettings(checkpoint_events=every, states_max=2, worker_states=2))
    end = times.bench.controller.offset
    chance = random.Random(seed)
    for offset in [0, 1, end - 1, end, *(chance.randrange(end + 1) for _ in range(60))]:
        view = at(times, offset)
        assert plain(view.state) == plain(times.folded(offset))
        assert view.offset == offset
        assert isinstance(view.live, Silence)
    assert bool(times.checkpoints.offsets) is (every < 10_000)
    assert times.fatal == []


def test_what_left_memory_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read at a time, each handed over when it is at hand; what else wakes it meanwhile reads nothing, and the loop
    reads nothing at all.
    """
    times = lived(HistorySettings(checkpoint_events=10_000))
    end, reader = times.bench.controller.offset, times.bench.reader
    log = times.bench.machine._log
    log.reload()
    cold, from_store, by_loop, beside = log._cold, log._from_store, list[int](), False
    assert cold is not None
    read = cold._read

    def read_beside(offset: int, max_bytes: int) -> list[bytes]:
        nonlocal beside
        beside = True
        found = read(offset, max_bytes)
        beside = False
        return found

    def noted(offset: int, end: int) -> Iterator[bytes]:
        if not beside:
            by_loop.append(offset)
        return from_store(offset, end)

    monkeypatch.setattr(cold, "_read", read_beside)
    monkeypatch.setattr(log, "_from_store", noted)
    reader.held = True
    answers: list[ReadView | NoAnswer] = []
    times.past.at(end - 1, answers.append)
    while not answers:
        assert reader.pending() == 1
        times.past._runners[0].drained()
        assert reader.pending() == 1
        reader.run(1)
        times.bench.after(0.01)
    (view,) = answers
    assert isinstance(view, ReadView)
    assert by_loop == []
    assert plain(view.state) == plain(times.folded(end - 1))


def test_a_view_of_the_past_has_the_time_and_term_of_its_last_event() -> None:
    """As the event's own stamp has them; at 0 there is none."""
    times = lived()
    stamps = {}

    for *_, batch in times.bench.machine._log.batches_from(0):
        stamps.update({stamp.offset: stamp for stamp, _ in decode_events(batch)})
    for offset in (1, 20, times.bench.controller.offset):
        view = at(times, offset)
        assert (view.term, view.time_ms) == (stamps[offset - 1].term, stamps[offset - 1].time_ms)
    assert (at(times, 0).term, at(times, 0).time_ms) == (0, 0)


def test_a_replay_begins_at_the_nearest_known_state() -> None:
    """A checkpoint before it, or a state the process kept, whichever is nearer; never an earlier one."""
    times = lived()
    first, second = times.checkpoints.offsets[:2]
    at(times, second + 2)
    (link,) = times.links
    begun = [order for order in link.orders if isinstance(order, Begin)]
    assert (begun[-1].start, begun[-1].kept) == (second, False)
    at(times, second + 3)
    begun = [order for order in link.orders if isinstance(order, Begin)]
    assert (begun[-1].start, begun[-1].kept) == (second + 2, True)
    at(times, first + 1)
    begun = [order for order in link.orders if isinstance(order, Begin)]
    assert (begun[-1].start, begun[-1].kept) == (first, False)
    assert len(begun) == times.past.replays == 3


def test_what_is_kept_ready_is_not_replayed() -> None:
    """The present, and the states asked about last."""
    times = lived()
    at(times, times.bench.controller.offset)
    assert times.links == []
    at(times, 20)
    at(times, 20)
    assert times.past.replays == 1


def test_questions_about_one_offset_share_a_replay_and_too_many_are_turned_away() -> None:
    """The fourth that would wait is told to come again; the others are answered."""
    times = lived()
    times.held = True
    answers: list[ReadView | NoAnswer] = []
    for offset in (10, 10, 11):
        times.past.at(offset, answers.append)
    turned: list[Any] = []
    times.past.at(12, turned.append)
    assert [one.kind for one in turned] == ["crowded"]
    assert answers == []
    times.held = False
    times.links[0].go_on()
    times.bench.after(0.01)
    assert [one.offset for one in answers if isinstance(one, ReadView)] == [10, 10, 11]
    assert times.past.replays == 2


def test_a_process_that_dies_fails_its_question_and_no_other() -> None:
    """The next question gets a new process."""
    times = lived()
    times.held = True
    answers: list[Any] = []
    times.past.at(10, answers.append)
    times.past.at(11, answers.append)
    times.held = False
    times.links[0].die()
    times.bench.after(0.01)
    assert [type(one) for one in answers] == [NoAnswer, ReadView]
    assert "killed" in answers[0].reason
    assert len(times.links) == 2


def test_a_question_is_answered_in_time_and_a_stuck_process_is_ended() -> None:
    """The deadline is the question's; the process gets more time, in case somebody asks again."""
    settings = HistorySettings(answer_timeout_s=1.0, replay_timeout_s=5.0, worker_idle_s=3.0)
    times = lived(settings)
    times.held = True
    late = at(times, 10, 2.0)
    assert late.kind == "failed"
    assert times.links[0].listened()
    times.bench.after(6.0)
    assert not times.links[0].listened()
    times.held = False
    assert isinstance(at(times, 10), ReadView)
    times.bench.after(2.0)
    assert times.links[1].listened()
    times.bench.after(3.0)
    assert not times.links[1].listened()


def test_a_node_that_stops_answers_everybody() -> None:
    """Nobody waits for a process that will not come."""
    times = lived()
    times.held = True
    answers: list[Any] = []
    times.past.at(10, answers.append)
    times.past.stop()
    times.bench.after(0.01)
    assert [one.kind for one in answers] == ["failed"]
    assert times.links[0].listener is None


# -- checkpoints


def test_checkpoints_are_found_again_after_a_restart() -> None:
    """By their marks; their rows are the state of then."""
    times = lived()
    again = Times(times.bench, SMALL)
    assert again.checkpoints.offsets == times.checkpoints.offsets != []
    for offset in again.checkpoints.offsets:
        assert plain(from_rows(again.checkpoints.rows(offset))) == plain(times.folded(offset))


def test_what_was_half_written_is_removed_at_the_start() -> None:
    """A note without a mark: the rows go, and the offset counts for nothing."""
    times = lived()
    bench, whole = times.bench, list(times.checkpoints.offsets)
    bench.store.sync()
    times.checkpoints.keep(bench.controller.offset, ((b"topic/default/%d" % n, b"x" * 9) for n in range(100)))
    bench.after(0.01)
    bench.store.crash(keep=2)
    assert list(bench.store.scan("history", NOTE, b"o"))
    torn = Times(bench, SMALL).checkpoints
    assert torn.offsets == whole
    assert list(bench.store.scan("history", NOTE, b"o")) == []
    rows = {key[1:9] for key, _ in bench.store.scan("history", ROW)}
    assert rows == {key[1:9] for key, _ in bench.store.scan("history", MARK, b"n")}


def test_from_a_checkpoint_to_the_next_are_four_events_for_each_of_its_rows() -> None:
    """Of whatever kind: else a state of many keys is written whole every few events, on the loop and to the disk."""
    times = lived()
    bench = times.bench
    bench.done(RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2))
    bench.done(RaiseFeatureLevel(level=2))
    for number in range(800):
        bench.done(PutKey(key=b"%d" % (number % 40)))
        bench.after(0.01)
    written = spaced(times)
    assert len(written) > 3
    assert written[-1] > 40
    for offset in times.checkpoints.offsets[:]:
        times.checkpoints.forget(offset)
    again = Times(bench, SMALL)
    at(again, bench.controller.offset - 1)
    replayed = spaced(again)
    assert len(replayed) > 3
    assert replayed[-1] > 40


def test_a_past_of_long_rows_is_told_in_messages_of_bounded_size() -> None:
    """Neighbours of a megabyte each, more together than a message may have: the state of then is had."""
    times = lived()
    bench = times.bench
    bench.done(RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2))
    bench.done(RaiseFeatureLevel(level=2))
    for number in range(14):
        bench.done(PutKey(key=b"%02d" % number, value=b"v" * 1_000_000))
    end = bench.controller.offset
    bench.done(PutTopic(topic="last", read_queues=1, write_queues=1, permission=6))
    found = at(times, end)
    assert isinstance(found, ReadView), found
    assert plain(found.state) == plain(times.folded(end))
    assert all(len(framed(some)) < 3_000_000 for some in told(rows(found.state)))


def spaced(times: Times) -> list[int]:
    """The rows of each checkpoint, after which there are so many events for each until the next."""
    offsets, rows = (
        times.checkpoints.offsets,
        [len(list(times.checkpoints.rows(one))) for one in times.checkpoints.offsets],
    )
    assert all(later - earlier >= 4 * had for (earlier, later), had in zip(pairwise(offsets), rows, strict=False))
    return rows


def test_a_node_without_checkpoints_keeps_those_it_replays_past() -> None:
    """Installed by a snapshot it has the events and nothing else; one long replay makes the next ones short."""
    times = lived(HistorySettings(checkpoint_events=10_000))
    assert times.checkpoints.offsets == []
    again = Times(times.bench, HistorySettings(checkpoint_events=5))
    end = times.bench.controller.offset
    at(again, end - 1)
    assert again.checkpoints.offsets
    for offset in again.checkpoints.offsets:
        assert plain(from_rows(again.checkpoints.rows(offset))) == plain(times.folded(offset))


@pytest.mark.parametrize("what", ["a row changed", "a row lost", "a row too many", "no sum"])
@pytest.mark.parametrize("how_many", [1, 2, 100])
def test_a_checkpoint_that_does_not_add_up_is_not_used(what: str, how_many: int) -> None:
    """The one before it is, or the beginning of the log: the answer is the fold of the events. The node's log names the
    checkpoint, which is forgotten, and its rows are removed at the next start.
    """
    times = lived()
    store, before = times.bench.store, list(times.checkpoints.offsets)
    damaged = before[-how_many:]
    for offset in damaged:
        key, value = next(store.scan("history", ROW + offset_key(offset)))
        match what:
            case "a row changed":
                other = [row for row, _ in store.scan("history", ROW) if row[9:] == key[9:]][-1]
                was = store.get("history", other)
                op = StoreOp("history", key, b"\0" if was == value else was)
            case "a row lost":
                op = StoreOp("history", key, None)
            case "a row too many":
                op = StoreOp("history", key + b"!", value)
            case _:
                op = StoreOp("history", MARK + offset_key(offset), b"")
        store.write([op])
    stop = before[-1] + 1
    with capture_logs() as logged:
        view = at(times, stop)
    assert plain(view.state) == plain(times.folded(stop))
    assert [line["offset"] for line in logged] == damaged[::-1]
    sound = before[: -len(damaged)]
    assert times.links[0].orders[0] == Begin(damaged[-1], stop, False, SMALL.checkpoint_events, SMALL.worker_states)
    begun = [order.start for order in times.links[0].orders if isinstance(order, Begin)]
    assert begun == [*damaged[::-1], sound[-1] if sound else 0]
    again = Times(times.bench, SMALL)
    assert set(sound) <= set(again.checkpoints.offsets)
    for offset in again.checkpoints.offsets:
        assert plain(from_rows(again.checkpoints.rows(offset))) == plain(times.folded(offset))
    assert times.fatal == again.fatal == []


@pytest.mark.parametrize("what", ["a row changed", "a row lost", "a row too many"])
def test_a_checkpoint_that_was_forgotten_is_written_anew(what: str) -> None:
    """The replay from the one before passes its place and keeps it, without what was wrong: the next question begins
    there, here and after a restart.
    """
    times = lived()
    store, offset = times.bench.store, times.checkpoints.offsets[-1]
    key, _ = next(store.scan("history", ROW + offset_key(offset)))
    match what:
        case "a row changed":
            op = StoreOp("history", key, b"\0")
        case "a row lost":
            op = StoreOp("history", key, None)
        case _:
            op = StoreOp("history", key + b"!", b"\0")
    store.write([op])
    for told_of in ([offset], []):
        times.past._states.clear()
        for runner in times.past._runners:
            runner.close()
        with capture_logs() as logged:
            view = at(times, offset + 1)
        assert plain(view.state) == plain(times.folded(offset + 1))
        assert [line["offset"] for line in logged] == told_of
        assert offset in times.checkpoints.offsets
    again = Times(times.bench, SMALL)
    pairs = sorted(again.checkpoints.rows(offset))
    assert pairs == sorted(rows(times.folded(offset)))
    assert times.fatal == again.fatal == []


def test_checkpoints_get_rarer_as_the_state_grows() -> None:
    """They must not need more room than the events: at least four events for each row."""
    times = lived(HistorySettings(checkpoint_events=1), topics=0)
    for number in range(60):
        times.bench.done(PutTopic(topic=f"many{number}", read_queues=1, write_queues=1, permission=6))
        times.bench.after(0.001)
    offsets = times.checkpoints.offsets
    gaps = [later - earlier for earlier, later in pairwise(offsets)]
    assert gaps == sorted(gaps)
    assert 2 <= len(offsets) < 10


def test_a_store_that_fails_while_a_checkpoint_is_written_stops_the_node() -> None:
    """As any other write of it would."""
    times = Times(settings=SMALL)
    store: Any = times.bench.store
    write = store.write

    def failing(ops: Any) -> None:
        if any(op.family == "history" for op in ops):
            raise StorageError("gone")
        write(ops)

    store.write = failing
    times.bench.open()
    times.checkpoints.keep(2, iter([]))
    assert [type(error) for error in times.fatal] == [StorageError]


def test_a_stopped_node_writes_no_more() -> None:
    """The store may be closed by then."""
    times = lived()
    before = list(times.checkpoints.offsets)
    times.checkpoints.stop()
    times.checkpoints.keep(1, iter([]))
    assert times.checkpoints.offsets == before
    assert isinstance(times.checkpoints, Checkpoints)


# -- the process's side


def test_a_replay_that_lacks_events_says_so_and_harms_no_other() -> None:
    """A hole, an early end, a state it does not keep, rows that are none: each is told, then all is well again."""
    times = lived()
    batches = [batch for *_, batch in times.bench.machine._log.batches_from(0)]
    replay = Replay()

    def tell(*orders: Any) -> Any:
        return [report for order in orders for report in replay.take(order)][-1]

    bad: list[tuple[Any, ...]] = [
        (Begin(0, 9, False, 100, 2), Batches([*batches[:2], *batches[3:]]), End()),
        (Begin(0, 9, False, 100, 2), Batches(batches[:2]), End()),
        (Begin(5, 9, True, 100, 2), Batches(batches), End()),
        (Begin(5, 9, False, 100, 2), Rows([(b"nothing/x/y", b"?")]), Batches(batches[5:]), End()),
        (Begin(0, 9, False, 100, 2), Batches([b"garbage"]), End()),
    ]
    for orders in bad:
        assert isinstance(tell(*orders), Failed), orders
    assert tell(Begin(0, 9, False, 100, 2), Batches(batches), End()) == Done([9])


@pytest.mark.parametrize(
    "wrong",
    [
        {"checkpoint_events": 0},
        {"questions_max": 0},
        {"workers": 0},
        {"answer_timeout_s": 0.0},
        {"answer_timeout_s": 9.0, "replay_timeout_s": 8.0},
        {"worker_idle_s": 0.0},
        {"worker_nice": 20},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    """Each by name, before anything starts."""
    with pytest.raises(UsageError):
        HistorySettings(**wrong)
