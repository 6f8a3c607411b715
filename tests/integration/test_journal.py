"""``quorate journal`` on three real nodes: what it makes, and what it shows, now and as it was."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from quorate.gateway.grpc.pb import members_pb2
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from tests.clusters import QUORATE, Started, quorate, said, up

PATIENT_MS = 600_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes, and two members that hold copies."""
    with up(tmp_path_factory.mktemp("journal") / "c") as started:
        for name in ("store.1", "store.2"):
            registered(started, name)
        yield started


def listed(cluster: Started, *words: str, node: int = 0) -> list[dict[str, Any]]:
    """What is listed under the name; other tests have shards of their own there."""
    return [one for one in said(cluster, *words, node=node) if one["name"] == "orders"]


def registered(cluster: Started, name: str, **labels: str) -> int:
    """A member that holds copies, and has caught up; its epoch."""
    with grpc.insecure_channel(cluster.nodes[0]["grpc"]) as channel:
        stub = MembersStub(channel)
        asked = members_pb2.RegisterMemberRequest(
            name=name, incarnation="1", timeout_ms=PATIENT_MS, roles=["journal"], labels=labels
        )
        epoch: int = stub.Register(asked, timeout=5).epoch
        beat = members_pb2.MemberHeartbeatRequest(name=name, epoch=epoch, applied_revision=epoch)
        assert not stub.Heartbeat(beat, timeout=5).fenced
    return epoch


def test_shards_are_shown_now_and_as_they_were(cluster: Started) -> None:
    """At every node; before another leader was elected the segment had its first; before that there was no shard."""
    created = said(cluster, "journal", "create", "orders", "--copies", "2", "--min-in-sync", "1", node=1)
    assert (created["name"], created["start_offset"], created["end_offset"]) == ("orders/0", 0, None)
    assert sorted(created["copies"]) == ["store.1", "store.2"]
    (shard,) = listed(cluster, "journal", "list", node=2)
    assert (shard["name"], shard["replication"], shard["segments"], shard["deleting"]) == ("orders", 2, 1, False)
    (other,) = set(created["copies"]) - {created["leader"]}
    elected = said(cluster, "journal", "elect", "orders/0", "--member", other)
    assert (elected["leader"], elected["leader_epoch"] > created["leader_epoch"]) == (other, True)
    assert said(cluster, "journal", "describe", "orders", node=2) == [elected]
    then = str(elected["leader_epoch"])
    assert said(cluster, "at", then, "journal", "describe", "orders", node=2) == [created]
    now, before = (said(cluster, "journal", "why", "orders/0", *words, node=1) for words in ((), ("--at", then)))
    assert (now["leader_epoch"], before["leader_epoch"]) == (elected["leader_epoch"], created["leader_epoch"])
    assert now["explanation"] != before["explanation"]
    said(cluster, "journal", "delete", "orders", node=1)
    assert listed(cluster, "journal", "list")[0]["deleting"]
    assert not listed(cluster, "at", then, "journal", "list")[0]["deleting"]
    assert listed(cluster, "journal", "list", "--at", str(shard["epoch"])) == []
    table = quorate("journal", "list", "--node", cluster.nodes[0]["http"]).stdout.splitlines()
    assert table[0].split()[:2] == ["shard", "epoch"]
    assert [line.endswith("is to go") for line in table if line.startswith("orders ")] == [True]


def test_what_would_be_how_it_is_and_what_happens(cluster: Started) -> None:
    """Of a shard on two stores: who would lead it without one of them, and nobody without both; its health before and
    after one is gone; all that happened to it, from its first revision on.
    """
    for name in ("pair.1", "pair.2"):
        registered(cluster, name, pair="yes")
    words = ("--copies", "2", "--min-in-sync", "2", "--require", "pair=yes")
    created = said(cluster, "journal", "create", "pay", *words)
    leader = created["leader"]
    (other,) = set(created["copies"]) - {leader}
    (row,) = said(cluster, "journal", "whatif", "--member", leader, node=1)
    assert (row["segment"], row["leader"], row["would_lead"]) == ("pay/0", leader, other)
    assert f"{leader}, which led it, is fenced" in row["explanation"]
    assert said(cluster, "journal", "whatif", "--member", other) == []
    both = quorate("journal", "whatif", "--member", leader, "--member", other, "--node", cluster.nodes[2]["http"])
    assert (both.returncode, "nobody" in both.stdout) == (1, True)
    assert "pay/0" not in [one["segment"] for one in said(cluster, "journal", "health", node=1)["at_risk"]]

    said(cluster, "members", "forget", leader, "--force")
    address = cluster.nodes[2]["http"]
    health = quorate("journal", "health", "-o", "json", "--node", address)
    found = json.loads(health.stdout)
    assert (health.returncode, found["level"], found["below_min_in_sync"]) == (1, "red", 1)
    (risk,) = (one for one in found["at_risk"] if one["segment"] == "pay/0")
    assert "too few in sync" in risk["reasons"]

    since = ["--revision", str(created["leader_epoch"]), "-o", "json", "--node", address]
    watch = subprocess.Popen([*QUORATE, "journal", "watch", "pay", *since], stdout=subprocess.PIPE, env=os.environ)
    try:
        assert watch.stdout is not None
        changes = (json.loads(line) for line in watch.stdout)
        first, elected = next(changes), next(one for one in changes if f"{other} leads" in one["what"])
        said(cluster, "journal", "delete", "pay")
        last = next(one for one in changes if one["name"] == "pay")
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=20)
    assert first["revision"] == created["leader_epoch"] < elected["revision"] < last["revision"]
    assert (elected["name"], "is to go" in last["what"]) == ("pay/0", True)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("describe", "nobody"), 1, "there is no such shard"),
        (("why", "nobody/0"), 1, "there is no such shard"),
        (("describe",), 2, "of what?"),
        (("list", "orders"), 2, "takes no name"),
        (("health", "--at", "3"), 2, "is asked of list, describe, why"),
        (("whatif", "--member", "nobody"), 1, "UnknownMember: There is no member 'nobody'"),
    ],
)
def test_what_cannot_be_answered_is_said(cluster: Started, words: tuple[str, ...], status: int, told: str) -> None:
    """Wrong usage ends with 2, what is not there with 1."""
    done = quorate("journal", *words, "--node", cluster.nodes[0]["http"])
    assert (done.returncode, told in done.stderr) == (status, True), done.stderr
