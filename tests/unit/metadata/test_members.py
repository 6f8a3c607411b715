"""Members: they register, catch up, are fenced, leave; a stale epoch changes nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.events import (
    MemberAmended,
    MemberDraining,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
)
from quorate.metadata import commands
from quorate.metadata import members as rules
from quorate.metadata.commands import (
    DrainMember,
    FenceMember,
    HearMember,
    MemberIs,
    Refusal,
    RegisterMember,
    UnregisterMember,
)
from quorate.metadata.members import checked
from quorate.model import members as asked
from quorate.model.live import MemberHealth
from quorate.model.state import Member, State
from tests.unit.metadata.kit import CREATE, World
from tests.unit.metadata.test_keys import world


def registering(name: str = "m", incarnation: str = "1", **said: Any) -> RegisterMember:
    """A registration of which nothing is wrong, unless told otherwise."""
    return RegisterMember(**{"timeout_ms": 9_000, **said, "name": name, "incarnation": incarnation})


def hearing(epoch: int, name: str = "m", **said: Any) -> HearMember:
    """A heartbeat of a member that knows the log up to its registration, unless told otherwise."""
    return HearMember(**{"applied_revision": epoch, **said, "name": name, "epoch": epoch})


def fencing(epoch: int, name: str = "m") -> FenceMember:
    """As the leader would ask."""
    return FenceMember(name=name, epoch=epoch, evidence="heartbeat expired", last_heartbeat_ms=990)


@pytest.fixture
def leading(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of members that lead something."""
    names: set[str] = set()

    def one(_: State, member: Member) -> bool:
        return member.name in names

    monkeypatch.setattr(asked, "STAYS", ((one, "it leads something"),))
    return names


def test_below_its_level_nothing_of_members_is_done() -> None:
    """A voter of the build before could not read the events."""
    made = World()
    made.do(CREATE)
    assert made.refused(registering()).code == "UnsupportedFeatureLevel"


def test_a_member_is_fenced_until_it_has_caught_up() -> None:
    """Its epoch is the offset of its registration; the heartbeat that says it knows that much unfences it."""
    made = world()
    epoch = made.offset
    answer = made.reply(
        registering(roles=("b", "a", "b"), addresses={"grpc": "h:1"}, labels={"z": "1", "a": ""}), MemberIs
    )
    assert (answer.registered_epoch(made.offset), answer.fenced) == (epoch, True)
    found = made.state.members["m"]
    assert found == Member(
        name="m",
        incarnation="1",
        epoch=epoch,
        roles=("a", "b"),
        addresses={"grpc": "h:1"},
        labels={"a": "", "z": "1"},
        timeout_ms=9_000,
        fenced=True,
        changed_ms=made.now_ms,
    )
    assert made.reply(hearing(epoch, applied_revision=epoch - 1), MemberIs) == MemberIs(
        name="m", epoch=epoch, fenced=True
    )
    made.now_ms += 5
    assert made.events(hearing(epoch)) == (
        MemberUnfenced(member="m", epoch=epoch, applied_revision=epoch, reason="caught up"),
    )
    assert (made.state.members["m"].fenced, made.state.members["m"].changed_ms) == (False, made.now_ms)
    assert made.events(hearing(epoch)) == ()
    assert made.reply(hearing(epoch), MemberIs) == MemberIs(name="m", epoch=epoch)


def test_the_same_incarnation_keeps_its_epoch() -> None:
    """A retry writes nothing; what it says otherwise of itself amends it, whatever its state."""
    made = world()
    epoch = made.member("m", roles=("a",))
    assert made.events(registering(roles=("a", "a"))) == ()
    changed_ms = made.state.members["m"].changed_ms
    made.now_ms += 9
    amended = registering(roles=("a",), addresses={"mqtt": "h:2"}, labels={"rack": "r"}, timeout_ms=700)
    assert made.events(amended) == (
        MemberAmended(
            member="m", epoch=epoch, roles=("a",), addresses={"mqtt": "h:2"}, labels={"rack": "r"}, timeout_ms=700
        ),
    )
    assert made.reply(amended, MemberIs) == MemberIs(name="m", epoch=epoch)
    found = made.state.members["m"]
    assert (found.epoch, found.fenced, found.timeout_ms, found.changed_ms) == (epoch, False, 700, changed_ms)
    assert (found.addresses, found.labels) == ({"mqtt": "h:2"}, {"rack": "r"})


@pytest.mark.parametrize("alive", [True, None])
def test_another_incarnation_is_refused_while_the_first_is_alive(alive: bool | None) -> None:
    """Also while nobody knows: a new leader gives it its whole timeout."""
    made = world()
    epoch = made.member("m")
    if alive is not None:
        made.members.living["m", epoch] = alive
    refusal = made.refused(registering(incarnation="2"))
    assert refusal.code == "MemberExists"
    assert "'1'" in refusal.remark


def test_another_incarnation_is_taken_once_the_first_is_fenced() -> None:
    """It has a greater epoch, is fenced itself, and is not to leave because the one before was."""
    made = world()
    first = made.member("m")
    made.do(DrainMember(name="m"))
    made.do(fencing(first))
    second = made.offset
    (event,) = made.events(registering(incarnation="2", roles=("a",)))
    assert isinstance(event, MemberRegistered)
    assert (event.reason, event.replaced_epoch, event.replaced_incarnation) == ("fenced", first, "1")
    found = made.state.members["m"]
    assert (found.epoch, found.fenced, found.draining, found.incarnation) == (second, True, False, "2")
    assert second > first


def test_the_end_of_an_incarnation_that_is_not_heard_is_written_before_the_next() -> None:
    """Whoever watches hears that the first one is fenced, and on what evidence."""
    made = world()
    first = made.member("m")
    made.members.living["m", first] = False
    made.members.at_ms["m", first] = 123
    answer = made.decide(registering(incarnation="2"))
    base = made.offset
    fenced, registered = made.events(registering(incarnation="2"))
    assert fenced == MemberFenced(
        member="m",
        epoch=first,
        reason="replaced",
        evidence="heartbeat expired",
        last_heartbeat_ms=123,
        timeout_ms=9_000,
    )
    assert isinstance(registered, MemberRegistered)
    assert registered.reason == "not heard"
    assert not isinstance(answer, Refusal)
    assert isinstance(answer.reply, MemberIs)
    assert made.state.members["m"].epoch == base + 1 == answer.reply.registered_epoch(made.offset)


def test_a_silent_member_is_fenced_once_and_comes_back() -> None:
    """With the evidence; the same incarnation is unfenced when it is heard again."""
    made = world()
    epoch = made.member("m")
    made.now_ms += 7
    assert made.events(fencing(epoch)) == (
        MemberFenced(
            member="m",
            epoch=epoch,
            reason="silent",
            evidence="heartbeat expired",
            last_heartbeat_ms=990,
            timeout_ms=9_000,
        ),
    )
    assert made.state.members["m"].changed_ms == made.now_ms
    assert made.reply(fencing(epoch), MemberIs).fenced
    assert made.events(fencing(epoch)) == ()
    assert len(made.events(hearing(epoch))) == 1
    assert not made.state.members["m"].fenced


def test_a_member_leaves_when_it_leads_nothing(leading: set[str]) -> None:
    """It asks by its heartbeat; it may leave when nothing is led by it any more; then it unregisters."""
    made = world()
    epoch = made.member("m")
    leading.add("m")
    assert not made.reply(hearing(epoch), MemberIs).may_leave
    assert made.events(hearing(epoch, want_drain=True)) == (
        MemberDraining(member="m", epoch=epoch, reason="asked by itself"),
    )
    assert made.reply(hearing(epoch, want_drain=True), MemberIs) == MemberIs(name="m", epoch=epoch, draining=True)
    assert made.refused(UnregisterMember(name="m", epoch=epoch)).code == "MemberStillLeads"
    leading.clear()
    assert made.reply(hearing(epoch), MemberIs).may_leave
    assert made.events(UnregisterMember(name="m", epoch=epoch)) == (
        MemberGone(member="m", epoch=epoch, incarnation="1", reason="drained"),
    )
    assert not made.state.members
    assert made.refused(hearing(epoch)).code == "UnknownMember"


def test_a_first_heartbeat_may_do_both() -> None:
    """Catch up, and want to leave: two events, one answer that says both."""
    made = world()
    made.do(registering())
    epoch = made.offset - 1
    answer = made.reply(hearing(epoch, want_drain=True), MemberIs)
    assert [type(event) for event, _ in made.log[-2:]] == [MemberUnfenced, MemberDraining]
    assert answer == MemberIs(name="m", epoch=epoch, draining=True, may_leave=True)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (UnregisterMember(name="m"), "forgotten"),
        (UnregisterMember(name="m", force=True), "forgotten"),
        (UnregisterMember(name="m", epoch=2), "unregistered"),
    ],
)
def test_why_a_member_is_gone(command: UnregisterMember, reason: str) -> None:
    """An operator had it forgotten, or it left without being drained."""
    made = world()
    epoch = made.member("m")
    if command.epoch is not None:
        command = UnregisterMember(name="m", epoch=epoch)
    (event,) = made.events(command)
    assert isinstance(event, MemberGone)
    assert event.reason == reason


def test_what_leads_something_is_forgotten_by_force_or_when_it_is_fenced(leading: set[str]) -> None:
    """A fenced one leads nothing that counts."""
    made = world()
    first, second = made.member("m"), made.member("n")
    leading |= {"m", "n"}
    assert made.refused(UnregisterMember(name="m")).code == "MemberStillLeads"
    made.do(fencing(first))
    assert made.events(UnregisterMember(name="m"))
    assert made.events(UnregisterMember(name="n", epoch=second, force=True))


def test_an_operator_drains_whichever_there_is() -> None:
    """Once; a member may ask that too, by its epoch."""
    made = world()
    epoch = made.member("m")
    assert made.events(DrainMember(name="m")) == (
        MemberDraining(member="m", epoch=epoch, reason="asked by an operator"),
    )
    assert made.events(DrainMember(name="m", epoch=epoch)) == ()
    assert made.reply(DrainMember(name="m"), MemberIs) == MemberIs(name="m", epoch=epoch, draining=True, may_leave=True)
    second = made.member("n")
    made.do(DrainMember(name="n", epoch=second))
    assert made.log[-1][0] == MemberDraining(member="n", epoch=second, reason="asked by itself")


def test_a_stale_epoch_changes_nothing() -> None:
    """Whatever it asks; so does one that was never given, and a name that nobody has."""
    made = world()
    first = made.member("m")
    made.do(fencing(first))
    second = made.member("m", "2")
    for epoch in (first, second + 1, 0, -1):
        for command in (
            hearing(epoch, applied_revision=10**9, want_drain=True),
            fencing(epoch),
            DrainMember(name="m", epoch=epoch),
            UnregisterMember(name="m", epoch=epoch, force=True),
        ):
            refusal = made.refused(command)
            assert refusal.code == "StaleMemberEpoch"
            assert str(second) in refusal.remark
    for command in (hearing(second, "x"), fencing(second, "x"), DrainMember(name="x"), UnregisterMember(name="x")):
        assert made.refused(command).code == "UnknownMember"


def test_other_rooms_ask_for_a_member_by_its_epoch() -> None:
    """The member, or the refusal they answer."""
    made = world()
    epoch = made.member("m")
    assert checked(made.state, "m", epoch) is made.state.members["m"]
    for name, number, code in (("m", epoch - 1, "StaleMemberEpoch"), ("x", epoch, "UnknownMember")):
        refusal = checked(made.state, name, number)
        assert isinstance(refusal, Refusal)
        assert refusal.code == code


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"name": ""}, "BadMemberName"),
        ({"name": "a:1"}, "BadMemberName"),
        ({"name": "ü"}, "BadMemberName"),
        ({"name": "x" * 256}, "BadMemberName"),
        ({"incarnation": ""}, "BadMemberIncarnation"),
        ({"incarnation": "x" * 256}, "BadMemberIncarnation"),
        ({"incarnation": "a\nb"}, "BadMemberIncarnation"),
        ({"incarnation": "\ud800"}, "BadMemberIncarnation"),
        ({"roles": ("",)}, "BadMemberRole"),
        ({"roles": ("a b",)}, "BadMemberRole"),
        ({"roles": tuple(map(str, range(rules.ROLES_MAX + 1)))}, "BadMemberRole"),
        ({"addresses": {"grpc": "nowhere"}}, "BadMemberAddress"),
        ({"addresses": {"grpc": "h:0"}}, "BadMemberAddress"),
        ({"addresses": {"": "h:1"}}, "BadMemberAddress"),
        ({"addresses": {"grpc": "h" * 5000 + ":1"}}, "BadMemberAddress"),
        ({"addresses": {str(i): "h:1" for i in range(rules.ADDRESSES_MAX + 1)}}, "BadMemberAddress"),
        ({"labels": {"": "x"}}, "BadMemberLabel"),
        ({"labels": {"a=b": "x"}}, "BadMemberLabel"),
        ({"labels": {"a": "x" * 5000}}, "BadMemberLabel"),
        ({"labels": {"a": "\x00"}}, "BadMemberLabel"),
        ({"labels": {str(i): "" for i in range(rules.LABELS_MAX + 1)}}, "BadMemberLabel"),
        ({"timeout_ms": rules.TIMEOUT_MS_MIN - 1}, "BadMemberTimeout"),
        ({"timeout_ms": rules.TIMEOUT_MS_MAX + 1}, "BadMemberTimeout"),
    ],
)
def test_what_a_member_may_not_say_of_itself(said: dict[str, Any], code: str) -> None:
    """Each has its name, and changes nothing."""
    fields: dict[str, Any] = {"name": "m", "incarnation": "1", "timeout_ms": 9_000, **said}
    assert world().refused(RegisterMember(**fields)).code == code


@pytest.mark.parametrize(
    "health",
    [
        MemberHealth(disk_used_bytes=-1),
        MemberHealth(disk_total_bytes=2**63),
        MemberHealth(cpu_percent=101),
        MemberHealth(memory_percent=-1),
        MemberHealth(io_errors=-1),
    ],
)
def test_health_that_cannot_be(health: MemberHealth) -> None:
    """Is refused, and the heartbeat with it."""
    made = world()
    made.do(registering())
    assert made.refused(hearing(made.offset - 1, health=health)).code == "BadMemberHealth"


STEPS = st.lists(
    st.tuples(st.sampled_from(["register", "beat", "fence", "silent", "drain", "leave"]), st.integers(0, 3)),
    max_size=40,
)


@given(STEPS)
def test_epochs_only_grow_and_one_incarnation_lives(steps: list[tuple[str, int]]) -> None:
    """Whatever is asked in whatever order: by the log no epoch follows a greater one, nothing is written about an
    epoch that was replaced, and an incarnation that is unfenced is fenced or gone before another is registered.
    """
    made = world()
    epochs: list[int] = []
    for what, which in steps:
        epoch = epochs[-1 - which] if which < len(epochs) else 0
        asked_for: dict[str, commands.Command] = {
            "register": registering(incarnation=str(which)),
            "beat": hearing(epoch, applied_revision=epoch - which % 2),
            "fence": fencing(epoch),
            "drain": DrainMember(name="m", epoch=epoch),
            "leave": UnregisterMember(name="m", epoch=epoch),
        }
        if what == "silent":
            made.members.living["m", epoch] = False
            continue
        made.do(asked_for[what])
        if "m" in made.state.members:
            epochs += [now for now in (made.state.members["m"].epoch,) if now not in epochs]
    assert epochs == sorted(epochs)
    current, unfenced = 0, False
    for event, stamp in made.log:
        match event:
            case MemberRegistered():
                assert not unfenced
                assert event.replaced_epoch == current
                current = stamp.offset
            case MemberUnfenced() | MemberFenced() | MemberDraining() | MemberGone() | MemberAmended():
                assert event.epoch == current
                unfenced = isinstance(event, MemberUnfenced) or (
                    unfenced and not isinstance(event, MemberFenced | MemberGone)
                )
                current = 0 if isinstance(event, MemberGone) else current
            case _:
                pass
