"""The state of the cluster: the sum of its events, as one immutable value.

Rules: nothing here changes; ``evolve`` makes a new value that shares what did not change. Each entity is one row
(rows.py) under the key of the events that touch it, so no entity holds a copy of another. Tuples of ids are sorted.
"""

import msgspec
from immutables import Map

from quorate.events import InSyncCopy, NodeAddresses, Voter
from quorate.model.ordered import OrderedMap


class _Entity(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Base of everything that becomes a row; a new field needs a default, so that old rows stay as they are.

    Only None, False, small integers, empty text and empty containers may be defaults: ``omit_defaults`` compares by
    identity, so that any other text would be left out of the row on one node and not on the next.
    """


class Cluster(_Entity, frozen=True):
    """Who we are; given once, by the event at offset 0."""

    cluster_id: str
    voters: tuple[Voter, ...]
    feature_level: int
    """The level it began with; a later one is an entity of its own."""
    cluster_uuid: str = ""
    """Made with it: tells it from another one founded under the same name."""


class FeatureLevel(_Entity, frozen=True):
    """What every voter understands."""

    level: int


class Leader(_Entity, frozen=True):
    """The controller that leads, and how it came to."""

    node_id: int
    term: int
    offset: int
    since_ms: int
    cause: str


class Node(_Entity, frozen=True):
    """A controller node at its last start; without a version: rebuilt, and not started since."""

    node_id: int
    dir_uuid: str
    version: str
    addresses: NodeAddresses
    feature_min: int
    feature_max: int
    started_ms: int
    former: tuple[str, ...] = ()
    """Directories it had before, the oldest first: none of them may come back."""


class Replica(_Entity, frozen=True):
    """A broker id of a set. ``registered`` once it said (1003) where it serves; until then the check code tells."""

    broker_id: int
    address: str
    register_check_code: str = ""
    registered: bool = False
    fenced: bool = False
    capabilities: dict[str, str] = {}
    topics: tuple[str, ...] = ()
    registration_epoch: int = 0
    """The offset at which the process that serves now told that it begins (1003); 0: none has told so."""


class Election(_Entity, frozen=True):
    """The last election that changed the set; ``offset`` finds the whole event with all its candidates."""

    offset: int
    time_ms: int
    trigger: str
    explanation: str
    decided_by: str = ""
    """Empty: nobody could be elected."""
    acknowledged: bool = False
    """Its delivery to the brokers is recorded."""


class BrokerSet(_Entity, frozen=True):
    """A replica set in RocketMQ's words (Java ``BrokerReplicaInfo`` and ``SyncStateInfo`` in one)."""

    name: str
    cluster: str
    next_broker_id: int = 1
    replicas: tuple[Replica, ...] = ()
    """By broker id."""
    master: int | None = None
    master_epoch: int = 0
    """0: never elected."""
    sync_state_set: tuple[int, ...] = ()
    sync_state_set_epoch: int = 0
    sync_known: bool = True
    """False: half-known. Without the policy ``no_half_known_sets`` a cleaning drops the sync half, as Java does, and
    only the ids are still known; the next application for an id then makes the set anew. The rule is in this file.
    """
    election: Election | None = None
    failed_inputs: str = ""
    """What the last failed election saw (evolve.inputs); empty when there is a master, or never was one."""

    def replica(self, broker_id: int | None) -> Replica | None:
        """The replica with this id. Sets have a handful of replicas: a scan beats a map."""
        for replica in self.replicas:
            if replica.broker_id == broker_id:
                return replica
        return None

    def halved(self, left: tuple[Replica, ...]) -> "BrokerSet":
        """The half-known set with these replicas."""
        return BrokerSet(
            name=self.name,
            cluster=self.cluster,
            next_broker_id=self.next_broker_id,
            replicas=left,
            sync_known=False,
        )

    def is_anew(self, before: "BrokerSet | None") -> bool:
        """Is it another set than the one there was before? What becomes half-known, or known again, begins anew."""
        return before is None or before.sync_known != self.sync_known

    def address(self, broker_id: int | None) -> str | None:
        """Where a replica serves; None for an id the set does not hold."""
        replica = self.replica(broker_id)
        return None if replica is None else replica.address


class Topic(_Entity, frozen=True):
    """A topic's configuration (RocketMQ ``TopicConfig``)."""

    topic: str
    read_queues: int
    write_queues: int
    permission: int
    filter_type: str
    system_flags: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


class Config(_Entity, frozen=True):
    """The settings of one scope."""

    scope: str
    values: dict[str, str]


class KeyValue(_Entity, frozen=True):
    """A key and its value (etcd ``mvccpb.KeyValue``). A revision is the offset of a decision's last event."""

    key: str
    """As text (``events.names``)."""
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    """How often it was put since it was created."""
    lease: int = 0
    """0: none."""


class Lease(_Entity, frozen=True):
    """A holder's word that it is there, for a time; keys attached to it go when it ends."""

    lease_id: int
    ttl_s: int
    granted_ms: int
    remaining_s: int = 0
    """What was left when a leader last wrote it down; 0: all of it."""


class Member(_Entity, frozen=True):
    """A service that registered itself, and is heard: what it does, where, and whether it may be given work."""

    name: str
    incarnation: str
    """Which life of it this is, as it says itself."""
    epoch: int
    """The offset of its registration: a later one of the same name has a greater one."""
    roles: tuple[str, ...]
    addresses: dict[str, str]
    """What is spoken there → host:port."""
    labels: dict[str, str]
    timeout_ms: int
    """How long its silence means nothing."""
    changed_ms: int
    """When it was last registered, fenced, unfenced or told to leave."""
    fenced: bool = False
    """It has not caught up yet, or was not heard: it is given no work."""
    draining: bool = False
    """It is to leave."""


class Schema(_Entity, frozen=True):
    """A schema of another service, under the id it keeps for ever (Avro; JSON in its canonical form)."""

    schema_id: int
    schema: str


class SubjectVersion(_Entity, frozen=True):
    """A schema that was registered under a subject."""

    version: int
    schema_id: int
    deleted: bool = False
    """Hidden, and not compared with; not gone."""


class Subject(_Entity, frozen=True):
    """What messages of one kind look like, version by version (Confluent's schema registry)."""

    subject: str
    versions: tuple[SubjectVersion, ...]
    """In order; at least one."""


class Shard(_Entity, frozen=True):
    """A log in segments, each with copies at several members."""

    name: str
    epoch: int
    """The offset of its creation: another shard of the same name has a greater one."""
    replication: int
    min_in_sync: int
    """With fewer copies in sync it is at risk."""
    spread: str = ""
    """The label over whose values the copies of a segment are spread."""
    require: dict[str, str] = {}
    """Labels that a member needs to be given a copy; an empty value: any."""
    deleting: bool = False
    """It is to go: its copies are to be deleted."""


class Segment(_Entity, frozen=True):
    """A part of a shard, and a replicated thing: who has copies of it, who leads, and who is in sync."""

    name: str
    """Its shard and its number there: ``orders/3``."""
    start_offset: int
    copies: tuple[str, ...]
    """Members that have one, in the order of preference."""
    leader: str
    """Empty: its copy is deleted."""
    member_epoch: int
    """In which life the leader leads."""
    leader_epoch: int
    """The offset of the event that made it leader."""
    in_sync: tuple[InSyncCopy, ...]
    """By member."""
    set_epoch: int = 0
    end_offset: int | None = None
    """None: it is not sealed."""
    election: Election | None = None
    """The last one; None: who led first leads."""


class Subscription(_Entity, frozen=True):
    """That a client wants what is published to topics of a filter (MQTT 5.0, section 3.8.3.1)."""

    filter: str
    """With ``$share/group/`` before it where it is shared."""
    qos: int = 0
    """At most this was granted."""
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0
    """0: none."""


Subscriptions = OrderedMap[Subscription]
"""Of all clients, by filter (``topic_filters``)."""


class Will(_Entity, frozen=True):
    """What is published for a client that is lost (MQTT 5.0, section 3.1.2.5)."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    delay_s: int = 0


class Session(_Entity, frozen=True):
    """A persistent session of MQTT, and what its client subscribed to."""

    client: str
    member: str
    """Who has the client, or had it last."""
    member_epoch: int
    session_epoch: int
    """The offset of its last SessionOpened."""
    opened_ms: int
    expiry_s: int
    will: Will | None = None
    """None: there is none, or it was decided."""
    disconnected_ms: int = 0
    """Since when its client is gone by the word of who had it; 0: no such word came (``model.sessions.since_ms``)."""
    subscriptions: tuple[Subscription, ...] = ()
    """By filter."""


class SessionOwner(_Entity, frozen=True):
    """A member that was lost while it had clients: they are gone since."""

    member: str
    member_epoch: int
    lost_ms: int
    reason: str


class HandedWill(_Entity, frozen=True):
    """A will that was decided, and is not known to be published yet."""

    session_epoch: int
    client: str
    will: Will
    member: str = ""
    """Who is to publish it; empty: nobody can yet."""
    member_epoch: int = 0
    handed_ms: int = 0


class State(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything the events so far add up to."""

    cluster: Cluster | None = None
    feature_level: int = 0
    """0: the cluster is not created yet."""
    leader: Leader | None = None
    nodes: Map[int, Node] = Map()
    broker_sets: Map[str, BrokerSet] = Map()
    topics: Map[str, Topic] = Map()
    configs: Map[str, Config] = Map()
    keys: OrderedMap[KeyValue] = OrderedMap()
    """By their bytes."""
    leases: Map[int, Lease] = Map()
    attached: Map[int, OrderedMap[None]] = Map()
    """Of each lease its keys: what ``keys`` say, the other way round. No row."""
    attached_bytes: Map[int, int] = Map()
    """Of each lease the bytes of their names, as texts. No row."""
    members: Map[str, Member] = Map()
    schemas: Map[int, Schema] = Map()
    """Ids follow one another and are never given back, so their number tells the next one."""
    subjects: Map[str, Subject] = Map()
    schema_ids: Map[str, int] = Map()
    """What ``schemas`` say, the other way round. No row."""
    shards: Map[str, Shard] = Map()
    segments: Map[str, Map[int, Segment]] = Map()
    """By shard and number."""
    holding: Map[str, Map[str, int]] = Map()
    """Of each member the segments that it has a copy of: what ``segments`` say, the other way round. No row."""
    leading: Map[str, Map[str, int]] = Map()
    """Of each member the segments that it leads, and in which epoch. No row."""
    sessions: Map[str, Session] = Map()
    """By client."""
    session_owners: Map[int, SessionOwner] = Map()
    """By the member epochs that were lost."""
    wills: Map[int, HandedWill] = Map()
    """By session epoch."""
    subscriptions: Subscriptions = Subscriptions()
    """Of all sessions, by filter. No row."""
    held: Map[int, Map[str, None]] = Map()
    """Of each member epoch the clients that nobody said are gone: what ``sessions`` say, turned round. No row."""
    member_names: OrderedMap[None] = OrderedMap()
    """Keys of ``members`` in their order (``model.names``). No row."""
    shard_names: OrderedMap[None] = OrderedMap()
    """Keys of ``shards``. No row."""
    clients: OrderedMap[None] = OrderedMap()
    """Keys of ``sessions``. No row."""

    def known(self, broker_set: str) -> BrokerSet | None:
        """The set if both its halves are known (Java ``isContainsBroker``)."""
        entry = self.broker_sets.get(broker_set)
        return entry if entry is not None and entry.sync_known else None


EMPTY = State()
"""Before the first event."""
