"""What ``/v1`` answers, as types; ``/openapi.json`` is made from them.

Rules: every answer carries ``offset`` (events it reflects: those before it), ``time_ms`` (Unix ms of the last of them)
and ``node`` (who answered). A list carries ``next``: the ``after`` of the next page, null on the last. Names are
RocketMQ's for brokers, Raft's for nodes, Kafka's for the log. A field, once there, keeps name and meaning.
"""

from typing import Literal

import msgspec

from quorate.events import ElectionFailed, Event, MasterElected
from quorate.metadata.balance import Move
from quorate.metadata.commands import Reply
from quorate.metadata.segment_balance import SegmentMove
from quorate.metadata.session_balance import HandOver
from quorate.metadata.whatif import QuorumAfter, SetRow
from quorate.model.diff import Change


class StampedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The stamp of every answer."""

    offset: int
    """Events before this one are reflected."""
    time_ms: int
    """When the last of them was decided; Unix milliseconds."""
    node: int
    """Which node answered."""
    past: bool = False
    """Asked with ``at``: what only heartbeats and connections tell (alive, ready, connected, …) is null."""


class BrokerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers in figures."""

    sets: int
    without_master: int
    """Sets that have members and no master."""
    replicas: int
    alive: int | None
    """Replicas this node hears, or heard a moment ago."""


class Status(StampedAnswer, frozen=True, kw_only=True):
    """The state of the cluster in one sentence, and the figures behind it."""

    sentence: str
    """The cluster in one sentence."""
    healthy: bool
    """A leader is known, this node serves, every set with members has a master, and there is no alarm."""
    cluster_id: str
    version: str
    role: str | None
    """``leader``, ``follower``, ``candidate`` (no leader known) or ``not voting``."""
    leader: int | None
    term: int
    voters: int
    voters_connected: int | None
    """Voters this node can reach, itself included."""
    feature_level: int
    brokers: BrokerCounts
    topics: int
    keys: int = 0
    leases: int = 0
    members: int = 0
    """Those that registered; RocketMQ's brokers are not among them."""
    schemas: int = 0
    """Of other services; the log's own are not among them."""
    subjects: int = 0
    """Theirs."""
    shards: int = 0
    segments: int = 0
    """Of all shards."""
    sessions: int = 0
    """Persistent sessions of MQTT."""
    wills: int = 0
    """Decided and not acknowledged."""
    ready: bool | None
    election_timeout_ms: int | None = None
    """The smallest in force at this node: how long a silent leader is waited for; it grows with what the node lags."""
    alarms: list[str] | None = None
    """Troubles that no figure shows, such as nodes whose state differs; null in the past."""
    overruled: list[str] | None = None
    """Which settings of the node itself the log overrules; null in the past."""
    python: str = ""
    """What the answering node runs on: which Python, and whether it was compiled with optimisation."""
    leaf: str = ""
    """``native`` (what is done to bytes for every commit is done in C), or ``pure`` and why."""
    journal_sync: str | None = None
    """Who makes its journal durable now: ``kernel`` (beside the node, AIO) or ``thread``; null in the past."""
    grpc: str = ""
    """Where the answering node speaks gRPC; empty: nowhere."""


class QuorumMember(msgspec.Struct, frozen=True, kw_only=True):
    """One voter."""

    id: int
    leader: bool
    connected: bool | None
    """Can the answering node reach it? Always true of itself."""
    rpc: str
    raft: str
    kafka: str
    http: str
    grpc: str = ""
    """By the settings of the node that answers; empty: nowhere."""
    version: str
    """Of its last start; empty when that is not recorded yet."""
    started_ms: int
    dir_uuid: str


class LeaseItem(msgspec.Struct, frozen=True, kw_only=True):
    """One lease."""

    lease: str
    """Its number as ``etcdctl`` prints it: hexadecimal, unsigned."""
    ttl_s: int
    granted_ms: int
    remaining_s: int
    """What was left when a leader last wrote it down; 0: all of it."""
    keys: int
    """How many go with it."""
    left_ms: int | None
    """Until it expires; null where nobody knows: from a node that does not lead, and in the past."""


class Leases(StampedAnswer, frozen=True, kw_only=True):
    """Those leases that were asked for and are there; or all of them by number."""

    leases: list[LeaseItem]
    next: str | None


class Quorum(StampedAnswer, frozen=True, kw_only=True):
    """Who votes, who leads, how far this node is."""

    cluster_id: str
    leader: int | None
    term: int
    role: str | None
    voting: bool | None
    commit_index: int | None
    applied_index: int | None
    leader_since_ms: int
    leader_cause: str
    voters: list[QuorumMember]


class ReplicaAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of a set."""

    broker_id: int
    address: str
    registered: bool
    fenced: bool
    in_sync: bool
    alive: bool | None
    """As the answering node hears it; null: never heard."""
    last_heartbeat_ms: int | None
    epoch: int | None
    """Master epoch it last reported."""
    max_offset: int | None
    """End of its commit log, bytes, as last reported."""
    confirm_offset: int | None
    priority: int | None
    capabilities: dict[str, str] = {}
    """What it said of itself at its registration (1003)."""
    topics: tuple[str, ...] = ()
    """And which topics it holds; stock brokers say neither."""
    registration_epoch: int = 0
    """The offset at which the process that serves now registered; 0: it does not count its lives."""


class LastElection(msgspec.Struct, frozen=True, kw_only=True):
    """The last election of a set; ``/v1/elections/{offset}`` has every candidate."""

    offset: int
    time_ms: int
    trigger: str
    decided_by: str
    explanation: str
    acknowledged: bool


class BrokerSetItem(msgspec.Struct, frozen=True, kw_only=True):
    """One broker set."""

    broker_set: str
    cluster: str
    master: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    replicas: list[ReplicaAnswer]
    election: LastElection | None


class BrokerSetAnswer(StampedAnswer, frozen=True, kw_only=True):
    """One broker set."""

    broker_set: BrokerSetItem


class BrokerSets(StampedAnswer, frozen=True, kw_only=True):
    """Broker sets by name."""

    brokers: list[BrokerSetItem]
    next: str | None


class TopicItem(msgspec.Struct, frozen=True, kw_only=True):
    """One topic's configuration."""

    topic: str
    read_queues: int
    write_queues: int
    permission: int
    filter_type: str
    system_flags: int
    order: bool
    attributes: dict[str, str]


class TopicAnswer(StampedAnswer, frozen=True, kw_only=True):
    """One topic."""

    topic: TopicItem


class Topics(StampedAnswer, frozen=True, kw_only=True):
    """Topics by name."""

    topics: list[TopicItem]
    next: str | None


class DataVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Which version of its topics a broker told (Java ``DataVersion``)."""

    state_version: int
    """The master epoch of then."""
    timestamp_ms: int
    counter: int


class AnnouncedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker as it announced itself to the node that answers, as to a name server (103)."""

    broker_id: int
    """0 is the master's."""
    address: str
    ha_address: str
    silent_for_ms: int
    """How long ago it was heard."""
    version: DataVersion


class BrokerTopics(StampedAnswer, frozen=True, kw_only=True):
    """Which topics a broker set has, as its brokers told the node that answers; soft, as in a name server. Where none
    did: the names that are in the log.
    """

    broker_set: str
    source: Literal["brokers", "log"]
    """Who says so: brokers told this node, or they said the names at their registration (1003)."""
    names: list[str]
    brokers: list[AnnouncedBroker]
    version: DataVersion | None
    """Of the topics; null: nobody has told this node any."""
    topics: list[TopicItem]
    """Of these names, where brokers told this node."""
    next: str | None


class HealthItem(msgspec.Struct, frozen=True, kw_only=True):
    """How a member says it is, in its heartbeats; 0: it does not say."""

    disk_used_bytes: int
    disk_total_bytes: int
    cpu_percent: int
    memory_percent: int
    io_errors: int


class MemberItem(msgspec.Struct, frozen=True, kw_only=True):
    """A service that registered; or a broker of RocketMQ, which has no incarnation and no epoch."""

    name: str
    state: str
    """``active``, ``fenced`` or ``draining``."""
    incarnation: str
    epoch: int
    roles: tuple[str, ...]
    addresses: dict[str, str]
    labels: dict[str, str]
    timeout_ms: int
    draining: bool
    may_leave: bool
    """It is draining, and nothing keeps it any more."""
    changed_ms: int
    stays_for: str = ""
    """What keeps one that is draining."""
    last_heard_ms: int | None = None
    """As the node that answers heard it, if it leads; null: it does not, or never did."""
    health: HealthItem | None = None


class MemberAnswer(StampedAnswer, frozen=True, kw_only=True):
    """One member."""

    member: MemberItem


class Members(StampedAnswer, frozen=True, kw_only=True):
    """Members and brokers by name."""

    members: list[MemberItem]
    next: str | None


class ShardItem(msgspec.Struct, frozen=True, kw_only=True):
    """A shard of the journal."""

    shard: str
    epoch: int
    """The offset of its creation."""
    replication: int
    min_in_sync: int
    spread: str
    require: dict[str, str]
    deleting: bool
    segments: int


class SegmentItem(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of a shard: who has copies, who leads, who is in sync."""

    segment: str
    start_offset: int
    end_offset: int | None
    """Null: it is not sealed."""
    copies: tuple[str, ...]
    """Members, in the order of preference."""
    leader: str
    """Empty: its copy is deleted."""
    member_epoch: int
    leader_epoch: int
    """The offset of the event that made it leader."""
    in_sync: dict[str, int]
    """By member, the epoch of the life that is in sync."""
    set_epoch: int
    level: str
    """``green``, ``yellow`` (fewer copies in sync than wanted) or ``red`` (too few, or no leader)."""
    reasons: tuple[str, ...]
    why: str
    """How its last election came to be; empty: who led first leads."""


class Shards(StampedAnswer, frozen=True, kw_only=True):
    """Shards by name."""

    shards: list[ShardItem]
    next: str | None


class ShardAnswer(StampedAnswer, frozen=True, kw_only=True):
    """One shard, and its segments by number."""

    shard: ShardItem
    segments: list[SegmentItem]
    next: str | None


class WillItem(msgspec.Struct, frozen=True, kw_only=True):
    """What is published for a client that is lost."""

    topic: str
    payload_bytes: int
    qos: int
    retain: bool
    delay_s: int


class SubscriptionItem(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants."""

    filter: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int
    """0: none."""


class SessionItem(msgspec.Struct, frozen=True, kw_only=True):
    """A persistent session of MQTT."""

    client: str
    member: str
    """Who has the client, or had it last."""
    member_epoch: int
    member_lives: bool
    session_epoch: int
    opened_ms: int
    connected: bool
    disconnected_ms: int | None
    """Since when its client is gone, by its member's word or because that was lost; null: it is connected."""
    expiry_s: int | None
    """How long it outlives its connection; null: for ever."""
    ends_ms: int | None
    """When it expires; null: it is connected, or never does."""
    will: WillItem | None
    """Null: there is none, or it was decided."""
    subscriptions: list[SubscriptionItem]


class SessionAnswer(StampedAnswer, frozen=True, kw_only=True):
    """One session."""

    session: SessionItem


class Sessions(StampedAnswer, frozen=True, kw_only=True):
    """Sessions by client."""

    sessions: list[SessionItem]
    next: str | None


class HandedWillItem(msgspec.Struct, frozen=True, kw_only=True):
    """A will that was decided, and is not known to be published."""

    will: int
    """Its number: the epoch of the session that brought it."""
    client: str
    topic: str
    payload_bytes: int
    qos: int
    retain: bool
    member: str
    """Who is to publish it; empty: nobody can yet."""
    member_epoch: int
    member_lives: bool
    """If not, it will be another's in a moment."""
    handed_ms: int


class Wills(StampedAnswer, frozen=True, kw_only=True):
    """Wills by number: the oldest first."""

    wills: list[HandedWillItem]
    next: str | None


class ConfigItem(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one scope."""

    scope: str
    values: dict[str, str]


class ConfigAnswer(StampedAnswer, frozen=True, kw_only=True):
    """The settings of one scope."""

    config: ConfigItem


class Configs(StampedAnswer, frozen=True, kw_only=True):
    """Scopes by name."""

    config: list[ConfigItem]
    next: str | None


class SettingItem(msgspec.Struct, frozen=True, kw_only=True):
    """One setting that is in force at a node."""

    name: str
    value: str
    source: str
    """``default``, or which file, environment variable, flag, scope of the log or other setting said so."""


class Settings(StampedAnswer, frozen=True, kw_only=True):
    """The settings in force at the node that answers."""

    settings: list[SettingItem]


class ElectionItem(msgspec.Struct, frozen=True, kw_only=True):
    """The last election of one set."""

    broker_set: str
    cluster: str
    master: int | None
    master_epoch: int
    election: LastElection


class Elections(StampedAnswer, frozen=True, kw_only=True):
    """The last election of every set that had one, by name of the set."""

    elections: list[ElectionItem]
    next: str | None


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event with its stamp."""

    offset: int
    term: int
    time_ms: int
    type: str
    key: str
    principal: str
    cause: str
    request_id: str
    event: Event


class ElectionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One election: who could have been master, and why it was that one."""

    offset: int
    term: int
    time_ms: int
    principal: str
    cause: str
    event: MasterElected | ElectionFailed


class ElectionAnswer(StampedAnswer, frozen=True, kw_only=True):
    """One election in full."""

    election: ElectionEvent


class Log(StampedAnswer, frozen=True, kw_only=True):
    """A piece of the log; ``next`` is the ``from`` of the next piece, null at the end."""

    events: list[LogEvent]
    end_offset: int
    next: int | None


class StateHash(StampedAnswer, frozen=True, kw_only=True):
    """What the rows of the state add up to (docs/adr/0052), 64 hexadecimal digits each."""

    rows: str
    """Over the entities: equal on all nodes at equal ``offset``, now as in the past."""
    index: int | None
    """Of the last Raft entry that ``hash`` reflects; null in the past."""
    hash: str | None
    """Over the entities, remembered requests and what consumer groups keep: equal on all nodes at equal ``index``; null
    in the past, where only the entities are known."""
    feature_level: int


class NodeLevels(msgspec.Struct, frozen=True, kw_only=True):
    """What one voter said at its last start; null: it has never started."""

    id: int
    feature_min: int | None
    feature_max: int | None


class Feature(StampedAnswer, frozen=True, kw_only=True):
    """The feature level in force, and what it may be raised to."""

    level: int
    highest: int
    """The greatest level every voter can read."""
    nodes: list[NodeLevels]


class WhatIfAnswer(StampedAnswer, frozen=True, kw_only=True):
    """What would become of the broker sets that something fails of; ``quorum``: of the controllers."""

    quorum: QuorumAfter
    rows: list[SetRow]


class Balance(StampedAnswer, frozen=True, kw_only=True):
    """Which masters would move now, and how many each place leads before and after that; the same of the leaders of
    open segments, by member; and which members have more clients than their share.
    """

    by: Literal["leader", "follower"]
    """A follower does not know whose disk is full: what is carried out is the plan of a leader."""
    moves: tuple[Move, ...]
    before: dict[str, int]
    after: dict[str, int]
    segments: tuple[SegmentMove, ...] = ()
    segments_before: dict[str, int] = {}
    segments_after: dict[str, int] = {}
    hand_over: tuple[HandOver, ...] = ()


class Diff(StampedAnswer, frozen=True, kw_only=True):
    """What changed between two offsets; ``offset`` is the later one."""

    start: int
    """The earlier offset (``from``)."""
    start_time_ms: int
    entities: list[Change]
    """A page, by ``key``."""
    entity_count: int
    next: str | None
    """The ``after`` of the next page of entities; null on the last."""
    event_count: int
    events: list[LogEvent]
    """A page of the events between."""
    events_next: int | None
    """The ``events_from`` of the next page of events; null on the last."""


class Done(StampedAnswer, frozen=True, kw_only=True):
    """A command was committed; read with ``min_offset=offset`` to see it anywhere."""

    repeated: bool
    """The reply is that of an earlier run of the same ``Idempotency-Key``; nothing was run again."""
    reply: Reply
    """What the command answers, by its type."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why not."""

    code: str
    """``invalid``, ``denied``, ``cross_origin``, ``not_found``, ``method_not_allowed``, ``refused``, ``too_large``,
    ``not_json``, ``beyond_end``, ``wrong_host``, ``throttled``, ``head_too_large``, ``busy``, ``unavailable``,
    ``behind``, ``unknown_outcome``, ``unknown_version``, ``no_room`` or ``internal`` (docs/http.md)."""
    message: str
    reason: str = ""
    """The refusal's own name, e.g. ``StaleMasterEpoch``."""
    leader: int | None = None
    end_offset: int | None = None
    """Where the log ends (``beyond_end``), or how far this node is (``behind``)."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Every answer with a status of 400 or more, outside the registry."""

    error: Trouble


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a probe; ``checks``: name → is it so?"""

    ok: bool
    checks: dict[str, bool]
    message: str
