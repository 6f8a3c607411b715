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
from quorate.controller.paced import Agenda, SomeATurn
from quorate.controller.ports import Submit
from quorate.controller.settings import ControllerSettings
from quorate.events import Event, MemberAmended, MemberGone, MemberRegistered, MemberUnfenced
from quorate.metadata.commands import FenceMember, HearMember
from quorate.model.live import MemberHealth
from quorate.model.names import following
from quorate.model.segments import holds_last_copy, looking_for_last_copy
from quorate.model.state import Member, State
from quorate.slices import in_slices

RETRY_S: Final = 0.5
"""How soon a fencing is tried again that could not be decided; one that failed, each time twice as late."""
RETRY_MAX_S: Final = 30.0
LAST_COPY_S: Final = 1.0
"""How old what a heartbeat is told of last copies may be."""
PER_TURN: Final = 64
"""Members that a new leader takes up in one turn of the loop."""
LATE_S: Final = 1.0
"""A look that comes so long after its time says that this node stood still."""


class _Heard:
    __slots__ = (
        "again_s",
        "due",
        "epoch",
        "health",
        "heard",
        "last_copy",
        "looked",
        "looking",
        "name",
        "seen",
        "timeout_s",
        "turn",
        "waits",
    )

    def __init__(self, member: Member, seen: float) -> None:
        self.name, self.epoch = member.name, member.epoch
        self.timeout_s = member.timeout_ms / 1000
        self.seen = self.due = seen
        """Monotonic: when it was last heard, or given time anew; and when it is looked at."""
        self.again_s = RETRY_S
        """How soon its fencing is tried again if it fails once more."""
        self.waits = False
        """Is it to be looked at? Not while it is fenced."""
        self.turn = 0
        """The number of its turn in the agenda; 0: none waits there. Others of it count no more."""
        self.heard: float | None = None
        """None: never by this leader."""
        self.health: MemberHealth | None = None
        self.looked: float | None = None
        """When its copies were looked at; None: not yet."""
        self.looking = False
        """Are they now?"""
        self.last_copy = True
        """Was one the last? Until they were looked at it may be."""


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
        self._opening = SomeATurn[str](scheduler, self._taken_up)
        self._opened_at = 0.0
        """When this node began to lead: of then are those that are taken up later."""
        self._agenda = Agenda[tuple[_Heard, int]](scheduler, settings.member_sweep_s, self._due)
        self._turns = 0
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
        """Now, or ``LAST_COPY_S`` ago at most, or as long as a look takes: whoever is to leave may hold very many, and
        beats often. So a look at them ends in this turn only if they are few.
        """
        found, now = self._of(member.name, member.epoch), self._scheduler.monotonic()
        if found is None:
            return holds_last_copy(state, member)
        if found.looked is None or now - found.looked >= LAST_COPY_S:
            self._look(found, state, member)
        return found.last_copy

    def _look(self, found: _Heard, state: State, member: Member) -> None:
        if found.looking:
            return
        found.looking, begun = True, self._scheduler.monotonic()

        def looked(result: Callable[[], bool]) -> None:
            found.looking = False
            found.looked, found.last_copy = begun, result()

        in_slices(looking_for_last_copy(state, member), self._scheduler, looked)

    def healths(self) -> list[MemberHealth]:
        """Of all that said something here."""
        return [found.health for found in self._heard.values() if found.health is not None]

    def _of(self, name: str, epoch: int) -> _Heard | None:
        found = self._taken_up(name)
        return found if found is not None and found.epoch == epoch else None

    def heard(self, beat: HearMember) -> None:
        """A heartbeat that was not refused."""
        self.beats += 1
        found = self._of(beat.name, beat.epoch)
        if found is not None:
            found.seen = found.heard = self._scheduler.monotonic()
            found.health = beat.health

    # -- as it hears of the controller

    def opened(self, term: int) -> None:
        """This node leads: everybody begins anew, with a whole timeout. In the order of names: that of a hash table is
        another on each run. A few a turn, and who is asked about or heard before it has its turn at once.
        """
        self._forget()
        self._leads = True
        self._opened_at = self._scheduler.monotonic()
        self._opening.begin(following(self._state().member_names), PER_TURN)

    def _taken_up(self, name: str) -> _Heard | None:
        """What is known of it, also if it has not been taken up yet."""
        found = self._heard.get(name)
        member = self._state().members.get(name) if found is None and self._opening.under_way else None
        return found if member is None else self._watch(member, self._opened_at)

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
                    self._watch(member, self._scheduler.monotonic())

    def _forget(self) -> None:
        self._opening.stop()
        self._heard.clear()
        self._agenda.clear()

    def _watch(self, member: Member, seen: float) -> _Heard:
        """From then on, with what was heard of this epoch so far. It has one turn, however often it says something else
        of itself.
        """
        found = self._heard.get(member.name)
        if found is None or found.epoch != member.epoch:
            found = self._heard[member.name] = _Heard(member, seen)
        found.seen, found.timeout_s = seen, member.timeout_ms / 1000
        found.again_s, found.looked = RETRY_S, None
        if member.fenced:
            found.waits, found.turn = False, 0
        else:
            self._look_at(found)
        return found

    def _look_at(self, found: _Heard) -> None:
        """Once its time is over. Who has a turn before that is looked at then, and has another."""
        due = found.seen + found.timeout_s
        if not found.turn or due < found.due:
            found.due = due
            self._again(due - self._scheduler.monotonic(), found)
        found.waits = True

    def _again(self, delay_s: float, found: _Heard) -> None:
        self._turns += 1
        found.turn = self._turns
        self._agenda.add(delay_s, (found, found.turn))

    def _due(self, item: tuple[_Heard, int]) -> None:
        found, turn = item
        if self._heard.get(found.name) is not found or found.turn != turn:
            return
        found.turn = 0
        now = self._scheduler.monotonic()
        if now - found.due > LATE_S and found.seen + found.timeout_s <= now:
            found.seen = now
        if found.seen + found.timeout_s > now:
            self._look_at(found)
        else:
            self._fence(found)

    def _fence(self, found: _Heard) -> None:
        def decided(outcome: Outcome) -> None:
            if self._heard.get(found.name) is not found or found.turn:
                return  # It is gone or another one now, or has time anew, or another node leads.
            delay_s = RETRY_S
            if outcome.__class__ is Refused:  # Not of a member that is there: the rule itself has failed.
                delay_s, found.again_s = found.again_s, min(2 * found.again_s, RETRY_MAX_S)
            if outcome.__class__ is not Answered:
                found.due = self._scheduler.monotonic() + delay_s
                self._again(delay_s, found)

        heard_ms = self.last_heard_ms(found.name, found.epoch)
        command = FenceMember(
            name=found.name, epoch=found.epoch, evidence="heartbeat expired", last_heartbeat_ms=heard_ms
        )
        self._submit(command, decided)
