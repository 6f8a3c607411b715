"""RocketMQ's dialect of the replica set: broker ids, registration, the sync state set, fencing, cleaning.

Rules: the order of the checks, the codes and the remarks are those of Java's ``ReplicasInfoManager`` (each function
names its method); where a setting of ``policy`` repairs a defect, the branch says which. The election has its own
module, elections.py.
"""

import re
from typing import Final

from quorate.events import (
    Acknowledgement,
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    Event,
    RoleChangeAcknowledged,
    SyncStateSetAltered,
)
from quorate.metadata import commands, elections
from quorate.metadata.commands import (
    Accepted,
    AcknowledgeRoleChanges,
    AlterSyncStateSet,
    ApplyBrokerId,
    BrokerIsRegistered,
    CleanBrokerData,
    ElectMaster,
    FenceBroker,
    Refusal,
    RegisterBroker,
    RoleChangeDelivery,
    SyncStateSetIs,
    UnfenceBroker,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.state import BrokerSet, Replica, State
from quorate.metadata.texts import fits

FIRST_BROKER_ID: Final = 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

_JAVA_LONG: Final = re.compile(r"[+-]?[0-9]{1,40}")


def apply_broker_id(state: State, command: ApplyBrokerId, context: Context) -> Decision | Refusal:
    """1013, Java ``applyBrokerId``: any free id is given; the same check code again is the same application.

    Refuses MissingField, InvalidText, BrokerIdNotFirst, BrokerIdInvalid, BrokerIdTaken, BrokerSetFull.
    """
    name, broker_id, check_code = command.broker_set, command.broker_id, command.register_check_code
    if broker_id is None or check_code is None:
        return refuse("MissingField", "appliedBrokerId and registerCheckCode are needed")
    refusal = _judge_application(command.cluster, name, check_code, context.policy)
    if refusal is not None:
        return refusal
    reply = commands.BrokerIdApplied(cluster=command.cluster, broker_set=name)
    known = state.broker_sets.get(name)
    if known is None and broker_id != FIRST_BROKER_ID:
        remark = f"Broker-set: {name} hasn't been registered in controller, "
        return refuse("BrokerIdNotFirst", f"{remark}but broker try to apply brokerId: {broker_id}")
    taken = f"Fail to apply brokerId: {broker_id} in broker-set: {name}"
    if not -INT64_MAX - 1 <= broker_id <= INT64_MAX or (context.policy.positive_broker_ids and broker_id < 1):
        return refuse("BrokerIdInvalid", taken)
    holder = None if known is None else known.replica(broker_id)
    if holder is not None and holder.register_check_code != check_code:
        return refuse("BrokerIdTaken", taken)
    if holder is not None and known is not None and known.sync_known:
        return Decision((), reply)
    if holder is None and known is not None and len(known.replicas) >= context.policy.replicas_max:
        return refuse("BrokerSetFull", f"Broker set {name} has {len(known.replicas)} broker ids, and may have no more")
    event = BrokerIdApplied(
        cluster=command.cluster,
        broker_set=name,
        broker_id=broker_id,
        address=check_code.split(";")[0],
        register_check_code=check_code,
    )
    return Decision((event,), reply)


def register_broker(state: State, command: RegisterBroker, context: Context) -> Decision | Refusal:
    """1003, Java ``registerBroker``: where an id serves.

    Refuses BrokerSetNotRegistered, BrokerNotRegistered, InvalidText.
    """
    name, broker_id = command.broker_set, command.broker_id
    known = state.known(name)
    if known is None:
        return refuse("BrokerSetNotRegistered", f"Broker-set: {name} hasn't been registered in controller")
    replica = known.replica(broker_id)
    if replica is None:
        remark = f"BrokerId: {broker_id} hasn't been registered in broker-set: {name}"
        return refuse("BrokerNotRegistered", remark)
    if not _fitting_registration(command, context.policy):
        return refuse("InvalidText", "An address, capability or topic is too long, or not UTF-8")
    # The answer shows the set as it was: a master that moved is told its old address (Java computes it first, too).
    reply = _registered(known, command, context)
    topics = tuple(sorted(set(command.topics)))
    capabilities = dict(sorted(command.capabilities.items()))
    if replica.registered and command.address != replica.address:
        moved = BrokerAddressChanged(
            cluster=known.cluster,
            broker_set=name,
            broker_id=broker_id,
            old_address=replica.address,
            new_address=command.address,
            capabilities=capabilities,
            topics=topics,
        )
        return Decision((moved,), reply)
    if replica.registered and capabilities == replica.capabilities and topics == replica.topics:
        return Decision((), reply)
    event = BrokerRegistered(
        cluster=known.cluster,
        broker_set=name,
        broker_id=broker_id,
        address=command.address,
        capabilities=capabilities,
        topics=topics,
    )
    return Decision((event,), reply)


def alter_sync_state_set(state: State, command: AlterSyncStateSet, context: Context) -> Decision | Refusal:
    """1001, Java ``alterSyncStateSet``: only the master of this epoch, from this set, to living registered replicas.

    Refuses SyncStateSetOfUnknownBrokerSet, MissingField, SyncStateSetUnchanged, NotTheMaster, StaleMasterEpoch,
    StaleSyncStateSetEpoch, UnknownReplica, ReplicaNotAlive, MasterNotInSyncStateSet, EpochsExhausted; in this order.
    """
    known = state.known(command.broker_set)
    if known is None:
        return refuse("SyncStateSetOfUnknownBrokerSet", "Broker metadata is not existed")
    if command.sync_state_set is None:
        return refuse("MissingField", "The body with the syncStateSet is missing")
    new = tuple(sorted({*command.sync_state_set}))
    master = _reporting_master(known, command, new)
    if isinstance(master, Refusal):
        return master
    refusal = _unfit(known, master, new, context)
    if refusal is not None:
        return refusal
    epoch = known.sync_state_set_epoch + 1
    event = SyncStateSetAltered(
        cluster=known.cluster,
        broker_set=known.name,
        master=master,
        master_epoch=known.master_epoch,
        old=known.sync_state_set,
        new=new,
        sync_state_set_epoch=epoch,
    )
    return Decision((event,), SyncStateSetIs(sync_state_set=new, sync_state_set_epoch=epoch))


def clean_broker_data(state: State, command: CleanBrokerData, context: Context) -> Decision | Refusal:
    """1011, Java ``cleanBrokerData``. A recorded master stays recorded even if its id is cleaned, as in Java.

    Refuses BrokerStillAlive, MalformedIdsToClean, CleanOfUnknownBrokerSet.
    """
    name, policy = command.broker_set, context.policy
    known = state.broker_sets.get(name)
    listed = (command.broker_ids or "").strip()
    if not command.clean_living and not listed and known is not None and known.sync_known and known.master is not None:
        return refuse("BrokerStillAlive", f"Broker {name} is still alive, clean up failure")
    ids: tuple[int, ...] = ()
    if listed and (not command.clean_living or policy.clean_living_keeps_unlisted):
        parsed = _ids_to_clean(command.broker_ids or "")
        if isinstance(parsed, Refusal):
            return parsed
        ids = parsed
    for broker_id in () if command.clean_living else ids:
        # Java asks about the cluster of the request, so that a wrong one makes everybody look dead.
        if context.live.alive(command.cluster or "", name, broker_id):
            return refuse("BrokerStillAlive", f"Broker [{name},  {broker_id}] is still alive, clean up failure")
    if known is None or not known.sync_known:
        return refuse("CleanOfUnknownBrokerSet", f"Broker {name} is not existed,clean broker data failure.")
    return _cleaned(known, ids, policy)


def fence_broker(state: State, command: FenceBroker, context: Context) -> Decision | Refusal:
    """The liveness rules gave a broker up, and with a master its mastership: no set waits for a second decision.

    No event if it is fenced already, or unknown in that cluster.
    """
    found = _of_cluster(state, command)
    replica = None if found is None else found.replica(command.broker_id)
    if found is None or replica is None or replica.fenced:
        return Decision((), Accepted())
    event = BrokerFenced(
        cluster=found.cluster,
        broker_set=found.name,
        broker_id=command.broker_id,
        evidence=command.evidence,
        last_heartbeat_ms=command.last_heartbeat_ms,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )
    return Decision((event, *_succession(state, found, command, context)), Accepted())


def _of_cluster(state: State, command: FenceBroker | UnfenceBroker) -> BrokerSet | None:
    """What was heard of a broker of another cluster says nothing of this one, though the names are the same."""
    found = state.broker_sets.get(command.broker_set)
    return found if found is not None and found.cluster == command.cluster else None


def _succession(state: State, found: BrokerSet, command: FenceBroker, context: Context) -> tuple[Event, ...]:
    """The election that a master's fencing brings; nothing if it has no say, or none is due."""
    if found.master != command.broker_id:
        return ()
    election = ElectMaster(
        broker_set=found.name,
        trigger="master lost",
        evidence=command.evidence,
        last_heartbeat_ms=command.last_heartbeat_ms,
        detected_ms=command.detected_ms,
    )
    decision = elections.elect_master(state, election, context)
    return () if isinstance(decision, Refusal) else decision.events


def unfence_broker(state: State, command: UnfenceBroker, context: Context) -> Decision | Refusal:
    """A fenced broker is back. No event if it is not fenced, or unknown in that cluster."""
    found = _of_cluster(state, command)
    replica = None if found is None else found.replica(command.broker_id)
    if found is None or replica is None or not replica.fenced:
        return Decision((), Accepted())
    event = BrokerUnfenced(
        cluster=found.cluster,
        broker_set=found.name,
        broker_id=command.broker_id,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )
    return Decision((event,), Accepted())


def acknowledge_role_changes(state: State, command: AcknowledgeRoleChanges, context: Context) -> Decision | Refusal:
    """Record how elections reached the brokers: those that are still the last of their set, each once."""
    delivered = {delivery.broker_set: delivery for delivery in command.deliveries}
    events = (_acknowledged(state, delivery) for delivery in delivered.values())
    return Decision(tuple(event for event in events if event is not None), Accepted())


def _acknowledged(state: State, command: RoleChangeDelivery) -> RoleChangeAcknowledged | None:
    """None: the set is gone, another election was held, or this one is recorded already."""
    found = state.known(command.broker_set)
    election = None if found is None else found.election
    if found is None or election is None or election.acknowledged:
        return None
    if election.offset != command.election_offset or found.master_epoch != command.master_epoch:
        return None
    return RoleChangeAcknowledged(
        cluster=found.cluster,
        broker_set=found.name,
        master_epoch=command.master_epoch,
        election_offset=command.election_offset,
        committed_ms=command.committed_ms,
        acks=tuple(
            Acknowledgement(broker_id=ack.broker_id, notified_ms=ack.notified_ms, acknowledged_ms=ack.acknowledged_ms)
            for ack in sorted(command.acks, key=lambda ack: ack.broker_id)
        ),
    )


def _judge_application(cluster: str, name: str, check_code: str, policy: PolicySettings) -> Refusal | None:
    if not fits(name, policy.name_length_max) or not fits(cluster, policy.name_length_max, empty=True):
        return refuse("InvalidText", "The cluster or broker set name is empty, too long, or not UTF-8")
    if not fits(check_code, policy.text_length_max):
        return refuse("InvalidText", "The register check code is empty, too long, or not UTF-8")
    return None


def _fitting_registration(command: RegisterBroker, policy: PolicySettings) -> bool:
    if not (command.capabilities or command.topics):
        return fits(command.address, policy.text_length_max)
    texts = (command.address, *command.capabilities, *command.topics)
    return (
        max(len(command.capabilities), len(command.topics)) <= policy.listed_max
        and all(fits(text, policy.text_length_max) for text in texts)
        and all(fits(text, policy.text_length_max, empty=True) for text in command.capabilities.values())
    )


def _registered(known: BrokerSet, command: RegisterBroker, context: Context) -> BrokerIsRegistered:
    """The master part only while there is one and it is alive (in the request's cluster, as in Java)."""
    master = known.master
    if master is not None and not context.live.alive(command.cluster, known.name, master):
        master = None
    return BrokerIsRegistered(
        cluster=command.cluster,
        broker_set=known.name,
        master=master,
        master_address=known.address(master),
        master_epoch=None if master is None else known.master_epoch,
        sync_state_set=known.sync_state_set,
        sync_state_set_epoch=known.sync_state_set_epoch,
        master_sync_state_set_epoch=None if master is None else known.sync_state_set_epoch,
    )


def _reporting_master(known: BrokerSet, command: AlterSyncStateSet, new: tuple[int, ...]) -> int | Refusal:
    """The epochs: does this come from the master of now, about the set of now?"""
    if new == known.sync_state_set:
        remark = "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
        return refuse("SyncStateSetUnchanged", remark)
    rejecting = "Rejecting alter syncStateSet request because the"
    if known.master is None or known.master != command.master:
        leader, said = (id_ if id_ is not None else "null" for id_ in (known.master, command.master))
        return refuse("NotTheMaster", f"{rejecting} current leader is:{{{leader}}}, not {{{said}}}")
    if command.master_epoch != known.master_epoch:
        remark = f"{rejecting} current master epoch is:{{{known.master_epoch}}}, not {{{command.master_epoch}}}"
        return refuse("StaleMasterEpoch", remark)
    if command.sync_state_set_epoch != known.sync_state_set_epoch:
        asked = f"not {{{command.sync_state_set_epoch}}}"
        remark = f"{rejecting} current syncStateSet epoch is:{{{known.sync_state_set_epoch}}}, {asked}"
        return refuse("StaleSyncStateSetEpoch", remark)
    return known.master


def _unfit(known: BrokerSet, master: int, new: tuple[int, ...], context: Context) -> Refusal | None:
    """The members, one after the other: registered, alive; then: is the master among them?"""
    rejecting = "Rejecting alter syncStateSet request because the"
    registered = [replica.broker_id for replica in known.replicas]
    alive = context.live.alive
    for broker_id in new:
        if broker_id not in registered:
            return refuse("UnknownReplica", f"{rejecting} replicas {{{broker_id}}} don't exist")
        if not alive(known.cluster, known.name, broker_id):
            return refuse("ReplicaNotAlive", f"{rejecting} replicas {{{broker_id}}} don't alive")
    if master not in new:
        remark = f"{rejecting} newSyncStateSet don't contains origin leader {{{master}}}"
        return refuse("MasterNotInSyncStateSet", remark)
    if known.sync_state_set_epoch >= INT32_MAX:
        return refuse("EpochsExhausted", f"Broker set {known.name} has no sync state set epoch left")
    return None


def _ids_to_clean(listed: str) -> tuple[int, ...] | Refusal:
    """Java's ``"1;2".split(";")`` (trailing empty parts vanish) and ``Long.valueOf``."""
    ids = []
    for part in listed.rstrip(";").split(";"):
        value = int(part) if _JAVA_LONG.fullmatch(part) else None
        if value is None or not -INT64_MAX - 1 <= value <= INT64_MAX:
            cause = f'java.lang.NumberFormatException: For input string: "{part}"'
            remark = f"Please set the option <brokerControllerIdsToClean> according to the format, exception: {cause}"
            return refuse("MalformedIdsToClean", remark)
        ids.append(value)
    return tuple(sorted(set(ids)))


def _cleaned(known: BrokerSet, ids: tuple[int, ...], policy: PolicySettings) -> Decision:
    """Without ids the whole set goes. Java's half-known set is written as ``whole_set`` with ids (see evolve.py)."""
    left: list[Replica] = [r for r in known.replicas if r.broker_id not in ids]
    in_sync = [broker_id for broker_id in known.sync_state_set if broker_id not in ids]
    half_known = bool(ids and left and not in_sync and not policy.no_half_known_sets)
    touched = len(left) < len(known.replicas) or len(in_sync) < len(known.sync_state_set)
    if ids and not touched and not half_known:
        return Decision((), Accepted())
    event = BrokerDataCleaned(
        cluster=known.cluster, broker_set=known.name, broker_ids=ids, whole_set=not ids or half_known
    )
    return Decision((event,), Accepted())
