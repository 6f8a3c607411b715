"""How calls are taken from grpcio's core: each method by its own name, and whatever else is asked for without its name.

Rules: a call of a method that is served comes under the name that was registered; of any other nobody reads the name:
it is UNIMPLEMENTED. Beyond ``calls_max`` a call is refused (RESOURCE_EXHAUSTED). A call can end no other one.

Why: ``grpc.aio.Server`` (1.85) decodes the names of unregistered methods as UTF-8 in the one task that takes calls. A
single byte of a ``:path`` that is none ends that task, and the server with it, for everybody and for good. So that task
is left with nothing to do: it waits for ours, which end when the server is shut down.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc
from grpc._cython import cygrpc
from grpc.aio import InternalError
from grpc.aio._server import Server

_UNKNOWN: Final = ""
"""No method has this name."""


class _Core(cygrpc.AioServer):  # type: ignore[misc]
    """The server of the library, but for who takes calls."""

    def __init__(self, options: Sequence[tuple[str, int]], calls_max: int) -> None:
        self._at: asyncio.AbstractEventLoop = cygrpc.get_working_loop()
        super().__init__(self._at, None, (), (), tuple(options), None)
        self._calls_max = calls_max
        self._calls: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def add_registered_method_handlers(self, handlers: Mapping[str, "grpc.RpcMethodHandler[Any, Any]"]) -> None:
        """By their whole names."""
        super().add_registered_method_handlers(handlers)
        self._handlers.update(handlers)

    def resolve_handler(self, details: "grpc.HandlerCallDetails") -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Of a method; None: nobody serves it."""
        return self._handlers.get(details.method)

    def _make_request_call_future(self, method: bytes | None) -> "asyncio.Task[None]":
        return self._at.create_task(self._take(method))

    async def _take(self, method: bytes | None) -> None:
        """All calls of a method, or all of no method; until the server is shut down, which the library raises."""
        name = _UNKNOWN if method is None else method.decode()
        while True:
            call = await (self._request_call() if method is None else self._request_registered_call(method))
            full = len(self._calls) >= self._calls_max
            handled = _told(cygrpc._handle_rpc(name, self, (), call, self._at, full))  # noqa: SLF001
            task = self._at.create_task(cygrpc._schedule_rpc_coro(handled, call, self._at, name))  # noqa: SLF001
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)


async def _told(handled: Awaitable[None]) -> None:
    """What a client cannot be told any more, because it is gone, is nothing for the log."""
    with suppress(InternalError):
        await handled


class TakingServer(Server):
    """``grpc.aio.server(options=…, maximum_concurrent_rpcs=calls_max)``, whose callers cannot end it. Methods are to be
    registered.
    """

    def __init__(self, options: Sequence[tuple[str, int]], calls_max: int) -> None:
        """The library's own constructor would make a core of its own, which never starts and is never given back."""
        self._loop = cygrpc.get_working_loop()
        self._server = _Core(options, calls_max)
