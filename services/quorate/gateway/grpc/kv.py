"""``etcdserverpb.KV``: Range, Put, DeleteRange, Txn, Compact.

Rules: a Range is linearizable on any node unless it is ``serializable``; of a revision it is answered as long as the
log is there, which is always: nothing is compacted. Each write is one command. A large answer is made in turns.
"""

from collections.abc import Iterable
from itertools import islice

import msgspec

from quorate.events import ordered_name
from quorate.gateway.grpc import messages
from quorate.gateway.grpc.asking import Asking, Call, in_turns
from quorate.gateway.grpc.codes import COMPACTED, EMPTY_KEY, FUTURE, TIMED_OUT, CallError, StatusCode, refused
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.pieces import Making, Pieces
from quorate.metadata.commands import KeyIsPut, KeysAreDeleted, Refusal, Transact, Transacted
from quorate.metadata.keys import READ_MAX, TOO_MANY_KEYS, fault_of, read
from quorate.model.keys import RangeKeys, bounds, finding, looked_at
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue


class KvService:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def range(self, request: rpc_pb2.RangeRequest, call: Call) -> Pieces:
        """Keys, now or at a revision."""
        asked = messages.asked(request)
        if not asked.key:
            raise CallError(StatusCode.INVALID_ARGUMENT, EMPTY_KEY)
        self._asking.allowed("RangeKeys", resource(asked.key))
        keys, now = await self._asking.keys_at(request.revision, call, stale=request.serializable)
        head, found = await self._found(keys, asked)
        head.header.CopyFrom(self._asking.header(now))
        settings = self._asking.context.settings
        making = Making(call.hold, per_step=settings.keys_per_turn, most=settings.answer_bytes_max)
        return await in_turns(messages.ranged(head, found, making))

    async def put(self, request: rpc_pb2.PutRequest, call: Call) -> rpc_pb2.PutResponse:
        """A key gets a value."""
        reply, revision = await self._asking.submit(messages.put(request), call, resource(request.key), KeyIsPut)
        response = messages.was_put(reply)
        response.header.CopyFrom(self._asking.header(revision))
        return response

    async def delete_range(self, request: rpc_pb2.DeleteRangeRequest, call: Call) -> Pieces:
        """Keys go."""
        command = messages.delete(request)
        reply, revision = await self._asking.submit(command, call, resource(request.key), KeysAreDeleted)
        head = rpc_pb2.DeleteRangeResponse(header=self._asking.header(revision), deleted=reply.deleted)
        try:
            return await in_turns(messages.were_deleted(head, reply.previous, Making(call.hold)))
        except CallError as error:  # It is done, and nobody hears what.
            raise CallError(*TIMED_OUT) from error

    async def txn(self, request: rpc_pb2.TxnRequest, call: Call) -> Pieces:
        """All of it, or nothing."""
        command = messages.transaction(request)
        if messages.is_serializable(request):
            return await self._read(command, call)
        past: dict[int, OrderedMap[KeyValue]] = {}
        if ranges := messages.past_ranges(request):  # What was then stays so, whenever this is decided.
            self._asking.allowed("RangeKeys", "key")
            fault = fault_of(command)
            if fault is not None:
                raise refused(fault)
            past = await self._asking.keys_then({one.revision for one in ranges}, call)
            if sum(looked_at(past[one.revision], messages.asked(one)) for one in ranges) > READ_MAX:
                raise refused(TOO_MANY_KEYS)
        reply, revision = await self._asking.submit(command, call, "key", Transacted)
        try:
            if past:
                reply = messages.with_past(reply, request, past)
            return await in_turns(messages.transacted(reply, self._asking.header(revision), Making(call.hold)))
        except CallError as error:  # It is done, and nobody hears what.
            raise CallError(*TIMED_OUT) from error

    async def _read(self, command: Transact, call: Call) -> Pieces:
        """A Txn of Ranges that are all serializable: as this node has it."""
        self._asking.allowed("RangeKeys", "key")
        view = await self._asking.view(call, stale=True)
        reply, revision = read(view.state, command), max(view.offset - 1, 0)
        if isinstance(reply, Refusal):
            raise refused(reply)
        return await in_turns(messages.transacted(reply, self._asking.header(revision), Making(call.hold)))

    async def compact(self, request: rpc_pb2.CompactionRequest, call: Call) -> rpc_pb2.CompactionResponse:
        """Nothing: history is kept. A revision that cannot be compacted is refused as etcd does."""
        self._asking.allowed("CompactKeys", "key")
        view = await self._asking.view(call)
        if request.revision >= view.offset:
            raise CallError(*FUTURE)
        if request.revision < 0:
            raise CallError(StatusCode.OUT_OF_RANGE, COMPACTED)
        return rpc_pb2.CompactionResponse(header=self._asking.header(view.offset - 1))

    async def _found(
        self, keys: OrderedMap[KeyValue], asked: RangeKeys
    ) -> tuple[rpc_pb2.RangeResponse, Iterable[KeyValue]]:
        """An answer without its keys, and these; in the order of keys they are read as they are told, for another order
        all are looked at first.
        """
        start, end = bounds(asked.key, asked.range_end)
        found: Iterable[KeyValue] = ()
        more, count = False, keys.count(start, end)
        if asked.count_only:
            return rpc_pb2.RangeResponse(count=count), found
        if _in_order(asked):
            most = asked.limit or count
            found, more = (value for _, value in islice(keys.items(start, end), most)), count > most
        else:
            answer = await in_turns(finding(keys, asked))
            found, more, count = answer.found, answer.more, answer.count
        if asked.keys_only:
            found = (msgspec.structs.replace(one, value=b"") for one in found)
        return rpc_pb2.RangeResponse(more=more, count=count), found


def _in_order(asked: RangeKeys) -> bool:
    return not asked.by_revision and asked.sort_by == "key" and asked.order != "descending"


def resource(key: bytes) -> str:
    """How access knows a key: by its text in the log, of which each key has one."""
    return "key/" + ordered_name(key)
