"""The worker's HTTP listener: Faust's own, behind our rules of who may stay and who may ask.

Rules: ``quorate.listening`` stands before each connection, ``quorate.origins`` before each request; every answer has
the security headers. Nothing else of Faust's web is changed; what is used of its inside is gated by tests.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web
from faust.web.drivers.aiohttp import Web

from quorate.listening import ListeningLimits, ProtocolFactory
from quorate.origins import SECURITY_HEADERS, allowed_names, judge
from quorate_projections.settings import ProjectionSettings

if TYPE_CHECKING:
    from aiohttp.web_server import Server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class GuardedWeb(Web):
    """Faust's web driver on a listener of ours."""

    def __init__(self, app: Any, settings: ProjectionSettings) -> None:
        super().__init__(app)
        self._settings = settings
        self._allowed = allowed_names([settings.host, *filter(None, settings.names.split(","))], setting="names")
        self._keeper: ProtocolFactory | None = None
        self._listener: asyncio.Server | None = None
        self.web_app.middlewares.append(self._guard)

    async def start_server(self) -> None:
        """Listen. Raises OSError."""
        await self._runner.setup()
        limits = ListeningLimits(
            connections_max=self._settings.connections_max, head_timeout_s=self._settings.head_timeout_s
        )
        self._keeper = ProtocolFactory(cast("Server", self._runner.server), limits)
        self._listener = await asyncio.get_running_loop().create_server(
            self._keeper, self._settings.host, self._settings.port, backlog=1024
        )

    async def stop_server(self) -> None:
        """Listen no longer, and end what is served."""
        if self._keeper is not None and self._listener is not None:
            self._keeper.close()
            self._listener.close()
        await super().stop_server()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            refused = judge(request.method, request.headers, self._allowed, has_body=request.body_exists)
            if refused is not None:
                body = {"error": {"code": refused.code, "message": refused.message}}
                response: web.StreamResponse = web.Response(
                    status=refused.status, text=json.dumps(body), content_type="application/json"
                )
            else:
                response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(SECURITY_HEADERS)
            raise
        else:
            response.headers.update(SECURITY_HEADERS)
            return response
        finally:
            if self._keeper is not None:
                self._keeper.answered(request.transport)
