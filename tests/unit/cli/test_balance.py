"""``quorate balance``: the plan, and the moves."""

import json
from collections.abc import Iterator

import pytest

from quorate.cli import program
from quorate.gateway.http.answers import Balance, Done
from quorate.metadata.balance import SPREAD, Move
from quorate.metadata.commands import MasterIs
from tests.unit.cli.served import Served, serving

MOVE = Move(
    broker_set="a", old=1, new=2, from_place="h1", to_place="h2", rule=SPREAD, why="h1 leads 2 sets, h2 leads 0"
)
PLAN = Balance(offset=9, time_ms=5, node=1, moves=(MOVE,), before={"h1": 2, "h2": 0}, after={"h1": 1, "h2": 1})
DONE = Done(
    offset=12, time_ms=6, node=1, repeated=False,
    reply=MasterIs(
        cluster="c", broker_set="a", master=2, master_address="h2:1", master_epoch=2, sync_state_set=(2,),
        sync_state_set_epoch=3, members=None,
    ),
)  # fmt: skip


@pytest.fixture
def node() -> Iterator[Served]:
    with serving() as served:
        served.answers["/v1/balance"] = PLAN
        yield served


def test_a_dry_run_prints_the_plan_and_asks_for_nothing(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """What would move, why, and how many each place leads before and after."""
    assert program.main(["balance", "--dry-run", "--node", node.address]) == 0
    out = capsys.readouterr().out
    assert "h1 leads 2 sets, h2 leads 0" in out
    assert out.lower().rsplit("place", 1)[1].split() == ["leads", "then", "h1", "2", "1", "h2", "0", "1"]
    assert [(method, path) for method, path, _, _ in node.asked] == [("GET", "/v1/balance")]


def test_the_moves_are_those_of_the_plan(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is an election of the named broker, with its reason; what is refused is told, and the exit status is 1."""
    node.answers["/v1/elections"] = DONE
    assert program.main(["balance", "--node", node.address]) == 0
    assert json.loads(node.asked[-1][3]) == {"broker_set": "a", "broker_id": 2, "reason": MOVE.why}
    assert "done; true from offset 12" in capsys.readouterr().out
    del node.answers["/v1/elections"]
    assert program.main(["balance", "--node", node.address]) == 1
    assert "there is nothing" in capsys.readouterr().out
