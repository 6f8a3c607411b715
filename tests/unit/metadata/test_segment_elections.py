"""Who leads a segment: who holds everything, in the life in which it does, and why nobody else."""

import pytest

from quorate.events import CopyCandidate, SegmentLeaderElected
from quorate.metadata import segment_elections
from quorate.metadata.commands import (
    ChangeConfig,
    CreateShard,
    DeleteShard,
    DrainMember,
    ElectSegmentLeader,
    ElectSegmentLeaders,
    SegmentIs,
    UnregisterMember,
)
from quorate.metadata.limits import UNCLEAN_SEGMENT_LEADERS
from quorate.metadata.policy import PolicySettings
from quorate.model.segments import is_led
from quorate.model.words import sentence
from tests.unit.metadata.kit import World
from tests.unit.metadata.test_journal import altering, copies, fence, led, storing

ELECT = ElectSegmentLeader(segment="orders/0", trigger="operator")
LOST = ElectSegmentLeaders(segments=("orders/0",))


@pytest.fixture
def made() -> World:
    """A shard of three copies at m1 (which leads), m2 and m3."""
    return of_three()


def of_three(*, unclean: str = "") -> World:
    """The same, where the log says this of unclean leaders."""
    made = storing("m1", "m2", "m3")
    if unclean:
        made.do(ChangeConfig(scope="cluster", changes={UNCLEAN_SEGMENT_LEADERS: unclean}))
    made.reply(CreateShard(shard="orders", replication=3), SegmentIs)
    return made


def elected(made: World, command: ElectSegmentLeader | ElectSegmentLeaders = ELECT) -> SegmentLeaderElected:
    """The one event."""
    (event,) = made.events(command)
    assert isinstance(event, SegmentLeaderElected)
    return event


def fallen(event: SegmentLeaderElected) -> dict[str, str]:
    """Where the others fell."""
    return {one.member: one.out_by for one in event.candidates if one.out_by}


def test_the_first_copy_in_sync_that_is_there_follows(made: World) -> None:
    """In the next reign, whose epoch is the offset of the event; who is silent stays in sync until the new leader
    takes it out.
    """
    epochs = {name: found.epoch for name, found in made.state.members.items()}
    in_sync = led(made).in_sync
    fence(made, "m1")
    assert not is_led(made.state, led(made))
    at = made.offset
    answer = made.reply(ELECT, SegmentIs)
    assert (answer.leader, answer.led_since(made.offset)) == ("m2", at)
    event, _ = made.log[-1]
    assert event == SegmentLeaderElected(
        segment="orders/0",
        trigger="operator",
        old_leader="m1",
        leader="m2",
        member_epoch=epochs["m2"],
        in_sync=in_sync,
        set_epoch=1,
        candidates=(
            CopyCandidate(member="m1", member_epoch=epochs["m1"], in_sync=True, verdict="out", out_by="fenced"),
            CopyCandidate(member="m2", member_epoch=epochs["m2"], in_sync=True, verdict="elected", out_by=""),
            CopyCandidate(member="m3", member_epoch=epochs["m3"], in_sync=True, verdict="out", out_by="later copy"),
        ),
        decided_by="earlier copy",
        explanation=(
            "Member m2 leads segment orders/0: m1, which led it, is fenced; "
            "of 2 that could lead it is the first in the order of the copies."
        ),
        unclean=False,
    )
    found = led(made)
    assert (found.leader, found.leader_epoch, found.set_epoch, found.copies) == ("m2", at, 1, ("m1", "m2", "m3"))
    assert found.election is not None
    assert (found.election.offset, found.election.decided_by) == (at, "earlier copy")
    assert set(made.state.leading) == {"m2"}


def test_who_leads_and_may_go_on_stays(made: World) -> None:
    """Nothing is written, also where it is the one that is wanted."""
    assert made.events(ELECT) == ()
    assert made.events(wanting("m1")) == ()


def wanting(name: str) -> ElectSegmentLeader:
    """An operator names it."""
    return ElectSegmentLeader(segment="orders/0", trigger="operator", wanted=name)


def test_who_is_named_leads_if_it_can(made: World) -> None:
    """One that is in sync and there; of any other nothing is written."""
    event = elected(made, wanting("m3"))
    assert (event.leader, event.decided_by) == ("m3", "designated")
    assert fallen(event) == {"m1": "not asked for", "m2": "not asked for"}
    assert "an operator asked for it; it is in sync and was named" in event.explanation
    fence(made, "m2")
    for name in ("m2", "m9"):
        assert made.refused(wanting(name)).code == "NoLeaderEligible"


def test_only_those_in_sync_stand(made: World) -> None:
    """What another one lacks was acknowledged."""
    made.do(altering(made, "m1", "m3"))
    fence(made, "m1")
    event = elected(made)
    assert (event.leader, event.decided_by) == ("m3", "only candidate")
    assert fallen(event) == {"m1": "fenced", "m2": "not in sync"}
    fence(made, "m3")
    refusal = made.refused(ELECT)
    assert refusal.code == "NoLeaderEligible"
    assert refusal.remark == "orders/0: m1 is fenced, m2 is not in sync, m3 is fenced"


def test_another_life_of_a_member_holds_nothing(made: World) -> None:
    """It registered anew, from another directory: it is out of the set, and does not lead."""
    made.do(altering(made, "m1", "m2"))
    for name in ("m1", "m2"):
        fence(made, name)
    made.member("m1", "2", roles=("journal",))
    assert made.refused(ELECT).remark == (
        "orders/0: m1 is another life than the one that was in sync, m2 is fenced, m3 is not in sync"
    )
    made.member("m2", "1", roles=("journal",))
    event = elected(made, LOST)
    assert event.leader == "m2"
    assert event.in_sync == copies(made, "m2")
    assert fallen(event) == {"m1": "another life", "m3": "not in sync"}
    assert "m1, which led it, registered anew" in event.explanation


def test_a_leader_that_is_to_leave_is_followed_if_somebody_can(made: World) -> None:
    """Else it stays, for nobody else has what it holds; and no setting changes that."""
    made.do(DrainMember(name="m1"))
    event = elected(made, LOST)
    assert (event.leader, fallen(event)) == ("m2", {"m1": "draining", "m3": "later copy"})
    assert event.in_sync == copies(made, "m1", "m2", "m3")
    for name in ("m2", "m3"):
        made.do(DrainMember(name=name))
    assert made.refused(ELECT).remark == "orders/0: m1 is to leave, m2 is to leave, m3 is to leave"
    unclean = of_three(unclean="true")
    unclean.do(altering(unclean, "m1"))
    unclean.do(DrainMember(name="m1"))
    assert unclean.refused(ELECT).code == "NoLeaderEligible"


def test_who_comes_back_in_the_same_life_leads_again_or_follows(made: World) -> None:
    """With nobody to follow it stays written as leader; unfenced, it is the leader that it was."""
    made.do(altering(made, "m1"))
    fence(made, "m1")
    assert made.refused(ELECT).code == "NoLeaderEligible"
    before = led(made)
    made.member("m1", roles=("journal",))
    assert led(made) == before
    assert is_led(made.state, before)
    assert made.events(ELECT) == ()


def test_unclean_is_the_last_resort_of_a_setting(made: World) -> None:
    """The winner begins alone, and the event says what may be lost."""
    unclean, own = of_three(unclean="true"), of_three(unclean="false")
    own.policy = PolicySettings(journal_unclean_leaders=True)  # What the node that leads has for itself says nothing.
    for one in (made, unclean, own):
        one.do(altering(one, "m1"))
        fence(one, "m1")
    for one in (made, own):
        assert one.refused(ELECT).code == "NoLeaderEligible"
    event = elected(unclean)
    assert (event.leader, event.unclean, event.in_sync) == ("m2", True, copies(unclean, "m2"))
    assert event.explanation.endswith("it was not in sync and may lack acknowledged records.")
    unclean.do(altering(unclean, "m2", "m3"))
    fence(unclean, "m2")
    assert not elected(unclean).unclean, "somebody in sync can"


def test_members_that_are_gone_are_out(made: World) -> None:
    """And out of the set: they have no life that could go on."""
    made.do(UnregisterMember(name="m1", force=True))
    event = elected(made, LOST)
    assert (fallen(event)["m1"], event.candidates[0].member_epoch) == ("gone", 0)
    assert event.in_sync == copies(made, "m2", "m3")


@pytest.mark.parametrize(
    ("name", "code"),
    [("orders", "BadSegmentName"), ("pay/0", "UnknownShard"), ("orders/1", "UnknownSegment")],
)
def test_what_is_not_there_elects_nobody(made: World, name: str, code: str) -> None:
    """Each by its name."""
    assert made.refused(ElectSegmentLeader(segment=name, trigger="operator")).code == code


def test_a_shard_that_is_to_go_needs_no_leader(made: World) -> None:
    """Its copies are only waited for."""
    made.do(DeleteShard(shard="orders"))
    assert made.refused(ELECT).code == "ShardIsDeleting"


def test_a_batch_elects_where_it_can_and_passes_over_the_rest(made: World) -> None:
    """Each event says what became of the old leader; what is led, unknown or hopeless is left alone."""
    for shard in ("b", "c", "d"):
        made.reply(CreateShard(shard=shard, replication=3), SegmentIs)
    leaders = {shard: led(made, f"{shard}/0").leader for shard in ("orders", "b", "c", "d")}
    assert leaders == {"orders": "m1", "b": "m2", "c": "m3", "d": "m1"}
    made.do(altering(made, "m1"))
    fence(made, "m1")
    made.do(DrainMember(name="m2"))
    made.do(DeleteShard(shard="c"))
    names = ("orders/0", "b/0", "c/0", "d/0", "d/0", "e/0", "no name")
    events = made.events(ElectSegmentLeaders(segments=names))
    told = [(one.segment, one.leader, one.trigger) for one in events if isinstance(one, SegmentLeaderElected)]
    assert told == [("b/0", "m3", "draining"), ("d/0", "m3", "fenced")]
    assert made.events(ElectSegmentLeaders(segments=names)) == ()


def test_the_words_are_the_page_s_and_the_log_s(made: World) -> None:
    """Each fact of a segment is one sentence."""
    fence(made, "m1")
    elected_first = elected(made)
    made.do(altering(made, "m2"))
    made.do(DeleteShard(shard="orders"))
    told = [sentence(event) for event, _ in made.log[-3:]]
    assert told == [
        elected_first.explanation,
        "segment orders/0: in sync are now m2 (before: m1, m2, m3)",
        "shard orders is to go, with 1 segment",
    ]


def test_where_nobody_led_the_sentence_says_so(made: World) -> None:
    """Nobody is named as the one that was lost."""
    assert segment_elections._occasion(led(made), None, []) == "nobody led it"
