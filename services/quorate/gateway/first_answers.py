"""The answer of a repeated request whose first answer was too long to keep: decided again where it was first.

Rules: it is given only if the rules say, of the state before it, the very events that the log has there; then it is the
answer that was given. Where they do not (something that is kept nowhere had its part in it, as who was alive then), or
that state cannot be had in time, the caller is told where its events are.

Theory: ``decide`` is pure, so its answer is in the log as its events are.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from quorate.clock import Scheduler
from quorate.controller import Answered, Caller, Controller, Outcome, ReadView
from quorate.errors import QuorateError
from quorate.gateway.fresh import Freshness, FreshReader, NotFresh
from quorate.gateway.kafka.view import EventLogReader
from quorate.metadata.commands import AnsweredBefore, Command, Refusal, Reply
from quorate.metadata.context import Context
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.slices import Steps, in_slices
from quorate.wire.avro import decode_events

Done = Callable[[Outcome], None]


class FirstAnswers:
    """Has commands decided whose callers may ask again."""

    def __init__(
        self,
        controller: Controller,
        fresh: FreshReader,
        log: EventLogReader,
        scheduler: Scheduler,
        policy: PolicySettings,
    ) -> None:
        self._controller = controller
        self._fresh = fresh
        self._log = log
        self._scheduler = scheduler
        self._policy = policy

    def submit(
        self,
        command: Command,
        caller: Caller,
        done: Done,
        *,
        cause: str = "",
        request_id: str = "",
        timeout_s: float | None = None,
    ) -> None:
        """``Controller.submit``; what was answered before takes as long as a read of the past, beyond ``timeout_s``."""
        ended = partial(self._ended, command, done) if request_id else done
        self._controller.submit(command, caller, ended, cause=cause, request_id=request_id, timeout_s=timeout_s)

    def _ended(self, command: Command, done: Done, outcome: Outcome) -> None:
        if not isinstance(outcome, Answered) or not isinstance(outcome.reply, AnsweredBefore):
            done(outcome)
            return
        answer, before = outcome, outcome.reply

        def made(reply: Callable[[], Reply]) -> None:
            try:
                found = reply()
            except QuorateError:  # The disk fails, and the node will of it; what is known is told.
                found = before
            except Exception:  # Our fault, for the log; the caller waits no less for it.
                done(msgspec.structs.replace(answer, reply=before))
                raise
            done(msgspec.structs.replace(answer, reply=found))

        def travelled(view: ReadView | NotFresh) -> None:
            if isinstance(view, NotFresh):
                done(answer)
            else:
                in_slices(self._again(command, before, view), self._scheduler, made)

        def applied(view: ReadView | NotFresh) -> None:
            if isinstance(view, NotFresh):
                done(answer)
            else:
                self._fresh.read(Freshness(linearizable=False, at=before.first_offset), travelled)

        self._fresh.read(Freshness(linearizable=False, min_offset=answer.offset), applied)

    def _again(self, command: Command, before: AnsweredBefore, view: ReadView) -> Steps[Reply]:
        first, log = before.first_offset, self._log
        yield lambda done: log.ready(first, 1, done, lambda: True)
        told = [(stamp, event) for stamp, event in decode_events(log.read(first, 1)[0]) if stamp.offset >= first]
        stamp = told[0][0]  # A command's events are one batch, of one time.
        context = Context(
            now_ms=stamp.time_ms, term=stamp.term, next_revision=first, policy=self._policy, live=view.live
        )
        decision = decide(view.state, command, context)
        if isinstance(decision, Refusal) or decision.events != tuple(event for _, event in told):
            return before
        return decision.reply
