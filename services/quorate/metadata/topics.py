"""Topics: what RocketMQ lets one create, change and delete.

Rules: names, attributes and remarks are those of Java ``TopicValidator``, ``AttributeUtil`` and ``TopicAttributes``;
the order of checks is that of the broker's ``AdminBrokerProcessor``. A command that changes nothing writes nothing.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.events import TopicCreated, TopicDeleted, TopicUpdated
from quorate.metadata.commands import DeleteTopic, PutTopic, Refusal, TopicIs
from quorate.metadata.context import Context, Decision
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.texts import LONG_MAX, java_long
from quorate.model.state import State, Topic

SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
"""Java ``TopicValidator.SYSTEM_TOPIC_SET`` of 5.3.3."""
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
NAME_LENGTH_MAX: Final = 127
RETRY_NAME_LENGTH_MAX: Final = 255
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")
LONGER_PREFIXES: Final = ("%RETRY%", "%DLQ%")
"""Retry and dead-letter topics, named for a consumer group."""
NAME_PATTERN: Final = "^[%|a-zA-Z0-9_-]+$"
PERMISSION_MAX: Final = 7
"""4 read, 2 write, 1 inherit."""
INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1

_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_MESSAGE_TYPE: Final = "message.type"


class _Attribute(msgspec.Struct, frozen=True, gc=False):
    """One that Java knows: an ``EnumAttribute``, or without values the ``LongRangeAttribute`` from -1 up."""

    changeable: bool
    values: tuple[str, ...] = ()


_ATTRIBUTES: Final[Mapping[str, _Attribute]] = {
    "queue.type": _Attribute(False, ("BatchCQ", "SimpleCQ")),
    "cleanup.policy": _Attribute(False, ("COMPACTION", "DELETE")),
    _MESSAGE_TYPE: _Attribute(True, ("DELAY", "FIFO", "MIXED", "NORMAL", "TRANSACTION", "UNSPECIFIED")),
    "reserve.time": _Attribute(True),
}
"""Java ``TopicAttributes.ALL`` of 5.3.3."""


def put_topic(state: State, command: PutTopic, context: Context) -> Decision | Refusal:
    """17 (Java ``AdminBrokerProcessor.updateAndCreateTopic``).

    Refuses InvalidTopicFilterType, InvalidTopicName, SystemTopic, InvalidTopicSetting, InvalidTopicAttribute.
    """
    policy, name = context.policy, command.topic
    if command.filter_type not in FILTER_TYPES:
        return refuse("InvalidTopicFilterType", f"topicFilterType = [{command.filter_type}] value invalid")
    refusal = _bad_name(name) or _protected(name, policy) or _bad_setting(command, policy)
    if refusal is not None:
        return refusal
    predecessor = state.topics.get(name)
    attributes = _altered(None if predecessor is None else predecessor.attributes, command.attributes)
    if isinstance(attributes, Refusal):
        return attributes
    topic = Topic(
        topic=name,
        read_queues=command.read_queues,
        write_queues=command.write_queues,
        permission=command.permission,
        filter_type=command.filter_type,
        system_flags=command.system_flags,
        order=command.order,
        attributes=attributes,
    )
    if topic == predecessor:
        return Decision((), TopicIs(topic=name, changed=False))
    event = (TopicCreated if predecessor is None else TopicUpdated)(**msgspec.structs.asdict(topic))
    return Decision((event,), TopicIs(topic=name, changed=True))


def delete_topic(state: State, command: DeleteTopic, context: Context) -> Decision | Refusal:
    """215 (Java ``AdminBrokerProcessor.deleteTopic``); one that is not there is a success.

    Refuses InvalidTopicName (a blank one only), SystemTopic.
    """
    name = command.topic
    refusal = _blank(name) or _protected(name, context.policy)
    if refusal is not None:
        return refusal
    if name not in state.topics:
        return Decision((), TopicIs(topic=name, changed=False))
    return Decision((TopicDeleted(topic=name),), TopicIs(topic=name, changed=True))


def _blank(name: str) -> Refusal | None:
    return None if name.strip() else refuse("InvalidTopicName", "The specified topic is blank.")


def _bad_name(name: str) -> Refusal | None:
    """Java ``TopicValidator.validateTopic``."""
    blank = _blank(name)
    if blank is not None:
        return blank
    if not _LEGAL.fullmatch(name):
        remark = f"The specified topic: {name}, contains illegal characters, allowing only {NAME_PATTERN}"
        return refuse("InvalidTopicName", remark)
    if name.startswith(LONGER_PREFIXES):
        if len(name) > RETRY_NAME_LENGTH_MAX:
            remark = f"The specified topic is DLQ or Retry topic: {name}, and it's longer than topic max length: "
            return refuse("InvalidTopicName", f"{remark}{RETRY_NAME_LENGTH_MAX}")
    elif len(name) > NAME_LENGTH_MAX:
        remark = f"The specified topic: {name}, is longer than topic max length: {NAME_LENGTH_MAX}"
        return refuse("InvalidTopicName", remark)
    return None


def _is_system_topic(name: str) -> bool:
    """One of RocketMQ's own (Java ``TopicValidator.isSystemTopic``)."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def _protected(name: str, policy: PolicySettings) -> Refusal | None:
    if policy.protect_system_topics and _is_system_topic(name):
        return refuse("SystemTopic", f"The topic[{name}] is conflict with system topic.")
    return None


def _bad_setting(command: PutTopic, policy: PolicySettings) -> Refusal | None:
    queues_max = policy.topic_queues_max
    for what, queues in (("read", command.read_queues), ("write", command.write_queues)):
        if not 1 <= queues <= queues_max:
            return refuse("InvalidTopicSetting", f"A topic has 1 to {queues_max} {what} queues, not {queues}")
    if not 0 <= command.permission <= PERMISSION_MAX:
        return refuse("InvalidTopicSetting", f"A permission is 0 to {PERMISSION_MAX}, not {command.permission}")
    if not INT_MIN <= command.system_flags <= INT_MAX:
        return refuse("InvalidTopicSetting", f"System flags have 32 bits: {command.system_flags} does not fit")
    if command.attributes.get(f"+{_MESSAGE_TYPE}") == "MIXED" and not policy.allow_mixed_message_type:
        return refuse("InvalidTopicSetting", "MIXED message type is not supported.")
    return None


def _altered(current: dict[str, str] | None, changes: dict[str, str]) -> dict[str, str] | Refusal:
    """The attributes afterwards (Java ``AttributeUtil.alterCurrentAttributes``); ``current`` None: of a new topic.

    First every key is looked at, then what is added, then what is updated, then what is deleted.
    """
    have = {} if current is None else current
    added: dict[str, str] = {}
    updated: dict[str, str] = {}
    deleted: dict[str, str] = {}
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            return _wrong("kv string format wrong.")
        if key in seen:
            return _wrong(f"alter duplication key. key: {key}")
        seen.add(key)
        if sign == "+":
            (updated if key in have else added)[key] = value
        elif current is None:
            return _wrong(f"only add attribute is supported while creating topic. key: {key}")
        elif sign != "-":
            return _wrong(f"wrong format key: {key}")
        elif key not in have:
            return _wrong(f"attempt to delete a nonexistent key: {key}")
        else:
            deleted[key] = value
    for key in (*added, *updated, *deleted):
        attribute = _ATTRIBUTES.get(key)
        if attribute is None:
            return _wrong(f"unsupported key: {key}")
        if current is not None and not attribute.changeable:
            return _wrong(f"attempt to update an unchangeable attribute. key: {key}")
        refusal = None if key in deleted else _bad_value(attribute, changes[f"+{key}"])
        if refusal is not None:
            return refusal
    altered = {**have, **added, **updated}
    return {key: altered[key] for key in sorted(altered) if key not in deleted}


def _bad_value(attribute: _Attribute, value: str) -> Refusal | None:
    """Java ``EnumAttribute.verify`` and ``LongRangeAttribute.verify``."""
    if attribute.values:
        universe = ", ".join(attribute.values)
        return None if value in attribute.values else _wrong(f"value is not in set: [{universe}]")
    number = java_long(value)
    if number is None:
        return _wrong(f'For input string: "{value}"')
    return None if number >= -1 else _wrong(f"value is not in range(-1, {LONG_MAX})")


def _wrong(remark: str) -> Refusal:
    return refuse("InvalidTopicAttribute", remark)
