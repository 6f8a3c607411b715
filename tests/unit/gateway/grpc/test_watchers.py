"""Who watches a key: the index finds exactly those whose range holds it, and few comparisons are made for it."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.gateway.grpc.watchers import AnyWatcher, Found, Watcher, WatcherIndex, watching

TEXT = st.binary(max_size=3).map(lambda text: bytes(97 + byte % 3 for byte in text))
PAIRS = ((b"a", b"b"), (b"b", b"c"))
ENDS = st.one_of(TEXT, st.just(b"\x00"), st.just(b""))


def watcher(key: bytes, end: bytes = b"") -> AnyWatcher:
    return Watcher(None, 0, key, end, 0)


def placed(index: WatcherIndex, *names: bytes) -> Iterator[tuple[AnyWatcher, list[bytes]]]:
    """Who watches some of these, and which."""
    found: Found = {}
    for name in names:
        index.find([name], found)
    return watching(found)


def of(index: WatcherIndex, name: bytes) -> set[AnyWatcher]:
    """Who watches a key."""
    others = {one for one in index.others() if one.covers(name)}
    return {one for one, names in placed(index, name) if names == [name]} | others


@given(st.lists(st.tuples(TEXT, ENDS), max_size=8), TEXT.filter(bool), st.integers(0, 7))
def test_the_index_finds_who_covers_a_key(spans: list[tuple[bytes, bytes]], name: bytes, gone: int) -> None:
    """The same as asking each of them, also after one has left."""
    index, watchers = WatcherIndex(), [watcher(*span) for span in spans]
    for one in watchers:
        index.add(one)
    for one in watchers[gone : gone + 1]:
        index.remove(one)
        index.remove(one)
        watchers.remove(one)
    assert of(index, name) == {one for one in watchers if one.covers(name)}
    assert len(index) == len(watchers)
    assert all(one in index for one in watchers)


def test_prefixes_are_looked_up_and_not_compared() -> None:
    """A thousand watchers of disjoint prefixes cost a key one look-up a length, and leave nothing behind."""
    index = WatcherIndex()
    watchers = [watcher(b"/%04d/" % number, b"/%04d0" % number) for number in range(1000)]
    for one in watchers:
        index.add(one)
    assert not index._others
    assert list(index._lengths) == [6]
    assert of(index, b"/0042/x") == {watchers[42]}
    for one in watchers:
        index.remove(one)
    assert (len(index), index._prefixes, dict(index._lengths)) == (0, {}, {})


def test_a_prefix_that_goes_costs_no_look_at_the_lengths_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, and a length is there for as long as a prefix has it."""
    index, looks = WatcherIndex(), 0

    class Lengths(Counter[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal looks
            looks += 1
            return super().__iter__()

        def items(self) -> Any:
            nonlocal looks
            looks += 1
            return super().items()

    monkeypatch.setattr(index, "_lengths", Lengths())
    watchers = [watcher(b"k" * length + end, b"k" * length + after) for length in range(3) for end, after in PAIRS]
    for one in watchers:
        index.add(one)
    for number, one in enumerate(watchers):
        index.remove(one)
        assert len(index._lengths) == 3 - (number + 1) // 2
    assert looks == 0


def test_a_watch_of_everything_is_a_prefix_too() -> None:
    """All keys, as etcd's clients ask for them."""
    index = WatcherIndex()
    everything = watcher(b"\x00", b"\x00")
    index.add(everything)
    assert not index._others
    assert of(index, b"k") == {everything}


def test_each_watcher_gets_the_keys_that_it_watches() -> None:
    """Of many that changed at once, in their order, once each."""
    index = WatcherIndex()
    key, prefix, longer, span = watcher(b"a1"), watcher(b"a", b"b"), watcher(b"a2", b"a3"), watcher(b"a1", b"c")
    for one in (key, prefix, longer, span):
        index.add(one)
    assert dict(placed(index, b"b", b"a2", b"a1", b"a20")) == {
        key: [b"a1"],
        prefix: [b"a2", b"a1", b"a20"],
        longer: [b"a2", b"a20"],
    }
    assert index.others() == (span,)
