"""The one rule-set: who wins, and why everybody else did not (reference 2.7)."""

from itertools import permutations
from typing import Any

import pytest

from quorate.metadata.replica_set import Member, appoint, elect
from quorate.model.evolve import inputs


def member(broker_id: int, *, alive: bool = True, in_sync: bool = True, learner: bool = False, **said: Any) -> Member:
    """A member that could win."""
    return Member(broker_id=broker_id, alive=alive, in_sync=in_sync, learner=learner, **said)


def verdicts(members: list[Member], **how: object) -> tuple[int | None, str, dict[int, str]]:
    """Winner, rule and who fell by what; the same for every order of the members."""
    asked = {"incumbent": None, "wanted": None, "unclean": False, **how}
    outcomes = {elect(list(order), **asked) for order in permutations(members)}  # type: ignore[arg-type]
    assert len(outcomes) == 1, "the outcome depends on the order of the members"
    (outcome,) = outcomes
    for candidate in outcome.candidates:
        assert (candidate.verdict == "elected") == (candidate.broker_id == outcome.winner) == (not candidate.out_by)
    return outcome.winner, outcome.decided_by, {c.broker_id: c.out_by for c in outcome.candidates if c.out_by}


@pytest.mark.parametrize(
    ("best", "other", "rule", "out_by"),
    [
        ({"epoch": 3, "max_offset": 1}, {"epoch": 2, "max_offset": 9}, "higher epoch", "lower epoch"),
        ({"epoch": 3, "max_offset": 9}, {"epoch": 3, "max_offset": 8}, "higher max offset", "lower max offset"),
        ({"max_offset": 9, "priority": 1}, {"max_offset": 9, "priority": 2}, "higher priority", "lower priority"),
        ({"max_offset": 9}, {"max_offset": 9}, "lower broker id", "higher broker id"),
    ],
)
def test_epoch_then_offset_then_priority_then_id(
    best: dict[str, Any], other: dict[str, Any], rule: str, out_by: str
) -> None:
    """The order decides, and the last rule that told two apart is the one that decided."""
    assert verdicts([member(1, **best), member(2, **other)]) == (1, rule, {2: out_by})


def test_the_rule_that_decided_is_where_the_last_rival_fell() -> None:
    """With rivals falling by several rules, the latest counts."""
    members = [member(1, epoch=3, max_offset=9), member(2, epoch=2, max_offset=99), member(3, epoch=3, max_offset=8)]
    assert verdicts(members) == (1, "higher max offset", {2: "lower epoch", 3: "lower max offset"})


def test_a_living_incumbent_stays_unless_somebody_else_is_wanted() -> None:
    """However far ahead the others are."""
    members = [member(1), member(2, epoch=9)]
    assert verdicts(members, incumbent=1)[:2] == (1, "old master is alive")
    assert verdicts(members, incumbent=1, wanted=1)[:2] == (1, "old master is alive")
    assert verdicts(members, incumbent=1, wanted=2) == (2, "designated", {1: "not asked for"})


def test_who_is_wanted_wins_or_nobody_does() -> None:
    """A wanted one that is dead or out of sync ends the election."""
    members = [member(1), member(2, alive=False), member(3, in_sync=False)]
    fallen = {1: "not asked for", 2: "not alive", 3: "not in sync state set"}
    assert verdicts(members, wanted=2) == (None, "", fallen)
    assert verdicts(members, wanted=3) == (None, "", fallen)
    assert verdicts(members, wanted=9)[0] is None


def test_out_of_sync_members_stand_only_where_it_is_allowed_and_nobody_else_can() -> None:
    """Unclean is the last resort, and says so."""
    members = [member(1, alive=False), member(2, in_sync=False), member(3, in_sync=False, max_offset=5)]
    assert verdicts(members)[0] is None
    outcome = elect(members, incumbent=1, wanted=None, unclean=True)
    assert (outcome.winner, outcome.unclean, outcome.decided_by) == (3, True, "higher max offset")
    clean = elect([member(1), *members[1:]], incumbent=None, wanted=None, unclean=True)
    assert (clean.winner, clean.unclean, clean.decided_by) == (1, False, "only candidate")
    assert verdicts(members, wanted=2, unclean=True) == (2, "designated", {1: "not alive", 3: "not asked for"})


def test_learners_never_stand_but_a_living_incumbent_may_be_called_one() -> None:
    """A learner falls as learner, unless it fell before; who is master already is not deposed by a mark."""
    members = [member(1, learner=True, epoch=9), member(2), member(3, in_sync=False, learner=True)]
    assert verdicts(members) == (2, "only candidate", {1: "learner", 3: "not in sync state set"})
    assert verdicts(members, incumbent=1)[0] == 1
    alone = [member(3, in_sync=False, learner=True)]
    assert verdicts(alone, unclean=True) == (None, "", {3: "learner"})


def test_offsets_are_compared_whole() -> None:
    """2 GiB, 4 GiB or any distance ahead wins."""
    for ahead in (2**31, 2**32 - 1, 2**32, 2**40):
        members = [member(1, max_offset=0), member(2, max_offset=ahead)]
        assert verdicts(members) == (2, "higher max offset", {1: "lower max offset"})


@pytest.mark.parametrize(
    ("ahead", "winner"),
    [(1, 2), (2**31 - 1, 2), (2**31, 2), (2**31 + 1, 1), (2**32 - 1, 1), (2**32, 1), (2**32 + 1, 2)],
)
def test_java_compares_offsets_in_32_bits(ahead: int, winner: int) -> None:
    """The defect as it is: the sign of the narrowed difference decides, and a difference of 4 GiB is none."""
    members = [member(1, max_offset=0), member(2, max_offset=ahead)]
    assert elect(members, incumbent=None, wanted=None, unclean=False, wide_offsets=False).winner == winner


def test_java_asks_no_priority_of_unequal_offsets() -> None:
    """4 GiB apart is a tie to Java, and in its sorted set who equals one within is not added: the lower id wins."""
    members = [member(1, max_offset=0, priority=9), member(2, max_offset=2**32, priority=1)]
    assert elect(members, incumbent=None, wanted=None, unclean=False, wide_offsets=False).winner == 1
    members = [member(1, max_offset=7, priority=9), member(2, max_offset=7, priority=1)]
    assert elect(members, incumbent=None, wanted=None, unclean=False, wide_offsets=False).winner == 2


def test_java_s_comparison_goes_in_circles() -> None:
    """Each of three beats another one; first is who comes before all that were first, by rising id."""
    members = [member(1, max_offset=0), member(2, max_offset=2**31 - 1), member(3, max_offset=2**32 - 2)]
    assert elect(members, incumbent=None, wanted=None, unclean=False, wide_offsets=False).winner == 2


def test_nobody_at_all() -> None:
    """No members, no winner."""
    assert verdicts([]) == (None, "", {})


def test_an_appointed_one_wins_as_it_is() -> None:
    """Everybody else was not asked for, dead or alive."""
    outcome = appoint([member(2), member(1, alive=False, in_sync=False)], 1, "first election")
    assert (outcome.winner, outcome.decided_by, outcome.unclean) == (1, "first election", False)
    assert [(c.broker_id, c.verdict, c.out_by) for c in outcome.candidates] == [
        (1, "elected", ""),
        (2, "out", "not asked for"),
    ]


def test_inputs_change_with_who_may_stand_but_not_with_offsets() -> None:
    """They tell whether a failed election could end otherwise."""
    seen = [
        inputs(elect([one], incumbent=None, wanted=None, unclean=False).candidates)
        for one in (
            member(1),
            member(1, max_offset=7),
            member(1, alive=False),
            member(1, in_sync=False),
            member(1, learner=True),
            member(2),
        )
    ]
    assert seen[0] == seen[1]
    assert len(set(seen)) == 5
