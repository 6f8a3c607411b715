"""Asking nodes over HTTP: what the operator commands, ``up`` and ``demo`` share.

Rules: every request has a deadline. A node that cannot be reached is passed over for the next that was named; a change
that may have been made is never asked for again. An error is a ``NodeError`` whose message an operator can act on. What
a node calls wrongly asked is a ``UsageError``, as if we had seen it ourselves.
"""

import http.client
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from quorate.asking import Request, UnreachedError, add_node, addresses, exchange, first
from quorate.cli.output import add_output, complain
from quorate.errors import QuorateError, UsageError
from quorate.gateway.http.answers import Failed, Trouble

__all__ = ["TIMEOUT_S", "Node", "NodeError", "add_action", "add_node"]
TIMEOUT_S = 5.0
QUESTIONS = frozenset({"/v1/whatif"})
"""POSTs that change nothing."""

T = TypeVar("T")


class _RegistryError(msgspec.Struct):
    """How the schema registry says no."""

    error_code: int
    message: str


class NodeError(QuorateError):
    """The node could not be asked, or said no; ``status`` is HTTP's, 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def add_action(actions: Any, name: str, summary: str) -> ArgumentParser:
    """A word behind a command's own, which asks a node and shows the answer."""
    parser: ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    add_node(parser)
    add_output(parser)
    return parser


class Node:
    """The HTTP interface of a node: of the first of these (``host:port,…``) that answers, until it does no more."""

    def __init__(self, nodes: str, timeout_s: float = TIMEOUT_S) -> None:
        self._nodes = addresses(nodes)
        self._timeout_s = timeout_s

    @property
    def address(self) -> str:
        """Of the node that is asked first: the one that answered last."""
        return self._nodes[0]

    def get(self, path: str, kind: type[T], **query: object) -> T:
        """GET what is answered there (gateway/http/answers.py has what ``/v1`` does). Raises NodeError, UsageError."""
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
            trouble = _trouble(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NodeError(f"{self.address}{path}: {status}, {error}", status) from error
        if status == http.HTTPStatus.BAD_REQUEST and trouble.code == "invalid" and not trouble.reason:
            raise UsageError(trouble.message)  # Asked wrongly; with a reason it is the rules that say no.
        raise NodeError(trouble.message, status, trouble.reason or trouble.code)

    def _exchange(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        request = Request(method, path, body, headers)
        changes = method != "GET" and "Idempotency-Key" not in headers and path not in QUESTIONS
        passed: list[str] = []
        unready: list[tuple[int, bytes]] = []

        def ask(address: str) -> tuple[int, bytes]:
            try:
                reply = exchange(address, request, self._timeout_s)
            except UnreachedError as error:
                passed.append(str(error))
                raise
            if reply[0] == http.HTTPStatus.SERVICE_UNAVAILABLE:  # Nothing was proposed: another may know a leader.
                passed.append(f"node {address} is not available")
                unready.append(reply)
                raise UnreachedError(passed[-1], sent=False)
            self._prefer(address, passed)
            return reply

        try:
            return first(self._nodes, ask, changes=changes)
        except UnreachedError as error:
            if unready:
                return unready[0]
            raise NodeError(str(error)) from error

    def _prefer(self, address: str, passed: list[str]) -> None:
        """Ask this one first from now on; say it once when it is not the one that was."""
        if address != self._nodes[0]:
            complain(f"{'; '.join(passed)}: asked {address} instead")
            self._nodes = (address, *(other for other in self._nodes if other != address))


def _trouble(text: bytes) -> Trouble:
    """Why not. Raises DecodeError, UnicodeDecodeError."""
    try:
        return msgspec.json.decode(text, type=Failed).error
    except msgspec.ValidationError:
        of_registry = msgspec.json.decode(text, type=_RegistryError)
        return Trouble(code=str(of_registry.error_code), message=of_registry.message)
