"""The term in which this node may decide: when it begins, when it ends, and to whom it hands over.

Rules: a leader knows that it has every committed entry, but not which ones are (Raft §8, dissertation §6.4): nothing is
decided or read before the first entry of its own term is applied. Nothing is decided any more once it has begun to hand
over (§3.10), or does not lead; the machine is told before anything else can happen.
"""

import msgspec

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.common import Common
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.elections import Elections
from quorate.consensus.transport.codec import TimeoutNow


class Transfer(msgspec.Struct, frozen=True):
    """A leadership on its way to another."""

    to: NodeId
    deadline: float


class Leadership:
    """Owns the announced term and the transfer under way."""

    def __init__(self, common: Common, applying: Applying, elections: Elections) -> None:
        self._core, self._journal, self._machine = common.core, common.ports.journal, common.ports.machine
        self._outbox, self._clock = common.outbox, common.ports.scheduler
        self._patience_s = common.settings.election_timeout_max_s
        self._applying = applying
        self._elections = elections
        self.term = Term(0)
        """Decisions and reads of this term are welcome; 0: of none."""
        self.transfer: Transfer | None = None

    def reset(self) -> None:
        """A leadership begins, or is over."""
        self.term = Term(0)
        self.transfer = None

    def open(self) -> None:
        """Once this leader's first entry is applied it may decide."""
        core, barrier = self._core, self._core.barrier_index
        if (
            self.term
            or self.transfer is not None
            or barrier is None
            or core.role is not Role.LEADER
            or self._applying.applied < barrier
        ):
            return
        if self._journal.term_at(barrier) == core.term:
            self.term = core.term
            self._machine.leadership(core.term, self._elections.cause)

    def close(self) -> Term:
        """It may no longer. The term that it had announced; 0 for none."""
        term, self.term = self.term, Term(0)
        return term

    def hand_over(self, to: NodeId) -> None:
        """Begin to. Nothing is decided in this term from here on, whether somebody takes over or not."""
        self.transfer = Transfer(to, self._clock.monotonic() + self._patience_s)

    def go_on(self, transfer: Transfer, now: float) -> None:
        """Tell the successor to stand as soon as it has all of the log; step down when that takes too long."""
        if now > transfer.deadline:
            self._core.resign()
        elif self._core.match(transfer.to) == Index(self._journal.last_index):
            self._outbox.send(transfer.to, TimeoutNow(self._core.term))
