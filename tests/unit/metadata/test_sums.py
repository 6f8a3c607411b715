"""What rows add up to: the same however it was reached, and another one whatever differs."""

import pytest

from quorate.metadata.commands import RaiseFeatureLevel
from quorate.metadata.requests import RequestSettings, RequestTable
from quorate.metadata.sums import KEPT_MAX, RING_MAX, RunningSums, digest, shown, summing
from quorate.model import rows
from quorate.model.state import EMPTY
from quorate.slices import finished
from tests.plain_sums import plain_sums, sum_of
from tests.unit.metadata.kit import CREATE, World, counted, registering
from tests.unit.metadata.test_cluster import START


def test_the_sum_sees_rows_requests_groups_and_level() -> None:
    """Each of them alone changes it; what is not an entity changes the second sum only."""
    world = World()
    seen = {plain_sums(world.state, RequestTable(), ())}
    world.do(CREATE)
    seen.add(plain_sums(world.state, RequestTable(), ()))
    table, _ = RequestTable().remember("p", "5-x", 0, 1, b"", 0)
    seen.add(plain_sums(world.state, table, ()))
    seen.add(plain_sums(world.state, table, [(b"g", b"1")]))
    assert len({whole for _, whole in seen}) == 4
    assert len({entities for entities, _ in seen}) == 2
    world.do(START)
    seen.add(plain_sums(world.state, table, ()))
    world.do(RaiseFeatureLevel(level=2))
    seen.add(plain_sums(world.state, table, ()))
    assert len(seen) == 6
    assert all(len(shown(total)) == 64 for pair in seen for total in pair)


def test_the_order_of_rows_does_not_matter_and_their_borders_do() -> None:
    """Also equal rows of two families, and the same bytes cut elsewhere, are different rows."""
    pairs = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert sum_of("rows", pairs) == sum_of("rows", pairs[::-1])
    assert len({digest("rows", b"ab", b"c"), digest("rows", b"a", b"bc"), digest("groups", b"a", b"bc")}) == 3


def test_equal_states_add_up_to_the_same_whatever_the_order_of_their_making() -> None:
    """Dictionaries are sorted."""
    states = []
    for capabilities in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}):
        world = World()
        world.broker(1)
        world.do(registering(1, capabilities=capabilities))
        states.append(world.state)
    assert plain_sums(states[0], RequestTable(), ()) == plain_sums(states[1], RequestTable(), ())


def test_a_row_in_and_out_again_leaves_nothing() -> None:
    """Also when its digest is not kept any more, and is taken from the state."""
    world = World()
    world.do(CREATE)
    after, name = world.state, b"cluster/default/test"
    (name,) = (key for key, _ in rows.rows(after) if key.startswith(b"cluster/"))
    sums = RunningSums()
    sums.entity(EMPTY, name, rows.row(after, name))
    assert sums.rows == sum_of("rows", [(name, rows.row(after, name) or b"")]) != 0
    for number in range(KEPT_MAX):
        sums.entity(EMPTY, b"topic/default/%d" % number, b"x")
        sums.entity(EMPTY, b"topic/default/%d" % number, None)
    sums.entity(after, name, None)
    assert sums.rows == 0


@pytest.mark.parametrize("remembered_max", [0, 1, 3])
def test_what_is_forgotten_is_taken_off(remembered_max: int) -> None:
    """Rows of requests and the horizon, also of one that is forgotten as it comes, and after a restart."""
    settings = RequestSettings(remembered_max=remembered_max, remembered_ms_max=50)
    table, sums = RequestTable(settings=settings), RunningSums()
    for number in range(9):
        if number == 5:
            table = finished(RequestTable.restoring(list(table.rows()), settings))
        before = table
        table, changes = before.remember("p", f"{number}-x", 2 * number, 1, b"r", 30 * number)
        sums.requests(before, table, changes)
        assert sums.whole == plain_sums(EMPTY, table, ())[1], number


def test_a_ring_remembers_the_last_entries() -> None:
    """By their index; what is older is not known, never another's."""
    sums = RunningSums()
    for index in range(1, RING_MAX + 3):
        sums.group(b"g", None if index == 1 else b"%d" % (index - 1), b"%d" % index)
        sums.mark(index, 1, 0)
    assert sums.at(2) is None
    assert sums.at(RING_MAX + 3) is None
    found = sums.at(7)
    assert found is not None
    assert found.whole == sum_of("groups", [(b"g", b"7")])


def test_a_long_sum_is_taken_in_steps() -> None:
    """So that a node of many rows gives its loop a turn in between; the sum is the same."""
    pairs = [(b"%d" % number, b"v") for number in range(100)]
    assert counted(summing("rows", pairs)) == (sum_of("rows", pairs), 100 // rows.ROWS_PER_STEP)
