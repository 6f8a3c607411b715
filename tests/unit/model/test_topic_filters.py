"""Topics and filters of MQTT 5, and the index of subscriptions held against a matcher that compares one by one."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.model.state import Subscription, Subscriptions
from quorate.model.topic_filters import (
    LEVELS_MAX,
    PER_STEP,
    TEXT_BYTES_MAX,
    filter_fault,
    matching,
    shared,
    subscribed,
    topic_fault,
    unsubscribed,
)

LEVEL = st.sampled_from(["", "a", "b", "a ", "$x", "$SYS", "é", "\U0001f600", "A", "\x01"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTER = st.builds(
    lambda group, levels, end: group + "/".join([*levels, *end]),
    st.sampled_from(["", "", "$share/g/", "$share/h/"]),
    st.lists(LEVEL | st.just("+"), max_size=4),
    st.sampled_from([[], ["#"], ["+"]]),
).filter(lambda text: not filter_fault(text))
CLIENT = st.sampled_from(["c", "cc", "d", "ü"])


def naive(topic_filter: str, topic: str) -> bool:
    """The words of section 4.7, level by level."""
    if topic_filter.startswith("$share/"):
        topic_filter = topic_filter.split("/", 2)[2]
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    wanted, there = topic_filter.split("/"), topic.split("/")
    while wanted:
        first = wanted.pop(0)
        if first == "#":
            return True
        if not there:
            return False
        level = there.pop(0)
        if first not in ("+", level):
            return False
    return not there


def found_in(index: Subscriptions, topic: str) -> list[tuple[str, Subscription]]:
    """Whoever matches."""
    return [found for found in matching(index, topic) if found is not None]


def index_of(pairs: set[tuple[str, str]]) -> Subscriptions:
    """Of clients and their filters."""
    index = Subscriptions()
    for client, topic_filter in pairs:
        index = subscribed(index, client, Subscription(filter=topic_filter))
    return index


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "a/b", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/a", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/a", True),
        ("$SYS/#", "$SYS", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a/$x/+", "a/$x/b", True),
        ("ACCOUNTS", "Accounts", False),
        ("$share/g/sport/+", "sport/a", True),
        ("$share/g/#", "$SYS/a", False),
        ("a//b", "a//b", True),
        ("a/b", "a//b", False),
    ],
)
def test_the_examples_of_the_standard(topic_filter: str, topic: str, *, matches: bool) -> None:
    """Sections 4.7.1 and 4.7.2: what they say matches does, and nothing else."""
    assert bool(found_in(index_of({("c", topic_filter)}), topic)) is matches
    assert naive(topic_filter, topic) is matches


@given(st.sets(st.tuples(CLIENT, FILTER), max_size=30), TOPIC)
@example({("c", "#"), ("c", "+/#"), ("c", "a/#"), ("c", "a"), ("d", "$share/g/a")}, "a")
def test_the_index_finds_what_comparing_one_by_one_finds(pairs: set[tuple[str, str]], topic: str) -> None:
    """Each subscription once, shared or not, whatever else is there."""
    found = [(client, subscription.filter) for client, subscription in found_in(index_of(pairs), topic)]
    assert Counter(found) == Counter(pair for pair in pairs if naive(pair[1], topic))


@given(st.lists(st.tuples(CLIENT, FILTER, st.booleans()), max_size=40), TOPIC)
def test_what_is_taken_away_is_found_no_more(steps: list[tuple[str, str, bool]], topic: str) -> None:
    """An index that grew and shrank is the one of what is left."""
    index, left = Subscriptions(), set[tuple[str, str]]()
    for client, topic_filter, stays in steps:
        if stays:
            index, left = (
                subscribed(index, client, Subscription(filter=topic_filter, qos=1)),
                left | {(client, topic_filter)},
            )
        elif (client, topic_filter) in left:
            index, left = unsubscribed(index, client, topic_filter), left - {(client, topic_filter)}
    assert {(client, found.filter) for client, found in found_in(index, topic)} == {
        pair for pair in left if naive(pair[1], topic)
    }
    assert len(index) == len(left)


@pytest.mark.parametrize(
    "topic_filter", ["#", "+", "a/+/b", "/", "//", "+/#", "$share/g/+", "$share/g//", "$share", "$SYS/#", "a b", "a/"]
)
def test_filters_that_are_one(topic_filter: str) -> None:
    """Empty levels and blanks are allowed; ``$share`` alone is a name like any other."""
    assert filter_fault(topic_filter) == ""


@pytest.mark.parametrize(
    "topic_filter",
    [
        *("", "a#", "#/a", "a/#/b", "a+", "+a/b", "##", "\0", "a\0b", "\ud800"),
        *("$share/", "$share//a", "$share/g", "$share/g/", "$share/+/a", "$share/g#/a", "$share/g/a#"),
        *("a" * (TEXT_BYTES_MAX + 1), "é" * 32_768, "/" * LEVELS_MAX),
    ],
)
def test_filters_that_are_none(topic_filter: str) -> None:
    """Each is refused with a reason."""
    assert filter_fault(topic_filter)


def test_topics_to_publish_to() -> None:
    """Without wildcards; else as a filter, with as many levels as there are."""
    assert not any(map(topic_fault, ("a", "/", "a//b", "$SYS", "/" * (LEVELS_MAX + 1), "a" * TEXT_BYTES_MAX)))
    assert all(map(topic_fault, ("", "+", "a/#", "a+b", "\0", "\udfff", "é" * 32_768)))


def test_a_shared_subscription_is_in_its_group() -> None:
    """And compared by what is behind the group."""
    assert shared("$share/g/a/b") == ("g", "a/b")
    assert shared("$share/g//a") == ("g", "/a")
    assert shared("a/$share/g") == ("", "a/$share/g")


class Counted:
    """An index that counts what is read of it."""

    def __init__(self, index: Subscriptions) -> None:
        self._index, self.read, self.total = index, 0, 0

    def items(self, start: bytes, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, Subscription]]:
        self.read += 1
        for item in self._index.items(start, end, reverse=reverse):
            self.read += 1
            yield item


def test_a_match_looks_at_what_it_finds_and_not_at_the_rest() -> None:
    """Among many filters, the work follows the levels of the topic and whoever is found."""
    pairs = {(f"c{n}", f"site/{n % 500}/device/{n // 500}/{'+' if n % 7 else 'state'}") for n in range(20_000)}
    counted: Any = Counted(index_of(pairs | {("all", "#"), ("one", "site/3/#"), ("two", "site/+/device/9/state")}))
    found = found_in(counted, "site/3/device/9/state")
    assert {client for client, _ in found} == {"all", "one", "two", "c4503"}
    assert counted.read < 60


def test_many_deep_filters_are_walked_where_they_part_and_in_steps() -> None:
    """1,000 filters of 127 levels that match all but for their last: a level that all share costs nothing, and others
    have their turn after so many looks, though nobody is found.
    """
    chance = random.Random(1)
    pairs = {(f"c{n}", "/".join([*(chance.choice("+a") for _ in range(126)), "zz"])) for n in range(1_000)}
    counted: Any = Counted(index_of(pairs))
    most = 0
    for found in matching(counted, "a/" * 126 + "a"):
        assert found is None
        most, counted.total, counted.read = max(most, counted.read), counted.total + counted.read, 0
    assert 0 < most <= PER_STEP * 10
    assert counted.total < 20 * len(pairs)


def test_a_topic_of_many_levels_costs_nothing_where_no_filter_goes() -> None:
    """A filter has at most 128 levels; a topic may have 32,000."""
    counted: Any = Counted(index_of({("c", "a/b"), ("c", "a/a/#")}))
    assert [one.filter for _, one in found_in(counted, "a/" * 32_000 + "a")] == ["a/a/#"]
    assert counted.read < 40
