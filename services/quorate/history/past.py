"""Time travel: the state as it was before offset N, for whoever asks.

Rules: nothing is replayed on the node's own thread: it only hands rows and batches over, a slice a turn, to a process
(process.py), and takes rows back. Questions are bounded in number and time; those about one offset share one replay;
a few states are kept ready. The caller makes sure that the offset is applied here. Soft state is not kept. A checkpoint
whose rows do not add up to what was written is told in the log and forgotten: the one before it is taken.

Theory: the nearest known state (kept by the process, or a checkpoint) and the events after it; docs/reads.md.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Literal, Protocol

import msgspec
import structlog

from quorate.clock import Scheduler
from quorate.consensus.ports import Term
from quorate.consensus.storage.event_log import EventLog, parse_batch
from quorate.controller import ReadView, ReplicatedState
from quorate.errors import QuorateError
from quorate.history.checkpoints import Checkpoints, Pair
from quorate.history.replay import Batches, Begin, Done, End, Failed, Order, Report, Rows, Waypoint, told
from quorate.history.settings import HistorySettings
from quorate.metadata.sums import digest, joined
from quorate.metrics import Metrics
from quorate.model.live import Silence
from quorate.model.rows import restoring
from quorate.model.state import State
from quorate.slices import TURN_S, in_slices

_log = structlog.get_logger(__name__)

BATCH_BYTES = 16 * 1024
"""Batches handed over in one message."""
Ready = partial[bool]
"""``EventLog.ready`` of a place."""
TermAndTime = tuple[Term, int]
"""Of an event; Unix ms."""
SWEEP_S = 0.25
"""How often deadlines are looked at, at least."""


class NoAnswer(msgspec.Struct, frozen=True):
    """Why there is none: too many ask (come again), or it could not be had in time."""

    kind: Literal["crowded", "failed"]
    reason: str


Answer = Callable[[ReadView | NoAnswer], None]


class Listener(Protocol):
    """Callbacks of a process's link."""

    def report(self, report: Report) -> None:
        """It said something."""

    def drained(self) -> None:
        """It takes more again."""

    def gone(self, reason: str) -> None:
        """It ended; nothing is called any more."""


class Link(Protocol):
    """One process that replays."""

    @property
    def full(self) -> bool:
        """Enough is on its way; ``drained`` will be called."""

    def send(self, order: Order) -> None:
        """Hand over."""

    def close(self) -> None:
        """End it; nothing is called any more."""


class _Question:
    __slots__ = ("deadline", "done", "offset")

    def __init__(self, offset: int, deadline: float, done: Answer) -> None:
        self.offset = offset
        self.deadline = deadline
        self.done = done


class Past:
    """Answers reads at an offset of the past. ``start`` begins a process that reports to its argument."""

    def __init__(
        self,
        machine: ReplicatedState,
        log: EventLog,
        checkpoints: Checkpoints,
        start: Callable[[Listener], Link],
        scheduler: Scheduler,
        settings: HistorySettings,
        metrics: Metrics,
    ) -> None:
        self.settings = settings
        self.start = start
        self.log = log
        self.checkpoints = checkpoints
        self.scheduler = scheduler
        self._machine = machine
        self._metrics = metrics
        self._questions: deque[_Question] = deque()
        self._wanted: deque[int] = deque()
        self._states: dict[int, tuple[State, TermAndTime]] = {}
        self._runners = [_Runner(self) for _ in range(settings.workers)]
        self._sweeping = False
        self.replays = 0
        metrics.gauge("history_questions", "Questions about the past that wait.", self._questions.__len__)
        metrics.gauge("history_replays", "Replays begun since the start.", lambda: self.replays)
        metrics.gauge("history_checkpoints", "Checkpoints kept.", lambda: len(checkpoints.offsets))

    def at(self, offset: int, done: Answer, timeout_s: float | None = None) -> None:
        """The state after the events 0 … ``offset`` - 1, which must be applied here; now or within ``timeout_s``, at
        most ``answer_timeout_s``.
        """
        found = (self._machine.state, self.log.newest) if offset == self._machine.offset else self._states.get(offset)
        if found is not None:
            done(_view(offset, *found))
        elif len(self._questions) >= self.settings.questions_max:
            done(NoAnswer("crowded", f"{len(self._questions)} questions about the past wait already"))
        else:
            most = self.settings.answer_timeout_s
            deadline = self.scheduler.monotonic() + (most if timeout_s is None else min(timeout_s, most))
            self._questions.append(_Question(offset, deadline, done))
            if offset not in self._wanted and all(runner.stop != offset for runner in self._runners):
                self._wanted.append(offset)
            self._dispatch()
            self._watch()

    def stop(self) -> None:
        """Answer everybody, and end the processes."""
        self._wanted.clear()
        self._end(lambda _: True, NoAnswer("failed", "this node is stopping"))
        for runner in self._runners:
            runner.close()

    def _dispatch(self) -> None:
        asked = {question.offset for question in self._questions}
        self._wanted = deque(offset for offset in self._wanted if offset in asked)
        for runner in self._runners:
            if self._wanted and runner.stop is None:
                self.replays += 1
                runner.begin(self._wanted.popleft())

    def found(self, offset: int, state: State, last: TermAndTime) -> None:
        """A replay ended. ``last``: of the event before ``offset``."""
        self._states[offset] = (state, last)
        while len(self._states) > self.settings.states_max:
            del self._states[next(iter(self._states))]
        view = _view(offset, state, last)
        self._end(lambda question: question.offset == offset, view)
        self._dispatch()

    def failed(self, offset: int, reason: str) -> None:
        """A replay came to nothing."""
        trouble = NoAnswer("failed", f"the state at offset {offset} could not be had: {reason}")
        self._end(lambda question: question.offset == offset, trouble)
        self._dispatch()

    def _end(self, which: Callable[[_Question], bool], outcome: ReadView | NoAnswer) -> None:
        ended = [question for question in self._questions if which(question)]
        self._questions = deque(question for question in self._questions if not which(question))
        for question in ended:
            self.scheduler.call_soon(partial(question.done, outcome))

    def _watch(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            first = min((question.deadline for question in self._questions), default=math.inf)
            rest = max(first - self.scheduler.monotonic(), 0.0)
            self.scheduler.call_later(min(rest, SWEEP_S), self._sweep)

    def _sweep(self) -> None:
        """Answer callers that waited too long; end a process that takes too long, or that has nothing to do."""
        self._sweeping = False
        now = self.scheduler.monotonic()
        if any(question.deadline <= now for question in self._questions):
            late = NoAnswer("failed", "the replay takes longer than a question may; ask again")
            self._end(lambda question: question.deadline <= now, late)
        for runner in self._runners:
            runner.sweep(now)
        if self._questions or any(runner.link is not None for runner in self._runners):
            self._watch()


def _view(offset: int, state: State, last: TermAndTime) -> ReadView:
    return ReadView(state, offset, *last, Silence())


class _Runner:
    """One process, while there is one, and what it is doing; a ``Listener``."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self.link: Link | None = None
        self.stop: int | None = None
        """The offset wanted; None: idle."""
        self._last: TermAndTime = (Term(0), 0)
        """Term and time of the event before it."""
        self._kept: list[int] = []
        self._pairs: list[Pair] = []
        self._source: Iterator[Order | Ready] | None = None
        self._waits: Iterator[Order | Ready] | None = None
        """The source that waits for the disk."""
        self._since = 0.0
        """When it began, or became idle."""

    def begin(self, stop: int) -> None:
        past = self._past
        if self.link is None:
            self._kept = []
            self.link = past.start(self)
        self.stop, self._since = stop, past.scheduler.monotonic()
        self._pairs = []
        self._source = self._orders(stop)
        self.drained()

    def _beginning(self, stop: int) -> Begin:
        """The nearest state that is known."""
        past, settings = self._past, self._past.settings
        checkpoint = past.checkpoints.at_or_before(stop) or 0
        kept = max((offset for offset in self._kept if checkpoint <= offset <= stop), default=None)
        start = checkpoint if kept is None else kept
        return Begin(start, stop, kept is not None, settings.checkpoint_events, settings.worker_states)

    def _orders(self, stop: int) -> Iterator[Order | Ready]:
        """Everything to hand over, each step a small piece of work; before a part of the log, the question whether it
        is at hand.
        """
        begin = self._beginning(stop)
        yield begin
        while begin.start and not begin.kept and not (yield from self._checkpoint(begin.start)):
            begin = self._beginning(stop)
            yield begin  # What was handed over is dropped: nothing was made of it yet.
        log, at = self._past.log, begin.start
        while at < begin.stop:
            yield partial(log.ready, at, BATCH_BYTES)
            some = log.read(at, BATCH_BYTES)
            base, count, _, _ = parse_batch(some[-1])
            at = base + count
            yield Batches(some)
        if stop:
            yield partial(log.ready, stop - 1, 1)
        self._last = log.stamp_before(stop)
        yield End()

    def _checkpoint(self, offset: int) -> Generator[Order, None, bool]:
        """Hand over its rows. False: they are not those that were written, and it is forgotten."""
        checkpoints, total = self._past.checkpoints, 0
        expected = checkpoints.sum_at(offset)
        for some in told(checkpoints.rows(offset)):
            total += sum(digest("rows", key, value) for key, value in some.pairs)
            yield some
        if joined(total) == expected:
            return True
        _log.warning("a checkpoint has no sum or does not add up; the one before it is taken", offset=offset)
        checkpoints.forget(offset)
        return False

    def drained(self) -> None:
        """Hand over what fits a turn and the link."""
        scheduler, link, source = self._past.scheduler, self.link, self._source
        if link is None or source is None or source is self._waits:
            return
        until = scheduler.monotonic() + TURN_S
        try:
            while not link.full:
                if scheduler.monotonic() >= until:
                    scheduler.call_soon(self.drained)
                    return
                order = next(source, None)
                if order is None:
                    self._source = None
                    return
                if isinstance(order, partial):
                    self._waits = source
                    if not order(partial(self._here, source), lambda: source is self._source):
                        return
                    self._waits = None
                else:
                    link.send(order)
        except QuorateError as error:
            self._lost(str(error))

    def _here(self, source: Iterator[Order | Ready]) -> None:
        """What it waited for is at hand."""
        if source is self._waits:
            self._waits = None
            self.drained()

    def report(self, report: Report) -> None:
        """It said something."""
        if self.stop is None:
            return
        match report:
            case Rows(pairs):
                self._pairs += pairs
            case Waypoint(offset):
                pairs, self._pairs = self._pairs, []
                self._past.checkpoints.keep(offset, pairs)
            case Done(kept):
                self._kept = kept
                stop, pairs = self._rest()
                in_slices(restoring(pairs), self._past.scheduler, partial(self._restored, stop, self._last))
            case Failed(reason):
                stop, _ = self._rest()
                self._past.failed(stop, reason)

    def _rest(self) -> tuple[int, list[Pair]]:
        """Idle again; what it was about, and the rows it told."""
        stop, pairs = self.stop or 0, self._pairs
        self.stop, self._pairs, self._source = None, [], None
        self._since = self._past.scheduler.monotonic()
        return stop, pairs

    def _restored(self, stop: int, last: TermAndTime, made: Callable[[], State]) -> None:
        try:
            state = made()
        except QuorateError as error:
            self._past.failed(stop, str(error))
        else:
            self._past.found(stop, state, last)

    def gone(self, reason: str) -> None:
        """It ended; nothing is called any more."""
        self.link = None
        self._kept = []
        if self.stop is not None:
            stop, _ = self._rest()
            self._past.failed(stop, reason)

    def _lost(self, reason: str) -> None:
        """Neither the process nor what it knows is of use any more."""
        self.close()
        self.gone(reason)

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None
            self._kept = []

    def sweep(self, now: float) -> None:
        settings, age = self._past.settings, now - self._since
        if self.link is None:
            return
        if self.stop is not None and age > settings.replay_timeout_s:
            self._lost("the replay took too long")
        elif self.stop is None and age > settings.worker_idle_s:
            self.close()
