"""Who asks over HTTP: nobody may use a browser's reach into our network; the same rule for nodes, page and views.

Rules: judged before anything else of a request. A ``Host`` that is neither an address nor a name of ours is refused,
for a foreign page could have had its own name rebound to our address. An ``Origin``, or a ``Sec-Fetch-Site``, that is
not this very listener is refused, but for opening an address in a window. What changes or asks with a body is JSON and
says so, because a page may send other types without asking first. Clients that are no browsers send none of these
headers, and are not hindered.
Source: Fetch, "CORS-safelisted request-header"; W3C Fetch Metadata, its resource isolation policy; RFC 9110 7.2.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

HEADERS: Final = ("host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "content-type")
"""What ``judge`` looks at."""

SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
"""Of every answer that is data and not a page."""

_CARRIES: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose meaning is in their body."""


class AllowedNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names under which a listener may be asked, and the pages that may ask it."""

    hosts: frozenset[str] = frozenset()
    """Names besides addresses and ``localhost``, in lower case."""
    origins: frozenset[str] = frozenset()
    """Of other pages that may ask here, as browsers write them (``https://console.example``)."""
    setting: str = "allowed_hosts"
    """What an operator sets to add a name."""


class Foreign(msgspec.Struct, frozen=True):
    """A request that is refused unread."""

    status: int
    code: str
    message: str

    @property
    def body(self) -> bytes:
        """What it is answered, as JSON."""
        return msgspec.json.encode({"error": {"code": self.code, "message": self.message}})


def allowed_names(hosts: Iterable[str], origins: Iterable[str] = (), *, setting: str = "allowed_hosts") -> AllowedNames:
    """With names in any case."""
    return AllowedNames(
        hosts=frozenset(host.lower() for host in hosts),
        origins=frozenset(origin.lower().rstrip("/") for origin in origins),
        setting=setting,
    )


def judge(method: str, headers: Mapping[str, str], here: AllowedNames, *, has_body: bool) -> Foreign | None:
    """Why this request is refused; None: it is not. ``headers``: at least those of ``HEADERS`` that it has."""
    host = headers.get("host")
    if host is not None and not _ours(host, here):
        return Foreign(421, "wrong_host", f"{host[:80]!r} is no name of this listener: {here.setting} adds one")
    origin = headers.get("origin")
    if origin is not None:
        scheme, _, authority = origin.lower().partition("://")
        own = scheme in ("http", "https") and host is not None and authority == host.lower()
        if not own and origin.lower() not in here.origins:
            return Foreign(403, "cross_origin", f"a page of {origin[:80]!r} may not ask here")
    elif headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not _opens(method, headers):
        return Foreign(403, "cross_origin", "another site's page may not ask here")
    if method in _CARRIES or has_body:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            return Foreign(415, "not_json", "a body is JSON, and says so: content-type: application/json")
    return None


@lru_cache(maxsize=256)
def _ours(host: str, here: AllowedNames) -> bool:
    """Is this ``Host`` an address, or a name we go by?"""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit() or name.endswith(":"):  # No port, or an address of IPv6 without brackets.
        name = host
    name = name.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    if name == "localhost" or name in here.hosts:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _opens(method: str, headers: Mapping[str, str]) -> bool:
    """Does somebody follow a link to us in a window? What is shown there no other page can read."""
    return (
        method in ("GET", "HEAD")
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest", "document") in ("document", "empty")
    )
