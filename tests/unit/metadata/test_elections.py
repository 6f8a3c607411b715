"""1002 and the controller's own elections: RocketMQ's dialect and the repaired defects (reference 2.6, 11)."""

from typing import Any

import msgspec
import pytest

from quorate.events import ElectionFailed, MasterElected
from quorate.metadata import commands
from quorate.metadata.commands import ElectMaster, MasterIs
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import response
from tests.policies import JAVA
from tests.unit.metadata.kit import CREATE, LOST, World, altering, applying, registering


def elected(world: World, command: ElectMaster) -> MasterElected:
    """The one event of an election that must succeed."""
    (event,) = world.events(command)
    assert isinstance(event, MasterElected)
    return event


def fallen(event: MasterElected | ElectionFailed) -> dict[int, str]:
    """The rule each candidate fell by; empty for the winner."""
    return {candidate.broker_id: candidate.out_by for candidate in event.candidates}


ALL_LOST = {1: "not alive", 2: "not alive", 3: "not in sync state set"}


def world_of_three(policy: PolicySettings | None = None) -> World:
    """Master 1, in sync 1 and 2, all alive."""
    world = World(policy)
    world.set_of(1, 2, 3, in_sync=(1, 2))
    return world


def bereft(policy: PolicySettings | None = None) -> World:
    """As above, but 1 and 2 are dead and 3 is not in sync."""
    world = world_of_three(policy)
    world.heard(1, alive=False)
    world.heard(2, alive=False)
    return world


def test_an_unknown_set_is_refused() -> None:
    """Java's 2010."""
    refusal = World().refused(ElectMaster(broker_set="a", broker_id=1))
    assert (refusal.code, refusal.remark) == ("BrokerSetNotRegistered", "Broker hasn't been registered")


def test_the_first_master_is_who_asks_even_before_its_first_heartbeat() -> None:
    """There is no data to lose yet, and the heartbeat may be slower than the wish."""
    world = World()
    world.do(applying(1))
    world.do(applying(2))
    reply = world.reply(ElectMaster(broker_set="a", broker_id=2), MasterIs)
    assert reply == MasterIs(
        cluster="C",
        broker_set="a",
        master=2,
        master_address="10.0.0.2:10911",
        master_epoch=1,
        sync_state_set=(2,),
        sync_state_set_epoch=1,
        members={1: "10.0.0.1:10911", 2: "10.0.0.2:10911"},
    )
    event = world.log[-1][0]
    assert isinstance(event, MasterElected)
    assert (event.decided_by, event.unclean, fallen(event)) == ("first election", False, {1: "not asked for", 2: ""})
    assert event.explanation == (
        "Broker 2 is master of a in epoch 1: the set had no master before; it was the first to ask."
    )


def test_the_first_master_must_hold_an_id_of_the_set() -> None:
    """Java elects whatever id is named, and then has a master without an address."""
    world = World()
    world.do(applying(1))
    assert world.refused(ElectMaster(broker_set="a", broker_id=9)).code == "BrokerNotRegistered"
    world.policy = JAVA
    reply = world.reply(ElectMaster(broker_set="a", broker_id=9), MasterIs)
    assert (reply.master, reply.master_address) == (9, None)
    world.heard(9)
    refusal = world.refused(LOST)
    assert refusal.code == "MasterStillExists"
    assert isinstance(refusal.reply, MasterIs)
    assert (refusal.reply.master, refusal.reply.master_address) == (9, None)


def test_a_learner_is_never_the_first_master() -> None:
    """Named in the settings or by its own capability."""
    world = World()
    world.broker(1)
    world.do(commands.ChangeConfig(scope="broker-set/a", changes={"learners": "1;5"}))
    assert world.refused(ElectMaster(broker_set="a", broker_id=1)).code == "ElectMasterFailed"
    world.policy = msgspec.structs.replace(world.policy, exclude_learners=False)
    assert world.reply(ElectMaster(broker_set="a", broker_id=1), MasterIs).master == 1


@pytest.mark.parametrize("asks", [None, -1])
def test_a_set_that_never_had_a_master_cannot_lose_it(asks: int | None) -> None:
    """Nothing is recorded; Java records a failure, after which nobody can be elected any more."""
    world = World()
    world.broker(1)
    command = msgspec.structs.replace(LOST, broker_id=asks)
    assert world.refused(command).code == "MasterNotAvailable"
    assert world.reply(ElectMaster(broker_set="a", broker_id=1), MasterIs).master == 1

    java = World(JAVA)
    java.broker(1)
    (event,) = java.events(command)
    assert isinstance(event, ElectionFailed)
    assert (java.a.master, java.a.master_epoch) == (None, 1)
    assert java.refused(ElectMaster(broker_set="a", broker_id=1)).code == "ElectMasterFailed"


def test_a_living_master_stays_and_the_answer_says_what_is() -> None:
    """Java's 2011 with data, whoever asks; without the members."""
    world = world_of_three()
    for command in (
        ElectMaster(broker_set="a", broker_id=2),
        ElectMaster(broker_set="a", broker_id=1, designate=True, trigger="admin"),
        LOST,
    ):
        refusal = world.refused(command)
        assert refusal.code == "MasterStillExists"
        assert refusal.remark == "The old master 1 is still alive, not need to elect new master for broker a"
        assert refusal.reply == MasterIs(
            cluster="C",
            broker_set="a",
            master=1,
            master_address="10.0.0.1:10911",
            master_epoch=1,
            sync_state_set=(1, 2),
            sync_state_set_epoch=2,
            members=None,
        )


def test_a_lost_master_is_replaced_from_the_sync_state_set() -> None:
    """The event tells everything: evidence, candidates, verdicts, the rule, times, a sentence."""
    world = world_of_three()
    world.heard(1, alive=False)
    world.heard(2, epoch=1, max_offset=10, confirm_offset=9)
    world.heard(3, epoch=1, max_offset=99)
    event = elected(world, LOST)
    assert (event.old_master, event.master, event.master_address) == (1, 2, "10.0.0.2:10911")
    assert (event.master_epoch, event.sync_state_set, event.sync_state_set_epoch) == (2, (2,), 3)
    assert (event.trigger, event.evidence, event.old_sync_state_set) == ("master lost", "connection closed", (1, 2))
    assert (event.last_heartbeat_ms, event.detected_ms, event.proposed_ms) == (900, 950, 1000)
    assert (event.decided_by, fallen(event)) == (
        "only candidate",
        {1: "not alive", 2: "", 3: "not in sync state set"},
    )
    (chosen,) = [candidate for candidate in event.candidates if not candidate.out_by]
    assert (chosen.epoch, chosen.max_offset, chosen.confirm_offset) == (1, 10, 9)
    assert event.explanation == (
        "Broker 2 is master of a in epoch 2: broker 1 was not alive (connection closed);"
        " of 3 candidates only it could stand."
    )
    assert world.a.election is not None
    assert (world.a.master, world.a.election.offset, world.a.election.acknowledged) == (2, world.offset - 1, False)


@pytest.mark.parametrize(
    ("two", "three", "master", "reason"),
    [
        ({"epoch": 1}, {"epoch": 0}, 2, "it has the highest epoch, 1"),
        ({"max_offset": 4}, {"max_offset": 5}, 3, "it has the highest max offset, 5"),
        ({"priority": 7}, {"priority": 6}, 3, "it has the best priority, 6"),
        ({"max_offset": 4}, {"max_offset": 4}, 2, "it has the lowest id, all else being equal"),
    ],
)
def test_the_sentence_names_the_rule_and_the_figure(
    two: dict[str, Any], three: dict[str, Any], master: int, reason: str
) -> None:
    """An operator can read out why that one; the dead master, which was ahead of all, is not among the compared."""
    world = world_of_three()
    world.do(altering(world.a, 1, 2, 3))
    world.heard(1, alive=False, max_offset=99, priority=1)
    world.heard(2, **two)
    world.heard(3, **three)
    event = elected(world, ElectMaster(broker_set="a", broker_id=3))
    assert event.master == master
    assert event.explanation == (
        f"Broker {master} is master of a in epoch 2: broker 1 was not alive; of 2 that could stand {reason}."
    )


def test_the_sentence_compares_only_those_the_deciding_rule_was_asked_about() -> None:
    """One that fell by an earlier rule may have the higher offset: it is counted, and not compared."""
    world = World()
    world.set_of(1, 2, 3, 4, in_sync=(1, 2, 3, 4))
    world.heard(1, alive=False)
    world.heard(2, epoch=1, max_offset=5)
    world.heard(3, epoch=1, max_offset=4)
    world.heard(4, epoch=0, max_offset=9)
    event = elected(world, LOST)
    assert fallen(event) == {1: "not alive", 2: "", 3: "lower max offset", 4: "lower epoch"}
    assert event.explanation.endswith(
        "; of 3 that could stand 2 were level until then, and it has the highest max offset, 5."
    )


def test_asking_later_gives_no_preference() -> None:
    """A broker's own wish counts only in the first election."""
    world = world_of_three()
    world.heard(1, alive=False)
    assert world.reply(ElectMaster(broker_set="a", broker_id=3), MasterIs).master == 2


def test_an_administrator_may_move_a_healthy_master_within_the_sync_state_set() -> None:
    """The designated one must be alive and in sync, or nothing happens."""
    world = world_of_three()
    switch = ElectMaster(broker_set="a", broker_id=2, designate=True, trigger="admin")
    out_of_sync = msgspec.structs.replace(switch, broker_id=3)
    refusal = world.refused(out_of_sync)
    assert (refusal.code, refusal.remark) == ("ElectMasterFailed", "Failed to elect a new master")
    event = elected(world, switch)
    assert (event.master, event.decided_by, event.unclean) == (2, "designated", False)
    assert event.explanation == (
        "Broker 2 is master of a in epoch 2: an administrator asked for it; it is alive and was named."
    )


def test_nobody_in_sync_alive_loses_the_master_once_until_the_inputs_change() -> None:
    """One ElectionFailed, one epoch; Java's retries take up to three."""
    world = bereft()
    outcome = world.do(LOST)
    assert not isinstance(outcome, commands.Refusal)
    (failed,) = outcome.events
    assert isinstance(failed, ElectionFailed)
    assert (failed.old_master, failed.master_epoch, fallen(failed)) == (1, 2, ALL_LOST)
    assert failed.explanation == (
        "a has no master: broker 1 is not alive, broker 2 is not alive, broker 3 is not in the sync state set."
    )
    assert response(outcome.reply) == (2004, "Old master has down and failed to elect a new broker master")
    assert (world.a.master, world.a.master_epoch, world.a.sync_state_set) == (None, 2, (1, 2))
    for _ in range(3):
        world.heard(3, max_offset=1_000)
        assert response(world.refused(LOST)) == response(outcome.reply)
    world.heard(3, alive=False)
    (again,) = world.events(LOST)
    assert isinstance(again, ElectionFailed)
    assert (again.old_master, again.master_epoch) == (None, 3)


def test_java_takes_an_epoch_for_every_failure() -> None:
    """The triple bump, when asked for."""
    world = bereft(JAVA)
    for epoch in (2, 3, 4):
        (event,) = world.events(LOST)
        assert isinstance(event, ElectionFailed)
        assert event.master_epoch == epoch


def test_a_returning_in_sync_replica_becomes_master_again() -> None:
    """The sync state set was kept, so whoever of it returns can be elected, and may fail anew later."""
    world = bereft()
    world.do(LOST)
    world.heard(1)
    event = elected(world, ElectMaster(broker_set="a", broker_id=1))
    assert (event.old_master, event.master, event.master_epoch) == (None, 1, 3)
    assert event.explanation.startswith("Broker 1 is master of a in epoch 3: the set had lost its master;")
    assert world.a.failed_inputs == ""


def test_who_asks_in_vain_is_told_and_nothing_is_recorded() -> None:
    """Java's 2012."""
    world = bereft()
    assert world.refused(ElectMaster(broker_set="a", broker_id=3)).code == "ElectMasterFailed"


@pytest.mark.parametrize("scope", ["controller", "node/1", "broker-set/a"])
def test_unclean_elections_are_for_operators_who_ask_for_them(scope: str) -> None:
    """By file or by setting, the winner then is marked and explained."""
    world = bereft(PolicySettings(enable_elect_unclean_master=True))
    event = elected(world, LOST)
    assert (event.master, event.unclean) == (3, True)
    assert event.explanation.endswith("it was not in the sync state set and may lack acknowledged messages.")

    world = World()
    world.do(CREATE)
    world.do(commands.RecordLeader(node_id=1, cause="first start"))
    world.set_of(1, 2)
    world.heard(1, alive=False)
    world.do(LOST)
    world.do(commands.ChangeConfig(scope=scope, changes={"enableElectUncleanMaster": "true"}))
    assert elected(world, LOST).unclean


def test_learners_are_not_elected_and_java_does_not_mind() -> None:
    """A learner ahead of everybody stays a learner."""
    world = World()
    world.set_of(1, 2, 3, in_sync=(1, 2, 3))
    world.do(registering(2, capabilities={"asyncLearner": "true"}))
    world.heard(1, alive=False)
    world.heard(2, epoch=1, max_offset=1_000)
    outcome = world.decide(LOST)
    assert not isinstance(outcome, commands.Refusal)
    (event,) = outcome.events
    assert isinstance(event, MasterElected)
    assert (event.master, fallen(event)[2]) == (3, "learner")
    world.policy = JAVA
    assert elected(world, LOST).master == 2


def test_a_replica_4_gib_behind_is_not_elected_and_java_elects_it() -> None:
    """The narrowed difference of the offsets is nothing, so that the lower id wins (seen on the Java controllers)."""
    for policy, master in ((PolicySettings(), 3), (JAVA, 2)):
        world = World(policy)
        world.set_of(1, 2, 3, in_sync=(1, 2, 3))
        world.heard(1, alive=False)
        world.heard(2, epoch=1, max_offset=100)
        world.heard(3, epoch=1, max_offset=100 + 2**32)
        assert elected(world, LOST).master == master


def test_every_repair_is_on_by_default_and_off_for_java() -> None:
    """The defaults are the safe ones; nothing else differs."""
    for field in msgspec.structs.fields(PolicySettings):
        safe, java = getattr(PolicySettings(), field.name), getattr(JAVA, field.name)
        assert safe == java or (safe, java) == (True, False), field.name
    assert not PolicySettings().enable_elect_unclean_master


def test_a_master_epoch_exceeds_what_members_report() -> None:
    """After a lost state, brokers must not be told epochs they have seen; Java would start at 1."""
    world = World()
    world.broker(1)
    world.heard(1, epoch=41)
    assert elected(world, ElectMaster(broker_set="a", broker_id=1)).master_epoch == 42
    java = World(JAVA)
    java.broker(1)
    java.heard(1, epoch=41)
    assert elected(java, ElectMaster(broker_set="a", broker_id=1)).master_epoch == 1


def test_the_dead_and_the_out_of_sync_count_for_the_floor() -> None:
    """Whoever once saw an epoch would refuse a lower one when it returns."""
    world = world_of_three()
    world.heard(1, alive=False, epoch=50)
    assert elected(world, LOST).master_epoch == 51


def test_an_implausible_epoch_is_not_believed_and_said_so() -> None:
    """A jump over the limit neither lifts the floor nor wins the election."""
    world = world_of_three()
    world.do(altering(world.a, 1, 2, 3))
    world.heard(1, alive=False)
    world.heard(2, epoch=1_000_002)
    world.heard(3, epoch=1)
    event = elected(world, LOST)
    assert (event.master, event.master_epoch) == (3, 2)
    assert event.explanation.endswith("the epoch 1000002 that broker 2 reported is not believed.")
    world.heard(1, alive=False, epoch=1_000_002)
    world.heard(3, alive=False)
    world.do(LOST)
    assert world.a.master_epoch == 1_000_003


def test_reports_of_strangers_do_not_count() -> None:
    """Only members of the set lift the floor."""
    world = World()
    world.broker(1)
    world.heard(9, epoch=500)
    assert elected(world, ElectMaster(broker_set="a", broker_id=1)).master_epoch == 1


def test_epochs_end_where_the_wire_ends() -> None:
    """An epoch that 32 bits cannot hold is never written."""
    world = World(PolicySettings(max_epoch_jump=2**31))
    world.broker(1)
    world.heard(1, epoch=2**31 - 1)
    assert world.refused(ElectMaster(broker_set="a", broker_id=1)).code == "EpochsExhausted"


def test_a_sync_state_set_epoch_ends_there_too() -> None:
    """The new master's set would have no epoch: nothing is written, and the master stays recorded."""
    world = world_of_three()
    worn = msgspec.structs.replace(world.a, sync_state_set_epoch=2**31 - 1)
    world.state = msgspec.structs.replace(world.state, broker_sets=world.state.broker_sets.set("a", worn))
    world.heard(1, alive=False)
    assert world.refused(LOST).code == "EpochsExhausted"


def test_a_master_whose_id_was_cleaned_stays_recorded_and_is_replaced() -> None:
    """As in Java: it has no address, is no candidate, and is never alive."""
    world = world_of_three()
    world.heard(1, alive=False)
    world.do(commands.CleanBrokerData(cluster="C", broker_set="a", broker_ids="1"))
    assert (world.a.master, world.a.address(1), world.a.sync_state_set) == (1, None, (2,))
    event = elected(world, LOST)
    assert (event.old_master, event.master, set(fallen(event))) == (1, 2, {2, 3})
    assert "broker 1 was not of the set any more (connection closed);" in event.explanation


def test_a_cleaned_master_that_applies_again_is_not_called_dead() -> None:
    """Its id is back and alive, and recorded as master, but not in sync: so it does not stay."""
    world = world_of_three()
    world.do(commands.CleanBrokerData(cluster="C", broker_set="a", broker_ids="1", clean_living=True))
    world.broker(1)
    event = elected(world, LOST)
    assert (event.old_master, event.master, fallen(event)[1]) == (1, 2, "not in sync state set")
    assert "broker 1 was not in the sync state set" in event.explanation


def test_the_sentence_of_a_first_election_says_who_wanted_it() -> None:
    """An administrator who names the first master is not a broker that asks."""
    world = World()
    world.broker(1)
    event = elected(world, ElectMaster(broker_set="a", broker_id=1, designate=True, trigger="admin"))
    assert event.decided_by == "first election"
    assert event.explanation.endswith(": the set had no master before; an administrator named it.")


def test_the_sentence_of_a_set_of_one_counts_nobody() -> None:
    """There is nobody to compare it with."""
    world = World()
    world.set_of(1)
    world.heard(1, alive=False)
    world.do(LOST)
    world.heard(1)
    assert elected(world, LOST).explanation.endswith(": the set had lost its master; it is the only one of the set.")
