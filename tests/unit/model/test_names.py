"""Names in their order: they are the keys of the maps beside which they are kept, whatever came and went."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.model.names import Names, following, naming, with_name, without_name
from quorate.model.rows import from_rows, rows
from quorate.slices import finished
from tests.projections.history import History

NAMES = st.text(max_size=3)


@given(st.lists(st.tuples(NAMES, st.booleans())), st.text(max_size=2), st.text(max_size=1))
def test_names_follow_in_the_order_of_text(changes: list[tuple[str, bool]], after: str, prefix: str) -> None:
    """What came and did not go, each once, that begins so and comes after a name; however they came to be there."""
    names, plain = Names(), set[str]()
    for name, comes in changes:
        names = with_name(names, name) if comes else without_name(names, name)
        (plain.add if comes else plain.discard)(name)
    assert names == finished(naming(plain))
    expected = sorted(name for name in plain if (not after or name > after) and name.startswith(prefix))
    assert list(following(names, after, prefix)) == expected


def test_what_is_no_name_is_asked_for_in_vain() -> None:
    """Half of a character comes after all that a name may hold below it."""
    assert list(following(with_name(Names(), "a"), "\udc80")) == []


def test_a_state_keeps_the_names_of_its_maps() -> None:
    """After each event of a life, and when it is read from its rows."""
    history = History(3)
    for _ in range(1_500):
        history.commit()
    state = history._state
    for names, held in (
        (state.member_names, state.members), (state.shard_names, state.shards), (state.clients, state.sessions),
    ):  # fmt: skip
        assert list(following(names)) == sorted(held)
        assert held
    assert from_rows(rows(state)) == state
