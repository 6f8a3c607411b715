"""What every program of ours says of an address that it cannot listen on."""

import errno
import socket

import pytest

from quorate.listening import address_error

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
