"""RocketMQ's election of a master: who asks, who stands, what is answered, and why it ended so.

Rules (Java ``electMaster``): a set that never had a master takes the broker that asks; later nobody is preferred for
asking, only for being designated by an administrator; a living master stays (2011). The new sync state set is the new
master alone. Only an election nobody in particular asked for may record a failure, and only when its inputs changed.
Every answer to "why that one" is in the event: the candidates with their verdicts, the rule, one sentence.
"""

from typing import Final

from quorate.events import Candidate, ElectionFailed, MasterElected
from quorate.metadata import configs, replica_set
from quorate.metadata.commands import ElectMaster, MasterIs, Refusal
from quorate.metadata.context import Context, Decision, LiveInfo
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import NO_MASTER_REMARK, refuse
from quorate.metadata.replica_set import Member, Outcome
from quorate.metadata.state import BrokerSet, Replica, State

INT32_MAX: Final = 2**31 - 1
NOBODY: Final = -1
"""Java's broker id of a request in which nobody in particular asks."""
ASYNC_LEARNER: Final = "asyncLearner"
"""The capability by which a broker says it is a learner (RocketMQ's broker property of this name)."""
FIRST_ELECTION: Final = "first election"


def elect_master(state: State, command: ElectMaster, context: Context) -> Decision | Refusal:
    """1002, or the controller's own wish.

    Refuses BrokerSetNotRegistered, BrokerNotRegistered, MasterStillExists, ElectMasterFailed, MasterNotAvailable,
    EpochsExhausted. A recorded failure is a Decision whose reply has no master (refusals.response makes it 2004).
    """
    found = state.known(command.broker_set)
    if found is None:
        return refuse("BrokerSetNotRegistered", "Broker hasn't been registered")
    policy = configs.policy_in_force(state, context.policy, found.name)
    asked = None if command.broker_id == NOBODY else command.broker_id
    members, disbelieved = _members(state, found, context, policy)
    if found.master_epoch == 0 and asked is not None:
        refusal = _not_first(found, asked, members, policy)
        if refusal is not None:
            return refusal
        outcome = replica_set.appoint(members, asked, FIRST_ELECTION)
    else:
        outcome = replica_set.elect(
            members,
            incumbent=found.master,
            wanted=asked if command.designate else None,
            unclean=policy.enable_elect_unclean_master,
            wide_offsets=policy.offset_comparison_64_bit,
        )
    if outcome.winner is not None and outcome.winner == found.master:
        remark = f"The old master {found.master} is still alive, not need to elect new master for broker {found.name}"
        return refuse("MasterStillExists", remark, _master_is(found))
    if outcome.winner is None and asked is not None:
        return refuse("ElectMasterFailed", "Failed to elect a new master")
    epoch = _next_epoch(found, members, policy)
    if epoch > INT32_MAX or found.sync_state_set_epoch >= INT32_MAX:
        return refuse("EpochsExhausted", f"Broker set {found.name} has no master epoch left")
    if outcome.winner is None:
        return _failed(found, command, context, policy, outcome, epoch)
    return _elected(found, command, context, outcome, outcome.winner, epoch, disbelieved)


def _members(
    state: State, found: BrokerSet, context: Context, policy: PolicySettings
) -> tuple[list[Member], tuple[Member, ...]]:
    """The set's replicas as the election sees them, and those whose reported epoch is not believed (as reported)."""
    named = configs.learners(state, found.name) if policy.exclude_learners else frozenset()
    members, disbelieved = [], []
    for replica in (*found.replicas, *_strangers(found)):
        info = context.live.info(found.cluster, found.name, replica.broker_id)
        alive = context.live.alive(found.cluster, found.name, replica.broker_id) is True
        learner = policy.exclude_learners and (replica.broker_id in named or _says_learner(replica))
        epoch = -1 if info is None else info.epoch
        if policy.epoch_floor_from_reports and epoch - found.master_epoch > policy.max_epoch_jump:
            disbelieved.append(_member(found, replica, alive, learner, epoch, info))
            epoch = -1
        members.append(_member(found, replica, alive, learner, epoch, info))
    return members, tuple(disbelieved)


def _member(
    found: BrokerSet, replica: Replica, alive: bool, learner: bool, epoch: int, info: LiveInfo | None
) -> Member:
    in_sync = replica.broker_id in found.sync_state_set
    if info is None:
        return Member(broker_id=replica.broker_id, alive=alive, in_sync=in_sync, learner=learner)
    return Member(
        broker_id=replica.broker_id,
        alive=alive,
        in_sync=in_sync,
        learner=learner,
        epoch=epoch,
        max_offset=info.max_offset,
        confirm_offset=info.confirm_offset,
        priority=info.priority,
    )


def _strangers(found: BrokerSet) -> list[Replica]:
    """Ids in sync that the set does not hold: only a first master of Java's, see first_election_registered_only."""
    return [Replica(broker_id=one, address="") for one in found.sync_state_set if found.replica(one) is None]


def _says_learner(replica: Replica) -> bool:
    return replica.capabilities.get(ASYNC_LEARNER, "").lower() == "true"


def _not_first(found: BrokerSet, asked: int, members: list[Member], policy: PolicySettings) -> Refusal | None:
    """May this id become the first master? It need not be alive: its first heartbeat may come after its wish."""
    member = next((m for m in members if m.broker_id == asked), None)
    if member is None and policy.first_election_registered_only:
        return refuse("BrokerNotRegistered", f"BrokerId: {asked} hasn't been registered in broker-set: {found.name}")
    if member is not None and member.learner:
        return refuse("ElectMasterFailed", "Failed to elect a new master")
    return None


def _next_epoch(found: BrokerSet, members: list[Member], policy: PolicySettings) -> int:
    """Above ours, and above every believed one a member reported: a broker ignores epochs it has already seen."""
    reported = max((m.epoch for m in members), default=0) if policy.epoch_floor_from_reports else 0
    return max(found.master_epoch, reported) + 1


def _master_is(found: BrokerSet) -> MasterIs:
    """What stays as it is; no members (Java omits brokerMemberGroup then)."""
    return MasterIs(
        cluster=found.cluster,
        broker_set=found.name,
        master=found.master,
        master_address=found.address(found.master),
        master_epoch=found.master_epoch,
        sync_state_set=found.sync_state_set,
        sync_state_set_epoch=found.sync_state_set_epoch,
        members=None,
    )


def _elected(
    found: BrokerSet,
    command: ElectMaster,
    context: Context,
    outcome: Outcome,
    winner: int,
    epoch: int,
    disbelieved: tuple[Member, ...],
) -> Decision:
    address = found.address(winner)
    event = MasterElected(
        cluster=found.cluster,
        broker_set=found.name,
        trigger=command.trigger,
        evidence=command.evidence,
        old_master=found.master,
        master=winner,
        master_address=address or "",
        master_epoch=epoch,
        sync_state_set=(winner,),
        sync_state_set_epoch=found.sync_state_set_epoch + 1,
        old_sync_state_set=found.sync_state_set,
        candidates=outcome.candidates,
        decided_by=outcome.decided_by,
        explanation=_why(found, command, outcome, winner, epoch, disbelieved),
        unclean=outcome.unclean,
        last_heartbeat_ms=command.last_heartbeat_ms,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )
    reply = MasterIs(
        cluster=found.cluster,
        broker_set=found.name,
        master=winner,
        master_address=address,
        master_epoch=epoch,
        sync_state_set=event.sync_state_set,
        sync_state_set_epoch=event.sync_state_set_epoch,
        members={replica.broker_id: replica.address for replica in found.replicas},
    )
    return Decision((event,), reply)


def _failed(
    found: BrokerSet, command: ElectMaster, context: Context, policy: PolicySettings, outcome: Outcome, epoch: int
) -> Decision | Refusal:
    """Nobody asked and nobody can: the set loses its master, once per inputs."""
    if found.master_epoch == 0 and policy.no_failed_first_election:
        return refuse("MasterNotAvailable", NO_MASTER_REMARK)
    known_failure = found.failed_inputs and found.failed_inputs == replica_set.inputs(outcome.candidates)
    if known_failure and policy.single_epoch_bump_on_failed_election:
        return refuse("MasterNotAvailable", NO_MASTER_REMARK)
    event = ElectionFailed(
        cluster=found.cluster,
        broker_set=found.name,
        trigger=command.trigger,
        evidence=command.evidence,
        old_master=found.master,
        master_epoch=epoch,
        candidates=outcome.candidates,
        explanation=_why_nobody(found, outcome),
        last_heartbeat_ms=command.last_heartbeat_ms,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )
    reply = MasterIs(
        cluster=found.cluster,
        broker_set=found.name,
        master=None,
        master_address=None,
        master_epoch=epoch,
        sync_state_set=found.sync_state_set,
        sync_state_set_epoch=found.sync_state_set_epoch,
        members=None,
    )
    return Decision((event,), reply)


def _why(
    found: BrokerSet,
    command: ElectMaster,
    outcome: Outcome,
    winner: int,
    epoch: int,
    disbelieved: tuple[Member, ...],
) -> str:
    """The sentence an operator reads out."""
    parts = [f"Broker {winner} is master of {found.name} in epoch {epoch}: {_occasion(found, command)}"]
    parts.append(_reason(outcome, winner))
    if outcome.unclean:
        parts.append("it was not in the sync state set and may lack acknowledged messages")
    parts += [f"the epoch {m.epoch} that broker {m.broker_id} reported is not believed" for m in disbelieved]
    return "; ".join(parts) + "."


def _occasion(found: BrokerSet, command: ElectMaster) -> str:
    """What led to the election."""
    if found.master_epoch == 0:
        return "the set had no master before"
    if command.designate:
        return "an administrator asked for it"
    if found.master is None:
        return "the set had lost its master"
    evidence = f" ({command.evidence})" if command.evidence else ""
    return f"broker {found.master} was not alive{evidence}"


def _reason(outcome: Outcome, winner: int) -> str:
    """Why the winner, by the rule that decided; it is compared only with those that this rule was asked about, for a
    dead one may well have been ahead.
    """
    chosen = next((c for c in outcome.candidates if c.broker_id == winner), None)
    fell = [replica_set.DECIDED_BY[c.out_by] for c in outcome.candidates if c.out_by in replica_set.DECIDED_BY]
    standing, level = 1 + len(fell), 1 + fell.count(outcome.decided_by)
    rivals = f"of {standing} that could stand " + ("" if level == standing else f"{level} were level until then, and ")
    match outcome.decided_by:
        case "first election":
            return "it was the first to ask"
        case "designated":
            return "it is alive and was named"
        case "only candidate":
            return f"of {len(outcome.candidates)} candidates only it could stand"
        case "higher epoch" if chosen is not None:
            return f"{rivals}it has the highest epoch, {chosen.epoch}"
        case "higher max offset" if chosen is not None:
            return f"{rivals}it has the highest max offset, {chosen.max_offset}"
        case "higher priority" if chosen is not None:
            return f"{rivals}it has the best priority, {chosen.priority}"
        case _:
            return f"{rivals}it has the lowest id, all else being equal"


def _why_nobody(found: BrokerSet, outcome: Outcome) -> str:
    """The same sentence for an election without a winner."""
    verdicts = ", ".join(f"broker {_fell(c)}" for c in outcome.candidates) or "the set has no members"
    return f"{found.name} has no master: {verdicts}."


def _fell(candidate: Candidate) -> str:
    return f"{candidate.broker_id} {_FELL.get(candidate.out_by, candidate.out_by)}"


_FELL: Final = {
    replica_set.NOT_ALIVE: "is not alive",
    replica_set.NOT_IN_SYNC: "is not in the sync state set",
    replica_set.LEARNER: "is a learner",
    replica_set.NOT_ASKED_FOR: "was not asked for",
}
