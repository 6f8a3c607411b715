"""Asking a node over HTTP: the flag ``--node``, the next address where one does not answer, and what to say of it.

Rules: one flag, one default for every command, ours and of other packages; it names the nodes' HTTP addresses. A
request has a deadline. Where no answer came it is told whether the request went out: who changed something must know.
A port that does not speak HTTP is looked up with the node itself, so that the message can name the right one.
"""

import http.client
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from quorate.errors import QuorateError, UsageError, reason_of

DEFAULT_NODE = "127.0.0.1:9873,127.0.0.1:9883,127.0.0.1:9893"
"""The three nodes of a ``quorate up`` without flags."""
NODE_VARIABLE = "QUORATE_NODE"
LISTENERS = ("rpc", "raft", "kafka", "http", "grpc")
LOOK_TIMEOUT_S = 0.5
READER_TIMEOUT_S = 2.0
DISTANCES = (0, 3, 2, 1, -1, 3000, 2000, 1000)
"""From a listener's port to HTTP's: its own; rpc, raft, kafka and gRPC of ``up``, then those of a properties file."""
TRIES = 30
"""How often a program that reads the log looks for a node before it gives up, with a second between."""
REMEDY = f"quorate up starts a cluster here; --node or ${NODE_VARIABLE} says where another is"

if TYPE_CHECKING:
    from argparse import _ActionsContainer

T = TypeVar("T")


class UnreachedError(QuorateError):
    """No answer in HTTP came; ``sent``: the request may have been carried out all the same."""

    def __init__(self, message: str, *, sent: bool, strange: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.strange = strange
        """Somebody is there, and does not speak HTTP."""


def default_node(environ: Mapping[str, str] = os.environ) -> str:
    """What ``--node`` is when it is not given."""
    return environ.get(NODE_VARIABLE) or DEFAULT_NODE


def add_node(parser: "_ActionsContainer", own: str = "") -> None:
    """The argument ``--node``; ``own``: what it is here when it is not given, if not what it is everywhere."""
    default = own or default_node()
    text = f"HTTP addresses of nodes, tried in turn (${NODE_VARIABLE}; {default})"
    parser.add_argument("--node", default=default, metavar="HOST:PORT,…", help=text.replace("%", "%%"))


def addresses(text: str, flag: str = "--node") -> tuple[str, ...]:
    """``host:port,host:port``. Raises UsageError: none is there, or one that nobody can have."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise UsageError(f"{flag}: at least one is needed")
    for address in parts:
        scheme, found, _ = address.partition("://")
        if found:
            raise UsageError(f"{flag} {address}: expected HOST:PORT, without {scheme}://")
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise UsageError(f"{flag} {address}: expected HOST:PORT")
        try:
            host.encode("idna")
        except UnicodeError as error:
            raise UsageError(f"{flag} {address}: no host can have that name") from error
    return parts


@dataclass(frozen=True)
class Request:
    """What is asked."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


def exchange(address: str, request: Request, timeout_s: float, most: int | None = None) -> tuple[int, bytes]:
    """One request, its status and body, of ``most`` bytes at most. ``timeout_s``: for each part of it, and for all of a
    body that has a bound. Raises UnreachedError.
    """
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    sent = False
    try:
        connection.connect()
        sent = True
        headers = {**(request.headers or {}), "Content-Type": "application/json"}
        connection.request(request.method, request.path, request.body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read() if most is None else _bounded(answer, most, timeout_s)
    except (OSError, http.client.HTTPException) as error:
        strange = sent and isinstance(error, (http.client.HTTPException, ConnectionError))
        raise UnreachedError(f"node {address}: {_said(error)}", sent=sent, strange=strange) from error
    finally:
        connection.close()


def _bounded(answer: http.client.HTTPResponse, most: int, timeout_s: float) -> bytes:
    """Raises HTTPException for a body that is longer, TimeoutError for one that takes longer."""
    now, body = time.monotonic, b""  # noqa: TID251 - a socket's deadline, for whoever waits in a thread
    deadline = now() + timeout_s
    while part := answer.read1(most + 1 - len(body)):
        body += part
        if len(body) > most:
            raise http.client.HTTPException(f"an answer of more than {most} bytes")
        if now() > deadline:
            raise TimeoutError
    return body


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "does not answer"
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
        return "answers, but not in HTTP"  # The raft port says hello in bytes of its own.
    return reason_of(error) or type(error).__name__


def first(nodes: tuple[str, ...], ask: Callable[[str], T], *, changes: bool = False) -> T:
    """What the first of them answers; raises UnreachedError when none does, with what to do about it.

    ``changes``: the request is no question. Then the next is asked only where the one before did not get it.
    """
    troubles: list[UnreachedError] = []
    for address in nodes:
        try:
            return ask(address)
        except UnreachedError as error:
            if changes and error.sent:
                advice = right_port(address) if error.strange else ""
                unknown = f"{error}; whether it was carried out is not known: look before you ask again"
                raise UnreachedError(advice or unknown, sent=True, strange=bool(advice)) from error
            troubles.append(error)
    raise unanswered(nodes, troubles)


def unanswered(nodes: tuple[str, ...], troubles: list[UnreachedError]) -> UnreachedError:
    """None of these nodes answered, each for its reason; with what to do about it."""
    strange = any(trouble.strange for trouble in troubles)
    message = "\n".join([*map(str, troubles), *_advice(nodes, troubles)])
    return UnreachedError(message, sent=False, strange=strange)


def _advice(nodes: tuple[str, ...], troubles: list[UnreachedError]) -> Iterator[str]:
    """What to do, by what went wrong."""
    for address, trouble in zip(nodes, troubles, strict=True):
        if trouble.strange:
            other = f"{address} is no HTTP port: --node wants a node's http address (with quorate up: the rpc port + 3)"
            yield right_port(address) or other
    if not any(trouble.strange for trouble in troubles):
        yield f"no node answers: {REMEDY}"


class Voter(msgspec.Struct):
    """A node and its addresses, as far as they are told."""

    id: int
    rpc: str = ""
    raft: str = ""
    kafka: str = ""
    http: str = ""
    grpc: str = ""


class Quorum(msgspec.Struct):
    """Who the nodes are, and the part of the one that answers."""

    voters: list[Voter]
    node: int = 0
    cluster_id: str = ""
    role: str = ""
    term: int = 0


def quorum(address: str, timeout_s: float, query: str = "?level=stale") -> Quorum:
    """Who the nodes are, as one of them has it. Raises UnreachedError."""
    status, body = exchange(address, Request("GET", f"/v1/quorum{query}"), timeout_s)
    try:
        return msgspec.json.decode(body, type=Quorum)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreachedError(f"node {address}: {status}, not the answer of a node", sent=True) from error


def right_port(address: str, flag: str = "--node", wanted: str = "http") -> str:
    """Which listener of which node that is, where it is not the ``wanted`` one and a usual place tells; else nothing.

    Says what the flag wants instead.
    """
    host, _, port = address.rpartition(":")
    for far in DISTANCES:
        if not 0 < int(port) + far < 1 << 16:
            continue
        try:
            voters = quorum(f"{host}:{int(port) + far}", LOOK_TIMEOUT_S).voters
        except UnreachedError:
            continue
        for voter in voters:
            for listener in LISTENERS:
                if getattr(voter, listener) == address and listener != wanted:
                    right = getattr(voter, wanted)
                    return f"{address} is the {listener} port of node {voter.id}: say {flag} {right}"
    return ""


def kafka_addresses(nodes: str, wait: Callable[[], object], say: Callable[[str], object]) -> str:
    """Where these nodes' cluster serves the log, ``host:port,…``; ``wait`` is called between two looks.

    Raises UsageError, and UnreachedError when nobody has answered after ``TRIES`` looks.
    """
    asked = addresses(nodes)
    for looks in range(1, TRIES + 1):
        try:
            voters = first(asked, lambda address: quorum(address, READER_TIMEOUT_S)).voters
            return ",".join(voter.kafka for voter in voters if voter.kafka)
        except UnreachedError as error:
            if error.strange or looks == TRIES:
                raise
            if looks == 1:
                say(f"{', '.join(asked)}: no node answers yet, looking for {TRIES} s; {REMEDY}")
        wait()
    raise UnreachedError("nobody was asked", sent=False)
