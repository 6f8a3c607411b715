"""What a large snapshot costs those who wait meanwhile: the leader that sends it, and the follower that takes it.

Rules: a follower is stopped (SIGSTOP) while rows come and the journal is trimmed, and goes on. From then until it has
all of it, both are asked for ``/livez`` again and again, each on a connection of its own: an answer needs one turn of
the loop, so the longest wait is the longest turn, and what else the machine did. The same before, as a control.
"""

import http.client
import os
import signal
import socket
import statistics
import threading
import time
from contextlib import closing
from typing import Any

from quorate.cli.client import NodeError
from quorate.gateway.http.answers import Status
from quorate.wire.remoting import FrameSplitter, decode_header, encode_request
from quorate.wire.remoting_headers import CreateTopicFields
from tests.bench.harness import Figure, Ours, Run, ours
from tests.clusters import until

ROWS = 200_000
WINDOW = 64
CALM_S = 5.0
PAUSE_S = 0.001


def snapshot(run: Run) -> None:
    """The longest wait for an answer of either, in ms, without and beside a snapshot of 200,000 rows."""
    run.take("snapshot 200000 rows", lambda: _measured(run))


def _measured(run: Run) -> Figure:
    with ours(run) as cluster:
        leader, follower = cluster.leader(), cluster.follower()
        pings = {"leader": Pings(leader), "follower": Pings(follower)}
        time.sleep(CALM_S)
        figure = {f"{who}_calm_max_ms": one.longest_ms() for who, one in pings.items()}
        pings["follower"].end()
        os.kill(follower["pid"], signal.SIGSTOP)
        try:
            _write(cluster.rpc(leader))
        finally:
            os.kill(follower["pid"], signal.SIGCONT)
        pings["leader"].longest_ms()
        pings["follower"], began = Pings(follower), time.monotonic()
        end = _offset(cluster, leader)
        until(lambda: _offset(cluster, follower) >= end, "the follower has the state", 300.0)
        took_s = time.monotonic() - began
        for who, one in pings.items():
            figure |= {f"{who}_p50_ms": one.median_ms(), f"{who}_max_ms": one.longest_ms()}
            one.end()
        return figure | {"seconds": round(took_s, 2)}


class Pings:
    """A thread that asks a node for its life until it is told to end."""

    def __init__(self, node: dict[str, Any]) -> None:
        self._address, self._ended = node["http"], False
        self._took: list[float] = []
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        with closing(http.client.HTTPConnection(self._address, timeout=60)) as line:
            while not self._ended:
                began = time.perf_counter()
                line.request("GET", "/livez")
                line.getresponse().read()
                self._took.append((time.perf_counter() - began) * 1000)
                time.sleep(PAUSE_S)

    def median_ms(self) -> float:
        """Since it was last asked for the longest."""
        return round(statistics.median(self._took), 2)

    def longest_ms(self) -> float:
        """Since it was last asked."""
        took, self._took = self._took, []
        return round(max(took), 2)

    def end(self) -> None:
        """Ask no more."""
        self._ended = True
        self._thread.join()


def _offset(cluster: Ours, node: dict[str, Any]) -> int:
    """Events that the node itself has applied; 0 while it does not say."""
    try:
        number = cluster.started.nodes.index(node)
        return int(cluster.started.node(number).get("/v1/status", Status, level="stale").offset)
    except NodeError:
        return 0


def _write(port: int) -> None:
    """So many topics, some under way at a time."""
    splitter, answered = FrameSplitter(), 0
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        for number in range(ROWS):
            fields = CreateTopicFields(topic=f"topic-{number:06d}", read_queue_nums=1, write_queue_nums=1, perm=6)
            line.sendall(encode_request(17, number, fields))
            while answered < number + 1 - (WINDOW if number + 1 < ROWS else 0):
                codes = [decode_header(frame).code for frame in splitter.feed(line.recv(65536))]
                assert not any(codes), codes
                answered += len(codes)
