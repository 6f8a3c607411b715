"""The keys of the recent past are those that were, entry by entry."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.controller import KeyHistory
from quorate.controller.key_history import GONE_MAX
from quorate.events import KeyPut, TopicDeleted, key, ordered_name
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue

Keys = OrderedMap[KeyValue]


def changed(history: KeyHistory, keys: Keys, names: list[bytes], end: int, size: int = 10) -> Keys:
    """An entry puts these keys, and ends before this offset."""
    after, rows = keys, [key(TopicDeleted(topic="t"))]
    for name in names:
        text = ordered_name(name)
        entity = KeyValue(key=text, value=b"", create_revision=0, mod_revision=end - 1, version=1)
        after = after.set(name, entity)
        rows.append(key(KeyPut(key=text, value=b"", lease=0, following=0)))
    history.changed(end, keys, after, rows, size)
    return after


@given(st.lists(st.integers(1, 3), max_size=12), st.integers(1, 8), st.integers(0, 40))
def test_each_revision_has_the_keys_of_the_last_whole_entry(steps: list[int], most: int, asked: int) -> None:
    """What is older than what is kept is not known; nothing else is ever answered."""
    history, keys, end = KeyHistory(most, 10**9), OrderedMap[KeyValue](), 3
    history.begin(end, keys)
    plain: dict[int, Keys] = {end - 1: keys}
    for step in steps:
        end += step
        keys = changed(history, keys, [b"k%d" % end], end)
        plain[end - 1] = keys
    known = sorted(plain)[-(most + 1) :]
    before = [revision for revision in known if revision <= asked]
    assert history.floor == known[0]
    assert history.at(asked) is (plain[before[-1]] if before else None)
    since = [changes.revision for changes in history.since(asked, 100)] if asked > history.floor else []
    assert since == [revision for revision in known[1:] if revision >= asked > history.floor]


def test_changes_name_their_keys_and_share_what_they_did_not_change() -> None:
    """Rows of other kinds are passed over; each entry begins where the one before ended."""
    history, keys = KeyHistory(10, 10**9), OrderedMap[KeyValue]()
    history.begin(0, keys)
    first = changed(history, keys, [b"\xff", b"a"], 3)
    second = changed(history, first, [b"b"], 5)
    one, two = history.since(0, 2)
    assert (one.names, two.names) == ((b"\xff", b"a"), (b"b",))
    assert (one.before, one.after, two.before, two.after) == (keys, first, first, second)


def test_bytes_are_bounded_too() -> None:
    """A few large entries push out what was before."""
    history, keys = KeyHistory(10, 25), OrderedMap[KeyValue]()
    history.begin(0, keys)
    for end in (1, 2, 3):
        keys = changed(history, keys, [b"a"], end)
    assert history.floor == 0
    assert [changes.revision for changes in history.since(1, 2)] == [1, 2]


def test_nothing_is_known_of_what_was_before_a_snapshot() -> None:
    """It begins anew there."""
    history, keys = KeyHistory(10, 10**9), OrderedMap[KeyValue]()
    keys = changed(history, keys, [b"a"], 5)
    history.begin(9, keys)
    assert (history.floor, history.at(7), history.at(8)) == (8, None, keys)


def test_what_does_not_count_any_more_goes_some_time() -> None:
    """However many entries there were, those that count are found, and few others are kept."""
    history, keys = KeyHistory(10, 10**9), OrderedMap[KeyValue]()
    for end in range(1, 4 * GONE_MAX):
        keys = changed(history, keys, [b"a"], end)
        assert [changes.revision for changes in history.since(end - 1, 2)] == [end - 1]
        assert [changes.revision for changes in history.since(history.floor + 1, 3)][:1] == [history.floor + 1]
        assert len(history._entries) < 10 + GONE_MAX
    assert history.floor == 4 * GONE_MAX - 12
