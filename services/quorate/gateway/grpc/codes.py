"""Every refusal and every other end of a request as a gRPC code and a text: the texts are etcd's, which its clients
match (``api/v3rpc/rpctypes/error.go`` of 3.6).

Rules: one table. What etcd has no words for has ours, under the code that says whether to come again. UNAVAILABLE with
"request timed out" is what etcd answers when nobody knows what became of a write: its clients do not repeat a write for
it, and neither may others. A refusal of another kind than these changed nothing either.
"""

from enum import IntEnum
from typing import Final

from quorate.controller import Answered, Busy, NotLeader, Outcome, Refused, Unavailable, UnknownOutcome
from quorate.errors import QuorateError
from quorate.gateway.fresh import NotFresh
from quorate.metadata.commands import Refusal


class StatusCode(IntEnum):
    """gRPC's own (``doc/statuscodes.md`` of gRPC)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallError(QuorateError):
    """A call ends with this code and text."""

    def __init__(self, code: StatusCode, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(text)


_INVALID, _PRECONDITION, _RANGE = StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION, StatusCode.OUT_OF_RANGE
_EXHAUSTED, _UNAVAILABLE = StatusCode.RESOURCE_EXHAUSTED, StatusCode.UNAVAILABLE

UNREADABLE: Final = "grpc: error unmarshalling request: "
"""As grpc-go says it; what is wrong follows."""
EMPTY_KEY: Final = "etcdserver: key is not provided"
COMPACTED: Final = "etcdserver: mvcc: required revision has been compacted"
TOO_LARGE: Final = (_INVALID, "etcdserver: request is too large")
FUTURE: Final = (_RANGE, "etcdserver: mvcc: required revision is a future revision")
BAD_SORT: Final = (_INVALID, "etcdserver: invalid sort option")
EMPTY_OPERATION: Final = (_INVALID, "etcdserver: key not found")
"""As etcd answers an operation of a transaction that is none."""
NOT_LEADER: Final = (_PRECONDITION, "etcdserver: not leader")
BAD_TRANSFEREE: Final = (_PRECONDITION, "etcdserver: bad leader transferee")
NO_LEADER: Final = (_UNAVAILABLE, "etcdserver: no leader")
TIMED_OUT: Final = (_UNAVAILABLE, "etcdserver: request timed out")
LAGGING: Final = (
    _UNAVAILABLE,
    "etcdserver: request timed out, waiting for the applied index took too long",
)
PAST_DEADLINE: Final = (StatusCode.DEADLINE_EXCEEDED, "context deadline exceeded")
"""As Go's clients say it themselves."""
TOO_MANY: Final = (_EXHAUSTED, "etcdserver: too many requests")
STOPPED: Final = (_UNAVAILABLE, "etcdserver: server stopped")
DENIED: Final = (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")

REFUSALS: Final[dict[str, tuple[StatusCode, str]]] = {
    "EmptyKey": (_INVALID, EMPTY_KEY),
    "KeyNotFound": (_INVALID, "etcdserver: key not found"),
    "ValueProvided": (_INVALID, "etcdserver: value is provided"),
    "LeaseProvided": (_INVALID, "etcdserver: lease is provided"),
    "TooManyOperations": (_INVALID, "etcdserver: too many operations in txn request"),
    "DuplicateKey": (_INVALID, "etcdserver: duplicate key given in txn request"),
    "LeaseNotFound": (StatusCode.NOT_FOUND, "etcdserver: requested lease not found"),
    "LeaseExists": (_PRECONDITION, "etcdserver: lease already exists"),
    "LeaseTtlTooLarge": (_RANGE, "etcdserver: too large lease TTL"),
    "CommandTooLarge": TOO_LARGE,
    "NoRoom": (_EXHAUSTED, "etcdserver: mvcc: database space exceeded"),
}
"""Refusals that etcd knows. All others say their own remark: ``TooManyKeys``, ``LeaseIsFull``,
``UnsupportedFeatureLevel`` (FAILED_PRECONDITION: as it stands, it will be refused again)."""
NAMED: Final[dict[str, StatusCode]] = {
    "CallFailed": StatusCode.INTERNAL,
    "InvalidRequestId": _INVALID,
    "RequestIdReused": _PRECONDITION,
    "UnknownMember": StatusCode.NOT_FOUND,
    "MemberExists": StatusCode.ALREADY_EXISTS,
    "StaleMemberEpoch": _PRECONDITION,
    "MemberStillLeads": _PRECONDITION,
    "BadMemberName": _INVALID,
    "BadMemberIncarnation": _INVALID,
    "BadMemberRole": _INVALID,
    "BadMemberAddress": _INVALID,
    "BadMemberLabel": _INVALID,
    "BadMemberTimeout": _INVALID,
    "BadMemberHealth": _INVALID,
    "FutureRevision": _RANGE,
    "UnknownShard": StatusCode.NOT_FOUND,
    "UnknownSegment": StatusCode.NOT_FOUND,
    "ShardExists": StatusCode.ALREADY_EXISTS,
    "ShardIsDeleting": _PRECONDITION,
    "ShardNotDeleting": _PRECONDITION,
    "StaleShardEpoch": _PRECONDITION,
    "SegmentIsSealed": _PRECONDITION,
    "NotTheSegmentLeader": _PRECONDITION,
    "StaleLeaderEpoch": _PRECONDITION,
    "StaleInSyncEpoch": _PRECONDITION,
    "CopyNotReady": _PRECONDITION,
    "NotEnoughMembers": _PRECONDITION,
    "MembersNotHeard": _UNAVAILABLE,
    "NoLeaderEligible": _PRECONDITION,
    "EmptyInSyncSet": _INVALID,
    "MemberNamedTwice": _INVALID,
    "EpochsExhausted": _PRECONDITION,
    "NotACopy": _INVALID,
    "LeaderNotInSync": _INVALID,
    "BadShardName": _INVALID,
    "BadSegmentName": _INVALID,
    "BadReplication": _INVALID,
    "BadShardLabel": _INVALID,
    "BadOffset": _INVALID,
    "UnknownSession": StatusCode.NOT_FOUND,
    "UnknownWill": StatusCode.NOT_FOUND,
    "StaleSessionEpoch": _PRECONDITION,
    "MemberIsFenced": _PRECONDITION,
    "WillIsOthers": _PRECONDITION,
    "TooManySubscriptions": _EXHAUSTED,
    "BadClient": _INVALID,
    "BadExpiry": _INVALID,
    "BadWill": _INVALID,
    "BadTopic": _INVALID,
    "BadTopicFilter": _INVALID,
    "BadSubscription": _INVALID,
    "BadGroup": _INVALID,
    "StaleOffset": _PRECONDITION,
}
"""Refusals of our own services, whose text names them: ``quorate: StaleMemberEpoch: …``."""


def refused(refusal: Refusal) -> CallError:
    """What a refusal is here."""
    if refusal.code in NAMED:
        return CallError(NAMED[refusal.code], f"quorate: {refusal.code}: {refusal.remark}")
    return CallError(*REFUSALS.get(refusal.code, (_PRECONDITION, f"quorate: {refusal.remark}")))


def at_most(most: int, count: int, refusal: Refusal) -> None:
    """Of what a message repeats, asked before anything is made of it: a kilobyte on the wire may hold half a million.
    Raises CallError.
    """
    if count > most:
        raise refused(refusal)


def failed(outcome: Outcome) -> CallError:
    """What an outcome that is no answer is here."""
    match outcome:
        case Refused(refusal, _):
            return refused(refusal)
        case NotLeader() | Unavailable():
            return CallError(*NO_LEADER)
        case Busy():
            return CallError(*TOO_MANY)
        case UnknownOutcome() | Answered():  # An answer of another kind: something was done, and nobody can say what.
            return CallError(*TIMED_OUT)


def not_fresh(reason: NotFresh) -> CallError:
    """Why a state could not be had."""
    match reason.reason:
        case "busy" | "throttled":
            return CallError(*TOO_MANY)
        case "behind":
            return CallError(*LAGGING)
        case "beyond_end":
            return CallError(*FUTURE)
        case "unavailable" if reason.past:
            return CallError(_UNAVAILABLE, f"quorate: {reason.message}")
        case _:
            return CallError(*NO_LEADER)
