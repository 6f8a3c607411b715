"""Hostile bytes for the Kafka decoder and the listener behind it, guided by coverage.

Rules: a request either decodes or raises ``KafkaFormatError``; a connection either answers or hangs up. Any other
exception, an input that takes seconds, or more than half a gigabyte is a finding: the input is kept in ``.run/fuzz``
and the exit status is not 0. Starts from one valid request of each key and version, and from what earlier runs found.

Usage: ``fuzz_kafka.py [--seconds N]``.
"""

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["quorate.wire", "quorate.gateway.kafka"]):
    import msgspec

    from quorate.gateway.access import NoQuota, OpenAccess
    from quorate.gateway.kafka import KafkaNode, KafkaSettings
    from quorate.gateway.kafka.connection import KafkaConnection
    from quorate.gateway.kafka.server import KafkaServer
    from quorate.metrics import Metrics
    from quorate.wire.kafka import FLEXIBLE, WINDOW, KafkaFormatError, decode_request
    from quorate.wire.kafka_primitives import int16, int32, int64, string
    from tests.kafka_tools.fakes import TOPIC, FakeLog, FakeView

SETTINGS = KafkaSettings(request_bytes_max=65_536, groups_max=20, group_members_max=20)


class Later:
    """A scheduler whose time stands still; what is to come soon comes when asked."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return 1000.0

    def time_ms(self) -> int:
        return 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "Later":
        return self

    def cancel(self) -> None:
        pass


class Transport:
    """Where answers go; remembers that it was closed."""

    def __init__(self) -> None:
        self.sent = 0

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.sent += len(data)

    def abort(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


LOG = FakeLog()
for _ in range(5):
    LOG.append(3)


def decode(data: bytes) -> None:
    """The decoder alone."""
    try:
        _, request = decode_request(data)
    except KafkaFormatError:
        return
    assert isinstance(request, msgspec.Struct)


def serve(data: bytes) -> None:
    """A connection that gets these bytes in two pieces, twice over."""
    later = Later()
    view = FakeView(LOG, [KafkaNode(1, "127.0.0.1", 1)])
    server = KafkaServer(view, SETTINGS, Metrics(), later, random.Random(1), OpenAccess(), NoQuota())
    connection = KafkaConnection(server)
    connection.connection_made(Transport())  # type: ignore[arg-type]
    framed = int32(len(data)) + data
    for piece in (framed[:7], framed[7:], framed):
        connection.data_received(piece)
        while later.soon:
            later.soon.pop()()
    connection.connection_lost(None)


def one(data: bytes) -> None:
    """One input: the decoder, then the listener."""
    decode(data)
    serve(data)


def bodies(key: int) -> bytes:
    """A plausible body of each key; versions differ enough for the fuzzer to go on from it."""
    topic = int32(1) + string(TOPIC) + int32(1) + int32(0)
    group = string("g")
    found: dict[int, bytes] = {
        0: int16(-1) + int16(1) + int32(9) + topic + int32(-1),
        1: int32(-1) + int32(0) + int32(1) + int32(999) + b"\x00" + int32(0) + int32(-1) + topic + int32(-1)
        + int64(1) + int64(-1) + int32(999) + int32(0) + string(""),
        2: int32(-1) + b"\x00" + topic + int32(-1) + int64(-1),
        3: int32(-1) + b"\x01",
        8: group + int32(-1) + string("") + int16(-1) + topic + int64(5) + int32(1) + string("m"),
        9: group + topic,
        10: group + b"\x00",
        11: group + int32(9999) + int32(9999) + string("") + int16(-1) + string("consumer") + int32(1) + string("r")
        + int32(1) + b"x",
        12: group + int32(1) + string("m") + int16(-1),
        13: group + int32(1) + string("m") + int16(-1),
        14: group + int32(1) + string("m") + int16(-1) + int32(0),
        18: b"\x02a\x02b\x00",
        15: int32(1) + group + b"\x00",
        17: string("PLAIN"),
        36: b"\x04abc\x00",
        16: b"\x02\x07Stable\x02\x08classic\x00",
        23: int32(-1) + topic + int32(-1) + int32(1),
        32: int32(1) + b"\x02" + string(TOPIC) + int32(-1) + b"\x00\x00",
        42: int32(1) + group,
        55: b"\x02" + bytes((len(TOPIC) + 1,)) + TOPIC.encode() + b"\x02" + int32(0) + b"\x00\x00\x00",
        60: b"\x00\x01\x00\x00",
    }  # fmt: skip
    return found[key]


def seeds(folder: Path) -> None:
    """One file for each key and version."""
    for key, (oldest, newest) in WINDOW.items():
        for version in range(oldest, newest + 1):
            tags = b"\x00" if version >= FLEXIBLE.get(key, version + 1) else b""
            frame = int16(key) + int16(version) + int32(1) + string("c") + tags + bodies(key)
            (folder / f"{int(key)}-{version}").write_bytes(frame)


def main() -> None:
    """Fuzz for so many seconds; libFuzzer ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    options: Any = parser.parse_args()
    findings = ROOT / ".run" / "fuzz"
    corpus = findings / "kafka-corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds(corpus)
    limits = [f"-max_total_time={options.seconds}", "-timeout=5", "-rss_limit_mb=512", "-max_len=4096"]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={findings}/kafka-", "-print_final_stats=1", str(corpus)], one
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
