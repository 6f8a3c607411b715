"""Which members are heard: what the leader knows of their heartbeats, and who was silent for too long.

Rules: soft state of the leader. A heartbeat costs a look-up and a few attribute writes; a member is looked at once in
its timeout, whoever else there is. Who is not heard for its timeout is fenced, one by one, each in a turn of its own. A
new leader gives everybody a whole timeout. Time in which this node itself stood still is no silence of others: who is
looked at ``LATE_S`` after his time is given as long again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from quorate.clock import Scheduler
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Answered, Outcome, Refused
from quorate.controller.paced import Agenda
from quorate.controller.ports import Submit
from quorate.controller.settings import ControllerSettings
from quorate.events import Event, MemberAmended, MemberGone, MemberRegistered, MemberUnfenced
from quorate.metadata.commands import FenceMember, HearMember
from quorate.model.live import MemberHealth
from quorate.model.segments import holds_last_copy
from quorate.model.state import Member, State

RETRY_S: Final = 0.5
"""How soon a fencing is tried again that could not be decided."""
LAST_COPY_S: Final = 1.0
"""How old what a heartbeat is told of last copies may be."""
LATE_S: Final = 1.0
"""A look that comes so long after its time says that this node stood still."""


class _Heard:
    __slots__ = ("due", "epoch", "health", "heard", "last_copy", "looked", "name", "seen", "timeout_s", "waits")

    def __init__(self, member: Member, seen: float) -> None:
        self.name, self.epoch = member.name, member.epoch
        self.timeout_s = member.timeout_ms / 1000
        self.seen = self.due = seen
        """Monotonic: when it was last heard, or given time anew; and when it is looked at."""
        self.waits = False
        """Is it to be looked at? Not while it is fenced."""
        self.heard: float | None = None
        """None: never by this leader."""
        self.health: MemberHealth | None = None
        self.looked: float | None = None
        """When its copies were looked at, and whether one was the last; None: not yet."""
        self.last_copy = False


class MemberKeeper(Listener):
    """Implements ``model.live.MemberView``; ``submit`` has this node, if it leads, decide a command."""

    concerns = frozenset((MemberGone, MemberRegistered, MemberUnfenced, MemberAmended))

    def __init__(
        self, state: Callable[[], State], scheduler: Scheduler, settings: ControllerSettings, submit: Submit
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._submit = submit
        self._leads = False
        self._heard: dict[str, _Heard] = {}
        self._agenda = Agenda[_Heard](scheduler, settings.member_sweep_s, self._due)
        self.beats = 0

    # -- as decisions and questions see it

    def alive(self, name: str, epoch: int) -> bool | None:
        """Was it heard within its timeout? None: nobody knows, as when this node stood still and has not looked yet."""
        found, now = self._of(name, epoch), self._scheduler.monotonic()
        if found is None or (found.waits and now - found.due > LATE_S and now > found.seen + found.timeout_s):
            return None
        return now <= found.seen + found.timeout_s

    def last_heard_ms(self, name: str, epoch: int) -> int:
        """Epoch milliseconds; 0: never here."""
        found = self._of(name, epoch)
        if found is None or found.heard is None:
            return 0
        return self._scheduler.time_ms() - int((self._scheduler.monotonic() - found.heard) * 1000)

    def health(self, name: str, epoch: int) -> MemberHealth | None:
        """As it last said; None: never here."""
        found = self._of(name, epoch)
        return None if found is None else found.health

    def last_copy(self, state: State, member: Member) -> bool:
        """Now, or ``LAST_COPY_S`` ago at most: whoever is to leave may hold very many, and beats often."""
        found, now = self._of(member.name, member.epoch), self._scheduler.monotonic()
        if found is None:
            return holds_last_copy(state, member)
        if found.looked is None or now - found.looked >= LAST_COPY_S:
            found.looked, found.last_copy = now, holds_last_copy(state, member)
        return found.last_copy

    def healths(self) -> list[MemberHealth]:
        """Of all that said something here."""
        return [found.health for found in self._heard.values() if found.health is not None]

    def _of(self, name: str, epoch: int) -> _Heard | None:
        found = self._heard.get(name)
        return found if found is not None and found.epoch == epoch else None

    def heard(self, beat: HearMember) -> None:
        """A heartbeat that was not refused."""
        self.beats += 1
        found = self._heard.get(beat.name)
        if found is not None and found.epoch == beat.epoch:
            found.seen = found.heard = self._scheduler.monotonic()
            found.health = beat.health

    # -- as it hears of the controller

    def opened(self, term: int) -> None:
        """This node leads: everybody begins anew, with a whole timeout. In the order of names: that of a hash table is
        another on each run.
        """
        self._forget()
        self._leads = True
        for _, member in sorted(self._state().members.items()):
            self._watch(member)

    def lost(self) -> None:
        """Another one hears them."""
        self._leads = False
        self._forget()

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Members that came, changed and went; also after ``lost``, when that is another one's business."""
        for _, event in events:
            if isinstance(event, MemberGone):
                self._heard.pop(event.member, None)
            elif self._leads and isinstance(event, MemberRegistered | MemberUnfenced | MemberAmended):
                member = self._state().members.get(event.member)
                if member is not None:
                    self._watch(member)

    def _forget(self) -> None:
        self._heard.clear()
        self._agenda.clear()

    def _watch(self, member: Member) -> None:
        """From now on, with what was heard of this epoch so far."""
        before = self._of(member.name, member.epoch)
        self._heard[member.name] = found = _Heard(member, self._scheduler.monotonic())
        if before is not None:
            found.heard, found.health = before.heard, before.health
        if not member.fenced:
            self._look_at(found)

    def _look_at(self, found: _Heard) -> None:
        found.due, found.waits = found.seen + found.timeout_s, True
        self._agenda.add(found.due - self._scheduler.monotonic(), found)

    def _due(self, found: _Heard) -> None:
        if self._heard.get(found.name) is not found:
            return
        now = self._scheduler.monotonic()
        if now - found.due > LATE_S and found.seen + found.timeout_s <= now:
            found.seen = now
        if found.seen + found.timeout_s > now:
            self._look_at(found)
        else:
            self._fence(found)

    def _fence(self, found: _Heard) -> None:
        def decided(outcome: Outcome) -> None:
            if self._heard.get(found.name) is not found:
                return  # It is gone or another one now, or another node leads.
            if outcome.__class__ is not Answered and outcome.__class__ is not Refused:
                found.due = self._scheduler.monotonic() + RETRY_S
                self._agenda.add(RETRY_S, found)

        heard_ms = self.last_heard_ms(found.name, found.epoch)
        command = FenceMember(
            name=found.name, epoch=found.epoch, evidence="heartbeat expired", last_heartbeat_ms=heard_ms
        )
        self._submit(command, decided)
