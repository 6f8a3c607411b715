"""KV, leases, members, maintenance and health on a real controller: what they answer and how they refuse."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc_health.v1 import health_pb2

from quorate.controller import Answered
from quorate.gateway.grpc.calls import CROWDED
from quorate.gateway.grpc.cluster import ClusterService
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.health import HealthService
from quorate.gateway.grpc.kv import KvService, resource
from quorate.gateway.grpc.leases import LeaseService
from quorate.gateway.grpc.members import MemberService
from quorate.gateway.grpc.pb import cluster_pb2, members_pb2
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.metadata.commands import Command, HearMember, LeaseIs, MemberIs
from tests.unit.gateway.grpc.house import Caller, House

ALL: dict[str, Any] = {"key": b"\x00", "range_end": b"\x00"}


class Kv:
    """The KV service of a house, called as if it were not a coroutine."""

    def __init__(self, house: House | None = None) -> None:
        self.house = house or House()
        self.service = KvService(self.house.asking)

    def put(self, key: bytes, value: bytes = b"v", **more: Any) -> pb.PutResponse:
        return self.house.run(self.service.put(pb.PutRequest(key=key, value=value, **more), self.house.call))

    def range(self, **more: Any) -> pb.RangeResponse:
        pieces = self.house.run(self.service.range(pb.RangeRequest(**more), self.house.call))
        return pb.RangeResponse.FromString(b"".join(pieces))

    def txn(self, **request: Any) -> pb.TxnResponse:
        pieces = self.house.run(self.service.txn(pb.TxnRequest(**request), self.house.call))
        return pb.TxnResponse.FromString(b"".join(pieces))

    def delete(self, **request: Any) -> pb.DeleteRangeResponse:
        pieces = self.house.run(self.service.delete_range(pb.DeleteRangeRequest(**request), self.house.call))
        return pb.DeleteRangeResponse.FromString(b"".join(pieces))

    def refused(self, **more: Any) -> tuple[StatusCode, str]:
        return self.house.refused(self.service.range(pb.RangeRequest(**more), self.house.call))


def keys(response: pb.RangeResponse) -> list[bytes]:
    return [found.key for found in response.kvs]


def test_a_put_and_a_range_have_one_revision() -> None:
    """A key's revision is its answer's; a read's is what was read."""
    kv = Kv()
    first = kv.put(b"a", b"1").header.revision
    second = kv.put(b"a", b"2", prev_kv=True)
    assert second.prev_kv.mod_revision == first
    found = kv.range(key=b"a")
    (value,) = found.kvs
    assert (value.create_revision, value.mod_revision, value.version, value.value) == (
        first,
        second.header.revision,
        2,
        b"2",
    )
    assert found.header.revision == second.header.revision == kv.house.revision
    assert (found.header.member_id, found.header.raft_term, found.count) == (1, 1, 1)
    assert found.header.cluster_id


def test_access_knows_each_key_by_a_name_of_its_own() -> None:
    """Its text in the log: two keys have never the same, whatever bytes they are."""
    assert resource(b"/a-b") == "key//a-b"
    assert len({resource(key) for key in (b"\xff", b"\\xff", b"~FF", b"%20", b" ")}) == 5


def test_every_form_of_a_range() -> None:
    """Prefix, limit, order, keys alone, count alone, filters; large answers come in turns."""
    kv = Kv(House(settings=GrpcSettings(keys_per_turn=2)))
    for number in range(5):
        kv.put(b"k%d" % number)
    whole = kv.range(**ALL)
    assert (keys(whole), whole.count, whole.more) == ([b"k0", b"k1", b"k2", b"k3", b"k4"], 5, False)
    some = kv.range(**ALL, limit=3, keys_only=True)
    assert (keys(some), some.count, some.more, some.kvs[0].value) == ([b"k0", b"k1", b"k2"], 5, True, b"")
    assert keys(kv.range(**ALL, limit=2, sort_order=pb.RangeRequest.DESCEND)) == [b"k4", b"k3"]
    assert (kv.range(**ALL, count_only=True).count, kv.range(key=b"none").count) == (5, 0)
    newest = whole.kvs[4].mod_revision
    assert keys(kv.range(**ALL, min_mod_revision=newest, serializable=True)) == [b"k4"]


def test_a_past_revision_is_read_from_memory_and_from_the_log() -> None:
    """The same answer, whether the keys of then are still held or must be replayed; a revision within an entry is
    the state before it.
    """
    kv = Kv()
    first = kv.put(b"a", b"1").header.revision
    operations = [pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"t")) for key in (b"a", b"b", b"c")]
    txn = kv.txn(success=operations).header.revision
    kv.put(b"a", b"3")
    asked = (first, txn - 1, txn, txn + 1, 0, -4)
    remembered = [kv.range(**ALL, revision=revision) for revision in asked]
    kv.house.forget_history()
    assert [kv.range(**ALL, revision=revision) for revision in asked] == remembered
    assert [[found.value for found in one.kvs] for one in remembered[:4]] == [
        [b"1"],
        [b"1"],
        [b"t", b"t", b"t"],
        [b"3", b"t", b"t"],
    ]
    assert kv.house.times.past.replays > 0


def test_a_range_is_refused_as_etcd_does() -> None:
    """No key, the future; and what is larger than an answer may be."""
    kv = Kv(House(settings=GrpcSettings(answer_bytes_max=1000)))
    assert kv.refused(key=b"") == (StatusCode.INVALID_ARGUMENT, "etcdserver: key is not provided")
    assert kv.refused(key=b"a", revision=10**6) == (
        StatusCode.OUT_OF_RANGE,
        "etcdserver: mvcc: required revision is a future revision",
    )
    kv.put(b"a", b"x" * 2000)
    assert kv.refused(key=b"a")[0] is StatusCode.RESOURCE_EXHAUSTED
    kv.house.bench.engine.lose()
    assert kv.refused(key=b"b", serializable=False) == (StatusCode.UNAVAILABLE, "etcdserver: no leader")
    assert kv.range(key=b"b", serializable=True).count == 0


def test_a_write_is_refused_before_anything_happens() -> None:
    """Not allowed, over the quota, below the feature level: nothing was written."""
    kv = Kv()
    before = kv.house.revision

    def refused() -> tuple[StatusCode, str]:
        return kv.house.refused(kv.service.put(pb.PutRequest(key=b"a", value=b"v"), kv.house.call))

    kv.house.may = False
    assert refused() == (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
    kv.house.may, kv.house.room = True, False
    assert refused() == (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests")
    assert kv.house.revision == before
    old = Kv(House(level=1))
    code, text = old.house.refused(old.service.put(pb.PutRequest(key=b"a"), old.house.call))
    assert code is StatusCode.FAILED_PRECONDITION
    assert "level" in text


def test_a_deletion_and_a_transaction() -> None:
    """They answer what was there, what ran, and one revision for all of it."""
    kv = Kv()
    kv.put(b"a", b"1")
    kv.put(b"b", b"2")
    compare = pb.Compare(key=b"a", target=pb.Compare.VALUE, value=b"1")
    txn = kv.txn(
        compare=[compare],
        success=[
            pb.RequestOp(request_put=pb.PutRequest(key=b"c")),
            pb.RequestOp(request_range=pb.RangeRequest(key=b"c")),
        ],
    )
    assert txn.succeeded
    assert txn.responses[1].response_range.kvs[0].mod_revision == txn.header.revision == kv.house.revision
    gone = kv.delete(key=b"a", range_end=b"z", prev_kv=True)
    assert (gone.deleted, [found.key for found in gone.prev_kvs]) == (3, [b"a", b"b", b"c"])
    assert gone.header.revision == kv.house.revision


def test_a_transaction_reads_the_past_too() -> None:
    """A Range at a revision, in memory or not, beside what the transaction writes; of the future nothing is written."""
    kv = Kv()
    first = kv.put(b"a", b"1").header.revision
    kv.put(b"a", b"2")

    def reading(revision: int) -> list[pb.RequestOp]:
        return [
            pb.RequestOp(request_put=pb.PutRequest(key=b"a", value=b"3")),
            pb.RequestOp(request_range=pb.RangeRequest(key=b"a", revision=revision)),
            pb.RequestOp(request_range=pb.RangeRequest(key=b"a")),
        ]

    def txn(revision: int) -> Any:
        return kv.service.txn(pb.TxnRequest(success=reading(revision)), kv.house.call)

    for _ in range(2):
        found = kv.txn(success=reading(first))
        assert [one.response_range.kvs[0].value for one in found.responses[1:]] == [b"1", b"3"]
        assert found.responses[1].response_range.kvs[0].mod_revision == first
        kv.house.forget_history()
    assert kv.house.times.past.replays > 0
    before = kv.house.revision
    assert kv.house.refused(txn(before + 1)) == (
        StatusCode.OUT_OF_RANGE,
        "etcdserver: mvcc: required revision is a future revision",
    )
    kv.house.may = False
    assert kv.house.refused(txn(first))[0] is StatusCode.PERMISSION_DENIED
    assert kv.house.revision == before


def test_a_transaction_looks_at_a_bounded_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both outcomes, before anything is decided: what is written is never told as refused."""
    monkeypatch.setattr("quorate.gateway.grpc.kv.READ_MAX", 5)
    kv = Kv()
    _, then = [kv.put(name).header.revision for name in (b"a", b"b")]
    put = pb.RequestOp(request_put=pb.PutRequest(key=b"a", value=b"3"))
    past = pb.RequestOp(request_range=pb.RangeRequest(key=b"a", range_end=b"\x00", revision=then))

    def txn(**outcomes: Any) -> Any:
        return kv.service.txn(pb.TxnRequest(**outcomes), kv.house.call)

    assert kv.txn(success=[put, past], failure=[past]).succeeded
    before = kv.house.revision
    code, text = kv.house.refused(txn(success=[put, past], failure=[past, past]))
    assert (code, "set limits" in text) == (StatusCode.FAILED_PRECONDITION, True)
    assert kv.house.revision == before


def test_the_largest_limit_is_answered_wherever_a_range_stands() -> None:
    """Sorted, in a Txn, and at a revision beside a write: what was written is never told as failed."""
    kv = Kv()
    then = kv.put(b"a").header.revision
    kv.put(b"b")
    most = 2**63 - 1
    assert keys(kv.range(**ALL, limit=most)) == [b"a", b"b"]
    assert keys(kv.range(**ALL, limit=most, sort_target=pb.RangeRequest.VERSION)) == [b"a", b"b"]
    put = pb.RequestOp(request_put=pb.PutRequest(key=b"c"))
    reads = [pb.RequestOp(request_range=pb.RangeRequest(**ALL, limit=most, revision=at)) for at in (0, then)]
    for operations, found in (([reads[0]], [b"a", b"b"]), ([put, reads[1]], [b"a"])):
        done = kv.txn(success=operations)
        assert keys(done.responses[-1].response_range) == found


@pytest.mark.parametrize("made", ["with_past", "transacted"])
def test_what_is_written_is_never_told_as_refused(monkeypatch: pytest.MonkeyPatch, made: str) -> None:
    """Whatever of its answer cannot be made: it is done, and unknown."""
    kv = Kv()
    then = kv.put(b"a").header.revision

    def cannot(*_: Any) -> Any:
        raise CallError(StatusCode.FAILED_PRECONDITION, "no")

    monkeypatch.setattr(f"quorate.gateway.grpc.messages.{made}", cannot)
    put = pb.RequestOp(request_put=pb.PutRequest(key=b"a", value=b"3"))
    read = pb.RequestOp(request_range=pb.RangeRequest(key=b"a", revision=then))
    refused = kv.house.refused(kv.service.txn(pb.TxnRequest(success=[put, read]), kv.house.call))
    assert refused == (StatusCode.UNAVAILABLE, "etcdserver: request timed out")
    assert kv.house.revision == then + 1


def test_a_write_whose_answer_has_no_room_is_told_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done, so it is not refused."""
    kv = Kv()

    def full(count: int) -> None:
        raise CallError(*CROWDED)

    monkeypatch.setattr(kv.house.call, "hold", full)
    put = pb.RequestOp(request_put=pb.PutRequest(key=b"a", value=b"3"))
    read = pb.RequestOp(request_range=pb.RangeRequest(key=b"a"))
    delete = pb.DeleteRangeRequest(key=b"a", prev_kv=True)
    for work in (
        kv.service.txn(pb.TxnRequest(success=[put, read]), kv.house.call),
        kv.service.delete_range(delete, kv.house.call),
    ):
        before = kv.house.revision
        assert kv.house.refused(work) == (StatusCode.UNAVAILABLE, "etcdserver: request timed out")
        assert kv.house.revision == before + 1


def test_compaction_does_nothing_and_says_so() -> None:
    """Its answer is etcd's, a wrong revision is refused, and every revision is still there."""
    kv = Kv()
    first = kv.put(b"a", b"1").header.revision
    kv.put(b"a", b"2")

    def compact(revision: int) -> Any:
        return kv.service.compact(pb.CompactionRequest(revision=revision), kv.house.call)

    assert kv.house.run(compact(first)).header.revision == kv.house.revision
    assert kv.range(key=b"a", revision=first).kvs[0].value == b"1"
    assert kv.house.refused(compact(10**6))[1].endswith("future revision")
    assert kv.house.refused(compact(-1))[1].endswith("compacted")


def test_a_txn_of_serializable_reads_needs_no_leader() -> None:
    """It is this node's own state, of one revision, as in etcd; one that reads otherwise asks who leads."""
    kv = Kv()
    kv.put(b"a", b"1")
    kv.put(b"b", b"2")
    revision = kv.house.revision
    own = [pb.RequestOp(request_range=pb.RangeRequest(key=key, serializable=True)) for key in (b"a", b"b")]
    sure = [pb.RequestOp(request_range=pb.RangeRequest(key=b"a"))]
    compare = pb.Compare(key=b"a", target=pb.Compare.VALUE, result=pb.Compare.EQUAL, value=b"1")
    kv.house.bench.engine.lose()
    kv.house.call = Caller(left_s=0.1)

    def txn(**request: Any) -> Any:
        return kv.service.txn(pb.TxnRequest(**request), kv.house.call)

    found = kv.txn(compare=[compare], success=own)
    assert [one.response_range.kvs[0].value for one in found.responses] == [b"1", b"2"]
    assert (found.succeeded, found.header.revision) == (True, revision)
    for request in ({"success": sure}, {"success": own, "failure": sure}, {"compare": [compare]}):
        assert kv.house.refused(txn(**request))[0] is StatusCode.UNAVAILABLE


def test_a_txn_that_is_wrong_by_itself_says_so_before_it_looks_at_the_past() -> None:
    """Whatever revision it reads at, which may be refused too, or take long."""
    kv = Kv()
    past = pb.RequestOp(request_range=pb.RangeRequest(key=b"a", revision=10**9))
    put = pb.RequestOp(request_put=pb.PutRequest(key=b"a"))
    nameless = pb.RequestOp(request_put=pb.PutRequest())

    def refused(*operations: Any) -> str:
        return kv.house.refused(kv.service.txn(pb.TxnRequest(success=operations), kv.house.call))[1]

    assert refused(put, put, past) == "etcdserver: duplicate key given in txn request"
    assert refused(nameless, past) == "etcdserver: key is not provided"
    assert refused(*[put] * 128, past) == "etcdserver: too many operations in txn request"
    assert refused(put, past).endswith("future revision")


def test_a_call_that_comes_too_late_is_not_begun() -> None:
    """Its deadline has passed: it is told so, whatever it wants, and nothing is decided, asked or handed over."""
    house = House()
    kv, leases, cluster = KvService(house.asking), LeaseService(house.asking), ClusterService(house.asking)
    lease = house.run(leases.grant(pb.LeaseGrantRequest(TTL=10), house.call)).ID
    before, late = house.revision, Caller(left_s=0.0)
    put = pb.RequestOp(request_put=pb.PutRequest(key=b"a"))
    then = pb.RequestOp(request_range=pb.RangeRequest(key=b"a", revision=1))

    async def kept() -> None:
        async for _ in leases.keep_alive(_once(pb.LeaseKeepAliveRequest(ID=lease)), late):
            raise AssertionError("it was answered")

    for work in (
        kv.put(pb.PutRequest(key=b"a"), late),
        kv.delete_range(pb.DeleteRangeRequest(key=b"a"), late),
        kv.txn(pb.TxnRequest(success=[put]), late),
        kv.txn(pb.TxnRequest(success=[put, then]), late),
        kv.range(pb.RangeRequest(key=b"a"), late),
        kv.compact(pb.CompactionRequest(revision=1), late),
        leases.grant(pb.LeaseGrantRequest(TTL=10), late),
        leases.revoke(pb.LeaseRevokeRequest(ID=lease), late),
        leases.time_to_live(pb.LeaseTimeToLiveRequest(ID=lease), late),
        leases.leases(pb.LeaseLeasesRequest(), late),
        kept(),
        cluster.hash_kv(pb.HashKVRequest(), late),
        cluster.member_list(pb.MemberListRequest(linearizable=True), late),
        cluster.move_leader(pb.MoveLeaderRequest(targetID=1), late),
    ):
        assert house.refused(work) == (StatusCode.DEADLINE_EXCEEDED, "context deadline exceeded")
    assert house.revision == before


async def _once(request: pb.LeaseKeepAliveRequest) -> AsyncIterator[pb.LeaseKeepAliveRequest]:
    yield request


def test_a_caller_that_does_not_wait_is_told_in_time() -> None:
    """His deadline is ours: nothing is left waiting behind him."""
    house = House()
    house.call = Caller(left_s=0.1)
    house.bench.engine.lose()
    kv = Kv(house)
    assert house.refused(kv.service.put(pb.PutRequest(key=b"a"), house.call))[0] is StatusCode.UNAVAILABLE


async def requests(*numbers: int) -> AsyncIterator[pb.LeaseKeepAliveRequest]:
    for number in numbers:
        yield pb.LeaseKeepAliveRequest(ID=number)


def test_the_life_of_a_lease() -> None:
    """Granted, kept, asked about, listed, revoked with its keys; of one that is gone, etcd's numbers."""
    kv = Kv()
    house = kv.house
    leases = LeaseService(house.asking)
    drawn = house.run(leases.grant(pb.LeaseGrantRequest(TTL=30), house.call))
    assert 0 < drawn.ID < 1 << 63
    assert house.run(leases.grant(pb.LeaseGrantRequest(TTL=60, ID=7), house.call)).TTL == 60
    again = house.refused(leases.grant(pb.LeaseGrantRequest(TTL=60, ID=7), house.call))
    assert again == (StatusCode.FAILED_PRECONDITION, "etcdserver: lease already exists")
    kv.put(b"a", lease=7)

    async def kept() -> list[tuple[int, int]]:
        return [(one.ID, one.TTL) async for one in leases.keep_alive(requests(7, 8), house.call)]

    assert house.run(kept()) == [(7, 60), (8, 0)]
    asked = house.run(leases.time_to_live(pb.LeaseTimeToLiveRequest(ID=7, keys=True), house.call))
    assert (asked.grantedTTL, list(asked.keys)) == (60, [b"a"])
    listed = house.run(leases.leases(pb.LeaseLeasesRequest(), house.call))
    assert {one.ID for one in listed.leases} == {7, drawn.ID}
    revoked = house.run(leases.revoke(pb.LeaseRevokeRequest(ID=7), house.call))
    assert revoked.header.revision == house.revision
    assert kv.range(key=b"a").count == 0
    assert house.run(leases.time_to_live(pb.LeaseTimeToLiveRequest(ID=7), house.call)).TTL == -1
    missing = house.refused(leases.revoke(pb.LeaseRevokeRequest(ID=7), house.call))
    assert missing == (StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
    house.bench.engine.lose()
    house.call = Caller(left_s=0.1)
    assert house.refused(kept())[0] is StatusCode.UNAVAILABLE
    assert house.refused(leases.time_to_live(pb.LeaseTimeToLiveRequest(ID=7), house.call))[0] is StatusCode.UNAVAILABLE


def test_a_word_of_life_waits_for_nothing_to_be_applied_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's answer names how far its own log goes, which a follower that lags shows later: the next word is sent
    when this one is answered. A write waits, so that its client reads here what it wrote.
    """
    house = House()
    leases, members = LeaseService(house.asking), MemberService(house.asking)
    ahead = house.bench.controller.offset + 5

    def told(command: Command, caller: Any, done: Any, **_: Any) -> None:
        beat = isinstance(command, HearMember)
        done(Answered(MemberIs(name="m", epoch=1) if beat else LeaseIs(lease=7, ttl_s=9), ahead))

    monkeypatch.setattr(house.bench.controller, "submit", told)

    async def kept() -> list[int]:
        return [one.TTL async for one in leases.keep_alive(requests(7, 7, 7), house.call)]

    began = house.bench.loop.monotonic()
    assert house.run(kept()) == [9, 9, 9]
    beat = members.heartbeat(members_pb2.MemberHeartbeatRequest(name="m", epoch=1), house.call)
    assert house.run(beat).revision == ahead - 1
    assert house.bench.loop.monotonic() - began < 0.5
    house.run(leases.grant(pb.LeaseGrantRequest(ID=7, TTL=9), house.call))
    assert house.bench.loop.monotonic() - began > house.context.settings.answer_timeout_s - 0.5


def test_many_leases_are_listed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they take is held as they are told; where there is no room they are not."""
    house, held = House(settings=GrpcSettings(keys_per_turn=2)), list[int]()
    leases = LeaseService(house.asking)
    for number in range(5):
        house.run(leases.grant(pb.LeaseGrantRequest(ID=number + 1, TTL=10), house.call))
    monkeypatch.setattr(house.call, "hold", held.append)
    found = house.run(leases.leases(pb.LeaseLeasesRequest(), house.call)).leases
    assert [one.ID for one in found] == [1, 2, 3, 4, 5]
    assert len(held) == 3

    def full(count: int) -> None:
        raise CallError(*CROWDED)

    monkeypatch.setattr(house.call, "hold", full)
    assert house.refused(leases.leases(pb.LeaseLeasesRequest(), house.call)) == CROWDED


def test_what_a_node_says_of_its_cluster() -> None:
    """Members, status and alarms as etcd's clients read them, and in our own words."""
    house = House()
    cluster = ClusterService(house.asking)
    (member,) = house.run(cluster.member_list(pb.MemberListRequest(linearizable=True), house.call)).members
    assert (member.ID, member.name, list(member.peerURLs)) == (1, "node-1", ["http://h:2"])
    assert list(member.clientURLs) == ["http://h:5"]
    status = house.run(cluster.status(pb.StatusRequest(), house.call))
    assert (status.version, status.leader, status.raftTerm, list(status.errors)) == ("3.5.0+quorate.1.2.3", 1, 1, [])
    assert not house.run(cluster.alarm(pb.AlarmRequest(), house.call)).alarms
    house.low, house.low_at = ["the disk is full"], [2, 3]
    alarms = house.run(cluster.alarm(pb.AlarmRequest(), house.call)).alarms
    assert [(alarm.memberID, alarm.alarm) for alarm in alarms] == [(2, pb.NOSPACE), (3, pb.NOSPACE)]
    assert house.run(cluster.status(pb.StatusRequest(), house.call)).errors == ["the disk is full"]
    wrong = pb.AlarmRequest(action=pb.AlarmRequest.DEACTIVATE)
    assert house.refused(cluster.alarm(wrong, house.call))[0] is StatusCode.UNIMPLEMENTED
    ours = house.run(cluster.meta_status(cluster_pb2.StatusRequest(), house.call))
    assert (ours.cluster_id, ours.leader_id, ours.feature_level, ours.ready) == ("c1", 1, 2, True)
    assert (ours.revision, ours.voters[0].grpc, ours.voters[0].connected) == (house.revision, "h:5", True)


def test_a_hash_is_of_the_keys_at_a_revision() -> None:
    """It changes with every put, is what it was when the revision is asked for again, and is a number without keys."""
    kv = Kv()
    cluster = ClusterService(kv.house.asking)

    def hashed(revision: int = 0) -> int:
        return kv.house.run(cluster.hash_kv(pb.HashKVRequest(revision=revision), kv.house.call)).hash

    assert hashed() != 0
    first = kv.put(b"a", b"1").header.revision
    before = hashed()
    kv.put(b"a", b"2")
    assert hashed() != before
    assert hashed(first) == before


def test_leadership_moves_only_from_the_leader_to_a_voter() -> None:
    """To itself it is moved already; elsewhere it is refused in etcd's words."""
    house = House()
    cluster = ClusterService(house.asking)
    house.run(cluster.move_leader(pb.MoveLeaderRequest(targetID=1), house.call))
    assert house.refused(cluster.move_leader(pb.MoveLeaderRequest(targetID=9), house.call))[1].endswith("transferee")
    house.bench.engine.lose()
    assert house.refused(cluster.move_leader(pb.MoveLeaderRequest(targetID=1), house.call))[1].endswith("not leader")


def test_health_is_readiness_and_a_read() -> None:
    """Serving while ready and with a quorum; a name nobody serves is not found; a watch hears of changes."""
    house = House()
    health = HealthService(house.asking, ["etcdserverpb.KV"])
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING

    def check(name: str = "") -> int:
        status: int = house.run(health.check(health_pb2.HealthCheckRequest(service=name), house.call)).status
        return status

    assert (check(), check("etcdserverpb.KV")) == (serving, serving)
    unknown = health.check(health_pb2.HealthCheckRequest(service="x"), house.call)
    assert house.refused(unknown)[0] is StatusCode.NOT_FOUND
    listed = house.run(health.listing(health_pb2.HealthListRequest(), house.call))
    assert set(listed.statuses) == {"", "etcdserverpb.KV"}
    house.reason = "not founded"
    assert check() == not_serving
    house.reason = ""
    house.bench.engine.lose()
    house.call = Caller(left_s=0.1)
    assert check() == not_serving


@pytest.mark.parametrize(("name", "status"), [("", "NOT_SERVING"), ("x", "SERVICE_UNKNOWN")])
def test_a_watched_health_begins_with_what_it_is(name: str, status: str) -> None:
    """At once, whatever it is."""
    house = House()
    house.reason = "not founded"
    health = HealthService(house.asking, [])

    async def first() -> Any:
        async for response in health.watch(health_pb2.HealthCheckRequest(service=name), house.call):
            return response.status
        return None

    assert health_pb2.HealthCheckResponse.ServingStatus.Name(house.run(first())) == status


def test_a_watched_health_tells_that_the_quorum_is_gone_and_back() -> None:
    """Each change once, and nothing while it is as it was."""
    house = House(settings=GrpcSettings(health_period_s=1e-6))
    watched = HealthService(house.asking, []).watch(health_pb2.HealthCheckRequest(), house.call)

    async def next_one() -> Any:
        return await anext(watched)

    def told() -> str:
        name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(house.run(next_one()).status)
        return name

    assert told() == "SERVING"
    house.call.left_s = 0.1
    house.bench.engine.lose()
    assert told() == "NOT_SERVING"
    house.bench.open(2)
    assert told() == "SERVING"
    house.reason = "this node has not caught up with what is committed"
    assert told() == "NOT_SERVING"
