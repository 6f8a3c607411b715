"""How far the voters are: the leader says it, a follower asks it, and nobody waits for ever."""

import pytest

from quorate.consensus.ports import Index, NodeId, Progress
from quorate.controller import QuorumIs, VoterIs, messages
from quorate.controller.messages import QuorumAnswer, QuorumQuestion
from tests.unit.controller.bench import Bench

KNOWN = QuorumIs(2, 7, 41, (VoterIs(2, 42, 0), VoterIs(1, 41, 15)))


def leading() -> Bench:
    """A leader that knows how far two voters are."""
    bench = Bench()
    bench.open()
    progress = (Progress(NodeId(1), Index(9), 0.0), Progress(NodeId(2), Index(4), 1.25))
    bench.engine.progress = lambda: progress  # type: ignore[attr-defined]
    bench.engine.commit_index = Index(8)  # type: ignore[attr-defined]
    return bench


def following() -> tuple[Bench, list[QuorumIs | None]]:
    """A node that takes node 2 for the leader and has asked."""
    bench, told = Bench(), list[QuorumIs | None]()
    bench.engine.leader_id = NodeId(2)
    bench.controller.quorum.ask(told.append)
    return bench, told


def sent(bench: Bench) -> tuple[int, messages.Message]:
    """The last message over the peer link."""
    peer, payload = bench.wire.sent[-1]
    return peer, messages.decode(payload)


def test_the_leader_answers_at_once() -> None:
    """Every voter with its log's end and its silence; the term and the commit index."""
    told: list[QuorumIs | None] = []
    leading().controller.quorum.ask(told.append)
    assert told == [QuorumIs(1, 1, 8, (VoterIs(1, 9, 0), VoterIs(2, 4, 1250)))]


def test_a_follower_asks_the_leader() -> None:
    """One question, and its answer; an answer to no question, or a second one, is dropped."""
    bench, told = following()
    peer, question = sent(bench)
    assert peer == 2
    assert isinstance(question, QuorumQuestion)
    for answer in (
        QuorumAnswer(question.id + 1, None),
        QuorumAnswer(question.id, KNOWN),
        QuorumAnswer(question.id, None),
    ):
        bench.controller.receive(2, messages.encode(answer))
    assert told == [KNOWN]
    bench.after(10.0)
    assert told == [KNOWN]


def test_a_peer_is_answered_by_the_leader_only() -> None:
    """Another node says that it does not know."""
    bench = leading()
    bench.controller.receive(3, messages.encode(QuorumQuestion(5)))
    peer, answer = sent(bench)
    assert peer == 3
    assert isinstance(answer, QuorumAnswer)
    assert answer.quorum is not None
    assert answer.quorum.leader == 1
    bench.engine.lose()
    bench.controller.receive(3, messages.encode(QuorumQuestion(6)))
    assert sent(bench)[1] == QuorumAnswer(6, None)


@pytest.mark.parametrize("trouble", ["silence", "no leader", "no connection", "not the leader"])
def test_without_a_leader_nobody_knows(trouble: str) -> None:
    """None, at once or when the time is up; never nothing."""
    if trouble in ("silence", "not the leader"):
        bench, told = following()
        assert told == []
        if trouble == "silence":
            bench.after(bench.settings.answer_timeout_s + 0.1)
        else:
            question = sent(bench)[1]
            assert isinstance(question, QuorumQuestion)
            bench.controller.receive(2, messages.encode(QuorumAnswer(question.id, None)))
    else:
        bench, told = Bench(), []
        bench.engine.leader_id = None if trouble == "no leader" else NodeId(2)
        bench.wire.up = False
        bench.controller.quorum.ask(told.append)
    assert told == [None]
