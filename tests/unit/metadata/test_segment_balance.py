"""Which open segments another copy should lead, and which members have too many clients."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.events import MemberFenced, SegmentLeaderElected
from quorate.metadata import commands
from quorate.metadata.balance import Plan, plan
from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.commands import CreateShard, ElectSegmentLeader, SegmentIs
from quorate.metadata.segment_balance import HOME, SPREAD
from quorate.metadata.session_balance import HandOver
from quorate.model.live import MemberHealth
from quorate.model.segments import last
from quorate.model.state import Segment
from quorate.slices import finished
from tests.unit.metadata.kit import World
from tests.unit.metadata.test_journal import fence, storing

NOW = BalanceSettings(rest_s=0)


def planned(made: World, settings: BalanceSettings = NOW) -> Plan:
    """Of this moment."""
    return finished(plan(made.state, made.context(), settings))


def carry_out(made: World, found: Plan) -> None:
    """Each command of a plan makes one event, and that is what the plan says of it."""
    moves = iter(found.segments)
    for command in found.commands():
        move = next(moves)
        (event,) = made.events(command)
        assert isinstance(event, SegmentLeaderElected)
        assert (event.segment, event.old_leader, event.leader) == (move.segment, move.old, move.new)
        assert (event.trigger, event.unclean) == ("balance", False)
        assert f"it was named for balance ({move.why})" in event.explanation
    assert next(moves, None) is None


def opened(made: World, shard: str) -> Segment:
    """The segment of a shard that is written to."""
    found = last(made.state, shard)
    assert found is not None
    return found


def all_at(made: World, leader: str, *shards: str, copies: int = 2) -> None:
    """Shards, all led by that member."""
    for shard in shards:
        made.reply(CreateShard(shard=shard, replication=copies), SegmentIs)
        elect = ElectSegmentLeader(segment=f"{shard}/0", trigger="operator", wanted=leader)
        made.reply(elect, SegmentIs)


def test_leaderships_go_to_who_leads_least() -> None:
    """Four segments led by one of two: two go, in sync as they were; then nothing is left to do."""
    made = storing("m1", "m2")
    all_at(made, "m1", "a", "b", "c", "d")
    found = planned(made)
    assert (found.segments_before, found.segments_after) == ({"m1": 4, "m2": 0}, {"m1": 2, "m2": 2})
    assert [(move.old, move.new) for move in found.segments] == [("m1", "m2")] * 2
    assert found.segments[0].why == "m1 leads 4 open segments, m2 leads 0"
    carry_out(made, found)
    assert [one.member for one in opened(made, found.segments[0].segment[0]).in_sync] == ["m1", "m2"]
    assert planned(made).segments == ()


def test_a_segment_goes_home_where_that_makes_nothing_worse() -> None:
    """To the first of its copies, though the difference is one; not where that would lead more."""
    made = storing("m1", "m2", "m3")
    all_at(made, "m2", "a")
    opening = opened(made, "a")
    assert opening.copies[0] == "m1"
    (move,) = planned(made).segments
    assert (move.new, move.rule, move.why) == ("m1", HOME, "m1 has the first copy, and leads fewer than m2")
    made.reply(CreateShard(shard="b", replication=1), SegmentIs)
    made.reply(CreateShard(shard="c", replication=1), SegmentIs)
    assert "m1" in {opened(made, name).leader for name in "bc"}
    assert planned(made).segments == ()


def test_a_label_names_the_place_and_no_member_leads_more_for_it() -> None:
    """Racks are evened out too, by members that lead fewer themselves."""
    made = storing("m1", "m2", labels={"rack": "r1"})
    made.member("m3", roles=("journal",), labels={"rack": "r2"})
    all_at(made, "m1", "a", "b", copies=3)
    all_at(made, "m2", "c", "d", copies=3)
    (move,) = planned(made, BalanceSettings(rest_s=0, label="rack", apart_min=3, moves_max=1)).segments
    assert (move.from_place, move.to_place, move.new, move.rule) == ("r1", "r2", "m3", SPREAD)
    assert move.why == "r1 leads 4 open segments more than r2"
    many = planned(made, BalanceSettings(rest_s=0, label="rack"))
    assert many.segments_after["m3"] == 2


UNFIT = ("fenced", "draining", "silent", "full", "not in sync", "another life")


@pytest.mark.parametrize("how", UNFIT)
def test_nobody_leads_for_balance_who_is_unfit(how: str) -> None:
    """In the plan, and when its turn comes."""
    made = storing("m1", "m2")
    all_at(made, "m1", "a", "b", "c", "d")
    found = planned(made)
    epoch = made.state.members["m2"].epoch
    match how:
        case "fenced":
            fence(made, "m2")
        case "draining":
            made.do(commands.DrainMember(name="m2"))
        case "silent":
            made.members.living["m2", epoch] = False
        case "full":
            made.members.said["m2", epoch] = MemberHealth(disk_used_bytes=95, disk_total_bytes=100)
        case "not in sync":
            for name in "abcd":
                alone(made, name)
        case _:
            fence(made, "m2")
            made.member("m2", incarnation="2", roles=("journal",))
    assert planned(made).segments == ()
    for command in found.commands():
        assert made.refused(command).code == "NoLeaderEligible"
    gone = ElectSegmentLeader(segment="a/0", trigger="balance", wanted="nobody")
    assert made.refused(gone).remark == "a/0: nobody is gone"


def alone(made: World, shard: str) -> None:
    """Its leader is in sync, and nobody else."""
    found = opened(made, shard)
    by = commands.ByLeader(leader=found.leader, leader_epoch=found.leader_epoch, member_epoch=found.member_epoch)
    new = tuple(one for one in found.in_sync if one.member == found.leader)
    made.reply(commands.AlterInSync(segment=found.name, by=by, set_epoch=found.set_epoch, new=new), commands.InSyncIs)


def test_what_elections_do_is_not_the_business_of_balance() -> None:
    """A leader that is not there, is silent, or is to leave; a segment that is sealed, or of a shard that is to go."""
    made = storing("m1", "m2")
    all_at(made, "m1", "a", "b", "c", "d")
    made.do(commands.DeleteShard(shard="a"))
    found = opened(made, "b")
    by = commands.ByLeader(leader="m1", leader_epoch=found.leader_epoch, member_epoch=found.member_epoch)
    made.reply(commands.SealSegment(segment="b/0", end_offset=5, by=by), SegmentIs)
    moved = {move.segment for move in planned(made).segments}
    assert moved < {"c/0", "d/0"}
    assert moved
    made.members.living["m1", made.state.members["m1"].epoch] = False
    assert planned(made).segments == ()
    made.members.living.clear()
    made.do(commands.DrainMember(name="m1"))
    assert planned(made).segments == ()
    fence(made, "m1")
    assert planned(made).segments == ()


def test_moves_are_few_and_a_segment_rests_after_an_election() -> None:
    """All kinds share the moves of a plan."""
    made = storing("m1", "m2")
    all_at(made, "m1", *"abcdefgh")
    assert len(planned(made, BalanceSettings(rest_s=0, moves_max=3)).segments) == 3
    now = made.now_ms
    made.now_ms = now + 60_000
    rested = BalanceSettings(rest_s=60)
    found = planned(made, rested)
    assert len(found.segments) == 4
    carry_out(made, found)
    made.now_ms += 59_000
    assert planned(made, rested).segments == ()


MEMBERS = ("m1", "m2", "m3", "m4", "m5")
RACKS = st.lists(st.sampled_from(["", "r1", "r2"]), min_size=5, max_size=5)
SHARDS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=14)


@given(racks=RACKS, shards=SHARDS, unfit=st.sampled_from(("", *MEMBERS)), label=st.sampled_from(("", "rack")))
def test_the_laws_of_a_plan(racks: list[str], shards: list[tuple[int, int]], unfit: str, label: str) -> None:
    """Whatever there is: moves are bounded, none goes to who is unfit, neither members nor places are less even than
    before, the events are what the plan says, and a plan that was not cut short leaves nothing to do.
    """
    made = storing()
    for name, rack in zip(MEMBERS, racks, strict=True):
        made.member(name, roles=("journal",), labels={"rack": rack} if rack else {})
    for number, (copies, leader) in enumerate(shards):
        found = made.reply(CreateShard(shard=f"s{number:02}", replication=copies), SegmentIs)
        wanted = found.copies[leader % copies]
        made.reply(ElectSegmentLeader(segment=found.segment, trigger="operator", wanted=wanted), SegmentIs)
    if unfit:
        made.do(commands.DrainMember(name=unfit))
    settings = BalanceSettings(rest_s=60, moves_max=5, label=label)
    made.now_ms += 60_000
    places = {name: (rack if label else "") or name for name, rack in zip(MEMBERS, racks, strict=True)}
    for _ in range(2 * len(shards) + 1):
        found_now = planned(made, settings)
        assert len(found_now.segments) <= 5
        assert unfit not in {move.new for move in found_now.segments}
        before, after = found_now.segments_before, found_now.segments_after
        assert squares(after) <= squares(before)
        assert squares(by_place(after, places)) <= squares(by_place(before, places))
        carry_out(made, found_now)
        again = planned(made, settings)
        assert again.segments_before == after
        if len(found_now.segments) < 5:
            assert again.segments == ()
        made.now_ms += 60_000
        if not found_now.segments:
            break
    else:
        raise AssertionError("it never ends")


def squares(loads: dict[str, int] | Counter[str]) -> int:
    """How uneven it is."""
    return sum(count**2 for count in loads.values())


def by_place(loads: dict[str, int], places: dict[str, str]) -> Counter[str]:
    """What the members of each place lead."""
    found: Counter[str] = Counter()
    for member, count in loads.items():
        found[places[member]] += count
    return found


# -- clients


def serving(made: World, name: str, clients: int) -> None:
    """A member of MQTT with so many clients."""
    epoch = made.member(name, roles=("mqtt",))
    for number in range(clients):
        command = commands.OpenSession(
            client=f"{name}-{number}", member=name, member_epoch=epoch, clean_start=False, expiry_s=60, will=None
        )
        made.reply(command, commands.SessionIs)


def test_a_member_with_too_many_clients_is_advised_to_hand_some_over() -> None:
    """So many that it would have its share, and at most ``clients_max`` at a time; nothing is decided by it."""
    made = storing()
    serving(made, "a", 12)
    serving(made, "b", 0)
    found = planned(made)
    advice = HandOver(member="a", clients=12, hand_over=6, why="a has 12 clients, and its share of all would be 6")
    assert found.hand_over == (advice,)
    assert found.commands() == []
    assert planned(made, BalanceSettings(clients_max=2)).hand_over[0].hand_over == 2
    assert planned(made, BalanceSettings(clients_apart_percent=100)).hand_over == ()


def test_only_members_that_take_clients_are_counted() -> None:
    """Not one that is fenced, silent, to leave, or of another kind; and of clients only those that are connected."""
    made = storing("store")
    serving(made, "a", 12)
    for name in "bcd":
        serving(made, name, 0)
    fence(made, "b")
    assert isinstance(made.log[-1][0], MemberFenced)
    made.do(commands.DrainMember(name="c"))
    made.members.living["d", made.state.members["d"].epoch] = False
    assert planned(made).hand_over == ()
    serving(made, "e", 0)
    for number in range(10):
        session = made.state.sessions[f"a-{number}"]
        made.do(commands.CloseSession(client=session.client, session_epoch=session.session_epoch))
    assert planned(made).hand_over == ()
