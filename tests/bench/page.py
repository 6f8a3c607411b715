"""How soon the page shows what happened: a command is sent → the page's event stream is past its event, by wall clock.

Read as a browser reads it (server-sent events of ``quorate dashboard``), but not drawn: tests/browser asserts the DOM.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from quorate.cli.client import Node
from quorate.gateway.http.answers import Done
from tests.bench.harness import Figure, Ours, Run, ending, ours, quantiles, said
from tests.clusters import free_ports

EVENTS = 400
WARM = 40
"""The first ones do not count."""
RATE = 20.0
SILENCE_S = 20.0


def page(run: Run) -> None:
    """Topics created at 20 a second on the leader, one after the other, and seen on the page."""
    with ours(run) as cluster, _dashboard(run, cluster) as port:
        run.take("page", partial(_seen, run, cluster, port))


@contextmanager
def _dashboard(run: Run, cluster: Ours) -> Iterator[int]:
    """The page's service, started as a user starts it; its port."""
    nodes, port = ",".join(node["kafka"] for node in cluster.started.nodes), free_ports(1)
    words = ["dashboard", "--nodes", nodes, "--port", str(port), "-o", "json"]
    command = [sys.executable, "-m", "quorate", *words]
    with tempfile.TemporaryFile(dir=run.folder) as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        with ending(process):
            said(process)
            yield port


def _seen(run: Run, cluster: Ours, port: int) -> Figure:
    """From the command, and from the event's own time (when the leader decided), to the page."""
    node, sent, failed = Node(cluster.leader()["http"]), list[tuple[float, int]](), list[Exception]()
    writer = threading.Thread(target=_write, args=(node, sent, failed))
    shown: dict[int, tuple[float, int]] = {}
    stream = _facts(port)
    try:
        next(stream)  # The greeting: what comes from now on is sent.
        writer.start()
        for kind, told, at in stream:
            if kind == "resync":
                raise RuntimeError("the page was told to read again")
            if kind == "facts":
                shown |= {event["offset"]: (at, event["t"]) for event in told["events"]}
            if failed or (len(sent) == EVENTS and all(offset in shown for _, offset in sent)):
                break
    finally:
        stream.close()
        if writer.is_alive():
            writer.join(30)
    if failed:
        raise failed[0]
    counted = sent[WARM:]
    from_command = [(shown[offset][0] - began) * 1000 for began, offset in counted]
    from_event = [shown[offset][0] * 1000 - shown[offset][1] for _, offset in counted]
    run.samples("page-from-command-ms", from_command)
    run.samples("page-from-event-ms", from_event)
    return quantiles(from_command) | {f"event_{name}": value for name, value in quantiles(from_event).items()}


def _write(node: Node, sent: list[tuple[float, int]], failed: list[Exception]) -> None:
    """Commands at their rate: when each was sent, and its event's offset."""
    body = {"read_queues": 4, "write_queues": 4, "permission": 6}
    began = time.monotonic()
    try:
        for number in range(EVENTS):
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            at = time.time()
            done = node.send("PUT", f"/v1/topics/page-{number}", body, Done)
            sent.append((at, done.offset - 1))
    except Exception as error:  # noqa: BLE001 - told where the stream is read
        failed.append(error)


def _facts(port: int) -> Generator[tuple[str, dict[str, Any], float], None, None]:
    """Kind, data and time of arrival of everything the page is sent. Raises RuntimeError when the stream ends."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SILENCE_S)
    try:
        connection.request("GET", "/api/live")
        kind = ""
        for line in connection.getresponse():
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                at = time.time()
                yield kind, json.loads(line[6:]), at
        raise RuntimeError("the page's stream ended")
    finally:
        connection.close()
