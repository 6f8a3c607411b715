"""Topics in RocketMQ's words: attribute texts in, topic bodies out (17, 215, 351, 21).

Source: Java ``AttributeParser``, ``TopicConfig``, ``TopicConfigAndMappingSerializeWrapper``.
"""

from collections.abc import Iterable

import msgspec

from quorate.errors import UsageError
from quorate.model.state import Topic
from quorate.wire.name_server import AnnouncedTopic
from quorate.wire.remoting_headers import CreateTopicFields, DataVersionBody, TopicConfigBody, TopicListBody

_json = msgspec.json.Encoder().encode


def parse_attributes(text: str | None) -> dict[str, str]:
    """``+key=value,-key`` as changes (Java ``AttributeParser.parseToMap``). Raises UsageError with Java's message."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, sign, rest = part.partition("=")
        value = rest.split("=")[0]
        if sign and "+" not in key:
            raise UsageError(f"add/alter attribute format is wrong: {key}")
        if sign and not value:
            raise UsageError(f"attribute without a value: {key}")
        if not sign and "-" not in key:
            raise UsageError(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise UsageError(f"key duplication: {key}")
        changes[key] = value
    return changes


def topic_of(name: str, config: AnnouncedTopic) -> Topic:
    """A topic as a broker has it."""
    return Topic(
        topic=name,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        permission=config.perm,
        filter_type=config.topic_filter_type or "SINGLE_TAG",
        system_flags=config.topic_sys_flag,
        order=config.order,
        attributes=dict(config.attributes or {}),
    )


def put_topic(topic: Topic, before: Topic | None) -> CreateTopicFields:
    """17 that makes a topic, or makes of ``before`` this one: attributes are told as changes (Java
    ``AttributeParser``), because one that cannot be changed must not be set again.
    """
    had = {} if before is None else before.attributes
    changes = [f"+{name}={value}" for name, value in sorted(topic.attributes.items()) if had.get(name) != value]
    changes += [f"-{name}" for name in sorted(had) if name not in topic.attributes]
    return CreateTopicFields(
        topic=topic.topic,
        default_topic="TBW102",
        read_queue_nums=topic.read_queues,
        write_queue_nums=topic.write_queues,
        perm=topic.permission,
        topic_filter_type=topic.filter_type,
        topic_sys_flag=topic.system_flags,
        order="true" if topic.order else "false",
        attributes=",".join(changes) or None,
    )


def topic_body(topic: Topic) -> TopicConfigBody:
    """Java ``TopicConfig``."""
    return TopicConfigBody(
        attributes=topic.attributes,
        order=topic.order,
        perm=topic.permission,
        read_queue_nums=topic.read_queues,
        topic_filter_type=topic.filter_type,
        topic_name=topic.topic,
        topic_sys_flag=topic.system_flags,
        write_queue_nums=topic.write_queues,
    )


def encode_topic(topic: Topic) -> bytes:
    """Body of the answer to 351."""
    return _json(topic_body(topic))


def encode_topics(topics: Iterable[Topic], offset: int) -> bytes:
    """Body of the answer to 21; its data version counts events, so it grows when, and only when, something happened."""
    version = DataVersionBody(counter=offset, state_version=0, timestamp=0)
    none = DataVersionBody(counter=0, state_version=0, timestamp=0)
    return _json(TopicListBody(version, none, {topic.topic: topic_body(topic) for topic in topics}))
