"""Commands: requests parsed at the edge, in the imperative; and the replies that answer them.

Rules: frozen; already typed, not yet validated against the state (that is ``decide``). ``None`` where Java allows a
missing field. Both unions travel between nodes as msgpack with a tag per type, so names and meanings never change.
"""

from typing import Literal

import msgspec

from quorate.events import NodeAddresses, Voter


class _Value(msgspec.Struct, frozen=True, gc=False, tag=True, kw_only=True, omit_defaults=True):
    """Base of all commands and replies."""


ElectionTrigger = Literal["broker", "admin", "master lost", "inactive master scan"]
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


class ElectMaster(_Value, frozen=True):
    """1002, or the controller's own: choose a master (Java ``electMaster``). ``broker_id`` None: nobody asks."""

    broker_set: str
    cluster: str = ""
    broker_id: int | None = None
    designate: bool = False
    trigger: ElectionTrigger = "broker"
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

    Scopes: ``controller``, ``cluster``, ``node/<id>``, ``broker-set/<name>``, ``topic/<name>``.
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
)


class Accepted(_Value, frozen=True):
    """Done; nothing to say beyond it."""


class BrokerIdApplied(_Value, frozen=True):
    """Answer to ApplyBrokerId."""

    cluster: str
    broker_set: str


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


Reply = Accepted | BrokerIdApplied | BrokerIsRegistered | MasterIs | SyncStateSetIs | TopicIs


class Refusal(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Why not. A value: nothing was written."""

    code: str
    """A name of metadata/refusals.py, e.g. ``StaleMasterEpoch``; one table maps it to each protocol's code."""
    remark: str
    reply: Reply | None = None
    """The state of affairs instead (2011 carries the current master)."""
