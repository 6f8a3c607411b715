"""Hostile bytes for the protobuf edge and the handlers behind it, guided by coverage.

Rules: bytes either are no message, or a handler answers with a message that can be written, or ends by a ``CallError``,
which changed nothing unless it says that nobody knows. A stream says what it has to say and waits. Any other exception,
an input that takes seconds, or more than half a gigabyte is a finding: the input is kept in ``.run/fuzz`` and the exit
status is not 0. Starts from requests of every method, and from what earlier runs found.

Usage: ``fuzz_grpc.py [--seconds N]``.
"""

import argparse
import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(
    include=["quorate.gateway.grpc", "quorate.metadata.keys", "quorate.metadata.leases", "quorate.model.keys"],
    exclude=["quorate.gateway.grpc.pb"],
):
    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    from quorate.gateway.grpc import server as edge
    from quorate.gateway.grpc.codes import TIMED_OUT, CallError
    from quorate.gateway.grpc.pb import offsets_pb2
    from quorate.gateway.grpc.pb import rpc_pb2 as pb
    from quorate.gateway.grpc.settings import GrpcSettings
    from quorate.metadata.commands import GrantLease, PutKey
    from tests.unit.gateway.grpc import house as houses

SETTINGS: Final = GrpcSettings(request_bytes_max=65_536, answer_bytes_max=1 << 20)
LEASE: Final = 7
TURNS: Final = 60
"""A stream that says nothing for so many turns waits."""
ANSWERS_MAX: Final = 50


def methods(server: edge.GrpcServer) -> list[tuple[MethodDescriptor, Any]]:
    """All that is served, with its handler."""
    return [
        (method, handlers[method.name])
        for service, handlers in server._services.items()
        for method in service.methods
        if method.name in handlers
    ]


class Inside:
    """A new node for each input, with a few keys and a lease."""

    def __init__(self) -> None:
        self.house = houses.House(settings=SETTINGS)
        self.house.bench.done(GrantLease(lease=LEASE, ttl_s=60))
        for name in (b"a", b"ab", b"b"):
            self.house.bench.done(PutKey(key=name, value=b"1", lease=LEASE if name == b"a" else 0))
        self.methods = methods(edge.GrpcServer(self.house.context))

    def ask(self, data: bytes) -> None:
        """The first byte chooses the method, the rest is its request, or the requests of its stream."""
        method, handler = self.methods[data[0] % len(self.methods)]
        try:
            requests = [GetMessageClass(method.input_type).FromString(part) for part in _parts(method, data[1:])]
        except DecodeError:  # No message: its call ends, and no handler hears of it (``fuzz_http2``).
            return
        before = self.house.revision
        refused: CallError | None = None
        try:
            self.house.run(self._answered(method, handler, requests))
        except CallError as error:
            refused = error
        if refused is not None and not method.client_streaming and (refused.code, refused.text) != TIMED_OUT:
            assert self.house.revision == before, (method.full_name, refused)

    async def _answered(self, method: MethodDescriptor, handler: Any, requests: list[Any]) -> None:
        asked = _stream(requests) if method.client_streaming else requests[0]
        if method.server_streaming:
            await self._read_stream(handler(asked, self.house.call))
        else:
            _written(method, await handler(asked, self.house.call))

    async def _read_stream(self, answers: AsyncIterator[Any]) -> None:
        """What it says before it waits."""
        task: asyncio.Task[Any] | None = None
        try:
            for _ in range(ANSWERS_MAX):
                task = asyncio.ensure_future(anext(answers, None))
                for _ in range(TURNS):
                    if task.done():
                        break
                    self.house.bench.settle(1)
                    await asyncio.sleep(0)
                else:
                    return
                answer = task.result()
                if answer is None:
                    return
                assert isinstance(answer.SerializeToString(), bytes)
        finally:
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await answers.aclose()  # type: ignore[attr-defined]


def _parts(method: MethodDescriptor, data: bytes) -> Iterator[bytes]:
    """One request; or several, each behind a byte that says how long it is."""
    if not method.client_streaming:
        yield data
        return
    while data:
        yield data[1 : 1 + data[0]]
        data = data[1 + data[0] :]


async def _stream(requests: list[Any]) -> AsyncIterator[Any]:
    for request in requests:
        yield request


def _written(method: MethodDescriptor, answer: Any) -> None:
    """A message, or a large one in pieces."""
    kind = GetMessageClass(method.output_type)
    made = kind.FromString(b"".join(answer)) if isinstance(answer, list) else answer
    assert isinstance(made, kind), (method.full_name, answer)
    assert kind.FromString(made.SerializeToString()) == made


def one(data: bytes) -> None:
    """One input."""
    if data:
        Inside().ask(data)


def _samples() -> dict[str, list[Any]]:
    """Requests of each method that say much."""
    put = pb.PutRequest(key=b"a", value=b"2", lease=LEASE, prev_kv=True)
    get = pb.RangeRequest(key=b"a", range_end=b"b", limit=1, sort_order=pb.RangeRequest.DESCEND, revision=5)
    delete = pb.DeleteRangeRequest(key=b"a", range_end=b"\x00", prev_kv=True)
    compare = [
        pb.Compare(key=b"a", target=pb.Compare.VALUE, value=b"1"),
        pb.Compare(key=b"a", range_end=b"c", target=pb.Compare.LEASE, lease=LEASE, result=pb.Compare.LESS),
    ]
    operations = [pb.RequestOp(request_put=put), pb.RequestOp(request_range=get)]
    inner = pb.TxnRequest(compare=compare, success=operations, failure=[pb.RequestOp(request_delete_range=delete)])
    txn = pb.TxnRequest(success=[pb.RequestOp(request_txn=inner)], failure=operations)
    watch = pb.WatchCreateRequest(
        key=b"a", range_end=b"c", start_revision=1, prev_kv=True, fragment=True, progress_notify=True, watch_id=3
    )
    return {
        "Range": [get, pb.RangeRequest(key=b"a", keys_only=True, max_mod_revision=9)],
        "Put": [put, pb.PutRequest(key=b"a", ignore_value=True)],
        "DeleteRange": [delete],
        "Txn": [txn, inner],
        "Compact": [pb.CompactionRequest(revision=3)],
        "Watch": [
            pb.WatchRequest(create_request=watch),
            pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=3)),
            pb.WatchRequest(progress_request=pb.WatchProgressRequest()),
        ],
        "LeaseGrant": [pb.LeaseGrantRequest(TTL=9, ID=8)],
        "LeaseRevoke": [pb.LeaseRevokeRequest(ID=LEASE)],
        "LeaseKeepAlive": [pb.LeaseKeepAliveRequest(ID=LEASE), pb.LeaseKeepAliveRequest(ID=8)],
        "LeaseTimeToLive": [pb.LeaseTimeToLiveRequest(ID=LEASE, keys=True)],
        "HashKV": [pb.HashKVRequest(revision=5)],
        "MoveLeader": [pb.MoveLeaderRequest(targetID=2)],
        "Alarm": [pb.AlarmRequest(action=pb.AlarmRequest.GET, alarm=pb.NOSPACE)],
        "MemberList": [pb.MemberListRequest(linearizable=True)],
        "Commit": [
            offsets_pb2.CommitOffsetsRequest(
                group="g", positions=[offsets_pb2.CommitOffset(shard="s", offset=3, expected_revision=0)]
            )
        ],
        "Fetch": [offsets_pb2.FetchOffsetsRequest(group="g", shards=["s"], revision=5)],
        "ListGroups": [offsets_pb2.ListGroupsRequest(after="a", limit=2)],
        "Delete": [offsets_pb2.DeleteOffsetsRequest(group="g", all=True)],
    }


def seeds(folder: Path) -> None:
    """A file for each request; of a stream, all of them in one."""
    samples = _samples()
    for number, (method, _) in enumerate(Inside().methods):
        said = [sample.SerializeToString() for sample in samples.get(method.name, [])]
        if method.client_streaming:
            said = [b"".join(struct.pack(">B", len(one)) + one for one in said)]
        for at, data in enumerate(said or [b""]):
            (folder / f"{method.name}-{at}").write_bytes(bytes([number]) + data)


def main() -> None:
    """Fuzz for so many seconds; libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    options: Any = parser.parse_args()
    findings = ROOT / ".run" / "fuzz"
    corpus = findings / "grpc-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds(corpus)
    limits = [f"-max_total_time={options.seconds}", "-timeout=5", "-rss_limit_mb=512", "-max_len=4096"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={findings}/grpc-", "-print_final_stats=1", str(corpus)], one
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
