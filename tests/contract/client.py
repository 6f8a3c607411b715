"""A blocking remoting client for black-box tests: one connection, one request at a time, or raw bytes."""

import itertools
import json
import re
import socket
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

from quorate.wire.remoting import (
    Frame,
    FrameSplitter,
    HeaderType,
    Response,
    decode_header,
    decode_response,
    encode_request,
)

TIMEOUT_S = 5.0
_BARE_KEY = re.compile(rb"([{,])(-?\d+):")


def read_json(body: bytes) -> Any:
    """A body; fastjson's bare numeric keys (``{1:"a"}``) are quoted first."""
    return json.loads(_BARE_KEY.sub(rb'\1"\2":', body)) if body else None


class Closed(Exception):  # noqa: N818 - an observation, not an error of ours
    """The other side closed the connection."""


class Remoting:
    """A connection to one address (``host:port``)."""

    def __init__(self, address: str, header_type: HeaderType = HeaderType.JSON, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self.header_type = header_type
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splitter = FrameSplitter()
        self._opaque = itertools.count(1)
        self._frames: deque[Frame] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, code: int, body: bytes = b"", *, oneway: bool = False, **fields: object) -> int:
        """Send a request; answers its opaque."""
        opaque = next(self._opaque)
        text = {name: _text(value) for name, value in fields.items() if value is not None}
        self._socket.sendall(
            encode_request(code, opaque, text, body=body, oneway=oneway, header_type=self.header_type, version=479)
        )
        return opaque

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def receive(self) -> tuple[Response, dict[str, object]]:
        """The next answer, and its whole header. Raises Closed, TimeoutError."""
        while not self._frames:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError as error:
                raise Closed from error
            if not data:
                raise Closed
            self._frames.extend(self._splitter.feed(data))
        frame = self._frames.popleft()
        shown: dict[str, object] = {"flag": decode_header(frame).flag, "type": frame.header_type.name}
        return decode_response(frame), shown

    def ask(self, code: int, body: bytes | Mapping[str, object] | list[object] = b"", /, **fields: Any) -> Response:
        """A request and its answer, matched by opaque."""
        encoded = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        opaque = self.send(code, encoded, **fields)
        response, header = self.receive()
        assert response.opaque == opaque, "an answer must echo its opaque"
        assert header["flag"] == 1, "bit 0 marks an answer"
        return response


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def leader_of(addresses: list[str], timeout_s: float = 20.0) -> str:
    """The address all reachable controllers name as their leader's. Raises TimeoutError."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        named = set()
        for address in addresses:
            try:
                with Remoting(address, timeout_s=1.0) as client:
                    named.add(client.ask(1005).fields.get("controllerLeaderAddress"))
            except (OSError, Closed):
                continue
        if len(named) == 1 and None not in named:
            return str(named.pop())
        time.sleep(0.05)
    raise TimeoutError(f"no leader among {addresses}")
