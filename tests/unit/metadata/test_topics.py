"""17 and 215: topics, with RocketMQ's validation and remarks."""

import msgspec
import pytest

from quorate.events import TopicCreated, TopicDeleted, TopicUpdated
from quorate.metadata.commands import DeleteTopic, PutTopic, TopicIs
from quorate.metadata.policy import PolicySettings
from tests.unit.metadata.kit import World

PUT = PutTopic(topic="T", read_queues=4, write_queues=4, permission=6)


def put(**other: object) -> PutTopic:
    """A topic that is fine, but for what is named."""
    return msgspec.structs.replace(PUT, **other)


def attributes_after(world: World) -> dict[str, str]:
    """Of topic T."""
    return world.state.topics["T"].attributes


def test_a_topic_is_created_changed_and_deleted() -> None:
    """Each is a fact of its own kind, and the answer says that something changed."""
    world = World()
    command = put(attributes={"+message.type": "FIFO"})
    assert world.events(command) == (
        TopicCreated(
            topic="T",
            read_queues=4,
            write_queues=4,
            permission=6,
            filter_type="SINGLE_TAG",
            system_flags=0,
            order=False,
            attributes={"message.type": "FIFO"},
        ),
    )
    (event,) = world.events(put(read_queues=8, order=True))
    assert isinstance(event, TopicUpdated)
    assert (event.read_queues, event.order, event.attributes) == (8, True, {"message.type": "FIFO"})
    assert world.reply(DeleteTopic(topic="T"), TopicIs) == TopicIs(topic="T", changed=True)
    assert world.log[-1][0] == TopicDeleted(topic="T")
    assert not world.state.topics


def test_what_is_so_already_writes_nothing() -> None:
    """Putting the same topic, and deleting one that is not there (a success in Java, too)."""
    world = World()
    world.do(PUT)
    assert world.events(PUT) == ()
    assert world.reply(PUT, TopicIs) == TopicIs(topic="T", changed=False)
    assert world.reply(DeleteTopic(topic="none"), TopicIs) == TopicIs(topic="none", changed=False)


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        (" ", "The specified topic is blank."),
        (
            "a b",
            "The specified topic: a b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        (
            "ü",
            "The specified topic: ü, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("a" * 128, f"The specified topic: {'a' * 128}, is longer than topic max length: 127"),
        (
            "%DLQ%" + "a" * 251,
            f"The specified topic is DLQ or Retry topic: %DLQ%{'a' * 251}, and it's longer than topic max length: 255",
        ),
    ],
)
def test_bad_names_are_refused_with_javas_remarks(topic: str, remark: str) -> None:
    """``TopicValidator.validateTopic``."""
    refusal = World().refused(put(topic=topic))
    assert (refusal.code, refusal.remark) == ("InvalidTopicName", remark)


@pytest.mark.parametrize("topic", ["a" * 127, "%RETRY%" + "g" * 248, "a%|-_9"])
def test_good_names_up_to_the_limit_are_taken(topic: str) -> None:
    """Retry and dead-letter topics may be longer."""
    assert World().reply(put(topic=topic), TopicIs).changed


@pytest.mark.parametrize("topic", ["TBW102", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"])
def test_system_topics_are_protected_unless_an_operator_allows_it(topic: str) -> None:
    """Neither created nor deleted."""
    world = World()
    remark = f"The topic[{topic}] is conflict with system topic."
    for command in (put(topic=topic), DeleteTopic(topic=topic)):
        refusal = world.refused(command)
        assert (refusal.code, refusal.remark) == ("SystemTopic", remark)
    world.policy = PolicySettings(protect_system_topics=False)
    assert world.reply(put(topic=topic), TopicIs).changed
    assert world.reply(DeleteTopic(topic=topic), TopicIs).changed


def test_deleting_nothing_is_refused() -> None:
    """A blank name is no topic."""
    assert World().refused(DeleteTopic(topic=" ")).remark == "The specified topic is blank."


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"read_queues": 0}, "InvalidTopicSetting"),
        ({"write_queues": 1025}, "InvalidTopicSetting"),
        ({"permission": 8}, "InvalidTopicSetting"),
        ({"permission": -1}, "InvalidTopicSetting"),
        ({"system_flags": 2**31}, "InvalidTopicSetting"),
        ({"filter_type": "ANY"}, "InvalidTopicFilterType"),
        ({"attributes": {"+message.type": "MIXED"}}, "InvalidTopicSetting"),
    ],
)
def test_settings_out_of_range_are_refused(other: dict[str, object], code: str) -> None:
    """Before anything is written."""
    assert World().refused(put(**other)).code == code


def test_mixed_messages_are_for_operators_who_allow_them() -> None:
    """As the broker's ``enableMixedMessageType``."""
    assert World().refused(put(attributes={"+message.type": "MIXED"})).remark == "MIXED message type is not supported."
    world = World(PolicySettings(allow_mixed_message_type=True))
    assert world.reply(put(attributes={"+message.type": "MIXED"}), TopicIs).changed


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"": "1"}, "kv string format wrong."),
        ({"+": "1"}, "kv string format wrong."),
        ({"+a+b": "1"}, "kv string format wrong."),
        ({"+a-b": "1"}, "kv string format wrong."),
        ({"-message.type": ""}, "only add attribute is supported while creating topic. key: message.type"),
        ({"+what": "1"}, "unsupported key: what"),
        (
            {"+message.type": "ODD"},
            "value is not in set: [DELAY, FIFO, MIXED, NORMAL, TRANSACTION, UNSPECIFIED]",
        ),
        ({"+reserve.time": "x"}, 'For input string: "x"'),
        ({"+reserve.time": "9223372036854775808"}, 'For input string: "9223372036854775808"'),
        ({"+reserve.time": "-2"}, "value is not in range(-1, 9223372036854775807)"),
    ],
)
def test_bad_attributes_of_a_new_topic_are_refused(changes: dict[str, str], remark: str) -> None:
    """``AttributeUtil.alterCurrentAttributes`` on creation."""
    refusal = World().refused(put(attributes=changes))
    assert (refusal.code, refusal.remark) == ("InvalidTopicAttribute", remark)


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"-reserve.time": ""}, "attempt to delete a nonexistent key: reserve.time"),
        ({"*message.type": "FIFO"}, "wrong format key: message.type"),
        ({"+message.type": "FIFO", "-message.type": ""}, "alter duplication key. key: message.type"),
        ({"+cleanup.policy": "DELETE"}, "attempt to update an unchangeable attribute. key: cleanup.policy"),
        ({"-cleanup.policy": ""}, "attempt to update an unchangeable attribute. key: cleanup.policy"),
        ({"-message.type": "", "+what": "1"}, "unsupported key: what"),
    ],
)
def test_bad_changes_of_attributes_are_refused(changes: dict[str, str], remark: str) -> None:
    """``AttributeUtil.alterCurrentAttributes`` on a change; the topic stays as it was."""
    world = World()
    world.do(put(attributes={"+cleanup.policy": "COMPACTION", "+message.type": "NORMAL"}))
    refusal = world.refused(put(attributes=changes))
    assert (refusal.code, refusal.remark) == ("InvalidTopicAttribute", remark)


def test_attributes_are_added_changed_and_removed() -> None:
    """What is not named stays."""
    world = World()
    world.do(put(attributes={"+cleanup.policy": "COMPACTION", "+message.type": "NORMAL"}))
    world.do(put(attributes={"+message.type": "FIFO", "+reserve.time": "5"}))
    assert attributes_after(world) == {"cleanup.policy": "COMPACTION", "message.type": "FIFO", "reserve.time": "5"}
    world.do(put(attributes={"-message.type": ""}))
    assert attributes_after(world) == {"cleanup.policy": "COMPACTION", "reserve.time": "5"}
