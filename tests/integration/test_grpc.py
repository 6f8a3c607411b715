"""gRPC on real nodes: etcd's API through a leader and a follower, health, reflection, and a leader that dies."""

import queue
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from quorate.events import LeaseEnded, decode
from quorate.gateway.grpc.pb import cluster_pb2, cluster_pb2_grpc, rpc_pb2_grpc
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate_projections.mirror.settings import EVENTS_TOPIC
from tests.clusters import Started, until, up
from tests.fuzz.fuzz_grpc_port import hammer

pytestmark = pytest.mark.integration

WAIT_S = 10.0


class Node:
    """One node, by etcd's services."""

    def __init__(self, address: str, kafka: str) -> None:
        self.kafka = kafka
        self.channel = channel = grpc.insecure_channel(address)
        self.kv = rpc_pb2_grpc.KVStub(channel)
        self.lease = rpc_pb2_grpc.LeaseStub(channel)
        self.maintenance = rpc_pb2_grpc.MaintenanceStub(channel)
        self.cluster = rpc_pb2_grpc.ClusterStub(channel)
        self.ours = cluster_pb2_grpc.ClusterStub(channel)

    def put(self, key: bytes, value: bytes, **more: Any) -> int:
        """The revision."""
        revision: int = self.kv.Put(pb.PutRequest(key=key, value=value, **more), timeout=WAIT_S).header.revision
        return revision

    def get(self, key: bytes, **more: Any) -> list[bytes]:
        """The values."""
        found = self.kv.Range(pb.RangeRequest(key=key, **more), timeout=WAIT_S)
        return [one.value for one in found.kvs]

    def leader(self) -> int:
        number: int = self.ours.Status(cluster_pb2.StatusRequest(), timeout=WAIT_S).leader_id
        return number


class Watching:
    """A watch stream; requests go in, answers come out."""

    def __init__(self, node: Node) -> None:
        self._asked: queue.Queue[pb.WatchRequest | None] = queue.Queue()
        self.answers = rpc_pb2_grpc.WatchStub(node.channel).Watch(iter(self._asked.get, None), timeout=60)

    def watch(self, key: bytes, **more: Any) -> None:
        self._asked.put(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=key, **more)))
        assert next(self.answers).created

    def events(self, count: int) -> list[tuple[int, bytes]]:
        """Revision and value of the next."""
        told: list[tuple[int, bytes]] = []
        while len(told) < count:
            told += [(event.kv.mod_revision, event.kv.value) for event in next(self.answers).events]
        return told

    def end(self) -> None:
        self._asked.put(None)


@contextmanager
def three(folder: Path) -> Iterator[tuple[Started, list[Node]]]:
    """A cluster; the leader first."""
    with up(folder) as cluster:
        nodes = [Node(node["grpc"], node["kafka"]) for node in cluster.nodes]
        leader = nodes[0].leader()
        nodes.insert(0, nodes.pop(leader - 1))
        try:
            yield cluster, nodes
        finally:
            for node in nodes:
                node.channel.close()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """The leader, and two followers."""
    with three(tmp_path_factory.mktemp("grpc") / "c") as (_, found):
        yield found


def refused(ask: Callable[[], object]) -> tuple[grpc.StatusCode, str | None]:
    """How a call fails."""
    with pytest.raises(grpc.RpcError) as error:
        ask()
    return error.value.code(), error.value.details()


def test_every_node_writes_and_reads_what_any_wrote(nodes: list[Node]) -> None:
    """A value put at one node is read at once at every other, at its revision and at those before."""
    revisions = [node.put(b"each", b"%d" % number) for number, node in enumerate(nodes)]
    for node in nodes:
        assert node.get(b"each") == [b"2"]
        assert node.get(b"each", serializable=True)
        for number, revision in enumerate(revisions):
            assert node.get(b"each", revision=revision) == [b"%d" % number]


@pytest.mark.parametrize("at", [0, 1])
def test_a_transaction_is_one_revision(nodes: list[Node], at: int) -> None:
    """It compares, does all of it, and reads what it wrote, through a leader and a follower."""
    node, key = nodes[at], b"txn%d" % at
    free = pb.Compare(key=key, target=pb.Compare.CREATE, create_revision=0)
    take = pb.TxnRequest(
        compare=[free],
        success=[
            pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"mine")),
            pb.RequestOp(request_range=pb.RangeRequest(key=key)),
        ],
        failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
    )
    first, second = (node.kv.Txn(take, timeout=WAIT_S) for _ in range(2))
    assert (first.succeeded, second.succeeded) == (True, False)
    assert first.responses[1].response_range.kvs[0].mod_revision == first.header.revision
    assert second.responses[0].response_range.kvs[0].create_revision == first.header.revision


@pytest.mark.parametrize("at", [0, 1])
def test_a_watch_tells_all_from_its_beginning_on(nodes: list[Node], at: int) -> None:
    """What was and what comes, put through any node, once each and in order."""
    key = b"watch%d" % at
    before = [(nodes[number % 3].put(key, b"%d" % number), b"%d" % number) for number in range(5)]
    watching = Watching(nodes[at])
    watching.watch(key, start_revision=before[0][0])
    assert watching.events(5) == before
    after = [(nodes[number % 3].put(key, b"%d" % number), b"%d" % number) for number in range(5, 10)]
    assert watching.events(5) == after
    watching.end()


@pytest.mark.parametrize("at", [0, 1])
def test_a_lease_holds_its_keys(nodes: list[Node], at: int) -> None:
    """Granted at one node it is known to all; revoked, its keys are gone everywhere."""
    node = nodes[at]
    lease = node.lease.LeaseGrant(pb.LeaseGrantRequest(TTL=60), timeout=WAIT_S).ID
    nodes[2].put(b"held", b"x", lease=lease)
    beats = list(node.lease.LeaseKeepAlive(iter([pb.LeaseKeepAliveRequest(ID=lease)]), timeout=WAIT_S))
    assert [beat.TTL for beat in beats] == [60]
    asked = nodes[2].lease.LeaseTimeToLive(pb.LeaseTimeToLiveRequest(ID=lease, keys=True), timeout=WAIT_S)
    assert (asked.grantedTTL, list(asked.keys)) == (60, [b"held"])
    node.lease.LeaseRevoke(pb.LeaseRevokeRequest(ID=lease), timeout=WAIT_S)
    assert nodes[1].get(b"held") == []


def _under(node: Node, lease: int, count: int, rest: bytes) -> None:
    """So many keys with long names, put under a lease that is kept meanwhile."""
    for at in range(0, count, 100):
        puts = [pb.PutRequest(key=b"long/%04d/" % number + rest, lease=lease) for number in range(at, at + 100)]
        node.kv.Txn(pb.TxnRequest(success=[pb.RequestOp(request_put=put) for put in puts]), timeout=WAIT_S)
        next(node.lease.LeaseKeepAlive(iter([pb.LeaseKeepAliveRequest(ID=lease)]), timeout=WAIT_S))


@pytest.mark.parametrize(("count", "rest"), [(1_500, b"k" * 500), (1_500, b"\xe9" * 100)])
def test_a_lease_whose_keys_have_long_names_ends_on_every_node(nodes: list[Node], count: int, rest: bytes) -> None:
    """Revoked at a follower and expired, in one entry each; and a stock reader of the log gets all of it."""
    everything = pb.RangeRequest(key=b"long/", range_end=b"long0", count_only=True, serializable=True)
    for ttl_s in 600, 4:
        lease = nodes[1].lease.LeaseGrant(pb.LeaseGrantRequest(TTL=ttl_s), timeout=WAIT_S).ID
        _under(nodes[1], lease, count, rest)
        assert nodes[1].kv.Range(everything, timeout=WAIT_S).count == count
        if ttl_s == 600:
            nodes[1].lease.LeaseRevoke(pb.LeaseRevokeRequest(ID=lease), timeout=WAIT_S)
        until(lambda: not any(node.kv.Range(everything, timeout=WAIT_S).count for node in nodes), "all keys gone")
        ended = _ends(nodes[2].kafka)
        assert [(end.reason, end.keys) for end in ended if end.lease == lease] == [
            ("revoked" if ttl_s == 600 else "expired", count)
        ]


def _ends(kafka: str) -> list[LeaseEnded]:
    """Of leases, as a stock consumer reads them from the log's beginning."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "none", "enable.partition.eof": True})
    consumer.assign([TopicPartition(EVENTS_TOPIC, 0, 0)])
    found: list[LeaseEnded] = []
    try:
        while True:
            record = consumer.poll(WAIT_S)
            assert record is not None
            if error := record.error():
                assert error.code() == KafkaError._PARTITION_EOF
                return found
            event = decode(record.value() or b"")
            if isinstance(event, LeaseEnded):
                found.append(event)
    finally:
        consumer.close()


def test_errors_are_etcds(nodes: list[Node]) -> None:
    """Code and text, which clients match; what is not served is said so."""
    node = nodes[1]
    gone = refused(lambda: node.lease.LeaseRevoke(pb.LeaseRevokeRequest(ID=1), timeout=WAIT_S))
    assert gone == (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
    empty = refused(lambda: node.put(b"", b"x"))
    assert empty == (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: key is not provided")
    large = refused(lambda: node.put(b"a", b"x" * (1 << 20)))
    assert large == (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large")
    unserved: Callable[..., Any] = node.channel.unary_unary("/etcdserverpb.Maintenance/Defragment")
    assert refused(lambda: unserved(b"", timeout=WAIT_S))[0] is grpc.StatusCode.UNIMPLEMENTED


def test_a_node_says_who_it_is(nodes: list[Node]) -> None:
    """Members, status, health and the services that reflection lists; the same hash on every node."""
    members = nodes[1].cluster.MemberList(pb.MemberListRequest(), timeout=WAIT_S).members
    assert [member.ID for member in members] == [1, 2, 3]
    assert all(member.clientURLs[0].startswith("http://127.0.0.1:") for member in members)
    revision = nodes[0].put(b"hash", b"x")
    hashes = set()
    for node in nodes:
        assert node.get(b"hash") == [b"x"]
        status = node.maintenance.Status(pb.StatusRequest(), timeout=WAIT_S)
        assert status.leader == nodes[0].leader()
        hashes.add(node.maintenance.HashKV(pb.HashKVRequest(revision=revision), timeout=WAIT_S).hash)
        health = health_pb2_grpc.HealthStub(node.channel)
        checked = health.Check(health_pb2.HealthCheckRequest(service="etcdserverpb.KV"), timeout=WAIT_S)
        assert checked.status == health_pb2.HealthCheckResponse.SERVING
    assert len(hashes) == 1
    services = ProtoReflectionDescriptorDatabase(nodes[2].channel).get_services()
    served = {"etcdserverpb.KV", "etcdserverpb.Watch", "quorate.meta.v1.Cluster", "grpc.health.v1.Health"}
    assert served <= set(services)


def test_a_watch_at_a_follower_goes_on_when_the_leader_dies(tmp_path: Path) -> None:
    """Every acknowledged put is told, once and in order, though the node that decided it was killed."""
    with three(tmp_path / "c") as (cluster, (leader, follower, _)):
        watching = Watching(follower)
        watching.watch(b"k")
        told = [(leader.put(b"k", b"%d" % number), b"%d" % number) for number in range(5)]
        dead = leader.leader()
        psutil.Process(cluster.nodes[dead - 1]["pid"]).send_signal(signal.SIGKILL)
        until(lambda: follower.leader() not in (0, dead), "another leader")
        told += [(follower.put(b"k", b"%d" % number), b"%d" % number) for number in range(5, 10)]
        assert watching.events(10) == told
        watching.end()


def test_leadership_moves_when_it_is_asked_to(tmp_path: Path) -> None:
    """Asked of the leader, the named voter leads when the answer comes."""
    with three(tmp_path / "c") as (_, (leader, follower, _)):
        before = leader.leader()
        target = next(number for number in (1, 2, 3) if number != before)
        move = pb.MoveLeaderRequest(targetID=target)
        assert refused(lambda: follower.maintenance.MoveLeader(move, timeout=WAIT_S))[1] == "etcdserver: not leader"
        leader.maintenance.MoveLeader(move, timeout=WAIT_S)
        assert leader.leader() == target


def test_hostile_bytes_at_the_port_keep_nobody_waiting(tmp_path: Path) -> None:
    """Others are answered meanwhile, and the node does not grow: the fuzzer of the port for a while, from one seed."""
    with up(tmp_path / "cluster", nodes=1) as cluster:
        hammer(cluster, seconds=12, seed=16)
