"""The vocabulary of RocketMQ 5.3 remoting: codes, custom headers and bodies, under Java's names.

Rules: a struct field ``broker_name`` is ``brokerName`` on the wire. A header field that Java may find missing carries
Java's default (``None`` for its boxed types). Booleans in *request* headers stay text, because Java reads anything but
"true" as false and never fails; ``is_true`` reads them. All numbers are bounded to Java's ``int`` and ``long``.
Source: ``org.apache.rocketmq.remoting.protocol`` of 5.3.3 (header, body and RequestCode/ResponseCode classes).
"""

from enum import IntEnum
from typing import Annotated

import msgspec

ONEWAY_FLAG = 2

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class RequestCode(IntEnum):
    """What is asked (Java ``RequestCode``); only what a controller, a name server or a broker answers."""

    UPDATE_AND_CREATE_TOPIC = 17
    GET_ALL_TOPIC_CONFIG = 21
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_TOPIC_CONFIG = 351
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904
    CONTROLLER_ALTER_SYNC_STATE_SET = 1001
    CONTROLLER_ELECT_MASTER = 1002
    CONTROLLER_REGISTER_BROKER = 1003
    CONTROLLER_GET_REPLICA_INFO = 1004
    CONTROLLER_GET_METADATA_INFO = 1005
    CONTROLLER_GET_SYNC_STATE_DATA = 1006
    NOTIFY_BROKER_ROLE_CHANGED = 1008
    UPDATE_CONTROLLER_CONFIG = 1009
    GET_CONTROLLER_CONFIG = 1010
    CLEAN_BROKER_DATA = 1011
    CONTROLLER_GET_NEXT_BROKER_ID = 1012
    CONTROLLER_APPLY_BROKER_ID = 1013


class ResponseCode(IntEnum):
    """What became of it (Java ``ResponseCode``)."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22
    INVALID_PARAMETER = 29
    CONTROLLER_FENCED_MASTER_EPOCH = 2000
    CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH = 2001
    CONTROLLER_INVALID_MASTER = 2002
    CONTROLLER_INVALID_REPLICAS = 2003
    CONTROLLER_MASTER_NOT_AVAILABLE = 2004
    CONTROLLER_INVALID_REQUEST = 2005
    CONTROLLER_BROKER_NOT_ALIVE = 2006
    CONTROLLER_NOT_LEADER = 2007
    CONTROLLER_BROKER_METADATA_NOT_EXIST = 2008
    CONTROLLER_INVALID_CLEAN_BROKER_METADATA = 2009
    CONTROLLER_BROKER_NEED_TO_BE_REGISTERED = 2010
    CONTROLLER_MASTER_STILL_EXIST = 2011
    CONTROLLER_ELECT_MASTER_FAILED = 2012
    CONTROLLER_ALTER_SYNC_STATE_SET_FAILED = 2013
    CONTROLLER_BROKER_ID_INVALID = 2014


def is_true(text: str | None) -> bool:
    """Java ``Boolean.parseBoolean``: only "true", in any case, is true."""
    return text is not None and text.lower() == "true"


class Fields(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Base of all custom headers (``extFields``)."""


class Head(
    msgspec.Struct,
    frozen=True,
    gc=False,
    kw_only=True,
    tag_field="code",
    rename={"fields": "extFields"},
):
    """What every request header says beside its code. ``fields`` of a subclass is Java's custom header."""

    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0

    @property
    def oneway(self) -> bool:
        """Must never be answered."""
        return self.flag & ONEWAY_FLAG != 0


class HeartbeatFields(Fields, gc=False, frozen=True):
    """904, Java ``BrokerHeartbeatRequestHeader``. Offsets in bytes of the commit log, -1 = unknown.

    The attributes have the controller's names (``controller.live.Beat``), so that the hottest request is decoded into
    the very value the live table reads. What is absent is what Java's controller takes instead.
    """

    cluster: str = msgspec.field(default="", name="clusterName")
    address: str = msgspec.field(default="", name="brokerAddr")
    broker_set: str = msgspec.field(default="", name="brokerName")
    broker_id: Int64 | None = None
    epoch: Int32 = -1
    max_offset: Int64 = -1
    confirm_offset: Int64 = -1
    timeout_ms: Int64 = msgspec.field(default=10_000, name="heartbeatTimeoutMills")
    priority: Int32 = msgspec.field(default=0x7FFFFFFF, name="electionPriority")
    registration_epoch: Int64 | None = None
    """Ours: which life of the broker this is."""


class AlterSyncStateSetFields(Fields, gc=False, frozen=True):
    """1001, Java ``AlterSyncStateSetRequestHeader``; the set is the body (``SyncStateSetBody``)."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 = 0


class ElectMasterFields(Fields, gc=False, frozen=True):
    """1002, Java ``ElectMasterRequestHeader``; id -1 = nobody in particular."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: str = "false"
    invoke_time: Int64 = 0


class RegisterBrokerFields(Fields, gc=False, frozen=True):
    """1003, Java ``RegisterBrokerToControllerRequestHeader``; the last two are ours: tell me of my set, too; and which
    life of the broker this is (0: a new one).
    """

    cluster_name: str = ""
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str = ""
    invoke_time: Int64 = 0
    with_topology: str | None = None
    registration_epoch: Int64 | None = None


class ReadFields(Fields, gc=False, frozen=True, kw_only=True):
    """What every read may say beside Java's fields, in our own words (docs/reads.md); Java's clients say nothing.

    Text, because here what cannot be meant is refused by name, and does not silently become the default.
    """

    level: str | None = None
    min_offset: str | None = None
    at: str | None = None


class BrokerNameFields(ReadFields, gc=False, frozen=True):
    """1004, Java ``GetReplicaInfoRequestHeader``."""

    broker_name: str | None = None


class CleanBrokerDataFields(Fields, gc=False, frozen=True):
    """1011, Java ``CleanControllerBrokerDataRequestHeader``; ids as "1;2;3". The last one is ours: whose life."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: str = "false"
    invoke_time: Int64 = 0
    registration_epoch: Int64 | None = None


class NextBrokerIdFields(ReadFields, gc=False, frozen=True):
    """1012, Java ``GetNextBrokerIdRequestHeader``."""

    cluster_name: str = ""
    broker_name: str | None = None


class ApplyBrokerIdFields(Fields, gc=False, frozen=True):
    """1013, Java ``ApplyBrokerIdRequestHeader``; the check code is ``address;milliseconds``."""

    cluster_name: str = ""
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class CreateTopicFields(Fields, gc=False, frozen=True):
    """17, Java ``CreateTopicRequestHeader``; attributes as "+key=value,-key"."""

    topic: str = ""
    default_topic: str = ""
    read_queue_nums: Int32 | None = None
    write_queue_nums: Int32 | None = None
    perm: Int32 | None = None
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 | None = None
    order: str = "false"
    attributes: str | None = None


class DeleteTopicFields(Fields, gc=False, frozen=True):
    """215, Java ``DeleteTopicRequestHeader``."""

    topic: str = ""


class GetTopicFields(ReadFields, gc=False, frozen=True):
    """351, Java ``GetTopicConfigRequestHeader``."""

    topic: str = ""


class RoleChangedFields(Fields, gc=False, frozen=True):
    """1008, Java ``NotifyBrokerRoleChangedRequestHeader``; its body is a ``SyncStateSetBody``, and never missing.
    The last one is ours: JSON, id → address.
    """

    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    members: str | None = None


class MetadataReplyFields(Fields, gc=False, frozen=True):
    """Answer to 1005, Java ``GetMetaDataResponseHeader``."""

    group: str = ""
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str = ""


class BrokerSetReplyFields(Fields, gc=False, frozen=True):
    """Answer to 1013, Java ``ApplyBrokerIdResponseHeader``."""

    cluster_name: str | None = None
    broker_name: str | None = None


class NextBrokerIdReplyFields(Fields, gc=False, frozen=True):
    """Answer to 1012, Java ``GetNextBrokerIdResponseHeader``."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class RegisterReplyFields(Fields, gc=False, frozen=True):
    """Answer to 1003, Java ``RegisterBrokerToControllerResponseHeader``; the master part only while one is alive. The
    last one is ours, for who told one.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    registration_epoch: Int64 | None = None


class ElectMasterReplyFields(Fields, gc=False, frozen=True):
    """Answer to 1002, Java ``ElectMasterResponseHeader``."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ReplicaInfoReplyFields(Fields, gc=False, frozen=True):
    """Answer to 1004, Java ``GetReplicaInfoResponseHeader``; the epoch is never missing (the broker unboxes it)."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class AlterReplyFields(Fields, gc=False, frozen=True):
    """Answer to 1001, Java ``AlterSyncStateSetResponseHeader``; 0 on every refusal."""

    new_sync_state_set_epoch: Int32 = 0


class TopicListReplyFields(Fields, gc=False, frozen=True):
    """Answer to 21, Java ``GetAllTopicConfigResponseHeader``."""

    total_topic_num: Int32 | None = None


class Body(msgspec.Struct, gc=False, frozen=True, rename="camel", omit_defaults=True):
    """Base of JSON bodies; fastjson omits what is null."""


class SyncStateSetBody(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Java ``SyncStateSet``. Read with a missing set it is a decode error, as in Java's constructor."""

    sync_state_set: tuple[Int64, ...]
    sync_state_set_epoch: Int32 = 0


class BrokerMemberGroupBody(Body, gc=False, frozen=True):
    """Java ``BrokerMemberGroup``: id → address. Java writes bare numbers as keys, we quote; it reads both."""

    broker_addrs: dict[int, str]
    broker_name: str
    cluster: str


class ElectMasterBody(Body, gc=False, frozen=True):
    """Java ``ElectMasterResponseBody``."""

    sync_state_set: tuple[Int64, ...]
    broker_member_group: BrokerMemberGroupBody | None = None


class ReplicaBody(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Java ``BrokerReplicasInfo.ReplicaIdentity``."""

    alive: bool
    broker_address: str
    broker_id: Int64
    broker_name: str


class ReplicasBody(Body, gc=False, frozen=True):
    """Java ``BrokerReplicasInfo.ReplicasInfo``."""

    in_sync_replicas: tuple[ReplicaBody, ...]
    not_in_sync_replicas: tuple[ReplicaBody, ...]
    master_epoch: Int32
    sync_state_set_epoch: Int32
    master_broker_id: Int64 | None = None
    master_address: str | None = None


class SyncStateDataBody(Body, gc=False, frozen=True):
    """Answer to 1006, Java ``BrokerReplicasInfo``."""

    replicas_info_table: dict[str, ReplicasBody]


class TopicConfigBody(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Java ``TopicConfig`` and, with no static mapping, ``TopicConfigAndQueueMapping`` (answer to 351)."""

    attributes: dict[str, str]
    order: bool
    perm: Int32
    read_queue_nums: Int32
    topic_filter_type: str
    topic_name: str
    topic_sys_flag: Int32
    write_queue_nums: Int32


class DataVersionBody(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Java ``DataVersion``; we count events, not updates of a process."""

    counter: Int64
    state_version: Int64
    timestamp: Int64


class TopicListBody(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Answer to 21, Java ``TopicConfigAndMappingSerializeWrapper`` without static topics."""

    data_version: DataVersionBody
    mapping_data_version: DataVersionBody
    topic_config_table: dict[str, TopicConfigBody]
    topic_queue_mapping_detail_map: dict[str, str] = {}
    topic_queue_mapping_info_map: dict[str, str] = {}
