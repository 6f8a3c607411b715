"""Simulated members: they register once, are heard, care for what they lead, and try again what was refused."""

import random
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from quorate.cli import program
from quorate.demo.simmembers import CLIENTS, SEGMENT_BEATS, SimulatedMember, serve
from quorate.gateway.grpc.pb import journal_pb2, members_pb2, mqtt_pb2


class Failed(grpc.RpcError):
    """What a call raises."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        """As grpcio's."""
        return self._code


class Cluster:
    """A channel to a node that has one shard or none, notes every call, and fails where a test says so."""

    def __init__(self) -> None:
        self.calls, self.requests = list[str](), list[Any]()
        self.failing: dict[str, list[grpc.StatusCode]] = {}
        self.segments: list[journal_pb2.Segment] = []
        self.living = {"s1": 7}

    def unary_unary(self, path: str, *_: Any, **__: Any) -> Callable[..., Any]:
        """A method by its path."""
        return lambda request, **_: self._call(path.rpartition("/")[2], request)

    def _call(self, name: str, request: Any) -> Any:
        self.calls.append(name)
        self.requests.append(request)
        if self.failing.get(name):
            raise Failed(self.failing[name].pop(0))
        match name:
            case "Register":
                return members_pb2.RegisterMemberResponse(epoch=7)
            case "OpenSession":
                return mqtt_pb2.OpenSessionResponse(session_epoch=9)
            case "List":
                told = [members_pb2.Member(name=one, epoch=epoch) for one, epoch in self.living.items()]
                return members_pb2.ListMembersResponse(members=told)
            case "Describe" if not self.segments:
                raise Failed(grpc.StatusCode.NOT_FOUND)
            case "Describe":
                return journal_pb2.DescribeShardResponse(segments=self.segments)
            case _:
                return None

    def unary_stream(self, *_: Any, **__: Any) -> None:
        """No stream is asked for."""

    stream_stream = stream_unary = unary_stream


def segment(leader: str = "s1", epoch: int = 7) -> journal_pb2.Segment:
    """The first one, led in some life, with both copies in sync."""
    return journal_pb2.Segment(
        name="orders/0",
        copies=["s1", "s2"],
        leader=journal_pb2.SegmentLeader(member=leader, leader_epoch=5, member_epoch=epoch),
        in_sync=[journal_pb2.InSyncCopy(member=name, member_epoch=life) for name, life in (("s1", 7), ("s2", 8))],
    )


def member(role: str) -> SimulatedMember:
    """One of them."""
    return SimulatedMember("s1", role, random.Random(1))


def test_a_broker_registers_and_its_clients_come_once() -> None:
    """Each with its subscriptions; afterwards it is only heard, under the epoch it was given."""
    cluster, one = Cluster(), member("mqtt")
    one.beat(cluster)  # type: ignore[arg-type]
    one.beat(cluster)  # type: ignore[arg-type]
    clients = ["OpenSession", "PutSubscriptions"] * CLIENTS
    assert cluster.calls == ["Register", "Heartbeat", *clients, "Heartbeat"]
    assert {request.epoch for request in cluster.requests if hasattr(request, "epoch")} == {7}


def test_a_store_asks_for_the_shard_and_begins_its_next_segment() -> None:
    """It asks where there is none; of one that it leads the next segment begins after so many beats."""
    cluster, one = Cluster(), member("journal")
    one.beat(cluster)  # type: ignore[arg-type]
    assert cluster.calls[-2:] == ["Describe", "CreateShard"]
    cluster.segments, cluster.living = [segment()], {"s1": 7, "s2": 8}
    for _ in range(SEGMENT_BEATS):
        one.beat(cluster)  # type: ignore[arg-type]
    assert cluster.calls.count("NextSegment") == 1
    assert "AlterInSync" not in cluster.calls


def test_a_leader_says_who_is_in_sync() -> None:
    """Those that are there, in the life they live; whoever leads in another life, or not at all, says nothing."""
    cluster, one = Cluster(), member("journal")
    cluster.segments, cluster.living = [segment()], {"s1": 7, "s2": 12}
    one.beat(cluster)  # type: ignore[arg-type]
    assert cluster.calls[-1] == "AlterInSync"
    assert {copy.member: copy.member_epoch for copy in cluster.requests[-1].in_sync} == {"s1": 7, "s2": 12}
    cluster.segments = [segment("s2", 8), segment("s1", 3)]
    one.beat(cluster)  # type: ignore[arg-type]
    assert cluster.calls[-2:] == ["Heartbeat", "Describe"]


def test_what_is_refused_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is not known any more registers anew; where a node is away, another is asked."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    cluster, one = Cluster(), member("mqtt")
    refused, away = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE
    cluster.failing = {"Heartbeat": [refused, away], "OpenSession": [grpc.StatusCode.FAILED_PRECONDITION]}
    with pytest.raises(Failed):
        serve([one], cluster)  # type: ignore[arg-type]
    assert cluster.calls == ["Register", "Heartbeat", "Register", "Heartbeat"]
    with pytest.raises(Failed):
        one.beat(cluster)  # type: ignore[arg-type]
    one.beat(cluster)  # type: ignore[arg-type]
    clients = ["OpenSession", "PutSubscriptions"] * CLIENTS
    assert cluster.calls[4:] == ["Heartbeat", "OpenSession", "Heartbeat", *clients]


@pytest.mark.parametrize("words", [[], ["--member", "x"], ["--member", ":mqtt"], ["--member", "x:broker"]])
def test_what_is_no_member_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One is needed, each with a name and a role that is played here."""
    assert program.main(["simmembers", *words]) == 2
    assert "--member" in capsys.readouterr().err
