"""Keeping queries running: what is tried again, what is halted, in which order, and who is told; without Spark."""

import errno
import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="absent peer: pyspark (make setup-all)")

from py4j.protocol import Py4JJavaError, Py4JNetworkError

from quorate.errors import QuorateError, StorageError, UsageError
from quorate_spark.pipelines.facts import UnknownEventError
from quorate_spark.serving import Progress
from quorate_spark.sinks.store import LogGapError, ServingStore
from quorate_spark.source import SourceOptions
from quorate_spark.stream.application import _alone
from quorate_spark.stream.queries import Feed, Query, SinkFailedError
from quorate_spark.stream.settings import StreamSettings
from quorate_spark.stream.supervision import SparkGoneError, Supervisor

IN_A_WORKER = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure:
  File "facts.py", line 50, in fact
quorate_spark.pipelines.facts.UnknownEventError: event 7 is a MoonLanded, which this version does not know: upgrade it
\tat org.apache.spark.api.python.BasePythonRunner"""
AWAY = """An error occurred: Traceback (most recent call last):
quorate_spark.source.log.LogError: 127.0.0.1:1 does not say where its log ends: timed out
"""


class Running:
    """Spark's side of a query."""

    def __init__(self) -> None:
        self.id = "q1"
        self.isActive = True
        self.lastProgress: Any = None
        self.error: Exception | None = None
        self.status = {"isTriggerActive": False}
        self.stopped = False

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive, self.stopped = False, True

    def fail(self, error: str) -> None:
        self.isActive, self.error = False, RuntimeError(error)


class World:
    """Two queries, a store and a clock that a test turns by hand."""

    def __init__(self, folder: Path) -> None:
        self.now, self.said = 1_000_000, list[str]()
        self.store = ServingStore(f"sqlite:///{folder}/facts.db", lambda: self.now)
        self.runs: dict[str, list[Running]] = {"serving": [], "archive": []}
        source = SourceOptions(nodes="h:1")
        settings = StreamSettings(
            source=source, sink="x", checkpoint="y", backoff_ms=100, backoff_max_ms=500, start_timeout_ms=9_000
        )
        queries = [Query(name, self._start(name), lambda: Feed(lambda *_: None)) for name in self.runs]
        self.supervisor = Supervisor(queries, self.store, settings, lambda: self.now, self.said.append)

    def _start(self, name: str) -> Any:
        def start(feed: Feed) -> Any:
            self.runs[name].append(Running())
            return self.runs[name][-1]

        return start

    def turn(self, ms: int = 0) -> None:
        self.now += ms
        self.supervisor.turn()

    def state(self, name: str) -> tuple[str, str]:
        progress = self.store.progress(name)
        return ("", "") if progress is None else (progress.state, progress.message)

    def warm(self) -> None:
        """Both run."""
        for name in self.runs:
            self.turn()
            self.runs[name][-1].lastProgress = SimpleNamespace()
        self.turn()


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path)
    yield made
    made.store.close()


def test_queries_start_one_after_the_other(world: World) -> None:
    """The archive starts when the serving query has finished a batch; then, and not before, all is ready."""
    world.turn()
    world.turn()
    assert [len(runs) for runs in world.runs.values()] == [1, 0]
    world.runs["serving"][0].lastProgress = SimpleNamespace()
    world.turn()
    assert [len(runs) for runs in world.runs.values()] == [1, 1]
    assert not world.supervisor.ready
    world.runs["archive"][0].lastProgress = SimpleNamespace()
    world.turn()
    assert world.supervisor.ready


def test_what_passes_by_itself_is_tried_again_ever_more_seldom(world: World) -> None:
    """Waits double up to the longest; a batch that goes through begins them anew; the store tells why it waits."""
    world.warm()
    waits = []
    for _ in range(5):
        world.runs["serving"][-1].fail(AWAY)
        runs = len(world.runs["serving"])
        world.turn()
        assert world.state("serving") == (
            "restarting",
            "LogError: 127.0.0.1:1 does not say where its log ends: timed out",
        )
        waited = 0
        while len(world.runs["serving"]) == runs:
            world.turn(50)
            waited += 50
        waits.append(waited)
    assert waits == [100, 200, 400, 500, 500]
    world.runs["serving"][-1].lastProgress = SimpleNamespace()
    world.turn()
    assert world.state("serving") == ("running", "")
    world.runs["serving"][-1].fail(AWAY)
    world.turn()
    assert "in 100 ms" in world.said[-1]


@pytest.mark.parametrize("by", ["worker", "sink"])
def test_what_needs_somebody_is_halted_and_the_others_go_on(world: World, by: str) -> None:
    """An unknown event, wherever it was met, ends its query for good, visibly; the other one runs on."""
    world.warm()
    message = "event 7 is a MoonLanded, which this version does not know: upgrade it"
    query = world.supervisor.watched[0].query
    if by == "sink":
        assert query.feed is not None
        query.feed.failure = UnknownEventError(message)
    world.runs["serving"][-1].fail(IN_A_WORKER if by == "worker" else "SinkFailedError: batch 3")
    for _ in range(5):
        world.turn(60_000)
    state, told = world.state("serving")
    assert state == "halted"
    assert message in told
    assert message in world.said[-1]
    assert len(world.runs["serving"]) == 1
    assert world.state("archive") == ("running", "")
    assert world.supervisor.halted
    assert not world.supervisor.over


def test_a_gap_that_a_worker_met_halts_its_query(world: World) -> None:
    """Trying again would meet it again; the store says which event is missing."""
    world.warm()
    gap = "quorate_spark.source.log.MissingEventsError: event 12 is missing: event 15 came instead"
    world.runs["serving"][-1].fail(f"Job aborted: Traceback (most recent call last):\n{gap}\n")
    world.turn()
    assert world.state("serving") == ("halted", gap.removeprefix("quorate_spark.source.log."))


def test_when_all_are_halted_it_is_over(world: World) -> None:
    """Nothing is left to wait for."""
    world.warm()
    for watched in world.supervisor.watched:
        assert watched.query.feed is not None
        watched.query.feed.failure = LogGapError("a gap")
        world.runs[watched.query.name][-1].fail("SinkFailedError: batch 1")
    world.turn()
    assert world.supervisor.over


def test_a_query_that_never_finishes_a_batch_is_started_again(world: World) -> None:
    """A start that hangs is ended at its deadline and tried again."""
    world.turn()
    world.turn(9_001)
    assert world.runs["serving"][0].stopped
    assert world.state("serving")[0] == "restarting"


def test_a_store_that_is_away_stops_nobody(world: World, tmp_path: Path) -> None:
    """How the queries do cannot be written: that is said, and they run on."""
    world.warm()
    world.store.close()
    (tmp_path / "facts.db").rename(tmp_path / "elsewhere")
    (tmp_path / "facts.db").mkdir()
    world.turn()
    assert "could not be written" in world.said[-1]
    assert [one.state for one in world.supervisor.watched] == ["running", "running"]


def test_when_spark_is_gone_it_ends_with_one_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM died: there is nothing to keep running, and whoever started the program starts it again."""
    world.warm()

    def refused(_: Running) -> bool:
        raise ConnectionRefusedError

    monkeypatch.setattr(Running, "isActive", property(refused), raising=False)
    with pytest.raises(SparkGoneError, match="nothing is lost"):
        world.turn()
    for name in ("serving", "archive"):
        assert world.state(name) == ("halted", "Spark has ended by itself; start again, nothing is lost")
    world.supervisor.stop()
    assert world.state("serving")[0] == "halted"


def test_a_query_that_does_not_stop_is_no_spark_that_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first batch takes too long, and Spark's own time for stopping it runs out: the other query runs on, and this
    one is told again later; until it has stopped it is not started a second time.
    """

    class NotStoppedError(Py4JJavaError):  # type: ignore[misc]
        def __init__(self) -> None:
            """There is no Java."""

        def __str__(self) -> str:
            return "failed to stop within 20000 milliseconds"

    tries = list[str]()

    def stop(_: Running) -> None:
        tries.append("stop")
        raise NotStoppedError

    world.turn()
    world.runs["serving"][-1].lastProgress = SimpleNamespace()
    world.turn()
    with monkeypatch.context() as patched:
        patched.setattr(Running, "stop", stop)
        for _ in range(15):
            world.turn(1_000)
    assert len(tries) == 1
    assert world.said == ["archive: failed to stop within 20000 milliseconds"]
    assert world.state("serving")[0] == world.state("archive")[0] == "running"
    world.turn(9_000)
    assert world.runs["archive"][-1].stopped
    assert world.state("archive") == ("restarting", "no batch within 9000 ms")
    assert len(world.runs["archive"]) == 1


def test_a_query_is_not_started_again_without_a_spark(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM died while a query waited to be started again: it would be tried for ever."""
    world.warm()
    for runs in world.runs.values():
        runs[-1].fail(AWAY)
    world.turn()

    def refused(*_: object) -> None:
        raise Py4JNetworkError("answer from Java side is empty")

    monkeypatch.setattr(Query, "start", refused)
    with pytest.raises(SparkGoneError):
        world.turn(1_000)
    assert world.state("serving")[0] == world.state("archive")[0] == "halted"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "[STREAM_FAILED] Query terminated: [USER_RAISED_EXCEPTION] event 5 is missing: event 7 came instead",
            "event 5 is missing: event 7 came instead",
        ),
        (
            "SparkRuntimeException: [USER_RAISED_EXCEPTION] the record at position 3 is no event of a log: no offset X",
            "the record at position 3 is no event of a log: no offset",
        ),
        (
            "KafkaIllegalStateException: [KAFKA_DATA_LOSS.START_OFFSET_HAS_BEEN_RESET] Some data may have been lost",
            "[KAFKA_DATA_LOSS.START_OFFSET_HAS_BEEN_RESET] Some data may have been lost",
        ),
    ],
)
def test_what_the_jvm_cannot_explain_halts_a_query(world: World, said: str, told: str) -> None:
    """With Spark's own connector it is the JVM that meets a gap: trying again could only meet it again."""
    world.warm()
    world.runs["serving"][-1].fail(said)
    world.turn()
    assert world.state("serving") == ("halted", told)


def test_what_a_restart_may_mend_is_no_reason_to_halt(world: World) -> None:
    """An event of a newer build: the registry is asked for its schema at each start."""
    world.warm()
    world.runs["serving"][-1].fail("[USER_RAISED_EXCEPTION] event 9 has schema id 99, unknown to this build")
    world.turn()
    assert world.state("serving")[0] == "restarting"


def test_stopping_waits_for_a_batch_and_tells_the_store(world: World) -> None:
    """The end comes between two batches if that is soon, and ``progress`` says that it was meant."""
    world.warm()
    busy = iter([True, True, False, False, False, False])

    class Status:
        def __getitem__(self, name: str) -> bool:
            world.now += 10
            return next(busy, False)

    world.runs["serving"][-1].status = Status()  # type: ignore[assignment]
    world.supervisor.stop()
    assert world.runs["serving"][-1].stopped
    assert world.state("serving")[0] == world.state("archive")[0] == "stopped"


def test_it_is_told_first_that_all_is_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no time for it afterwards: who waits for a batch too long is cut off."""
    world.warm()
    seen = []
    monkeypatch.setattr(Running, "stop", lambda _: seen.append((world.state("serving")[0], world.state("archive")[0])))
    world.supervisor.stop()
    assert seen[0] == ("stopped", "stopped")


def test_a_sink_that_fails_is_remembered_and_told_in_few_words() -> None:
    """Spark gets a short error, because it searches the text of long ones until its stack ends; we keep the whole."""

    def deliver(*_: Any) -> None:
        raise StorageError("x" * 10_000)

    feed = Feed(deliver)
    feed.named("q")
    with pytest.raises(SinkFailedError, match=r"^batch 4: StorageError$"):
        feed(SimpleNamespace(), 4)  # type: ignore[arg-type]
    assert isinstance(feed.failure, StorageError)
    assert isinstance(feed.failure, QuorateError)


def test_the_last_line_of_a_run_is_a_sentence(world: World) -> None:
    """It says how far the store came, and which query needs somebody; or why that cannot be said."""
    assert world.supervisor.last_words() == "ended before the first event"
    told = Progress(
        name="serving", query_id="q", batch_id=3, position=44, last_event_ms=1, applied_ms=1, seen_ms=1,
        state="running", message="",
    )  # fmt: skip
    world.store.note(told)
    assert world.supervisor.last_words() == "ended after event 43"
    world.warm()
    world.runs["archive"][0].fail(IN_A_WORKER)
    world.turn()
    assert world.supervisor.last_words() == "ended after event 43; halted, and to be looked at: archive"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BlockingIOError(errno.EAGAIN, "Try again"), "another quorate stream has the checkpoint"),
        (OSError(errno.ENOLCK, "No locks available"), "the checkpoint cannot be held: no locks available"),
    ],
)
def test_a_checkpoint_that_cannot_be_held_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
) -> None:
    """Another run is named only where there is one; a file system may have no locks."""

    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(UsageError, match=told), _alone(str(tmp_path / "checkpoint")):
        pass


def test_a_checkpoint_is_no_part_of_a_checkout(tmp_path: Path) -> None:
    """The folder of a run tells git to pass it by."""
    with _alone(str(tmp_path / "checkpoint")):
        assert (tmp_path / "checkpoint" / ".gitignore").read_text() == "*\n"
