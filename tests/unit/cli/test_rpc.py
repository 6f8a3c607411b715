"""What is asked of a node's gRPC: answers of any length, and what lasts while a node hangs. Against small servers."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any

import grpc
import msgspec
import pytest

from quorate.cli import program
from quorate.cli.client import TIMEOUT_S, Node
from quorate.gateway.grpc.pb import kv_pb2, rpc_pb2
from quorate.gateway.grpc.pb.rpc_pb2_grpc import (
    KVServicer,
    LeaseServicer,
    WatchServicer,
    add_KVServicer_to_server,
    add_LeaseServicer_to_server,
    add_WatchServicer_to_server,
)
from tests.unit.cli.served import serving
from tests.unit.cli.test_operate import a_status

LONG = b"x" * (1 << 20)
TTL_S = 2
KEYS = 5
"""Together they are more than grpcio takes where nothing is said."""


@contextmanager
def speaking(add: Callable[[grpc.Server], None]) -> Iterator[str]:
    """A node with a gRPC that ``add`` adds; where its HTTP is."""
    server = grpc.server(ThreadPoolExecutor(4))
    add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with serving() as node:
            node.answers["/v1/status"] = msgspec.structs.replace(a_status(healthy=True), grpc=f"127.0.0.1:{port}")
            yield node.address
    finally:
        server.stop(None).wait()


def long_keys() -> list[kv_pb2.KeyValue]:
    return [kv_pb2.KeyValue(key=b"k%d" % number, value=LONG, mod_revision=7) for number in range(KEYS)]


class LongKeys(KVServicer):
    """Some of a mebibyte each."""

    def Range(self, request: Any, context: Any) -> Any:  # noqa: N802
        return rpc_pb2.RangeResponse(kvs=long_keys(), count=KEYS)


class LongChange(WatchServicer):
    """One revision of all of them, and then no more."""

    def Watch(self, requests: Any, context: Any) -> Any:  # noqa: N802
        next(requests)
        events = [kv_pb2.Event(type=kv_pb2.Event.PUT, kv=one) for one in long_keys()]
        yield rpc_pb2.WatchResponse(created=True)
        yield rpc_pb2.WatchResponse(events=events)
        yield rpc_pb2.WatchResponse(canceled=True, cancel_reason="that was all")


class Hanging(LeaseServicer):
    """It answers so many words, and then hangs, or says that the lease has ended. ``waited``: of each, how long."""

    def __init__(self, answers: int, *, hangs: bool) -> None:
        self.left, self.hangs = answers, hangs
        self.waited = list[float]()
        self.over = Event()

    def LeaseKeepAlive(self, requests: Any, context: Any) -> Any:  # noqa: N802
        self.waited.append(context.time_remaining())
        self.left -= 1
        if self.left < 0 and self.hangs:
            self.over.wait(TIMEOUT_S)
        yield rpc_pb2.LeaseKeepAliveResponse(ID=1, TTL=TTL_S if self.left >= 0 else 0)


def test_an_answer_of_any_length_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """All keys with a prefix come in one answer, as long as the node lets it be."""
    with speaking(lambda server: add_KVServicer_to_server(LongKeys(), server)) as node:
        assert program.main(["kv", "get", "k", "--prefix", "-o", "json", "--node", node]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == KEYS


def test_a_revision_of_any_length_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A watch does not end at a transaction of long values, at which it would end again."""
    with speaking(lambda server: add_WatchServicer_to_server(LongChange(), server)) as node:
        assert program.main(["kv", "watch", "k", "--prefix", "--node", node]) == 1
    told = capsys.readouterr()
    assert (len(told.out.splitlines()), told.err) == (KEYS, "quorate: that was all\n")


def test_a_lease_outlives_a_node_that_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once its time is known, no node is waited for longer than a third of it: neither for a word nor for its place."""
    asked, slept = list[float](), list[float]()

    class Noted(Node):
        def __init__(self, nodes: str, timeout_s: float) -> None:
            asked.append(timeout_s)
            super().__init__(nodes, timeout_s)

    monkeypatch.setattr("quorate.cli.rpc.Node", Noted)
    monkeypatch.setattr("quorate.cli.keys.time", SimpleNamespace(sleep=slept.append))
    one, other = Hanging(1, hangs=True), Hanging(1, hangs=False)
    with (
        speaking(lambda server: add_LeaseServicer_to_server(one, server)) as first,
        speaking(lambda server: add_LeaseServicer_to_server(other, server)) as second,
    ):
        assert program.main(["lease", "keep-alive", "1", "--node", f"{first},{second}"]) == 1
        one.over.set()
    told = capsys.readouterr()
    assert told.err.endswith(f"quorate: there is no lease {1:016x}\n")
    assert slept == [TTL_S / 3] * 2
    assert one.waited[0] > TTL_S
    assert max(one.waited[1:] + other.waited) < TTL_S / 2
    assert (asked[:2], set(asked[2:])) == ([TIMEOUT_S] * 2, {TTL_S / 3})
