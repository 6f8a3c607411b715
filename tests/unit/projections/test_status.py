"""What ``quorate projections status`` makes of an address, and of an answer, that is none."""

import socket
import threading
from argparse import Namespace

import pytest

from quorate.errors import UsageError
from quorate_projections import status


def said_by(answer: bytes) -> str:
    """Why a worker that answers so is not ready."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(status.AskError) as refused:
            status.ask(f"127.0.0.1:{listening.getsockname()[1]}")
    return str(refused.value)


@pytest.mark.parametrize("address", ["127.0.0.1:²", "127.0.0.1:99999", "127.0.0.1", "http://127.0.0.1:9951"])
def test_what_is_no_address_is_refused_in_one_sentence(address: str) -> None:
    """As of every command: with the flag and the address."""
    with pytest.raises(UsageError, match=r"--at .*expected HOST:PORT"):
        status.run(Namespace(at=address, output="table"))


@pytest.mark.parametrize(
    "body",
    [b'{"ready":true,"reason":"\xff"}', b"{}", b"", b" " * (status.ANSWER_BYTES_MAX + 1)],
    ids=["no UTF-8", "not a worker's", "nothing", "too much"],
)
def test_what_is_no_answer_of_a_worker_is_told_in_one_sentence(body: bytes) -> None:
    """Not in UTF-8, not a worker's, none at all, or without an end."""
    reason = said_by(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert reason.startswith("127.0.0.1:")
    assert "\n" not in reason
