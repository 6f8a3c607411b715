"""Keeps the queries running: starts again what failed, with back-off; halts what somebody must look at.

Rules: a query that cannot reach a node, or its sink, is started again, ever more seldom. One that met an event or a
state it cannot explain, another cluster's log, or a gap, is halted: trying again could only skip or spoil. Either way
``progress`` says so, and stderr. The others go on. Queries start one after the other: each starts Python workers, to
which Spark gives ten seconds, and a slow machine cannot start all at once.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from quorate.errors import InvariantBrokenError, PeerError, QuorateError, StorageError, UsageError
from quorate_spark.sinks.store import ServingStore
from quorate_spark.source.log import MissingEventsError, WrongLogError
from quorate_spark.stream.queries import Query
from quorate_spark.stream.settings import StreamSettings

HALTING: Final = (UsageError, PeerError, InvariantBrokenError, WrongLogError, MissingEventsError)
"""Trouble that does not pass by itself."""

_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?(\w+Error): (.*)$", re.MULTILINE)
"""Last line of a Python traceback inside Spark's message."""
_UNEXPLAINED: Final = re.compile(
    r"event \d+ is missing: event \d+ came instead|the record at position \d+ is no event of a log: no \w+"
    r"|\[KAFKA_DATA_LOSS[^\n]*|[Ss]ome data may have been lost[^\n]*"
)
"""What the source with Spark's own connector says in the JVM of what does not pass by itself (source/connector.py)."""


class SparkGoneError(QuorateError):
    """The JVM is not there any more."""


@dataclass
class WatchedQuery:
    """A query and how it does."""

    query: Query
    state: str = "starting"
    message: str = ""
    failures: int = 0
    next_start_ms: int = 0
    started_ms: int = 0
    warm: bool = False
    """Has it finished a batch since it was started last?"""
    ready: bool = False
    """Has it ever finished a batch?"""


class Supervisor:
    """``turn`` looks at every query once; whoever runs the application calls it again and again."""

    def __init__(
        self,
        queries: list[Query],
        store: ServingStore,
        settings: StreamSettings,
        clock_ms: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self.watched = [WatchedQuery(query) for query in queries]
        self._store = store
        self._settings = settings
        self._clock_ms = clock_ms
        self._say = say

    @property
    def ready(self) -> bool:
        """Has every query that is not halted finished a batch?"""
        return all(one.ready or one.state == "halted" for one in self.watched)

    @property
    def over(self) -> bool:
        """Is nothing left that runs, or would be started again?"""
        return all(one.state in ("halted", "done") for one in self.watched)

    @property
    def halted(self) -> bool:
        """Does any query need somebody?"""
        return any(one.state == "halted" for one in self.watched)

    def run(self, stop: Event, ready: Callable[[], None]) -> None:
        """Turn until told to stop or nothing is left; ``ready`` is called once."""
        told = False
        while not stop.is_set() and not self.over:
            self.turn()
            if self.ready and not told and not self.over:
                told = True
                ready()
            stop.wait(self._settings.look_ms / 1000 if told else 0.1)

    def turn(self) -> None:
        """Start what is to be started, see what has ended, and write how it all does."""
        for one in self.watched:
            if one.state in ("starting", "restarting") and self._clock_ms() >= one.next_start_ms:
                if not any(other.state == "running" and not other.warm for other in self.watched):
                    self._start(one)
            elif one.state == "running":
                try:
                    self._look(one)
                except Py4JJavaError as error:  # Java is there, and says what went wrong: the query may end yet.
                    self._say(f"{one.query.name}: {_short(error)}")
                except (ConnectionError, Py4JError) as error:
                    raise self._gone() from error
            if one.state != "starting":
                self._tell(one)

    def _gone(self) -> SparkGoneError:
        """Every query has ended with Spark, and nobody starts it again: ``progress`` must not say that it runs."""
        gone = SparkGoneError("Spark has ended by itself; start again, nothing is lost")
        for one in self.watched:
            if one.state not in ("halted", "done"):
                one.state, one.message = "halted", str(gone)
            self._tell(one)
        return gone

    def stop(self) -> None:
        """End every query, between two batches if that is soon; the next start goes on from there in any case."""
        deadline_ms, never = self._clock_ms() + self._settings.stop_ms, Event()
        for one in self.watched:
            if one.state not in ("halted", "done"):
                one.state = "stopped"
            self._tell(one)  # And once more after its last batch; but perhaps there is no time for that.
        for one in self.watched:
            running = one.query.running
            try:
                while running is not None and running.status["isTriggerActive"] and self._clock_ms() < deadline_ms:
                    never.wait(0.02)
                if running is not None and running.isActive:
                    running.stop()
            except Exception as error:  # noqa: BLE001  Spark may be gone already; the others are to be stopped all the same.
                self._say(f"{one.query.name}: while stopping: {_short(error)}")
            self._tell(one)

    def last_words(self) -> str:
        """How far it came and what needs somebody, in one sentence: the last line of a run."""
        try:
            progress = self._store.progress()
        except QuorateError as error:
            return f"ended; how far it came cannot be read: {error}"
        halted = [one.query.name for one in self.watched if one.state == "halted"]
        needs = f"; halted, and to be looked at: {', '.join(halted)}" if halted else ""
        events = 0 if progress is None else progress.position
        return f"ended after event {events - 1}{needs}" if events else f"ended before the first event{needs}"

    def _start(self, one: WatchedQuery) -> None:
        one.started_ms, one.warm = self._clock_ms(), False
        try:
            one.query.start()
        except (ConnectionError, Py4JNetworkError) as error:
            raise self._gone() from error
        except Exception as error:  # noqa: BLE001  Spark's exceptions have no common base of their own.
            self._failed(one, error)
        else:
            one.state = "running"

    def _look(self, one: WatchedQuery) -> None:
        running = one.query.running
        if running is None:
            return
        if running.isActive:
            if running.lastProgress is not None:
                one.warm, one.ready, one.failures, one.message = True, True, 0, ""
            elif self._clock_ms() - one.started_ms > self._settings.start_timeout_ms:
                one.started_ms = self._clock_ms()  # One that does not stop is told so again after as long a time.
                running.stop()
                self._failed(one, StorageError(f"no batch within {self._settings.start_timeout_ms} ms"))
            return
        sunk = None if one.query.feed is None else one.query.feed.failure
        error = sunk or running.exception()
        if error is not None:
            self._failed(one, error)
        elif self._settings.once:
            one.ready, one.state = True, "done"
        else:
            self._failed(one, StorageError("it was stopped by somebody else"))

    def _failed(self, one: WatchedQuery, error: BaseException) -> None:
        one.message = _short(error)
        if _halting(error):
            one.state = "halted"
            self._say(f"{one.query.name} is halted: {one.message}")
            return
        wait_ms = min(self._settings.backoff_ms * 2 ** min(one.failures, 20), self._settings.backoff_max_ms)
        one.failures += 1
        one.state, one.next_start_ms = "restarting", self._clock_ms() + wait_ms
        self._say(f"{one.query.name} failed and starts again in {wait_ms} ms: {one.message}")

    def _tell(self, one: WatchedQuery) -> None:
        try:
            state = "stopped" if one.state == "done" else one.state
            self._store.seen(one.query.name, one.query.id, state, one.message)
        except QuorateError as error:
            self._say(f"how {one.query.name} does could not be written: {error}")


def _halting(error: BaseException) -> bool:
    """Ours by type; what Spark brings from its workers by the name at the end of the traceback."""
    if isinstance(error, QuorateError):
        return isinstance(error, HALTING)
    raised = _RAISED.findall(str(error))
    return (bool(raised) and raised[-1][0] in _names(HALTING)) or bool(_UNEXPLAINED.search(str(error)))


def _names(kinds: tuple[type[BaseException], ...]) -> set[str]:
    names = {kind.__name__ for kind in kinds}
    for kind in kinds:
        names |= _names(tuple(kind.__subclasses__()))
    return names


def _short(error: BaseException) -> str:
    """The line of an error that names what was raised, without the traceback through two languages."""
    raised = _RAISED.findall(str(error))
    if raised and not isinstance(error, QuorateError):
        return ": ".join(raised[-1])[:1000]
    unexplained = None if isinstance(error, QuorateError) else _UNEXPLAINED.search(str(error))
    if unexplained is not None:
        return unexplained[0][:1000]
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:1000]
