"""Limits and periods of the HTTP listener."""

import msgspec

from quorate.bounds import bounded
from quorate.errors import UsageError


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds unless the name says otherwise."""

    connections_max: int = 500
    """When one more comes, the one that is longest without an answer goes, of those that have proven nothing."""
    connections_reserved: int = 100
    """Of these, how many proven connections leave to others (at most half): probes are among them."""
    proven_per_address_max: int = 200
    """Connections of one address that count as proven."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, beside its own address, that this listener is asked by (``Host``): those of proxies and aliases."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of other pages that may ask here, as browsers write them (``https://console.example``)."""
    head_bytes_max: int = 16 * 1024
    """Request line and headers; longer ones are answered 431."""
    body_bytes_max: int = 1024 * 1024
    """A larger body is answered 413."""
    first_byte_timeout_s: float = 10.0
    """How long a connection may stay without having sent a byte."""
    head_timeout_s: float = 5.0
    """Request line and headers must be whole this long after their first byte."""
    request_timeout_s: float = 10.0
    """A request must be whole this long after its first byte."""
    idle_timeout_s: float = 75.0
    """A connection without a request for this long is closed."""
    write_timeout_s: float = 30.0
    """A client that takes nothing for this long is disconnected."""
    answer_timeout_s: float = 2.5
    """How long a read waits for the leader's word, or for an offset to be applied here."""
    sweep_period_s: float = 1.0
    """How often time-outs are looked for."""
    waiting_max: int = 1000
    """Reads that may wait for an offset at the same time; one more is answered busy."""
    page_default: int = 100
    """Items of a list when no ``limit`` is given."""
    page_max: int = 200
    """Most items of one page, whatever the client asks for."""
    log_bytes_max: int = 64 * 1024
    """Most encoded events of one page of ``/v1/log``; a page may be shorter than its limit."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)
        if self.page_default > self.page_max:
            raise UsageError("page_default must be at most page_max")
