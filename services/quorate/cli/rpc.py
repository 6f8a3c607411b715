"""The gRPC of a node, from the command line: where it is, how a call that failed is told, a stream until Ctrl-C.

Rules: ``--node`` takes HTTP addresses, as everywhere; a node says itself where it speaks gRPC. The first that answers
is asked, and a change is asked for once.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGINT, signal
from typing import Any

import grpc

from quorate.asking import addresses
from quorate.cli.client import Node, NodeError
from quorate.cli.command import DONE
from quorate.gateway.http.answers import Status

TIMEOUT_S = 5.0


def _place(node: Node) -> str:
    """Where it speaks gRPC; empty: nowhere. Raises NodeError."""
    return node.get("/v1/status", Status, level="stale").grpc


@contextmanager
def channel(options: Namespace) -> Iterator[grpc.Channel]:
    """To the first node that answers. Raises NodeError; of a call, too."""
    node = Node(options.node, TIMEOUT_S)
    place = _place(node)
    if not place:
        raise NodeError(f"node {node.address} does not listen for gRPC: say listeners.grpc, or ask another one")
    with grpc.insecure_channel(place) as made:
        try:
            yield made
        except grpc.RpcError as error:
            raise NodeError(told(error)) from error


def places(options: Namespace) -> tuple[str, ...]:
    """Where gRPC is spoken: by ``--nodes``, else what each node of ``--node`` that answers says. Raises NodeError."""
    if options.nodes:
        return addresses(options.nodes, "--nodes")
    found, silent = list[str](), NodeError("none of these nodes listens for gRPC")
    for address in addresses(options.node):
        try:
            found.append(_place(Node(address, TIMEOUT_S)))
        except NodeError as error:
            silent = error
    if not any(found):
        raise silent
    return tuple(filter(None, found))


def told(error: Any) -> str:
    """What a call ended with; of one that nobody knows the end of, that."""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED or "timed out" in (error.details() or ""):
        return f"{error.details()}: a change may have been made"
    return str(error.details() or error.code().name).removeprefix("quorate: ")


def until_interrupted(answers: Any, tell: Callable[[Any], int]) -> int:
    """Tell a stream of answers until it ends, or Ctrl-C."""
    signal(SIGINT, lambda *_: answers.cancel())  # An exception may be raised, and lost, inside of grpcio.
    try:
        return tell(answers)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.CANCELLED:
            return DONE
        raise
