"""Balance on three real nodes: what a dry run prints at any of them is what the leader then does by itself."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from quorate.gateway.grpc.pb import members_pb2
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.http.answers import Done, Log, LogEvent, ShardAnswer, Status
from quorate.gateway.http.writing import SegmentElectBody
from tests.clusters import Started, resumed, said, until, up

PATIENT_MS = 600_000
MEMBERS = ("store.1", "store.2")
SHARDS = ("bills", "clicks", "mails", "orders")


def registered(cluster: Started) -> None:
    """Two members that hold copies, and have caught up."""
    with grpc.insecure_channel(cluster.nodes[0]["grpc"]) as channel:
        stub = MembersStub(channel)
        for name in MEMBERS:
            asked = members_pb2.RegisterMemberRequest(
                name=name, incarnation="1", timeout_ms=PATIENT_MS, roles=["journal"]
            )
            epoch = stub.Register(asked, timeout=5).epoch
            beat = members_pb2.MemberHeartbeatRequest(name=name, epoch=epoch, applied_revision=epoch)
            assert not stub.Heartbeat(beat, timeout=5).fenced


def moves(cluster: Started, start: int) -> list[LogEvent]:
    """The elections of leaders of segments from an offset on."""
    events = cluster.node().get("/v1/log", Log, **{"from": start}).events
    return [one for one in events if one.type == "SegmentLeaderElected"]


def test_what_a_dry_run_prints_at_any_node_is_what_the_leader_then_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing moves while balance is off. Switched on, it makes the moves of the plan and no other, in order and with
    the plan's reasons; then there is nothing to move.
    """
    monkeypatch.setenv("QUORATE_BALANCE__REST_S", "0")
    with up(tmp_path / "c") as cluster:
        node = cluster.node()
        registered(cluster)
        for shard in SHARDS:
            said(cluster, "journal", "create", shard, "--copies", "2", "--min-in-sync", "1")
            (segment,) = node.get(f"/v1/shards/{shard}", ShardAnswer).segments
            if segment.leader != MEMBERS[0]:
                body = SegmentElectBody(segment=segment.segment, member=MEMBERS[0])
                node.send("POST", "/v1/segment-elections", body, Done)
        plans = [said(cluster, "balance", "--dry-run", node=number)["segments"] for number in range(3)]
        assert len(plans[0]) == 2
        assert plans[1:] == plans[:1] * 2
        end = node.get("/v1/status", Status).offset
        assert cluster.stop() == 0
    monkeypatch.setenv("QUORATE_BALANCE__PERIOD_S", "0.5")
    with resumed(tmp_path / "c") as cluster:
        until(lambda: len(moves(cluster, end)) >= len(plans[0]), "the moves of the plan")
        assert said(cluster, "balance", "--dry-run", node=1)["segments"] == []
        made: list[Any] = [one.event for one in moves(cluster, end)]
        told = [(one.segment, one.leader, one.trigger) for one in made]
        assert told == [(one["segment"], one["new"], "balance") for one in plans[0]]
        for one, planned in zip(made, plans[0], strict=True):
            assert planned["why"] in one.explanation
