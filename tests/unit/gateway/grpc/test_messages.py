"""etcd's messages and our commands: nothing is lost on the way, and what cannot be carried is refused."""

from itertools import repeat

import msgspec
import pytest

from quorate.events import ordered_name
from quorate.gateway.grpc import messages
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.pb import kv_pb2, rpc_pb2
from quorate.gateway.grpc.pieces import BYTES_PER_STEP, Making, field
from quorate.metadata.commands import (
    THIS_REVISION,
    CompareKeys,
    DeleteKeys,
    KeyIsPut,
    KeysAreDeleted,
    PutKey,
    Transact,
    Transacted,
)
from quorate.model.keys import KeysAre, RangeKeys
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue
from quorate.slices import finished

ODD = b"\x00/\xff k"


def value(revision: int = 5) -> KeyValue:
    return KeyValue(
        key=ordered_name(ODD), value=b"v", create_revision=revision, mod_revision=revision, version=1, lease=9
    )


def test_a_transaction_is_counted_with_all_that_is_within_it() -> None:
    """Before each operation is looked at, however few there are on each level."""
    inner = rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"a"))] * 100)
    request = rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_txn=inner)] * 9)
    messages.transaction(request)
    request.success.add(request_txn=rpc_pb2.TxnRequest(success=inner.success, failure=inner.success))
    with pytest.raises(CallError) as error:
        messages.transaction(request)
    assert error.value.text == "etcdserver: too many operations in txn request"


def test_the_answer_of_a_transaction_is_made_in_turns() -> None:
    """And what it takes in memory is told before more is made."""
    held: list[int] = []
    reply = Transacted(succeeded=True, replies=(KeysAre(found=(value(),) * 2_000, count=2_000),))
    steps = messages.transacted(reply, rpc_pb2.ResponseHeader(revision=77), Making(held.append))
    assert sum(1 for _ in steps) == 4
    assert (len(held), sum(held) > 2_000 * 15) == (4, True)


def test_large_values_are_made_few_at_a_time() -> None:
    """A step makes a mebibyte and one value, however few keys that is; and no more than an answer may have."""
    held: list[int] = []
    large = msgspec.structs.replace(value(), value=bytes(400_000))
    making = Making(held.append, most=20_000_000)
    steps = messages.ranged(rpc_pb2.RangeResponse(count=30, more=True), [large] * 30, making)
    for count, _ in enumerate(steps, start=1):
        assert len(held) == count
    assert (len(held), max(held) < BYTES_PER_STEP + 401_000) == (10, True)
    pieces = finished(messages.ranged(rpc_pb2.RangeResponse(count=30, more=True), [large] * 30, Making(held.append)))
    whole = rpc_pb2.RangeResponse.FromString(b"".join(pieces))
    assert (len(whole.kvs), whole.count, whole.more) == (30, 30, True)
    held.clear()
    endless = messages.ranged(rpc_pb2.RangeResponse(), repeat(large), Making(held.append, most=20_000_000))
    with pytest.raises(CallError, match="larger than 20000000 bytes"):
        finished(endless)
    assert sum(held) < 20_000_000


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_a_message_is_a_field_of_another(size: int) -> None:
    """In pieces as protobuf itself would have it, however long it is."""
    inner = rpc_pb2.RangeResponse(kvs=[kv_pb2.KeyValue(value=bytes(size))] if size else [])
    pieces = field(rpc_pb2.ResponseOp.RESPONSE_RANGE_FIELD_NUMBER, [inner.SerializeToString()])
    assert b"".join(pieces) == rpc_pb2.ResponseOp(response_range=inner).SerializeToString()


def test_a_range_keeps_all_that_it_says() -> None:
    """Each field of a question comes through; a limit below 0 is none."""
    request = rpc_pb2.RangeRequest(
        key=ODD,
        range_end=b"z",
        limit=-3,
        sort_order=rpc_pb2.RangeRequest.DESCEND,
        sort_target=rpc_pb2.RangeRequest.VALUE,
        keys_only=True,
        count_only=True,
        min_mod_revision=1,
        max_mod_revision=2,
        min_create_revision=3,
        max_create_revision=4,
    )
    assert messages.asked(request) == RangeKeys(
        key=ODD,
        range_end=b"z",
        order="descending",
        sort_by="value",
        keys_only=True,
        count_only=True,
        min_mod_revision=1,
        max_mod_revision=2,
        min_create_revision=3,
        max_create_revision=4,
    )


@pytest.mark.parametrize("field", ["sort_order", "sort_target"])
def test_an_unknown_order_is_refused(field: str) -> None:
    """A number that etcd does not know is its own error, not the order that happens to be first."""
    request = rpc_pb2.RangeRequest(key=b"a")
    setattr(request, field, 17)
    with pytest.raises(CallError, match="invalid sort option"):
        messages.asked(request)


def test_a_transaction_is_carried_whole() -> None:
    """Comparisons of each target, operations of each kind, those within too."""
    compare = [
        rpc_pb2.Compare(key=b"a", target=rpc_pb2.Compare.VERSION, version=1),
        rpc_pb2.Compare(key=b"a", target=rpc_pb2.Compare.CREATE, create_revision=2, result=rpc_pb2.Compare.GREATER),
        rpc_pb2.Compare(key=b"a", target=rpc_pb2.Compare.MOD, mod_revision=3, result=rpc_pb2.Compare.LESS),
        rpc_pb2.Compare(key=b"a", target=rpc_pb2.Compare.VALUE, value=b"4", result=rpc_pb2.Compare.NOT_EQUAL),
        rpc_pb2.Compare(key=b"a", range_end=b"b", target=rpc_pb2.Compare.LEASE, lease=5),
    ]
    within = rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=b"d"))])
    request = rpc_pb2.TxnRequest(
        compare=compare,
        success=[
            rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=b"a", value=b"x", lease=1, prev_kv=True)),
            rpc_pb2.RequestOp(request_txn=within),
        ],
        failure=[rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"a"))],
    )
    assert messages.transaction(request) == Transact(
        compare=(
            CompareKeys(key=b"a", target="version", number=1),
            CompareKeys(key=b"a", target="create", number=2, result="greater"),
            CompareKeys(key=b"a", target="mod", number=3, result="less"),
            CompareKeys(key=b"a", target="value", value=b"4", result="not equal"),
            CompareKeys(key=b"a", range_end=b"b", target="lease", number=5),
        ),
        success=(PutKey(key=b"a", value=b"x", lease=1, previous=True), Transact(success=(DeleteKeys(key=b"d"),))),
        failure=(RangeKeys(key=b"a"),),
    )


def test_a_comparison_with_another_targets_field_compares_with_nothing() -> None:
    """As in etcd: a version that is given where a value is compared counts as no value."""
    odd = rpc_pb2.Compare(key=b"a", target=rpc_pb2.Compare.VALUE, version=3)
    assert messages.transaction(rpc_pb2.TxnRequest(compare=[odd])).compare[0].value == b""


def test_what_no_command_can_carry_is_refused() -> None:
    """An operation that is none, an unknown comparison, endless depth: each by its name."""
    deep = rpc_pb2.TxnRequest()
    for _ in range(messages.DEPTH_MAX + 1):
        deep = rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_txn=deep)])
    unknown = rpc_pb2.Compare(key=b"a")
    unknown.target = 99  # type: ignore[assignment]
    for request, code in (
        (rpc_pb2.TxnRequest(failure=[rpc_pb2.RequestOp()]), StatusCode.INVALID_ARGUMENT),
        (rpc_pb2.TxnRequest(compare=[unknown]), StatusCode.INVALID_ARGUMENT),
        (deep, StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(CallError) as refused:
            messages.transaction(request)
        assert refused.value.code is code


def test_a_range_at_a_revision_is_answered_by_the_keys_of_then() -> None:
    """What is decided asks nothing of it but that it has a key; so in the outcome that came, and in those within it."""
    old = rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"a", revision=3))
    now = rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"a"))
    other = rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"a", revision=9))
    inner = rpc_pb2.RequestOp(request_txn=rpc_pb2.TxnRequest(failure=[old, now]))
    request = rpc_pb2.TxnRequest(success=[old, inner], failure=[other])
    assert [one.revision for one in messages.past_ranges(request)] == [3, 3, 9]
    assert messages.transaction(request).success[0] == RangeKeys(key=b"a", count_only=True)
    here, then = KeysAre(found=(value(),), count=1), OrderedMap[KeyValue]().set(b"a", value(2))
    reply = Transacted(succeeded=True, replies=(here, Transacted(succeeded=False, replies=(here, here))))
    known = KeysAre(found=(value(2),), count=1)
    assert messages.with_past(reply, request, {3: then, 9: OrderedMap()}) == Transacted(
        succeeded=True, replies=(known, Transacted(succeeded=False, replies=(known, here)))
    )
    many = [
        rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=b"a", revision=number + 1))
        for number in range(messages.REVISIONS_MAX + 1)
    ]
    with pytest.raises(CallError, match="too many operations"):
        messages.past_ranges(rpc_pb2.TxnRequest(success=many))


def test_a_transactions_own_revision_is_put_in_everywhere() -> None:
    """What it wrote and read has the answer's revision, in replies within replies too."""
    mine = value(THIS_REVISION)
    reply = Transacted(
        succeeded=True,
        replies=(
            KeysAre(found=(mine, value(5)), count=2),
            KeyIsPut(previous=value(4)),
            KeysAreDeleted(deleted=1, previous=(mine,)),
            Transacted(succeeded=False, replies=(KeysAre(found=(mine,), count=1),)),
        ),
    )
    held: list[int] = []
    steps = messages.transacted(reply, rpc_pb2.ResponseHeader(revision=77), Making(held.append))
    response = rpc_pb2.TxnResponse.FromString(b"".join(finished(steps)))
    assert len(held) == 3
    ranged, put, deleted, inner = response.responses
    assert [found.mod_revision for found in ranged.response_range.kvs] == [77, 5]
    assert put.response_put.prev_kv.mod_revision == 4
    assert deleted.response_delete_range.prev_kvs[0].create_revision == 77
    assert inner.response_txn.responses[0].response_range.kvs[0].mod_revision == 77
    assert {ranged.response_range.header.revision, inner.response_txn.header.revision, response.header.revision} == {77}


def test_a_key_is_the_bytes_it_was() -> None:
    """Text in the log, bytes on the wire, whatever they are."""
    assert messages.key_value(value()) == kv_pb2.KeyValue(
        key=ODD, value=b"v", create_revision=5, mod_revision=5, version=1, lease=9
    )


def test_what_happened_to_a_key() -> None:
    """A deletion says the key and its revision; what was there comes only if it is wanted."""
    gone = messages.happened(ODD, value(3), None, 8)
    assert (gone.type, gone.kv.key, gone.kv.mod_revision, gone.kv.value) == (kv_pb2.Event.DELETE, ODD, 8, b"")
    assert gone.prev_kv.mod_revision == 3
    put = messages.happened(ODD, None, value(8), 8)
    assert put.type == kv_pb2.Event.PUT
    assert not put.HasField("prev_kv")
    assert not put.HasField("prev_kv")
