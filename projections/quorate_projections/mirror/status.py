"""How a mirror says how it is: one JSON line per change on standard error, and over HTTP if a port is given.

``GET /ready`` is 200 while it copies or stands by, 503 otherwise; ``GET /metrics`` are Prometheus lines. Who may ask,
and the headers of every answer, are those of all our HTTP listeners (``quorate.origins``).
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from quorate import tls
from quorate.origins import SECURITY_HEADERS, AllowedNames, Foreign, judge
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

    def __init__(self, host: str, port: int, progress: Callable[[], Progress], allowed: AllowedNames) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_TIMEOUT_S
            default_request_version = "HTTP/1.0"  # Python's is 0.9: an answer to what has no version had no headers.

            def handle(self) -> None:
                with suppress(TimeoutError, ConnectionError):
                    if tls.is_client_hello(self.rfile.peek(3)):  # type: ignore[attr-defined]  # It is buffered.
                        self.wfile.write(tls.REFUSAL)
                    else:
                        super().handle()

            def do_GET(self) -> None:
                refused = _judged(self.headers, allowed)
                if refused is not None:
                    self._send(refused.status, "application/json", refused.body)
                else:
                    status, kind, text = _answer(self.path, progress())
                    self._send(status, kind, text.encode())

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def end_headers(self) -> None:
                for name, value in SECURITY_HEADERS.items():
                    self.send_header(name, value)
                super().end_headers()

            def handle_expect_100(self) -> bool:
                return True  # No body is ever wanted.

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


def _judged(fields: Message, allowed: AllowedNames) -> Foreign | None:
    headers = {name.lower(): value for name, value in fields.items()}
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    return judge("GET", headers, allowed, has_body=has_body)


def _answer(path: str, progress: Progress) -> tuple[HTTPStatus, str, str]:
    if path == "/ready":
        ready = progress.state in {"standing by", "copying"}
        return HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, "application/json", line(progress)
    if path == "/metrics":
        return HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", metrics(progress)
    return HTTPStatus.NOT_FOUND, "application/json", '{"error":"there is /ready and /metrics"}'
