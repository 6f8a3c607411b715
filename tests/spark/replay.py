"""The oracle: what each table of the serving store must hold after the first N events, by a plain replay.

Rules: imports neither the folds nor the SQL. State is the controller's own (``model.evolve``); intervals and changes
are found by comparing the states before and after each event; outages are the runs of events without a serving master.
JSON columns are values here. Tables are key → columns.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

from quorate import events as e
from quorate.events import Event, Stamp
from quorate.model.evolve import evolve
from quorate.model.state import EMPTY, BrokerSet, State

Facts = Sequence[tuple[Stamp, Event]]
Rows = dict[str, dict[Any, dict[str, Any]]]
WINDOW_MS, TOO_MANY = 30 * 60 * 1000, 4


def replay(facts: Facts) -> Rows:
    """Every table after these events, which are the first ones of the log."""
    states = [EMPTY]
    for stamp, event in facts:
        states.append(evolve(states[-1], event, stamp))
    return {
        "audit": _audit(facts),
        "terms": _terms(facts),
        "entities": _entities(facts, states[-1]),
        "sync_changes": _sync_changes(facts, states),
        "availability": _availability(facts, states),
        "flapping": _flapping(facts),
        "leases": _leases(facts),
        **_elections(facts, states),
    }


def _plain(value: Any) -> Any:
    found = msgspec.json.decode(msgspec.json.encode(value))
    if isinstance(found, dict):
        found.pop("type", None)
    return found


def _audit(facts: Facts) -> dict[Any, dict[str, Any]]:
    return {
        stamp.offset: {
            "event_offset": stamp.offset,
            "term": stamp.term,
            "time_ms": stamp.time_ms,
            "type": type(event).__name__,
            "key": e.key(event).decode(),
            "principal": stamp.principal,
            "cause": stamp.cause,
            "request_id": stamp.request_id,
            "schema_id": e.schema_id(type(event)),
            "event": _plain(event),
        }
        for stamp, event in facts
    }


def _terms(facts: Facts) -> dict[Any, dict[str, Any]]:
    led = [(stamp, event) for stamp, event in facts if isinstance(event, e.ControllerLeaderElected)]
    found = {}
    for at, (stamp, event) in enumerate(led):
        following = led[at + 1][0] if at + 1 < len(led) else None
        found[stamp.term] = {
            "event_offset": following.offset if following else stamp.offset,
            "term": stamp.term,
            "node_id": event.node_id,
            "cause": event.cause,
            "previous_leader": event.previous_leader,
            "silent_for_ms": event.silent_for_ms,
            "from_offset": stamp.offset,
            "from_ms": stamp.time_ms,
            "to_offset": following.offset if following else None,
            "to_ms": following.time_ms if following else None,
        }
    return found


def _entities(facts: Facts, state: State) -> dict[Any, dict[str, Any]]:
    """One row per key that ever was, without a value when the thing is gone."""
    values: dict[str, dict[str, Any]] = {}
    for kind, held in (("topic", state.topics), ("config", state.configs), ("node", state.nodes)):
        values |= {f"{kind}/{name}": {"kind": kind, **_whole(thing)} for name, thing in held.items()}
    values |= {f"key/{one.key}": {"kind": "key", **_whole(one)} for _, one in state.keys.items()}
    values |= {f"lease/{number}": {"kind": "lease", **_whole(one)} for number, one in state.leases.items()}
    values |= {f"member/{name}": {"kind": "member", **_whole(one)} for name, one in state.members.items()}
    values |= {f"schema/{number}": {"kind": "schema", **_whole(one)} for number, one in state.schemas.items()}
    for name, one in state.subjects.items():
        versions = [_whole(version) for version in one.versions]
        values[f"subject/{name}"] = {"kind": "subject", "subject": name, "versions": versions}
    values |= {f"shard/{name}": {"kind": "shard", **_whole(one)} for name, one in state.shards.items()}
    values |= {
        f"segment/{one.name}": {"kind": "segment", **_whole(one)}
        for numbered in state.segments.values()
        for one in numbered.values()
    }
    values |= {f"session/{name}": {"kind": "session", **_whole(one)} for name, one in state.sessions.items()}
    values |= {
        f"session-owner/{epoch}": {"kind": "session-owner", **_whole(one)}
        for epoch, one in state.session_owners.items()
    }
    values |= {f"will/{epoch}": {"kind": "will", **_whole(one)} for epoch, one in state.wills.items()}
    values |= {f"broker-set/{name}": _broker_set(facts, found) for name, found in state.broker_sets.items()}
    if state.cluster is not None:
        values[f"cluster/{state.cluster.cluster_id}"] = {"kind": "cluster", **_whole(state.cluster)}
    if state.leader is not None:
        leader = {"kind": "leader", **_whole(state.leader)}
        leader.pop("offset")
        values["leader/controller"] = leader
    if any(isinstance(event, e.FeatureLevelChanged) for _, event in facts):
        values["feature-level/cluster"] = {"kind": "feature-level", "level": state.feature_level}
    found = {}
    for stamp, event in facts:
        key = e.key(event).decode()
        kind, _, name = key.split("/", 2)
        name = name if kind in ("key", "segment") else unquote(name)  # Theirs stand in them as they are.
        found[key] = {
            "event_offset": stamp.offset,
            "key": key,
            "kind": kind,
            "name": name,
            "time_ms": stamp.time_ms,
            "value": values.get(f"{kind}/{name}"),
        }
    return found


def _whole(thing: Any) -> dict[str, Any]:
    """Every field, defaults too."""
    return {name: _plain(getattr(thing, name)) for name in thing.__struct_fields__}


def _broker_set(facts: Facts, found: BrokerSet) -> dict[str, Any]:
    elected = [s for s, ev in facts if isinstance(ev, e.MasterElected) and ev.broker_set == found.name]
    master = elected[-1] if found.master is not None else None
    told = ("broker_id", "address", "registered", "fenced", "capabilities", "topics", "registration_epoch")
    return {
        "kind": "broker-set",
        "name": found.name,
        "cluster": found.cluster,
        "replicas": [{name: _plain(getattr(one, name)) for name in told} for one in found.replicas],
        "master": found.master,
        "master_epoch": found.master_epoch,
        "master_offset": master.offset if master else None,
        "master_since_ms": master.time_ms if master else None,
        "sync_state_set": list(found.sync_state_set),
        "sync_state_set_epoch": found.sync_state_set_epoch,
        "sync_known": found.sync_known,
        "election_offset": found.election.offset if found.election else None,
        "election_acknowledged": found.election.acknowledged if found.election else False,
    }


def _sync_changes(facts: Facts, states: Sequence[State]) -> dict[Any, dict[str, Any]]:
    found = {}
    for (stamp, event), before, after in zip(facts, states, states[1:], strict=False):
        name = getattr(event, "broker_set", None)
        if name is None:
            continue
        assert hasattr(event, "cluster"), "it is of a broker set"
        was, now = before.broker_sets.get(name), after.broker_sets.get(name)
        old, new = set(was.sync_state_set if was else ()), set(now.sync_state_set if now else ())
        if old == new:
            continue
        left, joined = sorted(old - new), sorted(new - old)
        found[stamp.offset] = {
            "event_offset": stamp.offset,
            "time_ms": stamp.time_ms,
            "broker_cluster": event.cluster,
            "broker_set": name,
            "direction": "replace" if left and joined else ("shrink" if left else "expand"),
            "by_event": type(event).__name__,
            "old_set": sorted(old),
            "new_set": sorted(new),
            "left_set": left,
            "joined_set": joined,
            "sync_state_set_epoch": now.sync_state_set_epoch if now else 0,
        }
    return found


def _availability(facts: Facts, states: Sequence[State]) -> dict[Any, dict[str, Any]]:
    found: dict[Any, dict[str, Any]] = {}
    lasting: dict[tuple[str, int], dict[str, Any]] = {}
    for (stamp, event), before, after in zip(facts, states, states[1:], strict=False):
        name = getattr(event, "broker_set", None)
        if name is None:
            continue
        was, now = _statuses(before, name), _statuses(after, name)
        anew = name in before.broker_sets and not before.broker_sets[name].sync_known
        if anew and isinstance(event, e.BrokerIdApplied):
            was, ends = {}, dict(was)
        else:
            ends = {number: status for number, status in was.items() if now.get(number) != status}
        for number in ends:
            row = lasting.pop((name, number))
            row |= {"event_offset": stamp.offset, "to_offset": stamp.offset, "to_ms": stamp.time_ms}
        for number, status in now.items():
            if was.get(number) == status:
                continue
            assert hasattr(event, "cluster"), "it is of a broker set"
            fenced = event if isinstance(event, e.BrokerFenced) else None
            row = {
                "event_offset": stamp.offset,
                "broker_set": name,
                "broker_id": number,
                "from_offset": stamp.offset,
                "broker_cluster": event.cluster,
                "status": status,
                "evidence": fenced.evidence if fenced else "",
                "from_ms": stamp.time_ms,
                "last_heartbeat_ms": (fenced.last_heartbeat_ms or None) if fenced else None,
                "to_offset": None,
                "to_ms": None,
            }
            lasting[name, number] = found[name, number, stamp.offset] = row
    return found


def _statuses(state: State, name: str) -> dict[int, str]:
    found = state.broker_sets.get(name)
    return {
        replica.broker_id: "fenced" if replica.fenced else "up" if replica.registered else "applied"
        for replica in (found.replicas if found else ())
    }


def _flapping(facts: Facts) -> dict[Any, dict[str, Any]]:
    elected: dict[str, list[tuple[Stamp, e.MasterElected]]] = defaultdict(list)
    for stamp, event in facts:
        if isinstance(event, e.MasterElected):
            elected[event.broker_set].append((stamp, event))
    found = {}
    for name, all_of_it in elected.items():
        last, event = all_of_it[-1]
        times = [stamp.time_ms for stamp, _ in all_of_it if stamp.time_ms > last.time_ms - WINDOW_MS]
        # Calm begins when one of the elections that make it too many leaves the window.
        moments = [t for t in times if sum(other > t - WINDOW_MS for other in times) >= TOO_MANY]
        calm = [t + WINDOW_MS for t in times if sum(other > t for other in times) < TOO_MANY]
        many = len(times) >= TOO_MANY
        found[name] = {
            "event_offset": last.offset,
            "broker_set": name,
            "broker_cluster": event.cluster,
            "elections": len(times),
            "window_ms": WINDOW_MS,
            "threshold": TOO_MANY,
            "since_ms": min(times) if many and moments else None,
            "until_ms": min(calm) if many else None,
        }
    return found


def _leases(facts: Facts) -> dict[Any, dict[str, Any]]:
    """Each grant, with what was said of its number from there to its end."""
    found = {}
    for at, (stamp, event) in enumerate(facts):
        if not isinstance(event, e.LeaseGranted):
            continue
        mine = [
            (s, ev)
            for s, ev in facts[at:]
            if isinstance(ev, e.LeaseCheckpointed | e.LeaseEnded) and ev.lease == event.lease
        ]
        end = next((place for place, (_, ev) in enumerate(mine) if isinstance(ev, e.LeaseEnded)), None)
        life = mine if end is None else mine[: end + 1]
        ended = life[-1] if end is not None else None
        last = ended[1] if ended is not None and isinstance(ended[1], e.LeaseEnded) else None
        found[stamp.offset] = {
            "event_offset": life[-1][0].offset if life else stamp.offset,
            "granted_offset": stamp.offset,
            "lease": f"{event.lease + (1 << 64 if event.lease < 0 else 0):016x}",
            "ttl_s": event.ttl_s,
            "principal": stamp.principal,
            "granted_ms": stamp.time_ms,
            "checkpoints": sum(isinstance(ev, e.LeaseCheckpointed) for _, ev in life),
            "ended_by": last.reason if last else None,
            "ended_offset": ended[0].offset if ended else None,
            "ended_ms": ended[0].time_ms if ended else None,
            "silent_ms": last.silent_ms if last else None,
            "keys": last.keys if last else None,
        }
    return found


@dataclass
class Moment:
    """One event of a set's life, and whether the set is away (had a master, and none serves) after it."""

    stamp: Stamp
    event: Any
    master_before: int | None
    away: bool
    gone: bool


def _elections(facts: Facts, states: Sequence[State]) -> Rows:
    """Outages are the runs of moments without a serving master; an election belongs to the run it is in."""
    acks = {event.election_offset: (s, event) for s, event in facts if isinstance(event, e.RoleChangeAcknowledged)}
    elections: dict[Any, dict[str, Any]] = {}
    outages: dict[Any, dict[str, Any]] = {}
    for life in _lives(facts, states):
        runs = _runs(life)
        for first, last in runs:
            row = _outage(life[first : last + 1], acks)
            outages[row["broker_set"], row["outage_offset"]] = row
        for at, moment in enumerate(life):
            if isinstance(moment.event, e.MasterElected | e.ElectionFailed):
                run = next((run for run in runs if run[0] <= at <= run[1]), None)
                lost = None if run is None else _outage(life[run[0] : run[1] + 1], {})
                ever = any(isinstance(one.event, e.MasterElected) for one in life[:at])
                elections[moment.stamp.offset] = _election(moment, lost, acks.get(moment.stamp.offset), ever)
    return {"elections": elections, "outages": outages}


def _lives(facts: Facts, states: Sequence[State]) -> list[list[Moment]]:
    """The events of each set from its making to its end."""
    lives: list[list[Moment]] = []
    living: dict[str, list[Moment]] = {}
    for (stamp, event), before, after in zip(facts, states, states[1:], strict=False):
        name = getattr(event, "broker_set", None)
        if name is None:
            continue
        was, now = before.broker_sets.get(name), after.broker_sets.get(name)
        life = living.setdefault(name, [])
        gone = now is None or (isinstance(event, e.BrokerDataCleaned) and event.whole_set)
        had = any(isinstance(one.event, e.MasterElected) for one in life) or isinstance(event, e.MasterElected)
        away = had and (now is None or _away(now, [*(one.event for one in life), event]))
        life.append(Moment(stamp, event, was.master if was else None, away, gone))
        if gone:
            lives.append(living.pop(name))
    return [*lives, *living.values()]


def _away(found: BrokerSet, past: Sequence[Any]) -> bool:
    """No master, or one that is not there, was fenced since its election, or was cleaned and not registered again."""
    replica = found.replica(found.master)
    if found.master is None or replica is None:
        return True
    if isinstance(past[-1], e.MasterElected):
        return False
    elected = max(at for at, event in enumerate(past) if isinstance(event, e.MasterElected))
    since = past[elected + 1 :]
    cleaned = any(isinstance(event, e.BrokerDataCleaned) and found.master in event.broker_ids for event in since)
    fenced = any(isinstance(event, e.BrokerFenced) and found.master == event.broker_id for event in since)
    return (fenced and replica.fenced) or (cleaned and not replica.registered)


def _runs(life: Sequence[Moment]) -> list[tuple[int, int]]:
    """First and last moment of each outage; the last one is the one that ends it, if any does."""
    runs = []
    first = None
    for at, moment in enumerate(life):
        if first is None and isinstance(moment.event, e.MasterElected) and moment.master_before is not None:
            runs.append((at, at))
        elif first is None and moment.away and not moment.gone:
            first = at
        elif first is not None and (moment.gone or not moment.away):
            runs.append((first, at))
            first = None
    return runs if first is None else [*runs, (first, len(life) - 1)]


def _outage(run: Sequence[Moment], acks: dict[int, Any]) -> dict[str, Any]:
    stamp, event = run[0].stamp, run[0].event
    silent = getattr(event, "evidence", "") == "heartbeat expired" and event.last_heartbeat_ms > 0
    detected = getattr(event, "detected_ms", 0) or stamp.time_ms
    fault = event.last_heartbeat_ms if silent else detected
    failed = [one for one in run if isinstance(one.event, e.ElectionFailed)]
    row: dict[str, Any] = {
        "event_offset": max([stamp.offset, *(one.stamp.offset for one in failed)]),
        "broker_set": event.broker_set,
        "outage_offset": stamp.offset,
        "broker_cluster": event.cluster,
        "lost_by": type(event).__name__,
        "lost_master": run[0].master_before,
        "evidence": getattr(event, "evidence", ""),
        "fault_ms": fault,
        "fault_estimated": silent,
        "detected_ms": detected,
        "failed_elections": len(failed),
        **dict.fromkeys(("ended_by", "ended_offset", "ended_ms", "acknowledged_ms", "serving_ms", "unavailable_ms")),
    }
    end = run[-1]
    if end.away and not end.gone:
        return row
    at, ms = end.stamp.offset, end.stamp.time_ms
    row |= {"ended_offset": at, "ended_ms": ms, "event_offset": at}
    if end.gone:
        return row | {"ended_by": "forgotten"}
    if not isinstance(end.event, e.MasterElected):
        return row | {"ended_by": "returned", "serving_ms": ms, "unavailable_ms": ms - fault}
    row |= {"ended_by": "elected"}
    if at in acks:
        later, ack = acks[at]
        answered = _answer(ack, end.event.master)
        row |= {"event_offset": later.offset, "acknowledged_ms": answered, "serving_ms": answered}
        row["unavailable_ms"] = None if answered is None else answered - fault
    return row


def _answer(ack: e.RoleChangeAcknowledged, master: int | None) -> int | None:
    return next((one.acknowledged_ms or None for one in ack.acks if one.broker_id == master), None)


def _election(moment: Moment, lost: dict[str, Any] | None, ack: Any, ever: bool) -> dict[str, Any]:
    stamp, event = moment.stamp, moment.event
    won = isinstance(event, e.MasterElected)
    answered = None if ack is None or not won else _answer(ack[1], event.master)
    told = [one.notified_ms for one in ack[1].acks if one.notified_ms] if ack else []
    row = {
        "event_offset": ack[0].offset if ack else stamp.offset,
        "election_offset": stamp.offset,
        "time_ms": stamp.time_ms,
        "term": stamp.term,
        "broker_cluster": event.cluster,
        "broker_set": event.broker_set,
        "outcome": "elected" if won else "failed",
        "first": not ever,
        "trigger_by": event.trigger,
        "cause": stamp.cause,
        "principal": stamp.principal,
        "new_master": event.master if won else None,
        "master_address": event.master_address if won else "",
        "decided_by": event.decided_by if won else "",
        "unclean": event.unclean if won else False,
        "candidates": _plain(event.candidates),
        "candidate_count": len(event.candidates),
        "alive_count": len([one for one in event.candidates if one.alive]),
        "old_sync_state_set": list(event.old_sync_state_set) if won else None,
        "sync_state_set": list(event.sync_state_set) if won else None,
        "committed_ms": ack[1].committed_ms if ack else None,
        "notified_ms": min(told) if told else None,
        "acknowledged_ms": answered,
        "acks_offset": ack[0].offset if ack else None,
        "acks": _plain(ack[1].acks) if ack else None,
        "outage_offset": lost["outage_offset"] if lost else None,
        "fault_ms": lost["fault_ms"] if lost else None,
        "unavailable_ms": answered - lost["fault_ms"] if lost and answered is not None else None,
    }
    row |= {name: getattr(event, name) for name in ("evidence", "old_master", "master_epoch", "explanation")}
    return row | {name: getattr(event, name) or None for name in ("last_heartbeat_ms", "detected_ms", "proposed_ms")}
