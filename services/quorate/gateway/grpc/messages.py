"""etcd's messages as our questions and commands, and our answers as etcd's messages.

Rules: pure. A large answer is made in steps, in pieces. What a message says that ours cannot carry is refused by name,
never left out. A transaction's own revision, which its replies do not know yet, is put in here (``THIS_REVISION``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, assert_never

import msgspec
from google.protobuf.message import Message

from quorate.events import raw_name
from quorate.gateway.grpc.codes import BAD_SORT, EMPTY_OPERATION, CallError, StatusCode
from quorate.gateway.grpc.pb import kv_pb2, rpc_pb2
from quorate.gateway.grpc.pieces import Making, Pieces, field
from quorate.metadata.commands import (
    THIS_REVISION,
    CompareKeys,
    DeleteKeys,
    KeyIsPut,
    KeyOperation,
    KeyReply,
    KeysAreDeleted,
    PutKey,
    Transact,
    Transacted,
)
from quorate.metadata.keys import OPERATIONS_MAX
from quorate.model.keys import KeysAre, Order, RangeKeys, SortBy, within
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue
from quorate.slices import Steps

_ORDERS: Final[tuple[Order, ...]] = ("none", "ascending", "descending")
_TARGETS: Final[tuple[SortBy, ...]] = ("key", "version", "create", "mod", "value")
_Result = Literal["equal", "greater", "less", "not equal"]
_RESULTS: Final[tuple[_Result, ...]] = ("equal", "greater", "less", "not equal")
_Target = Literal["version", "create", "mod", "value", "lease"]
_COMPARED: Final[tuple[tuple[_Target, str], ...]] = (
    ("version", "version"),
    ("create", "create_revision"),
    ("mod", "mod_revision"),
    ("value", "value"),
    ("lease", "lease"),
)
"""By number of the target: our name, and the field of the message."""
DEPTH_MAX: Final = 32
"""Transactions within transactions that are read at all; ``decide`` allows fewer."""
ALL_MAX: Final = 8 * OPERATIONS_MAX
"""Comparisons and operations of a transaction and of those within it, of both outcomes."""
REVISIONS_MAX: Final = 256
"""At which the Ranges of one transaction may ask."""
_TOO_MANY: Final = (StatusCode.INVALID_ARGUMENT, "etcdserver: too many operations in txn request")


def asked(request: rpc_pb2.RangeRequest) -> RangeKeys:
    """The question of a Range, but for its revision. Raises CallError."""
    if not (0 <= request.sort_order < len(_ORDERS) and 0 <= request.sort_target < len(_TARGETS)):
        raise CallError(*BAD_SORT)
    return RangeKeys(
        key=request.key,
        range_end=request.range_end,
        limit=max(request.limit, 0),
        order=_ORDERS[request.sort_order],
        sort_by=_TARGETS[request.sort_target],
        keys_only=request.keys_only,
        count_only=request.count_only,
        min_mod_revision=request.min_mod_revision,
        max_mod_revision=request.max_mod_revision,
        min_create_revision=request.min_create_revision,
        max_create_revision=request.max_create_revision,
    )


def put(request: rpc_pb2.PutRequest) -> PutKey:
    """The command of a Put."""
    return PutKey(
        key=request.key,
        value=request.value,
        lease=request.lease,
        previous=request.prev_kv,
        keep_value=request.ignore_value,
        keep_lease=request.ignore_lease,
    )


def delete(request: rpc_pb2.DeleteRangeRequest) -> DeleteKeys:
    """The command of a DeleteRange."""
    return DeleteKeys(key=request.key, range_end=request.range_end, previous=request.prev_kv)


def transaction(request: rpc_pb2.TxnRequest) -> Transact:
    """The command of a Txn. Raises CallError for what no command can carry."""
    return _transaction(request, 0, _Count())


class _Count:
    """Comparisons and operations of a transaction so far, with those within it, before each of them is looked at."""

    def __init__(self) -> None:
        self._found = 0

    def add(self, more: int) -> None:
        """Raises CallError when they are too many."""
        self._found += more
        if self._found > ALL_MAX:
            raise CallError(*_TOO_MANY)


def _transaction(request: rpc_pb2.TxnRequest, depth: int, count: _Count) -> Transact:
    if depth > DEPTH_MAX:
        raise CallError(*_TOO_MANY)
    count.add(len(request.compare) + len(request.success) + len(request.failure))
    return Transact(
        compare=tuple(map(_comparison, request.compare)),
        success=tuple(_operation(operation, depth, count) for operation in request.success),
        failure=tuple(_operation(operation, depth, count) for operation in request.failure),
    )


def _operation(message: rpc_pb2.RequestOp, depth: int, count: _Count) -> KeyOperation:
    match message.WhichOneof("request"):
        case "request_range":
            now = asked(message.request_range)
            if message.request_range.revision > 0:  # What was is not decided: ``with_past`` puts it in.
                return msgspec.structs.replace(now, count_only=True)
            return now
        case "request_put":
            return put(message.request_put)
        case "request_delete_range":
            return delete(message.request_delete_range)
        case "request_txn":
            return _transaction(message.request_txn, depth + 1, count)
        case _:
            raise CallError(*EMPTY_OPERATION)


def is_serializable(request: rpc_pb2.TxnRequest) -> bool:
    """Does it read alone, now, and want this node's own state?"""
    operations = (*request.success, *request.failure)
    return bool(operations) and all(
        operation.WhichOneof("request") == "request_range"
        and operation.request_range.serializable
        and operation.request_range.revision <= 0
        for operation in operations
    )


def past_ranges(request: rpc_pb2.TxnRequest) -> list[rpc_pb2.RangeRequest]:
    """The Ranges of a Txn at a revision, of both outcomes and of those within it. Raises CallError."""
    found = list(_past_ranges(request))
    if len({one.revision for one in found}) > REVISIONS_MAX:
        raise CallError(*_TOO_MANY)
    return found


def _past_ranges(request: rpc_pb2.TxnRequest) -> Iterator[rpc_pb2.RangeRequest]:
    for operation in (*request.success, *request.failure):
        if operation.request_range.revision > 0:
            yield operation.request_range
        yield from _past_ranges(operation.request_txn)


def _comparison(message: rpc_pb2.Compare) -> CompareKeys:
    if not (0 <= message.target < len(_COMPARED) and 0 <= message.result < len(_RESULTS)):
        raise CallError(StatusCode.INVALID_ARGUMENT, "quorate: a comparison of an unknown target or result")
    target, field = _COMPARED[message.target]
    against = getattr(message, field)  # Another field than the target's counts as none, as in etcd.
    return CompareKeys(
        key=message.key,
        range_end=message.range_end,
        target=target,
        result=_RESULTS[message.result],
        number=0 if target == "value" else against,
        value=against if target == "value" else b"",
    )


# -- answers


def key_value(found: KeyValue, this_revision: int = 0) -> kv_pb2.KeyValue:
    """A key as etcd says it."""
    created, changed = found.create_revision, found.mod_revision
    return kv_pb2.KeyValue(
        key=raw_name(found.key),
        create_revision=this_revision if created == THIS_REVISION else created,
        mod_revision=this_revision if changed == THIS_REVISION else changed,
        version=found.version,
        value=found.value,
        lease=found.lease,
    )


def was_put(answer: KeyIsPut, this_revision: int = 0) -> rpc_pb2.PutResponse:
    """The answer to a Put."""
    previous = None if answer.previous is None else key_value(answer.previous, this_revision)
    return rpc_pb2.PutResponse(prev_kv=previous)


def with_past(answer: Transacted, request: rpc_pb2.TxnRequest, past: Mapping[int, OrderedMap[KeyValue]]) -> Transacted:
    """The same, its Ranges at a revision answered by the keys of then."""
    operations = request.success if answer.succeeded else request.failure
    replies = tuple(_then(reply, one, past) for reply, one in zip(answer.replies, operations, strict=True))
    return msgspec.structs.replace(answer, replies=replies)


def _then(reply: KeyReply, operation: rpc_pb2.RequestOp, past: Mapping[int, OrderedMap[KeyValue]]) -> KeyReply:
    if isinstance(reply, Transacted):
        return with_past(reply, operation.request_txn, past)
    revision = operation.request_range.revision
    return within(past[revision], asked(operation.request_range)) if revision > 0 else reply


def _several(
    found: Iterable[KeyValue], this_revision: int, part: Callable[[list[kv_pb2.KeyValue]], Message], making: Making
) -> Steps[Pieces]:
    """Keys as parts of a message, each of what one step makes."""
    pieces, waiting = Pieces(), iter(found)
    while some := [key_value(one, this_revision) for one in making.some(waiting)]:
        pieces.append(part(some).SerializeToString())
        if making.enough(len(some), len(pieces[-1])):
            yield
    return pieces


def ranged(
    head: rpc_pb2.RangeResponse, found: Iterable[KeyValue], making: Making, this_revision: int = 0
) -> Steps[Pieces]:
    """The answer to a Range; ``head`` is what it says beside its keys."""
    keys = yield from _several(found, this_revision, lambda some: rpc_pb2.RangeResponse(kvs=some), making)
    return [head.SerializeToString(), *keys]


def were_deleted(
    head: rpc_pb2.DeleteRangeResponse, found: Iterable[KeyValue], making: Making, this_revision: int = 0
) -> Steps[Pieces]:
    """The answer to a DeleteRange; ``found``: what was there, if that is wanted."""
    keys = yield from _several(found, this_revision, lambda some: rpc_pb2.DeleteRangeResponse(prev_kvs=some), making)
    return [head.SerializeToString(), *keys]


def transacted(answer: Transacted, header: rpc_pb2.ResponseHeader, making: Making) -> Steps[Pieces]:
    """The answer to a Txn: those within it have its revision alone for a header, as etcd's."""
    head = rpc_pb2.TxnResponse(header=header, succeeded=answer.succeeded)
    pieces, within_it = [head.SerializeToString()], rpc_pb2.ResponseHeader(revision=header.revision)
    for reply in answer.replies:
        number, response = yield from _response(reply, within_it, making)
        pieces += field(rpc_pb2.TxnResponse.RESPONSES_FIELD_NUMBER, field(number, response))
    return pieces


def _response(reply: KeyReply, header: rpc_pb2.ResponseHeader, making: Making) -> Steps[tuple[int, Pieces]]:
    """What one operation is answered, and which of a ``ResponseOp`` that is."""
    kind, revision = rpc_pb2.ResponseOp, header.revision
    match reply:
        case KeysAre():
            ranges = rpc_pb2.RangeResponse(header=header, more=reply.more, count=reply.count)
            return kind.RESPONSE_RANGE_FIELD_NUMBER, (yield from ranged(ranges, reply.found, making, revision))
        case KeyIsPut():
            put_now = was_put(reply, revision)
            put_now.header.CopyFrom(header)
            return kind.RESPONSE_PUT_FIELD_NUMBER, [put_now.SerializeToString()]
        case KeysAreDeleted():
            gone = rpc_pb2.DeleteRangeResponse(header=header, deleted=reply.deleted)
            were = yield from were_deleted(gone, reply.previous, making, revision)
            return kind.RESPONSE_DELETE_RANGE_FIELD_NUMBER, were
        case Transacted():
            return kind.RESPONSE_TXN_FIELD_NUMBER, (yield from transacted(reply, header, making))
        case _:
            assert_never(reply)


def happened(name: bytes, before: KeyValue | None, after: KeyValue | None, revision: int) -> kv_pb2.Event:
    """What became of a key at a revision; with what was there before, if that is given."""
    if after is None:
        event = kv_pb2.Event(type=kv_pb2.Event.DELETE, kv=kv_pb2.KeyValue(key=name, mod_revision=revision))
    else:
        event = kv_pb2.Event(type=kv_pb2.Event.PUT, kv=key_value(after))
    if before is not None:
        event.prev_kv.CopyFrom(key_value(before))
    return event
