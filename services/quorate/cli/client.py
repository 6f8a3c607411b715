"""Asking a node over HTTP: what the operator commands, ``up`` and ``demo`` share.

Rules: every request has a deadline. A node that cannot be reached, or answers with an error, is a ``NodeError`` whose
message an operator can act on. What it calls wrongly asked is a ``UsageError``, as if we had seen it ourselves.
"""

import http.client
import os
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from quorate.errors import QuorateError, UsageError
from quorate.gateway.http.answers import Failed

DEFAULT_NODE = "127.0.0.1:9873"
NODE_VARIABLE = "QUORATE_NODE"
TIMEOUT_S = 5.0

T = TypeVar("T", bound=msgspec.Struct)


class NodeError(QuorateError):
    """The node could not be asked, or said no; ``status`` is HTTP's, 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def add_node(parser: ArgumentParser) -> None:
    """The argument ``--node``."""
    default = os.environ.get(NODE_VARIABLE, DEFAULT_NODE)
    told = f"HTTP address of any node (${NODE_VARIABLE}; {default})"
    parser.add_argument("--node", default=default, metavar="HOST:PORT", help=told.replace("%", "%%"))


class Node:
    """One node's HTTP interface. ``address``: ``host:port``."""

    def __init__(self, address: str, timeout_s: float = TIMEOUT_S) -> None:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise UsageError(f"--node {address}: expected HOST:PORT")
        self.address = address
        self._where = (host.strip("[]"), int(port))
        self._timeout_s = timeout_s

    def get(self, path: str, kind: type[T], **query: object) -> T:
        """GET what ``/v1`` answers there (gateway/http/answers.py). Raises NodeError, UsageError."""
        asked = {name: value for name, value in query.items() if value is not None}
        return self._ask("GET", path + (f"?{urlencode(asked)}" if asked else ""), None, {}, kind)

    def send(self, method: str, path: str, body: object, kind: type[T], *, request_id: str = "") -> T:
        """POST, PUT or DELETE; with a request id a retry is answered, never run again. Raises NodeError, UsageError."""
        headers = {"Idempotency-Key": request_id} if request_id else {}
        return self._ask(method, path, msgspec.json.encode(body), headers, kind)

    def serves(self) -> bool:
        """Does it answer ``/readyz`` with 200?"""
        try:
            return self._exchange("GET", "/readyz", None, {})[0] == http.HTTPStatus.OK
        except NodeError:
            return False

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], kind: type[T]) -> T:
        status, text = self._exchange(method, path, body, headers)
        try:
            if status < http.HTTPStatus.BAD_REQUEST:
                return msgspec.json.decode(text, type=kind)
            trouble = msgspec.json.decode(text, type=Failed).error
        except msgspec.DecodeError as error:
            raise NodeError(f"{self.address}{path}: {status}, {error}", status) from error
        if status == http.HTTPStatus.BAD_REQUEST and trouble.code == "invalid" and not trouble.reason:
            raise UsageError(trouble.message)  # Asked wrongly; with a reason it is the rules that say no.
        raise NodeError(trouble.message, status, trouble.reason or trouble.code)

    def _exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self._where, timeout=self._timeout_s)
        try:
            connection.request(method, path, body, {**headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except UnicodeError as error:
            raise UsageError(f"--node {self.address}: no host can have that name") from error
        except (OSError, http.client.HTTPException) as error:
            told = "does not answer" if isinstance(error, TimeoutError) else str(error)
            raise NodeError(f"node {self.address}: {told}") from error
        finally:
            connection.close()
