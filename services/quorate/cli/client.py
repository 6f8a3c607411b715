"""Asking a node over HTTP: what the operator commands, ``up`` and ``demo`` share.

Rules: every request has a deadline. A node that cannot be reached, or answers with an error, is a ``NodeError`` whose
message an operator can act on.
"""

import http.client
import json
import os
import socket
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlencode

from quorate.errors import QuorateError, UsageError

DEFAULT_NODE = "127.0.0.1:9873"
NODE_VARIABLE = "QUORATE_NODE"
TIMEOUT_S = 5.0
PAGE = 500

Json = dict[str, Any]


class NodeError(QuorateError):
    """The node could not be asked, or said no; ``status`` is HTTP's, 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def add_node(parser: ArgumentParser) -> None:
    """The argument ``--node``."""
    default = os.environ.get(NODE_VARIABLE, DEFAULT_NODE)
    parser.add_argument(
        "--node", default=default, metavar="HOST:PORT", help=f"HTTP address of any node (${NODE_VARIABLE}; {default})"
    )


class Node:
    """One node's HTTP interface. ``address``: ``host:port``."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise UsageError(f"--node {address}: expected HOST:PORT")
        self.address = address
        self._where = (host.strip("[]"), int(port))
        self._timeout_s = timeout_s

    def get(self, path: str, **query: object) -> Json:
        """GET a JSON document. Raises NodeError."""
        asked = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", path + (f"?{urlencode(asked)}" if asked else ""))

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, request_id: str = "") -> Json:
        """POST, PUT or DELETE; with a request id a retry is answered, never run again. Raises NodeError."""
        return self._ask(method, path, body, {"Idempotency-Key": request_id} if request_id else {})

    def serves(self) -> bool:
        """Does it answer ``/readyz`` with 200?"""
        try:
            return self._exchange("GET", "/readyz", None, {})[0] == http.HTTPStatus.OK
        except NodeError:
            return False

    def pages(self, path: str, items: str, **query: object) -> Iterator[Json]:
        """Every item of a paged list, in order. Raises NodeError."""
        after: object = None
        while True:
            page = self.get(path, limit=PAGE, after=after, **query)
            yield from page[items]
            after = page.get("next")
            if after is None:
                return

    def _ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Json:
        status, text = self._exchange(method, path, body, headers or {})
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise NodeError(f"{self.address}{path}: no JSON in an answer of {status}", status) from error
        if status >= http.HTTPStatus.BAD_REQUEST:
            trouble = answer.get("error", {})
            message = trouble.get("message") or f"{method} {path} was answered {status}"
            raise NodeError(message, status, str(trouble.get("code", "")))
        return cast("Json", answer)

    def _exchange(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._where, timeout=self._timeout_s)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {**headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            told = "does not answer" if isinstance(error, (TimeoutError, socket.timeout)) else str(error)
            raise NodeError(f"node {self.address}: {told}") from error
        finally:
            connection.close()
