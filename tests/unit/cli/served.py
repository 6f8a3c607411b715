"""A small HTTP server that answers what a test says, in the shapes of /v1."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec


class Served:
    """Answers by path; a callable gets the query. ``asked`` collects (method, path, query, body)."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.address = ""

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        split = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.asked.append((method, split.path, query, body))
        found = self.answers.get(split.path)
        if found is None:
            return 404, b'{"error":{"code":"not_found","message":"there is nothing"}}'
        if callable(found):
            found = found(query)
        if isinstance(found, tuple):
            return found
        return 200, msgspec.json.encode(found)


@contextmanager
def serving() -> Iterator[Served]:
    """The server, for the time of a test."""
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, data = served.answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        served.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
