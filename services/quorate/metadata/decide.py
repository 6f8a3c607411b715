"""From a command to events, or to a refusal: the one place where something is chosen.

Rules: pure; runs on the leader only. Everything chosen goes into the events, so that ``evolve`` repeats none of it.
A refusal carries no events; a decision without events means that what was asked for is so already.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from quorate.metadata import broker_sets, cluster, commands, configs, elections, topics
from quorate.metadata.commands import Command, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.state import State

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
}
"""A dictionary, not a ``match``: its cost is flat in the number of commands."""


def decide(state: State, command: Command, context: Context) -> Decision | Refusal:
    """What the command does to this state, if anything. Never raises for what a caller sent."""
    return DECIDERS[type(command)](state, command, context)
