"""RocketMQ's election on top of the one rule-set: 1002, and the controller's own wish when a master is lost.

Rules: the order of checks, the codes and the remarks are those of Java ``ReplicasInfoManager.electMaster``; what
differs is a setting (docs/rules.md). An event names every member with its verdict, the rule that decided, and one
sentence that an operator can read out. Epochs only rise, and never beyond what the wire can hold.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.events import BrokerAddressChanged, ElectionFailed, MasterElected
from quorate.metadata import configs, replica_set
from quorate.metadata.commands import ElectMaster, MasterIs, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.refusals import NO_MASTER_REMARK, refuse
from quorate.metadata.replica_set import DECIDED_BY, Member, Outcome
from quorate.model.brokers import learners
from quorate.model.evolve import inputs
from quorate.model.live import LiveInfo
from quorate.model.state import BrokerSet, State

EPOCH_MAX: Final = 2**31 - 1
"""Both epochs are a Java ``int`` on the wire."""
NOBODY: Final = -1
"""How 1002 says that nobody in particular asks."""


class _Field(msgspec.Struct, frozen=True, gc=False):
    """The candidates, and the epochs they reported."""

    members: list[Member]
    epoch_floor: int
    """The greatest epoch that was given or reported, as far as it is believed."""
    doubted: list[tuple[int, int]]
    """(broker id, epoch) of the reports that are not believed."""


class _Unheard(msgspec.Struct, frozen=True, gc=False):
    """Stands for the report of a broker that never sent one (LiveInfo)."""

    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    priority: int = 2**31 - 1
    last_heartbeat_ms: int = 0


_UNHEARD: Final[LiveInfo] = _Unheard()


def elect_master(state: State, command: ElectMaster, context: Context) -> Decision | Refusal:
    """1002 and the controller's own elections (Java ``electMaster``).

    Refuses BrokerSetNotRegistered; in a first election BrokerNotRegistered, or ElectMasterFailed for a learner; then
    MasterStillExists; ElectMasterFailed when somebody asked, MasterNotAvailable when nobody did and nothing is new;
    EpochsExhausted.
    """
    broker_set = state.known(command.broker_set)
    if broker_set is None:
        return refuse("BrokerSetNotRegistered", "Broker hasn't been registered")
    policy = context.policy
    asker = None if command.broker_id == NOBODY else command.broker_id
    barred = learners(state, broker_set) if policy.exclude_learners else frozenset[int]()
    field = _field(broker_set, barred, context)
    if asker is not None and broker_set.master_epoch == 0:
        if policy.first_election_registered_only and broker_set.replica(asker) is None:
            remark = f"BrokerId: {asker} hasn't been registered in broker-set: {broker_set.name}"
            return refuse("BrokerNotRegistered", remark)
        if asker in barred:
            return refuse("ElectMasterFailed", "Failed to elect a new master")
        outcome = replica_set.appoint(field.members, asker, replica_set.FIRST_ELECTION)
    else:
        outcome = replica_set.elect(
            field.members,
            incumbent=broker_set.master,
            wanted=asker if command.designate else None,
            unclean=configs.policy_in_force(state, policy, broker_set.name).enable_elect_unclean_master,
            wide_offsets=policy.offset_comparison_64_bit,
        )
    if outcome.winner is not None and outcome.winner == broker_set.master:
        return _stays(broker_set, outcome.winner)
    if outcome.winner is None:
        if asker is not None:
            return refuse("ElectMasterFailed", "Failed to elect a new master")
        same_inputs = broker_set.failed_inputs == inputs(outcome.candidates)
        repeated = same_inputs and policy.single_epoch_bump_on_failed_election
        if repeated or (policy.no_failed_first_election and broker_set.master_epoch == 0):
            return refuse("MasterNotAvailable", NO_MASTER_REMARK)
    if field.epoch_floor >= EPOCH_MAX:
        return refuse("EpochsExhausted", f"Broker set {broker_set.name} has no master epoch left")
    if outcome.winner is None:
        return _failed(broker_set, field, outcome, command, context)
    if broker_set.sync_state_set_epoch >= EPOCH_MAX:
        return refuse("EpochsExhausted", f"Broker set {broker_set.name} has no sync state set epoch left")
    return _elected(broker_set, outcome.winner, field, outcome, command, context)


def elect_moved_master(state: State, moved: BrokerAddressChanged, context: Context) -> tuple[MasterElected, ...]:
    """The master as before, in a new epoch and at its new address; nothing if nobody else is there to be told, if it is
    no master, or if no epoch is left.
    """
    broker_set = state.known(moved.broker_set)
    if not context.policy.elect_moved_master_anew or broker_set is None or broker_set.master != moved.broker_id:
        return ()
    field = _field(broker_set, frozenset(), context)
    exhausted = max(field.epoch_floor, broker_set.sync_state_set_epoch) >= EPOCH_MAX
    if exhausted or not any(one.registered for one in broker_set.replicas if one.broker_id != moved.broker_id):
        return ()
    replicas = tuple(
        msgspec.structs.replace(one, address=moved.new_address) if one.broker_id == moved.broker_id else one
        for one in broker_set.replicas
    )
    there = msgspec.structs.replace(broker_set, replicas=replicas)
    outcome = replica_set.appoint(field.members, moved.broker_id, replica_set.MOVED)
    command = ElectMaster(broker_set=broker_set.name, broker_id=moved.broker_id)
    return (_event(there, moved.broker_id, field, outcome, command, context),)


def _field(broker_set: BrokerSet, learners: frozenset[int], context: Context) -> _Field:
    """The members as they are known now; Java also counts an id in sync that the set does not hold."""
    policy, live, cluster, name = context.policy, context.live, broker_set.cluster, broker_set.name
    in_sync = frozenset(broker_set.sync_state_set)
    floor = broker_set.master_epoch
    believed_max = floor + policy.max_epoch_jump
    doubted: list[tuple[int, int]] = []
    members: list[Member] = []
    for broker_id in sorted(in_sync.union([replica.broker_id for replica in broker_set.replicas])):
        info = live.info(cluster, name, broker_id) or _UNHEARD
        epoch = info.epoch
        if policy.epoch_floor_from_reports:
            if epoch > believed_max:
                doubted.append((broker_id, epoch))
                epoch = -1
            elif epoch > floor:
                floor = epoch
        members.append(
            Member(
                broker_id=broker_id,
                alive=live.alive(cluster, name, broker_id) is True,
                in_sync=broker_id in in_sync,
                learner=broker_id in learners,
                epoch=epoch,
                max_offset=info.max_offset,
                confirm_offset=info.confirm_offset,
                priority=info.priority,
            )
        )
    return _Field(members, floor, doubted)


def _stays(broker_set: BrokerSet, master: int) -> Refusal:
    """Java's 2011: nothing changes, and the answer says what is."""
    remark = f"The old master {master} is still alive, not need to elect new master for broker {broker_set.name}"
    return refuse("MasterStillExists", remark, _reply(broker_set, master, broker_set.master_epoch))


def _elected(
    broker_set: BrokerSet, winner: int, field: _Field, outcome: Outcome, command: ElectMaster, context: Context
) -> Decision:
    event = _event(broker_set, winner, field, outcome, command, context)
    reply = msgspec.structs.replace(
        _reply(broker_set, winner, event.master_epoch),
        sync_state_set=event.sync_state_set,
        sync_state_set_epoch=event.sync_state_set_epoch,
        members={replica.broker_id: replica.address for replica in broker_set.replicas},
    )
    return Decision((event,), reply)


def _event(
    broker_set: BrokerSet, winner: int, field: _Field, outcome: Outcome, command: ElectMaster, context: Context
) -> MasterElected:
    """The new master begins alone in its sync state set, as in Java."""
    master_epoch = field.epoch_floor + 1
    return MasterElected(
        cluster=broker_set.cluster,
        broker_set=broker_set.name,
        trigger=command.trigger,
        evidence=command.evidence,
        old_master=broker_set.master,
        master=winner,
        master_address=broker_set.address(winner) or "",
        master_epoch=master_epoch,
        sync_state_set=(winner,),
        sync_state_set_epoch=broker_set.sync_state_set_epoch + 1,
        old_sync_state_set=broker_set.sync_state_set,
        candidates=outcome.candidates,
        decided_by=outcome.decided_by,
        explanation=_why(broker_set, winner, master_epoch, field, outcome, command),
        unclean=outcome.unclean,
        last_heartbeat_ms=command.last_heartbeat_ms,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )


def _failed(broker_set: BrokerSet, field: _Field, outcome: Outcome, command: ElectMaster, context: Context) -> Decision:
    """The set loses its master and keeps its sync state set: whoever of it returns can be elected."""
    event = ElectionFailed(
        cluster=broker_set.cluster,
        broker_set=broker_set.name,
        trigger=command.trigger,
        evidence=command.evidence,
        old_master=broker_set.master,
        master_epoch=field.epoch_floor + 1,
        candidates=outcome.candidates,
        explanation=_why_nobody(broker_set, field, outcome),
        last_heartbeat_ms=command.last_heartbeat_ms,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )
    return Decision((event,), _reply(broker_set, None, event.master_epoch))


def _reply(broker_set: BrokerSet, master: int | None, master_epoch: int) -> MasterIs:
    """Of a set that keeps its sync state set."""
    return MasterIs(
        cluster=broker_set.cluster,
        broker_set=broker_set.name,
        master=master,
        master_address=broker_set.address(master),
        master_epoch=master_epoch,
        sync_state_set=broker_set.sync_state_set,
        sync_state_set_epoch=broker_set.sync_state_set_epoch,
        members=None,
    )


# -- the sentence

_UNFIT: Final[Mapping[str, str]] = {
    replica_set.NOT_ALIVE: "not alive",
    replica_set.NOT_IN_SYNC: "not in the sync state set",
    replica_set.LEARNER: "a learner",
}
_BEST: Final[Mapping[str, str]] = {
    DECIDED_BY[replica_set.LOWER_EPOCH]: "the highest epoch, {0.epoch}",
    DECIDED_BY[replica_set.LOWER_MAX_OFFSET]: "the highest max offset, {0.max_offset}",
    DECIDED_BY[replica_set.LOWER_PRIORITY]: "the best priority, {0.priority}",
    DECIDED_BY[replica_set.HIGHER_BROKER_ID]: "the lowest id, all else being equal",
}


def _why(broker_set: BrokerSet, winner: int, epoch: int, field: _Field, outcome: Outcome, command: ElectMaster) -> str:
    """Why there was an election, why this one won it, and what is to be known about it."""
    parts = [_occasion(broker_set, outcome, command), _reason(winner, outcome, command)]
    if outcome.unclean:
        parts.append("it was not in the sync state set and may lack acknowledged messages")
    parts += _doubts(field)
    return f"Broker {winner} is master of {broker_set.name} in epoch {epoch}: {'; '.join(parts)}."


def _why_nobody(broker_set: BrokerSet, field: _Field, outcome: Outcome) -> str:
    unfit = ", ".join(f"broker {one.broker_id} is {_UNFIT[one.out_by]}" for one in outcome.candidates)
    return f"{broker_set.name} has no master: {'; '.join([unfit, *_doubts(field)])}."


def _occasion(broker_set: BrokerSet, outcome: Outcome, command: ElectMaster) -> str:
    """Why the set needs an election, in words."""
    if outcome.decided_by == replica_set.DESIGNATED:
        asked = "for balance" if command.trigger == "balance" else "an administrator asked for it"
        return f"{asked} ({command.reason})" if command.reason else asked
    if outcome.decided_by == replica_set.MOVED:
        return f"it serves at {broker_set.address(broker_set.master)} now"
    if broker_set.master is None:
        return "the set had lost its master" if broker_set.master_epoch else "the set had no master before"
    evidence = f" ({command.evidence})" if command.evidence else ""
    for one in outcome.candidates:
        if one.broker_id == broker_set.master:
            return f"broker {broker_set.master} was {_UNFIT[one.out_by]}{evidence}"
    return f"broker {broker_set.master} was not of the set any more{evidence}"


def _reason(winner: int, outcome: Outcome, command: ElectMaster) -> str:
    """By what it won. Compared are those only that the rule which decided was asked about."""
    if outcome.decided_by == replica_set.FIRST_ELECTION:
        return "an administrator named it" if command.designate else "it was the first to ask"
    if outcome.decided_by == replica_set.DESIGNATED:
        return "it is alive and was named"
    if outcome.decided_by == replica_set.MOVED:
        return "it was the master before, and its replicas follow a new address only in a new epoch"
    if outcome.decided_by == replica_set.ONLY_CANDIDATE:
        count = len(outcome.candidates)
        return f"of {count} candidates only it could stand" if count > 1 else "it is the only one of the set"
    stood = level = 1
    best = ""
    for one in outcome.candidates:
        if one.broker_id == winner:
            best = _BEST[outcome.decided_by].format(one)
        elif one.out_by in DECIDED_BY:
            stood += 1
            level += DECIDED_BY[one.out_by] == outcome.decided_by
    among = "" if level == stood else f" {level} were level until then, and"
    return f"of {stood} that could stand{among} it has {best}"


def _doubts(field: _Field) -> list[str]:
    return [f"the epoch {epoch} that broker {broker_id} reported is not believed" for broker_id, epoch in field.doubted]
