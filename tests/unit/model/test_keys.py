"""What a range answers: limits, orders, bounds of revisions."""

from operator import attrgetter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import InvariantBrokenError
from quorate.events import KeyDeleted, LeaseCheckpointed, Stamp
from quorate.metadata.commands import GrantLease, PutKey, RevokeLease
from quorate.model import rows
from quorate.model.evolve import evolve
from quorate.model.keys import KEYS_PER_STEP, KeysAre, RangeKeys, finding, looked_at, within
from quorate.model.ordered import OrderedMap
from quorate.model.state import EMPTY, KeyValue
from quorate.slices import finished
from tests.unit.metadata.test_keys import world

KEYS = OrderedMap[KeyValue]()
for _name, _value, _created, _changed, _version in (
    (b"a", b"3", 1, 9, 2),
    (b"b", b"1", 2, 2, 1),
    (b"c", b"2", 3, 7, 3),
):
    _entity = KeyValue(
        key=_name.decode(), value=_value, create_revision=_created, mod_revision=_changed, version=_version
    )
    KEYS = KEYS.set(_name, _entity)

PLAIN: dict[str, Any] = {
    "key": attrgetter("key"),
    "version": attrgetter("version"),
    "create": attrgetter("create_revision"),
    "mod": attrgetter("mod_revision"),
    "value": attrgetter("value"),
}


def everything(**more: Any) -> RangeKeys:
    """A range that holds all of them."""
    return RangeKeys(key=b"a", range_end=b"\x00", **more)


def names(answer: KeysAre) -> str:
    """The keys found, as one word."""
    return "".join(one.key for one in answer.found)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (RangeKeys(key=b"b"), "b"),
        (RangeKeys(key=b"z"), ""),
        (RangeKeys(key=b"a", range_end=b"c"), "ab"),
        (everything(order="descending"), "cba"),
        (everything(order="ascending"), "abc"),
        (everything(sort_by="value"), "bca"),
        (everything(sort_by="create", order="descending"), "cba"),
        (everything(sort_by="mod"), "bca"),
        (everything(sort_by="version"), "bac"),
        (everything(min_mod_revision=7), "ac"),
        (everything(max_mod_revision=7), "bc"),
        (everything(min_create_revision=2), "bc"),
        (everything(max_create_revision=2), "ab"),
    ],
)
def test_orders_and_bounds(asked: RangeKeys, found: str) -> None:
    """Each option of etcd's Range; the count is of the range, whatever the bounds leave out."""
    answer = within(KEYS, asked)
    assert names(answer) == found
    assert not answer.more
    assert answer.count == within(KEYS, RangeKeys(key=asked.key, range_end=asked.range_end, count_only=True)).count


def test_a_limit_says_that_there_is_more() -> None:
    """And only then; the count is of all."""
    answer = within(KEYS, everything(limit=2))
    assert (names(answer), answer.more, answer.count) == ("ab", True, 3)
    assert not within(KEYS, everything(limit=3)).more
    assert names(within(KEYS, everything(limit=1, order="descending"))) == "c"


@pytest.mark.parametrize("asked", [RangeKeys(key=b"a"), RangeKeys(key=b"z"), everything(), everything(sort_by="mod")])
def test_the_largest_limit_is_no_limit(asked: RangeKeys) -> None:
    """Clients say so where they want all."""
    for limit in (2**63 - 2, 2**63 - 1):
        assert within(KEYS, msgspec.structs.replace(asked, limit=limit)) == within(KEYS, asked)


def test_keys_only_leaves_values_out() -> None:
    """A sort by value still goes by them."""
    answer = within(KEYS, everything(keys_only=True, sort_by="value"))
    assert [(one.key, one.value) for one in answer.found] == [("b", b""), ("c", b""), ("a", b"")]


def test_an_event_about_what_is_not_there_stops_the_node() -> None:
    """No decision can have produced it."""
    stamp = Stamp(offset=5, term=1, time_ms=1)
    with pytest.raises(InvariantBrokenError, match="key 'x', which is not there"):
        evolve(EMPTY, KeyDeleted(key="x", lease=0, following=0), stamp)
    with pytest.raises(InvariantBrokenError, match="lease 7, which is not there"):
        evolve(EMPTY, LeaseCheckpointed(lease=7, remaining_s=1), stamp)


def test_a_lease_with_a_key_that_is_gone_stops_the_node() -> None:
    """The keys say which lease they have, and the lease which keys: they cannot differ."""
    made = world()
    made.do(GrantLease(lease=7, ttl_s=9))
    made.do(PutKey(key=b"a", lease=7))
    made.state = type(made.state)(
        cluster=made.state.cluster,
        feature_level=2,
        leases=made.state.leases,
        attached=made.state.attached,
    )
    with pytest.raises(InvariantBrokenError, match="attached to a lease and is not there"):
        made.do(RevokeLease(lease=7))


def test_many_keys_come_back_from_their_rows_with_their_leases() -> None:
    """In steps, whatever the order of the rows."""
    made = world()
    made.do(GrantLease(lease=7, ttl_s=9))
    for number in range(3 * rows.ROWS_PER_STEP):
        made.do(PutKey(key=b"%d" % number, lease=7 * (number % 2)))
    pairs = sorted(rows.rows(made.state), reverse=True)
    again = finished(rows.restoring(pairs))
    assert again == made.state
    assert list(again.keys) == list(made.state.keys)
    assert len(again.attached[7]) == 3 * rows.ROWS_PER_STEP // 2


RANGES = st.builds(
    RangeKeys,
    key=st.just(b"a"),
    range_end=st.sampled_from([b"\x00", b"m"]),
    limit=st.integers(0, 12) | st.sampled_from([2**63 - 2, 2**63 - 1]),
    order=st.sampled_from(["none", "ascending", "descending"]),
    sort_by=st.sampled_from(["key", "version", "create", "mod", "value"]),
    keys_only=st.booleans(),
    min_mod_revision=st.integers(0, 5),
    max_create_revision=st.integers(0, 5),
)
NUMBERS = st.integers(1, 6)
ENTITIES = st.dictionaries(
    st.sampled_from("abcdefghijklmnopqrst"), st.tuples(NUMBERS, NUMBERS, NUMBERS, st.sampled_from([b"", b"x", b"y"]))
)


@given(ENTITIES, RANGES, st.integers(1, 30))
def test_a_search_in_steps_finds_what_one_sort_would(
    entities: dict[str, tuple[int, int, int, bytes]], asked: RangeKeys, step: int
) -> None:
    """However few keys a step looks at; and it has not looked at more than it said."""
    keys = OrderedMap[KeyValue]()
    for name, (created, changed, version, value) in entities.items():
        entity = KeyValue(key=name, value=value, create_revision=created, mod_revision=changed, version=version)
        keys = keys.set(name.encode(), entity)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quorate.model.keys.KEYS_PER_STEP", step)
        answer = within(keys, asked)
    inside = [one for name, one in keys.items() if name >= b"a" and (asked.range_end == b"\x00" or name < b"m")]
    found = inside
    if asked.order == "none" and not asked.by_revision and asked.limit:
        found = inside[: asked.limit + 1]
    found = [one for one in found if one.mod_revision >= asked.min_mod_revision]
    found = [one for one in found if not asked.max_create_revision or one.create_revision <= asked.max_create_revision]
    ordered = sorted(found, key=PLAIN[asked.sort_by], reverse=asked.order == "descending")
    assert answer.count == len(inside)
    assert answer.more == (0 < asked.limit < len(ordered))
    assert [one.key for one in answer.found] == [one.key for one in ordered[: asked.limit or None]]
    assert looked_at(keys, asked) <= len(inside)


def test_a_long_search_takes_many_steps() -> None:
    """So that nothing else waits for it."""
    keys = OrderedMap[KeyValue]()
    for number in range(4 * KEYS_PER_STEP):
        entity = KeyValue(key=f"a{number:05}", value=b"", create_revision=1, mod_revision=number, version=1)
        keys = keys.set(entity.key.encode(), entity)
    steps = 0
    for _ in finding(keys, everything(sort_by="mod", order="descending")):
        steps += 1
    assert steps >= 8
