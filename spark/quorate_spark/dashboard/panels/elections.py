"""Elections: the list with its figures by kind, and one of them from trigger to acknowledgement."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from quorate.events import BrokerFenced, Candidate, ElectionFailed, Event, MasterElected, RoleChangeAcknowledged
from quorate.model.brokers import values_in_force
from quorate.model.election_words import (
    AnyElection,
    Column,
    asker,
    because,
    caveat,
    columns,
    headline,
    kind_words,
    rule_words,
    verdict,
)
from quorate_spark.dashboard.index import ElectionRow
from quorate_spark.dashboard.model import BrokerSet, State, said_priority
from quorate_spark.dashboard.panels.sets import label
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.spool import Fact

ALIKE_MAX = 1_000
"""The latest elections of a kind that its figures are made of."""


class ElectionItem(msgspec.Struct, frozen=True, kw_only=True):
    """One election in a list."""

    offset: int
    t: int
    set: str
    type: str
    kind: str
    kind_words: str
    trigger: str
    evidence: str
    first: bool
    from_: int | None = msgspec.field(name="from")
    to: int | None
    epoch: int
    decided_by: str
    rule_words: str
    unclean: bool
    candidates: int
    alive: int
    fault_at: int | None
    fault_estimated: bool | None
    """Null: not told (by the serving store)."""
    acked_at: int | None
    unavailable_ms: int | None


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """How long elections of a kind left their set without a master, fault to acknowledgement."""

    kind: str
    kind_words: str
    n: int
    """Acknowledged ones the figures are made of."""
    failed: int
    p50_ms: int | None
    p90_ms: int | None
    max_ms: int | None


class Elections(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/elections."""

    elections: list[ElectionItem]
    next: int | None
    kinds: list[Kind]


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's answer to the notice of its role; null: it was never sent, or never answered."""

    broker: int
    notified_at: int | None
    at: int | None


class CandidateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One member as the election saw it."""

    id: int
    alive: bool
    in_sync: bool
    learner: bool
    epoch: int
    max_offset: int
    confirm_offset: int
    priority: int | None
    verdict: str
    out_by: str
    verdict_words: str
    zone: str
    addr: str


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The set before or after."""

    master: int | None
    epoch: int
    sync: tuple[int, ...]
    sync_epoch: int
    alive: list[int]
    offset: int
    """As of which offset."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force, as far as the log has them; null: not set in the log."""

    unclean: bool | None


class ElectionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/elections/{offset}."""

    offset: int
    base: int
    set: str
    type: str
    kind: str
    kind_words: str
    trigger: str
    evidence: str
    first: bool
    cause: str
    principal: str
    term: int
    explanation: str
    asker: str
    headline: str
    because: str
    caveat: str
    """What is to be known about it; mostly empty."""
    fault_at: int | None
    fault_estimated: bool
    last_heartbeat_at: int | None
    detected_at: int | None
    proposed_at: int | None
    committed_at: int | None
    notified_at: int | None
    acks_offset: int | None
    acks: list[Ack]
    candidates: list[CandidateRow]
    columns: list[Column]
    decided_by: str
    unclean: bool
    policy: Policy
    before: Side
    after: Side
    phases: dict[str, int | None]
    medians: dict[str, int | None]
    medians_of: int
    earlier: int | None
    later: int | None


def kind_of(evidence: str, trigger: str) -> str:
    """The kind of an election: its evidence, or else its trigger."""
    return evidence or trigger


PHASES = ("detect", "propose", "commit", "notify", "ack", "total")


def phases(row: ElectionRow) -> dict[str, int | None]:
    """How long each step took, in milliseconds; null where a time is not known."""
    steps = (
        (row.fault, row.detected),
        (row.detected, row.proposed),
        (row.proposed, row.committed),
        (row.committed, row.notified),
        (row.notified, row.acked),
        (row.fault, row.acked),
    )
    took = (None if a is None or b is None else max(b - a, 0) for a, b in steps)
    return dict(zip(PHASES, took, strict=True))


def _median(values: Iterable[int | None]) -> int | None:
    numbers = sorted(value for value in values if value is not None)
    return numbers[(len(numbers) - 1) // 2] if numbers else None


def _part(values: list[int], share: float) -> int | None:
    """The smallest value that a share of the (sorted) values does not exceed."""
    return values[max(0, -int(-len(values) * share // 1) - 1)] if values else None


def elections(
    view: View,
    *,
    only: str | None = None,
    kind: str | None = None,
    before: int | None = None,
    after: int | None = None,
    first: bool = False,
    limit: int = 100,
) -> Elections:
    """A page of them, newest first; with ``after`` the next ones after an event, oldest first."""
    index = view.log.index
    rows = (index.election_at(offset) for offset in _offsets(view, only, before, after))
    wanted = (
        row.as_of(view.offset)
        for row in rows
        if row is not None and (first or not row.first) and (kind is None or index.kind_names.texts[row.kind] == kind)
    )
    page = list(islice(wanted, limit + 1))
    more = page[limit - 1].offset if len(page) > limit else None
    return Elections(elections=[_item(view, row) for row in page[:limit]], next=more, kinds=kinds(view))


def _offsets(view: View, only: str | None, before: int | None, after: int | None) -> Iterator[int]:
    """Offsets of elections (of one set), newest first; with ``after`` oldest first."""
    index = view.log.index
    if only is not None and only not in index.lanes:
        return iter(())
    table = index.elections if only is None else index.lanes[only].elections
    count = table.cut(view.offset)
    if after is not None:
        return (table.get(number, 0) for number in range(min(table.cut(after + 1), count), count))
    stop = count if before is None else min(count, table.cut(before))
    return (table.get(number, 0) for number in range(stop - 1, -1, -1))


def _item(view: View, row: ElectionRow) -> ElectionItem:
    event = _election(view.log.spool.fact(row.offset).event)
    kind = view.log.index.kind_names.texts[row.kind]
    decided_by = event.decided_by if isinstance(event, MasterElected) else ""
    return ElectionItem(
        offset=row.offset,
        t=row.t,
        set=event.broker_set,
        type=type(event).__name__,
        kind=kind,
        kind_words=kind_words(kind),
        trigger=event.trigger,
        evidence=event.evidence,
        first=row.first,
        from_=row.old,
        to=row.new,
        epoch=event.master_epoch,
        decided_by=decided_by,
        rule_words=rule_words(decided_by),
        unclean=isinstance(event, MasterElected) and event.unclean,
        candidates=len(event.candidates),
        alive=sum(candidate.alive for candidate in event.candidates),
        fault_at=row.fault,
        fault_estimated=row.estimated,
        acked_at=row.acked,
        unavailable_ms=row.unavailable_ms,
    )


def _election(event: Event) -> AnyElection:
    if not isinstance(event, MasterElected | ElectionFailed):
        raise TypeError(type(event).__name__)
    return event


def kinds(view: View) -> list[Kind]:
    """Figures of every kind that was seen, by its name."""
    index, figures = view.log.index, []
    for number, name in enumerate(tuple(index.kind_names.texts)):
        rows = [row for row in index.alike(number, view.offset, ALIKE_MAX) if not row.first]
        if rows:
            took = sorted(ms for row in rows if (ms := row.unavailable_ms) is not None)
            figures.append(
                Kind(
                    kind=name,
                    kind_words=kind_words(name),
                    n=len(took),
                    failed=sum(row.failed for row in rows),
                    p50_ms=_part(took, 0.5),
                    p90_ms=_part(took, 0.9),
                    max_ms=took[-1] if took else None,
                )
            )
    return sorted(figures, key=lambda kind: kind.kind)


def election(view: View, row: ElectionRow, lost: State, before: State, after: State) -> ElectionDetail:
    """One election, as of the view. ``lost``: the state before its set lost its master; ``before`` and ``after`` it."""
    row = row.as_of(view.offset)
    spool, index = view.log.spool, view.log.index
    fact = spool.fact(row.offset)
    event = _election(fact.event)
    alike = [
        other for other in index.alike(row.kind, view.offset, ALIKE_MAX) if other.acked is not None and not other.first
    ]
    steps = [phases(other) for other in alike]
    acks = _acks(None if row.ack_offset is None else spool.fact(row.ack_offset))
    earlier, later = _neighbours(view, row)
    policy = _unclean(before, event.broker_set)
    return ElectionDetail(
        offset=row.offset,
        base=lost.offset,
        set=event.broker_set,
        type=type(event).__name__,
        kind=index.kind_names.texts[row.kind],
        kind_words=kind_words(index.kind_names.texts[row.kind]),
        trigger=event.trigger,
        evidence=event.evidence,
        first=row.first,
        cause=fact.stamp.cause,
        principal=fact.stamp.principal,
        term=fact.stamp.term,
        explanation=event.explanation,
        asker=asker(event.trigger),
        headline=headline(event),
        because=because(event),
        caveat=caveat(event, policy),
        fault_at=row.fault,
        fault_estimated=row.estimated,
        last_heartbeat_at=event.last_heartbeat_ms or None,
        detected_at=row.detected,
        proposed_at=row.proposed,
        committed_at=row.committed,
        notified_at=row.notified,
        acks_offset=row.ack_offset,
        acks=acks,
        candidates=[_candidate(candidate, before, event) for candidate in event.candidates],
        columns=columns(event),
        decided_by=event.decided_by if isinstance(event, MasterElected) else "",
        unclean=isinstance(event, MasterElected) and event.unclean,
        policy=Policy(unclean=policy),
        before=_side(lost, event.broker_set),
        after=_side(after, event.broker_set),
        phases=phases(row),
        medians={name: _median(step[name] for step in steps) for name in PHASES},
        medians_of=len(steps),
        earlier=earlier,
        later=later,
    )


def base_of(view: View, row: ElectionRow) -> int:
    """The event by which the set lost the master this election replaces, if decided together with it; else itself."""
    if row.lost_offset is None or row.lost_offset >= row.offset:
        return row.offset
    lost = view.log.spool.fact(row.lost_offset).event
    together = isinstance(lost, BrokerFenced) and lost.detected_ms == row.detected
    return row.lost_offset if together else row.offset


def _acks(fact: Fact | None) -> list[Ack]:
    if fact is None or not isinstance(fact.event, RoleChangeAcknowledged):
        return []
    return [
        Ack(broker=ack.broker_id, notified_at=ack.notified_ms or None, at=ack.acknowledged_ms or None)
        for ack in fact.event.acks
    ]


def _candidate(seen: Candidate, state: State, event: AnyElection) -> CandidateRow:
    own_set = state.sets.get(event.broker_set)
    member = own_set.member(seen.broker_id) if own_set else None
    labels = state.model.configs.get(f"broker-set/{event.broker_set}")
    return CandidateRow(
        id=seen.broker_id,
        alive=seen.alive,
        in_sync=seen.in_sync,
        learner=seen.learner,
        epoch=seen.epoch,
        max_offset=seen.max_offset,
        confirm_offset=seen.confirm_offset,
        priority=said_priority(seen.priority),
        verdict=seen.verdict,
        out_by=seen.out_by,
        verdict_words=verdict(seen, event),
        zone=label(labels, "zone", seen.broker_id),
        addr=member.addr if member else "",
    )


def _unclean(state: State, broker_set: str) -> bool | None:
    """``enableElectUncleanMaster`` as the narrowest scope of the log says; the nodes' own files are not in the log."""
    value = values_in_force(state.model, broker_set).get("enableElectUncleanMaster")
    return None if value is None else value == "true"


def _side(state: State, name: str) -> Side:
    broker_set = state.sets.get(name) or BrokerSet(name=name, cluster="")
    return Side(
        master=broker_set.master,
        epoch=broker_set.epoch,
        sync=broker_set.sync,
        sync_epoch=broker_set.sync_epoch,
        alive=[member.id for member in broker_set.members if member.alive],
        offset=state.offset,
    )


def _neighbours(view: View, row: ElectionRow) -> tuple[int | None, int | None]:
    """The elections before and after it, first ones left out."""
    index = view.log.index
    number, count = index.elections_before(row.offset), index.elections_before(view.offset)
    sooner = (index.election(one) for one in range(number - 1, -1, -1))
    later = (index.election(one) for one in range(number + 1, count))
    offsets = [next((one.offset for one in some if not one.first), None) for some in (sooner, later)]
    return offsets[0], offsets[1]
