"""Hostile bytes for one connection of the gRPC port, in process and guided by coverage: frames, heads, messages.

Rules: whatever comes, and however it is cut, is answered or ends its stream or its connection; no exception leaves the
connection, the next client is answered, and when this one is gone nothing of it is held. Anything else, an input that
takes seconds, or more than half a gigabyte is a finding: the input is kept in ``.run/fuzz`` and the exit status is not
0. ``fuzz_grpc_port.py`` does the same to a node, by chance.

Usage: ``fuzz_http2.py [--seconds N]``.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import atheris

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["quorate.gateway.grpc", "quorate.wire.http2", "hpack"]):
    from hpack import Encoder

    from quorate.gateway.grpc.pb import rpc_pb2 as pb
    from quorate.gateway.grpc.settings import GrpcSettings
    from quorate.wire import http2
    from tests.unit.gateway.grpc.peer import GET, WATCH, Peer, Rooms, data, fields_of, half_head, head, message

SETTINGS: Final = GrpcSettings(request_bytes_max=4096, answer_bytes_max=1 << 16, received_bytes_max=1 << 20)
KEY: Final = pb.RangeRequest(key=b"abc").SerializeToString()
BEGUN: Final = http2.PREFACE + http2.settings({})


def one(said: bytes) -> None:
    """The first byte says how the rest is cut, and whether it begins with the first words."""
    if not said:
        return
    size, greets, rest = said[0] >> 1 or 256, said[0] & 1, said[1:]
    rooms = Rooms(SETTINGS)
    peer = Peer(rooms, greet=False)
    if greets:
        peer.say(BEGUN)
    for at in range(0, min(len(rest), 40 * size), size):
        rooms.settle(lambda at=at: peer.connection.data_received(rest[at : at + size]), turns=2)  # type: ignore[misc]
    rooms.after(2)
    other = Peer(rooms)
    other.call(1, KEY)
    assert other.answers(1) == message(pb.RangeResponse(count=3).SerializeToString())
    if not peer.wire.closed:
        rooms.settle(lambda: peer.connection.connection_lost(None))
    assert (rooms.held(), len(rooms.calls)) == ((0, 0), 0), (rooms.held(), len(rooms.calls))


def seeds(folder: Path) -> None:
    """What clients say, and what they may not."""
    watch = pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=1)).SerializeToString()
    indexed = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, Encoder().encode(fields_of()))
    samples = [
        head(1) + data(1, message(KEY)),
        indexed + data(1, message(KEY)),
        head(1, WATCH) + data(1, message(watch) * 3, end=False) + http2.reset(1, http2.Http2Code.CANCEL),
        half_head(1) + http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1) + data(1, message(KEY)),
        http2.settings({http2.INITIAL_WINDOW_SIZE: 1, http2.MAX_FRAME_SIZE: 20_000}) + head(1) + data(1, message(KEY)),
        http2.frame(http2.PING, 0, 0, bytes(8))
        + http2.window_update(0, 77)
        + http2.goaway(0, http2.Http2Code.NO_ERROR),
        head(1, GET, grpc_encoding=b"gzip", grpc_timeout=b"1S") + data(1, message(KEY, compressed=1)),
        head(1) + http2.frame(http2.DATA, http2.PADDED, 1, b"\x03" + message(KEY) + bytes(3)),
        http2.frame(http2.HEADERS, http2.WITH_PRIORITY | http2.END_HEADERS, 1, bytes(5)),
    ]
    for number, sample in enumerate(samples):
        for cut in (1, 15):
            (folder / f"http2-{number}-{cut}").write_bytes(bytes((cut,)) + sample)
        (folder / f"http2-{number}-greeting").write_bytes(b"\x00" + BEGUN + sample)


def main() -> None:
    """Fuzz for so many seconds; libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    options: Any = parser.parse_args()
    findings = ROOT / ".run" / "fuzz"
    corpus = findings / "http2-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds(corpus)
    limits = [f"-max_total_time={options.seconds}", "-timeout=5", "-rss_limit_mb=512", "-max_len=4096"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={findings}/http2-", "-print_final_stats=1", str(corpus)], one
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
