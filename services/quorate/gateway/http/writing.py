"""``PUT``, ``POST``, ``DELETE /v1/…``: commands in JSON, their outcomes in the one error vocabulary.

Rules: a body is decoded strictly into a type (unknown fields are errors); ``decide`` judges the rest. The status tells
what is known: 409 and 4xx nothing changed, 503 nothing was proposed, 504 nobody knows.
"""

from typing import Annotated, Final, TypeVar

import msgspec

from quorate.controller import Answered, Busy, Caller, NotLeader, Outcome, Refused, Unavailable, UnknownOutcome
from quorate.controller.views import ReadView
from quorate.gateway.first_answers import FirstAnswers
from quorate.gateway.fresh import Freshness, NotFresh
from quorate.gateway.http.answers import Done
from quorate.gateway.http.asking import FRESHNESS
from quorate.gateway.http.context import PRINCIPAL, HttpContext
from quorate.gateway.http.messages import HttpError, answer, failure
from quorate.gateway.http.routing import Call
from quorate.metadata.cluster import directory_of
from quorate.metadata.commands import (
    ChangeConfig,
    Command,
    DeleteTopic,
    ElectMaster,
    ElectSegmentLeader,
    PutTopic,
    RaiseFeatureLevel,
    RebuildVoter,
    Refusal,
)
from quorate.metadata.configs import unread

NOT_FOUND = frozenset(
    {"BrokerSetUnknown", "BrokerSetNotRegistered", "BrokerNotRegistered", "UnknownTopic", "UnknownNode"}
)
INVALID = frozenset(
    {
        "InvalidConfigScope",
        "InvalidConfigValue",
        "InvalidDirectory",
        "InvalidRequestId",
        "InvalidText",
        "InvalidTopicAttribute",
        "InvalidTopicFilterType",
        "InvalidTopicName",
        "InvalidTopicSetting",
        "MissingField",
        "UnknownConfigKey",
    }
)
"""Refusals that say the request itself is wrong."""


Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What events and the link to the leader can hold; ``decide`` judges the rest."""
REASON_MAX: Final = 600
"""Characters of why somebody is to lead: a plan names two places, whose names may be long."""


class TopicBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of PUT /v1/topics/{topic}."""

    read_queues: Long
    write_queues: Long
    permission: Long = 6
    filter_type: str = "SINGLE_TAG"
    system_flags: Long = 0
    order: bool = False
    attributes: dict[str, str] = {}
    """RocketMQ's change form: ``+key`` adds or updates, ``-key`` deletes."""


class ConfigBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of PUT /v1/config/{scope}; null unsets. ``unread``: also what nothing reads there is taken, as a note."""

    changes: dict[str, str | None]
    unread: bool = False


class FeatureBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of PUT /v1/feature; it goes up only, and only to what every voter knows."""

    level: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class RebuildBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of POST /v1/members/{node_id}/rebuild: the directory the voter has now, as it says itself."""

    dir_uuid: str


class ElectBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of POST /v1/elections; with ``broker_id`` that broker or none."""

    broker_set: str
    cluster: str = ""
    broker_id: Long | None = None
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX)] = ""
    """Why that one, for the log."""


class SegmentElectBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of POST /v1/segment-elections: that member is to lead, for balance, or nobody new."""

    segment: Annotated[str, msgspec.Meta(max_length=600)]
    member: Annotated[str, msgspec.Meta(max_length=600)]
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX)] = ""
    """Why that one, for the log."""


def refused(refusal: Refusal) -> HttpError:
    """The error a refusal is."""
    code = "refused"
    if refusal.code in NOT_FOUND:
        code = "not_found"
    elif refusal.code in INVALID:
        code = "invalid"
    elif refusal.code == "ConfigBlackListed":
        code = "denied"
    elif refusal.code == "CommandTooLarge":
        code = "too_large"
    elif refusal.code == "CallFailed":
        code = "internal"
    elif refusal.code == "NoRoom":
        code = "no_room"
    elif refusal.code == "RequestExpired":
        code = "unknown_outcome"
    return HttpError(code, refusal.remark, refusal.code)


class WriteHandlers:
    """The handlers."""

    def __init__(self, context: HttpContext, commands: FirstAnswers) -> None:
        self._context = context
        self._commands = commands

    def put_topic(self, call: Call) -> None:
        """PUT /v1/topics/{topic}."""
        body = decoded(call, TopicBody)
        command = PutTopic(
            topic=call.found["topic"],
            read_queues=body.read_queues,
            write_queues=body.write_queues,
            permission=body.permission,
            filter_type=body.filter_type,
            system_flags=body.system_flags,
            order=body.order,
            attributes=body.attributes,
        )
        self._submit(call, command, f"topic/{command.topic}")

    def delete_topic(self, call: Call) -> None:
        """DELETE /v1/topics/{topic}."""
        command = DeleteTopic(topic=call.found["topic"])
        self._submit(call, command, f"topic/{command.topic}")

    def change_config(self, call: Call) -> None:
        """PUT /v1/config/{scope}."""
        body = decoded(call, ConfigBody)
        command = ChangeConfig(scope=call.found["scope"], changes=body.changes)
        cluster = self._context.controller.state.cluster
        nodes = None if cluster is None else [voter.id for voter in cluster.voters]
        if not body.unread and (problem := unread(command.scope, command.changes, nodes)):
            raise HttpError("invalid", f'{problem}. "unread": true records it all the same', "UnknownConfigKey")
        self._submit(call, command, f"config/{command.scope}")

    def raise_feature(self, call: Call) -> None:
        """PUT /v1/feature."""
        self._submit(call, RaiseFeatureLevel(level=decoded(call, FeatureBody).level), "feature-level")

    def rebuild(self, call: Call) -> None:
        """POST /v1/members/{node_id}/rebuild. A voter that can be reached keeps its place: it lost nothing."""
        name, state = call.found["node_id"], self._context.controller.state
        ids = {str(voter.id): voter.id for voter in state.cluster.voters} if state.cluster is not None else {}
        if state.cluster is not None and name not in ids:
            raise HttpError("not_found", f"there is no voter {name[:80]!r}", "UnknownNode")
        new, node_id = decoded(call, RebuildBody).dir_uuid, ids.get(name, 0)
        if self._context.connected(node_id) and directory_of(state, node_id) != new.lower():
            remark = f"Node {node_id} serves with the directory it has: stop it first, if that one is to be given up"
            raise HttpError("refused", remark, "VoterServes")
        asked_by = f"{PRINCIPAL} at {call.request.address.rpartition(':')[0] or call.request.address}"
        command = RebuildVoter(node_id=node_id, dir_uuid=new, asked_by=asked_by)
        self._submit(call, command, f"member/{node_id}")

    def elect(self, call: Call) -> None:
        """POST /v1/elections."""
        body = decoded(call, ElectBody)
        command = ElectMaster(
            broker_set=body.broker_set,
            cluster=body.cluster,
            broker_id=body.broker_id,
            designate=body.broker_id is not None,
            trigger="admin",
            reason=body.reason,
        )
        self._submit(call, command, f"broker-set/{command.broker_set}")

    def elect_of_segment(self, call: Call) -> None:
        """POST /v1/segment-elections."""
        body = decoded(call, SegmentElectBody)
        command = ElectSegmentLeader(segment=body.segment, trigger="balance", wanted=body.member, reason=body.reason)
        self._submit(call, command, f"segment/{body.segment}")

    def _submit(self, call: Call, command: Command, resource: str) -> None:
        context, operation = self._context, type(command).__name__
        if named := [name for name in FRESHNESS if name in call.request.query]:
            raise HttpError("invalid", f"{named[0]}: a command changes what is now; it takes none")
        if not context.access.authorize(PRINCIPAL, operation, resource):
            raise HttpError("denied", f"{operation} of {resource} is not allowed")
        if not context.quota.admit(PRINCIPAL, operation):
            raise HttpError("throttled", f"too many {operation}")
        caller = Caller(PRINCIPAL, call.request.address)
        request_id, started = call.request.headers.get("idempotency-key", ""), context.scheduler.monotonic()
        self._commands.submit(
            command, caller, lambda outcome: self._ended(call, outcome, started), cause="http", request_id=request_id
        )

    def _ended(self, call: Call, outcome: Outcome, started: float) -> None:
        match outcome:
            case Answered():
                self._answered(call, outcome, started)
            case Refused(refusal, _):
                call.fail(refused(refusal))
            case NotLeader(leader_id):
                call.fail(HttpError("unavailable", "this node does not lead; nothing was proposed", leader=leader_id))
            case Busy(reason):
                call.fail(HttpError("busy", reason))
            case Unavailable(reason):
                call.fail(HttpError("unavailable", reason, leader=self._context.controller.leader_id))
            case UnknownOutcome(reason):
                call.respond(failure(HttpError("unknown_outcome", reason)))

    def _answered(self, call: Call, outcome: Answered, started: float) -> None:
        """Answer once this node has applied it too, so that its client reads what it wrote; in time or not."""

        def end(view: ReadView | NotFresh) -> None:
            done = Done(
                offset=outcome.offset,
                time_ms=(view if isinstance(view, ReadView) else self._context.controller.view()).time_ms,
                node=self._context.node.node_id,
                repeated=outcome.repeated,
                reply=outcome.reply,
            )
            call.respond(answer(done))

        self._context.fresh.read(Freshness(linearizable=False, min_offset=outcome.offset), end, started=started)


_B = TypeVar("_B", bound=msgspec.Struct)


def decoded(call: Call, kind: type[_B]) -> _B:
    """The body as this type. Raises HttpError ``invalid``."""
    try:
        return msgspec.json.decode(call.request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpError("invalid", f"body: {error}") from error
