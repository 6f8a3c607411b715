"""The part of the Kafka protocol that reading one topic takes: which versions we speak, requests in, responses out.

Rules: sans-I/O. ``frame_size`` finds the frames of a stream, ``decode_request`` turns one frame into a header and a
frozen request, ``kafka_responses`` builds answers. A malformed frame raises ``KafkaFormatError``; a key or version
outside ``WINDOW`` raises ``UnsupportedRequestError``, which still carries the header.
Theory: every version whose meaning we have, up to the newest that stock clients speak; ``FLEXIBLE`` says where each key
changes to compact lengths and tagged fields (KIP-482). A topic that is named by its id (KIP-516) is known by that id
throughout: NUL and the id in hex, which is no topic's name. Produce is
listed from 0 because old librdkafka looks for it before it fetches. Leader epochs in Metadata are
"not known": committed events cannot diverge, and a client that checked for truncation could only ever be wrong.
"""

from enum import IntEnum
from functools import lru_cache

import msgspec

from quorate.wire.kafka_primitives import KafkaFormatError, Reader
from quorate.wire.kafka_requests import DECODERS, Request

__all__ = [
    "WINDOW",
    "Api",
    "ErrorCode",
    "KafkaFormatError",
    "Request",
    "RequestHeader",
    "UnsupportedRequestError",
    "decode_request",
    "frame_size",
]


class Api(IntEnum):
    """API keys we answer."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    DESCRIBE_QUORUM = 55
    DESCRIBE_CLUSTER = 60


WINDOW: dict[int, tuple[int, int]] = {
    Api.PRODUCE: (0, 11),
    Api.FETCH: (4, 17),
    Api.LIST_OFFSETS: (1, 9),
    Api.METADATA: (0, 12),
    Api.OFFSET_COMMIT: (2, 9),
    Api.OFFSET_FETCH: (1, 9),
    Api.FIND_COORDINATOR: (0, 6),
    Api.JOIN_GROUP: (0, 9),
    Api.HEARTBEAT: (0, 4),
    Api.LEAVE_GROUP: (0, 5),
    Api.SYNC_GROUP: (0, 5),
    Api.DESCRIBE_GROUPS: (0, 5),
    Api.LIST_GROUPS: (0, 5),
    Api.SASL_HANDSHAKE: (0, 1),
    Api.API_VERSIONS: (0, 4),
    Api.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.SASL_AUTHENTICATE: (0, 2),
    Api.DELETE_GROUPS: (0, 2),
    Api.DESCRIBE_QUORUM: (0, 2),
    Api.DESCRIBE_CLUSTER: (0, 2),
}
"""API key → (oldest, newest) version served; what ApiVersions answers."""

FLEXIBLE: dict[int, int] = {
    Api.PRODUCE: 9,
    Api.FETCH: 12,
    Api.LIST_OFFSETS: 6,
    Api.METADATA: 9,
    Api.OFFSET_COMMIT: 8,
    Api.OFFSET_FETCH: 6,
    Api.FIND_COORDINATOR: 3,
    Api.JOIN_GROUP: 6,
    Api.HEARTBEAT: 4,
    Api.LEAVE_GROUP: 4,
    Api.SYNC_GROUP: 4,
    Api.DESCRIBE_GROUPS: 5,
    Api.OFFSET_FOR_LEADER_EPOCH: 4,
    Api.DESCRIBE_CONFIGS: 4,
    Api.DELETE_GROUPS: 2,
    Api.LIST_GROUPS: 3,
    Api.API_VERSIONS: 3,
    Api.SASL_AUTHENTICATE: 2,
    Api.DESCRIBE_QUORUM: 0,
    Api.DESCRIBE_CLUSTER: 0,
}
"""API key → first version whose headers carry tags. (The response header of ApiVersions never does, KIP-511.)"""


_FETCHES = frozenset(
    Api.FETCH.to_bytes(2, "big") + version.to_bytes(2, "big")
    for version in range(WINDOW[Api.FETCH][0], WINDOW[Api.FETCH][1] + 1)
)
SHARED_BYTES_MAX = 512
"""A Fetch up to this length is kept, decoded; one of our topic takes about 100."""


class ErrorCode(IntEnum):
    """Kafka's error codes, those we answer with."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    UNKNOWN_TOPIC_ID = 100
    MISMATCHED_ENDPOINT_TYPE = 114


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """Request header v0-v2 (Kafka ``RequestHeader.json``)."""

    api: int
    version: int
    correlation_id: int
    client_id: str | None

    @property
    def flexible_response(self) -> bool:
        """Does the answer's header carry tags?"""
        return self.api != Api.API_VERSIONS and self.version >= FLEXIBLE.get(self.api, self.version + 1)


class UnsupportedRequestError(KafkaFormatError):
    """A key or version outside the window; ApiVersions has an answer for it, the rest do not."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"API key {header.api} version {header.version} is not served")
        self.header = header


def frame_size(buffered: bytes | bytearray, max_bytes: int) -> int | None:
    """Size of the frame the buffer begins with, without its 4-byte length; None while the length is not there yet.

    Raises KafkaFormatError for a negative length or one above ``max_bytes``.
    """
    if len(buffered) < 4:
        return None
    size = int.from_bytes(buffered[:4], "big", signed=True)
    if not 10 <= size <= max_bytes:
        raise KafkaFormatError(f"a frame of {size} bytes; at least 10 and at most {max_bytes} are served")
    return size


def decode_request(frame: bytes) -> tuple[RequestHeader, Request]:
    """One frame without its length. Raises KafkaFormatError or UnsupportedRequestError.

    Consumers that follow the end of the log send the same Fetch again and again but for its correlation id: it is
    decoded once for all of them.
    """
    head = frame[:4]
    if head not in _FETCHES or len(frame) > SHARED_BYTES_MAX:
        return _decode(frame)
    header, request = _decode_shared(head, frame[8:])
    correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
    return RequestHeader(header.api, header.version, correlation_id, header.client_id), request


@lru_cache(maxsize=64)
def _decode_shared(before: bytes, after: bytes) -> tuple[RequestHeader, Request]:
    """What lies around the correlation id."""
    return _decode(before + bytes(4) + after)


def _decode(frame: bytes) -> tuple[RequestHeader, Request]:
    reader = Reader(frame)
    header = RequestHeader(reader.int16(), reader.int16(), reader.int32(), reader.nullable_string())
    oldest, newest = WINDOW.get(header.api, (0, -1))
    if not oldest <= header.version <= newest:
        raise UnsupportedRequestError(header)
    if header.version >= FLEXIBLE.get(header.api, header.version + 1):
        reader.skip_tags()
        reader.flexible = True
    # What follows is passed over, as Kafka does: librdkafka 2 leaves bytes behind a Metadata request for all topics.
    return header, DECODERS[header.api](reader, header.version)
