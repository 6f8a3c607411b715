"""Sessions of MQTT on three real nodes, over gRPC and from the command line, through a SIGKILL of the leader."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from quorate.gateway.grpc.pb import members_pb2
from quorate.gateway.grpc.pb import mqtt_pb2 as pb
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.grpc.pb.mqtt_pb2_grpc import MqttStub
from quorate.gateway.http.answers import Status
from tests.clusters import Started, quorate, until, up

PATIENT_MS, HASTY_MS = 600_000, 5_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes."""
    with up(tmp_path_factory.mktemp("mqtt") / "c") as started:
        yield started


@contextmanager
def asking(cluster: Started, node: int = 0) -> Iterator[grpc.Channel]:
    """A node."""
    with grpc.insecure_channel(cluster.nodes[node]["grpc"]) as channel:
        yield channel


def member(channel: grpc.Channel, name: str, timeout_ms: int) -> int:
    """A member that serves MQTT and has caught up, and says nothing more; its epoch."""
    stub = MembersStub(channel)
    request = members_pb2.RegisterMemberRequest(
        name=name, incarnation="1", timeout_ms=timeout_ms, roles=["mqtt"], addresses={"mqtt": f"{name}:1883"}
    )
    epoch: int = stub.Register(request, timeout=5).epoch
    beat = members_pb2.MemberHeartbeatRequest(name=name, epoch=epoch, applied_revision=epoch)
    assert not stub.Heartbeat(beat, timeout=5).fenced
    return epoch


def said(cluster: Started, *words: str, node: int = 0) -> tuple[int, Any]:
    """How a command ends, and what it prints in JSON."""
    done = quorate("mqtt", *words, "-o", "json", "--node", cluster.nodes[node]["http"])
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_session_moves_when_its_member_is_lost_and_its_will_finds_another(cluster: Started) -> None:
    """Opened at one node, seen at the second; the member that lives is told to publish the will, and takes the session
    with its subscriptions; the loser's late word is refused.
    """
    with asking(cluster, 0) as one, asking(cluster, 1) as two:
        stays = member(one, "broker.a", PATIENT_MS)
        here, there = MqttStub(one), MqttStub(two)
        watch = there.Watch(pb.WatchSessionsRequest(member="broker.a"), timeout=60)
        next(watch)
        goes = member(two, "broker.b", HASTY_MS)
        opening = pb.OpenSessionRequest(
            client="sensor/1", expiry_s=3600, will=pb.Will(topic="gone", payload=b"\xff"), member="broker.b"
        )
        opening.member_epoch = goes
        first = there.OpenSession(opening, timeout=5)
        subscription = pb.Subscription(filter="site/+/state", qos=1)
        there.PutSubscriptions(
            pb.PutSubscriptionsRequest(client="sensor/1", session_epoch=first.session_epoch, added=[subscription]),
            timeout=5,
        )
        (change,) = next(watch).changes
        assert (change.will.client, change.will.message.payload, change.will.will) == (
            "sensor/1",
            b"\xff",
            first.session_epoch,
        )
        (will,) = said(cluster, "wills", node=2)[1]
        assert (will["will"], will["client"], will["member"], will["topic"]) == (
            first.session_epoch,
            "sensor/1",
            "broker.a",
            "gone",
        )
        status, found = said(cluster, "match", "site/3/state", node=2)
        assert (status, found[0]["member"], found[0]["addresses"]) == (0, "broker.b", {})
        (subscriber,) = found[0]["subscribers"]
        assert (subscriber["client"], subscriber["connected"], subscriber["qos"]) == ("sensor/1", False, 1)
        opening.member, opening.member_epoch = "broker.a", stays
        second = here.OpenSession(opening, timeout=5)
        assert (second.present, second.taken_over_from, second.replaced_epoch) == (True, "", first.session_epoch)
        with pytest.raises(grpc.RpcError) as late:
            there.CloseSession(pb.CloseSessionRequest(client="sensor/1", session_epoch=first.session_epoch), timeout=5)
        assert late.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "StaleSessionEpoch" in (late.value.details() or "")
        acknowledged = pb.AcknowledgeWillRequest(will=change.will.will, member="broker.a", member_epoch=stays)
        here.AcknowledgeWill(acknowledged, timeout=5)
    assert said(cluster, "wills") == (0, [])
    status, located = said(cluster, "locate", "sensor/1", node=1)
    assert (status, located["member"], located["connected"]) == (0, "broker.a", True)
    assert located["addresses"] == {"mqtt": "broker.a:1883"}
    assert [one["filter"] for one in located["subscriptions"]] == ["site/+/state"]
    located.pop("addresses")
    assert said(cluster, "sessions", "--member", "broker.a", node=2) == (0, [located])
    then = str(located["session_epoch"] - 1)  # The same decision says first that nothing hangs on the loss any more.
    _, (before,) = said(cluster, "sessions", "--member", "broker.b", "--at", then)
    assert (before["session_epoch"], before["connected"]) == (first.session_epoch, False)
    assert said(cluster, "sessions", "--at", str(first.session_epoch)) == (0, [])
    assert said(cluster, "locate", "sensor/1", "--at", then, node=2)[1]["member"] == "broker.b"
    assert said(cluster, "match", "site/3/state", "--at", then)[1][0]["member"] == "broker.b"
    log = quorate("log", "tail", "-n", "30", "--node", cluster.nodes[0]["http"]).stdout
    for sentence in (
        "the clients of broker.b are gone, for it is fenced: 1 session",
        "the will of sensor/1 is to be published: lost",
        "session of sensor/1 was opened again at broker.a",
        "broker.a has published the will of sensor/1",
    ):
        assert sentence in log


def test_a_session_ends_in_its_time_though_the_leader_is_killed(tmp_path: Path) -> None:
    """Nobody asks for it; the next leader knows from the log when it is due."""
    with up(tmp_path / "c") as cluster:
        with asking(cluster) as channel:
            epoch, stub = member(channel, "broker.c", PATIENT_MS), MqttStub(channel)
            for client, expiry_s in (("short", 3), ("long", 3600)):
                opening = pb.OpenSessionRequest(client=client, expiry_s=expiry_s, member="broker.c", member_epoch=epoch)
                opened = stub.OpenSession(opening, timeout=5)
                closing = pb.CloseSessionRequest(client=client, session_epoch=opened.session_epoch)
                stub.CloseSession(closing, timeout=5)
        leader = cluster.node().get("/v1/status", Status).leader
        assert leader is not None
        psutil.Process(cluster.nodes[leader - 1]["pid"]).send_signal(signal.SIGKILL)
        lives = leader % 3
        until(lambda: said(cluster, "locate", "short", "--stale", node=lives)[0] == 1, "the end of the session")
        _, listed = said(cluster, "sessions", "--stale", node=lives)
        assert [one["client"] for one in listed] == ["long"]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("mqtt",), 2, "sessions|wills|match|locate"),
        (("mqtt", "match", "nobody/wants/it"), 1, ""),
        (("mqtt", "match", "a/#"), 1, "BadTopic"),
        (("mqtt", "locate", "nobody"), 1, ""),
    ],
)
def test_what_is_refused_is_said(cluster: Started, words: tuple[str, ...], status: int, told: str) -> None:
    """The exit status tells what was asked wrongly from what was refused, or is for nobody."""
    done = quorate(*words, "--node", ",".join(node["http"] for node in cluster.nodes))
    assert (done.returncode, told in done.stderr) == (status, True), done.stderr
