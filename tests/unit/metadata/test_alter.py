"""The one rule-set: who may change who is in sync, and by which fence everybody else is kept from it."""

from collections.abc import Collection
from itertools import permutations
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.metadata.replica_set import Broken, InSync, InSyncChange, alter

NOW: Final = InSync(leader=1, leader_epoch=5, member_epoch=70, set_epoch=9, ids=(1, 2))
MEMBERS: Final = (1, 2, 3, 4)
LAST: Final = 100


def asked(*ids: int, **other: Any) -> InSync[int]:
    """As the leader would ask that knows all; ``other`` overrides."""
    return msgspec.structs.replace(NOW, ids=ids, **other)


def altered(
    new: InSync[int],
    now: InSync[int] = NOW,
    members: Collection[int] = MEMBERS,
    fit: Collection[int] = (1, 2, 3),
    **policy: bool,
) -> InSyncChange[int] | Broken[int]:
    """Alive are 1, 2 and 3 unless told otherwise."""
    return alter(now, new, members, lambda one: one in fit, epoch_max=LAST, **policy)


def test_the_leader_grows_and_shrinks_its_set() -> None:
    """The new set stands in the next set epoch, under the leader that there is."""
    assert altered(asked(1, 2, 3)) == InSyncChange(1, (1, 2, 3), 10)
    assert altered(asked(1)) == InSyncChange(1, (1,), 10)
    assert altered(asked(1, 2)) == InSyncChange(1, (1, 2), 10), "a set that is so already is no error by itself"


@pytest.mark.parametrize(
    ("new", "broken"),
    [
        (asked(leader=2, leader_epoch=4, member_epoch=69, set_epoch=8), Broken("not the leader")),
        (asked(leader=None), Broken("not the leader")),
        (asked(leader_epoch=4, member_epoch=69, set_epoch=8), Broken("leader epoch")),
        (asked(leader_epoch=6), Broken("leader epoch")),
        (asked(member_epoch=69, set_epoch=8), Broken("member epoch")),
        (asked(member_epoch=71), Broken("member epoch")),
        (asked(set_epoch=8), Broken("set epoch")),
        (asked(1, set_epoch=10), Broken("set epoch")),
        (asked(), Broken("empty")),
        (asked(2, 4, 9), Broken("unfit", 4)),
        (asked(2, 9), Broken("stranger", 9)),
        (asked(2, 3), Broken("without the leader")),
    ],
)
def test_each_fence_is_asked_before_the_later_ones(new: InSync[int], broken: Broken[int]) -> None:
    """What a case breaks beside its own fence are later ones only; members fall one by one, by rising id."""
    assert altered(new) == broken


def test_the_last_epoch_is_the_last() -> None:
    """An epoch beyond what its kind can hold is never given."""
    now = msgspec.structs.replace(NOW, set_epoch=LAST)
    assert altered(asked(1, set_epoch=LAST), now) == Broken("exhausted")
    now = msgspec.structs.replace(NOW, set_epoch=LAST - 1)
    assert altered(asked(1, set_epoch=LAST - 1), now) == InSyncChange(1, (1,), LAST)


def test_without_a_leader_nobody_alters() -> None:
    """Not even who says that nobody leads."""
    now = msgspec.structs.replace(NOW, leader=None)
    assert altered(msgspec.structs.replace(now, ids=(2,)), now) == Broken("not the leader")
    assert altered(asked(1), now) == Broken("not the leader")


def test_those_that_stay_are_judged_where_a_kind_wants_it() -> None:
    """A leader may keep a member that is silent just now, unless its kind says otherwise."""
    assert altered(asked(1, 2, 3), fit=(3,)) == InSyncChange(1, (1, 2, 3), 10)
    assert altered(asked(1, 2, 3), fit=(1, 3), all_fit=True) == Broken("unfit", 2)


def test_an_equal_set_is_told_first_where_a_kind_wants_it() -> None:
    """Whoever asks, and under whatever epochs."""
    assert altered(asked(1, 2, leader=2, leader_epoch=1), equal_is_refused=True) == Broken("unchanged")
    assert altered(asked(1, 2, leader=2)) == Broken("not the leader")


def test_names_are_as_good_as_numbers() -> None:
    """Members are told apart by what their kind has."""
    now = InSync(leader="m1", leader_epoch=5, set_epoch=9, ids=("m1",))
    new = msgspec.structs.replace(now, ids=("m1", "m2"))
    assert alter(now, new, {"m1", "m2"}, {"m2"}.__contains__, epoch_max=LAST) == InSyncChange("m1", ("m1", "m2"), 10)


EPOCHS: Final = st.integers(0, 2)
SETS: Final = st.sets(st.integers(1, 4), max_size=4).map(lambda ids: tuple(sorted(ids)))
BELIEFS: Final = st.builds(
    InSync,
    leader=st.none() | st.integers(1, 3),
    leader_epoch=EPOCHS,
    member_epoch=EPOCHS,
    set_epoch=EPOCHS,
    ids=SETS,
)


@given(
    now=BELIEFS, new=BELIEFS, members=SETS, fit=SETS, as_it_is=st.booleans(), equal=st.booleans(), all_fit=st.booleans()
)
@example(now=NOW, new=asked(1), members=MEMBERS, fit=(), as_it_is=True, equal=True, all_fit=False)
def test_every_fence_holds_of_what_passes_and_the_first_broken_one_is_named(
    now: InSync[int],
    new: InSync[int],
    members: tuple[int, ...],
    fit: tuple[int, ...],
    as_it_is: bool,
    equal: bool,
    all_fit: bool,
) -> None:
    """Told plainly: the fences in order, each by itself. Members come in any order; nothing depends on it."""
    if as_it_is:  # Else hardly anything would pass the epochs.
        new = msgspec.structs.replace(now, ids=new.ids)
    judged = [one for one in new.ids if all_fit or one not in now.ids]
    fences: dict[str, bool] = {
        "unchanged": not equal or new.ids != now.ids,
        "not the leader": now.leader is not None and new.leader == now.leader,
        "leader epoch": new.leader_epoch == now.leader_epoch,
        "member epoch": new.member_epoch == now.member_epoch,
        "set epoch": new.set_epoch == now.set_epoch,
        "empty": new.ids != (),
        "members": set(new.ids) <= set(members) and set(judged) <= set(fit),
        "without the leader": now.leader in new.ids,
        "exhausted": now.set_epoch < 2,
    }
    broken = [name for name, holds in fences.items() if not holds]
    outcomes = {
        alter(now, new, order, lambda one: one in fit, epoch_max=2, equal_is_refused=equal, all_fit=all_fit)
        for order in permutations(members)
    }
    (outcome,) = outcomes
    if isinstance(outcome, InSyncChange):
        assert not broken
        assert (outcome.leader, outcome.ids, outcome.set_epoch) == (now.leader, new.ids, now.set_epoch + 1)
    elif outcome.fence in ("stranger", "unfit"):
        wrong = [one for one in new.ids if one not in members or (one in judged and one not in fit)]
        assert broken[0] == "members"
        assert (outcome.member, outcome.fence == "stranger") == (wrong[0], wrong[0] not in members)
    else:
        assert outcome == Broken(outcome.fence)
        assert outcome.fence == broken[0]
