"""A TLS client on a plain port is known by its first bytes, and is refused in words that TLS has."""

import ssl

import pytest

from quorate import tls


def hello() -> tuple[ssl.SSLObject, ssl.MemoryBIO, bytes]:
    """A client that has said hello: it, where its answers go, and what it said."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="node-1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return client, incoming, outgoing.read()


def test_a_hello_is_known() -> None:
    """By its first three bytes; fewer, other requests and other records are none."""
    said = hello()[2]
    assert tls.is_client_hello(said)
    assert tls.is_client_hello(bytearray(said[:3]))
    for other in (b"", said[:2], b"GET / HTTP/1.1", b"\x00\x00\x00\x16\x03\x01", b"\x17\x03\x03", b"\x16\x04\x00"):
        assert not tls.is_client_hello(other)


def test_a_client_understands_the_refusal() -> None:
    """Its handshake fails with the alert's name; it has nothing to wait for."""
    client, incoming, _ = hello()
    incoming.write(tls.REFUSAL)
    with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
        client.do_handshake()
