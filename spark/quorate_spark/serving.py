"""The tables of the serving store: what the Spark application answers, column by column; the one place they are told.

Rules: a row is a value that is a function of the log's first events; ``event_offset`` is the last event that touched
it. Rows are put, never taken away: what is gone says so in a column. A table is its struct: column names, types and
order are the fields', the key columns come from ``TABLES``; SQL is derived (sinks/sql.py). A store whose tables have
another shape is refused and built anew from the log. Where only a column's meaning changes, ``VERSION`` is raised.

``progress`` tells how far all of this reflects the log: its ``position`` is the number of events reflected (the offset
of the next one), for every table at once, because a batch is one transaction. Times end in ``_ms`` and are epoch
milliseconds, UTC; an event's time is the controller's word, order is by offset.
"""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

VERSION: Final = 1
"""Of these tables; kept in ``meta``."""

Json = Annotated[str, "json"]
"""A column of JSON text: TEXT in SQLite, JSON in PostgreSQL (whose JSONB takes no NUL); ``->>`` reads both."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the rows; every one tells the event it comes from."""

    event_offset: int
    """Offset of the last event that touched this row."""


class Entity(Row, frozen=True, kw_only=True):
    """Table ``entities``: the state of the cluster, one row per thing that ever was."""

    key: str
    """Key of its events: ``kind/tenant/name``, percent-encoded."""
    kind: str
    """As of its events' key: ``broker-set``, ``topic``, ``config``, ``node``, ``leader``, ``key``, ``lease``, …"""
    name: str
    """Its plain name."""
    time_ms: int
    """Time of the last event that touched it."""
    value: Json | None
    """The entity (pipelines/entities.py has one struct per kind); null = it is gone."""


class Election(Row, frozen=True, kw_only=True):
    """Table ``elections``: every decision about a master, why it fell, and how long the set was without one."""

    election_offset: int
    """Offset of the MasterElected or ElectionFailed; ``event_offset`` is larger once it was acknowledged."""
    time_ms: int
    """When it was decided."""
    term: int
    """Term of the controller that decided."""
    broker_cluster: str
    broker_set: str
    outcome: str
    """``elected`` or ``failed``."""
    first: bool
    """Had the set never had a master before?"""
    trigger_by: str
    """Its trigger: ``broker``, ``admin``, ``master lost`` or ``inactive master scan``."""
    evidence: str
    """Evidence of the loss: ``connection closed``, ``heartbeat expired``, ``shut down``, or empty."""
    cause: str
    """Cause of the record."""
    principal: str
    """Principal of the request."""
    old_master: int | None
    """Broker id of the master before; null = there was none."""
    new_master: int | None
    """Broker id of the winner; null = nobody."""
    master_address: str
    """Where the winner serves; empty = nobody, or unknown."""
    master_epoch: int
    decided_by: str
    """The rule that chose; empty when nobody was elected."""
    explanation: str
    """Why that one, or why nobody: one sentence."""
    unclean: bool
    """Was the winner outside the sync state set?"""
    candidates: Json
    """Every member with its verdict and the rule where it fell (the event's own list)."""
    candidate_count: int
    alive_count: int
    """Candidates held for alive."""
    old_sync_state_set: Json | None
    """Broker ids in sync before; null for a failed election, which changes none."""
    sync_state_set: Json | None
    """Broker ids in sync after; null likewise."""
    last_heartbeat_ms: int | None
    """When the lost broker was last heard; null = never, or nobody was lost."""
    detected_ms: int | None
    """When the controller noticed; null = nothing was detected."""
    proposed_ms: int | None
    committed_ms: int | None
    """From the acknowledgement; null until then."""
    notified_ms: int | None
    """When the first broker was told; null until the acknowledgement, or never."""
    acknowledged_ms: int | None
    """When the new master answered; null until then, or never."""
    acks_offset: int | None
    """Offset of the RoleChangeAcknowledged."""
    acks: Json | None
    """Each notified broker with its times (the event's own list)."""
    outage_offset: int | None
    """The outage this election belongs to (``outages.outage_offset``); null for a first election."""
    fault_ms: int | None
    """Start of that outage."""
    unavailable_ms: int | None
    """Fault to the new master's acknowledgement; null until then."""


class Outage(Row, frozen=True, kw_only=True):
    """Table ``outages``: from the loss of a master to the moment another one (or it) serves."""

    broker_set: str
    outage_offset: int
    """Offset of the event by which the master was lost."""
    broker_cluster: str
    lost_by: str
    """Type of that event; ``MasterElected`` = the election that replaced it is all that tells of the loss."""
    lost_master: int
    """Broker id."""
    evidence: str
    fault_ms: int
    """The close of its connection, its last heartbeat when it fell silent, else the time of the event."""
    fault_estimated: bool
    """Is ``fault_ms`` a last heartbeat?"""
    detected_ms: int
    failed_elections: int
    """Elections in between that found nobody."""
    ended_by: str | None
    """``elected``, ``returned`` (the lost master came back, still the master) or ``forgotten`` (the set was cleaned);
    null = there is no master."""
    ended_offset: int | None
    ended_ms: int | None
    """Time of the event that ended it."""
    acknowledged_ms: int | None
    """When the elected one answered; null until then, or when it never did."""
    serving_ms: int | None
    """From when a master surely served: the acknowledgement, or ``ended_ms`` for one that returned; null until then."""
    unavailable_ms: int | None
    """``serving_ms`` - ``fault_ms``."""


class Availability(Row, frozen=True, kw_only=True):
    """Table ``availability``: the timeline of each broker, in intervals; in a gap the set did not know its id."""

    broker_set: str
    broker_id: int
    from_offset: int
    """Offset of the event that began the interval."""
    broker_cluster: str
    status: str
    """``applied`` (it has an id and is not registered yet), ``up`` (registered, not fenced) or ``fenced``."""
    evidence: str
    """Why it is fenced; else empty."""
    from_ms: int
    """Time of the event that began it."""
    last_heartbeat_ms: int | None
    """Of a fenced one; null = never heard, or not fenced."""
    to_offset: int | None
    """Offset of the event that ended it; null = it lasts."""
    to_ms: int | None


class SyncChange(Row, frozen=True, kw_only=True):
    """Table ``sync_changes``: every change of a sync state set."""

    time_ms: int
    broker_cluster: str
    broker_set: str
    direction: str
    """``shrink``, ``expand`` or ``replace`` (some left and some came)."""
    by_event: str
    """Type of the event."""
    old_set: Json
    """Broker ids in sync before, by rising id."""
    new_set: Json
    left_set: Json
    """Broker ids that left."""
    joined_set: Json
    """Broker ids that came."""
    sync_state_set_epoch: int
    """Epoch of the set after; 0 = the set is gone."""


class Flapping(Row, frozen=True, kw_only=True):
    """Table ``flapping``: how often masters change; one row per name of a set that ever had a master."""

    broker_set: str
    broker_cluster: str
    elections: int
    """Masters elected in the window that ends with the last of them."""
    window_ms: int
    threshold: int
    """So many in a window are flapping."""
    since_ms: int | None
    """Time of the first election of the window; null = it does not flap."""
    until_ms: int | None
    """If nothing happens it is calm from then on: compare with now, or with the time of the offset asked for."""


class Term(Row, frozen=True, kw_only=True):
    """Table ``terms``: the reign of each controller leader."""

    term: int
    node_id: int
    cause: str
    """What the winner saw: ``first start``, ``connection closed``, ``silent`` or ``handed over``."""
    previous_leader: int | None
    silent_for_ms: int
    from_offset: int
    """Offset of its ControllerLeaderElected."""
    from_ms: int
    to_offset: int | None
    """Offset of the next one's; null = it leads."""
    to_ms: int | None


class LeaseLife(Row, frozen=True, kw_only=True):
    """Table ``leases``: the life of each lease, from its grant to its end."""

    granted_offset: int
    """Offset of its LeaseGranted; a number may be given again later."""
    lease: str
    """Its number as ``etcdctl`` prints it: hexadecimal, unsigned."""
    ttl_s: int
    """How long it lives without a word from its holder."""
    principal: str
    """Who asked for it."""
    granted_ms: int
    checkpoints: int
    """How often what was left of it was written down, or it was heard after that."""
    ended_by: str | None
    """``expired`` or ``revoked``; null = it lives."""
    ended_offset: int | None
    ended_ms: int | None
    silent_ms: int | None
    """How long its holder had not been heard when it ended; 0 for one that was revoked."""
    keys: int | None
    """How many keys went with it."""


class Audit(Row, frozen=True, kw_only=True):
    """Table ``audit``: every event, with who and why; its rows are gapless up to ``progress.position``."""

    term: int
    time_ms: int
    type: str
    key: str
    principal: str
    cause: str
    request_id: str
    schema_id: int
    event: Json
    """The decoded record, field names as in its schema."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Table ``progress``: one row per streaming query; how far, how fresh, how well."""

    name: str
    """``serving`` (all tables above) or ``archive`` (the Delta table)."""
    query_id: str
    """Spark's id of the query: lives as long as its checkpoint."""
    batch_id: int
    """The last batch that was applied; -1 = none yet."""
    position: int
    """Events reflected: the offset of the next one."""
    last_event_ms: int | None
    """Time of the last event reflected."""
    applied_ms: int
    """When that batch was applied, by the driver's clock."""
    seen_ms: int
    """When the driver last saw the query alive; older than some seconds = down."""
    state: str
    """``running``, ``restarting``, ``halted`` (it needs somebody) or ``stopped``."""
    message: str
    """The last error; empty = none."""


@dataclass(frozen=True)
class Table:
    """A table of the store, by its struct."""

    name: str
    row: type[Row]
    key: tuple[str, ...]


TABLES: Final = (
    Table("entities", Entity, ("key",)),
    Table("elections", Election, ("election_offset",)),
    Table("outages", Outage, ("broker_set", "outage_offset")),
    Table("availability", Availability, ("broker_set", "broker_id", "from_offset")),
    Table("sync_changes", SyncChange, ("event_offset",)),
    Table("flapping", Flapping, ("broker_set",)),
    Table("terms", Term, ("term",)),
    Table("leases", LeaseLife, ("granted_offset",)),
    Table("audit", Audit, ("event_offset",)),
)
"""Every table with rows of the log. Beside them: ``progress``, ``guards`` (query_id, batch_id) and ``meta``."""

BY_ROW: Final = {table.row: table for table in TABLES}


def key_of(row: Row) -> tuple[object, ...]:
    """The key of a row within its table."""
    return tuple(getattr(row, name) for name in BY_ROW[type(row)].key)
