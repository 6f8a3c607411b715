"""The view ``topics``: every topic with its settings, by name."""

from typing import assert_never

import msgspec

from quorate import events
from quorate.events import Stamp, TopicCreated, TopicDeleted, TopicUpdated
from quorate_projections.views.view import Rows, View

Mine = TopicCreated | TopicUpdated | TopicDeleted


class TopicRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A topic's settings (RocketMQ ``TopicConfig``) and when they changed."""

    topic: str = ""
    read_queues: int = 0
    write_queues: int = 0
    permission: int = 0
    """RocketMQ bits: 4 read, 2 write, 1 inherit."""
    filter_type: str = ""
    system_flags: int = 0
    order: bool = False
    attributes: dict[str, str] = {}
    created_offset: int = -1
    created_ms: int = 0
    changed_offset: int = -1
    changed_ms: int = 0


def fold(rows: Rows[TopicRow], stamp: Stamp, event: Mine) -> None:
    """Set, replace or take away one topic."""
    match event:
        case TopicCreated():
            rows.put(event.topic, _row(event, stamp, stamp.offset, stamp.time_ms))
        case TopicUpdated():
            old = rows.get(event.topic)
            rows.put(event.topic, _row(event, stamp, old.created_offset, old.created_ms))
        case TopicDeleted():
            rows.drop(event.topic)
        case _:
            assert_never(event)


def _row(event: TopicCreated | TopicUpdated, stamp: Stamp, created_offset: int, created_ms: int) -> TopicRow:
    return TopicRow(
        topic=event.topic,
        read_queues=event.read_queues,
        write_queues=event.write_queues,
        permission=event.permission,
        filter_type=event.filter_type,
        system_flags=event.system_flags,
        order=event.order,
        attributes=event.attributes,
        created_offset=created_offset,
        created_ms=created_ms,
        changed_offset=stamp.offset,
        changed_ms=stamp.time_ms,
    )


VIEW = View(
    name="topics",
    what="Topics and their settings, by name.",
    initial=TopicRow(),
    fold=fold,
    mine=frozenset({TopicCreated, TopicUpdated, TopicDeleted}),
    not_mine=frozenset(
        {
            events.BrokerAddressChanged,
            events.BrokerDataCleaned,
            events.BrokerFenced,
            events.BrokerIdApplied,
            events.BrokerRegistered,
            events.BrokerUnfenced,
            events.ClusterCreated,
            events.ConfigChanged,
            events.ControllerLeaderElected,
            events.ElectionFailed,
            events.FeatureLevelChanged,
            events.MasterElected,
            events.NodeStarted,
            events.VoterRebuilt,
            events.RoleChangeAcknowledged,
            events.SyncStateSetAltered,
        }
    ),
)
