"""``quorate.meta.v1.Offsets``: how far groups have come in shards, as keys (docs/adr/0095).

Rules: a position is the key ``quorate.offsets/<group>/<shard>``, its value the offset in decimal digits. A commit is
one transaction of KV: what it expects are its comparisons, and one that is not so refuses all of it by name. A key
below the prefix that is no position, for others may put there what they like, is not told. Large answers have pages,
and are made in turns.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from quorate.gateway.grpc.asking import Asking, Call
from quorate.gateway.grpc.codes import CallError, StatusCode, at_most, refused
from quorate.gateway.grpc.kv import resource
from quorate.gateway.grpc.pb import offsets_pb2 as pb
from quorate.metadata.commands import (
    CompareKeys,
    DeleteKeys,
    KeyOperation,
    KeysAreDeleted,
    PutKey,
    Transact,
    Transacted,
)
from quorate.metadata.keys import OPERATIONS_MAX, TOO_MANY_OPERATIONS
from quorate.metadata.refusals import refuse
from quorate.metadata.texts import LONG_MAX, fits
from quorate.model.keys import KeysAre, RangeKeys
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue

PREFIX: Final = b"quorate.offsets/"
NAME_MAX: Final = 255
"""Characters of a group's or a shard's name."""
PAGE_MAX: Final = 1000
"""Positions or groups of one answer."""
_DIGITS_MAX: Final = len(str(LONG_MAX))


class OffsetsService:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking, self._settings = asking, asking.context.settings

    async def commit(self, request: pb.CommitOffsetsRequest, call: Call) -> pb.CommitOffsetsResponse:
        """A group has come so far."""
        prefix = group_prefix(request.group)
        if not request.positions:
            raise refused(refuse("BadOffset", "A commit has one position at least"))
        at_most(OPERATIONS_MAX, len(request.positions), TOO_MANY_OPERATIONS)
        command = Transact(
            compare=tuple(comparison for one in request.positions for comparison in _expected(prefix, one)),
            success=tuple(_put(prefix, one) for one in request.positions),
            failure=tuple(RangeKeys(key=_key(prefix, one.shard)) for one in request.positions),
        )
        reply, revision = await self._asking.submit(command, call, resource(prefix), Transacted)
        if not reply.succeeded:
            raise _stale(request, reply)
        return pb.CommitOffsetsResponse(revision=revision)

    async def fetch(self, request: pb.FetchOffsetsRequest, call: Call) -> pb.FetchOffsetsResponse:
        """How far it has come."""
        prefix = group_prefix(request.group)
        self._asking.allowed("RangeKeys", resource(prefix))
        most = _most(request.limit)
        if len(request.shards) > PAGE_MAX:
            raise CallError(StatusCode.INVALID_ARGUMENT, f"quorate: at most {PAGE_MAX} shards are asked for at once")
        named = [_key(prefix, shard) for shard in request.shards]
        keys, now = await self._asking.keys_at(request.revision, call, stale=request.stale)
        response = pb.FetchOffsetsResponse(revision=now)
        start = prefix + request.after.encode() + b"\x00" if request.after else prefix
        found = keys.items(start, _behind(prefix))
        if named:
            most, found = len(named), ((name, value) for name in named if (value := keys.get(name)) is not None)
        while chunk := list(islice(found, self._settings.keys_per_turn)):
            response.positions.extend(_positions(prefix, chunk))
            if len(response.positions) > most:
                del response.positions[most:]
                response.more = True
                break
            await asyncio.sleep(0)
        return response

    async def groups(self, request: pb.ListGroupsRequest, call: Call) -> pb.ListGroupsResponse:
        """Which groups there are, in the order of their keys."""
        self._asking.allowed("RangeKeys", resource(PREFIX))
        most = _most(request.limit)
        start = _behind(group_prefix(request.after)) if request.after else PREFIX
        keys, now = await self._asking.keys_at(request.revision, call, stale=request.stale)
        response = pb.ListGroupsResponse(revision=now)
        for count, (prefix, name) in enumerate(_groups(keys, start), start=1):
            if name and len(response.groups) == most:
                response.more = True
                break
            if name:
                response.groups.add(group=name, keys=keys.count(prefix, _behind(prefix)))
            if count % self._settings.keys_per_turn == 0:
                await asyncio.sleep(0)
        return response

    async def delete(self, request: pb.DeleteOffsetsRequest, call: Call) -> pb.DeleteOffsetsResponse:
        """A group, or a shard of it, is no more."""
        prefix = group_prefix(request.group)
        if bool(request.shards) == request.all:
            raise refused(refuse("BadShardName", "Shards are named, or all of them are meant"))
        at_most(OPERATIONS_MAX, len(request.shards), TOO_MANY_OPERATIONS)
        wanted = [DeleteKeys(key=_key(prefix, shard)) for shard in request.shards]
        if request.all:
            wanted = [DeleteKeys(key=prefix, range_end=_behind(prefix))]
        command = Transact(success=tuple[KeyOperation, ...](wanted))
        reply, revision = await self._asking.submit(command, call, resource(prefix), Transacted)
        gone = sum(one.deleted for one in reply.replies if isinstance(one, KeysAreDeleted))
        return pb.DeleteOffsetsResponse(revision=revision, deleted=gone)


def group_prefix(group: str) -> bytes:
    """What the keys of a group begin with. Raises CallError: it can be no group's name."""
    if not _is_name(group) or "/" in group:
        raise refused(refuse("BadGroup", f'A group has a printable name of at most {NAME_MAX} characters, without "/"'))
    return PREFIX + group.encode() + b"/"


def _behind(prefix: bytes) -> bytes:
    """The first key that comes after all with this prefix, which ends with a slash."""
    return prefix[:-1] + b"0"


def _is_name(text: str) -> bool:
    return fits(text, NAME_MAX) and text.isprintable()


def _key(prefix: bytes, shard: str) -> bytes:
    if not _is_name(shard):
        raise refused(refuse("BadShardName", f"A shard has a printable name of at most {NAME_MAX} characters"))
    return prefix + shard.encode()


def _put(prefix: bytes, position: pb.CommitOffset) -> PutKey:
    if position.offset < 0:
        raise refused(refuse("BadOffset", "An offset is not negative"))
    return PutKey(key=_key(prefix, position.shard), value=_value(position.offset))


def _value(offset: int) -> bytes:
    return str(offset).encode()


def _expected(prefix: bytes, position: pb.CommitOffset) -> Iterator[CompareKeys]:
    key = _key(prefix, position.shard)
    if position.HasField("expected_offset"):
        yield CompareKeys(key=key, target="value", value=_value(position.expected_offset))
    elif position.HasField("expected_revision"):
        yield CompareKeys(key=key, target="mod", number=position.expected_revision)


def _stale(request: pb.CommitOffsetsRequest, reply: Transacted) -> CallError:
    """Which position is not as it was expected, the first of them, and where it is."""
    found = [one.found[0] if isinstance(one, KeysAre) and one.found else None for one in reply.replies]
    asked, now = next(pair for pair in zip(request.positions, found, strict=True) if not _as_expected(*pair))
    what = "offset" if asked.HasField("expected_offset") else "revision"
    where = "nowhere" if now is None else f"at offset {_shown(now)}, revision {now.mod_revision}"
    told = f"{request.group} is {where} in {asked.shard}, not at {what} {getattr(asked, f'expected_{what}')}"
    return refused(refuse("StaleOffset", told))


def _as_expected(position: pb.CommitOffset, now: KeyValue | None) -> bool:
    if position.HasField("expected_offset"):
        return now is not None and now.value == _value(position.expected_offset)
    return not position.HasField("expected_revision") or position.expected_revision == (now.mod_revision if now else 0)


def _shown(found: KeyValue) -> str:
    offset = _offset(found)
    return "unknown" if offset is None else str(offset)


def _offset(found: KeyValue) -> int | None:
    """None: others put there what is no offset."""
    digits = found.value
    if not digits.isdigit() or len(digits) > _DIGITS_MAX or (digits[0] == ord("0") and len(digits) > 1):
        return None
    offset = int(digits)
    return offset if offset <= LONG_MAX else None


def _positions(prefix: bytes, found: Iterable[tuple[bytes, KeyValue]]) -> Iterator[pb.Position]:
    for name, value in found:
        offset, shard = _offset(value), _name(name.removeprefix(prefix))
        if shard and offset is not None:
            yield pb.Position(shard=shard, offset=offset, revision=value.mod_revision)


def _groups(keys: OrderedMap[KeyValue], start: bytes) -> Iterator[tuple[bytes, str]]:
    """What the keys of each begin with, and its name; of a key that is of none, no name."""
    while (found := next(keys.items(start, _behind(PREFIX)), None)) is not None:
        group, slash, _ = found[0].removeprefix(PREFIX).partition(b"/")
        prefix = PREFIX + group + b"/"
        yield prefix, _name(group) if slash else ""
        start = _behind(prefix) if slash else found[0] + b"\x00"


def _name(name: bytes) -> str:
    """Empty: it is none."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return ""
    return text if _is_name(text) else ""


def _most(limit: int) -> int:
    if limit < 0:
        raise CallError(StatusCode.INVALID_ARGUMENT, "quorate: a limit is not negative")
    return min(limit or PAGE_MAX, PAGE_MAX)
