"""How a mirror says how it is: one JSON line per change on standard error, and over HTTP if a port is given.

``GET /ready`` is 200 while it copies or stands by, 503 otherwise; ``GET /metrics`` are Prometheus lines. Who may stay,
who may ask, and the headers of every answer, are those of the page and of the views (``quorate.guarded_web``).
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

from quorate.descriptors import SPARE
from quorate.guarded_web import GuardedRunner
from quorate.listening import ListeningLimits, fitted
from quorate.origins import AllowedNames
from quorate_projections.mirror.copying import Progress
from quorate_projections.mirror.settings import MirrorSettings

_STATES = ("standing by", "copying", "failed", "stopped")
END_S: Final = 3.0
"""For the listener to begin or to end; what is left then ends with the process."""


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
    """A small HTTP server, on a loop in a thread of its own: copying waits for Kafka, and not on a loop. Raises OSError
    when it cannot listen, UsageError when too few descriptors are left to.
    """

    def __init__(
        self, host: str, port: int, progress: Callable[[], Progress], allowed: AllowedNames, settings: MirrorSettings
    ) -> None:
        async def ready(_request: web.Request) -> web.Response:
            told = progress()
            well = told.state in {"standing by", "copying"}
            status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
            return web.Response(status=status, text=line(told), content_type="application/json")

        async def figures(_request: web.Request) -> web.Response:
            kind = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
            return web.Response(body=metrics(progress()).encode(), headers=kind)

        app = web.Application()
        app.router.add_get("/ready", ready)
        app.router.add_get("/metrics", figures)
        asked = ListeningLimits(connections_max=settings.connections_max, head_timeout_s=settings.head_timeout_s)
        limits = fitted(asked, SPARE)
        self._runner = GuardedRunner(app, allowed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._call(self._runner.listen(host, port, limits))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening."""
        self._call(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, object]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(END_S)
