"""How requests end: the one place where each gets its answer, its line in the log, and its deadline.

Rules: ``done`` is called exactly once. A timeout says what is known: *nothing happened* of what waited here, *unknown*
of what was proposed or sent to the leader. No timer per request: deadlines lie in one queue per patience, swept
together while there is one; a request that ended leaves its queue as soon as those before it have.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from quorate.controller.outcomes import Answered, Refused, Unavailable, UnknownOutcome
from quorate.controller.pending import AnyPending, Stage
from quorate.controller.ports import CommandLine, ControllerPorts


class Endings:
    """Answers each request once. ``sweep_s``: how often deadlines are looked at, while anybody waits; ``swept`` is
    called after that: whoever keeps a place for a request may see now that it ended.
    """

    def __init__(self, ports: ControllerPorts, sweep_s: float, swept: Callable[[], None]) -> None:
        self._scheduler, self._metrics = ports.scheduler, ports.metrics
        self._engine, self._command_log = ports.engine, ports.command_log
        self._sweep_s, self._swept = sweep_s, swept
        self._armed = False
        self._queues: dict[float, deque[AnyPending]] = {}

    def watch(self, pending: AnyPending) -> None:
        """From now on it ends by its deadline at the latest."""
        queue = self._queues.get(pending.patience_s)
        if queue is None:
            queue = self._queues[pending.patience_s] = deque()
        if not self._armed:
            self._arm()
        pending.queue = queue
        queue.append(pending)

    def settle(self, pending: AnyPending, outcome: object) -> None:
        """Give it its answer; later ones are dropped.

        A caller that fails must not stop a node in the middle of an apply, and the next leader at the retry.
        """
        stage = pending.stage
        if stage is Stage.ENDED:
            return
        pending.stage = Stage.ENDED
        queue, pending.queue = pending.queue, None
        while queue and queue[0].stage is Stage.ENDED:
            queue.popleft()
        decided_here = stage is not Stage.FORWARDED
        if outcome.__class__ is UnknownOutcome:
            self._metrics.unknown_outcomes += 1
        elif isinstance(outcome, Refused) and decided_here:
            self._metrics.refusals[outcome.refusal.code] += 1
        relayed = not decided_here and isinstance(outcome, Answered | Refused)  # The leader has written its line.
        if self._command_log is not None and not pending.is_read and not relayed:
            self._command_log(self._line(pending, outcome))
        try:
            pending.done(outcome)
        except Exception as error:  # noqa: BLE001 - the caller's own trouble; raised in its own turn, below
            self._scheduler.call_soon(partial(_raise, error))

    def _line(self, pending: AnyPending, outcome: object) -> CommandLine:
        caller = pending.caller
        detail = getattr(outcome, "reason", "")
        if isinstance(outcome, Refused):
            detail = f"{outcome.refusal.code}: {outcome.refusal.remark}"
        return CommandLine(
            command=pending.request.__class__.__name__,
            principal=caller.principal,
            address=caller.address,
            origin=caller.origin,
            cause=pending.cause,
            request_id=pending.request_id,
            outcome=outcome.__class__.__name__,
            detail=detail,
            term=self._engine.term,
            offset=getattr(outcome, "offset", -1),
            took_us=int((self._scheduler.monotonic() - pending.started) * 1e6),
        )

    def _arm(self) -> None:
        self._armed = True
        self._scheduler.call_later(self._sweep_s, self._sweep)

    def _sweep(self) -> None:
        """End what would be overdue at the next sweep, with the truth about it."""
        self._armed = False
        try:
            self._end_overdue()
        finally:  # Whatever is the matter with one of them, the others are looked at.
            if self._queues and not self._armed:
                self._arm()

    def _end_overdue(self) -> None:
        for pending in self._expired(self._scheduler.monotonic() + self._sweep_s):
            if pending.stage in (Stage.PROPOSED, Stage.FORWARDED):
                self.settle(pending, UnknownOutcome(f"no answer in time; {pending.stage.value}"))
            else:
                self.settle(pending, Unavailable(f"no answer in time; {pending.stage.value}"))
        self._swept()

    def _expired(self, now: float) -> Iterator[AnyPending]:
        """Those whose time is over then; whoever takes one ends it."""
        for patience_s, queue in list(self._queues.items()):
            while queue and queue[0].deadline <= now:
                pending = queue.popleft()
                if pending.stage is not Stage.ENDED:
                    yield pending
            if not queue:
                del self._queues[patience_s]


def _raise(error: Exception) -> None:
    raise error
