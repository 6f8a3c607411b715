"""A Kafka client that sends exactly what a test says and reads the answers by kafka-python's codec."""

import socket
from typing import Any

from quorate.wire.kafka import Api, RequestHeader
from quorate.wire.kafka_primitives import int32
from tests.kafka_tools.fakes import TOPIC
from tests.unit.wire.kafka_oracle import decoded, request_frame


class Client:
    """A blocking client of one connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._asked: list[tuple[Api, int]] = []

    def send(self, api: Api, version: int, value: dict[str, Any]) -> None:
        frame = request_frame(api, version, value)
        self._asked.append((api, version))
        self.socket.sendall(int32(len(frame)) + frame)

    def receive(self) -> dict[str, Any]:
        api, version = self._asked.pop(0)
        size = int.from_bytes(self.read(4), "big")
        body = self.read(size)
        assert int.from_bytes(body[:4], "big") == 77
        tagged = RequestHeader(api, version, 77, None).flexible_response
        assert not tagged or body[4] == 0
        return decoded(api, version, body[5 if tagged else 4 :])

    def ask(self, api: Api, version: int, value: dict[str, Any]) -> dict[str, Any]:
        self.send(api, version, value)
        return self.receive()

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def closed(self) -> bool:
        """Did the server hang up? (Waits for it.)"""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        finally:
            self.socket.close()


def fetch(offset: int, **how: Any) -> dict[str, Any]:
    """An ordinary fetch."""
    partition = {
        "partition": how.get("partition", 0),
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": how.get("partition_bytes", 1 << 20),
    }
    return {
        "replica_id": -1,
        "max_wait_ms": how.get("wait_ms", 0),
        "min_bytes": how.get("min_bytes", 1),
        "max_bytes": how.get("max_bytes", 1 << 20),
        "isolation_level": how.get("isolation", 0),
        "session_id": how.get("session", 0),
        "session_epoch": -1,
        "topics": [{"topic": how.get("topic", TOPIC), "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": how.get("rack", ""),
    }


def fetched(answer: dict[str, Any]) -> dict[str, Any]:
    """The one partition of a fetch."""
    found: dict[str, Any] = answer["responses"][0]["partitions"][0]
    return found
