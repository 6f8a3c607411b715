"""A disk that is filling up: what grows is refused by name, everything else goes on, and it ends by itself."""

from typing import Any

import pytest

from quorate.controller import Answered, ControllerSettings, Refused, messages
from quorate.controller.group_writer import GroupWriter, WriteResult
from quorate.controller.space import SAID_FOR
from quorate.metadata.commands import (
    ApplyBrokerId,
    ByLeader,
    ChangeConfig,
    CleanBrokerData,
    CloseSession,
    CreateShard,
    DeleteKeys,
    DeleteSchema,
    DeleteTopic,
    ElectMaster,
    FenceBroker,
    GrantLease,
    HearMember,
    KeepLease,
    NextSegment,
    OpenSession,
    PutKey,
    PutSubscriptions,
    PutTopic,
    RecordNodeStart,
    RegisterBroker,
    RegisterMember,
    RegisterSchema,
    RevokeLease,
    SealSegment,
    Transact,
)
from tests.unit.controller.bench import ADDRESSES, Bench, Line

FLOOR = ControllerSettings().free_space_floor_bytes
GROWING: list[Any] = [
    ApplyBrokerId(cluster="c", broker_set="new", broker_id=1, register_check_code="h:1;1"),
    RegisterBroker(cluster="c", broker_set="a", broker_id=1, address="127.0.0.1:30001", topics=("t",)),
    PutTopic(topic="new", read_queues=4, write_queues=4, permission=6),
    ChangeConfig(scope="cluster", changes={"k": "v"}),
]
GOING_ON: list[Any] = [
    FenceBroker(cluster="c", broker_set="a", broker_id=2, evidence="shut down", last_heartbeat_ms=0, detected_ms=0),
    DeleteTopic(topic="old"),
    CleanBrokerData(cluster="c", broker_set="a", broker_ids="2", clean_living=True),
    ElectMaster(cluster="c", broker_set="b", broker_id=1),
    ChangeConfig(scope="cluster", changes={"set": None}),
    RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=1),
]

BY = ByLeader(leader="m", leader_epoch=1, member_epoch=1)
PUT, DELETE = PutKey(key=b"k"), DeleteKeys(key=b"k")
MORE: list[Any] = [
    PUT,
    Transact(success=(PUT,)),
    Transact(success=(DELETE,), failure=(Transact(failure=(PUT,)),)),
    GrantLease(lease=7, ttl_s=60),
    RegisterMember(name="m", incarnation="1", timeout_ms=1_000),
    RegisterSchema(subject="s", schema="{}"),
    CreateShard(shard="s", replication=1),
    NextSegment(shard="s", current=0, end_offset=1, by=BY),
    OpenSession(client="c", clean_start=True, expiry_s=1, member="m", member_epoch=1),
    PutSubscriptions(client="c", session_epoch=1),
]
NO_MORE: list[Any] = [
    DELETE,
    Transact(success=(DELETE,), failure=(Transact(success=(DELETE,)),)),
    RevokeLease(lease=7),
    KeepLease(lease=7),
    HearMember(name="m", epoch=1, applied_revision=0),
    DeleteSchema(subject="s"),
    SealSegment(segment="s/0", end_offset=1, by=BY),
    CloseSession(client="c", session_epoch=1),
]


def leading() -> Bench:
    """A leader with a set of two, a set without a master, and a topic."""
    bench = Bench()
    bench.open()
    bench.broker_set([Line(), Line()])
    bench.done(ApplyBrokerId(cluster="c", broker_set="b", broker_id=1, register_check_code="h:1;1"))
    bench.done(PutTopic(topic="old", read_queues=4, write_queues=4, permission=6))
    bench.done(ChangeConfig(scope="cluster", changes={"set": "1"}))
    return bench


@pytest.mark.parametrize("command", GROWING, ids=lambda command: type(command).__name__)
def test_what_grows_is_refused_by_name_and_changes_nothing(command: Any) -> None:
    """With one byte less than the floor; the refusal names the node and both figures."""
    bench = leading()
    bench.controller.space.measured(FLOOR)
    assert bench.controller.space.alarms() == ()
    bench.controller.space.measured(FLOOR - 1)
    before = bench.controller.offset
    outcome = bench.done(command)
    assert isinstance(outcome, Refused)
    assert outcome.refusal.code == "NoRoom"
    assert outcome.refusal.remark.startswith("the disk of node 1 has 127 MiB free, less than 128")
    assert bench.controller.space.alarms() == (outcome.refusal.remark,)
    assert bench.controller.offset == before


@pytest.mark.parametrize("command", MORE, ids=lambda command: type(command).__name__)
def test_what_services_store_needs_room(command: Any) -> None:
    """A key, a lease, a member, a schema, a shard, a segment, a session: each is refused on a low disk."""
    bench = leading()
    assert bench.controller.space.lacks_room(command) is None
    bench.controller.space.measured(0)
    assert bench.controller.space.lacks_room(command) is not None


@pytest.mark.parametrize("command", NO_MORE, ids=lambda command: type(command).__name__)
def test_what_takes_away_or_keeps_alive_needs_none(command: Any) -> None:
    """A transaction that puts nothing, whichever way it goes; what ends, deletes, seals, and says that it is there."""
    bench = leading()
    bench.controller.space.measured(0)
    assert bench.controller.space.lacks_room(command) is None


@pytest.mark.parametrize("command", GOING_ON, ids=lambda command: type(command).__name__)
def test_what_must_go_on_does(command: Any) -> None:
    """Elections, fences, deletions and nodes that start, down to the last byte."""
    bench = leading()
    bench.controller.space.measured(0)
    before = bench.controller.offset
    assert isinstance(bench.done(command), Answered)
    assert bench.controller.offset > before


def test_what_is_so_already_is_answered() -> None:
    """A registration that says nothing new writes nothing, and brokers repeat theirs."""
    bench = leading()
    bench.controller.space.measured(0)
    same = RegisterBroker(cluster="c", broker_set="a", broker_id=1, address="127.0.0.1:30001")
    assert isinstance(bench.done(same), Answered)


def test_a_repeated_request_gets_its_answer() -> None:
    """It was done while there was room."""
    bench = leading()
    how = {"request_id": f"{bench.loop.time_ms()}-x"}
    first = bench.submit(GROWING[2], **how)
    bench.engine.commit()
    bench.controller.space.measured(0)
    again = bench.submit(GROWING[2], **how)
    bench.engine.confirm()
    assert isinstance(first[0], Answered)
    assert isinstance(again[0], Answered)
    assert again[0].repeated


def test_it_ends_by_itself_with_a_margin() -> None:
    """Not at the floor, where it would come and go, but a tenth above."""
    bench = leading()
    bench.controller.space.measured(FLOOR - 1)
    bench.controller.space.measured(int(FLOOR * 1.09))
    assert isinstance(bench.done(GROWING[2]), Refused)
    bench.controller.space.measured(int(FLOOR * 1.11))
    assert isinstance(bench.done(GROWING[2]), Answered)


def test_one_voter_s_disk_holds_all_back_while_it_says_so() -> None:
    """The leader believes another voter's word for a few periods: it is repeated, and the dead are not waited for."""
    bench = leading()
    bench.controller.receive(3, messages.encode(messages.DiskIsLow(5 << 20)))
    outcome = bench.done(GROWING[2])
    assert isinstance(outcome, Refused)
    assert "node 3 has 5 MiB free" in outcome.refusal.remark
    bench.after(SAID_FOR * bench.settings.free_space_period_s + 0.01)
    assert isinstance(bench.done(GROWING[2]), Answered)
    assert bench.controller.space.alarms() == ()


def test_the_others_are_told_while_it_is_so() -> None:
    """Each period, and not a word once there is room."""
    bench = leading()
    bench.wire.sent.clear()
    for free in (1, 2, FLOOR * 2):
        bench.controller.space.measured(free)
    said = [(peer, messages.decode(payload[-len(payload) :])) for peer, payload in bench.wire.sent]
    assert said == [(peer, messages.DiskIsLow(free)) for free in (1, 2) for peer in (2, 3)]


def test_new_rows_of_groups_are_refused_and_kept_ones_move_on() -> None:
    """A consumer goes on committing its position; a new group has no room."""
    bench = leading()
    writer = GroupWriter(bench.controller, bench.machine, bench.loop, bench.settings)
    bench.controller.listeners.add(writer)
    told: list[WriteResult] = []
    writer.put(b"kept", b"1", told.append)
    bench.after(0.2)
    bench.engine.commit()
    bench.after(0.2)
    bench.controller.space.measured(0)
    writer.put(b"new", b"1", told.append)
    writer.put(b"kept", b"2", told.append)
    bench.after(0.2)
    bench.engine.commit()
    bench.after(0.2)
    assert told == [WriteResult.DONE, WriteResult.NO_ROOM, WriteResult.DONE]


def test_without_a_floor_nothing_is_refused() -> None:
    """The setting switches it off."""
    bench = Bench(settings=ControllerSettings(free_space_floor_bytes=0))
    bench.open()
    bench.controller.space.measured(0)
    assert isinstance(bench.done(GROWING[2]), Answered)


def test_a_state_that_is_too_large_grows_no_more() -> None:
    """The refusal names both sizes; what is deleted makes room again."""
    bench = Bench(settings=ControllerSettings(state_bytes_max=2 << 20))
    bench.open()
    value = "x" * 4000
    outcome: Any = None
    for number in range(1000):
        changes: dict[str, str | None] = {str(part): value for part in range(20)}
        outcome = bench.done(ChangeConfig(scope=f"topic/t{number}", changes=changes))
        if isinstance(outcome, Refused):
            break
    assert isinstance(outcome, Refused)
    assert outcome.refusal.code == "NoRoom"
    assert outcome.refusal.remark == "the state has 2 MiB, more than 2: what grows it is refused"
    assert bench.controller.space.alarms() == (outcome.refusal.remark,)
    assert 2 << 20 < bench.machine.sums.bytes < (2 << 20) + 200_000
    assert isinstance(
        bench.done(
            RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=1)
        ),
        Answered,
    )
    refused = ChangeConfig(scope="topic/more", changes={"0": value})
    assert isinstance(bench.done(refused), Refused)
    unset: dict[str, str | None] = {str(part): None for part in range(20)}
    assert isinstance(bench.done(ChangeConfig(scope="topic/t0", changes=unset)), Answered)
    assert bench.controller.space.alarms() == ()
    assert isinstance(bench.done(refused), Answered)


def test_the_size_of_the_state_is_that_of_its_rows() -> None:
    """Carried along through changes, deletions, remembered requests and groups, as it is counted at a start."""
    bench = leading()
    for number in range(3):
        bench.submit(
            PutTopic(topic=f"t{number}", read_queues=4, write_queues=4, permission=6),
            request_id=f"{bench.loop.time_ms()}-{number}",
        )
        bench.engine.commit()
    bench.done(DeleteTopic(topic="old"))
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids="2", clean_living=True))
    writer = GroupWriter(bench.controller, bench.machine, bench.loop, bench.settings)
    bench.controller.listeners.add(writer)
    for row in (b"12345", b"1", None):
        writer.put(b"g", row, lambda _: None)
        bench.after(0.2)
        bench.engine.commit()
    bench.machine.applied()
    counted = sum(
        len(key) + len(value) for family in ("rows", "requests", "groups") for key, value in bench.store.scan(family)
    )
    assert bench.machine.sums.bytes == counted
