"""What-if: what is asked of the node, and how its answer is told."""

import json
from collections.abc import Iterator

import msgspec
import pytest

from quorate.cli import program
from quorate.cli.whatif import victims
from quorate.errors import UsageError
from quorate.gateway.http.answers import WhatIfAnswer
from quorate.metadata.whatif import Kind, QuorumAfter, SetAfter, SetRow
from tests.unit.cli.served import Served, serving


@pytest.fixture
def node() -> Iterator[Served]:
    with serving() as served:
        yield served


def row(kind: Kind, *winners: int) -> SetRow:
    winner = winners[0] if len(winners) == 1 else None
    after = SetAfter(master=winner, sync_state_set=(), alive=winners)
    return SetRow(
        set="broker-a", kind=kind, master=1, winner=winner, winners=winners, rule="higher epoch", unclean=True,
        loses_bytes=None,
        explanation="That is why.", after=after,
    )  # fmt: skip


def answer(*rows: SetRow, survives: bool = True) -> WhatIfAnswer:
    left = [1, 2] if survives else [1]
    quorum = QuorumAfter(voters=[1, 2, 3], voters_left=left, needed=2, survives=survives, leader=1, leader_lost=False)
    return WhatIfAnswer(offset=9, time_ms=5, node=1, quorum=quorum, rows=list(rows))


def test_the_question_names_what_fails_and_when(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """--fail and --kill, --at and --unclean become the body; the answer is printed with every possible master."""
    node.answers["/v1/whatif"] = answer(row("elected", 2, 3))
    words = ["whatif", "--fail", "node/2", "--kill", "broker-a:1", "--at", "7", "--no-unclean", "--node", node.address]
    assert program.main(words) == 0
    assert json.loads(node.asked[0][3]) == {"at": 7, "fail": ["node/2", "broker/broker-a/1"], "unclean": False}
    out = capsys.readouterr().out
    assert "At offset 9: the quorum holds, 2 of 3 controllers." in out
    assert "2 or 3" in out
    assert "highest epoch; loses what it had not copied" in out
    assert program.main([*words, "-o", "json"]) == 0
    told = msgspec.json.decode(capsys.readouterr().out, type=WhatIfAnswer)
    assert told == answer(row("elected", 2, 3))


def test_a_set_without_a_master_or_a_lost_quorum_is_exit_1(node: Served) -> None:
    """A script may ask whether a failure would be survived."""
    words = ["whatif", "--fail", "node/2", "--node", node.address]
    for found, status in ((answer(), 0), (answer(row("no master")), 1), (answer(survives=False), 1)):
        node.answers["/v1/whatif"] = found
        assert program.main(words) == status


def test_a_question_that_changes_nothing_is_no_question(node: Served) -> None:
    """Nothing fails and no policy is tried: used wrongly; a policy alone is a question."""
    node.answers["/v1/whatif"] = answer()
    assert program.main(["whatif", "--node", node.address]) == 2
    assert program.main(["whatif", "--unclean", "--node", node.address]) == 0


@pytest.mark.parametrize("text", ["broker-a", "broker-a:", "broker-a:x", ":1"])
def test_victims_are_named_by_set_and_id(text: str) -> None:
    """Anything else is used wrongly."""
    with pytest.raises(UsageError, match="expected SET:ID"):
        victims([text])
