"""Where copies go: to whoever has least, spread over places, and never to whoever cannot take one."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.events import PlacedCopy
from quorate.metadata.commands import CreateShard, DrainMember, FenceMember, Refusal, SegmentIs
from quorate.metadata.placement import Wanted, place
from quorate.model.live import MemberHealth
from quorate.model.segments import segment
from tests.unit.metadata.kit import World
from tests.unit.metadata.test_journal import following, storing
from tests.unit.metadata.test_keys import world


def placed(made: World, copies: int, spread: str = "", require: dict[str, str] | None = None) -> tuple[list[str], str]:
    """Who would be given copies, and why."""
    found = place(made.state, "orders/0", Wanted(copies, spread, require or {}), made.context())
    assert not isinstance(found, Refusal), found.remark
    return [copy.member for copy in found[0]], found[1]


def refused(made: World, copies: int, **wanted: Any) -> str:
    """Why nobody would."""
    found = place(made.state, "orders/0", Wanted(copies, "", wanted), made.context())
    assert isinstance(found, Refusal)
    assert found.code == "NotEnoughMembers"
    return found.remark


def test_whoever_cannot_take_a_copy_is_left_out_and_the_reason_is_told() -> None:
    """Another role, fenced, to leave, silent, with a full disk, without a label: none of them is chosen."""
    made = storing("silent", "full", "drains", "fenced", "nolabel", "free", labels={"ssd": "yes"})
    made.member("mqtt", roles=("mqtt",), labels={"ssd": "yes"})
    made.member("nolabel", roles=("journal",), labels={"ssd": ""})
    epochs = {name: found.epoch for name, found in made.state.members.items()}
    made.members.living["silent", epochs["silent"]] = False
    made.members.said["full", epochs["full"]] = MemberHealth(disk_used_bytes=90, disk_total_bytes=100)
    made.members.said["free", epochs["free"]] = MemberHealth(disk_used_bytes=89, disk_total_bytes=100)
    made.do(DrainMember(name="drains"))
    made.do(FenceMember(name="fenced", epoch=epochs["fenced"], evidence="heartbeat expired", last_heartbeat_ms=1))
    names, why = placed(made, 1, require={"ssd": "yes"})
    assert names == ["free"]
    out = "1 draining, 1 fenced, 1 silent, 1 with a full disk, 1 without a label"
    assert why.endswith(f"these have the fewest; left out were {out}.")
    assert refused(made, 2, ssd="yes") == f"2 copies wanted, 1 member to take one; there are {out}"
    assert refused(world(), 1) == "1 copy wanted, 0 members to take one"


def test_a_member_that_does_not_tell_of_its_disk_is_taken() -> None:
    """What is not known is no reason."""
    made = storing("m")
    made.members.said["m", made.state.members["m"].epoch] = MemberHealth()
    assert placed(made, 1)[0] == ["m"]


def test_a_member_that_this_leader_has_not_heard_is_not_taken() -> None:
    """It may be the one whose disk is full: the other is taken; where both are needed, who asks is told to come again,
    and where both would not do, that there are too few.
    """
    made = storing("heard", "unheard")
    epochs = {name: found.epoch for name, found in made.state.members.items()}
    made.members.living = dict.fromkeys(epochs.items(), True)
    made.members.said["heard", epochs["heard"]] = MemberHealth()
    assert placed(made, 1)[0] == ["heard"]
    found = place(made.state, "orders/0", Wanted(2, "", {}), made.context())
    assert found == Refusal(
        code="MembersNotHeard", remark="2 copies wanted, 1 member to take one; there are 1 not heard yet"
    )
    assert refused(made, 3) == "3 copies wanted, 1 member to take one; there are 1 not heard yet"
    made.members.said["unheard", epochs["unheard"]] = MemberHealth()
    assert placed(made, 2)[0] == ["heard", "unheard"]


def test_copies_are_spread_over_the_places_there_are() -> None:
    """Each in another while there are others; then evenly, and the reason says so."""
    made = storing("a1", "a2", "a3", labels={"zone": "a"})
    for name, zone in (("b1", "b"), ("b2", "b"), ("c1", "c")):
        made.member(name, roles=("journal",), labels={"zone": zone})
    names, why = placed(made, 3, "zone")
    assert names == ["a1", "b1", "c1"]
    assert "each in another zone" in why
    names, why = placed(made, 5, "zone")
    assert Counter(name[0] for name in names) == {"a": 2, "b": 2, "c": 1}
    assert "in 3 values of the label zone" in why


def test_the_event_says_what_was_known_of_whoever_was_chosen() -> None:
    """So that a reader sees why without what was soft then."""
    made = storing("m1", "m2")
    made.reply(CreateShard(shard="orders", replication=1), SegmentIs)
    found = place(made.state, "x/0", Wanted(2, "", {}), made.context())
    assert not isinstance(found, Refusal)
    epochs = {name: one.epoch for name, one in made.state.members.items()}
    assert found == (
        (
            PlacedCopy(member="m2", member_epoch=epochs["m2"], place="", holds=0, leads=0),
            PlacedCopy(member="m1", member_epoch=epochs["m1"], place="", holds=1, leads=1),
        ),
        "Member m2 leads segment x/0, with copies at m1: of 2 members that could take a copy these have the fewest.",
    )


@pytest.mark.parametrize("replication", [1, 2, 3])
def test_a_hundred_segments_are_even(replication: int) -> None:
    """No member holds two copies more than another, and none leads more than two more."""
    made = storing(*(f"m{n}" for n in range(7)))
    made.reply(CreateShard(shard="orders", replication=replication), SegmentIs)
    for number in range(100):
        made.reply(following(made, number + 1, number), SegmentIs)
    holds = [len(found) for found in made.state.holding.values()]
    leads = [len(found) for found in made.state.leading.values()]
    assert sum(holds) == 101 * replication
    assert sum(leads) == 101
    assert max(holds) - min(holds) <= 1
    assert max(leads) - min(leads) <= 2


@given(seed=st.integers(0, 2**32), copies=st.integers(1, 4))
def test_the_choice_depends_on_nothing_but_the_members(seed: int, copies: int) -> None:
    """Whatever the order in which they registered: those chosen have different names, stand in as many zones as can
    be, and nobody who was left out in the same zone has fewer copies.
    """
    chance = Random(seed)
    said = {f"m{n}": {"zone": chance.choice("abc")} for n in range(chance.randint(copies, 8))}
    made, names = world(), sorted(said)
    chance.shuffle(names)
    for name in names:
        made.member(name, roles=("journal",), labels=said[name])
    for number in range(chance.randint(0, 5)):
        made.reply(CreateShard(shard=f"s{number}", replication=chance.randint(1, copies)), SegmentIs)
        assert segment(made.state, f"s{number}/0") is not None
    chosen, _ = placed(made, copies, "zone")
    zones = {name: labels["zone"] for name, labels in said.items()}
    assert len(set(chosen)) == copies
    assert len({zones[name] for name in chosen}) == min(copies, len(set(zones.values())))
    for name in chosen:
        for other in set(said) - set(chosen):
            if zones[other] == zones[name]:
                assert holds(made, name) <= holds(made, other)


def holds(made: World, name: str) -> int:
    """How many copies it has."""
    return len(made.state.holding.get(name, ()))
