"""``quorate journal`` on three real nodes: what it makes, and what it shows, now and as it was."""

from collections.abc import Iterator

import grpc
import pytest

from quorate.gateway.grpc.pb import members_pb2
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.http.answers import Done
from quorate.gateway.http.writing import FeatureBody
from tests.clusters import Started, quorate, said, up

PATIENT_MS = 600_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes at feature level 2, and two members that hold copies."""
    with up(tmp_path_factory.mktemp("journal") / "c") as started:
        started.node().send("PUT", "/v1/feature", FeatureBody(level=2), Done)
        with grpc.insecure_channel(started.nodes[0]["grpc"]) as channel:
            stub = MembersStub(channel)
            for name in ("store.1", "store.2"):
                asked = members_pb2.RegisterMemberRequest(
                    name=name, incarnation="1", timeout_ms=PATIENT_MS, roles=["journal"]
                )
                epoch = stub.Register(asked, timeout=5).epoch
                beat = members_pb2.MemberHeartbeatRequest(name=name, epoch=epoch, applied_revision=epoch)
                assert not stub.Heartbeat(beat, timeout=5).fenced
        yield started


def test_shards_are_shown_now_and_as_they_were(cluster: Started) -> None:
    """At every node; before another leader was elected the segment had its first; before that there was no shard."""
    created = said(cluster, "journal", "create", "orders", "--copies", "2", "--min-in-sync", "1", node=1)
    assert (created["name"], created["start_offset"], created["end_offset"]) == ("orders/0", 0, None)
    assert sorted(created["copies"]) == ["store.1", "store.2"]
    (shard,) = said(cluster, "journal", "list", node=2)
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
    assert said(cluster, "journal", "list")[0]["deleting"]
    assert not said(cluster, "at", then, "journal", "list")[0]["deleting"]
    assert said(cluster, "journal", "list", "--at", str(shard["epoch"])) == []
    table = quorate("journal", "list", "--node", cluster.nodes[0]["http"]).stdout.splitlines()
    assert table[0].split()[:2] == ["shard", "epoch"]
    assert table[1].endswith("is to go")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("describe", "nobody"), 1, "there is no such shard"),
        (("why", "nobody/0"), 1, "there is no such shard"),
        (("describe",), 2, "of what?"),
        (("list", "orders"), 2, "takes no name"),
        (("health", "--at", "3"), 2, "is asked of list, describe, why"),
    ],
)
def test_what_cannot_be_answered_is_said(cluster: Started, words: tuple[str, ...], status: int, told: str) -> None:
    """Wrong usage ends with 2, what is not there with 1."""
    done = quorate("journal", *words, "--node", cluster.nodes[0]["http"])
    assert (done.returncode, told in done.stderr) == (status, True), done.stderr
