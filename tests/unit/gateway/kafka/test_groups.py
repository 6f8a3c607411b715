"""Consumer groups in virtual time: who is a member, when a generation is complete, what a lost member costs."""

import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from quorate.controller import WriteResult
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from quorate.wire.kafka_responses import JoinedGroup
from tests.kafka_tools.fakes import FakeLedger
from tests.sim.world import Loop, World

SETTINGS = KafkaSettings(groups_max=3, group_members_max=6, group_member_bytes_max=100)
SESSION_MS = 10_000


class Room:
    """Groups, a clock, and answers as they come."""

    def __init__(self, settings: KafkaSettings = SETTINGS) -> None:
        self.world = World(1)
        self.ledger = FakeLedger()
        self.settings = settings
        self.seeds = count(7)
        self.groups = self.coordinator()

    def coordinator(self) -> Groups:
        """A node that coordinates, with what the cluster keeps."""
        groups = Groups(
            self.settings, Loop(self.world, "room", lambda: None), random.Random(next(self.seeds)), self.ledger
        )
        groups.restore()
        return groups

    def after(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)

    def sweep_for(self, seconds: int) -> None:
        """Time passes, with the sweep that happens once a second."""
        for _ in range(seconds):
            self.after(1.0)
            self.groups.sweep()

    def join(self, member_id: str = "", **how: Any) -> list[JoinedGroup]:
        answers: list[JoinedGroup] = []
        self.groups.join(join_request(member_id, **how), ("client", "127.0.0.1"), answers.append)
        return answers

    def sync(self, member: JoinedGroup, assignments: dict[str, bytes] | None = None, **how: Any) -> list[Any]:
        answers: list[Any] = []
        generation = how.pop("generation", member.generation)
        request = SyncGroupRequest(
            "g", generation, member.member_id, how.pop("instance", None), tuple((assignments or {}).items())
        )
        self.groups.sync(request, lambda error, assignment: answers.append((error, assignment)))
        return answers

    def beat(self, member: JoinedGroup, **how: Any) -> ErrorCode:
        generation = how.get("generation", member.generation)
        return self.groups.heartbeat(HeartbeatRequest("g", generation, member.member_id, how.get("instance")))

    def commit(self, member: JoinedGroup | None, generation: int | None = None) -> ErrorCode:
        if member is None:
            return self.groups.may_commit("g", -1, "", None)
        return self.groups.may_commit(
            "g", member.generation if generation is None else generation, member.member_id, None
        )

    def leave(self, member_id: str, instance: str | None = None) -> int:
        ((_, _, error),) = self.groups.leave(LeaveGroupRequest("g", (LeavingMember(member_id, instance),)))
        return error

    def static_member(self, **how: Any) -> JoinedGroup:
        """One member, of instance i1, synced."""
        answers = self.join(instance="i1", **how)
        self.after(0.2)
        (member,) = answers
        assert self.sync(member, {member.member_id: b"mine"}, instance="i1") == [(0, b"mine")]
        return member

    def fail(self, outcome: WriteResult) -> None:
        """What waits to be written is not."""
        self.ledger.outcome = outcome
        self.ledger.release()
        self.ledger.outcome, self.ledger.held = WriteResult.DONE, False

    def stable_pair(self) -> tuple[JoinedGroup, JoinedGroup]:
        """Two members, synced; the leader first."""
        first, second = self.join(), self.join()
        self.after(0.2)
        (one,), (two,) = first, second
        leader, other = (one, two) if one.leader == one.member_id else (two, one)
        waiting = self.sync(other)
        assert self.sync(leader, {leader.member_id: b"a", other.member_id: b"b"}) == [(0, b"a")]
        assert waiting == [(0, b"b")]
        return leader, other


def join_request(member_id: str = "", **how: Any) -> JoinGroupRequest:
    """A join with ordinary values."""
    return JoinGroupRequest(
        how.get("group", "g"),
        how.get("session_ms", SESSION_MS),
        how.get("rebalance_ms", 30_000),
        member_id,
        how.get("instance"),
        how.get("protocol_type", "consumer"),
        how.get("protocols", (("range", b"sub"),)),
        how.get("required", False),
    )


def test_a_new_group_waits_a_moment_for_more_members() -> None:
    """The first members within the initial delay are one generation with one leader that sees all subscriptions."""
    room = Room()
    first, second = room.join(), room.join()
    assert first == second == []
    room.after(0.2)
    (one,), (two,) = first, second
    assert one.generation == two.generation == 1
    assert one.leader == two.leader
    leader, other = (one, two) if one.leader == one.member_id else (two, one)
    assert {member for member, _, _ in leader.members} == {one.member_id, two.member_id}
    assert other.members == ()


def test_followers_get_their_assignment_when_the_leader_gives_it() -> None:
    """A follower's sync waits for the leader's; a later one is answered at once."""
    room = Room()
    _, other = room.stable_pair()
    assert room.sync(other) == [(0, b"b")]


def test_a_member_must_learn_its_id_first() -> None:
    """Asked to come twice, an unknown member gets an id with error 79, and joins with that id only (KIP-394)."""
    room = Room()
    (told,) = room.join(required=True)
    assert told.error == ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id
    (stranger,) = room.join("made-up", required=True)
    assert stranger.error == ErrorCode.UNKNOWN_MEMBER_ID
    answers = room.join(told.member_id, required=True)
    room.after(0.2)
    assert answers[0].error == 0
    assert answers[0].member_id == told.member_id


def test_a_newcomer_makes_everyone_join_again() -> None:
    """Members learn of a rebalance by heartbeat; the generation is complete as soon as all have joined."""
    room = Room()
    leader, other = room.stable_pair()
    newcomer = room.join()
    assert room.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.sync(other) == [(ErrorCode.REBALANCE_IN_PROGRESS, b"")]
    again = room.join(leader.member_id)
    assert newcomer == again == []
    last = room.join(other.member_id)
    assert [a[0].generation for a in (newcomer, again, last)] == [2, 2, 2]
    assert len(again[0].members) == 3


def test_who_does_not_join_in_time_is_out() -> None:
    """After the longest rebalance timeout the generation is complete without those that did not come."""
    room = Room()
    leader, other = room.stable_pair()
    newcomer, again = room.join(), room.join(leader.member_id)
    room.after(29.0)
    assert newcomer == []
    room.after(2.0)
    assert newcomer[0].generation == again[0].generation == 2
    assert room.beat(other) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_loses_its_session() -> None:
    """Nothing heard for the session timeout: the others rebalance, the silent one is unknown."""
    room = Room()
    leader, other = room.stable_pair()
    for _ in range(11):
        room.after(1.0)
        room.beat(leader)
        room.groups.sweep()
    assert room.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.beat(other) == ErrorCode.UNKNOWN_MEMBER_ID
    again = room.join(leader.member_id)
    assert again[0].generation == 2


def test_a_leader_that_never_syncs_does_not_hang_the_group() -> None:
    """Its session ends like anybody's; the waiting followers are told to join again."""
    room = Room()
    first, second = room.join(), room.join()
    room.after(0.2)
    follower = next(a[0] for a in (first, second) if a[0].leader != a[0].member_id)
    waiting = room.sync(follower)
    room.sweep_for(12)
    assert waiting == [(ErrorCode.REBALANCE_IN_PROGRESS, b"")]


def test_leaving_starts_a_rebalance_and_the_last_one_empties_the_group() -> None:
    """The others are told at their next heartbeat; of a group without members nothing is left."""
    room = Room()
    leader, other = room.stable_pair()
    assert room.commit(leader) == 0
    assert room.leave(other.member_id) == 0
    assert room.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.leave(other.member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.ledger.rows
    assert room.leave(leader.member_id) == 0
    room.sweep_for(1)
    assert len(room.groups) == 0
    assert not room.ledger.rows


def test_generations_are_checked() -> None:
    """A heartbeat, sync or commit of another generation is refused with error 22 and changes nothing."""
    room = Room()
    leader, _ = room.stable_pair()
    assert room.beat(leader, generation=7) == ErrorCode.ILLEGAL_GENERATION
    assert room.sync(leader, generation=7) == [(ErrorCode.ILLEGAL_GENERATION, b"")]
    assert room.commit(leader, 7) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit(leader) == 0


def test_outsiders_commit_only_while_nobody_is_a_member() -> None:
    """Generation -1 is for consumers that assign themselves; in a group with members it is a stranger."""
    room = Room()
    assert room.commit(None) == 0
    room.stable_pair()
    assert room.commit(None) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_takes_over_its_old_place() -> None:
    """Coming back under its instance id it has its assignment without a rebalance; the old one is fenced (KIP-345)."""
    room = Room()
    joined = room.join(instance="i1")
    room.after(0.2)
    old = joined[0]
    assert room.sync(old, {old.member_id: b"mine"}) == [(0, b"mine")]
    (new,) = room.join(instance="i1")
    assert (new.error, new.generation) == (0, 1)
    assert new.member_id != old.member_id
    assert new.leader == new.member_id
    assert room.sync(new, instance="i1") == [(0, b"mine")]
    assert room.beat(old, instance="i1") == ErrorCode.FENCED_INSTANCE_ID
    (refused,) = room.join(old.member_id, instance="i1")
    assert refused.error == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_may_be_away_during_a_rebalance() -> None:
    """It keeps its place until its session ends, though it did not join."""
    room = Room()
    first, second = room.join(instance="i1", session_ms=60_000), room.join()
    room.after(0.2)
    leader = next(a[0] for a in (first, second) if a[0].leader == a[0].member_id)
    other = first[0] if leader is second[0] else second[0]
    room.sync(other)
    room.sync(leader, {leader.member_id: b"a", other.member_id: b"b"})
    newcomer, again = room.join(), room.join(second[0].member_id, protocols=(("range", b"changed"),))
    room.after(61.0)
    assert newcomer[0].generation == again[0].generation == 2
    assert room.beat(first[0], instance="i1", generation=2) == 0


def test_a_static_member_that_is_busy_keeps_its_place_though_nobody_joins() -> None:
    """As long as it beats; it joins when it is done, and what it has read until then may be committed."""
    room = Room()
    first, second = room.join(instance="i1", session_ms=60_000), room.join()
    room.after(0.2)
    leader = next(a[0] for a in (first, second) if a[0].leader == a[0].member_id)
    other = first[0] if leader is second[0] else second[0]
    room.sync(other)
    room.sync(leader, {leader.member_id: b"a", other.member_id: b"b"})
    room.leave(second[0].member_id)
    for _ in range(10):
        room.after(30.0)
        assert room.beat(first[0], instance="i1") == ErrorCode.REBALANCE_IN_PROGRESS
    again = room.join(first[0].member_id, instance="i1", session_ms=60_000)
    assert again[0].generation == 2
    room.after(200.0)
    assert room.beat(first[0], instance="i1", generation=2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_repeats_itself_does_not_disturb_the_others() -> None:
    """A follower joining again with the same subscription gets the generation it is in."""
    room = Room()
    leader, other = room.stable_pair()
    (again,) = room.join(other.member_id)
    assert again.generation == 1
    assert room.beat(leader) == 0
    assert room.join(leader.member_id) == []
    assert room.beat(other) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_protocol_most_members_prefer_is_chosen() -> None:
    """Among those all know; a newcomer that knows none of them is refused with error 23."""
    room = Room()
    answers = [
        room.join(protocols=(("sticky", b""), ("range", b""))),
        room.join(protocols=(("range", b""), ("sticky", b""))),
        room.join(protocols=(("range", b""), ("sticky", b""), ("other", b""))),
    ]
    room.after(0.2)
    assert {a[0].protocol for a in answers} == {"range"}
    (refused,) = room.join(protocols=(("other", b""),))
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (refused,) = room.join(protocol_type="connect")
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group": "g" * 256}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"rebalance_ms": 2**31 - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"x" * 101),)}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ({"instance": "i" * 101}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ({"instance": "\N{GRINNING FACE}" * 25}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ({"protocol_type": "p" * 101}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        ({"protocols": (("", b""),) * 33}, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_a_join_that_cannot_be_is_refused(how: dict[str, Any], error: ErrorCode) -> None:
    """Each bad value has its own error, and leaves no group behind."""
    room = Room()
    (refused,) = room.join(**how)
    assert refused.error == error
    assert len(room.groups) == 0


@pytest.mark.parametrize("name", ["instance", "protocol_type", "protocols"])
def test_a_name_is_bounded_however_long_a_subscription_may_be(name: str) -> None:
    """A member keeps its names, and they are told in many answers: 255 bytes each are enough for any of them."""
    room = Room(KafkaSettings())
    for size, told in ((256, [ErrorCode.GROUP_MAX_SIZE_REACHED]), (255, [])):
        value: Any = ((size * "n", b""),) if name == "protocols" else size * "n"
        assert [answer.error for answer in room.join(**{name: value})] == told


class Counted(str):
    """A name that counts how often any was looked at: hashed or compared."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return super().__eq__(other)


def test_a_join_costs_the_same_however_many_there_are() -> None:
    """The last of many members looks at as many protocols' names as the second, and so does one that joins again or
    takes a place over; a generation is formed with a few looks at each member.
    """
    room = Room(KafkaSettings())
    costs: list[int] = []

    def cost(member_id: str = "", **how: Any) -> list[JoinedGroup]:
        protocols = tuple((Counted(f"protocol-{number}"), b"") for number in range(32))
        before = Counted.looks
        answers = room.join(member_id, protocols=protocols, **how)
        costs.append(Counted.looks - before)
        return answers

    *_, answers = [cost(instance=f"i{number}") for number in range(50)]
    assert max(costs[1:]) == costs[1] < 32 * 12
    before = Counted.looks
    room.after(0.2)
    assert Counted.looks - before < 50 * 32 * 3
    (last,) = answers
    cost(last.member_id, instance="i49")
    cost(instance="i49")
    assert max(costs[-2:]) < costs[1] * 3


def test_who_leaves_is_found_without_a_search() -> None:
    """Strangers' instance ids are compared with nobody's: a tool may name as many as there may be members."""
    room = Room(KafkaSettings())
    for number in range(50):
        room.join(instance=Counted(f"i{number}"))
    before = Counted.looks
    left = room.groups.leave(LeaveGroupRequest("g", tuple(LeavingMember("", f"stranger {n}") for n in range(1000))))
    assert {error for _, _, error in left} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert Counted.looks == before
    assert room.leave("", "i7") == 0
    assert room.groups.members == 49


def test_a_protocol_is_common_while_every_member_has_it() -> None:
    """Whoever leaves, comes back with other protocols or is out: what the others have in common is known."""
    room = Room()
    both, other = (("range", b""), ("sticky", b"")), (("sticky", b""), ("other", b""))
    first, second = room.join(protocols=both), room.join(instance="i1", protocols=both)
    room.after(0.2)
    ((one,), (two,)) = first, second
    room.join(two.member_id, instance="i1", protocols=other)
    (refused,) = room.join(protocols=(("range", b""),))
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    new = room.join(instance="i1", protocols=both)
    again = room.join(one.member_id, protocols=both)
    assert [a.protocol for a in (*new, *again)] == ["range"] * 2
    room.leave("", "i1")
    room.join(one.member_id, protocols=(("other", b""),))
    (refused,) = room.join(protocols=both)
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.leave(one.member_id) == 0
    fresh = room.join(protocols=both)
    room.after(0.2)
    assert fresh[0].protocol == "range"


def test_groups_and_members_are_bounded() -> None:
    """One member too many is refused, and so is the first member of one group too many; empty groups make room."""
    room = Room()
    for name in ("a", "b", "c", "a", "b", "c"):
        room.join(group=name)
    (refused,) = room.join(group="b")
    assert refused.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    (refused,) = room.join(group="e")
    assert refused.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    room.sweep_for(12)
    assert len(room.groups) == 0
    assert room.join(group="e") == []


def test_promised_ids_lapse() -> None:
    """An id nobody used within a session makes room again."""
    room = Room()
    for _ in range(6):
        room.join(required=True)
    assert room.groups.members == 6
    room.sweep_for(11)
    assert room.groups.members == 0


def test_oversized_assignments_are_refused() -> None:
    """Nothing above the limit is kept; a leader that gives nothing else is out after a rebalance timeout."""
    room = Room()
    answers = room.join()
    room.after(0.2)
    member = answers[0]
    assert room.sync(member, {member.member_id: b"x" * 101}) == [(ErrorCode.INVALID_REQUEST, b"")]
    for _ in range(31):
        room.sweep_for(1)
        room.beat(member)
    assert len(room.groups) == 0


def test_a_commit_names_a_group() -> None:
    """An empty name, or one that is too long, is refused with error 24."""
    room = Room()
    for name in ("", "g" * 256):
        assert room.groups.may_commit(name, -1, "", None) == ErrorCode.INVALID_GROUP_ID


def test_losing_the_office_sends_everyone_away() -> None:
    """Whoever waits is answered error 16, nothing is kept, no timer fires afterwards."""
    room = Room()
    room.stable_pair()
    waiting = room.join()
    room.groups.clear()
    assert [a.error for a in waiting] == [ErrorCode.NOT_COORDINATOR]
    assert len(room.groups) == 0
    room.after(60.0)
    assert len(waiting) == 1


def test_a_stable_group_goes_on_at_the_next_coordinator() -> None:
    """Members keep their ids, generation and assignments; whoever is not heard there for a whole session is out."""
    room = Room()
    leader, other = room.stable_pair()
    room.groups.clear()
    room.after(9.0)
    room.groups = room.coordinator()
    assert room.groups.members == 2
    assert room.beat(leader) == 0
    assert room.commit(leader) == 0
    assert room.sync(other) == [(0, b"b")]
    for _ in range(9):
        room.sweep_for(1)
        assert room.beat(leader) == 0
    room.sweep_for(2)
    assert room.beat(other) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_generation_under_way_is_lost_with_its_coordinator() -> None:
    """Members that had joined a generation without assignments are told to join again; nobody reads two ways."""
    room = Room()
    leader, other = room.stable_pair()
    newcomer, again, last = room.join(), room.join(leader.member_id), room.join(other.member_id)
    assert newcomer[0].generation == again[0].generation == last[0].generation == 2
    room.groups = room.coordinator()
    assert room.beat(newcomer[0]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(again[0]) == ErrorCode.ILLEGAL_GENERATION
    assert room.commit(again[0]) == ErrorCode.ILLEGAL_GENERATION
    assert room.beat(leader) == 0


def test_a_static_member_is_known_at_the_next_coordinator() -> None:
    """It takes over its old place there, by its instance id, as it would have here."""
    room = Room()
    answers = room.join(instance="i1")
    room.after(0.2)
    member = answers[0]
    room.sync(member, {member.member_id: b"mine"}, instance="i1")
    room.groups = room.coordinator()
    (back,) = room.join(instance="i1")
    assert back.member_id != member.member_id
    assert room.sync(back, instance="i1") == [(0, b"mine")]
    room.groups = room.coordinator()
    assert room.beat(back, instance="i1") == 0
    assert room.beat(member, instance="i1") == ErrorCode.FENCED_INSTANCE_ID


def test_nothing_is_kept_of_a_group_that_ended_before_it_was_kept() -> None:
    """Its row, still on its way when the last member has left, is removed as well."""
    room = Room()
    answers = room.join()
    room.after(0.2)
    (member,) = answers
    room.ledger.held = True
    room.sync(member, {member.member_id: b"mine"})
    assert room.leave(member.member_id) == 0
    room.sweep_for(1)
    room.ledger.release()
    room.ledger.held = False
    room.sweep_for(1)
    assert len(room.groups) == 0
    assert not room.ledger.rows


NOT_KEPT = [
    (WriteResult.BUSY, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (WriteResult.NOT_LEADER, ErrorCode.NOT_COORDINATOR),
    (WriteResult.LATE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
]


@pytest.mark.parametrize("outcome", [outcome for outcome, _ in NOT_KEPT])
def test_members_that_could_not_be_forgotten_are_forgotten_at_the_next_sweep(outcome: WriteResult) -> None:
    """Or the next coordinator had them back: a group of members that left long ago."""
    room = Room()
    for member in room.stable_pair():
        assert room.leave(member.member_id) == 0
    room.ledger.outcome = outcome
    room.sweep_for(1)
    room.ledger.outcome = WriteResult.DONE
    room.sweep_for(1)
    assert len(room.groups) == 0
    assert not room.ledger.rows
    room.groups = room.coordinator()
    assert room.groups.members == 0
    assert room.commit(None) == 0


def test_who_joins_while_a_group_is_forgotten_is_kept() -> None:
    """The removal of the members before it is written first; nothing removes the new one's row."""
    room = Room()
    for member in room.stable_pair():
        room.leave(member.member_id)
    room.ledger.held = True
    room.sweep_for(1)
    answers = room.join()
    room.after(0.2)
    waiting = room.sync(answers[0], {answers[0].member_id: b"mine"})
    room.ledger.release()
    room.ledger.held = False
    room.sweep_for(2)
    assert waiting == [(0, b"mine")]
    room.groups = room.coordinator()
    assert room.beat(answers[0]) == 0


def test_a_place_taken_over_is_told_when_it_is_kept() -> None:
    """So no later coordinator fences the rightful member for the sake of the one before it."""
    room = Room()
    old = room.static_member()
    room.ledger.held = True
    new = room.join(instance="i1")
    assert new == []
    room.ledger.release()
    assert [(a.error, a.generation) for a in new] == [(0, 1)]
    room.groups = room.coordinator()
    assert room.beat(new[0], instance="i1") == 0
    assert room.beat(old, instance="i1") == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(("outcome", "error"), NOT_KEPT)
def test_a_place_that_is_not_kept_is_asked_for_again(outcome: WriteResult, error: ErrorCode) -> None:
    """The member is told to try again, and has its place and assignment then, here or at the next coordinator."""
    for moved in (False, True):
        room = Room()
        room.static_member()
        room.ledger.held = True
        answers = room.join(instance="i1")
        room.fail(outcome)
        assert [(a.error, a.member_id) for a in answers] == [(error, "")]
        if moved:
            room.groups = room.coordinator()
        (again,) = room.join(instance="i1")
        assert (again.error, again.generation) == (0, 1)
        assert room.sync(again, instance="i1") == [(0, b"mine")]


def test_who_takes_over_while_another_joins_is_of_the_next_generation() -> None:
    """It waits for one answer, whichever comes first: that its place is kept, or that the next generation is there."""
    room = Room()
    room.static_member()
    room.ledger.held = True
    new, newcomer = room.join(instance="i1"), room.join()
    room.ledger.release()
    room.ledger.release()
    assert [a.generation for a in new] == [a.generation for a in newcomer] == [2]


def test_assignments_are_told_when_they_are_kept() -> None:
    """To the leader and to everyone; until then the generation is not stable, and a leader that asks again waits."""
    room = Room()
    first, second = room.join(), room.join()
    room.after(0.2)
    (leader,), (other,) = sorted((first, second), key=lambda a: a[0].leader != a[0].member_id)
    room.ledger.held = True
    waiting = room.sync(leader, {leader.member_id: b"a", other.member_id: b"b"}), room.sync(other)
    again = room.sync(leader, {leader.member_id: b"other", other.member_id: b"other"})
    assert [*waiting, again] == [[(ErrorCode.UNKNOWN_MEMBER_ID, b"")], [], []]
    room.sweep_for(30)
    room.ledger.release()
    assert [waiting[1], again] == [[(0, b"b")], [(0, b"a")]]
    room.sweep_for(5)
    assert room.beat(leader) == room.beat(other) == 0
    room.groups = room.coordinator()
    assert room.sync(leader) == [(0, b"a")]


@pytest.mark.parametrize(("outcome", "error"), NOT_KEPT)
def test_assignments_that_are_not_kept_are_made_again(outcome: WriteResult, error: ErrorCode) -> None:
    """Everyone that syncs is told to try again, and joins the next generation."""
    room = Room()
    first, second = room.join(), room.join()
    room.after(0.2)
    (leader,), (other,) = sorted((first, second), key=lambda a: a[0].leader != a[0].member_id)
    room.ledger.held = True
    waiting = room.sync(other), room.sync(leader, {leader.member_id: b"a", other.member_id: b"b"})
    room.fail(outcome)
    assert waiting == ([(error, b"")], [(error, b"")])
    again = room.join(leader.member_id), room.join(other.member_id)
    assert [a.generation for answers in again for a in answers] == [2, 2]


def test_assignments_of_a_generation_that_ended_meanwhile_are_not_told() -> None:
    """A member that joins while they are being written makes everyone join again, once."""
    room = Room()
    answers = room.join()
    room.after(0.2)
    (member,) = answers
    room.ledger.held = True
    waiting = room.sync(member, {member.member_id: b"mine"})
    newcomer = room.join()
    assert waiting == [(ErrorCode.REBALANCE_IN_PROGRESS, b"")]
    room.ledger.release()
    assert len(waiting) == 1
    assert newcomer == []
    assert room.beat(member) == ErrorCode.REBALANCE_IN_PROGRESS


def test_of_a_group_too_long_to_be_kept_nothing_older_is_kept() -> None:
    """Its members are told their assignments all the same, and join again at the next coordinator; nobody is fenced."""
    room = Room()
    room.static_member()
    room.ledger.row_bytes_max = 0
    (new,) = room.join(instance="i1")
    assert new.error == 0
    assert room.sync(new, instance="i1") == [(0, b"mine")]
    assert not room.ledger.rows
    room.groups = room.coordinator()
    assert room.beat(new, instance="i1") == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_is_written_after_the_office_was_lost_changes_nothing() -> None:
    """Who waited has been sent away; no timer is started for a group that is forgotten."""
    for outcome in (WriteResult.DONE, WriteResult.LATE):
        room = Room()
        answers = room.join()
        room.after(0.2)
        room.ledger.held = True
        waiting = room.sync(answers[0], {})
        room.groups.clear()
        assert waiting == [(ErrorCode.NOT_COORDINATOR, b"")]
        room.fail(outcome)
        room.after(60.0)
        assert len(waiting) == 1
        assert len(room.groups) == 0


def test_a_place_taken_over_in_a_rebalance_is_told_when_its_predecessor_is_forgotten() -> None:
    """Should the coordinator be lost before assignments are kept, the next one does not fence the rightful member."""
    room = Room()
    room.static_member()
    room.ledger.held = True
    new, newcomer = room.join(instance="i1", protocols=(("range", b"changed"),)), room.join()
    assert new == newcomer == []
    room.ledger.release()
    assert [a.generation for a in (*new, *newcomer)] == [3, 3]
    room.groups = room.coordinator()
    assert room.beat(new[0], instance="i1") == ErrorCode.UNKNOWN_MEMBER_ID
    (refused,) = room.join(new[0].member_id, instance="i1")
    assert refused.error == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("outcome", "told"), [(WriteResult.DONE, (0, 2)), (WriteResult.LATE, (15, -1))])
def test_who_joins_again_meanwhile_is_told_with_the_others(outcome: WriteResult, told: tuple[int, int]) -> None:
    """A member that asks once more while a predecessor is forgotten waits for that too, and is answered once."""
    room = Room()
    leader, other = room.join(instance="i1"), room.join()
    room.after(0.2)
    room.sync(other[0])
    room.sync(leader[0], instance="i1")
    room.ledger.held = True
    new, first = room.join(instance="i1", protocols=(("range", b"changed"),)), room.join(other[0].member_id)
    again = room.join(other[0].member_id)
    assert [[a.error for a in answers] for answers in (new, first, again)] == [[], [ErrorCode.UNKNOWN_MEMBER_ID], []]
    room.fail(outcome)
    assert [(a.error, a.generation) for a in (*new, *again)] == [told, told]


@pytest.mark.parametrize(("outcome", "error"), NOT_KEPT)
def test_a_generation_that_cannot_be_told_is_formed_again(outcome: WriteResult, error: ErrorCode) -> None:
    """Everyone that joined it is told to try again, and does."""
    room = Room()
    room.static_member()
    room.ledger.held = True
    new, newcomer = room.join(instance="i1", protocols=(("range", b"changed"),)), room.join()
    room.fail(outcome)
    assert [a.error for a in (*new, *newcomer)] == [error, error]
    again = room.join(instance="i1", protocols=(("range", b"changed"),)), room.join(newcomer[0].member_id)
    assert [(a.error, a.generation) for answers in again for a in answers] == [(0, 4), (0, 4)]


def test_a_leader_that_beats_but_never_syncs_is_out() -> None:
    """A rebalance timeout after the generation began; those that wait are told to join again, and one of them leads."""
    room = Room()
    first, second, third = room.join(), room.join(), room.join(instance="i1")
    room.after(0.2)
    leader = first[0]
    assert leader.leader == leader.member_id
    waiting = room.sync(second[0]), room.sync(third[0], instance="i1")
    for _ in range(29):
        room.sweep_for(1)
        assert room.beat(leader) == 0
    assert waiting == ([], [])
    room.sweep_for(2)
    assert waiting == ([(ErrorCode.REBALANCE_IN_PROGRESS, b"")],) * 2
    assert room.beat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
    again = room.join(second[0].member_id), room.join(third[0].member_id, instance="i1")
    assert [(a.generation, a.leader) for answers in again for a in answers] == [(2, second[0].member_id)] * 2


def test_a_follower_that_beats_but_never_syncs_is_out() -> None:
    """What it was given is read by somebody else after a rebalance timeout; a group of such members is empty."""
    room = Room()
    first, second = room.join(), room.join()
    room.after(0.2)
    leader, follower = first[0], second[0]
    assert room.sync(leader, {follower.member_id: b"all"}) == [(0, b"")]
    for _ in range(31):
        room.sweep_for(1)
        room.beat(leader)
        room.beat(follower)
    assert room.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    (alone,) = room.join(leader.member_id)
    for _ in range(31):
        room.sweep_for(1)
        room.beat(alone)
    assert len(room.groups) == 0


def test_who_has_synced_or_did_not_join_is_not_put_out() -> None:
    """A static member that did not join this generation owes no sync; only its silence would end it."""
    room = Room()
    away, newcomer = room.static_member(), room.join()
    for _ in range(31):
        room.sweep_for(1)
        assert room.beat(away, instance="i1") in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
    (member,) = newcomer
    assert room.sync(member, {member.member_id: b"all"}) == [(0, b"all")]
    for _ in range(65):
        room.sweep_for(1)
        assert room.beat(away, instance="i1") == ErrorCode.ILLEGAL_GENERATION
        assert room.beat(member) == 0


def test_who_takes_a_place_over_has_its_own_time_to_sync() -> None:
    """Not what was left of the generation's; and one that beats but does not sync is out when its own is over."""
    for late_s in (59.85, 65.0):
        room = Room()
        room.static_member(session_ms=60_000)
        room.after(late_s)
        (new,) = room.join(instance="i1", session_ms=60_000)
        room.after(1.0)
        assert room.sync(new, instance="i1") == [(0, b"mine")]
        (silent,) = room.join(instance="i1", session_ms=60_000)
        room.after(58.0)
        assert room.beat(silent, instance="i1") == 0
        room.after(4.0)
        assert room.beat(silent, instance="i1") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_owes_its_syncs_since_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the answers take to be made: its silent members are out together, and nobody waits for the rest."""
    room, ticks = Room(), count()
    now = room.groups._scheduler.monotonic
    monkeypatch.setattr(room.groups._scheduler, "monotonic", lambda: now() + next(ticks) * 1e-5)
    told = [room.join(instance=f"i{number}") for number in range(5)]
    room.after(SETTINGS.group_initial_delay_s + 0.1)
    assert all(told)
    assert len({member.owes_sync_since for member in room.groups._groups["g"].members.values()}) == 1


@pytest.mark.parametrize(
    ("who", "instance", "error"),
    [
        ("static", "i1", ErrorCode.NONE),
        ("static", None, ErrorCode.NONE),
        ("static", "i2", ErrorCode.UNKNOWN_MEMBER_ID),
        ("before it", "i1", ErrorCode.FENCED_INSTANCE_ID),
        ("before it", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("dynamic", None, ErrorCode.NONE),
        ("dynamic", "i1", ErrorCode.FENCED_INSTANCE_ID),
        ("dynamic", "i2", ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", "i1", ErrorCode.FENCED_INSTANCE_ID),
        ("stranger", "i2", ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i1", ErrorCode.FENCED_INSTANCE_ID),
        ("", "i2", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("api", ["join", "sync", "heartbeat", "commit", "leave"])
def test_who_may_speak_under_which_ids(api: str, who: str, instance: str | None, error: ErrorCode) -> None:
    """Kafka's ``validateCurrentMember``, the same for every request; whoever is refused disturbs nobody. Without a
    member id one joins anew, and a tool removes whoever has the place.
    """
    room = Room()
    first, second = room.join(instance="i1"), room.join()
    room.after(0.2)
    (before,), (dynamic,) = first, second
    room.sync(dynamic)
    room.sync(before, {before.member_id: b"a", dynamic.member_id: b"b"}, instance="i1")
    (static,) = room.join(instance="i1")
    ids = {"static": static.member_id, "before it": before.member_id, "dynamic": dynamic.member_id}
    member = JoinedGroup(ErrorCode.NONE, ids.get(who, who), generation=static.generation)
    match api:
        case "join" if not who:
            return
        case "join":
            told = [answer.error for answer in room.join(member.member_id, instance=instance)] or [ErrorCode.NONE]
        case "sync":
            told = [found for found, _ in room.sync(member, instance=instance)]
        case "heartbeat":
            told = [room.beat(member, instance=instance)]
        case "commit":
            told = [room.groups.may_commit("g", member.generation, member.member_id, instance)]
        case _:
            told = [ErrorCode(room.leave(member.member_id, instance))]
    removed = (api, who, instance) == ("leave", "", "i1")
    assert told == [ErrorCode.NONE if removed else error]
    if error and not removed:
        assert room.beat(static) == room.beat(dynamic) == ErrorCode.NONE


def test_an_id_that_was_only_promised_leaves_without_disturbing_anybody() -> None:
    """It was no member yet, so nobody joins again."""
    room = Room()
    leader, _ = room.stable_pair()
    (promised,) = room.join(required=True)
    assert room.leave(promised.member_id) == 0
    assert room.groups.members == 2
    assert room.beat(leader) == 0


@pytest.mark.parametrize("instance", [None, "i1"])
def test_a_join_that_ends_another_is_answered_whatever_that_brings(instance: str | None) -> None:
    """The client of the join that is ended has pipelined a leave, or a join that takes the place over once more."""
    room = Room()
    brought: list[JoinedGroup] = []
    told: list[ErrorCode] = []
    ids = [a.member_id for a in room.join(required=True)] if instance is None else [""]
    request, client = join_request(ids[0], instance=instance), ("client", "127.0.0.1")

    def ended(answer: JoinedGroup) -> None:
        told.append(ErrorCode(answer.error))
        if instance is None:
            room.leave(ids[0])
        else:
            room.groups.join(request, client, brought.append)

    room.groups.join(request, client, ended)
    answers = room.join(ids[0], instance=instance)
    expected = ErrorCode.UNKNOWN_MEMBER_ID if instance is None else ErrorCode.FENCED_INSTANCE_ID
    assert [*told, *(a.error for a in answers)] == [expected] * 2
    room.after(0.2)
    assert [a.generation for a in brought] == ([] if instance is None else [1])


def test_an_answer_may_bring_the_next_request() -> None:
    """Followers whose leave is there already when their sync is answered go one by one, and the group is empty."""
    room = Room()
    joined = [room.join() for _ in range(3)]
    room.after(0.2)
    leader, *followers = (answers[0] for answers in joined)
    told: list[int] = []

    def leaving(member_id: str) -> Callable[[int, bytes], None]:
        return lambda error, _: told.extend((error, room.leave(member_id)))

    for follower in followers:
        room.groups.sync(SyncGroupRequest("g", 1, follower.member_id, None, ()), leaving(follower.member_id))
    assert room.leave(leader.member_id) == 0
    assert told == [ErrorCode.REBALANCE_IN_PROGRESS, 0] * 2
    room.sweep_for(40)
    assert len(room.groups) == 0
