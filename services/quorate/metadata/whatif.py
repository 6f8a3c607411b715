"""Shows which masters there would be if these nodes and brokers failed. Asks ``decide`` itself; changes nothing.

Rules: pure; works in steps, one election each. A broker is alive unless it fails, or is known to be dead: by
heartbeats where there are any, else by its fence in the log. What is not known is not invented: where the reported
offsets decide and are not known, every broker that could win is named.

Theory: with an unknown offset an election has several outcomes. Each candidate whose report is not known is taken to
be the furthest once, and all of them to be behind once; whoever wins one of these elections could win. Who may not
stand changes nothing by being the furthest.
"""

from typing import Final, Literal

import msgspec

from quorate.events import ElectionFailed, MasterElected
from quorate.metadata import configs
from quorate.metadata.commands import ElectMaster, Refusal
from quorate.metadata.context import Context
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.model.brokers import values
from quorate.model.live import LiveInfo, LiveView
from quorate.model.state import BrokerSet, Config, State
from quorate.slices import Steps

Kind = Literal["unaffected", "shrunk", "elected", "no master"]
OFFSETS_UNKNOWN: Final = "offsets unknown"
NO_QUORUM: Final = "no quorum"
NOBODY: Final = "nobody eligible"
MASTER_LIVES: Final = "master lives"
FURTHEST: Final = 1 << 62


class Failures(msgspec.Struct, frozen=True):
    """The failures assumed: controllers by id, brokers by (broker set, broker id)."""

    nodes: frozenset[int] = frozenset()
    brokers: frozenset[tuple[str, int]] = frozenset()


class QuorumAfter(msgspec.Struct, frozen=True, kw_only=True):
    """The controllers without those that fail."""

    voters: list[int]
    voters_left: list[int]
    needed: int
    survives: bool
    leader: int | None
    """The leader before, as the log has it."""
    leader_lost: bool


class SetAfter(msgspec.Struct, frozen=True, kw_only=True):
    """A broker set afterwards; ``master`` None also where several could win."""

    master: int | None
    sync_state_set: tuple[int, ...]
    alive: tuple[int, ...]


class SetRow(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one broker set."""

    set: str
    kind: Kind
    master: int | None
    """Before."""
    winner: int | None
    """The new master, where only one can win."""
    winners: tuple[int, ...]
    """Everyone who could."""
    rule: str
    """A rule of the election, ``master lives``, ``offsets unknown``, ``no quorum``, or a refusal."""
    unclean: bool
    loses_bytes: int | None
    """Bytes that an unclean winner lacks of the longest log in sync; None: not known."""
    explanation: str
    after: SetAfter


class WhatIf(msgspec.Struct, frozen=True):
    """The answer."""

    quorum: QuorumAfter
    rows: list[SetRow]


class _Report(msgspec.Struct, frozen=True):
    """A report nobody made (LiveInfo)."""

    epoch: int
    max_offset: int
    confirm_offset: int = -1
    priority: int = 2**31 - 1
    last_heartbeat_ms: int = 0


class Survivors:
    """The live table without those that fail (LiveView). ``furthest``: of the unknown ones, this one is ahead."""

    def __init__(self, live: LiveView, broker_set: BrokerSet, failed: frozenset[tuple[str, int]]) -> None:
        self._live = live
        self._found = broker_set
        self._fenced = {replica.broker_id: replica.fenced for replica in broker_set.replicas}
        self._failed = failed
        self.furthest: int | None = None

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        """None: never heard here, so neither a candidate nor fenceable."""
        if (broker_set, broker_id) in self._failed:
            return False
        heard = self._live.alive(cluster, broker_set, broker_id)
        return heard if heard is not None or broker_id not in self._fenced else not self._fenced[broker_id]

    def info(self, cluster: str, broker_set: str, broker_id: int) -> LiveInfo | None:
        """Its last words; None when it was never heard."""
        if broker_id == self.furthest:
            return _Report(self._found.master_epoch, FURTHEST)
        return self._live.info(cluster, broker_set, broker_id)

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """Did its channel close, with nothing heard since and nobody to confirm it?"""
        return self._live.suspect(cluster, broker_set, broker_id)

    def living(self) -> tuple[int, ...]:
        """Ids of the set that are alive."""
        broker_set = self._found
        return tuple(
            r.broker_id for r in broker_set.replicas if self.alive(broker_set.cluster, broker_set.name, r.broker_id)
        )


def whatif(
    state: State, live: LiveView, failures: Failures, unclean: bool | None, policy: PolicySettings, now_ms: int
) -> Steps[WhatIf]:
    """``unclean`` overrules what the log and the node say about unclean elections; None: as they say."""
    quorum = quorum_after(state, failures)
    touched = {name for name, _ in failures.brokers}
    rows: list[SetRow] = []
    for name in sorted(state.broker_sets):
        broker_set = state.known(name)
        if broker_set is not None and (
            name in touched or (unclean and broker_set.master is None and broker_set.replicas)
        ):
            judge = _Judge(overruled(state, name, unclean), broker_set, live, failures, policy, now_ms)
            row = yield from judge.row(quorum=quorum.survives)
            rows.append(row)
        yield
    return WhatIf(quorum, rows)


def quorum_after(state: State, failures: Failures) -> QuorumAfter:
    """The voters that remain, and whether they are a quorum."""
    voters = sorted(voter.id for voter in state.cluster.voters) if state.cluster else []
    left = [voter for voter in voters if voter not in failures.nodes]
    needed = len(voters) // 2 + 1
    leader = state.leader.node_id if state.leader else None
    return QuorumAfter(
        voters=voters,
        voters_left=left,
        needed=needed,
        survives=bool(voters) and len(left) >= needed,
        leader=leader,
        leader_lost=leader in failures.nodes,
    )


def overruled(state: State, broker_set: str, unclean: bool | None) -> State:
    """The state with the last word on unclean elections of this set."""
    if unclean is None:
        return state
    scope = f"broker-set/{broker_set}"
    changed = {**values(state, scope), configs.ENABLE_ELECT_UNCLEAN_MASTER: str(unclean).lower()}
    return msgspec.structs.replace(state, configs=state.configs.set(scope, Config(scope=scope, values=changed)))


class _Judge:
    """Decides about one set."""

    def __init__(
        self,
        state: State,
        broker_set: BrokerSet,
        live: LiveView,
        failures: Failures,
        policy: PolicySettings,
        now_ms: int,
    ) -> None:
        self._state = state
        self._found = broker_set
        self._known = live
        ids = (replica.broker_id for replica in broker_set.replicas)
        self._failed = {broker_id for broker_id in ids if (broker_set.name, broker_id) in failures.brokers}
        self._live = Survivors(live, broker_set, failures.brokers)
        self._context = Context(now_ms=now_ms, term=1, policy=policy, live=self._live)

    def row(self, *, quorum: bool) -> Steps[SetRow]:
        """The outcome. Without a quorum nothing is decided: a set that has lost its master has none."""
        broker_set = self._found
        if broker_set.master is not None and broker_set.master not in self._failed:
            left = tuple(one for one in broker_set.sync_state_set if one not in self._failed)
            kind: Kind = "unaffected" if left == broker_set.sync_state_set else "shrunk"
            text = (
                f"Broker {broker_set.master} lives and stays master; {len(left)} of {len(broker_set.replicas)} in sync."
            )
            return self._row(kind, broker_set.master, (), MASTER_LIVES, text, in_sync=left)
        if not quorum:
            text = f"{broker_set.name} has no master, and without a quorum of controllers nobody can be elected."
            return self._row("no master", None, (), NO_QUORUM, text)
        elected, reasons = yield from self._outcomes()
        if not elected:
            rule = NOBODY if NOBODY in reasons else next(iter(reasons))
            return self._row("no master", None, (), rule, reasons[rule])
        winners = tuple(sorted(elected))
        if len(winners) > 1:
            text = f"Any of the brokers {', '.join(map(str, winners))} could be master: what they hold is not known."
            return self._row("elected", None, winners, OFFSETS_UNKNOWN, text, event=elected[winners[0]])
        event = elected[winners[0]]
        return self._row("elected", event.master, winners, event.decided_by, event.explanation, event=event)

    def _outcomes(self) -> Steps[tuple[dict[int, MasterElected], dict[str, str]]]:
        """One election for each thing that could be so: by winner the last that it won, without the candidates; by rule
        or refusal why nobody won.
        """
        live, elected, reasons = self._live, dict[int, MasterElected](), dict[str, str]()
        command = ElectMaster(broker_set=self._found.name, trigger="master lost", evidence="heartbeat expired")
        for furthest in (*self._unknown(), None):
            live.furthest = furthest
            outcome = decide(self._state, command, self._context)
            if isinstance(outcome, Refusal):
                reasons.setdefault(outcome.code, outcome.remark)
            else:
                won = [event for event in outcome.events if isinstance(event, MasterElected)]
                lost = [event for event in outcome.events if isinstance(event, ElectionFailed)]
                elected |= {event.master: msgspec.structs.replace(event, candidates=()) for event in won}
                reasons.update((NOBODY, event.explanation) for event in lost)
            yield
        live.furthest = None
        return elected, reasons

    def _unknown(self) -> list[int]:
        """Who may stand, and of whom it is not known how far it is. Where none may, one of the others: so that an
        election that failed before is not taken to be the same again.
        """
        broker_set, live = self._found, self._live
        living = live.living()
        policy = configs.policy_in_force(self._state, self._context.policy, broker_set.name)
        standing = frozenset(living if policy.enable_elect_unclean_master else broker_set.sync_state_set)
        unknown = [one for one in living if self._known.info(broker_set.cluster, broker_set.name, one) is None]
        return [one for one in unknown if one in standing] or unknown[:1]

    def _row(
        self,
        kind: Kind,
        winner: int | None,
        winners: tuple[int, ...],
        rule: str,
        explanation: str,
        *,
        in_sync: tuple[int, ...] | None = None,
        event: MasterElected | None = None,
    ) -> SetRow:
        broker_set = self._found
        unclean = event is not None and event.unclean
        if event is not None:
            in_sync = event.sync_state_set if winner is not None else ()
        after = SetAfter(
            master=winner,
            sync_state_set=broker_set.sync_state_set if in_sync is None else in_sync,
            alive=self._live.living(),
        )
        return SetRow(
            set=broker_set.name,
            kind=kind,
            master=broker_set.master,
            winner=winner,
            winners=winners,
            rule=rule,
            unclean=unclean,
            loses_bytes=self._loses(winner) if unclean else 0,
            explanation=explanation,
            after=after,
        )

    def _loses(self, winner: int | None) -> int | None:
        """Bytes of the longest log in sync that the winner lacks."""
        broker_set = self._found
        ends = {
            r.broker_id: self._known.info(broker_set.cluster, broker_set.name, r.broker_id) for r in broker_set.replicas
        }
        has = ends.get(winner) if winner is not None else None
        others = [
            ends[one] for one in {*broker_set.sync_state_set, broker_set.master} if one is not None and one in ends
        ]
        offsets = [info.max_offset for info in others if info is not None]
        return max(max(offsets) - has.max_offset, 0) if has is not None and offsets else None
