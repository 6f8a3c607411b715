"""Every RPC and every kind of bad input: each gives the error that is its own, on the leader and on a follower, and
changes nothing: neither an offset nor the state's sum.
"""

import copy
import threading
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from quorate.cli.client import Node
from quorate.gateway.grpc.pb import cluster_pb2 as cluster
from quorate.gateway.grpc.pb import journal_pb2 as journal
from quorate.gateway.grpc.pb import members_pb2 as members
from quorate.gateway.grpc.pb import mqtt_pb2 as mqtt
from quorate.gateway.grpc.pb import offsets_pb2 as offsets
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.server import GrpcServer
from quorate.gateway.http.answers import StateHash
from tests.clusters import leader, up
from tests.unit.gateway.grpc.house import House
from tests.unit.gateway.grpc.peer import ended

WAYS: Final = ("leader", "follower")
DEADLINE_S: Final = 20.0
UNKNOWN: Final = 7_777_777
FAR: Final = 10**9
STREAMS: Final = (
    *("/Watch", "Lease/LeaseKeepAlive", "Members/Heartbeats"),
    "ServerReflection/ServerReflectionInfo",
)
MORE: Final = {"etcdserverpb.Watch/Watch": pb.WatchRequest(progress_request=pb.WatchProgressRequest())}
"""What is asked next on a stream that goes on, and is always answered."""

OK: Final = ("OK", "")
NO_KEY: Final = ("INVALID_ARGUMENT", "etcdserver: key is not provided")
NOT_FOUND: Final = ("INVALID_ARGUMENT", "etcdserver: key not found")
NO_LEASE: Final = ("NOT_FOUND", "etcdserver: requested lease not found")
FUTURE: Final = ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision")
TOO_LARGE: Final = ("INVALID_ARGUMENT", "etcdserver: request is too large")
BAD_TARGET: Final = ("FAILED_PRECONDITION", "etcdserver: bad leader transferee")
NOT_LEADER: Final = ("FAILED_PRECONDITION", "etcdserver: not leader")
Told = tuple[str, str]

EMPTY: Final[dict[str, Told]] = {
    "etcdserverpb.KV/Range": NO_KEY,
    "etcdserverpb.KV/Put": NO_KEY,
    "etcdserverpb.KV/DeleteRange": NO_KEY,
    "etcdserverpb.KV/Txn": OK,
    "etcdserverpb.KV/Compact": OK,
    "etcdserverpb.Watch/Watch": OK,
    "etcdserverpb.Lease/LeaseRevoke": NO_LEASE,
    "etcdserverpb.Lease/LeaseKeepAlive": OK,
    "etcdserverpb.Lease/LeaseTimeToLive": OK,
    "etcdserverpb.Lease/LeaseLeases": OK,
    "etcdserverpb.Cluster/MemberList": OK,
    "etcdserverpb.Maintenance/Alarm": OK,
    "etcdserverpb.Maintenance/Status": OK,
    "etcdserverpb.Maintenance/HashKV": OK,
    "etcdserverpb.Maintenance/MoveLeader": BAD_TARGET,
    "quorate.meta.v1.Cluster/Status": OK,
    "quorate.meta.v1.Members/Register": ("INVALID_ARGUMENT", "quorate: BadMemberName"),
    **dict.fromkeys(
        (f"quorate.meta.v1.Members/{name}" for name in ("Heartbeat", "Heartbeats", "Drain", "Unregister", "Describe")),
        ("NOT_FOUND", "quorate: UnknownMember"),
    ),
    **dict.fromkeys((f"quorate.meta.v1.Members/{name}" for name in ("List", "Watch")), OK),
    "quorate.meta.v1.Journal/CreateShard": ("INVALID_ARGUMENT", "quorate: BadShardName"),
    **dict.fromkeys(
        (f"quorate.meta.v1.Journal/{name}" for name in ("NextSegment", "Seal", "AlterInSync", "ElectLeader")),
        ("INVALID_ARGUMENT", "quorate: BadSegmentName"),
    ),
    **dict.fromkeys(
        (f"quorate.meta.v1.Journal/{name}" for name in ("DeleteShard", "Describe")),
        ("NOT_FOUND", "quorate: UnknownShard"),
    ),
    "quorate.meta.v1.Journal/AckDeleted": ("NOT_FOUND", "quorate: UnknownMember"),
    **dict.fromkeys((f"quorate.meta.v1.Journal/{name}" for name in ("List", "Health", "WhatIf", "Watch")), OK),
    "quorate.meta.v1.Mqtt/OpenSession": ("INVALID_ARGUMENT", "quorate: BadClient"),
    **dict.fromkeys(
        (f"quorate.meta.v1.Mqtt/{name}" for name in ("CloseSession", "PutSubscriptions", "Locate")),
        ("NOT_FOUND", "quorate: UnknownSession"),
    ),
    "quorate.meta.v1.Mqtt/Match": ("INVALID_ARGUMENT", "quorate: BadTopic"),
    "quorate.meta.v1.Mqtt/AcknowledgeWill": ("NOT_FOUND", "quorate: UnknownMember"),
    **dict.fromkeys((f"quorate.meta.v1.Mqtt/{name}" for name in ("List", "ListWills", "Watch")), OK),
    **dict.fromkeys(
        (f"quorate.meta.v1.Offsets/{name}" for name in ("Commit", "Fetch", "Delete")),
        ("INVALID_ARGUMENT", "quorate: BadGroup"),
    ),
    "quorate.meta.v1.Offsets/ListGroups": OK,
    "grpc.health.v1.Health/Check": OK,
    "grpc.health.v1.Health/List": OK,
    "grpc.health.v1.Health/Watch": OK,
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo": OK,
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": OK,
}
"""What an empty message is told. An empty LeaseGrant is a request: any number, the shortest time."""
METHODS: Final = (*EMPTY, "etcdserverpb.Lease/LeaseGrant")
WRITES: Final = ("etcdserverpb.KV/Put", "etcdserverpb.KV/DeleteRange", "etcdserverpb.KV/Txn")


def _txn(*success: dict[str, Any], **more: Any) -> pb.TxnRequest:
    return pb.TxnRequest(success=[pb.RequestOp(**fields) for fields in success], **more)


_LATE = pb.RangeRequest(key=b"a", revision=FAR)
_PUT = {"request_put": pb.PutRequest(key=b"b")}
_OF_NO_LEASE = pb.PutRequest(key=b"a", value=b"x", lease=UNKNOWN)
_TWO_VALUES = pb.PutRequest(key=b"a", value=b"x", ignore_value=True)
_CLEARED = pb.AlarmRequest(action=pb.AlarmRequest.DEACTIVATE, alarm=pb.NOSPACE)
WRONG: Final[tuple[tuple[str, Any, Told], ...]] = (
    ("KV/Range", pb.RangeRequest(key=b"no such key"), OK),
    ("KV/Range", _LATE, FUTURE),
    ("KV/Put", _OF_NO_LEASE, NO_LEASE),
    ("KV/Put", pb.PutRequest(key=b"no such key", ignore_value=True), NOT_FOUND),
    ("KV/Put", _TWO_VALUES, ("INVALID_ARGUMENT", "etcdserver: value is provided")),
    ("KV/DeleteRange", pb.DeleteRangeRequest(key=b"no such key"), OK),
    ("KV/DeleteRange", pb.DeleteRangeRequest(key=b"z", range_end=b"a"), OK),
    ("KV/Txn", _txn(_PUT, _PUT), ("INVALID_ARGUMENT", "etcdserver: duplicate key given in txn request")),
    ("KV/Txn", _txn(_PUT, {"request_put": _OF_NO_LEASE}), NO_LEASE),
    ("KV/Txn", _txn(_PUT, {"request_range": _LATE}), FUTURE),
    ("KV/Txn", _txn(_PUT, {}), NOT_FOUND),
    ("KV/Txn", _txn(_PUT, compare=[pb.Compare()]), NO_KEY),
    ("KV/Compact", pb.CompactionRequest(revision=FAR), FUTURE),
    ("Watch/Watch", pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=UNKNOWN)), OK),
    ("Watch/Watch", pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"a", start_revision=-5)), OK),
    ("Lease/LeaseGrant", pb.LeaseGrantRequest(TTL=FAR * FAR), ("OUT_OF_RANGE", "etcdserver: too large lease TTL")),
    ("Lease/LeaseRevoke", pb.LeaseRevokeRequest(ID=UNKNOWN), NO_LEASE),
    ("Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest(ID=UNKNOWN), OK),
    ("Lease/LeaseTimeToLive", pb.LeaseTimeToLiveRequest(ID=UNKNOWN, keys=True), OK),
    ("Maintenance/HashKV", pb.HashKVRequest(revision=FAR), FUTURE),
    ("Maintenance/MoveLeader", pb.MoveLeaderRequest(targetID=UNKNOWN), BAD_TARGET),
    ("Maintenance/Alarm", _CLEARED, ("UNIMPLEMENTED", "quorate: an alarm stands for as long as its cause; see status")),
)
"""Keys, leases, members and revisions that are not there, and what contradicts itself."""
EPOCH: Final = 1
"""Of no life, shard or session: an epoch is a revision, and others came first."""


LEASE: Final = 4711
"""One that is there."""


def _stale(name: str) -> Told:
    return "FAILED_PRECONDITION", f"quorate: {name}"


def _unknown(name: str) -> Told:
    return "NOT_FOUND", f"quorate: {name}"


_LED = journal.SegmentLeader(member="m", leader_epoch=EPOCH, member_epoch=EPOCH)
_IN_SYNC = [journal.InSyncCopy(member="m", member_epoch=EPOCH)]
_SECOND = members.RegisterMemberRequest(name="m", incarnation="2", timeout_ms=60_000)
_OPENING = mqtt.OpenSessionRequest(client="c", member="m", member_epoch=EPOCH, expiry_s=60)
_SUBSCRIBED = [mqtt.Subscription(filter="a/#", qos=1)]
_MOVED = offsets.CommitOffset(shard="s", offset=9, expected_offset=8)
_NOT_YET = offsets.CommitOffset(shard="s", offset=9, expected_revision=FAR)
STALE: Final[dict[str, tuple[Any, Told]]] = {
    "Members/Register": (_SECOND, ("ALREADY_EXISTS", "quorate: MemberExists")),
    "Members/Heartbeat": (members.MemberHeartbeatRequest(name="m", epoch=EPOCH), _stale("StaleMemberEpoch")),
    "Members/Heartbeats": (members.MemberHeartbeatRequest(name="m", epoch=EPOCH), _stale("StaleMemberEpoch")),
    "Members/Drain": (members.DrainMemberRequest(name="m", epoch=EPOCH), _stale("StaleMemberEpoch")),
    "Members/Unregister": (members.UnregisterMemberRequest(name="m", epoch=EPOCH), _stale("StaleMemberEpoch")),
    "Journal/CreateShard": (journal.CreateShardRequest(shard="s", replication=3), ("ALREADY_EXISTS", "quorate: Shard")),
    "Journal/NextSegment": (journal.NextSegmentRequest(shard="s", leader=_LED), _stale("StaleLeaderEpoch")),
    "Journal/Seal": (journal.SealRequest(segment="s/0", leader=_LED), _stale("StaleLeaderEpoch")),
    "Journal/AlterInSync": (
        journal.AlterInSyncRequest(segment="s/0", set_epoch=EPOCH, in_sync=_IN_SYNC, leader=_LED),
        _stale("StaleLeaderEpoch"),
    ),
    "Journal/DeleteShard": (journal.DeleteShardRequest(shard="s", epoch=EPOCH), _stale("StaleShardEpoch")),
    "Journal/AckDeleted": (
        journal.AckDeletedRequest(segment="s/0", shard_epoch=EPOCH, member="m", member_epoch=EPOCH),
        _stale("StaleMemberEpoch"),
    ),
    "Mqtt/OpenSession": (_OPENING, _stale("StaleMemberEpoch")),
    "Mqtt/CloseSession": (mqtt.CloseSessionRequest(client="c", session_epoch=EPOCH), _stale("StaleSessionEpoch")),
    "Mqtt/PutSubscriptions": (
        mqtt.PutSubscriptionsRequest(client="c", session_epoch=EPOCH, added=_SUBSCRIBED),
        _stale("StaleSessionEpoch"),
    ),
    "Mqtt/AcknowledgeWill": (
        mqtt.AcknowledgeWillRequest(will=UNKNOWN, member="m", member_epoch=EPOCH),
        _stale("StaleMemberEpoch"),
    ),
    "Offsets/Commit": (offsets.CommitOffsetsRequest(group="g", positions=[_MOVED]), _stale("StaleOffset")),
}
"""An epoch, or a position, that is over, for each call that names one; and what is there already, and is another."""
ABSENT: Final[dict[str, tuple[Any, Told]]] = {
    "Members/Register": (
        members.RegisterMemberRequest(name="n", incarnation="1", roles=["no role!"], timeout_ms=60_000),
        ("INVALID_ARGUMENT", "quorate: BadMemberRole"),
    ),
    "Members/Heartbeat": (members.MemberHeartbeatRequest(name="n", epoch=UNKNOWN), _unknown("UnknownMember")),
    "Members/Heartbeats": (members.MemberHeartbeatRequest(name="n", epoch=UNKNOWN), _unknown("UnknownMember")),
    "Members/Drain": (members.DrainMemberRequest(name="n"), _unknown("UnknownMember")),
    "Members/Unregister": (members.UnregisterMemberRequest(name="n", force=True), _unknown("UnknownMember")),
    "Members/List": (members.ListMembersRequest(selector=members.MemberSelector(roles=["none"]), after="z"), OK),
    "Members/Describe": (members.DescribeMemberRequest(name="n"), _unknown("UnknownMember")),
    "Members/Watch": (members.WatchMembersRequest(start_revision=1), OK),
    "Journal/CreateShard": (
        journal.CreateShardRequest(shard="t", replication=1, require={"rack": "none"}),
        _stale("NotEnoughMembers"),
    ),
    "Journal/NextSegment": (journal.NextSegmentRequest(shard="t", leader=_LED), _unknown("UnknownShard")),
    "Journal/Seal": (journal.SealRequest(segment="s/7", leader=_LED), _unknown("UnknownSegment")),
    "Journal/AlterInSync": (
        journal.AlterInSyncRequest(segment="t/0", in_sync=_IN_SYNC, leader=_LED),
        _unknown("UnknownShard"),
    ),
    "Journal/ElectLeader": (journal.ElectLeaderRequest(segment="t/0"), _unknown("UnknownShard")),
    "Journal/DeleteShard": (journal.DeleteShardRequest(shard="t", epoch=UNKNOWN), _unknown("UnknownShard")),
    "Journal/AckDeleted": (
        journal.AckDeletedRequest(segment="t/0", member="n", member_epoch=UNKNOWN),
        _unknown("UnknownMember"),
    ),
    "Journal/Describe": (journal.DescribeShardRequest(shard="t"), _unknown("UnknownShard")),
    "Journal/List": (journal.ListShardsRequest(after="z"), OK),
    "Journal/Health": (journal.StorageHealthRequest(), OK),
    "Journal/WhatIf": (journal.JournalWhatIfRequest(members=["n"]), _unknown("UnknownMember")),
    "Journal/Watch": (journal.WatchJournalRequest(start_revision=1), OK),
    "Mqtt/OpenSession": (
        mqtt.OpenSessionRequest(client="d", member="n", member_epoch=UNKNOWN),
        _unknown("UnknownMember"),
    ),
    "Mqtt/CloseSession": (mqtt.CloseSessionRequest(client="d"), _unknown("UnknownSession")),
    "Mqtt/PutSubscriptions": (
        mqtt.PutSubscriptionsRequest(client="d", added=_SUBSCRIBED),
        _unknown("UnknownSession"),
    ),
    "Mqtt/Match": (mqtt.MatchRequest(topic="of/nobody"), OK),
    "Mqtt/Locate": (mqtt.LocateRequest(client="d"), _unknown("UnknownSession")),
    "Mqtt/List": (mqtt.ListSessionsRequest(member="n"), OK),
    "Mqtt/ListWills": (mqtt.ListWillsRequest(member="n"), OK),
    "Mqtt/AcknowledgeWill": (
        mqtt.AcknowledgeWillRequest(will=UNKNOWN, member="n", member_epoch=UNKNOWN),
        _unknown("UnknownMember"),
    ),
    "Mqtt/Watch": (mqtt.WatchSessionsRequest(start_revision=1), OK),
    "Offsets/Commit": (offsets.CommitOffsetsRequest(group="h", positions=[_NOT_YET]), _stale("StaleOffset")),
    "Offsets/Fetch": (offsets.FetchOffsetsRequest(group="h", shards=["t"]), OK),
    "Offsets/ListGroups": (offsets.ListGroupsRequest(after="z"), OK),
    "Offsets/Delete": (offsets.DeleteOffsetsRequest(group="h", shards=["t"]), OK),
}
"""Members, shards, segments, clients, wills and groups that nobody made."""
VALID: Final[dict[str, Any]] = {
    "etcdserverpb.KV/Range": pb.RangeRequest(key=b"a"),
    "etcdserverpb.KV/Put": pb.PutRequest(key=b"a", value=b"2", lease=LEASE),
    "etcdserverpb.KV/DeleteRange": pb.DeleteRangeRequest(key=b"a", range_end=b"b"),
    "etcdserverpb.KV/Txn": _txn(_PUT),
    "etcdserverpb.KV/Compact": pb.CompactionRequest(revision=1),
    "etcdserverpb.Watch/Watch": pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"a")),
    "etcdserverpb.Lease/LeaseGrant": pb.LeaseGrantRequest(TTL=600, ID=LEASE + 1),
    "etcdserverpb.Lease/LeaseRevoke": pb.LeaseRevokeRequest(ID=LEASE),
    "etcdserverpb.Lease/LeaseKeepAlive": pb.LeaseKeepAliveRequest(ID=LEASE),
    "etcdserverpb.Lease/LeaseTimeToLive": pb.LeaseTimeToLiveRequest(ID=LEASE),
    "etcdserverpb.Lease/LeaseLeases": pb.LeaseLeasesRequest(),
    "etcdserverpb.Cluster/MemberList": pb.MemberListRequest(),
    "etcdserverpb.Maintenance/Alarm": pb.AlarmRequest(),
    "etcdserverpb.Maintenance/Status": pb.StatusRequest(),
    "etcdserverpb.Maintenance/HashKV": pb.HashKVRequest(),
    "etcdserverpb.Maintenance/MoveLeader": pb.MoveLeaderRequest(),
    "quorate.meta.v1.Cluster/Status": cluster.StatusRequest(),
    **{f"quorate.meta.v1.{method}": request for method, (request, _) in {**ABSENT, **STALE}.items()},
    "quorate.meta.v1.Members/Register": members.RegisterMemberRequest(name="w", incarnation="1", timeout_ms=60_000),
    "quorate.meta.v1.Members/Drain": members.DrainMemberRequest(name="m"),
    "quorate.meta.v1.Members/Unregister": members.UnregisterMemberRequest(name="m", force=True),
    "quorate.meta.v1.Members/Describe": members.DescribeMemberRequest(name="m"),
    "quorate.meta.v1.Journal/CreateShard": journal.CreateShardRequest(shard="w", replication=1),
    "quorate.meta.v1.Journal/ElectLeader": journal.ElectLeaderRequest(segment="s/0", member="m"),
    "quorate.meta.v1.Journal/DeleteShard": journal.DeleteShardRequest(shard="s"),
    "quorate.meta.v1.Journal/Describe": journal.DescribeShardRequest(shard="s"),
    "quorate.meta.v1.Mqtt/CloseSession": mqtt.CloseSessionRequest(client="c", end=True, administrator=True),
    "quorate.meta.v1.Mqtt/Locate": mqtt.LocateRequest(client="c"),
    "quorate.meta.v1.Offsets/Commit": offsets.CommitOffsetsRequest(
        group="g", positions=[offsets.CommitOffset(shard="s", offset=2)]
    ),
    "quorate.meta.v1.Offsets/Delete": offsets.DeleteOffsetsRequest(group="g", shards=["s"]),
    "grpc.health.v1.Health/Check": health_pb2.HealthCheckRequest(),
    "grpc.health.v1.Health/List": health_pb2.HealthListRequest(),
    "grpc.health.v1.Health/Watch": health_pb2.HealthCheckRequest(),
    **dict.fromkeys(
        (method for method in EMPTY if method.endswith("/ServerReflectionInfo")),
        reflection_pb2.ServerReflectionRequest(list_services=""),
    ),
}
"""A request for each method: it would be done, but for some of the journal and of sessions, whose epochs are over."""
SERVICES: Final = ("Members", "Journal", "Mqtt", "Offsets")


class Place:
    """One node: asked by bytes, and looked at."""

    def __init__(self, grpc_address: str, http_address: str) -> None:
        self._address = grpc_address
        self._channel = grpc.insecure_channel(grpc_address, options=[("grpc.max_send_message_length", -1)])
        self._node = Node(http_address)

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def seen(self) -> tuple[int, str | None]:
        """How far it is, and what its state adds up to, with all that was written anywhere before."""
        found = self._node.get("/v1/state-hash", StateHash, level="linearizable")
        return found.offset, found.hash

    def answer(self, method: str, request: Any) -> bytes:
        """Of a service of ours; it must be answered."""
        ask: Any = self._channel.unary_unary(f"/quorate.meta.v1.{method}")
        answer: bytes = ask(request.SerializeToString(), timeout=DEADLINE_S, wait_for_ready=True)
        return answer

    def late(self, method: str) -> tuple[int, str]:
        """How a call ends whose deadline was over when it came; no client of gRPC would send it."""
        return ended(self._address, f"/{method}", grpc_timeout=b"1n")

    def ask(self, method: str, data: bytes) -> Told:
        """How it ends. A stream: its first answer, or its end; one that goes on is asked something more."""
        path = f"/{method}"
        try:
            if method.endswith(STREAMS):
                open_: Any = self._channel.stream_stream(path)
                more = [MORE[method].SerializeToString()] if method in MORE else []
                call = open_(iter((data, *more)), timeout=DEADLINE_S)
                next(call, None)
                call.cancel()
            else:
                ask: Any = self._channel.unary_unary(path)
                ask(data, timeout=DEADLINE_S, wait_for_ready=True)
        except grpc.RpcError as error:
            return error.code().name, error.details() or ""
        return OK


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """A leader and a follower that hold a key."""
    with up(tmp_path_factory.mktemp("bad") / "c") as three:
        led = leader(three)
        nodes = {"leader": three.nodes[led], "follower": three.nodes[(led + 1) % 3]}
        found = {way: Place(node["grpc"], node["http"]) for way, node in nodes.items()}
        put = pb.PutRequest(key=b"a", value=b"1").SerializeToString()
        assert found["follower"].ask("etcdserverpb.KV/Put", put) == OK
        yield found
        for place in found.values():
            place.close()


@pytest.fixture(scope="module")
def settled(places: dict[str, Place]) -> Iterator[dict[str, Place]]:
    """The same with a member that is heard, its shard, a client's session and a group's position."""
    place = places["leader"]
    register = members.RegisterMemberRequest(name="m", incarnation="1", roles=["journal", "mqtt"], timeout_ms=600_000)
    epoch = members.RegisterMemberResponse.FromString(place.answer("Members/Register", register)).epoch
    beat = members.MemberHeartbeatRequest(name="m", epoch=epoch, applied_revision=epoch)
    session = mqtt.OpenSessionRequest(client="c", member="m", member_epoch=epoch, expiry_s=4_000_000_000)
    position = offsets.CommitOffset(shard="s", offset=1)
    lease = pb.LeaseGrantRequest(TTL=600_000, ID=LEASE).SerializeToString()
    assert place.ask("etcdserverpb.Lease/LeaseGrant", lease) == OK
    for method, request in (
        ("Members/Heartbeat", beat),
        ("Journal/CreateShard", journal.CreateShardRequest(shard="s", replication=1)),
        ("Mqtt/OpenSession", session),
        ("Offsets/Commit", offsets.CommitOffsetsRequest(group="g", positions=[position])),
    ):
        place.answer(method, request)
    over = threading.Event()

    def beating() -> None:
        while not over.wait(5):
            place.answer("Members/Heartbeat", beat)

    thread = threading.Thread(target=beating)
    thread.start()
    yield places
    over.set()
    thread.join()


def unchanged(place: Place, method: str, data: bytes, expected: Told) -> None:
    """It ends so, and nothing is different afterwards."""
    before = place.seen()
    told = place.ask(method, data)
    assert told[0] == expected[0], (method, told)
    assert told[1].startswith(expected[1]), (method, told)
    assert place.seen() == before, (method, told)


def expected_there(way: str, method: str, expected: Told) -> Told:
    """A follower says that it is none before it looks whom it should hand over to."""
    return NOT_LEADER if method.endswith("/MoveLeader") and way == "follower" else expected


def padded(size: int, number: int = 1000) -> bytes:
    """A field that no message has, of so many bytes."""
    tag, length = number << 3 | 2, size
    return b"".join(_varint(one) for one in (tag, length)) + bytes(size)


def _bits_32(number: int) -> bytes:
    """A field of a wire type that no request has."""
    return _varint(number << 3 | 5) + b"abcd"


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", EMPTY)
def test_an_empty_message(method: str, way: str, places: dict[str, Place]) -> None:
    """It asks for nothing, or lacks what it needs; so does one of fields that nobody knows."""
    expected = expected_there(way, method, EMPTY[method])
    unchanged(places[way], method, b"", expected)
    unchanged(places[way], method, b"".join(map(_bits_32, range(1000, 1016))), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_one_field_of_another_wire_type(method: str, way: str, settled: dict[str, Place]) -> None:
    """The request is refused, though it would be done without that field; so for every field of every request."""
    for field in VALID[method].DESCRIPTOR.fields:
        request = copy.deepcopy(VALID[method])
        request.ClearField(field.name)
        expected = ("INTERNAL", "grpc: error unmarshalling request: proto: wrong wireType = 5 for field ")
        unchanged(settled[way], method, request.SerializeToString() + _bits_32(field.number), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_bytes_that_are_no_message(method: str, way: str, places: dict[str, Place]) -> None:
    """They are called so, by the name of the message that should have come."""
    for data in (b"\xff\xff\xff\xff", b"\x0a\x7fshort", b"\x00", b"\x0f" + bytes(40)):
        unchanged(places[way], method, data, ("INTERNAL", "grpc: error unmarshalling request"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_a_huge_message(method: str, way: str, places: dict[str, Place]) -> None:
    """It is not read at all; a write that is only too large is refused in etcd's words."""
    unchanged(places[way], method, padded(3 * 1024 * 1024), ("RESOURCE_EXHAUSTED", ""))
    if method in WRITES:
        for size in (1024 * 1024 + 1, 2 * 1024 * 1024 - 100):
            unchanged(places[way], method, padded(size), TOO_LARGE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("method", "request_", "expected"), WRONG)
def test_what_is_not_there(method: str, request_: Any, expected: Told, way: str, places: dict[str, Place]) -> None:
    """Unknown keys, leases, members and revisions, and requests that contradict themselves."""
    expected = expected_there(way, method, expected)
    unchanged(places[way], f"etcdserverpb.{method}", request_.SerializeToString(), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        pytest.param(method, *row, id=f"{method} {of}")
        for of, rows in (("stale", STALE), ("unknown", ABSENT))
        for method, row in rows.items()
    ],
)
def test_what_is_over_or_nobody_made(
    method: str, request_: Any, expected: Told, way: str, settled: dict[str, Place]
) -> None:
    """Epochs that are over, and what is not there, of every call of our own services."""
    unchanged(settled[way], f"quorate.meta.v1.{method}", request_.SerializeToString(), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_a_call_that_comes_after_its_deadline(method: str, way: str, places: dict[str, Place]) -> None:
    """It is told so, whatever it asks."""
    before = places[way].seen()
    assert places[way].late(method) == (4, "context deadline exceeded")
    assert places[way].seen() == before


@pytest.mark.parametrize("way", WAYS)
def test_services_and_methods_that_are_not_there(way: str, places: dict[str, Place]) -> None:
    """UNIMPLEMENTED, or an unknown service in the words of health."""
    for method in ("etcdserverpb.KV/Nothing", "etcdserverpb.Auth/AuthStatus", "no.such.Service/Call", "nothing"):
        unchanged(places[way], method, b"", ("UNIMPLEMENTED", ""))
    unknown = health_pb2.HealthCheckRequest(service="no such service").SerializeToString()
    unchanged(places[way], "grpc.health.v1.Health/Check", unknown, ("NOT_FOUND", "quorate: no service"))


def test_every_method_is_in_the_tables() -> None:
    """Whatever is served is asked wrongly here."""
    served = {
        f"{service.full_name}/{method}"
        for service, methods in GrpcServer(House().context)._services.items()
        for method in methods
    }
    assert served == set(METHODS) == set(VALID)
    ours = {method.removeprefix("quorate.meta.v1.") for method in served}
    assert {method for method in ours if method.startswith(SERVICES)} == set(ABSENT)
