"""What a request's head must be beyond what a parser asks of it: nothing that two of them could read in two ways.

Rules: the same for nodes (h11), page, views and mirror (aiohttp). Looked at as it came, before a parser joins lines and
drops repetitions. Where a request ends must be said once and in one way; lines end in CRLF and are not continued; the
version is one we speak.
Source: RFC 9112 2.2, 2.3, 5.2, 6.1, 6.3; request smuggling lives on each of these.
"""

import re

from quorate.errors import QuorateError

_PLAIN = re.compile(
    rb"[A-Z]+ /[^ \r\n]* HTTP/1\.1\r\n(?:(?!(?i:content-length|transfer-encoding))[^\s:]+:[^\r\n]*\r\n)*\r\n"
)
"""Most heads; the others are looked at more closely."""
_END = re.compile(rb"\n\r?\n")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_FOLDED = re.compile(rb"\n[ \t]")
_VERSION = re.compile(rb" HTTP/([0-9]+\.[0-9]+)\r\n")
_NAMES = re.compile(rb"\n(content-length|transfer-encoding):[ \t]*([^\r\n]*)", re.IGNORECASE)
_SAID_ONCE = re.compile(rb"\n(host|origin|sec-fetch-[a-z]+|content-type|idempotency-key)[ \t]*:", re.IGNORECASE)
"""What the answer depends on: of two values a proxy may have read the other."""
_DIGITS_MAX = 18


class HeadError(QuorateError):
    """A head that is refused. ``code``: of the vocabulary of HTTP errors."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def checked(data: bytes, head_bytes_max: int) -> bytes:
    """The head that ``data`` begins with; empty while it is not whole. Raises HeadError for one that is too long, or
    ambiguous.
    """
    terminator = _END.search(data, 0, head_bytes_max)
    if terminator is None:
        if len(data) > head_bytes_max:
            raise HeadError("head_too_large", f"request line and headers may have {head_bytes_max} bytes together")
        return b""
    head = data[: terminator.end()]
    _check(head)
    return head


def body_bytes(head: bytes) -> int:
    """How many bytes follow a head that was checked. Raises HeadError where it does not say so: HTTP before 1.0, or
    a body in chunks.
    """
    if _VERSION.search(head[: head.index(b"\n") + 1]) is None:
        raise HeadError("unknown_version", "HTTP/1.1 and HTTP/1.0 are spoken here")
    for name, value in _NAMES.findall(head):
        if name.lower() == b"transfer-encoding":
            raise HeadError("length_required", "a body says its length here: content-length")
        if len(value) > _DIGITS_MAX:
            raise HeadError("invalid", "content-length has too many digits")
        return int(value)
    return 0


def _check(head: bytes) -> None:
    if not _PLAIN.fullmatch(head):
        _check_closely(head)
    names = [name.lower() for name in _SAID_ONCE.findall(head)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1).decode()
        raise HeadError("invalid", f"{twice} is told twice")


def _check_closely(head: bytes) -> None:
    if _BARE_LF.search(head):
        raise HeadError("invalid", "a line of the head ends without CR")
    line = head[: head.index(b"\r\n") + 2]
    version = _VERSION.search(line)
    if version is not None and version[1] not in (b"1.0", b"1.1"):
        raise HeadError("unknown_version", "HTTP/1.1 and HTTP/1.0 are spoken here")
    target = line.split(b" ")[1:2]
    if version is not None and target and target[0][:1] != b"/":
        raise HeadError("invalid", "the target is a path, from / on")
    if _FOLDED.search(head):
        raise HeadError("invalid", "a header is continued on a second line")
    framing = [(name.lower(), value) for name, value in _NAMES.findall(head)]
    if len(framing) > 1:
        raise HeadError("invalid", "the length of the body is told twice: one content-length, or transfer-encoding")
    for name, value in framing:
        if name == b"transfer-encoding" and version is not None and version[1] == b"1.0":
            raise HeadError("invalid", "HTTP/1.0 knows no transfer-encoding")
        if name == b"content-length" and not value.strip().isdigit():
            raise HeadError("invalid", "content-length is a number")
