"""``quorate mirror``: copy the event topic of the node beside it into a real Apache Kafka, while that node leads.

Where ``--node`` names several, each is asked whether it leads; the one that says so is copied from.
"""

import os
import signal
import socket
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from quorate.asking import READER_TIMEOUT_S, add_node, addresses
from quorate.errors import UsageError
from quorate.flags import add_flags, typed
from quorate.listening import address_error
from quorate.origins import allowed_names
from quorate.terminal import visible
from quorate_projections.mirror.copying import MirrorCopier, Progress
from quorate_projections.mirror.kafka import EventSource, MirrorTopic
from quorate_projections.mirror.node import HttpNode
from quorate_projections.mirror.ports import ForeignLogError
from quorate_projections.mirror.settings import MirrorSettings
from quorate_projections.mirror.status import StatusServer, line

STOP_S: Final = 4.0
"""How long what is under way may take from SIGTERM on. What is cut off is as after a kill: its transaction is aborted
by the next mirror, or by its timeout."""


def arguments(parser: ArgumentParser) -> None:
    """The command line."""
    parser.description = str(__doc__).replace("``", "")
    parser.add_argument("--to", required=True, metavar="HOST:PORT,…", help="bootstrap servers of the target")
    add_node(parser)
    parser.add_argument("--host", default="127.0.0.1", help="where /ready and /metrics listen (127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="their port (0: do not listen)")
    add_flags(parser, MirrorSettings)


def _told(progress: Progress) -> None:
    sys.stderr.write(line(progress) + "\n")


def _status(options: Namespace, copying: MirrorCopier, asked: MirrorSettings) -> StatusServer:
    if not 0 < options.port < 1 << 16:
        raise UsageError(f"--port {options.port}: no such port")
    allowed = allowed_names([options.host, *filter(None, asked.names.split(","))], setting="--names")
    try:
        return StatusServer(options.host, options.port, lambda: copying.progress, allowed, asked)
    except OSError as error:
        raise address_error("--port", options.host, options.port, error) from error


@contextmanager
def _ended_in_time() -> Iterator[None]:
    """From a signal on there are ``STOP_S``; then the process ends, even out of a call of librdkafka's that waits for a
    broker: Python's own handlers run only after it, but the wakeup descriptor is written at once.
    """
    ended, (reading, writing) = threading.Event(), socket.socketpair()
    writing.setblocking(False)

    def watch() -> None:
        if reading.recv(1) and not ended.wait(STOP_S):
            sys.stderr.write("quorate mirror: ended in the middle of a call that nobody answers\n")
            os._exit(0)

    before = signal.set_wakeup_fd(writing.fileno())
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        writing.close()


def run(options: Namespace) -> int:
    """Until SIGTERM or SIGINT: 0; 1 when the target holds another log."""
    asked = MirrorSettings(**typed(options, MirrorSettings))
    now, stop = time.monotonic, threading.Event()  # noqa: TID251 - composition

    def end(signum: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    copying = MirrorCopier(
        HttpNode(addresses(options.node), min(READER_TIMEOUT_S, asked.deadline_s)),
        lambda standing: EventSource(standing, asked, now),
        lambda standing: MirrorTopic(standing, options.to, asked, now),
        asked,
        now,
        _told,
    )
    server = _status(options, copying, asked) if options.port else None
    try:
        with _ended_in_time():
            copying.run(stop.wait)
    except ForeignLogError as error:
        sys.stderr.write(f"quorate mirror: {visible(str(error))}\n")
        return 1
    finally:
        if server is not None:
            server.close()
    return 0
