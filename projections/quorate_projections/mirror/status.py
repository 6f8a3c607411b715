"""How a mirror says how it is: one JSON line per change on standard error, and over HTTP if a port is given.

``GET /ready`` is 200 while it copies or stands by, 503 otherwise; ``GET /metrics`` are Prometheus lines.
"""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from quorate_projections.mirror.copying import Progress

_STATES = ("standing by", "copying", "failed", "stopped")
REQUEST_TIMEOUT_S = 5.0


def line(progress: Progress) -> str:
    """One line for a log."""
    return msgspec.json.encode({"mirror": progress, "lag": progress.lag}).decode()


def metrics(progress: Progress) -> str:
    """Prometheus text: positions and counts of this process."""
    figures = [
        ("position", "gauge", "Event offset that comes next in the target; -1: not known.", progress.position),
        ("end", "gauge", "End of the source; -1: not known.", progress.end),
        ("lag", "gauge", "Events not copied yet.", progress.lag),
        ("commits_total", "counter", "Transactions committed.", progress.commits),
        ("fenced_total", "counter", "Times another mirror took over.", progress.fenced),
        ("failures_total", "counter", "Times the copy had to begin again.", progress.failures),
    ]
    lines = []
    for name, kind, text, value in figures:
        lines += [f"# HELP quorate_mirror_{name} {text}", f"# TYPE quorate_mirror_{name} {kind}"]
        lines.append(f"quorate_mirror_{name} {value}")
    lines += ["# HELP quorate_mirror_state What it does now.", "# TYPE quorate_mirror_state gauge"]
    lines += [f'quorate_mirror_state{{state="{state}"}} {int(progress.state == state)}' for state in _STATES]
    return "\n".join(lines) + "\n"


class StatusServer:
    """A small HTTP server on its own thread. Raises OSError when it cannot listen."""

    def __init__(self, host: str, port: int, progress: Callable[[], Progress]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_TIMEOUT_S

            def do_GET(self) -> None:
                status, kind, text = _answer(self.path, progress())
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Requests are not news."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def _answer(path: str, progress: Progress) -> tuple[HTTPStatus, str, str]:
    if path == "/ready":
        ready = progress.state in {"standing by", "copying"}
        return HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, "application/json", line(progress)
    if path == "/metrics":
        return HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", metrics(progress)
    return HTTPStatus.NOT_FOUND, "application/json", '{"error":"there is /ready and /metrics"}'
