"""MQTT's topics and topic filters, and who subscribed to what: by the rules of MQTT 5.0, section 4.7 and 4.8.2.

Rules: pure. A topic and a filter are levels between slashes; ``+`` is one level whatever it says, ``#`` at the end any
number of them, none too. A wildcard in the first place stands for no level that begins with ``$``. Of
``$share/group/filter`` the filter is what topics are compared with. No text holds a NUL, so it ends a name here.

Theory: subscriptions lie in one ordered map under filter, NUL, client, NUL, group. A filter and its beginnings are
ranges of it, so a topic is walked along the beginnings that some filter has, and from one where filters part to the
next, as in a radix tree (Morrison 1968, "PATRICIA"). What that costs follows from those, and from whoever is found: it
is twice as many as there are filters at the worst, however many levels they have.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from quorate.model.ordered import OrderedMap, after_prefix
from quorate.model.state import Subscription, Subscriptions

TEXT_BYTES_MAX: Final = 65_535
"""Of any text of MQTT, as UTF-8 (section 1.5.4)."""
LEVELS_MAX: Final = 128
"""Of a filter; MQTT has no such bound. A topic may have more: no filter without ``#`` reaches that far."""
QOS_MAX: Final = 2
SHARE: Final = "$share/"
PER_STEP: Final = 16
"""Beginnings of filters that a match looks at in one step."""
_WILD: Final = ("+", "#")


def text_fault(text: str) -> str:
    """Why MQTT does not carry this text; empty when it does."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it is no UTF-8"
    if not size:
        return "it is empty"
    if size > TEXT_BYTES_MAX:
        return f"it has more than {TEXT_BYTES_MAX} bytes"
    return "it holds a NUL" if "\0" in text else ""


def topic_fault(topic: str) -> str:
    """Why nothing can be published to this topic; empty when it can."""
    return text_fault(topic) or ("a topic to publish to has no wildcards" if "+" in topic or "#" in topic else "")


def filter_fault(topic_filter: str) -> str:
    """Why nobody can subscribe to this; empty when anybody can."""
    fault = text_fault(topic_filter)
    if fault:
        return fault
    compared = topic_filter
    if topic_filter.startswith(SHARE):
        group, _, compared = topic_filter[len(SHARE) :].partition("/")
        if not group or "+" in group or "#" in group:
            return "the group of a shared subscription has a name without wildcards"
        if not compared:
            return "a shared subscription names a filter behind its group"
    levels = compared.split("/")
    if len(levels) > LEVELS_MAX:
        return f"it has more than {LEVELS_MAX} levels"
    if any(wild in level and level != wild for level in levels for wild in _WILD):
        return "a wildcard is a level of its own"
    return "# is the last level" if "#" in levels[:-1] else ""


def shared(topic_filter: str) -> tuple[str, str]:
    """The group of a shared subscription (empty: it is none), and the filter that topics are compared with."""
    if not topic_filter.startswith(SHARE):
        return "", topic_filter
    group, _, compared = topic_filter[len(SHARE) :].partition("/")
    return group, compared


def effective_qos(published: int, granted: int) -> int:
    """At which a message is delivered: its publisher's, at most what its subscriber was granted (section 3.8.4)."""
    return min(published, granted)


def subscribed(index: Subscriptions, client: str, subscription: Subscription) -> Subscriptions:
    """With this subscription of a client, instead of the one it had to that filter."""
    return index.set(_name(client, subscription.filter), subscription)


def unsubscribed(index: Subscriptions, client: str, topic_filter: str) -> Subscriptions:
    """Without it. Raises KeyError when it is not there."""
    return index.delete(_name(client, topic_filter))


def index_name(client: str, topic_filter: str) -> bytes:
    """Where a subscription stands, for who builds the index of many in order."""
    return _name(client, topic_filter)


def _name(client: str, topic_filter: str) -> bytes:
    group, compared = shared(topic_filter)
    return f"{compared}\0{client}\0{group}".encode()


def matching(index: Subscriptions, topic: str) -> Iterator[tuple[str, Subscription] | None]:
    """Client and subscription of all whose filters match the topic. A client comes once for each. None comes now and
    then, for what was looked at in vain: whoever asks may let others have a turn.
    """
    levels = topic.encode().split(b"/")
    looked, ways = 0, [(b"", 0)]
    while ways:
        beginning, depth = ways.pop()
        steps = levels[depth : depth + 1]
        if depth or not topic.startswith("$"):
            yield from _at(index, beginning + b"#")
            steps += [b"+"] * len(steps)
        for step in steps:
            if depth + 1 == len(levels):
                yield from _at(index, beginning + step)
            longer = _parting(index, beginning + step + b"/", levels, depth + 1)
            if longer is not None:
                ways.append(longer)
        looked += 1
        if not looked % PER_STEP:
            yield None


def _parting(
    index: OrderedMap[Subscription], beginning: bytes, levels: list[bytes], depth: int
) -> tuple[bytes, int] | None:
    """The longest beginning, in whole levels, that all filters with this one share; None: there are none, or the topic
    has other levels.
    """
    end = after_prefix(beginning)
    first = next(index.items(beginning, end), None)
    if first is None:
        return None
    (last, _) = next(index.items(beginning, end, reverse=True))
    behind = (name.partition(b"\0")[0][len(beginning) :].split(b"/")[:-1] for name in (first[0], last))
    more = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(*behind, strict=False))]
    there = levels[depth : depth + len(more)]
    if len(there) < len(more) or any(level not in (b"+", its) for level, its in zip(more, there, strict=True)):
        return None
    return b"".join((beginning, *(level + b"/" for level in more))), depth + len(more)


def _at(index: Subscriptions, compared: bytes) -> Iterator[tuple[str, Subscription]]:
    """Whose filter is this very one."""
    start = len(compared) + 1
    for name, subscription in index.items(compared + b"\0", compared + b"\x01"):
        yield name[start : name.index(b"\0", start)].decode(), subscription
