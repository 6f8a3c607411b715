"""``quorate kv`` and ``quorate lease``: keys and leases from the command line, over the gRPC that etcd's clients speak.
It knows no leases of the past: they are listed over HTTP.

Rules: keys and values are the bytes that were typed; in tables what is not UTF-8 is shown as base64, in JSON and YAML a
key is the text that the log has and a value is base64. A lease is a hexadecimal number, as ``etcdctl`` prints it. What
lasts (``watch``, ``keep-alive``) outlives the node it began at, where ``--node`` names more.
"""

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Event
from typing import Any, Final

import grpc

from quorate.cli.client import NodeError, add_action
from quorate.cli.command import DONE, REFUSED, Command, number
from quorate.cli.freshness import add_freshness, add_revision, pages
from quorate.cli.output import columns, show
from quorate.cli.rpc import TIMEOUT_S, channel, going_on, until_interrupted
from quorate.errors import UsageError
from quorate.events import ordered_name
from quorate.gateway.grpc.pb import kv_pb2, rpc_pb2
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub, LeaseStub, WatchStub
from quorate.gateway.http.answers import Leases
from quorate.model.ordered import after_prefix
from quorate.model.words import lease_number, lease_of
from quorate.terminal import visible_bytes

PORTION: Final = 1_000
"""Keys that are deleted at once where all of them cannot be."""


def _key_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="get|put|del|watch|lease")
    get = add_action(actions, "get", "Keys and their values; exit 1 when there is none.")
    get.add_argument("key", metavar="KEY")
    _range(get)
    add_revision(get)
    get.add_argument("--limit", type=number(), default=0, metavar="N", help="at most so many")
    get.add_argument("--keys-only", action="store_true", help="without values")
    get.add_argument("--stale", action="store_true", help="as the asked node has it, without asking the leader")
    put = add_action(actions, "put", "Give a key a value.")
    put.add_argument("key", metavar="KEY")
    put.add_argument("value", metavar="VALUE", help="- is read from stdin")
    put.add_argument("--lease", default="0", metavar="ID", help="it goes when this lease ends")
    delete = add_action(
        actions,
        "del",
        "Delete keys, at once, or in portions where they are too many for that; exit 1 when there was none.",
    )
    delete.add_argument("key", metavar="KEY")
    _range(delete)
    watch = add_action(actions, "watch", "Tell every change of keys as it happens; Ctrl-C ends it.")
    watch.add_argument("key", metavar="KEY")
    _range(watch)
    watch.add_argument("--revision", type=number(), default=0, metavar="N", help="from this revision on (default: now)")
    summary = "The same as quorate lease."
    _lease_arguments(actions.add_parser("lease", help=summary, description=summary))


def _lease_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="grant|revoke|keep-alive|ttl|list")
    grant = add_action(actions, "grant", "Begin a lease; prints its number.")
    grant.add_argument("ttl", type=number(), metavar="SECONDS")
    for name, summary in (
        ("revoke", "End a lease and delete its keys."),
        ("keep-alive", "Keep a lease alive until Ctrl-C."),
        ("ttl", "What is left of a lease, and its keys; exit 1 when there is none."),
    ):
        action = add_action(actions, name, summary)
        action.add_argument("lease", metavar="ID")
        if name == "keep-alive":
            action.add_argument("--once", action="store_true", help="one word, and no more")
    add_freshness(add_action(actions, "list", "All leases."))


def _range(parser: ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--prefix", action="store_true", help="every key that begins with KEY")
    group.add_argument("--from-key", action="store_true", help="every key from KEY on")
    group.add_argument("--to", metavar="END", help="every key from KEY on that comes before END")


def _end(options: Namespace) -> bytes:
    if options.prefix:
        return after_prefix(os.fsencode(options.key)) or b"\x00"
    if options.from_key:
        return b"\x00"
    return os.fsencode(options.to) if options.to is not None else b""


def _lease(text: str) -> int:
    number = lease_of(text)
    if number is None:
        raise UsageError(f"{text[:40]!r} is no number of a lease (hexadecimal, 64 bits)")
    return number


# -- keys


def _get(options: Namespace, channel: grpc.Channel) -> int:
    request = rpc_pb2.RangeRequest(
        key=os.fsencode(options.key),
        range_end=_end(options),
        limit=options.limit,
        revision=options.revision,
        keys_only=options.keys_only,
        serializable=options.stale,
    )
    answer = KVStub(channel).Range(request, timeout=TIMEOUT_S)
    found = {
        "revision": answer.header.revision,
        "count": answer.count,
        "more": answer.more,
        "keys": [_plain(one) for one in answer.kvs],
    }
    names = ["key", "revision", "version", "lease"] if options.keys_only else ["key", "value", "revision", "lease"]
    rows = [[_cells(one)[name] for name in names] for one in answer.kvs]
    show(found, options.output, columns(names, rows) if rows else [])
    return DONE if answer.count else REFUSED


def _plain(one: kv_pb2.KeyValue) -> dict[str, Any]:
    return {
        "key": ordered_name(one.key),
        "value": b64encode(one.value).decode(),
        "create_revision": one.create_revision,
        "mod_revision": one.mod_revision,
        "version": one.version,
        "lease": lease_number(one.lease) if one.lease else None,
    }


def _cells(one: kv_pb2.KeyValue) -> dict[str, str]:
    return {
        "key": visible_bytes(one.key),
        "value": visible_bytes(one.value),
        "revision": str(one.mod_revision),
        "version": str(one.version),
        "lease": lease_number(one.lease) if one.lease else "",
    }


def _put(options: Namespace, channel: grpc.Channel) -> int:
    key = os.fsencode(options.key)
    value = sys.stdin.buffer.read() if options.value == "-" else os.fsencode(options.value)
    request = rpc_pb2.PutRequest(key=key, value=value, lease=_lease(options.lease))
    answer = KVStub(channel).Put(request, timeout=TIMEOUT_S)
    revision = answer.header.revision
    show({"revision": revision}, options.output, [f"key {visible_bytes(key)} is put; revision {revision}"])
    return DONE


def _delete(options: Namespace, channel: grpc.Channel) -> int:
    kv, key, end = KVStub(channel), os.fsencode(options.key), _end(options)
    try:
        answer = kv.DeleteRange(rpc_pb2.DeleteRangeRequest(key=key, range_end=end), timeout=TIMEOUT_S)
        deleted, revision = answer.deleted, answer.header.revision
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
            raise
        deleted, revision = _delete_in_portions(kv, key, end)
        if not deleted:  # It was refused for something else.
            raise
    show({"deleted": deleted, "revision": revision}, options.output, [f"{deleted} deleted; revision {revision}"])
    return DONE if deleted else REFUSED


def _delete_in_portions(kv: KVStub, key: bytes, end: bytes) -> tuple[int, int]:
    """How many, and the last revision. Each portion is said: what is gone stays so if a later one fails."""
    count, deleted, revision = PORTION, 0, 0
    while True:
        asked = rpc_pb2.RangeRequest(key=key, range_end=end, keys_only=True, limit=count)
        found = kv.Range(asked, timeout=TIMEOUT_S).kvs
        if not found:
            return deleted, revision
        portion = rpc_pb2.DeleteRangeRequest(key=found[0].key, range_end=found[-1].key + b"\0")
        try:
            answer = kv.DeleteRange(portion, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION or count == 1:
                raise
            count //= 2  # Their names are long.
            continue
        deleted, revision = deleted + answer.deleted, answer.header.revision
        print(f"{deleted} deleted so far; revision {revision}", file=sys.stderr)


def _watch(options: Namespace) -> int:
    """``options.revision`` is the next to be told, also by another node."""
    return going_on(options, lambda made, heard: _watch_at(options, made, heard))


def _watch_at(options: Namespace, channel: grpc.Channel, heard: Callable[[], None]) -> int:
    create = rpc_pb2.WatchCreateRequest(
        key=os.fsencode(options.key), range_end=_end(options), start_revision=options.revision
    )
    ended = Event()

    def asked() -> Iterator[rpc_pb2.WatchRequest]:
        """A stream that asks nothing more is one that ends."""
        yield rpc_pb2.WatchRequest(create_request=create)
        ended.wait()

    answers = WatchStub(channel).Watch(asked())
    try:
        return until_interrupted(answers, lambda told: _tell(options, told, heard))
    finally:
        ended.set()


def _tell(options: Namespace, answers: Iterable[rpc_pb2.WatchResponse], heard: Callable[[], None]) -> int:
    for answer in answers:
        heard()
        if answer.canceled:
            raise NodeError(answer.cancel_reason)
        if answer.created and not options.revision:
            options.revision = answer.header.revision + 1
        for event in answer.events:
            deleted = event.type == kv_pb2.Event.DELETE
            told = {"event": "delete" if deleted else "put", **_plain(event.kv)}
            cells = _cells(event.kv)
            line = f"{cells['revision']}  {'delete' if deleted else 'put   '}  {cells['key']}  {cells['value']}"
            show(told, options.output, [line.rstrip()])
            sys.stdout.flush()
        if answer.events:  # A revision is told whole.
            options.revision = answer.events[-1].kv.mod_revision + 1
    return DONE


# -- leases


def _grant(options: Namespace, channel: grpc.Channel) -> int:
    answer = LeaseStub(channel).LeaseGrant(rpc_pb2.LeaseGrantRequest(TTL=options.ttl), timeout=TIMEOUT_S)
    number = lease_number(answer.ID)
    show({"lease": number, "ttl_s": answer.TTL}, options.output, [f"lease {number} is granted for {answer.TTL} s"])
    return DONE


def _revoke(options: Namespace, channel: grpc.Channel) -> int:
    lease = _lease(options.lease)
    LeaseStub(channel).LeaseRevoke(rpc_pb2.LeaseRevokeRequest(ID=lease), timeout=TIMEOUT_S)
    show({"lease": lease_number(lease)}, options.output, [f"lease {lease_number(lease)} has ended"])
    return DONE


def _keep_alive(options: Namespace) -> int:
    """A word every third of its time; ``options.word_s``, how long a node is waited for, is no longer than that."""
    options.word_s = TIMEOUT_S
    return going_on(options, lambda made, heard: _keep_alive_at(options, made, heard), lambda: options.word_s)


def _keep_alive_at(options: Namespace, channel: grpc.Channel, heard: Callable[[], None]) -> int:
    lease, stub = _lease(options.lease), LeaseStub(channel)
    while True:
        request = rpc_pb2.LeaseKeepAliveRequest(ID=lease)
        (answer,) = stub.LeaseKeepAlive(iter([request]), timeout=options.word_s)
        heard()
        if not answer.TTL:
            raise NodeError(f"there is no lease {lease_number(lease)}")
        told = {"lease": lease_number(lease), "ttl_s": answer.TTL}
        show(told, options.output, [f"lease {lease_number(lease)} lives for {answer.TTL} s"])
        sys.stdout.flush()
        if options.once:
            return DONE
        options.word_s = min(TIMEOUT_S, answer.TTL / 3)  # Of a node that hangs, another hears in time.
        time.sleep(answer.TTL / 3)


def _ttl(options: Namespace, channel: grpc.Channel) -> int:
    lease = _lease(options.lease)
    request = rpc_pb2.LeaseTimeToLiveRequest(ID=lease, keys=True)
    answer = LeaseStub(channel).LeaseTimeToLive(request, timeout=TIMEOUT_S)
    if answer.TTL < 0:
        raise NodeError(f"there is no lease {lease_number(lease)}")
    told = {
        "lease": lease_number(lease),
        "left_s": answer.TTL,
        "ttl_s": answer.grantedTTL,
        "keys": [ordered_name(key) for key in answer.keys],
    }
    lines = [f"lease {lease_number(lease)} lives for {answer.TTL} of {answer.grantedTTL} s"]
    show(told, options.output, [*lines, *(f"  {visible_bytes(key)}" for key in answer.keys)])
    return DONE


def _list(options: Namespace) -> int:
    numbers = [one.lease for page in pages(options, "/v1/leases", Leases) for one in page.leases]
    show(numbers, options.output, numbers)
    return DONE


# -- both

_OTHERS: Final[Mapping[str, Callable[[Namespace], int]]] = {"watch": _watch, "keep-alive": _keep_alive, "list": _list}
"""These see to their connections themselves."""
_ACTIONS: Final[Mapping[str, Callable[[Namespace, grpc.Channel], int]]] = {
    "get": _get,
    "put": _put,
    "del": _delete,
    "grant": _grant,
    "revoke": _revoke,
    "ttl": _ttl,
}


def _run(options: Namespace) -> int:
    if options.action in _OTHERS:
        return _OTHERS[options.action](options)
    with channel(options) as made:
        return _ACTIONS[options.action](options, made)


KV = Command(_key_arguments, _run)
LEASE = Command(_lease_arguments, _run)
