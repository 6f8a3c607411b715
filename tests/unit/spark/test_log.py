"""The log as librdkafka reads it from our own listener, and what the readers make of it; no JVM."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import google_crc32c
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from quorate.errors import UsageError
from quorate.events import ClusterCreated, UnknownSchemaError, schema_id
from quorate.gateway.kafka import KafkaSettings
from quorate.wire.kafka import Api
from quorate_spark.source.columns import COLUMNS
from quorate_spark.source.log import (
    EventLog,
    GrowthPoll,
    LogError,
    LogRecord,
    LostRangeError,
    MissingEventsError,
    WrongLogError,
    pooled,
)
from quorate_spark.source.options import SourceOptions
from quorate_spark.source.pace import Deadline, Pace
from quorate_spark.source.reader import BatchReader, Range, StreamReader
from quorate_spark.stream.supervision import HALTING
from tests import newer
from tests.clusters import free_ports
from tests.kafka_tools.fakes import ServedLog
from tests.projections.history import commits
from tests.projections.log import HistoryLog, MirrorLog
from tests.spark.feed import put

ALL = ReadAllAvailable()


@pytest.fixture
def served() -> Iterator[ServedLog]:
    """A log of 30 events in 10 batches on one listener."""
    with ServedLog(settings=KafkaSettings(fetch_bytes_max=4_000)) as log:
        log.append(10, 3)
        yield log
        pooled.cache_clear()


def options(served: ServedLog, **more: Any) -> SourceOptions:
    """How to read it, impatiently."""
    return SourceOptions(nodes=served.bootstrap, **{"timeout_ms": 5_000, **more})


def stream(served: ServedLog, **more: Any) -> StreamReader:
    """A reader as Spark's driver has it."""
    return StreamReader(options(served, **more), COLUMNS)


def rows(reader: StreamReader | BatchReader, ranges: Any) -> list[int]:
    """The offsets of the rows of some ranges."""
    return [offset for part in ranges for batch in reader.read(part) for offset in batch.column("offset").to_pylist()]


def test_records_of_any_range_come_whole_and_in_order(served: ServedLog) -> None:
    """A range that begins and ends inside batches gives exactly its events, however often it is read."""
    log = EventLog(options(served))
    for start, end in ((0, 30), (4, 5), (1, 29), (7, 7), (4, 5)):
        assert [record.offset for record in log.records(start, end)] == list(range(start, end))
    first = next(log.records(3, 4))
    assert (first.term, first.principal, first.cause, first.request_id) == (1, "test", "test", "r3")
    log.close()


def test_a_rack_is_read_from_its_node() -> None:
    """With ``rack`` the events come from the node there; only the end of the log is asked of the leader."""
    with ServedLog(2) as served:
        served.append(10, 3)
        log = EventLog(options(served, rack="node-2"))
        assert [record.offset for record in log.records(0, log.end())] == list(range(30))
        log.close()
        sent = [metrics.kafka_bytes_out for metrics in served.metrics]
        assert sent[1] > sum(map(len, served.log.batches)) > sent[0]


def test_a_range_that_was_trimmed_fails(served: ServedLog) -> None:
    """Events that are gone are an error at once, never silently left out."""
    served.log.start_offset = 6
    with pytest.raises(MissingEventsError, match="no position 3 any more"):
        list(EventLog(options(served)).records(3, 9))


def test_what_is_gone_halts_a_query_and_what_is_not_there_yet_does_not(served: ServedLog) -> None:
    """A trimmed range and a hole need somebody; a node that lags, and a new leader that knows less, catch up."""
    assert issubclass(MissingEventsError, HALTING)
    with pytest.raises(LostRangeError, match="no position 40 yet") as lagging:
        list(EventLog(options(served)).records(40, 45))
    with pytest.raises(LostRangeError, match="ends at 30") as behind:
        stream(served).latestOffset({"log": "test-cluster", "next": 31}, ALL)
    assert not isinstance(lagging.value, HALTING)
    assert not isinstance(behind.value, HALTING)


def test_a_hole_fails(served: ServedLog) -> None:
    """If the nodes leave an event out, the reader says which."""
    del served.log.batches[4], served.log.bases[4]
    with pytest.raises(MissingEventsError, match="event 12 is missing: event 15 came"):
        list(EventLog(options(served)).records(0, 30))


def test_a_range_that_does_not_come_has_a_deadline(served: ServedLog) -> None:
    """A node that lags behind is waited for, but not for ever."""
    with pytest.raises(LogError, match="no event at position 30 within 300 ms"):
        list(EventLog(options(served, timeout_ms=300)).records(28, 32))


def test_nodes_out_of_reach_have_a_deadline(served: ServedLog) -> None:
    """Nobody there: an error that names the nodes, after the time that is allowed."""
    with pytest.raises(LogError, match=r"127\.0\.0\.1:1 does not say where it ends"):
        EventLog(SourceOptions(nodes="127.0.0.1:1", timeout_ms=300)).end()


@pytest.mark.parametrize("leader", [None, 1])
def test_nodes_that_have_only_just_started_are_asked_again(served: ServedLog, leader: int | None) -> None:
    """After a restart of all nodes the log has no leader, and nobody serves it, for a moment; a query waits."""
    log, view = EventLog(options(served, timeout_ms=20_000)), served.views[0]
    assert log.end() == 30
    view.leader_id, view.serving = leader, False

    def recover() -> None:
        view.leader_id, view.serving = 1, True

    timer = threading.Timer(0.7, recover)
    timer.start()
    assert log.end() == 30
    timer.join()
    log.close()


def test_a_topic_nobody_has_is_named(served: ServedLog) -> None:
    """A misspelt topic fails before anything is read."""
    with pytest.raises(LogError, match="no topic events"):
        EventLog(options(served, topic="events")).check_cluster()


def test_another_clusters_log_is_refused(served: ServedLog) -> None:
    """By the checkpoint, which names its cluster, and by option."""
    reader = stream(served)
    here = reader.initialOffset()
    assert here == {"log": "test-cluster", "next": 0}
    served.views[0].cluster_id = "another"
    with pytest.raises(WrongLogError, match=r"checkpoint is of log test-cluster.*serves another.*new checkpoint"):
        stream(served).latestOffset(here, ALL)
    with pytest.raises(WrongLogError, match="log of another, not of test-cluster"):
        BatchReader(options(served, cluster="test-cluster"), COLUMNS).partitions()


def test_a_log_that_went_back_is_refused(served: ServedLog) -> None:
    """An end before what was read is an error, not an empty batch."""
    with pytest.raises(LostRangeError, match="ends at 30, before position 31"):
        stream(served).latestOffset({"log": "test-cluster", "next": 31}, ALL)


@pytest.mark.parametrize("offset", [{}, {"0": 5}, {"log": "x"}, {"log": "x", "next": "5"}])
def test_a_strange_checkpoint_is_refused(served: ServedLog, offset: dict[str, Any]) -> None:
    """The offset of another source, or of another format, is not guessed at."""
    with pytest.raises(UsageError, match="no offset of this source"):
        stream(served).latestOffset(offset, ALL)


def test_batches_are_bounded_and_join_without_gap(served: ServedLog) -> None:
    """Batch after batch of at most the limit, each read as ranges of at most a task's share: every event once."""
    reader = stream(served, max_events_per_trigger=12, events_per_task=5)
    limit, here, seen, sizes = reader.getDefaultReadLimit(), reader.initialOffset(), [], []
    assert limit == ReadMaxRows(12)
    while (end := reader.latestOffset(here, limit)) != here:
        ranges = reader.partitions(here, end)
        assert all(isinstance(part, Range) and part.end - part.start <= 5 for part in ranges)
        sizes.append(len(rows(reader, ranges)))
        seen += rows(reader, ranges)  # Read again, as after a crash: the same.
        here = end
    assert sizes == [12, 12, 6]
    assert seen == list(range(30))
    assert reader.reportLatestOffset() == {"log": "test-cluster", "next": 30}
    reader.stop()


def test_available_now_stops_at_what_was_there(served: ServedLog) -> None:
    """Events that come later are left to the next run."""
    reader = stream(served, max_events_per_trigger=20)
    here = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    served.append(5)
    ends = []
    while (end := reader.latestOffset(here, reader.getDefaultReadLimit())) != here:
        here = end
        ends.append(end["next"])
    assert ends == [20, 30]


def test_the_engine_may_ask_for_everything(served: ServedLog) -> None:
    """Spark's own limit goes before the option."""
    reader = stream(served, max_events_per_trigger=5)
    assert reader.latestOffset(reader.initialOffset(), ALL)["next"] == 30


def test_an_idle_query_asks_at_most_once_in_an_interval(served: ServedLog) -> None:
    """However often Spark comes back, there is one ListOffsets in each interval; none while there is known work."""
    waited: list[float] = []
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        waited.append(seconds)
        now += seconds

    pace = Pace(200, lambda: now, sleep)
    for _ in range(6):
        pace.wait()
    assert waited == pytest.approx([0.2] * 5)

    reader = stream(served, max_events_per_trigger=10, poll_interval_ms=100)
    here = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    before = asked(served)
    here = reader.latestOffset(here, ReadMaxRows(10))
    here = reader.latestOffset(here, ReadMaxRows(10))
    assert (here["next"], asked(served)) == (30, before)  # The end was known.
    assert [reader.latestOffset(here, ALL)["next"] for _ in range(3)] == [30] * 3
    assert asked(served) == before + 3
    reader.stop()


def asked(served: ServedLog) -> int:
    """ListOffsets requests so far."""
    return sum(count for (api, _), count in served.metrics[0].kafka_requests.items() if api == Api.LIST_OFFSETS)


def test_the_bell_rings_for_a_new_event_and_not_without(served: ServedLog) -> None:
    """A long poll returns with the first new event; without one, after its time."""
    bell = GrowthPoll(options(served))
    assert not bell.rings(30, 200)
    served.append(2)
    assert bell.rings(30, 20_000)
    assert bell.rings(31, 20_000)
    assert not bell.rings(32, 200)
    bell.close()


def test_a_start_outside_the_log_is_refused(served: ServedLog) -> None:
    """Before its first event, or beyond its end."""
    served.log.start_offset = 3
    for start, told in (("2", "before the log's first event"), ("31", "beyond the log's end")):
        with pytest.raises(LostRangeError, match=told):
            stream(served, starting_offset=start).initialOffset()
    assert stream(served, starting_offset="30").initialOffset()["next"] == 30


def test_a_part_by_offsets_or_times_is_that_part(served: ServedLog) -> None:
    """From the first event of the starting time or later to before the first of the ending time or later."""
    for part, wanted in (
        ({"starting_offset": "4", "ending_offset": "8"}, range(4, 8)),
        ({"starting_time": "1700000002000", "ending_time": "1700000003001"}, range(6, 12)),
        ({"starting_time": "1700000008500"}, range(27, 30)),
        ({"starting_time": "1800000000000"}, range(0)),
    ):
        reader = BatchReader(options(served, **part), COLUMNS)
        assert rows(reader, reader.partitions()) == list(wanted)


def test_a_mirrors_positions_are_found_by_the_records_themselves() -> None:
    """Offsets and times are looked up in the events' headers: holes shift positions, and markers bear other times."""
    positions = [2, 3, 4, 7, 8, 12, 13]  # Of the events 0 to 6; every other position is a hole; the log ends at 15.

    class Copy(EventLog):
        def begin(self) -> int:
            return 0

        def end(self) -> int:
            return 15

        def records(self, start: int, end: int) -> Iterator[LogRecord]:
            for number, position in enumerate(positions):
                if start <= position < end:
                    yield LogRecord(number, 1, 1_000 + 10 * number, "", "", "", "", "", b"")

    log = Copy(SourceOptions(nodes="127.0.0.1:1", mirror=True))
    for number in range(7):
        before = positions[number - 1] if number else -1
        for found in (log.position_of(number), log.position_at(str(1_000 + 10 * number))):
            assert before < found <= positions[number]
    assert log.position_at("1015") == log.position_of(2)
    assert positions[-1] < log.position_of(7) <= 15
    assert positions[-1] < log.position_at("2000") <= 15
    log.close()


def test_an_event_newer_than_this_build_stops_the_query(served: ServedLog) -> None:
    """A schema id nobody here knows is an error, never a row without its event."""
    event = ClusterCreated(cluster_id="c", voters=(), feature_level=1)
    put(served, [event])
    frame = b"\x00" + schema_id(ClusterCreated).to_bytes(4)
    batch = served.log.batches[-1]
    assert frame in batch
    changed = bytearray(batch.replace(frame, b"\x00\x00\x00\x63\x07", 1))
    changed[17:21] = google_crc32c.value(bytes(changed[21:])).to_bytes(4)
    served.log.batches[-1] = bytes(changed)
    reader = stream(served)
    with pytest.raises(UnknownSchemaError):
        list(reader.read(Range(30, 31)))


def table(log: HistoryLog, **more: Any) -> list[dict[str, Any]]:
    """The whole log as rows of the source."""
    source = SourceOptions(nodes=log.bootstrap, **{"timeout_ms": 5_000, **more})
    reader = BatchReader(source, COLUMNS)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_log_of_a_newer_build_has_the_same_rows() -> None:
    """Every event in a version this build does not know is read as its own, by the registry; the id that is told is
    the one it was written with.
    """
    history = list(itertools.islice(commits(1), 80))
    theirs = [[newer.rewritten(record) for record in commit] for commit in history]
    with HistoryLog(history=iter(history)) as own, HistoryLog(history=iter(theirs)) as new:
        own.append_commits(80)
        new.append_commits(80)
        wanted = table(own)
        with newer.served(newer.module().SCHEMAS) as registry:
            found = table(new, registry=registry)
    assert len(found) == own.events
    assert {row.pop("schema_id") for row in found}.isdisjoint({row.pop("schema_id") for row in wanted})
    assert found == wanted


def test_a_mirror_of_a_newer_log_says_whose_it_is() -> None:
    """Its first event is read by the registry too."""
    with MirrorLog(history=([newer.rewritten(one) for one in commit] for commit in commits(2))) as log:
        log.append_commits(5)
        with newer.served(newer.module().SCHEMAS) as registry:
            mirror = EventLog(SourceOptions(nodes=log.bootstrap, mirror=True, registry=registry, timeout_ms=5_000))
            assert mirror.identity().startswith("cluster-of-tests@")
            mirror.close()


def test_a_registry_that_does_not_answer_has_a_deadline() -> None:
    """It is asked again and again; then the read fails by the event, and the query is one that is started again."""
    away = f"127.0.0.1:{free_ports(1)}"
    with HistoryLog(history=([newer.rewritten(one) for one in commit] for commit in commits(3))) as log:
        log.append_commits(3)
        with pytest.raises(LogError, match=f"event 0: .*{away}") as trouble:
            table(log, registry=away, timeout_ms=400)
    assert not isinstance(trouble.value, HALTING)


def test_a_deadline_starts_anew_with_progress() -> None:
    """Slow is not stuck."""
    now = 0.0
    deadline = Deadline(1_000, lambda: now)

    def over() -> bool:
        return deadline.over

    now = 0.9
    deadline.progress()
    now = 1.8
    assert not over()
    assert deadline.left_s == pytest.approx(0.1)
    now = 1.9
    assert over()
    assert deadline.left_s == 0
