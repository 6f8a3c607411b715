"""The view ``topics``: every topic with its settings, by name."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Topic
from quorate_projections.views.view import row_of, showing


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


def show(topic: Topic, before: TopicRow, stamp: Stamp) -> TopicRow:
    """The topic, and when it was created and changed."""
    new = before.created_offset < 0
    return row_of(
        TopicRow,
        topic,
        created_offset=stamp.offset if new else before.created_offset,
        created_ms=stamp.time_ms if new else before.created_ms,
        changed_offset=stamp.offset,
        changed_ms=stamp.time_ms,
    )


VIEW = showing("topics", "Topics and their settings, by name.", TopicRow(), {"topic": ("", show)})
