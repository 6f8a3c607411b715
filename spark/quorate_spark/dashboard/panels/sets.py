"""Broker sets: one row each, with everything an operator asks about it."""

from bisect import bisect_right
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from quorate.model.brokers import learners
from quorate.model.state import Config, Replica
from quorate_spark.dashboard.model import AcknowledgedRole, BrokerSet, Member, said_priority
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.settings import Flapping
from quorate_spark.dashboard.soft_state import MemberSoft


class MemberRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One broker of a set."""

    id: int
    addr: str
    zone: str
    host: str
    alive: bool
    why: str
    since: int
    priority: int | None
    learner: bool
    reported: AcknowledgedRole | None
    live: MemberSoft | UnsetType = UNSET
    capabilities: dict[str, str] | UnsetType = UNSET
    """What it said of itself at its registration; left out where it said nothing, as stock brokers do."""
    topics: tuple[str, ...] | UnsetType = UNSET


class SetRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One broker set."""

    name: str
    cluster: str
    status: str
    flapping: bool
    master: int | None
    master_since: int | None
    master_offset: int | None
    epoch: int
    sync: tuple[int, ...]
    sync_epoch: int
    sync_since: int | None
    lost_at: int | None
    last_failed: int | None
    elections: int
    elections_30m: int
    touched: int
    diverged: tuple[int, ...]
    members: list[MemberRow]


class Sets(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/sets."""

    sets: list[SetRow]
    removed: list[str]
    total: int


def recent(broker_set: BrokerSet, now: int, rule: Flapping) -> int:
    """How many elections there were within the window."""
    return len(broker_set.recent) - bisect_right(broker_set.recent, now - rule.window_ms)


def status(broker_set: BrokerSet, flapping: bool) -> str:
    """One of STATUSES."""
    return "flap" if flapping and broker_set.status in ("shrunk", "full") else broker_set.status


def row(broker_set: BrokerSet, view: View) -> SetRow:
    """The set's row."""
    elections = recent(broker_set, view.now, view.flapping)
    flapping = elections >= view.flapping.elections
    labels = view.state.model.configs.get(f"broker-set/{broker_set.name}")
    soft = view.soft.members.get(broker_set.name, {}) if view.soft else {}
    model_set = view.state.model.broker_sets[broker_set.name]
    said, learning = {one.broker_id: one for one in model_set.replicas}, learners(view.state.model, model_set)
    return SetRow(
        name=broker_set.name,
        cluster=broker_set.cluster,
        status=status(broker_set, flapping),
        flapping=flapping,
        master=broker_set.master,
        master_since=broker_set.master_since,
        master_offset=broker_set.master_offset,
        epoch=broker_set.epoch,
        sync=broker_set.sync,
        sync_epoch=broker_set.sync_epoch,
        sync_since=broker_set.sync_since,
        lost_at=broker_set.lost_at,
        last_failed=broker_set.last_failed,
        elections=broker_set.elections,
        elections_30m=elections,
        touched=broker_set.touched,
        diverged=broker_set.diverged,
        members=[
            _member(member, labels, soft.get(member.id), said[member.id], learner=member.id in learning)
            for member in broker_set.members
        ],
    )


def label(labels: Config | None, what: str, broker_id: int) -> str:
    """A broker's ``zone`` or ``host`` as the log's settings name it."""
    return "" if labels is None else labels.values.get(f"{what}.{broker_id}", "")


def _member(
    member: Member, labels: Config | None, soft: MemberSoft | None, said: Replica, *, learner: bool
) -> MemberRow:
    return MemberRow(
        id=member.id,
        addr=member.addr,
        zone="" if labels is None else label(labels, "zone", member.id),
        host="" if labels is None else label(labels, "host", member.id),
        alive=member.alive,
        why=member.why,
        since=member.since,
        priority=said_priority(member.priority),
        learner=learner,
        reported=member.reported,
        live=UNSET if soft is None else soft,
        capabilities=said.capabilities or UNSET,
        topics=said.topics or UNSET,
    )


def rows(view: View, names: Iterable[str]) -> list[SetRow]:
    """The rows of those sets that are there, by name."""
    sets = view.state.sets
    return [row(sets[name], view) for name in sorted(names) if name in sets]


def sets(view: View, since: int | None = None, only: frozenset[str] | None = None) -> Sets:
    """Every set; with ``since`` those touched by events at or after it; with ``only`` of these names."""
    broker_sets = view.state.sets
    names = [name for name in broker_sets if only is None or name in only]
    gone: list[str] = []
    if since is not None:
        names = [name for name in names if broker_sets[name].touched >= since]
        index = view.log.index
        rows_ = index.removed.rows(index.removed.cut(since), index.removed.cut(view.offset))
        removals = {index.set_names.texts[number] for _, number in rows_}
        gone = sorted(name for name in removals if name not in broker_sets)
    return Sets(sets=rows(view, names), removed=gone, total=len(broker_sets))
