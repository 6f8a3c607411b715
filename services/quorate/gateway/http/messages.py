"""HTTP requests and responses as values, and the errors that become responses."""

from collections.abc import Mapping

import msgspec

from quorate.errors import QuorateError
from quorate.gateway.http.answers import Failed, Trouble

JSON = "application/json"
REGISTRY_JSON = "application/vnd.schemaregistry.v1+json"

STATUS = {
    "invalid": 400,
    "denied": 403,
    "cross_origin": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "refused": 409,
    "too_large": 413,
    "not_json": 415,
    "beyond_end": 416,
    "wrong_host": 421,
    "throttled": 429,
    "head_too_large": 431,
    "internal": 500,
    "busy": 503,
    "unavailable": 503,
    "behind": 504,
    "unknown_outcome": 504,
    "unknown_version": 505,
    "no_room": 507,
}
"""Our one error vocabulary → HTTP status."""


class Request(msgspec.Struct, frozen=True):
    """A whole request; ``path`` is percent-decoded by segment, header names are lower case, the last counts."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    address: str
    """The client's address, ``host:port``."""


class Response(msgspec.Struct, frozen=True):
    """A whole response."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class HttpError(QuorateError):
    """A request that ends in an error of the vocabulary."""

    def __init__(
        self, code: str, message: str, reason: str = "", leader: int | None = None, end_offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.trouble = Trouble(code=code, message=message, reason=reason, leader=leader, end_offset=end_offset)


def answer(value: object, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(status, msgspec.json.encode(value))


def failure(error: HttpError) -> Response:
    """An error as JSON, under its status; ``busy`` and ``unavailable`` say when to come again."""
    status = STATUS[error.trouble.code]
    again = (("retry-after", "1"),) if status in (429, 503) else ()
    return Response(status, msgspec.json.encode(Failed(error=error.trouble)), headers=again)


UNMADE = failure(HttpError("internal", "no answer could be made; this node's log says why"))
