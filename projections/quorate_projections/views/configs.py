"""The view ``configs``: the settings in the log, by scope."""

import msgspec

from quorate import events
from quorate.events import ConfigChanged, Stamp
from quorate_projections.views.view import Rows, View


class ConfigRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The settings of one scope. A scope without settings has no row."""

    scope: str = ""
    values: dict[str, str] = {}
    changed_offset: int = -1
    changed_ms: int = 0
    changed_by: str = ""
    """Principal of the last change."""


def fold(rows: Rows[ConfigRow], stamp: Stamp, event: ConfigChanged) -> None:
    """Set and unset."""
    values = dict(rows.get(event.scope).values)
    for change in event.changes:
        if change.new is None:
            values.pop(change.name, None)
        else:
            values[change.name] = change.new
    if not values:
        rows.drop(event.scope)
        return
    row = ConfigRow(
        scope=event.scope,
        values=dict(sorted(values.items())),
        changed_offset=stamp.offset,
        changed_ms=stamp.time_ms,
        changed_by=stamp.principal,
    )
    rows.put(event.scope, row)


VIEW = View(
    name="configs",
    what="Settings in the log, by scope.",
    initial=ConfigRow(),
    fold=fold,
    mine=frozenset({ConfigChanged}),
    not_mine=frozenset(
        {
            events.BrokerAddressChanged,
            events.BrokerDataCleaned,
            events.BrokerFenced,
            events.BrokerIdApplied,
            events.BrokerRegistered,
            events.BrokerUnfenced,
            events.ClusterCreated,
            events.ControllerLeaderElected,
            events.ElectionFailed,
            events.FeatureLevelChanged,
            events.MasterElected,
            events.NodeStarted,
            events.VoterRebuilt,
            events.RoleChangeAcknowledged,
            events.SyncStateSetAltered,
            events.TopicCreated,
            events.TopicDeleted,
            events.TopicUpdated,
        }
    ),
)
