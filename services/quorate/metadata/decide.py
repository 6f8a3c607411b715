"""From a command to its decision: which rule judges which command.

Rules: pure; looks at nothing but its arguments, and everything that was chosen is in the events. A refusal is a value,
never an exception. A new command is one line here, one rule in the module of its subject.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from quorate.metadata import (
    broker_sets,
    cluster,
    commands,
    configs,
    elections,
    journal,
    keys,
    leases,
    members,
    segment_elections,
    sessions,
    subjects,
    topics,
    wills,
)
from quorate.metadata.commands import Command, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.refusals import refuse
from quorate.model.state import State

Decider = Callable[[State, Any, Context], Decision | Refusal]

DECIDERS: Final[Mapping[type[Command], Decider]] = {
    commands.ApplyBrokerId: broker_sets.apply_broker_id,
    commands.RegisterBroker: broker_sets.register_broker,
    commands.ElectMaster: elections.elect_master,
    commands.AlterSyncStateSet: broker_sets.alter_sync_state_set,
    commands.CleanBrokerData: broker_sets.clean_broker_data,
    commands.FenceBroker: broker_sets.fence_broker,
    commands.UnfenceBroker: broker_sets.unfence_broker,
    commands.AcknowledgeRoleChanges: broker_sets.acknowledge_role_changes,
    commands.PutTopic: topics.put_topic,
    commands.DeleteTopic: topics.delete_topic,
    commands.ChangeConfig: configs.change_config,
    commands.CreateCluster: cluster.create_cluster,
    commands.RecordLeader: cluster.record_leader,
    commands.RecordNodeStart: cluster.record_node_start,
    commands.RaiseFeatureLevel: cluster.raise_feature_level,
    commands.RebuildVoter: cluster.rebuild_voter,
    commands.PutKey: keys.put_key,
    commands.DeleteKeys: keys.delete_keys,
    commands.Transact: keys.transact,
    commands.GrantLease: leases.grant_lease,
    commands.RevokeLease: leases.revoke_lease,
    commands.KeepLease: leases.keep_lease,
    commands.AskLease: leases.ask_lease,
    commands.ExpireLease: leases.expire_lease,
    commands.CheckpointLeases: leases.checkpoint_leases,
    commands.RegisterMember: sessions.following(members.register_member),
    commands.HearMember: sessions.following(members.hear_member),
    commands.AskMember: members.ask_member,
    commands.FenceMember: sessions.following(members.fence_member),
    commands.DrainMember: members.drain_member,
    commands.RegisterSchema: subjects.register_schema,
    commands.DeleteSchema: subjects.delete_schema,
    commands.CreateShard: journal.create_shard,
    commands.NextSegment: journal.next_segment,
    commands.SealSegment: journal.seal_segment,
    commands.AlterInSync: journal.alter_in_sync,
    commands.ElectSegmentLeader: segment_elections.elect_segment_leader,
    commands.ElectSegmentLeaders: segment_elections.elect_segment_leaders,
    commands.DeleteShard: journal.delete_shard,
    commands.AckDeleted: journal.ack_deleted,
    commands.ForgetCopies: journal.forget_copies,
    commands.UnregisterMember: sessions.following(members.unregister_member),
    commands.OpenSession: sessions.open_session,
    commands.CloseSession: sessions.close_session,
    commands.PutSubscriptions: sessions.put_subscriptions,
    commands.SettleSessions: sessions.settle_sessions,
    commands.AcknowledgeWill: wills.acknowledge_will,
    commands.HandOverWills: wills.hand_over_wills,
}
"""By type, not by ``match``: the cost is the same for every command."""


LEVELS: Final[dict[type[Command], int]] = dict.fromkeys(
    (
        commands.PutKey,
        commands.DeleteKeys,
        commands.Transact,
        commands.GrantLease,
        commands.RevokeLease,
        commands.KeepLease,
        commands.AskLease,
        commands.ExpireLease,
        commands.CheckpointLeases,
        commands.RegisterMember,
        commands.HearMember,
        commands.AskMember,
        commands.FenceMember,
        commands.DrainMember,
        commands.UnregisterMember,
        commands.RegisterSchema,
        commands.DeleteSchema,
        commands.CreateShard,
        commands.NextSegment,
        commands.SealSegment,
        commands.AlterInSync,
        commands.ElectSegmentLeader,
        commands.ElectSegmentLeaders,
        commands.DeleteShard,
        commands.AckDeleted,
        commands.ForgetCopies,
        commands.OpenSession,
        commands.CloseSession,
        commands.PutSubscriptions,
        commands.SettleSessions,
        commands.AcknowledgeWill,
        commands.HandOverWills,
    ),
    2,
)
"""The feature level whose events a command writes, where that is above 1: below it some voter could not read them."""


def decide(state: State, command: Command, context: Context) -> Decision | Refusal:
    """Decide a command on a state: its events, or a refusal. Refuses UnsupportedFeatureLevel, and what the
    command's own rule refuses.
    """
    if LEVELS.get(type(command), 0) > state.feature_level:
        needed = f"needs feature level {LEVELS[type(command)]}; the cluster's is {state.feature_level}"
        return refuse("UnsupportedFeatureLevel", f"{type(command).__name__} {needed} (quorate feature raise)")
    return DECIDERS[type(command)](state, command, context)
