"""The ordered map: a sorted dictionary of which every version stays, in a tree that is balanced."""

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test

from quorate.errors import InvariantBrokenError
from quorate.model import ordered
from quorate.model.ordered import OrderedMap, after_prefix, building
from quorate.slices import finished

KEYS = st.binary(max_size=2) | st.lists(st.sampled_from([0x00, 0x25, 0x61, 0x7E, 0xFF]), max_size=4).map(bytes)
"""Few enough to meet again, and those at the edges: empty, zeros, 0xff."""
ENDS = st.none() | KEYS


def spread(count: int, dice: Random) -> dict[bytes, int]:
    """So many keys, or fewer, over all there can be of two bytes."""
    return {dice.randbytes(2): number for number in range(count)}


SMALL = st.dictionaries(KEYS, st.integers(), max_size=30)
DICTS = SMALL | st.builds(spread, st.integers(0, 600), st.randoms(use_true_random=True))


@pytest.fixture(scope="module", autouse=True, params=[8, ordered._MOST], ids=["small nodes", "its own nodes"])
def node_size(request: pytest.FixtureRequest) -> Iterator[int]:
    """Small nodes make tall trees of few keys."""
    most: int = request.param
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_MOST": most, "_LEAST": most // 4, "_FILL": most * 3 // 4}.items():
            patch.setattr(ordered, name, value)
        yield most


def made(plain: dict[bytes, int]) -> OrderedMap[int]:
    """Put by put, in no order."""
    mapping = OrderedMap[int]()
    for key, value in plain.items():
        mapping = mapping.set(key, value)
    return mapping


def within(plain: dict[bytes, int], start: bytes, end: bytes | None) -> list[tuple[bytes, int]]:
    """What a range must hold, by looking at every key."""
    return [(key, value) for key, value in sorted(plain.items()) if start <= key and (end is None or key < end)]


def depths(mapping: OrderedMap[Any]) -> set[int]:
    """How deep its leaves are; each node on the way is checked."""
    found = set()
    waiting: list[tuple[Any, int, bytes, bytes | None]] = [(mapping._root, 0, b"", None)]
    while waiting:
        (keys, items, counts), depth, low, high = waiting.pop()
        root = depth == 0
        assert len(keys) == len(items) <= ordered._MOST
        assert root or len(keys) >= ordered._LEAST
        bounds = keys if not counts else keys[1:]
        assert list(bounds) == sorted(set(bounds))
        assert all(low <= key and (high is None or key < high) for key in bounds)
        if not counts:
            found.add(depth)
            continue
        assert len(keys) >= 2
        assert low in {b"", keys[0]}
        assert list(counts) == [ordered._size(node) for node in items]
        lows = (low, *keys[1:])
        waiting += zip(items, [depth + 1] * len(items), lows, (*keys[1:], high), strict=True)
    return found


def same(mapping: OrderedMap[int], plain: dict[bytes, int]) -> None:
    """The map holds what the dictionary holds, and its tree is sound."""
    assert list(mapping.items()) == sorted(plain.items())
    assert list(mapping) == sorted(plain)
    assert len(mapping) == len(plain)
    assert depths(mapping) == {mapping._height}


def test_the_empty_map_has_nothing() -> None:
    """No key, no range, nothing to delete."""
    empty = OrderedMap[int]()
    assert not empty
    assert empty.get(b"") is None
    assert b"" not in empty
    assert list(empty) == []
    assert list(empty.items()) == list(empty.items(b"a", b"b", reverse=True)) == []
    assert empty.count() == empty.count(b"a", b"b") == 0
    with pytest.raises(KeyError):
        empty.delete(b"")


@given(DICTS, KEYS)
def test_a_key_is_found_where_it_was_put(plain: dict[bytes, int], other: bytes) -> None:
    """Each key has the value that was put last; a key that was not put has none."""
    mapping = made(plain)
    same(mapping, plain)
    for key in (*plain, other):
        assert mapping.get(key) == plain.get(key)
        assert (key in mapping) == (key in plain)


@given(DICTS, KEYS, ENDS)
def test_a_range_is_what_a_look_at_every_key_finds(plain: dict[bytes, int], start: bytes, end: bytes | None) -> None:
    """Start is in it, end is not, whatever they are and in which order; its count is its length; backwards is the same
    backwards; whoever reads a part of it has its beginning.
    """
    mapping, expected = finished(building(sorted(plain.items()))), within(plain, start, end)
    assert list(mapping.items(start, end)) == expected
    assert list(mapping.items(start, end, reverse=True)) == expected[::-1]
    assert mapping.count(start, end) == len(expected)
    assert list(islice(mapping.items(start, end), 3)) == expected[:3]
    assert next(mapping.items(start, end, reverse=True), None) == (expected[-1] if expected else None)


@given(DICTS, KEYS)
def test_a_prefix_is_a_range(plain: dict[bytes, int], prefix: bytes) -> None:
    """It ends where no key with the prefix can come any more; one of 0xff alone, or an empty one, ends nowhere."""
    expected = [(key, value) for key, value in sorted(plain.items()) if key.startswith(prefix)]
    assert list(made(plain).items(prefix, after_prefix(prefix))) == expected


def test_where_a_prefix_ends() -> None:
    """At the next key of its length or a shorter one; some have no end."""
    assert after_prefix(b"a") == b"b"
    assert after_prefix(b"a\xff\xff") == b"b"
    assert after_prefix(b"\x00") == b"\x01"
    assert after_prefix(b"") is None
    assert after_prefix(b"\xff\xff") is None


@given(DICTS)
def test_it_does_not_matter_how_a_map_was_made(plain: dict[bytes, int]) -> None:
    """Put in any order, built of rows in order, or with keys that went again: equal; with one value changed: not."""
    mapping, built = made(plain), finished(building(sorted(plain.items())))
    same(built, plain)
    assert mapping == built
    assert not mapping != built  # noqa: SIM202  Both operators are asked.
    assert built.set(b"once more", 1).delete(b"once more") == mapping
    assert mapping != plain
    for key in islice(plain, 1):
        assert mapping != mapping.set(key, plain[key] + 1)
        assert mapping != mapping.delete(key)


@given(DICTS, st.randoms(use_true_random=False))
def test_a_map_shrinks_to_nothing(plain: dict[bytes, int], dice: Random) -> None:
    """Whatever the order in which keys go, what is left is sound, and at last it is the empty map."""
    mapping, left = made(plain), dict(plain)
    for key in dice.sample(sorted(plain), len(plain)):
        mapping = mapping.delete(key)
        del left[key]
        if len(left) % 16 == 0:
            same(mapping, left)
    assert mapping == OrderedMap()


@given(DICTS.filter(lambda plain: len(plain) > 1), st.data())
def test_rows_that_do_not_ascend_are_no_map(plain: dict[bytes, int], data: st.DataObject) -> None:
    """Not where a node ends and the next begins either, and not when a key comes twice."""
    rows = sorted(plain.items())
    at = data.draw(st.integers(1, len(rows) - 1) | st.just(min(ordered._FILL, len(rows) - 1)))
    for wrong in (rows[at:] + rows[:at], rows[:at] + rows[at - 1 :]):
        with pytest.raises(InvariantBrokenError):
            finished(building(wrong))


class Noted:
    """The values of a leaf, which note each reading."""

    def __init__(self, values: tuple[Any, ...], read: list[Any]) -> None:
        self._values, self._read = values, read

    def __getitem__(self, at: slice) -> tuple[Any, ...]:
        self._read.append(at)
        return self._values[at]


def noting(node: Any, height: int, read: list[Any]) -> Any:
    """The same tree, with values that note."""
    keys, items, counts = node
    if height:
        return keys, tuple(noting(child, height - 1, read) for child in items), counts
    return keys, Noted(items, read), counts


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_reads_no_node_beyond_its_end(reverse: bool) -> None:
    """Ten keys of thousands lie in two leaves at most, and one beside them may be looked at."""
    read: list[Any] = []
    plain = made({number.to_bytes(2, "big"): number for number in range(2000)})
    mapping = OrderedMap[int](noting(plain._root, plain._height, read), plain._height)
    for first in range(0, 1990, 7):
        read.clear()
        found = mapping.items(first.to_bytes(2, "big"), (first + 10).to_bytes(2, "big"), reverse=reverse)
        assert len(list(found)) == 10
        assert 1 <= len(read) <= 2 + 10 // ordered._LEAST


def test_many_rows_are_built_in_many_steps(node_size: int) -> None:
    """No step makes more than one node, and the last ones are no smaller than they may be."""
    for count in (0, 1, 500, 501, 777):
        plain = {f"{number:04}".encode(): number for number in range(count)}
        steps, taken = building(plain.items()), 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                same(end.value, plain)
                break
            taken += 1
        assert taken >= count / node_size


def test_keys_that_ascend_or_descend_make_a_sound_tree() -> None:
    """As they come from sequences and from times."""
    plain = {number.to_bytes(2, "big"): number for number in range(1500)}
    same(made(plain), plain)
    same(made(dict(reversed(plain.items()))), plain)


def test_a_map_is_told_by_its_size() -> None:
    """A failed assertion must not print a hundred thousand keys; and nothing in it can be set."""
    mapping = made({b"a": 1, b"b": 2})
    assert repr(mapping) == "OrderedMap(2 keys)"
    with pytest.raises(AttributeError):
        mapping._height = 2  # type: ignore[misc]


class Versions(RuleBasedStateMachine):
    """Maps made of maps, in every direction; each beside a dictionary of its own."""

    versions = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[OrderedMap[int], dict[bytes, int]]] = []

    def keep(self, mapping: OrderedMap[int], plain: dict[bytes, int]) -> int:
        self.kept.append((mapping, plain))
        return len(self.kept) - 1

    @rule(target=versions, plain=DICTS)
    def build(self, plain: dict[bytes, int]) -> int:
        return self.keep(finished(building(sorted(plain.items()))), plain)

    @rule(target=versions, version=versions, puts=SMALL)
    def put(self, version: int, puts: dict[bytes, int]) -> int:
        mapping, plain = self.kept[version]
        for key, value in puts.items():
            mapping = mapping.set(key, value)
        return self.keep(mapping, plain | puts)

    @rule(target=versions, version=versions, start=KEYS, end=ENDS)
    def delete(self, version: int, start: bytes, end: bytes | None) -> Any:
        mapping, plain = self.kept[version]
        gone = [key for key, _ in mapping.items(start, end)]
        for key in gone:
            mapping = mapping.delete(key)
        if not gone:
            return multiple()
        return self.keep(mapping, {key: value for key, value in plain.items() if key not in gone})

    @rule(version=versions, key=KEYS)
    def delete_what_is_not_there(self, version: int, key: bytes) -> None:
        mapping, plain = self.kept[version]
        if key not in plain:
            with pytest.raises(KeyError):
                mapping.delete(key)

    @rule(version=versions, start=KEYS, end=ENDS)
    def read(self, version: int, start: bytes, end: bytes | None) -> None:
        mapping, plain = self.kept[version]
        assert list(mapping.items(start, end, reverse=True)) == within(plain, start, end)[::-1]
        assert mapping.count(start, end) == len(within(plain, start, end))

    @invariant()
    def every_version_is_what_it_was(self) -> None:
        for mapping, plain in self.kept:
            same(mapping, plain)


def test_every_version_stays_what_it_was() -> None:
    """Whatever is put into it, deleted from it and made of it later."""
    run_state_machine_as_test(Versions, settings=settings(max_examples=20, stateful_step_count=20))
