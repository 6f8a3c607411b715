"""Members on a cluster of three real nodes, over gRPC and from the command line, through a SIGKILL of the leader."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from quorate.gateway.grpc.pb import journal_pb2
from quorate.gateway.grpc.pb import members_pb2 as pb
from quorate.gateway.grpc.pb.journal_pb2_grpc import JournalStub
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.http.answers import Status
from tests.clusters import QUORATE, Started, quorate, said, until, up

TIMEOUT_MS = 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes."""
    with up(tmp_path_factory.mktemp("members") / "c") as started:
        yield started


@contextmanager
def asking(cluster: Started, node: int = 0) -> Iterator[MembersStub]:
    """The service of a node."""
    with grpc.insecure_channel(cluster.nodes[node]["grpc"]) as channel:
        yield MembersStub(channel)


def registered(stub: MembersStub, name: str, incarnation: str = "1", timeout_ms: int = TIMEOUT_MS, **more: Any) -> int:
    """A member that has caught up; its epoch."""
    request = pb.RegisterMemberRequest(name=name, incarnation=incarnation, timeout_ms=timeout_ms, **more)
    epoch: int = stub.Register(request, timeout=5).epoch
    beat = pb.MemberHeartbeatRequest(name=name, epoch=epoch, applied_revision=epoch)
    assert not stub.Heartbeat(beat, timeout=5).fenced
    return epoch


def test_a_member_lives_and_is_drained_over_any_node(cluster: Started) -> None:
    """Registered at one node, listed at the second, drained at the third; the log tells it in sentences."""
    with asking(cluster, 1) as stub:
        epoch = registered(stub, "store.1", roles=["journal"], labels={"rack": "a"}, addresses={"grpc": "h:1"})
        (found,) = said(cluster, "members", "--role", "journal", node=2)
        assert (found["name"], found["state"], found["epoch"]) == ("store.1", "active", epoch)
        assert said(cluster, "members", "drain", "store.1", node=2)["may_leave"]
        beat = stub.Heartbeat(pb.MemberHeartbeatRequest(name="store.1", epoch=epoch), timeout=5)
        assert (beat.draining, beat.may_leave) == (True, True)
        stub.Unregister(pb.UnregisterMemberRequest(name="store.1", epoch=epoch), timeout=5)
        with pytest.raises(grpc.RpcError) as refused:
            stub.Heartbeat(pb.MemberHeartbeatRequest(name="store.1", epoch=epoch), timeout=5)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    log = quorate("log", "tail", "-n", "20", "--node", cluster.nodes[0]["http"]).stdout
    for sentence in (
        "member store.1 registered as journal, incarnation 1",
        "member store.1 has caught up and is given work",
        "member store.1 is to leave: asked by an operator",
        "member store.1 is gone: drained",
    ):
        assert sentence in log
    then = {one["name"]: one["state"] for one in said(cluster, "at", str(epoch + 1), "members")}
    assert then["store.1"] == "fenced"
    (change,) = said(cluster, "diff", str(epoch), str(epoch + 1))["entities"]
    assert (change["key"], change["change"]) == ("member/store.1", "added")


def test_a_silent_member_is_fenced_and_another_incarnation_takes_its_place(cluster: Started) -> None:
    """While it is heard no other is taken; its own last words afterwards change nothing."""
    with asking(cluster) as stub:
        first = registered(stub, "mqtt@1")
        with pytest.raises(grpc.RpcError) as refused:
            registered(stub, "mqtt@1", "2")
        assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS
        assert "MemberExists" in (refused.value.details() or "")
        until(lambda: said(cluster, "members", "describe", "mqtt@1")["state"] == "fenced", "its fencing")
        second = registered(stub, "mqtt@1", "2")
        assert second > first
        with pytest.raises(grpc.RpcError) as refused:
            stub.Heartbeat(pb.MemberHeartbeatRequest(name="mqtt@1", epoch=first, want_drain=True), timeout=5)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "StaleMemberEpoch" in (refused.value.details() or "")
        found = said(cluster, "members", "describe", "mqtt@1", node=2)
        assert (found["incarnation"], found["draining"]) == ("2", False)


def test_a_member_is_forgotten_from_the_command_line(cluster: Started) -> None:
    """Not while it has the only copy of a segment, unless somebody insists; then it is gone at every node."""
    with asking(cluster) as stub, grpc.insecure_channel(cluster.nodes[0]["grpc"]) as channel:
        registered(stub, "lost.1", timeout_ms=60_000, roles=["journal"], labels={"only": "lost"})
        request = journal_pb2.CreateShardRequest(shard="alone", replication=1, require={"only": "lost"})
        assert JournalStub(channel).CreateShard(request, timeout=5).segment.leader.member == "lost.1"
    forget = ("members", "forget", "lost.1", "--node", cluster.nodes[1]["http"])
    refused = quorate(*forget)
    assert (refused.returncode, "MemberStillLeads" in refused.stderr) == (1, True)
    done = quorate(*forget, "--force")
    assert (done.returncode, done.stdout) == (0, "member lost.1 is forgotten\n")
    gone = quorate("members", "describe", "lost.1", "--node", cluster.nodes[2]["http"])
    assert (gone.returncode, "there is no such member" in gone.stderr) == (1, True)


def test_a_watch_from_the_command_line_tells_each_change(cluster: Started) -> None:
    """From a revision of the past on, and what happens while it watches; Ctrl-C ends it."""
    with asking(cluster, 2) as stub:
        epoch = registered(stub, "watched.1", timeout_ms=60_000)  # It is not heard while the command starts.
        words = ["members", "watch", "--revision", str(epoch), "-o", "json", "--node", cluster.nodes[1]["http"]]
        watch = subprocess.Popen([*QUORATE, *words], stdout=subprocess.PIPE, env=os.environ)
        try:
            assert watch.stdout is not None
            changes = (json.loads(line) for line in watch.stdout)
            told = list(islice((one for one in changes if "watched.1" in one["what"]), 2))
            stub.Unregister(pb.UnregisterMemberRequest(name="watched.1"), timeout=5)
            told.append(next(one for one in changes if "watched.1" in one["what"]))
        finally:
            watch.send_signal(signal.SIGINT)
            watch.communicate(timeout=20)
    assert [(one["revision"], one["left"]) for one in told[:2]] == [(epoch, False), (epoch + 1, False)]
    assert (told[2]["what"], told[2]["left"]) == ("member watched.1 is gone: forgotten", True)


def test_a_member_that_beats_is_not_fenced_by_a_fail_over(tmp_path: Path) -> None:
    """The new leader gives it a whole timeout; it goes on at another node, with its epoch."""
    with up(tmp_path / "c") as cluster:
        assert not any(beaten_through_a_kill(cluster))


def beaten_through_a_kill(cluster: Started) -> list[bool]:
    """What each heartbeat of a member was told: is it fenced? The leader is killed in the middle."""
    leader = cluster.node().get("/v1/status", Status).leader
    assert leader is not None
    others = [node for node in range(3) if node + 1 != leader]
    with asking(cluster, others[0]) as stub:
        epoch = registered(stub, "steady.1")
        ended = threading.Event()
        seen: list[bool] = []

        def beating() -> None:
            while not ended.wait(TIMEOUT_MS / 1000 / 4):
                beat = pb.MemberHeartbeatRequest(name="steady.1", epoch=epoch, applied_revision=epoch)
                try:
                    seen.append(stub.Heartbeat(beat, timeout=2, wait_for_ready=True).fenced)
                except grpc.RpcError:
                    continue

        thread = threading.Thread(target=beating)
        thread.start()
        try:
            until(lambda: len(seen) > 2, "heartbeats")
            psutil.Process(cluster.nodes[leader - 1]["pid"]).send_signal(signal.SIGKILL)
            count = len(seen)
            until(lambda: len(seen) > count + 8, "heartbeats at the new leader")
        finally:
            ended.set()
            thread.join()
    return seen


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("members", "describe"), 2, "which member?"),
        (("members", "list", "x"), 2, "takes no name"),
        (("members", "watch", "--stale"), 2, "how fresh"),
        (("members", "describe", "nobody"), 1, "there is no such member"),
        (("members", "drain", "nobody"), 1, "UnknownMember"),
        (("members", "forget"), 2, "which member?"),
        (("members", "forget", "nobody"), 1, "UnknownMember"),
        (("members", "drain", "nobody", "--force"), 2, "--force is of forget"),
    ],
)
def test_what_is_refused_is_said(cluster: Started, words: tuple[str, ...], status: int, told: str) -> None:
    """The exit status tells what was asked wrongly from what was refused."""
    done = quorate(*words, "--node", ",".join(node["http"] for node in cluster.nodes))
    assert (done.returncode, told in done.stderr) == (status, True), done.stderr
