"""What a request's head must be beyond what h11 asks of it: nothing that two parsers could read in two ways.

Rules: looked at as it came, before h11 joins lines and drops repetitions. Where a request ends must be said once and in
one way; lines end in CRLF and are not continued; the version is one we speak.
Source: RFC 9112 2.2, 2.3, 5.2, 6.1, 6.3; request smuggling lives on each of these.
"""

import re

from quorate.gateway.http.messages import HttpError

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


def checked(data: bytes, head_bytes_max: int) -> bool:
    """Is a whole head here? Raises HttpError for one that is too long, or ambiguous."""
    terminator = _END.search(data, 0, head_bytes_max)
    if terminator is None:
        if len(data) > head_bytes_max:
            raise HttpError("head_too_large", f"request line and headers may have {head_bytes_max} bytes together")
        return False
    _check(data[: terminator.end()])
    return True


def _check(head: bytes) -> None:
    if not _PLAIN.fullmatch(head):
        _check_closely(head)
    names = [name.lower() for name in _SAID_ONCE.findall(head)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1).decode()
        raise HttpError("invalid", f"{twice} is told twice")


def _check_closely(head: bytes) -> None:
    if _BARE_LF.search(head):
        raise HttpError("invalid", "a line of the head ends without CR")
    line = head[: head.index(b"\r\n") + 2]
    version = _VERSION.search(line)
    if version is not None and version[1] not in (b"1.0", b"1.1"):
        raise HttpError("unknown_version", "HTTP/1.1 and HTTP/1.0 are spoken here")
    target = line.split(b" ")[1:2]
    if version is not None and target and target[0][:1] != b"/":
        raise HttpError("invalid", "the target is a path, from / on")
    if _FOLDED.search(head):
        raise HttpError("invalid", "a header is continued on a second line")
    framing = [(name.lower(), value) for name, value in _NAMES.findall(head)]
    if len(framing) > 1:
        raise HttpError("invalid", "the length of the body is told twice: one content-length, or transfer-encoding")
    for name, value in framing:
        if name == b"transfer-encoding" and version is not None and version[1] == b"1.0":
            raise HttpError("invalid", "HTTP/1.0 knows no transfer-encoding")
        if name == b"content-length" and not value.strip().isdigit():
            raise HttpError("invalid", "content-length is a number")
