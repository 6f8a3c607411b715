"""Which leases live on: what the leader heard of their holders, and how long ago.

Rules: soft state of the leader. A lease that is heard lives its whole time from then; under a new leader it lives what
was left when that was last written down, and ``lease_grace_s`` for its holder to find it. What was not heard for
``lease_checkpoint_s`` is written down (etcd ``--experimental-enable-lease-checkpoint-persist``), so that leaders that
follow each other fast do not keep a lease alive whose holder is gone. What is due is ended one by one, each in a turn
of its own.
"""

from collections.abc import Callable, Sequence
from typing import Final

from quorate.clock import Scheduler
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Answered, Outcome, Refused
from quorate.controller.paced import Agenda
from quorate.controller.ports import Submit
from quorate.controller.settings import ControllerSettings
from quorate.events import Event, LeaseEnded, LeaseGranted
from quorate.metadata.commands import CheckpointLeases, ExpireLease
from quorate.model.state import State

RETRY_S: Final = 0.5
"""How soon the end of a lease is tried again that could not be decided."""


class _Watched:
    __slots__ = ("ends", "heard", "lease", "noted")

    def __init__(self, lease: int, heard: float, ends: float) -> None:
        self.lease = lease
        self.heard = heard
        """Monotonic, as the others: when its holder was last heard, or this node began to lead."""
        self.ends = ends
        self.noted = heard
        """When what is left of it was last written down, or it was heard."""


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
        self._agenda = Agenda[_Watched](scheduler, settings.lease_sweep_s, self._due)

    def left_ms(self, lease: int) -> int:
        """Milliseconds until it expires; 0 when that is due, or nobody knows."""
        watched = self._watched.get(lease)
        return 0 if watched is None else max(0, int((watched.ends - self._scheduler.monotonic()) * 1000))

    def heard(self, lease: int) -> None:
        """Its holder is there."""
        watched, found = self._watched.get(lease), self._state().leases.get(lease)
        if watched is not None and found is not None:
            watched.heard = watched.noted = now = self._scheduler.monotonic()
            watched.ends = now + found.ttl_s

    # -- as it hears of the controller

    def opened(self, term: int) -> None:
        """This node leads: every lease begins anew, with what was left of it."""
        self._forget()
        self._leads = True
        for lease in self._state().leases.values():
            self._watch(lease.lease_id, (lease.remaining_s or lease.ttl_s) + self._settings.lease_grace_s)

    def lost(self) -> None:
        """Another one keeps them."""
        self._leads = False
        self._forget()

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Leases that began, and ended; also after ``lost``, when that is another one's business."""
        for _, event in events:
            if isinstance(event, LeaseGranted) and self._leads:
                self._watch(event.lease, event.ttl_s)
            elif isinstance(event, LeaseEnded):
                self._watched.pop(event.lease, None)

    def _forget(self) -> None:
        self._watched.clear()
        self._agenda.clear()

    def _watch(self, lease: int, left_s: float) -> None:
        now = self._scheduler.monotonic()
        self._watched[lease] = watched = _Watched(lease, now, now + left_s)
        self._agenda.add(self._next(watched) - now, watched)

    def _next(self, watched: _Watched) -> float:
        """When it is looked at again; a lease that ends before needs no word in the log."""
        return min(watched.ends, watched.noted + self._settings.lease_checkpoint_s)

    def _due(self, watched: _Watched) -> None:
        if self._watched.get(watched.lease) is not watched:
            return
        now = self._scheduler.monotonic()
        if self._next(watched) > now:  # It was heard since.
            self._agenda.add(self._next(watched) - now, watched)
        elif watched.ends <= now:
            self._end(watched, now)
        else:
            watched.noted = now
            self._agenda.add(self._next(watched) - now, watched)
            left_s = max(1, round(watched.ends - now))
            self._submit(CheckpointLeases(leases=((watched.lease, left_s),)), _nothing)

    def _end(self, watched: _Watched, now: float) -> None:
        lease = watched.lease

        def ended(outcome: Outcome) -> None:
            if self._watched.get(lease) is not watched:
                return  # It ended, or another one leads.
            if outcome.__class__ is Refused and lease not in self._state().leases:
                del self._watched[lease]
            elif outcome.__class__ is not Answered:
                self._agenda.add(RETRY_S, watched)

        self._submit(ExpireLease(lease=lease, silent_ms=int((now - watched.heard) * 1000)), ended)


def _nothing(_: Outcome) -> None:
    """It is written down again when it is due again."""
