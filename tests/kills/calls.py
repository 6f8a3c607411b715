"""Calls to whichever node is connected, and what is known of one that failed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

import grpc

TIMEOUT_S: Final = 5.0
AGAIN_S: Final = 0.2
_OPTIONS: Final = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]
_CHANGED_NOTHING: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


class Failed(Exception):  # noqa: N818
    """A call was not answered as it was meant."""


class Refused(Failed):
    """It changed nothing. ``text``: what was said."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)


class Unknown(Failed):
    """Nobody knows whether it did, or will."""


async def certain(ask: Callable[[], Awaitable[Any]], within_s: float) -> Any:
    """Ask until it is answered: only what may be done twice. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                return await ask()
            except Failed:
                await asyncio.sleep(AGAIN_S)


class Calls:
    """Channels to all nodes."""

    def __init__(self, addresses: Sequence[str], chance: random.Random) -> None:
        self._addresses, self._chance = addresses, chance
        self._channels: list[grpc.aio.Channel] = []
        self._stubs: dict[tuple[int, type], Any] = {}
        self.unknown = 0

    async def __aenter__(self) -> Self:
        self._channels = [grpc.aio.insecure_channel(address, options=_OPTIONS) for address in self._addresses]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels:
            await channel.close()

    async def ask(self, kind: type, method: str, request: Any, *, node: int | None = None) -> Any:
        """The answer. Raises Refused, Unknown."""
        stub = self._stub(kind, self._connected() if node is None else node)
        try:
            return await getattr(stub, method)(request, timeout=TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error

    async def ask_stream(self, kind: type, method: str, request: Any) -> Any:
        """The first answer to the only request of a stream. Raises Refused, Unknown."""
        call = getattr(self._stub(kind, self._connected()), method)(iter([request]), timeout=TIMEOUT_S)
        try:
            answer = await call.read()
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from error
        finally:
            call.cancel()
        if answer is grpc.aio.EOF:
            raise Unknown
        return answer

    def _connected(self) -> int:
        states = [channel.get_state(try_to_connect=True) for channel in self._channels]
        found = [node for node, state in enumerate(states) if state is grpc.ChannelConnectivity.READY]
        return self._chance.choice(found or range(len(self._channels)))

    def _stub(self, kind: type, node: int) -> Any:
        if (node, kind) not in self._stubs:
            self._stubs[node, kind] = kind(self._channels[node])
        return self._stubs[node, kind]

    def _failed(self, error: grpc.aio.AioRpcError) -> Failed:
        if error.code() in _CHANGED_NOTHING:
            return Refused(error.details() or "")
        self.unknown += 1
        return Unknown(error.details() or "")
