"""Terms: when this node may decide, and what opens a term.

Theory: a term opens when its first decision, ``ControllerLeaderElected`` (before it, in the first term ever,
``ClusterCreated``), is applied: by then every earlier entry is applied too, so the tip starts from all that was ever
committed.
"""

from collections.abc import Callable

import msgspec

from quorate.consensus.ports import LeaderCause, NodeId, Term
from quorate.controller.deciding import Decider
from quorate.controller.endings import Endings
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Answered, Caller, Outcome, Unavailable
from quorate.controller.pending import AnyPending, Pending
from quorate.controller.ports import ControllerPorts
from quorate.controller.settings import ControllerSettings
from quorate.metadata.commands import Command, CreateCluster, RecordLeader


class Terms(Listener):
    """Opens and ends terms. ``opened`` and ``lost`` are called when this node begins to decide, and when it ends."""

    def __init__(
        self,
        node_id: int,
        ports: ControllerPorts,
        settings: ControllerSettings,
        founding: CreateCluster,
        decider: Decider,
        endings: Endings,
        *,
        opened: Callable[[Term], None],
        lost: Callable[[], None],
    ) -> None:
        self._node_id, self._settings, self._founding = node_id, settings, founding
        self._engine, self._machine, self._scheduler = ports.engine, ports.machine, ports.scheduler
        self._decider, self._endings = decider, endings
        self._told_opened, self._told_lost = opened, lost
        self._me = Caller(f"node/{node_id}", "")
        self._open = Term(0)

    def decidable(self) -> Term:
        """The term in which this node may decide now; 0: it may not."""
        term = self._open
        return term if term and self._engine.decidable_term() == term else Term(0)

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        """This node leads: open the term with its first decision. Without a cause it leads no more: forget the tip."""
        if cause is None:
            self._lose()
            return
        self._decider.begin_term()
        if self._machine.offset == 0:
            self._decide_first(self._founded_by_all(), term, lambda: self._record_leader(term, cause))
        else:
            self._record_leader(term, cause)

    def _founded_by_all(self) -> CreateCluster:
        """The first command, with the directories whose votes elected this leader."""
        directories = self._engine.founders
        voters = tuple(
            msgspec.structs.replace(voter, dir_uuid=directories.get(NodeId(voter.id), voter.dir_uuid))
            for voter in self._founding.voters
        )
        return msgspec.structs.replace(self._founding, voters=voters)

    def _record_leader(self, term: Term, cause: LeaderCause) -> None:
        """Who leads and why; then the term is open."""
        command = RecordLeader(
            node_id=self._node_id,
            cause=cause.kind,
            previous_leader=cause.previous_leader,
            silent_for_ms=cause.silent_for_ms,
        )
        self._decide_first(command, term, lambda: self._opened(term))

    def _decide_first(self, command: Command, term: Term, then: Callable[[], None]) -> None:
        """One of the decisions that open a term; if it is not executed the engine has moved on, or will retry."""

        def done(outcome: Outcome) -> None:
            if outcome.__class__ is Answered:
                then()
            elif self._engine.decidable_term() == term:
                self._engine.step_down(f"the term could not be opened: {outcome}")

        pending: AnyPending = Pending(
            command,
            done,
            caller=self._me,
            started=self._scheduler.monotonic(),
            patience_s=self._settings.answer_timeout_s,
        )
        self._endings.watch(pending)
        if not self._decider.decide(pending, term):
            self._endings.settle(pending, Unavailable("the leadership ended"))

    def _opened(self, term: Term) -> None:
        if self._engine.decidable_term() == term:
            self._open = term
            self._told_opened(term)

    def _lose(self) -> None:
        was_open, self._open = self._open, Term(0)
        self._decider.end_term()
        if was_open:
            self._told_lost()
