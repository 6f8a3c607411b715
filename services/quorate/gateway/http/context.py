"""What the HTTP interface needs of a node, and the one way it reads the state.

Rules: the composition root fills ``HttpContext``; everything in it lives on the node's thread. A read names its
freshness (docs/reads.md): *stale* is what this node has applied; *linearizable* waits until it has applied what was
committed before; *min_offset* until it has applied so much. Waiting is bounded in time and number.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.ports import RaftEngine
from quorate.controller import Busy, Controller, ReadResult, ReadView
from quorate.gateway.access import Access, Quota
from quorate.gateway.http.messages import HttpError
from quorate.gateway.http.settings import HttpSettings
from quorate.gateway.kafka.view import EventLogReader
from quorate.history.past import NoAnswer, Past
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestTable
from quorate.metrics import Metrics

PRINCIPAL = "anonymous"
"""Whoever asks: there is no authentication on this listener yet."""


class StorageInfo(msgspec.Struct, frozen=True):
    """How the disk is doing."""

    bytes_on_disk: int
    """Of the whole data directory: journal and store (RocketMQ ``dledger_disk_usage``)."""
    journal_bytes: int
    unsynced_for_s: float
    """How long the oldest unsynced write has waited; 0: nothing waits."""


class NodeInfo(msgspec.Struct, frozen=True):
    """What a node is called."""

    node_id: int
    cluster_id: str
    version: str
    topic: str
    """Kafka name of the log."""
    rpc: str = ""
    """Where brokers reach it, ``host:port``; the label ``address`` of RocketMQ's metrics."""


@dataclass(frozen=True)
class HttpContext:
    """Everything the handlers work with."""

    node: NodeInfo
    controller: Controller
    engine: RaftEngine
    log: EventLogReader
    on_applied: list[Callable[[int], None]]
    """Called with the new end offset after each slice of applied entries (``ReplicatedState.on_applied``)."""
    scheduler: Scheduler
    metrics: Metrics
    access: Access
    quota: Quota
    connected: Callable[[int], bool]
    """Can this node reach that voter now? True of itself."""
    serving: Callable[[], bool]
    """Are all event batches here, and is the node not stopping?"""
    alive: Callable[[], bool]
    """False once the node stops, or has failed."""
    storage: Callable[[], StorageInfo]
    requests: Callable[[], RequestTable]
    """The remembered request ids as of now, for the state hash (``ReplicatedState.requests``)."""
    past: Past
    """The state at any offset."""
    policy: PolicySettings
    """This node's own, before what the log says."""
    settings: HttpSettings = field(default_factory=HttpSettings)
    info: Mapping[str, str] = field(default_factory=dict)
    """More labels of the metric ``quorate_info``."""


class Freshness(msgspec.Struct, frozen=True):
    """How fresh an answer must be; or, with ``at``, which past is asked about (the events before that offset)."""

    linearizable: bool = True
    min_offset: int = 0
    at: int | None = None


class _Waiting:
    __slots__ = ("deadline", "done", "fail", "offset")

    def __init__(
        self, offset: int, deadline: float, done: Callable[[ReadView], None], fail: Callable[[HttpError], None]
    ) -> None:
        self.offset = offset
        self.deadline = deadline
        self.done = done
        self.fail = fail


class Reader:
    """Hands out read views that are fresh enough, or says why not; one or the other, exactly once."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context
        self._waiting: deque[_Waiting] = deque()
        self._armed = False
        context.on_applied.append(self._advanced)

    def read(self, freshness: Freshness, done: Callable[[ReadView], None], fail: Callable[[HttpError], None]) -> None:
        """One of the two is called, now or within ``answer_timeout_s`` (of the past: ``history.answer_timeout_s``)."""
        if freshness.at is not None:
            self._travel(freshness.at, done, fail)
            return
        if not freshness.linearizable:
            self._wait(freshness.min_offset, done, fail)
            return

        def seen(view: ReadResult) -> None:
            match view:
                case ReadView():
                    self._wait(freshness.min_offset, done, fail)
                case Busy(reason):
                    fail(HttpError("busy", reason))
                case _:
                    fail(self.unavailable("the leader could not be asked"))

        self._context.controller.read("linearizable", seen, timeout_s=self._context.settings.answer_timeout_s)

    def _travel(self, at: int, done: Callable[[ReadView], None], fail: Callable[[HttpError], None]) -> None:
        """The state before offset ``at``; where this node has not applied so much, the leader says if it exists."""

        def told(outcome: ReadView | NoAnswer) -> None:
            if isinstance(outcome, ReadView):
                done(outcome)
            else:
                fail(HttpError("throttled" if outcome.kind == "crowded" else "unavailable", outcome.reason))

        def caught_up(view: ReadView) -> None:
            if at > view.offset:
                fail(HttpError("beyond_end", f"the log ends at offset {view.offset}", end_offset=view.offset))
            else:
                self._context.past.at(at, told)

        if at <= self._context.controller.offset:
            self._context.past.at(at, told)
        else:
            self.read(Freshness(), caught_up, fail)

    def unavailable(self, why: str) -> HttpError:
        """The error of a read without a quorum; it names the way out."""
        leader = self._context.controller.leader_id
        return HttpError("unavailable", f"{why}; level=stale answers from this node alone", leader=leader)

    def _wait(self, offset: int, done: Callable[[ReadView], None], fail: Callable[[HttpError], None]) -> None:
        context = self._context
        if context.controller.offset >= offset:
            done(context.controller.view())
            return
        if len(self._waiting) >= context.settings.waiting_max:
            fail(HttpError("busy", "too many reads wait"))
            return
        deadline = context.scheduler.monotonic() + context.settings.answer_timeout_s
        self._waiting.append(_Waiting(offset, deadline, done, fail))
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self._waiting:
            self._armed = True
            delay = max(self._waiting[0].deadline - self._context.scheduler.monotonic(), 0.0)
            self._context.scheduler.call_later(delay, self._expired)

    def _expired(self) -> None:
        """Deadlines are in order of arrival, for all wait equally long."""
        self._armed = False
        now = self._context.scheduler.monotonic()
        while self._waiting and self._waiting[0].deadline <= now:
            waiting = self._waiting.popleft()
            end = self._context.controller.offset
            waiting.fail(HttpError("behind", f"this node is at offset {end}, not {waiting.offset}", end_offset=end))
        self._arm()

    def _advanced(self, end_offset: int) -> None:
        if self._waiting:
            reached = [w for w in self._waiting if w.offset <= end_offset]
            self._waiting = deque(w for w in self._waiting if w.offset > end_offset)
            for waiting in reached:
                done = waiting.done
                self._context.scheduler.call_soon(lambda done=done: done(self._context.controller.view()))  # type: ignore[misc]
