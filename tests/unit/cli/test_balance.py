"""``quorate balance``: the plan, and the moves."""

import json
from collections.abc import Iterator

import msgspec
import pytest

from quorate.cli import program
from quorate.gateway.http.answers import Balance, Done, Quorum, QuorumMember
from quorate.gateway.http.writing import REASON_MAX
from quorate.metadata.balance import SPREAD, Move
from quorate.metadata.commands import MasterIs
from quorate.metadata.segment_balance import SegmentMove
from quorate.metadata.session_balance import HandOver
from tests.unit.cli.served import Served, serving

MOVE = Move(
    broker_set="a", old=1, new=2, from_place="h1", to_place="h2", rule=SPREAD, why="h1 leads 2 sets, h2 leads 0"
)
PLAN = Balance(
    offset=9, time_ms=5, node=1, by="leader", moves=(MOVE,), before={"h1": 2, "h2": 0}, after={"h1": 1, "h2": 1}
)
SEGMENT = SegmentMove(
    segment="orders/3", old="m1", new="m2", from_place="r1", to_place="r2", rule="a member that leads less",
    why="m1 leads 4 open segments, m2 leads 0",
)  # fmt: skip
ADVICE = HandOver(member="mq1", clients=12, hand_over=6, why="mq1 has 12 clients, and its share of all would be 6")
WHOLE = Balance(
    offset=9, time_ms=5, node=1, by="leader", moves=(MOVE,), before={"h1": 2, "h2": 0}, after={"h1": 1, "h2": 1},
    segments=(SEGMENT,), segments_before={"m1": 4, "m2": 0}, segments_after={"m1": 3, "m2": 1}, hand_over=(ADVICE,),
)  # fmt: skip
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


def test_the_plan_is_the_leader_s_whoever_is_asked(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """A follower says that it follows, and the leader is asked; where that cannot be, whose plan it is is told."""
    node.answers["/v1/balance"] = msgspec.structs.replace(PLAN, by="follower", node=2, moves=())
    addresses = dict.fromkeys(("rpc", "raft", "kafka"), "h:1")
    with serving() as leader:
        voters = [
            QuorumMember(
                id=number, leader=number == 1, connected=True, version="1", started_ms=0, dir_uuid="", http=http,
                **addresses,
            )
            for number, http in ((1, leader.address), (2, node.address))
        ]  # fmt: skip
        node.answers["/v1/quorum"] = Quorum(
            offset=9, time_ms=5, node=2, cluster_id="c", leader=1, term=3, role="follower", voting=True,
            commit_index=1, applied_index=1, leader_since_ms=0, leader_cause="silent", voters=voters,
        )  # fmt: skip
        assert program.main(["balance", "--dry-run", "--node", node.address]) == 0
        said = capsys.readouterr()
        assert "nothing to move" in said.out
        assert "the plan of node 2, which follows" in said.err
        leader.answers["/v1/balance"] = PLAN
        assert program.main(["balance", "--dry-run", "--node", node.address]) == 0
        said = capsys.readouterr()
        assert (MOVE.why in said.out, said.err) == (True, "")


def test_the_moves_are_those_of_the_plan(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is an election of the named broker, with its reason; what is refused is told, and the exit status is 1."""
    node.answers["/v1/elections"] = DONE
    assert program.main(["balance", "--node", node.address]) == 0
    assert json.loads(node.asked[-1][3]) == {"broker_set": "a", "broker_id": 2, "reason": MOVE.why}
    assert "done; true from offset 12" in capsys.readouterr().out
    del node.answers["/v1/elections"]
    assert program.main(["balance", "--node", node.address]) == 1
    assert "there is nothing" in capsys.readouterr().out


def test_a_move_that_is_called_wrong_ends_no_other(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told with the rest of them; a long reason is cut to what a node takes."""
    long = msgspec.structs.replace(MOVE, why="h" * (REASON_MAX + 1))
    node.answers |= {"/v1/balance": msgspec.structs.replace(WHOLE, moves=(long,)), "/v1/segment-elections": DONE}
    node.answers["/v1/elections"] = (400, b'{"error":{"code":"invalid","message":"too long for me"}}')
    assert program.main(["balance", "--node", node.address]) == 1
    said = capsys.readouterr()
    assert ("too long for me" in said.out, "done; true from offset 12" in said.out, said.err) == (True, True, "")
    (sent,) = [json.loads(body) for _, path, _, body in node.asked if path == "/v1/elections"]
    assert sent["reason"] == "h" * REASON_MAX


def test_segments_are_in_the_same_plan_and_clients_are_advice(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run shows all kinds; carrying it out asks for the masters, then for the segments, and for no client."""
    node.answers |= {"/v1/balance": WHOLE, "/v1/elections": DONE, "/v1/segment-elections": DONE}
    assert program.main(["balance", "--dry-run", "--node", node.address]) == 0
    out = capsys.readouterr().out
    assert "m1 leads 4 open segments, m2 leads 0" in out
    assert out.lower().rsplit("member", 1)[1].split()[:8] == ["leads", "then", "m1", "4", "3", "m2", "0", "1"]
    assert ADVICE.why in out
    assert program.main(["balance", "--node", node.address]) == 0
    asked = [(path, json.loads(body)) for method, path, _, body in node.asked if method == "POST"]
    assert asked == [
        ("/v1/elections", {"broker_set": "a", "broker_id": 2, "reason": MOVE.why}),
        ("/v1/segment-elections", {"segment": "orders/3", "member": "m2", "reason": SEGMENT.why}),
    ]
