"""The settings of a projection worker: one frozen struct, read from the environment and from flags.

Rules: environment (``QUORATE_PROJECTIONS_<NAME>``) under flags; every problem is listed at once, unknown names with a
suggestion. A new setting is one field with a default and a description; its variable and its flag follow from it.
"""

import ipaddress
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from quorate.asking import DEFAULT_NODE, default_node, kafka_addresses
from quorate.errors import UsageError
from quorate.flags import ADDRESSES, converted

PREFIX: Final = "QUORATE_PROJECTIONS_"
USUAL_KAFKA: Final = "127.0.0.1:9872"
_PORT_MAX: Final = (1 << 16) - 1

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class ProjectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds unless the name says otherwise."""

    node: str = DEFAULT_NODE
    """HTTP addresses of nodes; its flag is that of every command."""
    nodes: Annotated[str, Meta(description="their Kafka addresses instead", extra=ADDRESSES)] = ""
    mirror: Annotated[
        str, Meta(description="read this Kafka that the log is mirrored to, not the nodes", extra=ADDRESSES)
    ] = ""
    topic: Annotated[str, Meta(description="the topic of the events")] = "quorate.metadata.events"
    client_rack: Annotated[str, Meta(description="read from the node of this zone, or node-<id>")] = ""
    data_dir: Annotated[str, Meta(description="rows and position; one worker each, rebuilt when empty")] = (
        "projections-data"
    )
    host: Annotated[str, Meta(description="address to serve HTTP on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=_PORT_MAX, description="port to serve HTTP on")] = 9951
    names: Annotated[str, Meta(description="names browsers and proxies call it by, besides its address: HOST,…")] = ""
    connections_max: Annotated[Count, Meta(description="HTTP connections; of one more the idlest unproven goes")] = 500
    head_timeout_s: Annotated[Seconds, Meta(description="from a request's first byte to the end of its headers")] = 5.0
    insecure: Annotated[bool, Meta(description="serve off loopback although nothing is encrypted")] = False
    save_every: Annotated[Count, Meta(description="events of one write while catching up")] = 500
    cache_rows: Annotated[Count, Meta(description="decoded rows kept in memory")] = 20_000
    fetch_wait_ms: Annotated[
        Count, Meta(description="longest long poll; also how old an idle view may call itself")
    ] = 500
    fetch_bytes_max: Annotated[Count, Meta(description="of one fetch")] = 4 * 1024 * 1024
    request_timeout_s: Annotated[Seconds, Meta(description="longest wait for an answer of a node")] = 10.0
    ready_lag_max: Annotated[int, Meta(ge=0, description="events behind the end at which /ready still says yes")] = 100
    ready_age_max_s: Annotated[Seconds, Meta(description="time without word of a node after which /ready says no")] = (
        5.0
    )
    wait_max_s: Annotated[Seconds, Meta(description="longest wait for min_offset")] = 30.0
    wait_default_s: Annotated[Seconds, Meta(description="wait for min_offset when the caller names none")] = 5.0
    waiters_max: Annotated[Count, Meta(description="callers waiting for min_offset at a time; more are told 429")] = (
        1000
    )
    page_default: Annotated[Count, Meta(description="rows of a page when the caller names no limit")] = 100
    page_max: Annotated[Count, Meta(description="most rows of a page")] = 1000
    page_bytes_max: Annotated[Count, Meta(description="a page ends after this much")] = 1024 * 1024
    scan_max: Annotated[Count, Meta(description="rows looked at for one page; a filter may need several pages")] = (
        10_000
    )
    audit_period_s: Annotated[
        Seconds, Meta(description="how often the worker looks whether it has missed something")
    ] = 1.0
    loglevel: Annotated[str, Meta(description="of the worker's log, on stderr")] = "warning"

    def __post_init__(self) -> None:
        """Raises UsageError for what the types cannot say."""
        for name, listed in (("node", self.node), ("nodes", self.nodes), ("mirror", self.mirror)):
            if listed or name == "node":
                _check_addresses(name, listed)
        if not self.insecure and not _is_loopback(self.host):
            raise UsageError(
                f"host: {self.host} is not loopback and nothing is encrypted; if the network is yours alone,"
                " say insecure"
            )

    @property
    def bootstrap(self) -> list[str]:
        """Kafka addresses to ask first; without any the usual one (for Faust's own commands)."""
        return [address.strip() for address in (self.mirror or self.nodes or USUAL_KAFKA).split(",")]


def located(
    settings: ProjectionSettings, wait: Callable[[], object], say: Callable[[str], object]
) -> ProjectionSettings:
    """The same with the Kafka addresses of the nodes, asked of them. Raises UsageError, UnreachedError."""
    if settings.mirror or settings.nodes:
        return settings
    return msgspec.structs.replace(settings, nodes=kafka_addresses(settings.node, wait, say))


def _check_addresses(name: str, listed: str) -> None:
    for address in listed.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= _PORT_MAX:
            raise UsageError(f"{name}: {address.strip()!r} is not HOST:PORT")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_settings(environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> ProjectionSettings:
    """Settings from texts, flags over the environment. Raises UsageError, naming every problem."""
    texts = {"node": default_node(environ)}
    texts |= {name.removeprefix(PREFIX).lower(): text for name, text in environ.items() if name.startswith(PREFIX)}
    texts |= flags or {}
    return ProjectionSettings(**converted(texts, ProjectionSettings))


def as_environment(settings: ProjectionSettings) -> dict[str, str]:
    """The variables that give these settings again."""
    return {
        PREFIX + name.upper(): str(getattr(settings, name)).lower()
        if isinstance(getattr(settings, name), bool)
        else str(getattr(settings, name))
        for name in ProjectionSettings.__struct_fields__
    }
