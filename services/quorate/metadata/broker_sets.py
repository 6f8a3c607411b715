"""Broker sets between elections: ids, addresses, who is in sync, what is forgotten, who is fenced, who was told.

Rules: the order of checks, the codes and the remarks are those of Java ``ReplicasInfoManager``; what differs is a
setting (docs/rules.md). A command that changes nothing is answered, and nothing is written. A fenced master is
replaced in the same decision (ADR 43), so that nobody reads of a master that is given up and has no successor.
"""

from operator import attrgetter
from typing import Final, assert_never

import msgspec

from quorate.errors import InvariantBrokenError
from quorate.events import (
    Acknowledgement,
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerLifeBegan,
    BrokerRegistered,
    BrokerUnfenced,
    RoleChangeAcknowledged,
    SyncStateSetAltered,
)
from quorate.events import BrokerIdApplied as BrokerIdAppliedEvent
from quorate.metadata.commands import (
    NEW_LIFE,
    Accepted,
    AcknowledgeRoleChanges,
    AlterSyncStateSet,
    ApplyBrokerId,
    BrokerIdApplied,
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
from quorate.metadata.elections import EPOCH_MAX, elect_master, elect_moved_master
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.replica_set import Broken, InSync, alter
from quorate.metadata.row_bounds import SET_BYTES_MAX, outgrows
from quorate.metadata.texts import LONG_MAX, LONG_MIN, fits, java_long, parse_address
from quorate.model.state import BrokerSet, Replica, State

FIRST_BROKER_ID: Final = 1
"""Java ``MixAll.FIRST_BROKER_CONTROLLER_ID``."""

LIVES_LEVEL: Final = 2
"""The feature level that has BrokerLifeBegan."""

_UNCHANGED: Final = Decision((), Accepted())


# -- ids and addresses


def apply_broker_id(state: State, command: ApplyBrokerId, context: Context) -> Decision | Refusal:
    """1013 (Java ``applyBrokerId``). A repeated one is known by its check code.

    Refuses MissingField, InvalidText, WrongCluster; BrokerIdNotFirst in an unknown set; BrokerIdTaken,
    BrokerIdInvalid, BrokerSetFull, BrokerSetTooLarge in a known one.
    """
    policy, name = context.policy, command.broker_set
    broker_id, check_code = command.broker_id, command.register_check_code
    if broker_id is None or check_code is None:
        return refuse("MissingField", "appliedBrokerId and registerCheckCode are needed")
    if not fits(command.cluster, policy.name_length_max, empty=True) or not fits(name, policy.name_length_max):
        return refuse("InvalidText", "The cluster or broker set name is empty, too long, or not UTF-8")
    if not fits(check_code, policy.text_length_max):
        return refuse("InvalidText", "The register check code is empty, too long, or not UTF-8")
    reply = BrokerIdApplied(cluster=command.cluster, broker_set=name)
    cluster = command.cluster
    broker_set = state.broker_sets.get(name)
    if (refusal := _foreign(cluster, broker_set, policy)) is not None:
        return refusal
    if broker_set is None:
        if broker_id != FIRST_BROKER_ID:
            remark = f"Broker-set: {name} hasn't been registered in controller, but broker try to apply brokerId:"
            return refuse("BrokerIdNotFirst", f"{remark} {broker_id}")
    else:
        holder = broker_set.replica(broker_id)
        failed = f"Fail to apply brokerId: {broker_id} in broker-set: {name}"
        if holder is not None:
            if holder.register_check_code != check_code:
                return refuse("BrokerIdTaken", failed)
            if broker_set.sync_known:
                return Decision((), reply)
        elif not (FIRST_BROKER_ID if policy.positive_broker_ids else LONG_MIN) <= broker_id <= LONG_MAX:
            return refuse("BrokerIdInvalid", failed)
        elif len(broker_set.replicas) >= policy.replicas_max:
            return refuse("BrokerSetFull", failed)
        if broker_set.sync_known:  # A half-known set begins anew, in the cluster of who applies.
            cluster = broker_set.cluster
    event = BrokerIdAppliedEvent(
        cluster=cluster,
        broker_set=name,
        broker_id=broker_id,
        address=check_code.partition(";")[0],
        register_check_code=check_code,
    )
    return _too_large(state, event) or Decision((event,), reply)


def _too_large(state: State, event: BrokerIdAppliedEvent | BrokerRegistered | BrokerAddressChanged) -> Refusal | None:
    """BrokerSetTooLarge for a set that would say more than it may, and more than it does."""
    if not outgrows(state, event, SET_BYTES_MAX):
        return None
    what = f"BrokerId: {event.broker_id} would make broker-set: {event.broker_set} larger than {SET_BYTES_MAX} bytes"
    return refuse("BrokerSetTooLarge", f"{what}, with the topics and capabilities of all its brokers")


def _foreign(cluster: str, broker_set: BrokerSet | None, policy: PolicySettings) -> Refusal | None:
    """WrongCluster for a broker of a cluster that is not served here, or that is not its set's."""
    served = policy.broker_clusters
    if not served:
        return None
    if cluster not in served:
        return refuse("WrongCluster", f"The cluster {cluster!r} is not served here; served: {', '.join(served)}")
    if broker_set is not None and broker_set.sync_known and broker_set.cluster != cluster:
        return refuse("WrongCluster", f"Broker-set: {broker_set.name} is of the cluster {broker_set.cluster!r}")
    return None


def register_broker(state: State, command: RegisterBroker, context: Context) -> Decision | Refusal:
    """1003 (Java ``registerBroker``). The answer is from before the change, and names only a living master.

    A master that moved leads in a new epoch, in the same decision: stock replicas take a master's address only with an
    epoch above their own (Java ``ReplicasManager.changeToSlave``). Who counts lives is told its epoch, and an
    older life than the newest is refused. Refuses BrokerSetNotRegistered, WrongCluster, BrokerNotRegistered,
    InvalidText, InvalidAddress, StaleRegistrationEpoch, BrokerSetTooLarge; BrokerAlreadyServes if the broker is alive
    at another address.
    """
    name, broker_id = command.broker_set, command.broker_id
    broker_set = state.known(name)
    if broker_set is None:
        return refuse("BrokerSetNotRegistered", f"Broker-set: {name} hasn't been registered in controller")
    if (refusal := _foreign(command.cluster, broker_set, context.policy)) is not None:
        return refusal
    replica = broker_set.replica(broker_id)
    if replica is None:
        remark = f"BrokerId: {broker_id} hasn't been registered in broker-set: {name}"
        return refuse("BrokerNotRegistered", remark)
    if not _can_be_kept(command, context.policy):
        return refuse("InvalidText", "An address, capability or topic is too long, or not UTF-8")
    if parse_address(command.address) is None:
        return refuse("InvalidAddress", "The broker address is not host:port")
    if (refusal := _superseded(broker_set, replica, command.registration_epoch or None)) is not None:
        return refusal
    life = _life(state, broker_set, replica, command.registration_epoch)
    master = broker_set.master
    if master is not None and context.live.alive(command.cluster, name, master) is not True:
        master = None
    reply = BrokerIsRegistered(
        cluster=command.cluster,
        broker_set=name,
        master=master,
        master_address=None if master is None else broker_set.address(master),
        master_epoch=None if master is None else broker_set.master_epoch,
        sync_state_set=broker_set.sync_state_set,
        sync_state_set_epoch=broker_set.sync_state_set_epoch,
        master_sync_state_set_epoch=None if master is None else broker_set.sync_state_set_epoch,
    )
    if command.registration_epoch is not None:
        reply = msgspec.structs.replace(reply, registration_epoch=NEW_LIFE if life else replica.registration_epoch)
    news = _news(broker_set, replica, command)
    if news is not None and (refusal := _too_large(state, news)) is not None:
        return refusal
    if not isinstance(news, BrokerAddressChanged):
        return Decision((*(() if news is None else (news,)), *life), reply)
    living = not replica.fenced and context.live.alive(broker_set.cluster, name, broker_id) is True
    if living and context.policy.living_broker_keeps_address:
        remark = f"BrokerId: {broker_id} of broker-set: {name} is alive at {replica.address}"
        return refuse("BrokerAlreadyServes", remark)
    return Decision((news, *elect_moved_master(state, news, context), *life), reply)


def _superseded(broker_set: BrokerSet, replica: Replica | None, epoch: int | None) -> Refusal | None:
    """StaleRegistrationEpoch for a life of this broker that is not the newest."""
    if replica is None or epoch is None or epoch >= replica.registration_epoch:
        return None
    remark = f"BrokerId: {replica.broker_id} of broker-set: {broker_set.name} registered again, in the epoch"
    return refuse("StaleRegistrationEpoch", f"{remark} {replica.registration_epoch}; {epoch} is over")


def _life(state: State, broker_set: BrokerSet, replica: Replica, epoch: int | None) -> tuple[BrokerLifeBegan, ...]:
    """The event of a new life, where the feature level has one: of whoever wants an epoch, or tells one that was
    forgotten with its id.
    """
    if epoch is None or (epoch and epoch == replica.registration_epoch) or state.feature_level < LIVES_LEVEL:
        return ()
    return (
        BrokerLifeBegan(
            cluster=broker_set.cluster,
            broker_set=broker_set.name,
            broker_id=replica.broker_id,
            replaced_epoch=replica.registration_epoch,
        ),
    )


def _can_be_kept(command: RegisterBroker, policy: PolicySettings) -> bool:
    """Is all that it says of itself bounded, and text?"""
    longest = policy.text_length_max
    return (
        fits(command.address, longest)
        and len(command.capabilities) <= policy.listed_max
        and len(command.topics) <= policy.listed_max
        and all(fits(key, longest) and fits(value, longest, empty=True) for key, value in command.capabilities.items())
        and all(fits(topic, longest) for topic in command.topics)
    )


def _news(
    broker_set: BrokerSet, replica: Replica, command: RegisterBroker
) -> BrokerRegistered | BrokerAddressChanged | None:
    """The event of a registration; None when it says nothing new."""
    address = command.address
    capabilities, topics = dict(sorted(command.capabilities.items())), tuple(sorted(set(command.topics)))
    if replica.registered and replica.address != address:
        return BrokerAddressChanged(
            cluster=broker_set.cluster,
            broker_set=broker_set.name,
            broker_id=replica.broker_id,
            old_address=replica.address,
            new_address=address,
            capabilities=capabilities,
            topics=topics,
        )
    if replica.registered and replica.capabilities == capabilities and replica.topics == topics:
        return None
    return BrokerRegistered(
        cluster=broker_set.cluster,
        broker_set=broker_set.name,
        broker_id=replica.broker_id,
        address=address,
        capabilities=capabilities,
        topics=topics,
    )


# -- who is in sync

_REJECTING: Final = "Rejecting alter syncStateSet request because the"


def alter_sync_state_set(state: State, command: AlterSyncStateSet, context: Context) -> Decision | Refusal:
    """1001 (Java ``alterSyncStateSet``): Java's dialect of ``replica_set.alter``.

    Refuses SyncStateSetOfUnknownBrokerSet, MissingField, SyncStateSetUnchanged, NotTheMaster, StaleMasterEpoch,
    StaleSyncStateSetEpoch, UnknownReplica, ReplicaNotAlive, MasterNotInSyncStateSet, EpochsExhausted.
    """
    broker_set = state.known(command.broker_set)
    if broker_set is None:
        return refuse("SyncStateSetOfUnknownBrokerSet", "Broker metadata is not existed")
    if command.sync_state_set is None:
        return refuse("MissingField", "The body with the syncStateSet is missing")
    now = InSync(
        leader=broker_set.master,
        leader_epoch=broker_set.master_epoch,
        set_epoch=broker_set.sync_state_set_epoch,
        ids=broker_set.sync_state_set,
    )
    asked = InSync(
        leader=command.master,
        leader_epoch=command.master_epoch,
        set_epoch=command.sync_state_set_epoch,
        ids=tuple(sorted(set(command.sync_state_set))),
    )
    alive, cluster, name = context.live.alive, broker_set.cluster, broker_set.name
    held = {replica.broker_id for replica in broker_set.replicas}
    altered = alter(
        now,
        asked,
        held,
        lambda broker_id: alive(cluster, name, broker_id) is True,
        epoch_max=EPOCH_MAX,
        equal_is_refused=True,
        all_fit=True,
    )
    if isinstance(altered, Broken):
        return _not_altered(name, now, asked, altered)
    event = SyncStateSetAltered(
        cluster=cluster,
        broker_set=name,
        master=altered.leader,
        master_epoch=now.leader_epoch,
        old=now.ids,
        new=altered.ids,
        sync_state_set_epoch=altered.set_epoch,
    )
    return Decision((event,), SyncStateSetIs(sync_state_set=altered.ids, sync_state_set_epoch=altered.set_epoch))


def _not_altered(name: str, now: InSync[int], asked: InSync[int], broken: Broken[int]) -> Refusal:
    """In Java's words, to which an empty set is one without its master."""
    match broken.fence:
        case "unchanged":
            remark = "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
            return refuse("SyncStateSetUnchanged", remark)
        case "not the leader":
            remark = f"{_REJECTING} current leader is:{{{_shown(now.leader)}}}, not {{{_shown(asked.leader)}}}"
            return refuse("NotTheMaster", remark)
        case "leader epoch":
            remark = f"{_REJECTING} current master epoch is:{{{now.leader_epoch}}}, not {{{asked.leader_epoch}}}"
            return refuse("StaleMasterEpoch", remark)
        case "set epoch":
            remark = f"{_REJECTING} current syncStateSet epoch is:{{{now.set_epoch}}}, not {{{asked.set_epoch}}}"
            return refuse("StaleSyncStateSetEpoch", remark)
        case "stranger":
            return refuse("UnknownReplica", f"{_REJECTING} replicas {{{broken.member}}} don't exist")
        case "unfit":
            return refuse("ReplicaNotAlive", f"{_REJECTING} replicas {{{broken.member}}} don't alive")
        case "empty" | "without the leader":
            remark = f"{_REJECTING} newSyncStateSet don't contains origin leader {{{_shown(now.leader)}}}"
            return refuse("MasterNotInSyncStateSet", remark)
        case "exhausted":
            return refuse("EpochsExhausted", f"Broker set {name} has no sync state set epoch left")
        case "member epoch":
            raise InvariantBrokenError("RocketMQ's brokers have no member epoch")
        case _:
            assert_never(broken.fence)


def _shown(broker_id: int | None) -> str:
    """As Java prints a ``Long``."""
    return "null" if broker_id is None else str(broker_id)


# -- what is forgotten


def clean_broker_data(state: State, command: CleanBrokerData, context: Context) -> Decision | Refusal:
    """1011 (Java ``cleanBrokerData``): the whole set, or the listed ids. A recorded master stays recorded.

    Refuses BrokerStillAlive, MalformedIdsToClean, CleanOfUnknownBrokerSet; of a broker that cleans itself
    StaleRegistrationEpoch, and MissingField if it does not name one id. Liveness is asked for in the cluster that
    the request names; a recorded master counts as living when the whole set is to go.
    """
    name, listed = command.broker_set, command.broker_ids or ""
    broker_set = state.known(name)
    ids: tuple[int, ...] = ()
    if not listed.strip():
        if not command.clean_living and broker_set is not None and broker_set.master is not None:
            return refuse("BrokerStillAlive", f"Broker {name} is still alive, clean up failure")
    elif not command.clean_living or context.policy.clean_living_keeps_unlisted:
        parsed = _ids_to_clean(listed)
        if isinstance(parsed, Refusal):
            return parsed
        ids = parsed
    if not command.clean_living and command.cluster is not None:
        for broker_id in ids:
            if context.live.alive(command.cluster, name, broker_id):
                return refuse("BrokerStillAlive", f"Broker [{name},  {broker_id}] is still alive, clean up failure")
    if command.registration_epoch is not None:
        if len(ids) != 1:
            return refuse("MissingField", "A registration epoch is one broker's: its id is needed, and no other")
        if broker_set is not None and (
            refusal := _superseded(broker_set, broker_set.replica(ids[0]), command.registration_epoch)
        ):
            return refusal
    if broker_set is None:
        return refuse("CleanOfUnknownBrokerSet", f"Broker {name} is not existed,clean broker data failure.")
    return _cleaned(broker_set, ids, context.policy) if ids else _forgotten(broker_set, (), whole_set=True)


def _ids_to_clean(listed: str) -> tuple[int, ...] | Refusal:
    """``1;2;3`` by rising id; as in Java's ``split``, what is empty at the end does not count."""
    ids: set[int] = set()
    for part in listed.rstrip(";").split(";"):
        broker_id = java_long(part)
        if broker_id is None:
            return refuse(
                "MalformedIdsToClean",
                "Please set the option <brokerControllerIdsToClean> according to the format, exception: "
                f'java.lang.NumberFormatException: For input string: "{part}"',
            )
        ids.add(broker_id)
    return tuple(sorted(ids))


def _cleaned(broker_set: BrokerSet, ids: tuple[int, ...], policy: PolicySettings) -> Decision:
    """Without these ids. Java forgets who is in sync once nobody is, by whatever ids: what is left of the set is half
    known then, which is written as ``whole_set`` with ids (evolve.py).
    """
    left = any(replica.broker_id not in ids for replica in broker_set.replicas)
    in_sync = any(broker_id not in ids for broker_id in broker_set.sync_state_set)
    half_known = left and not in_sync and not policy.no_half_known_sets
    held = tuple(one for one in ids if one in broker_set.sync_state_set or broker_set.replica(one) is not None)
    if not held and not half_known:
        return _UNCHANGED
    return _forgotten(broker_set, held or ids, whole_set=half_known)


def _forgotten(broker_set: BrokerSet, ids: tuple[int, ...], *, whole_set: bool) -> Decision:
    event = BrokerDataCleaned(
        cluster=broker_set.cluster, broker_set=broker_set.name, broker_ids=ids, whole_set=whole_set
    )
    return Decision((event,), Accepted())


# -- who is fenced, who was told


def fence_broker(state: State, command: FenceBroker, context: Context) -> Decision | Refusal:
    """Given up as dead; a master is replaced in the same decision, by the rules of any election (ADR 43).

    Refuses nothing: nothing is written about strangers and those fenced already, and an election that is refused
    leaves the fence alone.
    """
    broker_set = state.broker_sets.get(command.broker_set)
    replica = (
        None if broker_set is None or broker_set.cluster != command.cluster else broker_set.replica(command.broker_id)
    )
    if broker_set is None or replica is None or replica.fenced:
        return _UNCHANGED
    fenced = BrokerFenced(
        cluster=broker_set.cluster,
        broker_set=broker_set.name,
        broker_id=replica.broker_id,
        evidence=command.evidence,
        last_heartbeat_ms=command.last_heartbeat_ms,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )
    if broker_set.master != replica.broker_id:
        return Decision((fenced,), Accepted())
    succession = elect_master(
        state,
        ElectMaster(
            broker_set=broker_set.name,
            trigger="master lost",
            evidence=command.evidence,
            last_heartbeat_ms=command.last_heartbeat_ms,
            detected_ms=command.detected_ms,
        ),
        context,
    )
    return Decision((fenced,) if isinstance(succession, Refusal) else (fenced, *succession.events), Accepted())


def unfence_broker(state: State, command: UnfenceBroker, context: Context) -> Decision | Refusal:
    """Heard again. Refuses nothing: nothing is written about strangers and those that are not fenced."""
    broker_set = state.broker_sets.get(command.broker_set)
    replica = (
        None if broker_set is None or broker_set.cluster != command.cluster else broker_set.replica(command.broker_id)
    )
    if broker_set is None or replica is None or not replica.fenced:
        return _UNCHANGED
    event = BrokerUnfenced(
        cluster=broker_set.cluster,
        broker_set=broker_set.name,
        broker_id=replica.broker_id,
        detected_ms=command.detected_ms,
        proposed_ms=context.now_ms,
    )
    return Decision((event,), Accepted())


def acknowledge_role_changes(state: State, command: AcknowledgeRoleChanges, context: Context) -> Decision | Refusal:
    """Deliveries of elections that are still the last ones of their sets, each once; the later word counts.

    Refuses nothing: a delivery that is superseded or known is left out.
    """
    events: dict[str, RoleChangeAcknowledged] = {}
    for delivery in command.deliveries:
        broker_set = state.broker_sets.get(delivery.broker_set)
        if broker_set is not None and _is_news(broker_set, delivery):
            events[broker_set.name] = RoleChangeAcknowledged(
                cluster=broker_set.cluster,
                broker_set=broker_set.name,
                master_epoch=delivery.master_epoch,
                election_offset=delivery.election_offset,
                committed_ms=delivery.committed_ms,
                acks=tuple(
                    Acknowledgement(
                        broker_id=ack.broker_id, notified_ms=ack.notified_ms, acknowledged_ms=ack.acknowledged_ms
                    )
                    for ack in sorted(delivery.acks, key=_by_id)
                ),
            )
    return Decision(tuple(events.values()), Accepted())


_by_id: Final = attrgetter("broker_id")


def _is_news(broker_set: BrokerSet, delivery: RoleChangeDelivery) -> bool:
    """Is it of the last election of its set, and not recorded yet?"""
    election = broker_set.election
    return (
        election is not None
        and not election.acknowledged
        and election.offset == delivery.election_offset
        and broker_set.master_epoch == delivery.master_epoch
    )
