"""Hostile bytes for the Kafka decoder and the listener behind it, guided by coverage.

Rules: a request either decodes or raises ``KafkaFormatError``; a connection either answers or hangs up. Any other
exception, an input that takes seconds, or more than half a gigabyte is a finding: the input is kept in ``.run/fuzz``
and the exit status is not 0. Starts from one valid request of each key and version, and from what earlier runs found.

Usage: ``fuzz_kafka.py [--seconds N]``.
"""

import argparse
import random
import sys
import uuid
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
    from quorate.gateway.kafka.reading import topic_id
    from quorate.gateway.kafka.server import KafkaServer
    from quorate.metrics import Metrics
    from quorate.wire.kafka import WINDOW, Api, KafkaFormatError, decode_request
    from quorate.wire.kafka_primitives import int32
    from tests.kafka_tools.fakes import TOPIC, FakeLog, FakeView
    from tests.unit.wire.kafka_oracle import message, request_frame

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

    def take_turn(self, action: Callable[[], None]) -> None:
        action()

    def at_turns_end(self, callback: Callable[[], None]) -> None:
        self.call_soon(callback)

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

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

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


def _samples() -> dict[Api, dict[str, Any]]:
    """A plausible request of each key, with the fields of all its versions."""
    at: dict[str, Any] = {"partition": 0, "partition_index": 0, "index": 0, "current_leader_epoch": -1}
    at |= {"fetch_offset": 1, "partition_max_bytes": 999, "timestamp": -1, "leader_epoch": 1, "records": b"x"}
    at |= {"committed_offset": 5, "committed_metadata": "m", "committed_leader_epoch": 1}
    group = {"group_id": "g", "generation_id": 1, "generation_id_or_member_epoch": -1, "member_id": "m"}
    topic: dict[str, Any] = {
        "name": TOPIC,
        "topic": TOPIC,
        "topic_name": TOPIC,
        "topic_id": uuid.UUID(bytes=topic_id("c", TOPIC)),
    }
    topics = [{**topic, "partitions": [at], "partition_data": [at], "partition_indexes": [0]}]
    positions = {"group_id": "g", "topics": topics}
    return {
        Api.PRODUCE: {"acks": -1, "topic_data": topics},
        Api.FETCH: {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 999, "topics": topics, "rack_id": "r"},
        Api.LIST_OFFSETS: {"replica_id": -1, "isolation_level": 1, "topics": topics},
        Api.METADATA: {"topics": [topic]},
        Api.OFFSET_COMMIT: {**group, "topics": topics},
        Api.OFFSET_FETCH: {**positions, "groups": [positions]},
        Api.FIND_COORDINATOR: {"key": "g", "key_type": 0, "coordinator_keys": ["g", "h"]},
        Api.JOIN_GROUP: {
            **group,
            "session_timeout_ms": 9999,
            "rebalance_timeout_ms": 9999,
            "protocol_type": "consumer",
            "protocols": [{"name": "r", "metadata": b"x"}],
        },
        Api.HEARTBEAT: group,
        Api.LEAVE_GROUP: {**group, "members": [{"member_id": "m", "group_instance_id": None}]},
        Api.SYNC_GROUP: {**group, "assignments": [{"member_id": "m", "assignment": b"x"}]},
        Api.DESCRIBE_GROUPS: {"groups": ["g"]},
        Api.LIST_GROUPS: {"states_filter": ["Stable"], "types_filter": ["classic"]},
        Api.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
        Api.API_VERSIONS: {"client_software_name": "a", "client_software_version": "b"},
        Api.OFFSET_FOR_LEADER_EPOCH: {"replica_id": -1, "topics": topics},
        Api.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]},
        Api.SASL_AUTHENTICATE: {"auth_bytes": b"abc"},
        Api.DELETE_GROUPS: {"groups_names": ["g"]},
        Api.DESCRIBE_QUORUM: {"topics": topics},
        Api.DESCRIBE_CLUSTER: {"endpoint_type": 1},
    }


def _known(cls: Any, value: dict[str, Any], version: int) -> dict[str, Any]:
    """The fields that this message, and its parts, have in this version."""
    found = {}
    for name, part in value.items():
        field = cls._struct.fields.get(name)
        if field is None or not field.for_version_q(version):
            continue
        nested = field.is_struct_array() and part is not None
        found[name] = [_known(field.data_class, item, version) for item in part] if nested else part
    return found


def seeds(folder: Path) -> None:
    """One file for each key and version."""
    samples = _samples()
    for key, (oldest, newest) in WINDOW.items():
        api = Api(key)
        for version in range(oldest, newest + 1):
            value = _known(message(api, "Request"), samples[api], version)
            frame = request_frame(api, version, value, "c")
            decode_request(frame)
            (folder / f"{key}-{version}").write_bytes(frame)


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
