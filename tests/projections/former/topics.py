"""The view ``topics`` as it was folded before it was a question to the model."""

from typing import assert_never

from quorate.events import Stamp, TopicCreated, TopicDeleted, TopicUpdated
from quorate_projections.views.topics import TopicRow
from quorate_projections.views.view import Rows

Mine = TopicCreated | TopicUpdated | TopicDeleted


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
