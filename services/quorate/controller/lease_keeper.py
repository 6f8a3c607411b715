"""Which leases live on: what the leader heard of their holders, and how long ago.

Rules: soft state. A lease that is heard lives its whole time from then. Of one that is not, what is left is written
down in the log (a *note*; etcd ``--experimental-enable-lease-checkpoint-persist``); the next word of its holder takes
the note back before it is answered. Whoever leads next gives the lease what the note left of it, less the time that he
saw the note stand himself, and ``lease_grace_s``. What is due is ended one by one, each in a turn of its own.

Theory: a lease must not live on from leader to leader while its holder is silent. Clocks of nodes may be apart, so no
node tells another *when*; each node measures by its own clock how long a note stands since it executed it, which is
never longer than it does. A note is written once a holder was silent for half of ``lease_checkpoint_s``. Where the
last leader had not led for a whole one, what may have been silent under both is written down at once: so a holder's
last word is at most ``lease_checkpoint_s`` and the change of leaders older than its note, however often they change.

A node that starts anew does not know how long a note stood before. So a leader renews one that it finds after a second,
then after two, four, and so on: where every leader is a node that has just started, a third or more of what it lives
counts. A life of less than a second leaves nothing: notes are in seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import ceil, inf
from typing import Final, NamedTuple

from quorate.clock import Scheduler
from quorate.consensus.ports import Index, LeaderCause, Term
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Answered, Outcome, Refused
from quorate.controller.paced import Agenda, SomeATurn
from quorate.controller.ports import Submit
from quorate.controller.settings import ControllerSettings
from quorate.events import Event, LeaseEnded, LeaseGranted
from quorate.metadata.commands import CheckpointLeases, ExpireLease
from quorate.model.state import Lease, State

RETRY_S: Final = 0.5
"""How soon the end of a lease is tried again that could not be decided; one that is refused, each time twice as late:
that costs much.
"""
RETRY_MAX_S: Final = 30.0
LATE_S: Final = 1.0
"""A look that comes so long after its time says that this node stood still: the grace is given once more."""
NOTES: Final = 100
"""Of one entry, where many are due …"""
GATHER_S: Final = 0.02
"""… within this time of the first."""
PER_TURN: Final = 500
"""Leases that are taken up in one turn: heartbeats are due when a leader begins."""


class _Opening(NamedTuple):
    """What a leader begins with."""

    now: float
    without_s: float
    """How long there was no leader."""
    notes: bool
    """Is what is left of all leases written down at once?"""


class _Watched:
    __slots__ = ("again_s", "due", "ends", "heard", "lease", "note_at", "spared", "within_s")

    def __init__(self, lease: int, now: float, left_s: float, grace_s: float, within_s: float) -> None:
        self.lease = lease
        self.heard = now
        """Monotonic, as the others: when its holder was last heard, or this node began to lead."""
        self.due = now + left_s
        self.ends = self.due + grace_s
        """So much later its holder may still find a new leader."""
        self.note_at = 0.0
        """When what is left of it is written down, unless it is heard."""
        self.within_s = 0.0
        """Within how many seconds of the last note, or word, that is."""
        self.again_s = RETRY_S
        """How soon its end is tried again."""
        self.spared = False
        """Was it looked at late before?"""
        self.note_within(within_s, now)

    def note_within(self, seconds: float, now: float) -> None:
        """At the last moment until then at which whole seconds are left: a note says neither more nor less."""
        self.within_s = seconds
        left_s = self.left_s(now + seconds)
        self.note_at = self.due - left_s if left_s > 0 else inf

    def left_s(self, at: float) -> int:
        """In whole seconds; a part of one counts, but for what is lost in sums of floats."""
        return ceil(self.due - at - 1e-3)

    def next(self) -> float:
        """When it is looked at again; a lease that ends before needs no word in the log."""
        return min(self.ends, self.note_at)


class LeaseKeeper(Listener):
    """Implements ``model.live.LeaseTimes``; ``submit`` has this node, if it leads, decide a command."""

    concerns = frozenset((LeaseGranted, LeaseEnded))

    def __init__(
        self, state: Callable[[], State], scheduler: Scheduler, settings: ControllerSettings, submit: Submit
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._settings = settings
        self._submit = submit
        self._leads = False
        self._watched: dict[int, _Watched] = {}
        self._opening: _Opening | None = None
        self._taking_up = SomeATurn[int](scheduler, self._take_up)
        self._agenda = Agenda[_Watched](scheduler, settings.lease_sweep_s, self._due)
        self._to_note: dict[int, float] = {}
        """Of which what is left is written down next, unless they are heard: when they were last."""
        self._writes = False
        """Is a turn for that asked for?"""
        self._began = scheduler.monotonic()
        """When this node began to see what is executed."""
        self._noted: dict[int, float] = {}
        """When it executed the note that stands. What is not here stands for longer than it sees."""
        self._leader_since = self._began
        self._last_led_s = 0.0
        """How long it saw the leader before this one."""
        self._without_s = 0.0
        """How long there was none, when this node was elected."""

    def left_ms(self, lease: int) -> int | None:
        """Milliseconds until it expires; 0 when that is due, None when nobody knows."""
        watched = self._found(lease)
        return None if watched is None else max(0, int((watched.ends - self._scheduler.monotonic()) * 1000))

    def heard(self, lease: int) -> None:
        """Its holder is there."""
        watched, found, now = self._found(lease), self._state().leases.get(lease), self._scheduler.monotonic()
        if watched is not None and found is not None:
            if lease not in self._watched:
                self._watch(watched)
            watched.heard, watched.spared = now, False
            watched.due = watched.ends = now + found.ttl_s
            watched.note_within(self._settings.lease_checkpoint_s / 2, now)

    # -- as it hears of the machine, on every node

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        """Nobody could be heard while there was no leader."""
        self._without_s = cause.silent_for_ms / 1000 if cause is not None else 0.0

    def leader_recorded(self) -> None:
        """The time of the last one is over."""
        now = self._scheduler.monotonic()
        self._leader_since, self._last_led_s = now, now - self._leader_since

    def leases_touched(self, rows: Iterable[bytes]) -> None:
        """Notes that were written, or taken back."""
        leases, now = self._state().leases, self._scheduler.monotonic()
        for number in (int(row.rpartition(b"/")[2]) for row in rows if row.startswith(b"lease/")):
            lease = leases.get(number)
            if lease is not None and lease.remaining_s:
                self._noted[number] = now
            else:
                self._noted.pop(number, None)

    def installed(self, index: Index) -> None:
        """Nothing was seen of how long the notes in it stand."""
        self._noted.clear()
        self._began = self._leader_since = self._scheduler.monotonic()

    # -- as it hears of the controller

    def opened(self, term: int) -> None:
        """This node leads: of every lease there is left what was, and its grace."""
        self._forget()
        self._leads = True
        short = self._last_led_s < self._settings.lease_checkpoint_s
        self._opening = _Opening(self._scheduler.monotonic(), self._without_s, short)
        self._taking_up.begin(self._state().leases, PER_TURN)

    def _take_up(self, number: int) -> None:
        """One of them, unless it ended or was heard meanwhile."""
        lease, opening = self._state().leases.get(number), self._opening
        if lease is None or opening is None or number in self._watched:
            return
        watched = self._begun(lease, opening)
        self._watch(watched)
        if opening.notes and not lease.remaining_s:
            self._note(watched)

    def _begun(self, lease: Lease, opening: _Opening) -> _Watched:
        settings = self._settings
        within_s = 1.0 if lease.remaining_s else settings.lease_checkpoint_s / 2
        left_s = self._left_s(lease, opening)
        return _Watched(lease.lease_id, opening.now, left_s, settings.lease_grace_s, within_s)

    def _found(self, number: int) -> _Watched | None:
        """Also one that is not taken up yet, as it would be."""
        watched, lease = self._watched.get(number), self._state().leases.get(number)
        if watched is None and lease is not None and self._opening is not None and self._taking_up.under_way:
            return self._begun(lease, self._opening)
        return watched

    def lost(self) -> None:
        """Another one keeps them."""
        self._leads = False
        self._forget()

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Leases that began, and ended; also after ``lost``, when that is another one's business."""
        now, within_s = self._scheduler.monotonic(), self._settings.lease_checkpoint_s / 2
        for _, event in events:
            if isinstance(event, LeaseGranted) and self._leads:
                self._watch(_Watched(event.lease, now, event.ttl_s, 0.0, within_s))
            elif isinstance(event, LeaseEnded):
                self._watched.pop(event.lease, None)

    def _left_s(self, lease: Lease, opening: _Opening) -> float:
        """Below 0: it should have ended."""
        if not lease.remaining_s:
            return lease.ttl_s
        stood_s = opening.now - self._noted.get(lease.lease_id, self._began)
        return lease.remaining_s - max(0.0, stood_s - opening.without_s)

    def _forget(self) -> None:
        self._taking_up.stop()
        self._watched.clear()
        self._agenda.clear()
        self._to_note.clear()

    def _watch(self, watched: _Watched) -> None:
        self._watched[watched.lease] = watched
        self._again(watched)

    def _again(self, watched: _Watched) -> None:
        self._agenda.add(watched.next() - self._scheduler.monotonic(), watched)

    def _due(self, watched: _Watched) -> None:
        if self._watched.get(watched.lease) is not watched:
            return
        now = self._scheduler.monotonic()
        if now - watched.ends > LATE_S and not watched.spared:
            watched.ends, watched.spared = now + self._settings.lease_grace_s, True
        if watched.ends <= now:
            self._end(watched, now)
            return
        if watched.note_at <= now:
            self._note(watched)
            watched.note_within(min(2 * watched.within_s, self._settings.lease_checkpoint_s), now)
        self._again(watched)

    def _note(self, watched: _Watched) -> None:
        self._to_note[watched.lease] = watched.heard
        self._write_within(GATHER_S)

    def _write_within(self, seconds: float) -> None:
        if not self._writes:
            self._writes = True
            self._scheduler.call_later(seconds, self._write_notes)

    def _write_notes(self) -> None:
        """Of the next, but for those that were heard meanwhile."""
        self._writes = False
        now, numbers = self._scheduler.monotonic(), tuple(islice(self._to_note, NOTES))
        found = [(self._watched.get(number), self._to_note.pop(number)) for number in numbers]
        silent = [(watched, heard) for watched, heard in found if watched is not None and watched.heard == heard]

        def noted(outcome: Outcome) -> None:
            if outcome.__class__ is not Answered and outcome.__class__ is not Refused:
                self._scheduler.call_later(RETRY_S, again)

        def again() -> None:
            for watched, heard in silent:
                if self._watched.get(watched.lease) is watched and watched.heard == heard:
                    self._note(watched)

        if silent:
            notes = tuple((watched.lease, max(1, watched.left_s(now))) for watched, _ in silent)
            self._submit(CheckpointLeases(leases=notes), noted)
        if self._to_note:
            self._write_within(self._settings.segment_pause_s)

    def _end(self, watched: _Watched, now: float) -> None:
        lease, watched.spared = watched.lease, True

        def ended(outcome: Outcome) -> None:
            if self._watched.get(lease) is not watched:
                return  # It ended, or another one leads.
            if outcome.__class__ is Refused and lease not in self._state().leases:
                del self._watched[lease]
            elif outcome.__class__ is Refused:
                watched.again_s = min(2 * watched.again_s, RETRY_MAX_S)
                self._agenda.add(watched.again_s, watched)
            elif outcome.__class__ is not Answered:
                self._agenda.add(RETRY_S, watched)

        self._submit(ExpireLease(lease=lease, silent_ms=int((now - watched.heard) * 1000)), ended)
