"""Masters learn of the topics made here: until they have them, and no more than that."""

from collections.abc import Callable, Mapping

import msgspec
import pytest

from quorate.controller import TopicPushes
from quorate.controller.settings import ControllerSettings
from quorate.metadata.commands import ApplyBrokerId, DeleteTopic, ElectMaster, PutTopic
from quorate.model.state import Topic
from tests.unit.controller.bench import Bench, Line

MASTER, SLAVE = "127.0.0.1:30001", "127.0.0.1:30002"


class Masters:
    """Brokers with topics. ``deaf``: addresses that never answer; ``lose``: what is put there, its answer is lost."""

    def __init__(self) -> None:
        self.has: dict[str, dict[str, Topic]] = {}
        self.deaf: set[str] = set()
        self.lose = 0
        self.asked: list[tuple[str, str]] = []
        self.put: list[tuple[str, str, Topic | None]] = []

    def ask_topic(self, address: str, topic: str, done: Callable[[Mapping[str, Topic] | None], None]) -> None:
        self.asked.append((address, topic))
        have = self.has.setdefault(address, {})
        done(None if address in self.deaf else {name: one for name, one in have.items() if name == topic})

    def ask_all_topics(self, address: str, done: Callable[[Mapping[str, Topic] | None], None]) -> None:
        self.asked.append((address, ""))
        done(None if address in self.deaf else dict(self.has.setdefault(address, {})))

    def put_topic(self, address: str, topic: Topic, before: Topic | None, done: Callable[[bool], None]) -> None:
        self.put.append((address, topic.topic, before))
        self.has[address][topic.topic] = topic
        self.lose -= 1
        done(self.lose < 0)


def begun(push_topics: str = "missing") -> tuple[Bench, Masters, TopicPushes]:
    """An open term, one set of two brokers."""
    bench, masters = Bench(), Masters()
    settings = msgspec.structs.replace(bench.settings, push_topics=push_topics)
    pushes = TopicPushes(bench.controller, bench.loop, masters, settings)
    bench.controller.listeners.add(pushes)
    bench.open()
    bench.broker_set([Line(), Line()])
    bench.in_sync(1, 2)
    return bench, masters, pushes


def orders(queues: int = 8, attributes: dict[str, str] | None = None) -> PutTopic:
    """A topic."""
    return PutTopic(topic="orders", read_queues=queues, write_queues=queues, permission=6, attributes=attributes or {})


def waited(bench: Bench, seconds: int = 3) -> None:
    """Virtual time passes."""
    for _ in range(seconds * 10):
        bench.after(0.1)


def test_a_topic_that_is_made_goes_to_the_master() -> None:
    """Once, to the master alone: slaves take topics from it."""
    bench, masters, pushes = begun()
    bench.done(orders())
    waited(bench)
    assert masters.put == [(MASTER, "orders", None)]
    assert masters.has[MASTER]["orders"] == bench.machine.state.topics["orders"]
    assert (len(pushes), pushes.pushed) == (0, 1)


def test_sets_without_a_master_cost_a_topic_nothing() -> None:
    """Nobody is asked, and nothing waits, however many there are; who comes to lead one of them is compared."""
    bench, masters, pushes = begun()
    for number in range(50):
        name = f"nobody-{number}"
        bench.done(ApplyBrokerId(cluster="c", broker_set=name, broker_id=1, register_check_code="h:1;1"))
    bench.done(orders())
    waited(bench)
    assert (masters.asked, len(pushes), list(pushes._led)) == ([(MASTER, "orders")], 0, ["a"])


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too much waiting a set is compared instead of being told of one topic more, and lacks nothing in the end."""
    monkeypatch.setattr("quorate.controller.topic_pushes.WAITS_MAX", 3)
    bench, masters, pushes = begun()
    masters.deaf.add(MASTER)
    for number in range(9):
        bench.done(PutTopic(topic=f"t{number}", read_queues=1, write_queues=1, permission=6))
        waited(bench, 1)
    assert len(pushes) == 4
    masters.deaf.clear()
    waited(bench, 40)
    assert masters.has[MASTER].keys() == {f"t{number}" for number in range(9)}
    assert len(pushes) == 0


def test_what_a_new_leader_finds_lacking_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that lacks a great deal is told of some topics, and compared again, until it lacks nothing."""
    monkeypatch.setattr("quorate.controller.topic_pushes.WAITS_MAX", 3)
    bench, masters, pushes = begun("off")
    for number in range(40):
        bench.done(PutTopic(topic=f"t{number}", read_queues=1, write_queues=1, permission=6))
    pushes._settings = msgspec.structs.replace(bench.settings, push_topics="missing")
    bench.engine.lose()
    bench.open(term=2)
    most = 0
    for _ in range(1_000):
        bench.after(0.001)
        most = max(most, len(pushes))
    assert masters.has[MASTER].keys() == {f"t{number}" for number in range(40)}
    assert (most <= 9, len(pushes)) == (True, 0)
    assert len(masters.put) == 40


def test_a_changed_topic_is_told_with_what_was_before() -> None:
    """Attributes are changes of what the master has."""
    bench, masters, _ = begun()
    bench.done(orders(attributes={"+message.type": "FIFO"}))
    waited(bench)
    before = masters.has[MASTER]["orders"]
    bench.done(orders(queues=16))
    waited(bench)
    assert masters.put[1:] == [(MASTER, "orders", before)]
    assert masters.has[MASTER]["orders"].read_queues == 16


def test_a_master_that_does_not_answer_is_asked_until_it_has_the_topic() -> None:
    """With growing pauses; nothing is put twice when only the answer was lost."""
    bench, masters, pushes = begun()
    masters.deaf.add(MASTER)
    bench.done(orders())
    waited(bench, 4)
    assert 3 <= len(masters.asked) <= 6
    assert (masters.put, len(pushes)) == ([], 1)
    masters.deaf.clear()
    masters.lose = 1
    waited(bench, 20)
    assert (masters.put, len(pushes)) == ([(MASTER, "orders", None)], 0)


def test_a_topic_deleted_meanwhile_is_not_made() -> None:
    """And nobody is told to delete one."""
    bench, masters, pushes = begun()
    masters.deaf.add(MASTER)
    bench.done(orders())
    waited(bench)
    bench.done(DeleteTopic(topic="orders"))
    masters.deaf.clear()
    waited(bench, 20)
    assert (masters.put, len(pushes)) == ([], 0)


def test_a_new_leader_finds_what_a_master_lacks() -> None:
    """It compares all sets; what a former leader was told of is made, and what a master has otherwise is counted."""
    bench, masters, pushes = begun()
    masters.deaf.add(MASTER)
    bench.done(orders())
    bench.done(PutTopic(topic="other", read_queues=1, write_queues=1, permission=6))
    waited(bench, 1)
    bench.engine.lose(2)
    masters.deaf.clear()
    waited(bench)
    assert (masters.put, len(pushes)) == ([], 0)
    masters.has[MASTER]["other"] = msgspec.structs.replace(bench.machine.state.topics["other"], read_queues=2)
    bench.open(term=3)
    waited(bench)
    assert (masters.put, pushes.differing) == ([(MASTER, "orders", None)], 1)
    bench.done(PutTopic(topic="other", read_queues=3, write_queues=3, permission=6))
    waited(bench)
    assert (masters.put[1:], pushes.differing) == ([(MASTER, "other", masters.put[1][2])], 0)


def test_with_all_a_new_leader_makes_every_topic_as_it_is_here() -> None:
    """``push_topics=all``."""
    bench, masters, pushes = begun("all")
    bench.done(orders())
    waited(bench)
    ours = bench.machine.state.topics["orders"]
    bench.engine.lose(2)
    masters.has[MASTER]["orders"] = msgspec.structs.replace(ours, read_queues=2)
    bench.open(term=3)
    waited(bench)
    assert (masters.has[MASTER]["orders"], pushes.differing) == (ours, 0)


def test_a_new_master_is_compared() -> None:
    """It may have been made master before it had taken the topic from the old one."""
    bench, masters, _ = begun()
    bench.done(orders())
    waited(bench)
    bench.done(ElectMaster(cluster="c", broker_set="a", broker_id=2, designate=True, trigger="admin"))
    waited(bench)
    assert masters.put == [(MASTER, "orders", None), (SLAVE, "orders", None)]


@pytest.mark.parametrize("push_topics", ["missing", "all"])
def test_without_topics_nobody_is_asked(push_topics: str) -> None:
    """Elections and terms cost no question as long as no topic was made here."""
    bench, masters, _ = begun(push_topics)
    bench.engine.lose(2)
    bench.open(term=3)
    waited(bench)
    assert masters.asked == []


def test_off_is_off() -> None:
    """``push_topics=off``: as before there were pushes."""
    bench, masters, pushes = begun("off")
    bench.done(orders())
    waited(bench)
    assert (masters.asked, len(pushes)) == ([], 0)


def test_the_setting_is_one_of_three() -> None:
    """Anything else is a mistake, told as one."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"push_topics": "some"}, ControllerSettings)
