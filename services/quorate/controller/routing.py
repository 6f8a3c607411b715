"""Routing: a request is decided here, sent to the leader, or waits for one.

Rules: a command is decided at once where this node leads and its term is open; else it goes to the leader (one hop), or
is parked until one is known, and tried again in order, in bounded slices. A read is answered by the node that was
asked, whoever leads. Every queue is bounded.
"""

from collections import deque
from collections.abc import Callable

from quorate.consensus.ports import Index
from quorate.controller.deciding import Decider
from quorate.controller.endings import Endings
from quorate.controller.forwarding import Forwarder
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Busy, NotLeader, Refused, Unavailable
from quorate.controller.pending import AnyPending, Stage
from quorate.controller.ports import ControllerPorts
from quorate.controller.settings import ControllerSettings
from quorate.controller.terms import Terms
from quorate.errors import UsageError
from quorate.metadata.refusals import refuse

RETRY_MIN_S = 0.005
RETRY_MAX_S = 0.04
"""When parked requests are looked at again: ever later while nobody leads, for each is looked at. They are tried at
once when this node may decide, or learns from the log who leads."""
UNPARKED_PER_TURN = 64
"""How many of them one turn of the loop routes."""
FORWARDED_PER_COMMAND = 2
"""A command on its way to the leader may be this many times ``command_bytes_max``: JSON of the same facts is longer."""
OUTCOME_PER_COMMAND = 7
"""And how it ended: by default a frame of the link has room for eight."""


class Router(Listener):
    """Sends each request to the node that decides it. ``view``: the answer of a read."""

    def __init__(
        self,
        node_id: int,
        ports: ControllerPorts,
        settings: ControllerSettings,
        decider: Decider,
        terms: Terms,
        endings: Endings,
        view: Callable[[], object],
    ) -> None:
        self._node_id, self._settings = node_id, settings
        self._engine, self._machine, self._scheduler = ports.engine, ports.machine, ports.scheduler
        self._metrics = ports.metrics
        self._decider, self._terms, self._endings = decider, terms, endings
        self._settle, self._view = endings.settle, view
        self.forwarder = Forwarder(
            ports.peers,
            origin=f"node/{node_id}",
            forwarded_max=settings.forwarded_max,
            bytes_max=FORWARDED_PER_COMMAND * settings.command_bytes_max,
            settle=endings.settle,
            park=self._park,
            first_id=ports.scheduler.time_ms() << 20,
        )
        self._parked: deque[AnyPending] = deque()
        self._retry_armed = False
        self._retry_s = RETRY_MIN_S
        self._stopped = False

    def stop(self) -> None:
        """No request is taken any more."""
        self._stopped = True

    @property
    def parked(self) -> int:
        """Requests waiting for a leader."""
        return len(self._parked)

    def route(self, pending: AnyPending) -> None:
        """Bring it on its way."""
        engine = self._engine
        if self._stopped:
            self._settle(pending, Unavailable("this node is stopping"))
        elif not pending.forward and not engine.is_leader:
            self._settle(pending, NotLeader(engine.leader_id))
        elif pending.is_read and engine.leader_id is not None:
            self._confirm(pending)
        elif term := self._terms.decidable():
            if not self._decider.decide(pending, term):
                self._park(pending)
        elif pending.is_read:
            self._park(pending)
        elif self.forwarder.full:
            self._settle(pending, Busy("too many requests are under way to the leader"))
        elif not self._forward(pending):
            self._park(pending)

    def _confirm(self, pending: AnyPending) -> None:
        """A read: wait until what was committed before it is applied here; what cannot be known is asked again."""
        pending.stage = Stage.CONFIRMING

        def confirmed(index: Index | None) -> None:
            if pending.stage is Stage.ENDED:
                return
            if index is not None:
                self._settle(pending, self._view())
            elif self._stopped:
                self._settle(pending, Unavailable("this node is stopping"))
            else:
                self._park(pending)

        self._engine.read_barrier(confirmed)

    def _forward(self, pending: AnyPending) -> bool:
        leader = self._engine.leader_id
        if leader is None or leader == self._node_id or not pending.forward:
            return False
        try:
            sent = self.forwarder.send(leader, pending, self._scheduler.monotonic())
        except UsageError as error:
            self._settle(pending, Refused(refuse("CommandTooLarge", str(error)), self._machine.offset))
            return True
        self._metrics.forwarded += sent
        return sent

    # -- waiting for a leader

    def _park(self, pending: AnyPending) -> None:
        if len(self._parked) >= self._settings.parked_max:
            self._settle(pending, Busy("too many requests wait for a leader"))
            return
        pending.stage = Stage.PARKED
        self._parked.append(pending)
        self._arm_retry()

    def _arm_retry(self) -> None:
        if self._parked and not self._retry_armed:
            self._retry_armed = True
            self._scheduler.call_later(self._retry_s, self._retry)

    def _retry(self) -> None:
        """Try the parked again; soon, for a leader is usually found within a few round trips."""
        self._retry_armed = False
        if self._leaderless():
            self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
            self._parked = deque(pending for pending in self._parked if pending.stage is Stage.PARKED)
            self._arm_retry()
        else:
            self.unpark()

    def _leaderless(self) -> bool:
        """Nobody decides, as far as this node knows, so that trying is in vain."""
        engine = self._engine
        if self._stopped or self._terms.decidable():
            return False
        return engine.is_leader or (engine.leader_id is None and all(pending.forward for pending in self._parked))

    def leader_recorded(self) -> None:
        """Whoever leads now takes what waits."""
        if self._parked:
            self._scheduler.call_soon(self.unpark)

    def unpark(self) -> None:
        """A bounded number now, in order; the others in later turns."""
        before, self._retry_s = len(self._parked), RETRY_MIN_S
        try:
            for _ in range(min(before, UNPARKED_PER_TURN)):
                pending = self._parked.popleft()
                if pending.stage is Stage.PARKED:
                    self.route(pending)
        finally:  # Whatever is the matter with one of them, the others are tried.
            if 0 < len(self._parked) < before and self._terms.decidable():
                self._scheduler.call_soon(self.unpark)
            else:
                self._arm_retry()
