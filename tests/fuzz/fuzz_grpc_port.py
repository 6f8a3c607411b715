"""Hostile bytes at the gRPC port of a real node: half-said, mutated and random HTTP/2 on many connections.

Rules: whatever came, who asks next is answered, over gRPC on a kept and on a new connection and over HTTP; the node
grows by no more than ``GROWTH_MAX``, and its log has not what strangers said, nor a call that failed there. Everything
here has a deadline of its own, so nothing of it stands still. Another answer, or none, is a finding: the seed is told,
and the exit status is not 0. What the bytes carry once they are messages is ``fuzz_grpc.py``'s.

Usage: ``fuzz_grpc_port.py [--seconds N] [--seed N]``.
"""

import argparse
import random
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import grpc
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from quorate.gateway.grpc.pb import rpc_pb2 as pb  # noqa: E402
from quorate.gateway.http.answers import Status  # noqa: E402
from tests.clusters import Started, up  # noqa: E402

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
ROUND: Final = 40
"""Connections between two questions."""
OPEN_MAX: Final = 400
"""Connections that are left open; the oldest goes."""
ANSWER_S: Final = 5.0
"""Who is not answered within this is not answered."""
PROMPT_S: Final = 1.0
PROMPT_SHARE: Final = 0.95
"""So many of all answers come within ``PROMPT_S``: on a machine with other work some wait for a core."""
GROWTH_MAX: Final = 64 << 20
PATHS: Final = (
    "/etcdserverpb.KV/Range",
    "/etcdserverpb.KV/Txn",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/quorate.meta.v1.Members/List",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/nobody/serves.this",
)


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """One of HTTP/2 (RFC 9113, section 4.1)."""
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _field(name: bytes, value: bytes) -> bytes:
    """Literal, not indexed (RFC 7541, section 6.2.2), each shorter than 127 bytes."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(stream: int, path: bytes, timeout: bytes = b"9S", wrong: dict[bytes, bytes] | None = None) -> bytes:
    """The first frame of a call; ``wrong`` fields are otherwise than a client says them."""
    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path,
        b":authority": b"x",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
        b"grpc-timeout": timeout,
    } | (wrong or {})
    return frame(HEADERS, END_HEADERS, stream, b"".join(_field(*field) for field in fields.items()))


class Hostile:
    """What one connection says."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def connection(self) -> bytes:
        """Everything that it says, from its first byte on."""
        chance = self._chance
        if chance.random() < 0.1:
            return chance.randbytes(chance.randrange(300))
        frames = [frame(SETTINGS, 0, 0)]
        for number in range(chance.randrange(1, 8)):
            frames += self._some(2 * number + 1)
        if chance.random() < 0.3:
            chance.shuffle(frames)
        said = bytearray(PREFACE + b"".join(frames))
        if chance.random() < 0.6:
            for _ in range(chance.randrange(1, 6)):
                said[chance.randrange(len(said))] = chance.randrange(256)
        return bytes(said if chance.random() < 0.7 else said[: chance.randrange(len(said))])

    def _some(self, stream: int) -> list[bytes]:
        chance = self._chance
        made = (self._call, self._call, self._call, self._flood, self._noise, self._endless)
        return chance.choice(made)(stream)

    def _call(self, stream: int) -> list[bytes]:
        """A request as clients make it, with a message that may be too long, too short or none."""
        chance = self._chance
        message = pb.RangeRequest(key=chance.randbytes(3), range_end=b"\x00", limit=chance.randrange(5))
        body = message.SerializeToString() if chance.random() < 0.6 else chance.randbytes(chance.randrange(60))
        size = len(body) if chance.random() < 0.7 else chance.randrange(1 << 32)
        data = bytes([chance.choice((0, 0, 0, 1, 255))]) + size.to_bytes(4, "big") + body
        ending = END_STREAM if chance.random() < 0.8 else 0
        path = chance.choice(PATHS).encode()
        if chance.random() < 0.1:
            path += bytes([chance.randrange(128, 256)])
        timeout = chance.choice((b"1S", b"1n", b"99999999H", b"-1S", b"x"))
        wrong = {chance.choice((b":method", b":scheme", b"te", b"x-bin")): chance.randbytes(3)}
        return [
            head(stream, path, timeout, wrong if chance.random() < 0.1 else None),
            frame(DATA, ending, stream, data),
        ]

    def _flood(self, stream: int) -> list[bytes]:
        """Many small frames that want something done: pings, settings, streams that are reset at once."""
        chance = self._chance
        call = head(stream, b"/nobody/serves.this")
        each = chance.choice((
            frame(PING, 0, 0, chance.randbytes(8)),
            frame(SETTINGS, 0, 0, chance.randbytes(6)),
            frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff"),
            call + frame(RESET, 0, stream, b"\x00\x00\x00\x08"),
            frame(GOAWAY, 0, 0, bytes(8)),
            frame(DATA, 0, stream),
        ))  # fmt: skip
        return [each] * chance.randrange(1, 200)

    def _endless(self, stream: int) -> list[bytes]:
        """A head that goes on and on."""
        more = _field(b"x-" + self._chance.randbytes(4).hex().encode(), b"y" * 120)
        count = self._chance.randrange(1, 300)
        return [frame(HEADERS, 0, stream, more), *[frame(CONTINUATION, 0, stream, more)] * count]

    def _noise(self, stream: int) -> list[bytes]:
        chance = self._chance
        body = chance.randbytes(chance.randrange(60))
        return [frame(chance.randrange(12), chance.randrange(256), chance.choice((0, stream, 1 << 31)), body)]


class Watched:
    """One node, asked while others are hostile to it."""

    def __init__(self, cluster: Started, stack: ExitStack) -> None:
        self._cluster, self._address = cluster, cluster.nodes[0]["grpc"]
        self._kept = stack.enter_context(grpc.insecure_channel(self._address))
        self._process = psutil.Process(cluster.nodes[0]["pid"])
        self._before = self._process.memory_info().rss
        self.took: list[float] = []

    def ask(self) -> None:
        """Three times; fails when one is not answered."""
        self._timed(lambda: _check(self._kept))
        with grpc.insecure_channel(self._address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            self._timed(lambda: _check(channel))
        self._timed(lambda: self._cluster.node().get("/v1/status", Status))

    def _timed(self, ask: Callable[[], object]) -> None:
        began = time.monotonic()
        ask()
        self.took.append(time.monotonic() - began)

    @property
    def grown(self) -> int:
        """Bytes of memory."""
        grown: int = self._process.memory_info().rss - self._before
        return grown


def _check(channel: grpc.Channel) -> None:
    status = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=ANSWER_S).status
    assert status == health_pb2.HealthCheckResponse.SERVING, status


def hammer(cluster: Started, seconds: float, seed: int) -> None:
    """Be hostile to the first node for so long. AssertionError, or what a client raises: a finding."""
    host, _, port = cluster.nodes[0]["grpc"].rpartition(":")
    hostile, open_ones = Hostile(random.Random(seed)), deque[socket.socket]()
    end, connections = time.monotonic() + seconds, 0
    with ExitStack() as stack:
        watched = Watched(cluster, stack)
        watched.ask()
        while time.monotonic() < end:
            for _ in range(ROUND):
                open_ones.append(stack.enter_context(socket.create_connection((host, int(port)), ANSWER_S)))
                with suppress(OSError):  # It hung up, or reads no more: that is its right.
                    open_ones[-1].settimeout(PROMPT_S)
                    open_ones[-1].sendall(hostile.connection())
                if len(open_ones) > OPEN_MAX:
                    open_ones.popleft().close()
            connections += ROUND
            watched.ask()
        took = sorted(watched.took)
        prompt = took[int(PROMPT_SHARE * len(took))]
        told = f"{len(took)} answers, 95 % within {prompt:.3f} s, the slowest {took[-1]:.3f} s"
        print(f"{connections} connections, {told}, {watched.grown >> 20} MiB more", flush=True)
        assert prompt < PROMPT_S, took[-20:]
        assert watched.grown < GROWTH_MAX, watched.grown
    lines = cluster.folder.joinpath("n1", "node.log").read_bytes().splitlines()
    wrong = [line for line in lines if b".cc:" in line or b"a gRPC call failed" in line]
    assert not wrong, wrong[:5]


def main() -> None:
    """Be hostile for so many seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, up(Path(folder) / "cluster", nodes=1) as cluster:
        hammer(cluster, options.seconds, options.seed)


if __name__ == "__main__":
    main()
