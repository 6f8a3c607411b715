"""The cluster in one sentence, and the reasons for it."""

from operator import attrgetter

import msgspec
from msgspec import UNSET, UnsetType

from quorate.model.words import plural
from quorate_spark.dashboard.model import STATUSES, BrokerSet
from quorate_spark.dashboard.panels.sets import recent, status
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.words import clock

REASONS_MAX = 50


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    kind: str
    """A set's status, ``diverged``, ``quorum`` or ``alarm``."""
    keys: list[str]
    text: str
    since: int | None
    offset: int | None
    """The event to look at."""
    election: bool = False
    """Is that an election, which tells why?"""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The sentence of ``quorate status``, from a node."""

    sentence: str
    healthy: bool | None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/health."""

    level: str
    sentence: str
    reasons: list[Reason]
    more: int
    counts: dict[str, int]
    brokers: int
    alive: int
    status: NodeStatus | UnsetType = UNSET


def health(view: View) -> Health:
    """The sentence, worst reasons first."""
    state = view.state
    by: dict[str, list[BrokerSet]] = {word: [] for word in STATUSES}
    flapping: list[BrokerSet] = []
    diverged: list[BrokerSet] = []
    brokers = alive = 0
    for broker_set in state.sets.values():
        flaps = recent(broker_set, view.now, view.flapping) >= view.flapping.elections
        by[status(broker_set, flaps)].append(broker_set)
        if flaps:
            flapping.append(broker_set)
        if broker_set.diverged:
            diverged.append(broker_set)
        brokers += len(broker_set.members)
        alive += broker_set.alive
    for some in (*by.values(), flapping, diverged):
        some.sort(key=attrgetter("name"))
    by["lost"].sort(key=lambda broker_set: (broker_set.lost_at or 0, broker_set.name))
    silent = _silent(view)
    reasons = [*_alarms(view), *silent, *_reasons(view, by, flapping), *map(_diverged, diverged)]
    level, sentence = _sentence(view, by, flapping, silent)
    text = view.soft.status if view.soft else ""
    return Health(
        level=level,
        sentence=sentence,
        reasons=reasons[:REASONS_MAX],
        more=max(0, len(reasons) - REASONS_MAX),
        counts={word: len(sets) for word, sets in by.items()},
        brokers=brokers,
        alive=alive,
        status=NodeStatus(sentence=text, healthy=view.soft.healthy) if view.soft and text else UNSET,
    )


def why_lost(broker_set: BrokerSet) -> str:
    """Why a set has no master."""
    if broker_set.failure:
        return broker_set.failure.removeprefix(f"{broker_set.name} has no master: ").rstrip(".")
    master = broker_set.member(broker_set.master)
    how = "gone" if master is None else f"fenced ({master.why})" if master.fenced else master.why
    return f"broker {broker_set.master} is {how}"


def _alarms(view: View) -> list[Reason]:
    """Alarms of the nodes."""
    alarms = view.soft.alarms if view.soft else ()
    return [Reason(kind="alarm", keys=[], text=alarm, since=None, offset=None) for alarm in alarms]


def _silent(view: View) -> list[Reason]:
    """Nodes that do not answer now."""
    nodes = view.soft.nodes if view.soft else {}
    return [
        Reason(kind="quorum", keys=[f"node/{number}"], text="does not answer", since=None, offset=None)
        for number, node in sorted(nodes.items())
        if not node.reachable
    ]


def _reasons(view: View, by: dict[str, list[BrokerSet]], flapping: list[BrokerSet]) -> list[Reason]:
    reasons = [
        Reason(
            kind="lost",
            keys=[broker_set.name],
            text=f"no master: {why_lost(broker_set)}",
            since=broker_set.lost_at,
            offset=broker_set.lost_offset if broker_set.last_failed is None else broker_set.last_failed,
            election=broker_set.last_failed is not None,
        )
        for broker_set in by["lost"]
    ]
    for broker_set in by["last"]:
        if broker_set not in flapping:
            text = f"only its master, broker {broker_set.master}, is in sync: the next failure stops the set"
            reason = Reason(
                kind="last", keys=[broker_set.name], text=text, since=broker_set.sync_since, offset=broker_set.touched
            )
            reasons.append(reason)
    minutes = view.flapping.window_ms // 60_000
    for broker_set in flapping:
        times = recent(broker_set, view.now, view.flapping)
        text = f"changed its master {times} times in {minutes} min"
        began = broker_set.recent[-times]
        offset = broker_set.master_offset
        reasons.append(
            Reason(
                kind="flap",
                keys=[broker_set.name],
                text=text,
                since=began,
                offset=offset,
                election=offset is not None,
            )
        )
    if shrunk := by["shrunk"]:
        names = [broker_set.name for broker_set in shrunk[:3]]
        more = f", and {len(shrunk) - 3} more" if len(shrunk) > 3 else ""
        text = f"{'runs' if len(shrunk) == 1 else 'run'} with a shrunk sync state set{more}"
        since = shrunk[0].sync_since if len(shrunk) == 1 else None
        reasons.append(Reason(kind="shrunk", keys=names, text=text, since=since, offset=shrunk[0].touched))
    return reasons


def _diverged(broker_set: BrokerSet) -> Reason:
    text = f"broker {', '.join(map(str, broker_set.diverged))} has not taken epoch {broker_set.epoch} yet"
    since, offset = broker_set.master_since, broker_set.master_offset
    return Reason(kind="diverged", keys=[broker_set.name], text=text, since=since, offset=offset)


def _sentence(
    view: View, by: dict[str, list[BrokerSet]], flapping: list[BrokerSet], silent: list[Reason]
) -> tuple[str, str]:
    state, lost, total = view.state, by["lost"], len(view.state.sets)
    if state.offset == 0:
        return "empty", "The log is empty: nothing was committed yet."
    if view.soft and view.soft.alarms:
        return "unhealthy", f"Alarm: {view.soft.alarms[0]}."
    if state.leader is None:
        return "unhealthy", "No controller was elected yet, so nothing can be decided."
    if 2 * len(silent) >= max(len(state.nodes), 1):
        return "unhealthy", f"{len(silent)} of {len(state.nodes)} controllers do not answer: there may be no majority."
    if len(lost) == 1:
        since = "" if lost[0].lost_at is None else f" since {clock(lost[0].lost_at)}"
        return "unhealthy", f"{lost[0].name} has no master{since}: {why_lost(lost[0])}."
    if lost:
        since = "" if lost[0].lost_at is None else f", since {clock(lost[0].lost_at)}"
        return "unhealthy", f"{len(lost)} of {total} broker sets have no master; {lost[0].name} for the longest{since}."
    troubles = []
    if by["last"]:
        troubles.append(plural(len(by["last"]), "set stands on one replica", "sets stand on one replica"))
    if flapping:
        troubles.append(f"{flapping[0].name} keeps changing its master")
    if troubles:
        return "degraded", f"Every set has a master, but {' and '.join(troubles)}."
    if by["shrunk"]:
        some = plural(len(by["shrunk"]), "set runs", "sets run")
        return "degraded", f"Every set has a master; {some} with a shrunk sync state set."
    if silent:
        return "degraded", f"Every set has a master; {', '.join(silent[0].keys)} does not answer."
    if not total:
        return "healthy", f"Node {state.leader.node_id} leads; no broker set is registered."
    fresh = len(by["new"])
    if fresh:
        return (
            "healthy",
            f"{total - fresh} of {total} broker sets have a master, all in full sync; {fresh} never had one.",
        )
    some = f"All {total} broker sets have" if total > 1 else "The one broker set has"
    return "healthy", f"{some} a master and a full sync state set."
