"""What a call begins and ends with: the fields of its head, and those of its answer (gRPC's ``PROTOCOL-HTTP2.md``).

Rules: pure. A head that HTTP/2 forbids is a ``MalformedError`` and ends its stream; one that is no call of gRPC's has
an HTTP status of its own; whatever gRPC finds wrong ends as a call does, by a code and a text. Of a head only what is
used here is kept.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from quorate.errors import QuorateError
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.wire.http2 import literals

Fields = Sequence[tuple[bytes, bytes]]
STATUS_200: Final = b"\x88"
"""``:status: 200``, which the static table has (RFC 7541, appendix A)."""
ANSWER: Final = STATUS_200 + literals([(b"content-type", b"application/grpc")])
"""The head of every answer."""
ENCODINGS: Final = literals([(b"grpc-accept-encoding", b"identity,gzip")])
DONE: Final = literals([(b"grpc-status", b"0")])
"""What an answer ends with."""
TEXT_MAX: Final = 1024
"""Bytes of a text at the end of a call: clients take few of such fields (8 KiB, all of them)."""

_PSEUDO: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
_FORBIDDEN: Final = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")
_TIMEOUT: Final = re.compile(rb"(\d{1,8})([HMSmun])")
_ANY_TIMEOUT: Final = (b"grpc-timeout", b"")
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_NOT_PLAIN: Final = re.compile(rb"[^\x20-\x24\x26-\x7e]")
_BROKEN: Final = re.compile(rb"%[0-9A-F]?\Z")


class MalformedError(QuorateError):
    """HTTP/2 forbids this head (RFC 9113, section 8.1.1)."""


class NoCallError(QuorateError):
    """A request of HTTP that is none of gRPC's."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"HTTP status {status}")


class CallHead(NamedTuple):
    """What a call says before its first message."""

    path: str
    timeout_s: float | None
    encoding: bytes
    """Of messages that are compressed."""
    requires_leader: bool
    """etcd's ``hasleader``."""
    length: int | None
    """Of the body in bytes, if it is told."""


def read(fields: Iterable[tuple[bytes, bytes]]) -> CallHead:
    """The head of a call. Raises MalformedError, NoCallError and CallError."""
    timeout, rest = None, list[tuple[bytes, bytes]]()
    for field in fields:
        if field[0] == b"grpc-timeout":
            timeout = _value(*field)
            rest.append(_ANY_TIMEOUT)
        else:
            rest.append(field)
    head = _read(tuple(rest))
    return head if timeout is None else head._replace(timeout_s=_timeout(timeout))


@lru_cache(maxsize=64)
def _read(fields: tuple[tuple[bytes, bytes], ...]) -> CallHead:
    """Whatever its deadline: that alone differs from call to call of a client."""
    pseudo, rest = _checked(fields)
    if pseudo.get(b":method") != b"POST":
        raise NoCallError(405)
    if not rest.get(b"content-type", b"").startswith(b"application/grpc"):
        raise NoCallError(415)
    return CallHead(
        path=pseudo[b":path"].decode("utf-8", "backslashreplace"),
        timeout_s=None,
        encoding=rest.get(b"grpc-encoding", b"identity"),
        requires_leader=rest.get(b"hasleader") == b"true",
        length=_length(rest.get(b"content-length")),
    )


def _checked(fields: Iterable[tuple[bytes, bytes]]) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Those that begin with a colon, and the others: of several of one name the last."""
    pseudo, rest = dict[bytes, bytes](), dict[bytes, bytes]()
    for name, value in fields:
        if name[:1] == b":":
            if name not in _PSEUDO or name in pseudo or rest:
                raise MalformedError(f"the field {name!r} where it may not be")
            pseudo[name] = value
        elif name in _FORBIDDEN or not _NAME.fullmatch(name) or (name == b"te" and value != b"trailers"):
            raise MalformedError(f"the field {name!r}")
        else:
            rest[name] = value
        _value(name, value)
    if not (pseudo.get(b":method") and pseudo.get(b":scheme") and pseudo.get(b":path")):
        raise MalformedError("a request without method, scheme or path")
    return pseudo, rest


def _value(name: bytes, value: bytes) -> bytes:
    if not _VALUE.fullmatch(value):
        raise MalformedError(f"the value of {name!r}")
    return value


def _timeout(text: bytes) -> float:
    found = _TIMEOUT.fullmatch(text)
    if found is None:
        raise CallError(StatusCode.INTERNAL, f"malformed grpc-timeout: {text[:20]!r}")
    return int(found[1]) * _UNITS[found[2]]


def _length(text: bytes | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or len(text) > 18:
        raise MalformedError("content-length is no number")
    return int(text)


def http_status(status: int) -> bytes:
    """The head of an answer to what is no call."""
    return literals([(b":status", b"%d" % status), (b"content-length", b"0")])


def ended(code: StatusCode, text: str) -> bytes:
    """What a call ends with: code and text."""
    shown = _NOT_PLAIN.sub(lambda found: b"%%%02X" % found[0][0], text.encode()[:TEXT_MAX])
    if len(shown) > TEXT_MAX:
        shown = _BROKEN.sub(b"", shown[:TEXT_MAX])
    return literals([(b"grpc-status", b"%d" % code), (b"grpc-message", shown)])
