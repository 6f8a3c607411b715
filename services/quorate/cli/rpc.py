"""The gRPC of a node, from the command line: where it is, how a call that failed is told, a stream until Ctrl-C.

Rules: ``--node`` takes HTTP addresses, as everywhere; a node says itself where it speaks gRPC. The first that answers
is asked, and a change is asked for once. What lasts, and may be asked again, goes on at the next when its node dies.
"""

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from signal import SIGINT, signal
from typing import Any

import grpc

from quorate.asking import addresses
from quorate.cli.client import Node, NodeError
from quorate.cli.command import DONE
from quorate.cli.output import complain
from quorate.gateway.http.answers import Status

TIMEOUT_S = 5.0
RETRY_S = 0.2
WHOLE = (("grpc.max_receive_message_length", -1),)
"""An answer is as long as a node lets it be (``grpc.answer_bytes_max``); grpcio takes 4 MiB where nothing is said."""
ALIVE = (
    *WHOLE,
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
)
"""What lasts asks a silent node whether it lives, no more often than nodes allow: one that hangs closes nothing."""
GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""With these a node says nothing about what was asked, and another may."""


def _place(node: Node) -> str:
    """Where it speaks gRPC; empty: nowhere. Raises NodeError."""
    return node.get("/v1/status", Status, level="stale").grpc


def _listening(node: Node) -> str:
    """The same; nowhere is an error, too."""
    place = _place(node)
    if not place:
        raise NodeError(f"node {node.address} does not listen for gRPC: say listeners.grpc, or ask another one")
    return place


@contextmanager
def channel(options: Namespace) -> Iterator[grpc.Channel]:
    """To the first node that answers. Raises NodeError; of a call, too."""
    place = _listening(Node(options.node, TIMEOUT_S))
    with grpc.insecure_channel(place, WHOLE) as made:
        try:
            yield made
        except grpc.RpcError as error:
            raise NodeError(told(error)) from error


def going_on(
    options: Namespace,
    ask: Callable[[grpc.Channel, Callable[[], None]], int],
    patience_s: Callable[[], float] = lambda: TIMEOUT_S,
) -> int:
    """Ask at the first node that answers, and again at the next whenever that one does no more; ``ask`` calls what it
    is given with each answer. ``patience_s``: how long a node is waited for, when it is asked where it speaks gRPC.
    Raises NodeError: of the call; or every node has failed, and for ``TIMEOUT_S``.
    """
    nodes = addresses(options.node)
    turns = cycle(nodes)
    _place(Node(options.node, TIMEOUT_S))  # Where nobody answers, all are named together, with what to do.
    failed, since = 0, 0.0

    def heard() -> None:
        nonlocal failed
        failed = 0

    while True:
        address = next(turns)
        try:
            place = _listening(Node(address, patience_s()))
        except NodeError as error:
            trouble = error
        else:
            with grpc.insecure_channel(place, ALIVE) as made:
                try:
                    return ask(made, heard)
                except grpc.RpcError as error:
                    trouble = NodeError(told(error))
                    if error.code() not in GONE:
                        raise trouble from error
        if not failed:
            since = time.monotonic()
            complain(f"node {address}: {trouble}" + ("; going on at the next" if len(nodes) > 1 else ""))
        failed += 1
        if failed >= len(nodes) and time.monotonic() - since > TIMEOUT_S:
            raise trouble
        time.sleep(RETRY_S)


def places(options: Namespace) -> tuple[str, ...]:
    """Where gRPC is spoken: by ``--nodes``, else what each node of ``--node`` that answers says. Raises NodeError."""
    if options.nodes:
        return addresses(options.nodes, "--nodes")
    _place(Node(options.node, TIMEOUT_S))  # Where nobody answers, all are named together, with what to do.
    found = list[str]()
    for address in addresses(options.node):
        with suppress(NodeError):
            found.append(_place(Node(address, TIMEOUT_S)))
    if not any(found):
        raise NodeError("no node that answers listens for gRPC")
    return tuple(filter(None, found))


def told(error: Any) -> str:
    """What a call ended with; of one that nobody knows the end of, that."""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED or "timed out" in (error.details() or ""):
        return f"{error.details()}: a change may have been made"
    return str(error.details() or error.code().name).removeprefix("quorate: ")


def until_interrupted(answers: Any, tell: Callable[[Any], int]) -> int:
    """Tell a stream of answers until it ends, or Ctrl-C."""
    before = signal(SIGINT, lambda *_: answers.cancel())  # An exception may be raised, and lost, inside of grpcio.
    try:
        return tell(answers)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.CANCELLED:
            return DONE
        raise
    finally:
        signal(SIGINT, before)
