"""aiohttp behind our rules of who may stay and who may ask: what the page and the views have in common.

Rules: ``quorate.listening`` stands before each connection; ``quorate.origins`` judges each request before its body is
asked for (``100 Continue``) and before it is looked up. Every answer has the security headers, aiohttp's own too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from quorate.listening import ListeningLimits, ProtocolFactory
from quorate.origins import SECURITY_HEADERS, AllowedNames, judge

SHUTDOWN_S: Final = 2.0
"""How long answers under way may take once the program is told to stop."""
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Protocol(web.RequestHandler):
    """One connection. All answers pass here, those to what is not even HTTP as well."""

    __slots__ = ("_runner",)

    def __init__(self, server: web.Server, runner: "GuardedRunner") -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), access_log=None)  # type: ignore[arg-type]  # None: none.
        self._runner = runner

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write an answer, or the end of a stream."""
        if not resp.prepared:
            resp.headers.update(self._runner.headers)
        if self._runner.keeper is not None:
            self._runner.keeper.answered(self.transport)
        return await super().finish_response(request, resp, start_time)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """A traceback for a fault of ours; what is no HTTP is counted, and said ever more seldom."""
        error = kw.get("exc_info")
        if isinstance(error, HttpProcessingError) and self._runner.keeper is not None:
            self._runner.keeper.refused_one(type(error).__name__)  # Its text has lines of what was sent.
        else:
            super().log_exception(*args, **kw)


class GuardedRunner(web.AppRunner):
    """Runs an application, and listens for it. ``headers``: of every answer."""

    def __init__(
        self,
        app: web.Application,
        allowed: AllowedNames,
        headers: Mapping[str, str] = SECURITY_HEADERS,
    ) -> None:
        super().__init__(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
        self._allowed = allowed
        self.headers = headers
        self.keeper: ProtocolFactory | None = None
        """Of the listener."""
        self._listener: asyncio.Server | None = None

    async def listen(self, host: str, port: int, limits: ListeningLimits) -> asyncio.Server:
        """Set up, and listen. Raises OSError."""
        await self.setup()
        server = self.server
        if server is None:
            raise RuntimeError("the application is not set up")
        server.request_handler = self._judged(server.request_handler)
        self.keeper = ProtocolFactory(lambda: _Protocol(server, self), limits)
        self._listener = await asyncio.get_running_loop().create_server(self.keeper, host, port, backlog=1024)
        return self._listener

    async def cleanup(self) -> None:
        """Listen no longer, and end what is served."""
        if self.keeper is not None:
            self.keeper.close()
        if self._listener is not None:
            self._listener.close()
        await super().cleanup()

    def _judged(self, handler: Handler) -> Handler:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            refused = judge(request.method, request.headers, self._allowed, has_body=request.body_exists)
            if refused is None:
                return await handler(request)
            response = web.Response(status=refused.status, body=refused.body, content_type="application/json")
            response.headers["Cache-Control"] = "no-store"
            response.force_close()  # Its body was not asked for, and may come all the same.
            return response

        return handle
