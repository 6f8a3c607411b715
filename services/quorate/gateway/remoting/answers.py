"""Outcomes in RocketMQ's words: response code, remark, custom header, body, exactly as the Java controller forms them.

Rules: *nothing was proposed* is 2007, *nobody knows* is code 1 and says so. Which header fields a refusal still carries
follows ``ReplicasInfoManager``: its result object holds the header from the start, so 1001, 1003 and 1013 carry theirs
even when refused; what fails with an exception there (code 1 here) carries none.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec

from quorate.controller.outcomes import (
    Answered,
    Busy,
    NotFound,
    NotLeader,
    Outcome,
    QueryResult,
    ReadOutcome,
    Refused,
    Unavailable,
    UnknownOutcome,
)
from quorate.controller.views import ReadView
from quorate.errors import InvariantBrokenError
from quorate.gateway.fresh import NotFresh, is_past
from quorate.gateway.remoting import topics
from quorate.metadata.commands import (
    Accepted,
    AlterSyncStateSet,
    AnsweredBefore,
    ApplyBrokerId,
    BrokerIdApplied,
    BrokerIsRegistered,
    Command,
    InSyncIs,
    KeyIsPut,
    KeysAreDeleted,
    LeaseIs,
    MasterIs,
    MemberDescribed,
    MemberIs,
    RegisterBroker,
    Reply,
    SchemaIs,
    SchemasAreDeleted,
    SegmentIs,
    SessionIs,
    ShardIs,
    SyncStateSetIs,
    TopicIs,
    Transacted,
)
from quorate.metadata.refusals import response
from quorate.model.keys import KeysAre
from quorate.model.queries import (
    UNKNOWN_SET,
    NextBrokerIdIs,
    ReplicaInfoIs,
    Result,
    SyncStateDataIs,
    SyncStateIs,
    TopicConfigIs,
    TopicListIs,
)
from quorate.wire.remoting import Message
from quorate.wire.remoting_headers import (
    AlterReplyFields,
    BrokerMemberGroupBody,
    BrokerSetReplyFields,
    ElectMasterBody,
    ElectMasterReplyFields,
    Fields,
    NextBrokerIdReplyFields,
    RegisterReplyFields,
    ReplicaBody,
    ReplicaInfoReplyFields,
    ReplicasBody,
    ResponseCode,
    SyncStateDataBody,
    SyncStateSetBody,
    TopicListReplyFields,
)

_json = msgspec.json.Encoder().encode

OK = Message(ResponseCode.SUCCESS)
HEARTBEAT_OK = Message(ResponseCode.SUCCESS, remark="Heart beat success")
HEARTBEAT_WITHOUT_ID = Message(ResponseCode.CONTROLLER_INVALID_REQUEST, remark="Heart beat with empty brokerId")
NAMES_TOO_LONG = Message(ResponseCode.CONTROLLER_INVALID_REQUEST, remark="Heart beat with names that are too long")
NO_ADDRESS = Message(
    ResponseCode.CONTROLLER_INVALID_REQUEST, remark="The broker address, or its HA address, is not host:port"
)
EPOCH_NEEDED = Message(
    ResponseCode.CONTROLLER_INVALID_REQUEST,
    remark="registrationEpoch is missing; a broker registers with 0 and is told its own",
)
NOT_LEADER = Message(ResponseCode.CONTROLLER_NOT_LEADER, remark="The controller is not in leader state")
BUSY = Message(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]system busy, start flow control for a while")
FORBIDDEN = Message(ResponseCode.NO_PERMISSION, remark="not permitted")
NO_SUCH_SET = Message(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, remark=UNKNOWN_SET)
UNREADABLE_CONFIG = Message(ResponseCode.SYSTEM_ERROR, remark="string2Properties error")
BLACK_LISTED = Message(ResponseCode.NO_PERMISSION, remark="Can not update config in black list.")


def failed(remark: str) -> Message:
    """Code 1: what Java answers for an exception in its handler."""
    return Message(ResponseCode.SYSTEM_ERROR, remark=remark)


def superseded(newest: int) -> Message:
    """A heartbeat of a life that is not the newest of its broker."""
    remark = f"StaleRegistrationEpoch: the broker registered again, in the epoch {newest}"
    return Message(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark=remark)


def not_supported(code: int) -> Message:
    """Code 3 (Java ``ControllerRequestProcessor``, its default branch, leading space included)."""
    return Message(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f" request type {code} not supported")


def sync_state_set_body(members: Sequence[int], epoch: int) -> bytes:
    """Java ``SyncStateSet``."""
    return _json(SyncStateSetBody(tuple(members), epoch))


def command_answer(command: Command | None, outcome: Outcome) -> Message:
    """The answer to a command."""
    match outcome:
        case Answered():
            return _accepted(outcome.reply, outcome.offset)
        case Refused():
            return _refused(command, outcome)
        case NotLeader() | Unavailable():
            return NOT_LEADER
        case Busy():
            return BUSY
        case UnknownOutcome():
            return failed(f"unknown outcome: {outcome.reason}")
        case _:
            assert_never(outcome)


def _accepted(reply: Reply, offset: int) -> Message:
    match reply:
        case SyncStateSetIs():
            body = sync_state_set_body(reply.sync_state_set, reply.sync_state_set_epoch)
            return Message(0, AlterReplyFields(reply.sync_state_set_epoch), body=body)
        case BrokerIsRegistered():
            return Message(
                0,
                RegisterReplyFields(
                    cluster_name=reply.cluster,
                    broker_name=reply.broker_set,
                    master_broker_id=reply.master,
                    master_address=reply.master_address,
                    master_epoch=reply.master_epoch,
                    sync_state_set_epoch=reply.master_sync_state_set_epoch,
                    registration_epoch=reply.epoch_at(offset),
                ),
                body=sync_state_set_body(reply.sync_state_set, reply.sync_state_set_epoch),
            )
        case BrokerIdApplied():
            return Message(0, BrokerSetReplyFields(reply.cluster, reply.broker_set))
        case MasterIs():
            code, remark = response(reply)
            return Message(code, remark=remark) if code else _master(reply, code, remark)
        case Accepted() | TopicIs() | KeyIsPut() | KeysAreDeleted():
            return OK
        case (
            AnsweredBefore()
            | KeysAre()
            | Transacted()
            | LeaseIs()
            | SchemaIs()
            | SchemasAreDeleted()
            | ShardIs()
            | SegmentIs()
            | InSyncIs()
            | MemberIs()
            | MemberDescribed()
            | SessionIs()
        ):
            raise InvariantBrokenError(f"no RocketMQ request is answered with {type(reply).__name__}")
        case _:
            assert_never(reply)


def _master(reply: MasterIs, code: int, remark: str | None) -> Message:
    """1002 when there is a master: the new one, or the one that stays."""
    members = reply.members
    group = None if members is None else BrokerMemberGroupBody(members, reply.broker_set, reply.cluster)
    return Message(
        code,
        ElectMasterReplyFields(reply.master, reply.master_address, reply.master_epoch, reply.sync_state_set_epoch),
        remark=remark,
        body=_json(ElectMasterBody(reply.sync_state_set, group)),
    )


def _refused(command: Command | None, outcome: Refused) -> Message:
    refusal = outcome.refusal
    code, remark = response(refusal)
    if isinstance(refusal.reply, MasterIs):
        return _master(refusal.reply, code, remark)
    fields: Fields | None = None
    if code != ResponseCode.SYSTEM_ERROR:
        match command:
            case AlterSyncStateSet():
                fields = AlterReplyFields(0)
            case RegisterBroker() | ApplyBrokerId():
                fields = BrokerSetReplyFields(command.cluster, command.broker_set)
            case _:
                pass
    return Message(code, fields, remark=remark)


def read_answer(outcome: ReadOutcome) -> Message:
    """The answer to a query."""
    match outcome:
        case QueryResult():
            return _found(outcome.result, outcome.offset)
        case NotFound():
            code, remark = response(outcome.refusal)
            return Message(code, remark=remark)
        case NotLeader() | Unavailable():
            return NOT_LEADER
        case Busy():
            return BUSY
        case _:
            assert_never(outcome)


def stamped(message: Message, view: ReadView) -> Message:
    """The answer to a read that named its level also says what it reflects, in fields that Java's do not have."""
    stamp = {"offset": view.offset, "timeMs": view.time_ms, "past": is_past(view)}
    fields = {**message.fields, **{name: str(value).lower() for name, value in stamp.items()}}
    return Message(message.code, fields, remark=message.remark, body=message.body)


def not_fresh(failure: NotFresh) -> Message:
    """A read that named its level and could not be answered so."""
    fields = {} if failure.end_offset is None else {"endOffset": str(failure.end_offset)}
    return Message(_NOT_FRESH[failure.reason], fields, remark=f"{failure.reason}: {failure.message}")


_NOT_FRESH: Mapping[str, ResponseCode] = {
    "busy": ResponseCode.SYSTEM_BUSY,
    "throttled": ResponseCode.SYSTEM_BUSY,
    "behind": ResponseCode.SYSTEM_BUSY,
    "unavailable": ResponseCode.CONTROLLER_NOT_LEADER,
    "beyond_end": ResponseCode.SYSTEM_ERROR,
}
"""2: come again; 2007: ask another node, as RocketMQ's clients do then; 1: there is no such offset."""


def _found(result: Result, offset: int) -> Message:
    match result:
        case ReplicaInfoIs():
            return Message(
                0,
                ReplicaInfoReplyFields(result.master, result.master_address, result.master_epoch),
                body=sync_state_set_body(result.sync_state_set, result.sync_state_set_epoch),
            )
        case NextBrokerIdIs():
            return Message(0, NextBrokerIdReplyFields(result.cluster, result.broker_set, result.next_broker_id))
        case SyncStateDataIs():
            table = {sync_state.broker_set: _replicas(sync_state) for sync_state in result.broker_sets}
            return Message(0, body=_json(SyncStateDataBody(table)))
        case TopicConfigIs():
            return Message(0, body=topics.encode_topic(result.topic))
        case TopicListIs():
            fields = TopicListReplyFields(len(result.topics))
            return Message(0, fields, body=topics.encode_topics(result.topics, offset))
        case _:
            assert_never(result)


def _replicas(sync_state: SyncStateIs) -> ReplicasBody:
    """Java ``BrokerReplicasInfo.ReplicasInfo``; never heard is not alive there."""
    in_sync, out_of_sync = (
        tuple(ReplicaBody(one.alive is True, one.address, one.broker_id, sync_state.broker_set) for one in replicas)
        for replicas in (sync_state.in_sync, sync_state.not_in_sync)
    )
    return ReplicasBody(
        in_sync,
        out_of_sync,
        sync_state.master_epoch,
        sync_state.sync_state_set_epoch,
        sync_state.master,
        sync_state.master_address,
    )
