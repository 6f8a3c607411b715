"""A client of etcd's gRPC services, as small as can be: a message in, a message or an error out.

Rules: every call has a deadline; what a server says about an error is a value (``Failed``), since cases compare it.
That it said nothing in time, or was not there, is no answer: TimeoutError. A stream is read by a thread of its own, so
that waiting for its next answer can have a deadline too.
"""

import queue
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import grpc
import msgspec

from tests.etcd.stubs import messages

DEADLINE_S: Final = 30.0
MAX_BYTES: Final = 64 * 1024 * 1024
"""Ours, not theirs: what is too much is for the server to say."""

METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "Range": ("KV", "RangeRequest"),
    "Put": ("KV", "PutRequest"),
    "DeleteRange": ("KV", "DeleteRangeRequest"),
    "Txn": ("KV", "TxnRequest"),
    "Compact": ("KV", "CompactionRequest"),
    "Watch": ("Watch", "WatchRequest"),
    "LeaseGrant": ("Lease", "LeaseGrantRequest"),
    "LeaseRevoke": ("Lease", "LeaseRevokeRequest"),
    "LeaseKeepAlive": ("Lease", "LeaseKeepAliveRequest"),
    "LeaseTimeToLive": ("Lease", "LeaseTimeToLiveRequest"),
    "LeaseLeases": ("Lease", "LeaseLeasesRequest"),
    "MemberList": ("Cluster", "MemberListRequest"),
    "Alarm": ("Maintenance", "AlarmRequest"),
    "Status": ("Maintenance", "StatusRequest"),
    "HashKV": ("Maintenance", "HashKVRequest"),
    "MoveLeader": ("Maintenance", "MoveLeaderRequest"),
}
"""Service and request of each method; the answer is called as the request is."""


class Failed(msgspec.Struct, frozen=True):
    """An error as a client sees it."""

    code: str
    details: str


def request(method: str, fields: Mapping[str, Any]) -> Any:
    """The message that a method takes, of its fields (messages within it as mappings)."""
    return messages(METHODS[method][1])(**fields)


def answer(method: str) -> Any:
    """The type of message that a method answers."""
    return messages(METHODS[method][1].removesuffix("Request") + "Response")


def path(method: str) -> str:
    """Where it is asked."""
    return f"/etcdserverpb.{METHODS[method][0]}/{method}"


def failed(error: grpc.RpcError) -> Failed:
    """What the server said."""
    return Failed(error.code().name, error.details() or "")


class Stream:
    """A stream both ways; ``next`` waits for an answer, ``Failed`` is the last of them, None its proper end."""

    def __init__(self, channel: grpc.Channel, method: str) -> None:
        self._method = method
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = channel.stream_stream(path(method), _bytes, answer(method).FromString)
        self._call = call(self._asked())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, fields: Mapping[str, Any]) -> None:
        """Ask for something more."""
        self._requests.put(request(self._method, fields))

    def next(self, timeout_s: float = DEADLINE_S) -> Any:
        """What comes next. Raises TimeoutError."""
        try:
            return self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"{self._method} says nothing for {timeout_s:.0f} s") from None

    def finish(self) -> None:
        """Say that nothing more is asked."""
        self._requests.put(None)

    def close(self) -> None:
        """End it, whatever is still to come."""
        self.finish()
        self._call.cancel()
        self._reader.join(DEADLINE_S)

    def _asked(self) -> Iterator[Any]:
        while (asked := self._requests.get()) is not None:
            yield asked

    def _read(self) -> None:
        try:
            for one in self._call:
                self._answers.put(one)
        except grpc.RpcError as error:
            self._answers.put(failed(error))
        else:
            self._answers.put(None)


class Client:
    """One server, by its address."""

    def __init__(self, address: str) -> None:
        sizes = [("grpc.max_send_message_length", MAX_BYTES), ("grpc.max_receive_message_length", MAX_BYTES)]
        self._channel = grpc.insecure_channel(address, options=[*sizes, ("grpc.enable_http_proxy", 0)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection up."""
        self._channel.close()

    def ask(self, method: str, fields: Mapping[str, Any]) -> Any:
        """The answer, or ``Failed``. Raises TimeoutError."""
        return self.ask_bytes(path(method), request(method, fields).SerializeToString(), answer(method).FromString)

    def ask_bytes(self, where: str, asked: bytes, read: Any = None) -> Any:
        """The same for a request that may be no message, and a method that may not be there."""
        call: Any = self._channel.unary_unary(where, None, read)
        try:
            return call(asked, timeout=DEADLINE_S, wait_for_ready=True)
        except grpc.RpcError as error:
            if error.code() in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}:
                raise TimeoutError(f"{where}: {error.details()}") from None
            return failed(error)

    def stream(self, method: str) -> Stream:
        """A stream of requests and answers; the caller closes it."""
        return Stream(self._channel, method)


def _bytes(message: Any) -> bytes:
    found: bytes = message.SerializeToString()
    return found
