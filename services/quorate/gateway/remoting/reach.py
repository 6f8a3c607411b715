"""Whom the controller connects to: a broker names its own address, and must not choose a target for us with it.

Rules: a name is resolved first, and what it resolves to is judged; the connection goes to the very address that was
judged. Addresses that no broker can serve at (unspecified, multicast, link-local) are never connected to; of the others
those in the networks of the setting. What is not allowed is an error like any that a connection may end with.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeVar

from quorate.errors import UsageError

ANYWHERE: Final = ("0.0.0.0/0", "::/0")

Protocol = TypeVar("Protocol", bound=asyncio.BaseProtocol)


class OutOfReachError(PermissionError):
    """An address that this node must not connect to."""


class AllowedNetworks:
    """The networks to which this node may connect (``broker_networks``). Raises UsageError for what is no network."""

    def __init__(self, networks: Sequence[str]) -> None:
        try:
            self._networks = tuple(ip_network(network) for network in networks)
        except ValueError as error:
            raise UsageError(f"broker_networks: {error}") from error

    def allows(self, address: str) -> bool:
        """May this node connect to an IP address? False for anything else."""
        try:
            ip: IPv4Address | IPv6Address = ip_address(address)
        except ValueError:
            return False
        if isinstance(ip, IPv6Address):
            ip = ip.ipv4_mapped or ip
        if ip.is_unspecified or ip.is_multicast or ip.is_link_local:
            return False
        return any(ip in network for network in self._networks)

    async def connect(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: Callable[[], Protocol],
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, Protocol]:
        """Connect to the first address of ``host`` that is allowed and takes it; ``tls`` is held to the name.

        Raises OutOfReachError when none is allowed, OSError of the last that was tried, ValueError for a host that no
        name can have. The deadline is the caller's.
        """
        failed: OSError = OutOfReachError(f"{host} is in none of the networks this node may connect to")
        for address in await self._addresses(loop, host, port):
            if self.allows(address):
                try:
                    name = None if tls is None else host
                    return await loop.create_connection(protocol, address, port, ssl=tls, server_hostname=name)
                except OSError as error:
                    failed = error
        raise failed

    async def _addresses(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
        """An address stands for itself, at once; a name for all it resolves to."""
        try:
            return [str(ip_address(host))]
        except ValueError:
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return [str(where[0]) for *_, where in infos]
