"""Addresses that brokers and members name themselves."""

from ipaddress import IPv6Address

from hypothesis import example, given
from hypothesis import strategies as st

from quorate.metadata.texts import parse_address

PORTS = st.integers(1, 65535)


@given(st.ip_addresses(v=6), PORTS)
def test_an_address_of_ipv6_has_brackets(address: IPv6Address, port: int) -> None:
    """In them it is read, in every way it may be written; without them nobody can say where the port begins."""
    for text in (str(address), address.exploded):
        assert parse_address(f"[{text}]:{port}") == (text, port)
        assert parse_address(f"{text}:{port}") is None


@given(st.ip_addresses(v=4).map(str) | st.from_regex(r"[a-z0-9_]([a-z0-9._-]{0,20}[a-z0-9_])?", fullmatch=True), PORTS)
def test_a_name_and_an_address_of_ipv4_have_none(host: str, port: int) -> None:
    """They are read as they are, and brackets around them make them nothing."""
    assert parse_address(f"{host}:{port}") == (host, port)
    assert parse_address(f"[{host}]:{port}") is None


@given(st.text("0123456789abcdefxF:.[]-", max_size=30))
@example("1:2:3:80")
@example("[1:2:3]:80")
def test_what_is_read_is_an_address(text: str) -> None:
    """A host without a colon, or a real address of IPv6; written again it is the same text."""
    found = parse_address(text)
    if found is not None:
        host, port = found
        assert 0 < port < 65536
        if ":" in host:
            IPv6Address(host)
            host = f"[{host}]"
        assert text.rpartition(":")[0] == host
