"""Bytes as clients send them: a RocketMQ request, a Kafka request, a line that says nothing."""

import json
import socket
import struct
from typing import Any


def line(port: int, within_s: float = 5.0) -> socket.socket:
    """A connection."""
    return socket.create_connection(("127.0.0.1", port), within_s)


def told(port: int, data: bytes, within_s: float = 3.0) -> tuple[bytes, bool]:
    """What comes back for these bytes until it ends or is silent; and did it end?"""
    found = b""
    with line(port, within_s) as client:
        client.sendall(data)
        try:
            while more := client.recv(65536):
                found += more
        except TimeoutError:
            return found, False
        except ConnectionError:
            pass
    return found, True


def asked(code: int, opaque: int, **fields: object) -> bytes:
    """The frame of a request with a JSON header."""
    texts = {name: str(value) for name, value in fields.items()}
    header = {"code": code, "opaque": opaque, "flag": 0, "language": "JAVA", "version": 0, "extFields": texts}
    data = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(data), len(data)) + data


def remoting(port: int, code: int, **fields: object) -> dict[str, Any]:
    """The header of the answer to one request with a JSON header."""
    with line(port) as client, client.makefile("rb") as answers:
        client.sendall(asked(code, 1, **fields))
        _, size = struct.unpack(">II", answers.read(8))
        found: dict[str, Any] = json.loads(answers.read(size & 0xFFFFFF))
        return found


def kafka(api: int, version: int, body: bytes = b"") -> bytes:
    """A request of a version without compact fields."""
    frame = struct.pack(">hhih", api, version, 7, 1) + b"c" + body
    return struct.pack(">i", len(frame)) + frame
