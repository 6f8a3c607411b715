"""The leader evens out who leads, if a setting says so: it plans as ``quorate balance`` does, and makes the moves.

Rules: off unless ``balance.period_s`` is set. One plan at a time, its moves one after the other, each an election that
is judged again when its turn comes: a plan is an intention, and whoever is not alive and in sync by then is refused.
What was refused or is unknown is left; the next plan begins with what is so then.
"""

from functools import partial

from quorate.clock import Scheduler
from quorate.controller.controller import Controller
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Caller
from quorate.metadata.balance import plan
from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.commands import Command
from quorate.metadata.context import Context
from quorate.slices import in_slices

CAUSE = "balance"


class Balancer(Listener):
    """Active while this node leads."""

    def __init__(self, controller: Controller, scheduler: Scheduler, settings: BalanceSettings) -> None:
        self._controller = controller
        self._scheduler = scheduler
        self._settings = settings
        self._me = Caller(f"node/{controller.node_id}", "")
        self._term = 0
        """The term it works in; 0: this node does not lead. What was begun in another ends by itself."""

    def opened(self, term: int) -> None:
        """The first look is a period away: brokers are to be heard first."""
        self._term = term
        self._wait(term)

    def lost(self) -> None:
        """Another one evens out."""
        self._term = 0

    def _wait(self, term: int) -> None:
        if self._settings.period_s and self._term == term:
            self._scheduler.call_later(self._settings.period_s, partial(self._look, term))

    def _look(self, term: int) -> None:
        if self._term != term:
            return
        controller = self._controller
        context = Context(
            now_ms=self._scheduler.time_ms(),
            term=term,
            policy=controller.policy_for(),
            live=controller.live_now(),
            members=controller.members,
        )
        steps = plan(controller.state, context, self._settings)
        in_slices(steps, self._scheduler, lambda made: self._make(term, made().commands()))

    def _make(self, term: int, left: list[Command]) -> None:
        """The next move, once the one before has ended."""
        if not left or self._term != term:
            self._wait(term)
            return
        command = left.pop(0)
        self._controller.submit(command, self._me, lambda _: self._make(term, left), cause=CAUSE, forward=False)
