"""When sessions of MQTT end, when their wills are due, and which wills need another member: what a leader does itself.

Rules: everything is made of the state, so a new leader begins where the last one ended: it walks through all sessions,
some a turn, and knows when each is due: by the log's time, or when this leader has itself counted the whole time since
it saw that the client was gone. The log's time stands still while clocks that jumped ahead and were set back catch up;
what a leader counts does not, and begins later, so nothing is decided too early. What is due is decided by the hundred,
one decision at a time; ``decide`` looks again, and what no longer is so is passed over. A member that is lost with ten
thousand clients is one event, one walk here, and later some hundred decisions. Of a client that comes back what was to
be due stays until its time, or until most of what is kept is such: then all is made anew of the state, by another walk.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from typing import Final

from quorate.clock import Scheduler
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Answered, Outcome
from quorate.controller.ports import Submit
from quorate.controller.settings import ControllerSettings
from quorate.events import (
    Event,
    MemberAmended,
    MemberFenced,
    MemberGone,
    MemberUnfenced,
    SessionDisconnected,
    SessionOwnerLost,
    SessionOwnerSettled,
    WillHandedOver,
)
from quorate.metadata.commands import HandOverWills, SettleSessions
from quorate.model.sessions import due_ms, living, since_ms
from quorate.model.state import HandedWill, Session, State

BATCH_MAX: Final = 128
"""Sessions, or wills, of one decision."""
PER_TURN: Final = 512
"""Sessions that a walk looks at in one turn; and of what is due."""
SPARE: Final = 1024
"""So many more are kept than twice those that were due at the last walk, or a quarter of all sessions."""
RETRY_S: Final = 0.5
"""How soon what could not be decided is tried again."""


class SessionKeeper(Listener):
    """Implements ``model.live.SessionTimes``. ``now_ms``: the log's time, at least; ``submit`` has this node, if it
    leads, decide a command.
    """

    concerns = frozenset(
        (
            *(SessionDisconnected, SessionOwnerLost, SessionOwnerSettled),
            *(WillHandedOver, MemberAmended, MemberFenced, MemberGone, MemberUnfenced),
        )
    )

    def __init__(
        self,
        state: Callable[[], State],
        now_ms: Callable[[], int],
        scheduler: Scheduler,
        settings: ControllerSettings,
        submit: Submit,
    ) -> None:
        self._state, self._now_ms = state, now_ms
        self._scheduler, self._period_s, self._submit = scheduler, settings.session_sweep_s, submit
        self._leads = self._rings = self._settling = self._handing = self._hands_again = False
        self._life = 0
        """Changes with leadership: what was begun before ends by itself."""
        self._due: list[tuple[int, str, int]] = []
        """When in the log's time, which client, which session epoch; what became otherwise meanwhile is found out when
        it is due.
        """
        self._counted: list[tuple[float, str, int]] = []
        """The same, by this node's monotonic clock."""
        self._seen: dict[tuple[str, int], tuple[int, float]] = {}
        """Of each of these that is disconnected: since when, and when this leader saw it; as long as it is counted."""
        self._losses: dict[int, tuple[int, float]] = {}
        """The same of lost members, by their epoch."""
        self._walks: list[Iterator[Session]] = []
        self._anew: Iterator[Session] | None = None
        """The walk by which all is made anew, and what was seen before of those that it has not come to."""
        self._before: dict[tuple[str, int], tuple[int, float]] = {}
        self._kept = 0
        """How many were due at the end of the last."""

    def gone_ms(self, client: str, session_epoch: int, member_epoch: int, since_ms: int) -> int:
        """How long this leader has counted since it saw that the client is gone since then; 0: it did not see it."""
        key = (client, session_epoch)
        seen = (self._seen.get(key), self._before.get(key), self._losses.get(member_epoch))
        counted = [self._scheduler.monotonic() - at for since, at in filter(None, seen) if since == since_ms]
        return int(max(counted, default=0.0) * 1000)

    # -- as it hears of the controller

    def opened(self, term: int) -> None:
        """This node leads: it knows of nothing but what is in the state."""
        self._forget()
        self._leads = True
        now = self._scheduler.monotonic()
        self._losses.update((epoch, (lost.lost_ms, now)) for epoch, lost in self._state().session_owners.items())
        self._anew = iter(self._state().sessions.values())
        self._walk(self._anew)
        self._hand_over()

    def lost(self) -> None:
        """Another one keeps them."""
        self._forget()
        self._leads = False

    def _forget(self) -> None:
        self._life += 1
        self._due.clear()
        self._counted.clear()
        self._seen.clear()
        self._losses.clear()
        self._walks.clear()
        self._before.clear()
        self._anew, self._kept = None, 0
        self._settling = self._handing = self._hands_again = False

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Whose client is gone, and who can publish no more, or again."""
        if not self._leads:
            return
        state = self._state()
        for _, event in events:
            match event:
                case SessionDisconnected(client=client):
                    session = state.sessions.get(client)
                    if session is not None:
                        self._watch(state, session)
                case SessionOwnerSettled(member_epoch=epoch):
                    self._losses.pop(epoch, None)
                case SessionOwnerLost(member_epoch=epoch):
                    lost = state.session_owners.get(epoch)
                    if lost is not None:
                        self._losses[epoch] = (lost.lost_ms, self._scheduler.monotonic())
                    held = state.held.get(epoch)
                    if held is not None:
                        self._walk(session for session in map(state.sessions.get, held) if session is not None)
                case MemberAmended() | MemberFenced() | MemberGone() | MemberUnfenced():
                    self._hand_over()
                case WillHandedOver(member=""):
                    self._hand_over()
                case _:
                    pass

    # -- sessions

    def _walk(self, sessions: Iterable[Session]) -> None:
        """See when each of these is due, a few a turn."""
        self._walks.append(iter(sessions))
        if len(self._walks) == 1:
            self._scheduler.call_soon(self._step)

    def _step(self) -> None:
        if not self._walks:
            return
        state, found = self._state(), list(islice(self._walks[0], PER_TURN))
        for session in found:
            self._watch(state, session)
        if len(found) < PER_TURN and self._walks.pop(0) is self._anew:
            self._anew, self._kept = None, len(self._due)
            self._before.clear()
        if self._walks:
            self._scheduler.call_soon(self._step)

    def _watch(self, state: State, session: Session) -> None:
        """See when it is due, by either time."""
        due = due_ms(state, session)
        if due is not None:
            heappush(self._due, (due, session.client, session.session_epoch))
            self._count(state, session, due)
            spare = max(SPARE, len(state.sessions) // 4)
            if self._anew is None and max(len(self._due), len(self._counted)) > 2 * self._kept + spare:
                self._make_anew(state)

    def _make_anew(self, state: State) -> None:
        self._due.clear()
        self._counted.clear()
        self._before, self._seen = self._seen, {}
        self._anew = iter(state.sessions.values())
        self._walk(self._anew)

    def _count(self, state: State, session: Session, due: int) -> None:
        key, now = (session.client, session.session_epoch), self._scheduler.monotonic()
        if session.disconnected_ms:
            self._seen.setdefault(key, self._before.pop(key, (session.disconnected_ms, now)))
        left_s = (due - since_ms(state, session) - self._gone_ms(state, session)) / 1000
        heappush(self._counted, (now + left_s, *key))
        self._arm()

    def _gone_ms(self, state: State, session: Session) -> int:
        since = since_ms(state, session)
        return self.gone_ms(session.client, session.session_epoch, session.member_epoch, since)

    def _arm(self) -> None:
        if not self._rings:
            self._rings = True
            self._scheduler.call_later(self._period_s, self._ring)

    def _ring(self) -> None:
        self._rings = False
        self._decide(self._life)
        if self._due or self._counted:
            self._arm()

    def _decide(self, life: int) -> None:
        """Have decided what is due, unless something is being decided."""
        if life != self._life or self._settling:
            return
        batch, more = self._next_batch()
        if batch:
            self._settling = True
            command = SettleSessions(sessions=tuple(batch))
            self._submit(command, lambda outcome: self._settled(life, batch, outcome))
        elif more:
            self._scheduler.call_soon(lambda: self._decide(life))

    def _next_batch(self) -> tuple[list[tuple[str, int]], bool]:
        """The next to be settled; and are there more to be looked at, in another turn?"""
        state, batch, looks = self._state(), dict[tuple[str, int], None](), count(1)
        while self._due and self._due[0][0] <= self._now_ms() and len(batch) < BATCH_MAX:
            if next(looks) > PER_TURN:
                return list(batch), True
            _, client, session_epoch = heappop(self._due)
            session, due = self._found(state, client, session_epoch)
            if session is not None and not self._is_due(state, session, due):
                heappush(self._due, (due, client, session_epoch))
            elif session is not None:
                batch[client, session_epoch] = None
        while self._counted and self._counted[0][0] <= self._scheduler.monotonic() and len(batch) < BATCH_MAX:
            if next(looks) > PER_TURN:
                return list(batch), True
            _, client, session_epoch = heappop(self._counted)
            session, due = self._found(state, client, session_epoch)
            if session is None:
                self._seen.pop((client, session_epoch), None)
            elif self._is_due(state, session, due):
                batch[client, session_epoch] = None
            else:
                self._count(state, session, due)
        return list(batch), False

    @staticmethod
    def _found(state: State, client: str, session_epoch: int) -> tuple[Session | None, int]:
        """The session, if it has this epoch still and is ever due, and when."""
        session = state.sessions.get(client)
        due = None if session is None or session.session_epoch != session_epoch else due_ms(state, session)
        return (None, 0) if due is None else (session, due)

    def _is_due(self, state: State, session: Session, due: int) -> bool:
        return due <= max(self._now_ms(), since_ms(state, session) + self._gone_ms(state, session))

    def _settled(self, life: int, batch: list[tuple[str, int]], outcome: Outcome) -> None:
        """What is left of it is due again; where no decision came about, a little later."""
        if life != self._life:
            return
        self._settling = False
        state, again = self._state(), self._scheduler.monotonic() + RETRY_S
        for client, session_epoch in batch:
            session, _ = self._found(state, client, session_epoch)
            if session is None:
                self._seen.pop((client, session_epoch), None)
            elif outcome.__class__ is Answered:
                self._watch(state, session)
            else:
                heappush(self._counted, (again, client, session_epoch))
                self._arm()
        if outcome.__class__ is Answered:
            self._scheduler.call_soon(lambda: self._decide(life))

    # -- wills

    def _hand_over(self) -> None:
        """Look through all wills for those whose members are lost."""
        if self._handing:
            self._hands_again = True
        elif self._leads and self._state().wills:
            self._handing, self._hands_again = True, False
            life, wills = self._life, iter(self._state().wills.values())
            self._scheduler.call_soon(lambda: self._hand_on(life, wills))

    def _hand_on(self, life: int, wills: Iterator[HandedWill]) -> None:
        """The next of them; one decision after the other."""
        if life != self._life:
            return
        state, found = self._state(), list(islice(wills, BATCH_MAX))
        lost = [handed.session_epoch for handed in found if living(state, handed.member, handed.member_epoch) is None]
        if not found:
            self._handing = False
            if self._hands_again:
                self._hand_over()
        elif lost:
            command = HandOverWills(wills=tuple(lost))
            self._submit(command, lambda outcome: self._handed(life, wills, lost, outcome))
        else:
            self._scheduler.call_soon(lambda: self._hand_on(life, wills))

    def _handed(self, life: int, wills: Iterator[HandedWill], lost: list[int], outcome: Outcome) -> None:
        """Go on; where a decision did not come about, or took the first of many, the whole walk is made again later."""
        if life != self._life:
            return
        if outcome.__class__ is not Answered:
            self._hands_again = True
            self._scheduler.call_later(RETRY_S, lambda: self._hand_on(life, wills))
            return
        state = self._state()
        moved = [number for number in lost if self._moved(state, number)]
        self._hands_again = self._hands_again or 0 < len(moved) < len(lost)
        self._hand_on(life, wills)

    @staticmethod
    def _moved(state: State, number: int) -> bool:
        handed = state.wills.get(number)
        return handed is None or living(state, handed.member, handed.member_epoch) is not None
