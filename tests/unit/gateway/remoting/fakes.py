"""A controller of one node without consensus: the real rules, decided and applied at once; and a wired-up gateway."""

from collections.abc import Callable
from typing import Protocol

from quorate.controller.live import Beat, Channel, LiveNow, LiveTable
from quorate.controller.outcomes import Answered, Busy, Caller, NotLeader, Outcome, Refused, Unavailable
from quorate.controller.views import ReadResult, ReadView
from quorate.events import Event, Stamp
from quorate.gateway.fresh import Freshness, Seen
from quorate.metadata.commands import Command, Refusal
from quorate.metadata.context import Context
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.model.evolve import evolve
from quorate.model.state import EMPTY, State
from tests.stand_ins import ManualClock


class Viewed(Protocol):
    """A controller's state as it is."""

    def view(self) -> ReadView:
        """What is applied here."""


class AtOnce:
    """A reader that waits for nothing: whatever is asked, the present is the answer."""

    def __init__(self, controller: Viewed) -> None:
        self._controller = controller

    def read(self, freshness: Freshness, seen: Seen, *, forward: bool, started: float | None = None) -> None:
        seen(self._controller.view())


class InstantController:
    """Leads for ever, commits at once. ``answer_with`` replaces every outcome; ``leader`` may be taken away."""

    def __init__(self, policy: PolicySettings | None = None) -> None:
        self.clock = ManualClock(start_s=100.0)
        self.policy = policy or PolicySettings()
        self.live = LiveTable(started=0.0, timeout_s=10.0, timeout_max_s=120.0, entries_max=1000)
        self.state: State = EMPTY
        self.events: list[Event] = []
        self.leader_id: int | None = 1
        self.is_leader = True
        self.answer_with: Outcome | None = None
        self.view_with: NotLeader | Unavailable | Busy | None = None
        self.proof: Unavailable | Busy | None = None
        self.submitted: list[tuple[Command, Caller, str]] = []
        self.closed_channels: list[Channel] = []

    def submit(
        self, command: Command, caller: Caller, done: Callable[[Outcome], None], *, cause: str, forward: bool
    ) -> None:
        self.submitted.append((command, caller, cause))
        if self.answer_with is not None:
            done(self.answer_with)
        elif not self.is_leader and not forward:
            done(NotLeader(self.leader_id))
        else:
            done(self._decide(command, caller, cause))

    def _decide(self, command: Command, caller: Caller, cause: str) -> Outcome:
        now_ms = self.clock.time_ms()
        context = Context(now_ms=now_ms, term=1, policy=self.policy, live=self.live_now())
        decision = decide(self.state, command, context)
        if isinstance(decision, Refusal):
            return Refused(decision, len(self.events))
        for event in decision.events:
            stamp = Stamp(offset=len(self.events), term=1, time_ms=now_ms, principal=caller.principal, cause=cause)
            self.state = evolve(self.state, event, stamp)
            self.events.append(event)
        return Answered(decision.reply, len(self.events))

    def live_now(self) -> LiveNow:
        return self.live.at(self.clock.monotonic(), self.clock.time_ms())

    def view(self) -> ReadView:
        return ReadView(self.state, len(self.events), 1, self.clock.time_ms(), self.live_now())

    def read(
        self, level: str, done: Callable[[ReadResult], None], *, forward: bool, timeout_s: float | None = None
    ) -> None:
        if self.view_with is not None:
            done(self.view_with)
        elif timeout_s is not None and (self.proof is not None or self.leader_id is None):
            done(self.proof or Unavailable("no leader"))
        elif not self.is_leader and not forward:
            done(NotLeader(self.leader_id))
        else:
            done(self.view())

    def heartbeat(self, beat: Beat, channel: Channel) -> None:
        self.live.heard(beat, channel, self.clock.monotonic())

    def channel_closed(self, channel: Channel) -> None:
        self.closed_channels.append(channel)
        self.live.closed(channel, self.clock.monotonic())

    def dies(self, cluster: str, broker_set: str, broker_id: int) -> None:
        """A broker is found dead."""
        entry = self.live.get(cluster, broker_set, broker_id)
        assert entry is not None
        self.live.mark_dead(entry, "connection closed", self.clock.monotonic())
