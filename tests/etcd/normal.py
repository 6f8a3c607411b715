"""Answers as they can be compared: what every server chooses for itself is replaced by what it means.

Rules: a revision becomes its place among those at which this case's keys were written (``r1`` is the first), so that
gaps do not count and order does; one that no write of the case has (an answer's header) becomes that of the last write
before it (``r0``: none). Leases, members and clusters are numbered as they appear. Fields that have their default are
absent, as they are on the wire. Everything else stays as it is: a field that is not in ``_MEANS`` is compared as it is.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

from tests.etcd.client import Failed

LATER: Final = "n"
"""Behind every ``m1``, ``m2``, …"""
LONG: Final = 200
"""Values beyond this many bytes are told by their length and sum."""
OPAQUE: Final = frozenset(
    {"version", "dbSize", "dbSizeInUse", "raftIndex", "raftTerm", "raftAppliedIndex", "hash", "hash_revision"}
)
"""Of ``Status`` and ``HashKV``: there or not is all that can be compared."""
OTHERS: Final = frozenset({("LeaseLeasesResponse", "leases"), ("HashKVResponse", "compact_revision")})
"""What other cases have their part in."""
URLS: Final = frozenset({"peerURLs", "clientURLs"})
SLACK_S: Final = 10
"""How much of its time a lease may have lost between two requests, on a machine that has much to do."""


def fields_of(message: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of what is set, repeated fields as lists."""
    for field, value in message.ListFields():
        yield field.name, list(value) if field.is_repeated else value


def name_of(message: Any) -> str:
    """A message's name, without its package."""
    found: str = message.DESCRIPTOR.name
    return found


def written_at(message: Any) -> set[int]:
    """Revisions of writes that an answer tells: those of its keys, and its header's if it wrote something itself."""
    if not hasattr(message, "ListFields"):
        return set()
    found: set[int] = set()
    if name_of(message) == "KeyValue":
        found |= {message.create_revision, message.mod_revision}
    elif wrote(message):
        found.add(message.header.revision)
    for _, value in fields_of(message):
        for one in value if isinstance(value, list) else [value]:
            found |= written_at(one)
    return found - {0}


def wrote(message: Any) -> bool:
    """Does this answer say that a key was written?"""
    match name_of(message):
        case "PutResponse":
            return True
        case "DeleteRangeResponse":
            return bool(message.deleted)
        case "TxnResponse":
            parts = [getattr(one, one.WhichOneof("response")) for one in message.responses]
            return any(map(wrote, parts))
        case _:
            return False


class Normal:
    """Of the answers of one case: all of them must be known before the first can be told."""

    def __init__(self, prefix: bytes, answers: list[Any]) -> None:
        self._prefix = prefix
        self._written = sorted(set().union(*map(written_at, answers)))
        self._names: dict[str, dict[int, str]] = {"L": {}, "m": {}, "c": {}}

    def told(self, answer: Any) -> Any:
        """An answer (message, ``Failed``, list, mapping or a plain value) as plain data."""
        if isinstance(answer, Failed):
            return {"error": {"code": answer.code, "details": answer.details}}
        if isinstance(answer, dict):
            return {name: self.told(value) for name, value in answer.items()}
        if isinstance(answer, list):
            return [self.told(one) for one in answer]
        if isinstance(answer, bytes):
            return self.text(answer)
        return self._message(answer) if hasattr(answer, "ListFields") else answer

    def text(self, value: bytes) -> str:
        """Keys without the case's prefix; what is no plain text as hexadecimal digits."""
        rest = value.removeprefix(self._prefix)
        start = "…/" if len(rest) < len(value) else ""
        if len(rest) > LONG:
            return f"{start}{len(rest)} bytes, sha256 {sha256(rest).hexdigest()[:12]}"
        if rest.isascii() and (rest.decode().isprintable() or not rest):
            return start + rest.decode()
        return f"{start}0x{rest.hex()}"

    def _message(self, message: Any) -> dict[str, Any]:
        kind = name_of(message)
        return {
            name: [self._value(message, kind, name, one) for one in self._sorted(kind, name, value)]
            if isinstance(value, list)
            else self._value(message, kind, name, value)
            for name, value in fields_of(message)
            if (kind, name) not in OTHERS
        } | self._leases(message, kind)

    def _leases(self, message: Any, kind: str) -> dict[str, Any]:
        """Of all leases those that this case knows: others are none of its business."""
        if kind != "LeaseLeasesResponse":
            return {}
        return {"leases": sorted(self._names["L"][one.ID] for one in message.leases if one.ID in self._names["L"])}

    def _sorted(self, kind: str, name: str, values: list[Any]) -> list[Any]:
        """etcd keeps the keys of a lease in a hash table; members that were told of come first."""
        if (kind, name) == ("LeaseTimeToLiveResponse", "keys"):
            return sorted(values)
        known = self._names["m"]
        return sorted(values, key=lambda one: known.get(one.ID, LATER)) if kind == "MemberListResponse" else values

    def _value(self, message: Any, kind: str, name: str, value: Any) -> Any:
        if (kind, name) in _MEANS:
            return _MEANS[kind, name](self, message, value)
        if kind in {"StatusResponse", "HashKVResponse"} and name in OPAQUE:
            return "some"
        if name in URLS:
            return "a URL" if value.startswith("http://127.0.0.1:") else value
        return self.told(value)

    def _numbered(self, letter: str, value: int) -> str:
        names = self._names[letter]
        return names.setdefault(value, f"{letter}{len(names) + 1}")

    def _lease(self, _: Any, value: int) -> str:
        return self._numbered("L", value)

    def _member(self, _: Any, value: int) -> str:
        return self._numbered("m", value)

    def _cluster(self, _: Any, value: int) -> str:
        return self._numbered("c", value)

    def _revision(self, _: Any, value: int) -> str:
        return f"r{bisect_right(self._written, value)}"

    def _left(self, message: Any, value: int) -> int | str:
        near = max(message.grantedTTL - SLACK_S, 0) <= value <= message.grantedTTL
        return "as granted, or a little less" if near else value

    def _some(self, _: Any, value: Any) -> str:
        return "some"


_MEANS: Final[dict[tuple[str, str], Callable[[Normal, Any, Any], Any]]] = {
    ("ResponseHeader", "cluster_id"): Normal._cluster,
    ("ResponseHeader", "member_id"): Normal._member,
    ("ResponseHeader", "revision"): Normal._revision,
    ("ResponseHeader", "raft_term"): Normal._some,
    ("KeyValue", "create_revision"): Normal._revision,
    ("KeyValue", "mod_revision"): Normal._revision,
    ("KeyValue", "lease"): Normal._lease,
    ("WatchResponse", "compact_revision"): Normal._revision,
    ("LeaseGrantResponse", "ID"): Normal._lease,
    ("LeaseKeepAliveResponse", "ID"): Normal._lease,
    ("LeaseTimeToLiveResponse", "ID"): Normal._lease,
    ("LeaseTimeToLiveResponse", "TTL"): Normal._left,
    ("StatusResponse", "leader"): Normal._member,
    ("Member", "ID"): Normal._member,
    ("Member", "name"): Normal._some,
}
