"""1001: the master reports who is in sync; Java's checks in Java's order (reference 2.8)."""

import msgspec
import pytest

from quorate.errors import InvariantBrokenError
from quorate.events import Stamp, SyncStateSetAltered
from quorate.metadata import broker_sets, commands
from quorate.metadata.replica_set import Broken, InSync
from quorate.model.evolve import evolve
from tests.unit.metadata.kit import World, altering


def world_of_three() -> World:
    """Master 1, in sync 1 and 2, all alive."""
    world = World()
    world.set_of(1, 2, 3, in_sync=(1, 2))
    return world


def test_the_master_may_grow_and_shrink_the_set() -> None:
    """The answer is the new set and its epoch; the master epoch stays."""
    world = world_of_three()
    outcome = world.decide(altering(world.a, 3, 1, 2, 1))
    reply = world.reply(altering(world.a, 3, 1, 2, 1), commands.SyncStateSetIs)
    assert (reply.sync_state_set, reply.sync_state_set_epoch) == ((1, 2, 3), 3)
    assert not isinstance(outcome, commands.Refusal)
    assert outcome.events == (
        SyncStateSetAltered(
            cluster="C",
            broker_set="a",
            master=1,
            master_epoch=1,
            old=(1, 2),
            new=(1, 2, 3),
            sync_state_set_epoch=3,
        ),
    )
    assert world.reply(altering(world.a, 1), commands.SyncStateSetIs).sync_state_set_epoch == 4
    assert (world.a.sync_state_set, world.a.master_epoch) == ((1,), 1)


def test_members_are_kept_sorted() -> None:
    """Whatever the order they came in, and whatever order a set of these ids would have."""
    world = World()
    for broker_id in (1, 8, 3):
        world.broker(broker_id)
    world.do(commands.ElectMaster(broker_set="a", broker_id=1))
    assert world.reply(altering(world.a, 8, 3, 1), commands.SyncStateSetIs).sync_state_set == (1, 3, 8)
    assert world.a.sync_state_set == (1, 3, 8)


REJECTING = "Rejecting alter syncStateSet request because the"


@pytest.mark.parametrize(
    ("new", "other", "code", "remark"),
    [
        (
            (2, 1),
            {"master": 9},
            "SyncStateSetUnchanged",
            "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet",
        ),
        ((9,), {"master": 2, "master_epoch": 9}, "NotTheMaster", f"{REJECTING} current leader is:{{1}}, not {{2}}"),
        (
            (9,),
            {"master_epoch": 9, "sync_state_set_epoch": 9},
            "StaleMasterEpoch",
            f"{REJECTING} current master epoch is:{{1}}, not {{9}}",
        ),
        (
            (9,),
            {"sync_state_set_epoch": 9},
            "StaleSyncStateSetEpoch",
            f"{REJECTING} current syncStateSet epoch is:{{2}}, not {{9}}",
        ),
        ((2, 9), {}, "UnknownReplica", f"{REJECTING} replicas {{9}} don't exist"),
        ((2, 3), {}, "ReplicaNotAlive", f"{REJECTING} replicas {{3}} don't alive"),
        ((2,), {}, "MasterNotInSyncStateSet", f"{REJECTING} newSyncStateSet don't contains origin leader {{1}}"),
        ((), {}, "MasterNotInSyncStateSet", f"{REJECTING} newSyncStateSet don't contains origin leader {{1}}"),
    ],
)
def test_each_check_refuses_before_the_later_ones(
    new: tuple[int, ...], other: dict[str, int], code: str, remark: str
) -> None:
    """The first broken rule names the refusal, with Java's remark."""
    world = world_of_three()
    world.heard(3, alive=False)
    refusal = world.refused(altering(world.a, *new, **other))
    assert (refusal.code, refusal.remark) == (code, remark)


def test_members_are_judged_one_by_one() -> None:
    """A dead member with a lower id is found before an unknown one with a higher, as in Java's one loop."""
    world = world_of_three()
    world.heard(2, alive=False)
    assert world.refused(altering(world.a, 1, 2, 9)).code == "ReplicaNotAlive"


def test_a_replica_never_heard_is_not_alive() -> None:
    """Unknown is not alive, even for one that stays in the set."""
    world = world_of_three()
    world.live.living.clear()
    assert world.refused(altering(world.a, 1)).code == "ReplicaNotAlive"


def test_an_unknown_set_is_refused_even_without_a_body() -> None:
    """Java looks at the set first."""
    command = commands.AlterSyncStateSet(
        broker_set="a", master=1, master_epoch=1, sync_state_set=None, sync_state_set_epoch=0
    )
    refusal = World().refused(command)
    assert (refusal.code, refusal.remark) == ("SyncStateSetOfUnknownBrokerSet", "Broker metadata is not existed")


def test_a_missing_body_is_a_system_error() -> None:
    """Java throws a NullPointerException there, which is code 1."""
    world = world_of_three()
    command = msgspec.structs.replace(altering(world.a), sync_state_set=None)
    assert world.refused(command).code == "MissingField"


def test_without_a_master_nobody_may_alter() -> None:
    """Java prints null for it."""
    world = World()
    world.broker(1)
    refusal = world.refused(altering(world.a, 1, master=1))
    assert refusal.remark == f"{REJECTING} current leader is:{{null}}, not {{1}}"
    refusal = world.refused(msgspec.structs.replace(altering(world.a, 1), master=None))
    assert refusal.remark == f"{REJECTING} current leader is:{{null}}, not {{null}}"


def test_epochs_end_where_the_wire_ends() -> None:
    """An epoch that 32 bits cannot hold is never written."""
    world = world_of_three()
    last = SyncStateSetAltered(
        cluster="C", broker_set="a", master=1, master_epoch=1, old=(1,), new=(1, 2), sync_state_set_epoch=2**31 - 1
    )
    world.state = evolve(world.state, last, Stamp(offset=0, term=1, time_ms=0))
    assert world.refused(altering(world.a, 1)).code == "EpochsExhausted"


def test_a_fence_that_rocketmq_has_not_cannot_break() -> None:
    """Its brokers have no member epoch: if that fence were named, the rules were wrong, and nothing is answered."""
    nobody = InSync[int](leader=None, leader_epoch=0, set_epoch=0, ids=())
    with pytest.raises(InvariantBrokenError, match="no member epoch"):
        broker_sets._not_altered("a", nobody, nobody, Broken("member epoch"))
