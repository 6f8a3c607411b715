"""Hostile bytes for the remoting decoder and the listener behind it, guided by coverage.

Rules: a frame either decodes or raises ``PeerError``; a connection either answers every two-way request once or hangs
up; what was decoded encodes and decodes to the same again. Any other exception, an input that takes seconds, or more
than half a gigabyte is a finding: the input is kept in ``.run/fuzz`` and the exit status is not 0. Starts from the
recorded traffic of stock brokers, and from what earlier runs found.

Usage: ``fuzz_remoting.py [--seconds N]``.
"""

import argparse
import asyncio
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["quorate.wire", "quorate.gateway.remoting"]):
    from quorate.errors import PeerError
    from quorate.gateway.remoting.server import Connection, RemotingServer
    from quorate.gateway.remoting.service import RemotingService
    from quorate.gateway.remoting.settings import RemotingSettings
    from quorate.tls import REFUSAL, is_client_hello
    from quorate.wire.remoting import (
        RESPONSE_FLAG,
        FrameSplitter,
        HeaderType,
        Message,
        OtherRequest,
        decode_header,
        decode_request,
        decode_response,
        encode_request,
    )
    from tests.unit.gateway.remoting.fakes import AtOnce, InstantController

GOLDEN = ROOT / "tests" / "contract" / "golden" / "controller-traffic.jsonl"
NODES = {1: "127.0.0.1:1", 2: "127.0.0.1:2"}
SETTINGS = RemotingSettings(frame_bytes_max=65_536)


class Loop:
    """As much of a loop as a connection needs; what is to come soon comes when asked."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def time(self) -> float:
        return 1.0


class Transport:
    """Where answers go."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("127.0.0.1", 9)

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    abort = write_eof = close

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Owed(NamedTuple):
    """How many answers a server owes for these bytes; of how many of them, where others break the protocol."""

    answers: int
    sound: int | None


def decode(data: bytes) -> Owed:
    """The decoder alone."""
    owed = sound = 0
    splitter = FrameSplitter(SETTINGS.frame_bytes_max)
    try:
        for frame in splitter.feed(data):
            request = decode_request(frame)
            owed += not request.flag & RESPONSE_FLAG and not request.oneway
            sound += 8 + len(frame.header) + len(frame.body)
            header = decode_header(frame)
            decode_response(frame)
            if not isinstance(request, OtherRequest):
                message = Message(header.code, header.fields, flag=header.flag, version=header.version)
                (again,) = FrameSplitter().feed(message.frame(HeaderType.JSON, header.opaque))
                assert decode_request(again) == request, (decode_request(again), request)
    except PeerError:
        return Owed(owed, sound)
    return Owed(owed, None if splitter.error is None else sound)


def serve(data: bytes, owed: Owed) -> None:
    """A connection that gets these bytes in two pieces: every request owed an answer gets one, in any order. Where the
    protocol was broken behind them, an answer that is made in a later turn may be missing.
    """
    if owed.sound:
        serve(data[: owed.sound], Owed(owed.answers, None))
    loop = Loop()
    controller = InstantController()
    service = RemotingService(
        controller, AtOnce(controller), SETTINGS, node_id=1, group="g", addresses=NODES, now=controller.clock.monotonic
    )
    asked = cast(asyncio.AbstractEventLoop, loop)
    server = RemotingServer(service, SETTINGS, loop=asked, now=loop.time, at_turns_end=asked.call_soon)
    connection = Connection(server)
    transport = Transport()
    connection.connection_made(cast(asyncio.Transport, transport))
    for piece in (data[:9], data[9:]):
        if not transport.closed:
            connection.data_received(piece)
    while loop.soon:
        loop.soon.pop()()
    if transport.sent == REFUSAL:  # TLS, refused in its own language, which is no frame.
        assert is_client_hello(data)
        assert (transport.closed, connection.in_flight) == (True, 0)
        return
    answers = FrameSplitter().feed(transport.sent) if transport.sent else []
    assert len(answers) == owed.answers or (owed.sound is not None and len(answers) < owed.answers), (answers, owed)
    for answer in answers:
        assert decode_header(answer).flag == 1
    assert connection.in_flight == 0
    connection.connection_lost(None)


def one(data: bytes) -> None:
    """One input: bytes as they are, and the same as header and body of a frame of each kind."""
    serve(data, decode(data))
    cut = data[0] if data else 0
    header, body = data[1 : 1 + cut], data[1 + cut :]
    for kind in HeaderType:
        frame = struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body
        serve(frame, decode(frame))


def seeds(folder: Path) -> None:
    """Recorded requests, whole and as (length, header, body), in both header forms."""
    for number, line in enumerate(GOLDEN.read_text().splitlines()):
        record = json.loads(line)
        if record["kind"] == "response":
            continue
        said = json.loads(record["header"])
        fields, body = said.get("extFields", {}), record["body"].encode()
        for kind in HeaderType:
            frame = encode_request(said["code"], number, fields, body=body, header_type=kind)
            (folder / f"{number}-{kind.name}").write_bytes(frame)
            header = frame[8 : len(frame) - len(body)]
            if len(header) < 256:
                (folder / f"{number}-{kind.name}-parts").write_bytes(bytes([len(header)]) + header + body)


def main() -> None:
    """Fuzz for so many seconds; libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    options: Any = parser.parse_args()
    findings = ROOT / ".run" / "fuzz"
    corpus = findings / "remoting-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds(corpus)
    limits = [f"-max_total_time={options.seconds}", "-timeout=5", "-rss_limit_mb=512", "-max_len=4096"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={findings}/remoting-", "-print_final_stats=1", str(corpus)], one
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
