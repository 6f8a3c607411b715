"""What every program of ours says of an address that it cannot listen on, and how long a stranger may keep a place."""

import asyncio
import errno
import resource
import socket
from collections.abc import Callable

import msgspec
import pytest

from quorate.errors import UsageError
from quorate.listening import PLACES_LEAST, ListeningLimits, ProtocolFactory, address_error, fitted

IN_USE = OSError(errno.EADDRINUSE, "error while attempting to bind on address ('127.0.0.1', 1): address already in use")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (IN_USE, "address already in use; end what listens there, or give another port"),
        (OSError(errno.EADDRNOTAVAIL, "x"), "cannot assign requested address; give an address of this machine"),
        (OSError(errno.EACCES, "x"), "permission denied; give a port that this user may have"),
        (OSError(errno.ENFILE, "x"), "too many open files in system"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("no number"), "no number"),
    ],
)
def test_it_names_the_setting_the_address_the_reason_and_the_remedy(error: OSError, told: str) -> None:
    """In one sentence, without asyncio's own words."""
    assert str(address_error("--port", "h", 1, error)) == f"--port: cannot listen on h:1: {told}"


class Reader(asyncio.Protocol):
    """Says that a request was answered, if it is told how."""

    def __init__(self, answered: Callable[[asyncio.BaseTransport], None] | None) -> None:
        self._answered = answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answered is not None:
            self._answered(self._transport)


WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("deadline", "said", "answered"),
    [
        ("first_byte_timeout_s", b"", False),
        ("head_timeout_s", WHOLE[:-1], False),
        ("idle_timeout_s", WHOLE, True),
        (None, WHOLE, False),
    ],
)
def test_each_wait_of_a_stranger_has_a_deadline_of_its_own(
    deadline: str | None, said: bytes, *, answered: bool
) -> None:
    """For the first byte, for the rest of a head, and for the next request; none while a request is under way. The
    deadlines that are not meant are an hour, or, where none is, none is longer than a moment.
    """
    names = ("first_byte_timeout_s", "head_timeout_s", "idle_timeout_s")
    times = {name: 0.05 if deadline in {name, None} else 3_600.0 for name in names}

    async def scenario() -> bool:
        loop = asyncio.get_running_loop()
        limits = msgspec.structs.replace(ListeningLimits(sweep_period_s=0.01), **times)
        factory = ProtocolFactory(lambda: Reader(factory.answered if answered else None), limits)
        async with await loop.create_server(factory, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(said)
            try:
                async with asyncio.timeout(0.5 if deadline is None else 10):
                    ended = await reader.read() == b""
            except ConnectionResetError:
                ended = True
            except TimeoutError:
                ended = False
            writer.transport.abort()
            factory.close()
        return ended

    assert asyncio.run(scenario()) == (deadline is not None)


def test_places_fit_below_what_a_process_may_open(caplog: pytest.LogCaptureFixture) -> None:
    """While there is enough they are as set; then as many as there is room for, and it is said; then there are too few
    to listen at all, in a sentence.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = ListeningLimits(connections_max=100)
    assert fitted(room, hard - 100) == room
    assert not caplog.text
    assert fitted(room, hard - 60) == msgspec.structs.replace(room, connections_max=60)
    assert f"few descriptors ({hard}): 60 connections at a time, not 100" in caplog.text
    assert fitted(room, hard - PLACES_LEAST).connections_max == PLACES_LEAST
    with pytest.raises(UsageError, match=f"may open {hard} files and needs at least {hard + 1}: raise it"):
        fitted(room, hard - PLACES_LEAST + 1)
    few = ListeningLimits(connections_max=3)
    assert fitted(few, hard - 3) == few
