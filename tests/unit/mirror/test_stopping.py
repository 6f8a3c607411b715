"""``quorate mirror`` ends soon after SIGTERM, whoever hangs: its node, or the Kafka it writes to."""

import contextlib
import http.server
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def silent() -> Iterator[tuple[str, socket.socket]]:
    """An address that takes connections and never answers, and who listens there."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.settimeout(60)
        yield f"127.0.0.1:{listener.getsockname()[1]}", listener


@contextlib.contextmanager
def leader(kafka: str) -> Iterator[str]:
    """A node that says it leads, with its Kafka listener there."""

    class Quorum(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            voters = [{"id": 1, "kafka": kafka}]
            told = {"node": 1, "cluster_id": "c", "role": "leader", "term": 1, "voters": voters}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quorum) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("hangs", ["the node", "the target"])
def test_a_mirror_ends_soon_whoever_hangs(hangs: str) -> None:
    """Within five seconds, with 0: in a request of its own, and in a call of librdkafka's that waits for a broker."""
    pytest.importorskip("confluent_kafka", reason="projections are not installed (make setup-all)")
    with silent() as (nobody, listener), leader(nobody) as node:
        asked = nobody if hangs == "the node" else node
        words = (sys.executable, "-m", "quorate", "mirror", "--to", nobody, "--node", asked)
        with subprocess.Popen(words, stderr=subprocess.PIPE) as mirror:
            waits, _ = listener.accept()
            assert mirror.poll() is None
            begun = time.monotonic()
            mirror.send_signal(signal.SIGTERM)
            try:
                assert mirror.wait(30) == 0
                assert time.monotonic() - begun < 5
                assert mirror.stderr is not None
                assert b"Traceback" not in mirror.stderr.read()
            finally:
                mirror.kill()
                waits.close()
