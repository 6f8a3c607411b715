"""Topics: what RocketMQ lets one create, change and delete.

Rules and remarks are those of the 5.3 broker (``AdminBrokerProcessor.updateAndCreateTopic``, ``TopicValidator``,
``AttributeUtil.alterCurrentAttributes``), whose place the controller takes here; the bounds on queues and permission,
which Java leaves to ``mqadmin``, are ours.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from quorate.events import Event, TopicCreated, TopicDeleted, TopicUpdated
from quorate.metadata.commands import DeleteTopic, PutTopic, Refusal, TopicIs
from quorate.metadata.context import Context, Decision
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.state import State, Topic

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

_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_INT32_MAX: Final = 2**31 - 1


class Attribute(msgspec.Struct, frozen=True):
    """A topic attribute RocketMQ knows; ``problem`` says what is wrong with a value, or nothing."""

    changeable: bool
    problem: Callable[[str], str]


def _one_of(*allowed: str) -> Callable[[str], str]:
    remark = f"value is not in set: [{', '.join(allowed)}]"
    return lambda value: "" if value in allowed else remark


def _long_from(minimum: int) -> Callable[[str], str]:
    maximum = 2**63 - 1

    def problem(value: str) -> str:
        if not re.fullmatch(r"[+-]?[0-9]{1,40}", value) or not -maximum - 1 <= int(value) <= maximum:
            return f'For input string: "{value}"'
        return "" if int(value) >= minimum else f"value is not in range({minimum}, {maximum})"

    return problem


ATTRIBUTES: Final[Mapping[str, Attribute]] = {
    "queue.type": Attribute(False, _one_of("BatchCQ", "SimpleCQ")),
    "cleanup.policy": Attribute(False, _one_of("COMPACTION", "DELETE")),
    "message.type": Attribute(True, _one_of("DELAY", "FIFO", "MIXED", "NORMAL", "TRANSACTION", "UNSPECIFIED")),
    "reserve.time": Attribute(True, _long_from(-1)),
}
"""Java ``TopicAttributes.ALL``."""


def put_topic(state: State, command: PutTopic, context: Context) -> Decision | Refusal:
    """17: create or change a topic; no event if it is just so already.

    Refuses InvalidTopicName, SystemTopic, InvalidTopicFilterType, InvalidTopicSetting, InvalidTopicAttribute.
    """
    refusal = _judge_name(command.topic, context.policy) or _judge_settings(command, context.policy)
    if refusal is not None:
        return refusal
    old = state.topics.get(command.topic)
    attributes = _altered(None if old is None else old.attributes, command.attributes, context.policy)
    if isinstance(attributes, Refusal):
        return attributes
    new = Topic(
        topic=command.topic,
        read_queues=command.read_queues,
        write_queues=command.write_queues,
        permission=command.permission,
        filter_type=command.filter_type,
        system_flags=command.system_flags,
        order=command.order,
        attributes=attributes,
    )
    if new == old:
        return Decision((), TopicIs(topic=new.topic, changed=False))
    fact = TopicCreated if old is None else TopicUpdated
    event: Event = fact(**msgspec.structs.asdict(new))
    return Decision((event,), TopicIs(topic=new.topic, changed=True))


def delete_topic(state: State, command: DeleteTopic, context: Context) -> Decision | Refusal:
    """215: forget a topic; one that does not exist is as good as deleted. Refuses InvalidTopicName, SystemTopic."""
    if not command.topic.strip():
        return refuse("InvalidTopicName", "The specified topic is blank.")
    if context.policy.protect_system_topics and is_system_topic(command.topic):
        return refuse("SystemTopic", f"The topic[{command.topic}] is conflict with system topic.")
    if command.topic not in state.topics:
        return Decision((), TopicIs(topic=command.topic, changed=False))
    return Decision((TopicDeleted(topic=command.topic),), TopicIs(topic=command.topic, changed=True))


def is_system_topic(topic: str) -> bool:
    """Does RocketMQ need this topic for itself?"""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def _judge_name(topic: str, policy: PolicySettings) -> Refusal | None:
    """Java ``TopicValidator.validateTopic``, then ``isSystemTopic``."""
    if not topic.strip():
        return refuse("InvalidTopicName", "The specified topic is blank.")
    if not _NAME.fullmatch(topic):
        remark = f"The specified topic: {topic}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        return refuse("InvalidTopicName", remark)
    if topic.startswith(("%RETRY%", "%DLQ%")):
        if len(topic) > RETRY_NAME_LENGTH_MAX:
            remark = f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than topic max length: "
            return refuse("InvalidTopicName", f"{remark}{RETRY_NAME_LENGTH_MAX}")
    elif len(topic) > NAME_LENGTH_MAX:
        remark = f"The specified topic: {topic}, is longer than topic max length: {NAME_LENGTH_MAX}"
        return refuse("InvalidTopicName", remark)
    if policy.protect_system_topics and is_system_topic(topic):
        return refuse("SystemTopic", f"The topic[{topic}] is conflict with system topic.")
    return None


def _judge_settings(command: PutTopic, policy: PolicySettings) -> Refusal | None:
    if command.filter_type not in FILTER_TYPES:
        return refuse("InvalidTopicFilterType", f"topicFilterType = [{command.filter_type}] value invalid")
    for name, queues in (("readQueueNums", command.read_queues), ("writeQueueNums", command.write_queues)):
        if not 1 <= queues <= policy.topic_queues_max:
            return refuse("InvalidTopicSetting", f"{name} = {queues} is not in 1..{policy.topic_queues_max}")
    if not 0 <= command.permission <= 7:
        return refuse("InvalidTopicSetting", f"perm = {command.permission} is not in 0..7")
    if not -_INT32_MAX - 1 <= command.system_flags <= _INT32_MAX:
        return refuse("InvalidTopicSetting", f"topicSysFlag = {command.system_flags} is not a 32-bit integer")
    return None


def _altered(
    current: Mapping[str, str] | None, changes: Mapping[str, str], policy: PolicySettings
) -> dict[str, str] | Refusal:
    """The attributes after the changes, sorted by name; ``current`` None: the topic is being created.

    Every format error is found before any value is judged, as in Java ``alterCurrentAttributes``.
    """
    if not policy.allow_mixed_message_type and changes.get("+message.type") == "MIXED":
        return refuse("InvalidTopicSetting", "MIXED message type is not supported.")
    problem = _malformed(current, changes) or _unsuitable(current, changes)
    if problem:
        return refuse("InvalidTopicAttribute", problem)
    attributes = dict(current or {})
    for change, value in changes.items():
        if change[0] == "+":
            attributes[change[1:]] = value
        else:
            del attributes[change[1:]]
    return dict(sorted(attributes.items()))


def _malformed(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> str:
    """What is wrong with the form of the changes; empty: nothing."""
    seen: set[str] = set()
    for change in sorted(changes):
        sign, key = change[:1], change[1:]
        if not key or "+" in key or "-" in key:
            return "kv string format wrong."
        if key in seen:
            return f"alter duplication key. key: {key}"
        seen.add(key)
        if current is None and sign != "+":
            return f"only add attribute is supported while creating topic. key: {key}"
        if sign not in ("+", "-"):
            return f"wrong format key: {key}"
        if sign == "-" and key not in (current or {}):
            return f"attempt to delete a nonexistent key: {key}"
    return ""


def _unsuitable(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> str:
    """Which change RocketMQ's attributes do not allow; empty: none."""
    for change, value in sorted(changes.items()):
        key = change[1:]
        attribute = ATTRIBUTES.get(key)
        if attribute is None:
            return f"unsupported key: {key}"
        if current is not None and not attribute.changeable:
            return f"attempt to update an unchangeable attribute. key: {key}"
        problem = attribute.problem(value) if change[0] == "+" else ""
        if problem:
            return problem
    return ""
