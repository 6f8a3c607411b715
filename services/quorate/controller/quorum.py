"""How far every voter is: the leader knows, anybody may ask.

Rules: a question is answered here if this node leads, else by the node it takes for the leader, once, within
``answer_timeout_s``; else the answer is None. Questions under way are bounded. Nothing is promised about what the
answer says a moment later: it is for looking at, not for deciding.
"""

from collections.abc import Callable

from quorate.clock import Scheduler
from quorate.consensus.ports import RaftEngine
from quorate.controller import messages
from quorate.controller.messages import KIND, QuorumAnswer, QuorumIs, QuorumQuestion, VoterIs
from quorate.controller.ports import PeerLink
from quorate.controller.settings import ControllerSettings

QuorumCallback = Callable[[QuorumIs | None], None]


class QuorumQuestions:
    """Asks the leader how far every voter is, and answers a peer that asks this node. One per node."""

    def __init__(self, engine: RaftEngine, peers: PeerLink, scheduler: Scheduler, settings: ControllerSettings) -> None:
        self._engine = engine
        self._peers = peers
        self._scheduler = scheduler
        self._settings = settings
        self._next_id = scheduler.time_ms() << 20
        """Never used by an earlier life of this node."""
        self._waiting: dict[int, QuorumCallback] = {}

    def ask(self, done: QuorumCallback) -> None:
        """``done`` is called once; with None when no leader answers in time."""
        leader = self._engine.leader_id
        if self._engine.is_leader:
            done(self._known())
        elif leader is None or len(self._waiting) >= self._settings.forwarded_max:
            done(None)
        else:
            number = self._next_id
            self._next_id += 1
            if self._peers.send(leader, KIND, messages.encode(QuorumQuestion(number))):
                self._waiting[number] = done
                self._scheduler.call_later(self._settings.answer_timeout_s, lambda: self._settle(number, None))
            else:
                done(None)

    def asked(self, peer: int, question: QuorumQuestion) -> None:
        """A peer takes this node for the leader."""
        quorum = self._known() if self._engine.is_leader else None
        self._peers.send(peer, KIND, messages.encode(QuorumAnswer(question.id, quorum)))

    def answered(self, answer: QuorumAnswer) -> None:
        """A peer's word; late ones are dropped."""
        self._settle(answer.id, answer.quorum)

    def _settle(self, number: int, quorum: QuorumIs | None) -> None:
        done = self._waiting.pop(number, None)
        if done is not None:
            done(quorum)

    def _known(self) -> QuorumIs:
        engine = self._engine
        voters = tuple(VoterIs(p.node_id, p.last_index, int(p.silent_s * 1000)) for p in engine.progress())
        return QuorumIs(engine.node_id, engine.term, engine.commit_index, voters)
