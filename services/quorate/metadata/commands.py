"""Commands: requests parsed at the edge, in the imperative; and the replies that answer them.

Rules: frozen; already typed, not yet validated against the state (that is ``decide``). ``None`` where Java allows a
missing field. Both unions travel between nodes as msgpack with a tag per type, so names and meanings never change.
"""

from typing import Final, Literal

import msgspec

from quorate.events import InSyncCopy, NodeAddresses, Voter
from quorate.model.keys import KeysAre, RangeKeys
from quorate.model.live import MemberHealth
from quorate.model.state import KeyValue, Member, Subscription, Will


class _Value(msgspec.Struct, frozen=True, gc=False, tag=True, kw_only=True, omit_defaults=True):
    """Base of all commands and replies."""


ElectionTrigger = Literal["broker", "admin", "master lost", "inactive master scan", "balance"]
Evidence = Literal["", "connection closed", "heartbeat expired", "shut down"]


class ApplyBrokerId(_Value, frozen=True):
    """1013: take ``broker_id`` in ``broker_set``; the check code tells a retry (Java ``applyBrokerId``)."""

    cluster: str
    broker_set: str
    broker_id: int | None
    register_check_code: str | None


class RegisterBroker(_Value, frozen=True):
    """1003: a broker announces the address it serves on (Java ``registerBroker``)."""

    cluster: str
    broker_set: str
    broker_id: int
    address: str
    capabilities: dict[str, str] = {}
    topics: tuple[str, ...] = ()
    registration_epoch: int | None = None
    """Which life of it this is; 0: a new one, which wants an epoch. None: it does not count lives."""


class ElectMaster(_Value, frozen=True):
    """1002, or the controller's own: choose a master (Java ``electMaster``). ``broker_id`` None: nobody asks."""

    broker_set: str
    cluster: str = ""
    broker_id: int | None = None
    designate: bool = False
    trigger: ElectionTrigger = "broker"
    reason: str = ""
    """Why whoever designates wants that one."""
    evidence: Evidence = ""
    last_heartbeat_ms: int = 0
    detected_ms: int = 0


class AlterSyncStateSet(_Value, frozen=True):
    """1001: the master reports who is in sync (Java ``alterSyncStateSet``).

    ``master`` None: it does not say who it is; ``sync_state_set`` None: no body came.
    """

    broker_set: str
    master: int | None
    master_epoch: int
    sync_state_set: tuple[int, ...] | None
    sync_state_set_epoch: int


class CleanBrokerData(_Value, frozen=True):
    """1011: forget a broker set, or some of its ids, given as RocketMQ's ``"1;2;3"`` (Java ``cleanBrokerData``)."""

    cluster: str | None
    broker_set: str
    broker_ids: str | None = None
    clean_living: bool = False
    registration_epoch: int | None = None
    """The life of the one broker it names, told by that broker itself."""


class FenceBroker(_Value, frozen=True):
    """The liveness rules found this broker dead. If it is the master, another is elected in the same decision."""

    cluster: str
    broker_set: str
    broker_id: int
    evidence: Evidence
    last_heartbeat_ms: int
    detected_ms: int


class UnfenceBroker(_Value, frozen=True):
    """A fenced broker is heard again."""

    cluster: str
    broker_set: str
    broker_id: int
    detected_ms: int


class AcknowledgedBy(msgspec.Struct, frozen=True, gc=False):
    """One broker's answer to a role change; epoch milliseconds."""

    broker_id: int
    notified_ms: int
    acknowledged_ms: int


class RoleChangeDelivery(msgspec.Struct, frozen=True, gc=False):
    """Of one election every notified broker answered, or gave up."""

    broker_set: str
    master_epoch: int
    election_offset: int
    committed_ms: int
    acks: tuple[AcknowledgedBy, ...]


class AcknowledgeRoleChanges(_Value, frozen=True):
    """Record deliveries, once per election."""

    deliveries: tuple[RoleChangeDelivery, ...]


class PutTopic(_Value, frozen=True):
    """17: create or update a topic (Java ``CreateTopicRequestHeader``)."""

    topic: str
    read_queues: int
    write_queues: int
    permission: int
    filter_type: str = "SINGLE_TAG"
    system_flags: int = 0
    order: bool = False
    attributes: dict[str, str] = {}
    """RocketMQ's change form: ``+key`` → value adds or updates, ``-key`` deletes."""


class DeleteTopic(_Value, frozen=True):
    """215: forget a topic."""

    topic: str


class ChangeConfig(_Value, frozen=True):
    """Set (text) or unset (None) settings in a scope.

    Scopes: ``controller``, ``cluster``, ``node/<id>``, ``broker-set/<name>``, ``topic/<name>``, ``subject/<name>``.
    """

    scope: str
    changes: dict[str, str | None]


class CreateCluster(_Value, frozen=True):
    """The first command ever: gives offset 0."""

    cluster_id: str
    voters: tuple[Voter, ...]
    feature_level: int
    cluster_uuid: str = ""


class RecordLeader(_Value, frozen=True):
    """A controller won an election; first decision of its term."""

    node_id: int
    cause: str
    previous_leader: int | None = None
    silent_for_ms: int = 0


class RecordNodeStart(_Value, frozen=True):
    """A controller node (re)started and is heard by the leader."""

    node_id: int
    dir_uuid: str
    version: str
    addresses: NodeAddresses
    feature_min: int
    feature_max: int


class RaiseFeatureLevel(_Value, frozen=True):
    """Allow events of a newer feature level; every voter must support it."""

    level: int


class RebuildVoter(_Value, frozen=True):
    """A voter's directory is lost for good, and this is the one it has now."""

    node_id: int
    dir_uuid: str
    asked_by: str = ""


class PutKey(_Value, frozen=True):
    """Give a key a value (etcd ``PutRequest``)."""

    key: bytes
    value: bytes = b""
    lease: int = 0
    """The lease it goes with; 0: none."""
    previous: bool = False
    """Answer with what was there."""
    keep_value: bool = False
    """Change the lease alone (``ignore_value``)."""
    keep_lease: bool = False
    """Change the value alone (``ignore_lease``)."""


class DeleteKeys(_Value, frozen=True):
    """Delete a range of keys (etcd ``DeleteRangeRequest``)."""

    key: bytes
    range_end: bytes = b""
    previous: bool = False


class CompareKeys(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Is this so, of each key of a range (etcd ``Compare``)? Where there is none its numbers are 0, and nothing is
    true of its value.
    """

    key: bytes
    range_end: bytes = b""
    target: Literal["version", "create", "mod", "lease", "value"]
    result: Literal["equal", "greater", "less", "not equal"] = "equal"
    number: int = 0
    value: bytes = b""


class Transact(_Value, frozen=True):
    """The first operations if all is so, else the others (etcd ``TxnRequest``)."""

    compare: tuple[CompareKeys, ...] = ()
    success: "tuple[KeyOperation, ...]" = ()
    failure: "tuple[KeyOperation, ...]" = ()


KeyOperation = RangeKeys | PutKey | DeleteKeys | Transact


class GrantLease(_Value, frozen=True):
    """Begin a lease (etcd ``LeaseGrantRequest``); whoever asks for any number draws it."""

    lease: int
    ttl_s: int


class RevokeLease(_Value, frozen=True):
    """End a lease and delete its keys (etcd ``LeaseRevokeRequest``)."""

    lease: int


class KeepLease(_Value, frozen=True):
    """The holder of a lease is there (etcd ``LeaseKeepAliveRequest``)."""

    lease: int


class AskLease(_Value, frozen=True):
    """How long does a lease live on, and which keys has it (etcd ``LeaseTimeToLiveRequest``)? Its leader knows."""

    lease: int
    with_keys: bool = False


class ExpireLease(_Value, frozen=True):
    """The leader did not hear the holder of a lease for its time."""

    lease: int
    silent_ms: int


class CheckpointLeases(_Value, frozen=True):
    """So much is left of these leases: number and seconds each."""

    leases: tuple[tuple[int, int], ...]


class RegisterMember(_Value, frozen=True):
    """A service says that it is there, in this life of it; the same one again may say something else of itself."""

    name: str
    incarnation: str
    timeout_ms: int
    roles: tuple[str, ...] = ()
    addresses: dict[str, str] = {}
    labels: dict[str, str] = {}


class HearMember(_Value, frozen=True):
    """The heartbeat of a member. It writes something only where that changes what the member is."""

    name: str
    epoch: int
    applied_revision: int
    """Up to where it knows the log."""
    health: MemberHealth = MemberHealth()
    want_drain: bool = False


class AskMember(_Value, frozen=True):
    """What is a member, or a broker, and how is it? Its leader knows."""

    name: str


class FenceMember(_Value, frozen=True):
    """The leader did not hear a member for its timeout."""

    name: str
    epoch: int
    evidence: Evidence
    last_heartbeat_ms: int


class DrainMember(_Value, frozen=True):
    """A member is to leave. ``epoch`` None: an operator asks, of whichever there is."""

    name: str
    epoch: int | None = None


class UnregisterMember(_Value, frozen=True):
    """A member leaves, or an operator (``epoch`` None) has it forgotten."""

    name: str
    epoch: int | None = None
    force: bool = False
    """Also while it leads something."""


class RegisterSchema(_Value, frozen=True):
    """A schema becomes the newest version of a subject (Confluent ``POST /subjects/{subject}/versions``)."""

    subject: str
    schema: str
    schema_type: str = "AVRO"


class DeleteSchema(_Value, frozen=True):
    """Hide versions of a subject, or take hidden ones away for good. ``version`` None: all; -1: the latest."""

    subject: str
    version: int | None = None
    permanent: bool = False


class CreateShard(_Value, frozen=True):
    """Begin a log in segments, each with so many copies at members of the journal."""

    shard: str
    replication: int
    min_in_sync: int = 1
    spread: str = ""
    """The label over whose values the copies of a segment are spread."""
    require: dict[str, str] = {}
    """Labels that a member needs to be given a copy; an empty value: any."""


class ByLeader(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Who says that it leads a segment, in which reign and which life of it."""

    leader: str
    leader_epoch: int
    member_epoch: int


class NextSegment(_Value, frozen=True):
    """The last segment of a shard ends here, and the next one begins. ``current``: the number of the last one."""

    shard: str
    current: int
    end_offset: int
    by: ByLeader


class SealSegment(_Value, frozen=True):
    """A segment ends here, and none follows yet."""

    segment: str
    end_offset: int
    by: ByLeader


class AlterInSync(_Value, frozen=True):
    """The leader of a segment says who is in sync with it, each in one life of its member."""

    segment: str
    by: ByLeader
    set_epoch: int
    new: tuple[InSyncCopy, ...]


class ElectSegmentLeader(_Value, frozen=True):
    """Another copy is to lead a segment."""

    segment: str
    trigger: Literal["operator", "balance"]
    wanted: str = ""
    """Empty: whoever is best."""
    reason: str = ""
    """Why that one, for the log."""


class ElectSegmentLeaders(_Value, frozen=True):
    """The leaders of these segments are not there any more, or are to leave: others lead, where they can."""

    segments: tuple[str, ...]


class DeleteShard(_Value, frozen=True):
    """A shard is to go. ``epoch`` None: whichever there is of this name."""

    shard: str
    epoch: int | None = None


class AckDeleted(_Value, frozen=True):
    """A member has deleted its copy of a segment of a shard that is to go."""

    segment: str
    shard_epoch: int
    member: str
    member_epoch: int


class OpenSession(_Value, frozen=True):
    """A client of MQTT connected to a member (CONNECT)."""

    client: str
    clean_start: bool
    expiry_s: int
    member: str
    member_epoch: int
    will: Will | None = None


class CloseSession(_Value, frozen=True):
    """The connection of a client ended (DISCONNECT, or without), or its session is to end."""

    client: str
    session_epoch: int
    end: bool = False
    with_will: bool = False
    """It ended without a word of the client."""
    expiry_s: int | None = None
    """Another one, as a DISCONNECT may say."""
    administrator: bool = False
    """An operator ends it, whatever its epoch."""


class PutSubscriptions(_Value, frozen=True):
    """A client subscribed, or no longer does (SUBSCRIBE, UNSUBSCRIBE)."""

    client: str
    session_epoch: int
    added: tuple[Subscription, ...] = ()
    removed: tuple[str, ...] = ()


class SettleSessions(_Value, frozen=True):
    """Decide what is due of these sessions: client and session epoch each."""

    sessions: tuple[tuple[str, int], ...]


class AcknowledgeWill(_Value, frozen=True):
    """A member has published a will."""

    will: int
    member: str
    member_epoch: int


class ForgetCopies(_Value, frozen=True):
    """Nobody deletes the copies of members that are gone: a shard that is to go does not wait for them."""

    shard: str


class HandOverWills(_Value, frozen=True):
    """Find others for these wills, whose members are lost."""

    wills: tuple[int, ...]


Command = (
    ApplyBrokerId
    | RegisterBroker
    | ElectMaster
    | AlterSyncStateSet
    | CleanBrokerData
    | FenceBroker
    | UnfenceBroker
    | AcknowledgeRoleChanges
    | PutTopic
    | DeleteTopic
    | ChangeConfig
    | CreateCluster
    | RecordLeader
    | RecordNodeStart
    | RaiseFeatureLevel
    | RebuildVoter
    | PutKey
    | DeleteKeys
    | Transact
    | GrantLease
    | RevokeLease
    | KeepLease
    | AskLease
    | ExpireLease
    | CheckpointLeases
    | RegisterMember
    | HearMember
    | AskMember
    | FenceMember
    | DrainMember
    | UnregisterMember
    | RegisterSchema
    | DeleteSchema
    | CreateShard
    | NextSegment
    | SealSegment
    | AlterInSync
    | ElectSegmentLeader
    | ElectSegmentLeaders
    | DeleteShard
    | AckDeleted
    | ForgetCopies
    | OpenSession
    | CloseSession
    | PutSubscriptions
    | SettleSessions
    | AcknowledgeWill
    | HandOverWills
)


class Accepted(_Value, frozen=True):
    """Done; nothing to say beyond it."""


class AnsweredBefore(_Value, frozen=True):
    """Answer to a request that ran before and whose answer was too long to keep: where its events are."""

    first_offset: int
    count: int


class BrokerIdApplied(_Value, frozen=True):
    """Answer to ApplyBrokerId."""

    cluster: str
    broker_set: str


NEW_LIFE: Final = -1


class BrokerIsRegistered(_Value, frozen=True):
    """Answer to RegisterBroker; the master part only while a master exists and is alive."""

    cluster: str
    broker_set: str
    master: int | None
    master_address: str | None
    master_epoch: int | None
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    master_sync_state_set_epoch: int | None = None
    registration_epoch: int | None = None
    """Of whoever counts lives; -1: this decision began it, and the offset of its last event is the epoch."""

    def epoch_at(self, offset: int) -> int | None:
        """The epoch, if this is the answer at that offset (the next one after the decision's events)."""
        return offset - 1 if self.registration_epoch == NEW_LIFE else self.registration_epoch


class MasterIs(_Value, frozen=True):
    """Answer to ElectMaster: the new master, or (inside refusal 2011) the one that stays.

    ``master`` None: nobody in particular asked and nobody could be elected; recorded, and RocketMQ's 2004.
    """

    cluster: str
    broker_set: str
    master: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    members: dict[int, str] | None
    """Registered id → address; None when the old master stays (Java omits brokerMemberGroup then)."""


class SyncStateSetIs(_Value, frozen=True):
    """Answer to AlterSyncStateSet."""

    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int


class TopicIs(_Value, frozen=True):
    """Answer to PutTopic / DeleteTopic; ``changed`` False when it already was so."""

    topic: str
    changed: bool


class KeyIsPut(_Value, frozen=True):
    """Answer to PutKey."""

    previous: KeyValue | None = None


class KeysAreDeleted(_Value, frozen=True):
    """Answer to DeleteKeys."""

    deleted: int = 0
    previous: tuple[KeyValue, ...] = ()


class Transacted(_Value, frozen=True):
    """Answer to Transact: which operations ran, and what each answered.

    A key that the transaction itself put and then read has ``THIS_REVISION``: the answer's, which nobody knows yet.
    """

    succeeded: bool
    replies: "tuple[KeyReply, ...]" = ()


KeyReply = KeysAre | KeyIsPut | KeysAreDeleted | Transacted
THIS_REVISION: Final = 2**63 - 1
"""Greater than every other one, as the transaction's will be."""


class LeaseIs(_Value, frozen=True):
    """Answer to what is asked of a lease: its time, and to AskLease what is left of it and its keys."""

    lease: int
    ttl_s: int
    left_s: int = 0
    keys: tuple[bytes, ...] = ()


class MemberIs(_Value, frozen=True):
    """Answer to what is asked of a member: what it is now."""

    name: str
    epoch: int = 0
    """0: this decision registered it, and the offset of its last event is the epoch (``registered_epoch``)."""
    fenced: bool = False
    draining: bool = False
    may_leave: bool = False
    """It is draining, and nothing keeps it any more."""

    def registered_epoch(self, offset: int) -> int:
        """The epoch, if this is the answer at that offset (the next one after the decision's events)."""
        return self.epoch or offset - 1


class MemberDescribed(_Value, frozen=True):
    """Answer to AskMember."""

    member: Member
    last_heard_ms: int = 0
    """Epoch milliseconds; 0: never by the leader of now."""
    health: MemberHealth | None = None
    may_leave: bool = False


class SchemaIs(_Value, frozen=True):
    """Answer to RegisterSchema: the id of the schema, and which version of the subject it is."""

    schema_id: int
    version: int


class SchemasAreDeleted(_Value, frozen=True):
    """Answer to DeleteSchema: which versions."""

    versions: tuple[int, ...]


class ShardIs(_Value, frozen=True):
    """Answer to DeleteShard."""

    shard: str
    epoch: int
    deleting: bool = False


class SegmentIs(_Value, frozen=True):
    """Answer to what begins, ends or elects: the segment as it is now."""

    segment: str
    start_offset: int
    copies: tuple[str, ...]
    leader: str
    member_epoch: int
    in_sync: tuple[InSyncCopy, ...]
    leader_epoch: int = 0
    """0: this decision made it leader, and the offset of its last event is the epoch (``led_since``)."""
    set_epoch: int = 0
    end_offset: int | None = None

    def led_since(self, offset: int) -> int:
        """The leader epoch, if this is the answer at that offset (the next one after the decision's events)."""
        return self.leader_epoch or offset - 1


class InSyncIs(_Value, frozen=True):
    """Answer to AlterInSync."""

    segment: str
    in_sync: tuple[InSyncCopy, ...]
    set_epoch: int


class SessionIs(_Value, frozen=True):
    """Answer to OpenSession. Its epoch is the offset of the decision's last event, if it was ``opened``."""

    client: str
    opened: bool
    present: bool
    """There was a session, and it is this one now."""
    taken_over_from: str = ""
    """Who had the client; empty: nobody."""
    replaced_epoch: int = 0

    def session_epoch(self, offset: int) -> int:
        """What was answered at this offset has this epoch: its last event's; 0: nothing is kept."""
        return offset - 1 if self.opened else 0


Reply = (
    Accepted
    | AnsweredBefore
    | BrokerIdApplied
    | BrokerIsRegistered
    | MasterIs
    | SyncStateSetIs
    | TopicIs
    | KeysAre
    | KeyIsPut
    | KeysAreDeleted
    | Transacted
    | LeaseIs
    | MemberIs
    | MemberDescribed
    | SchemaIs
    | SchemasAreDeleted
    | ShardIs
    | SegmentIs
    | InSyncIs
    | SessionIs
)


class Refusal(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Why not. A value: nothing was written."""

    code: str
    """A name of metadata/refusals.py, e.g. ``StaleMasterEpoch``; one table maps it to each protocol's code."""
    remark: str
    reply: Reply | None = None
    """The state of affairs instead (2011 carries the current master)."""
