"""1012 and 1013: how a broker gets its id (reference 2.2, 2.3)."""

import pytest

from quorate.events import BrokerIdApplied
from quorate.metadata import commands
from quorate.metadata.policy import PolicySettings
from quorate.model.queries import NextBrokerId, NextBrokerIdIs, answer
from tests.policies import JAVA
from tests.unit.metadata.kit import World, applying


def next_id(world: World, name: str = "a") -> int:
    """What 1012 answers."""
    is_ = answer(NextBrokerId(cluster="C", broker_set=name), world.state, world.live)
    assert isinstance(is_, NextBrokerIdIs)
    return is_.next_broker_id


def test_the_first_id_is_one_and_asking_reserves_nothing() -> None:
    """An unknown set hands out 1, as often as it is asked."""
    world = World()
    assert [next_id(world), next_id(world)] == [1, 1]


def test_an_applied_id_is_taken_with_its_address_and_the_counter_moves() -> None:
    """The part of the check code before the semicolon is the stored address."""
    world = World()
    (event,) = world.events(applying(1))
    assert event == BrokerIdApplied(
        cluster="C", broker_set="a", broker_id=1, address="10.0.0.1:10911", register_check_code="10.0.0.1:10911;77"
    )
    assert world.a.address(1) == "10.0.0.1:10911"
    assert next_id(world) == 2


def test_the_first_id_of_a_set_must_be_one() -> None:
    """Java's 2014 with its first remark; the set does not come into being."""
    world = World()
    refusal = world.refused(applying(2))
    assert refusal.code == "BrokerIdNotFirst"
    assert refusal.remark == "Broker-set: a hasn't been registered in controller, but broker try to apply brokerId: 2"
    assert not world.state.broker_sets


def test_applying_again_with_the_same_check_code_is_the_same_application() -> None:
    """A retry is answered like the first time and writes nothing."""
    world = World()
    world.do(applying(1))
    assert world.events(applying(1)) == ()
    assert next_id(world) == 2


def test_a_taken_id_is_refused_to_everybody_else() -> None:
    """Java's 2014 with its second remark."""
    world = World()
    world.do(applying(1))
    refusal = world.refused(applying(1, code="10.0.0.9:10911;78"))
    assert (refusal.code, refusal.remark) == ("BrokerIdTaken", "Fail to apply brokerId: 1 in broker-set: a")


def test_any_free_id_is_given_and_the_counter_moves_by_one() -> None:
    """Java counts applications, not ids."""
    world = World()
    world.do(applying(1))
    world.do(applying(7))
    assert [replica.broker_id for replica in world.a.replicas] == [1, 7]
    assert next_id(world) == 3


@pytest.mark.parametrize("broker_id", [0, -1])
def test_ids_below_one_are_refused_unless_java_is_asked_for(broker_id: int) -> None:
    """0 and -1 mean other things on the wire; only the Java policy gives them."""
    world = World()
    world.do(applying(1))
    assert world.refused(applying(broker_id)).code == "BrokerIdInvalid"
    world.policy = JAVA
    assert world.reply(applying(broker_id), commands.BrokerIdApplied).broker_set == "a"


def test_an_id_beyond_64_bits_is_refused_by_any_policy() -> None:
    """The log could not hold it."""
    world = World(JAVA)
    world.do(applying(1))
    assert world.refused(applying(2**63)).code == "BrokerIdInvalid"


@pytest.mark.parametrize(
    "command",
    [
        applying(None, code="h:1;2"),
        commands.ApplyBrokerId(cluster="C", broker_set="a", broker_id=1, register_check_code=None),
    ],
)
def test_missing_fields_are_a_system_error(command: commands.ApplyBrokerId) -> None:
    """Java throws a NullPointerException there, which is code 1."""
    assert World().refused(command).code == "MissingField"


@pytest.mark.parametrize(
    ("cluster", "name", "code"),
    [
        ("C", "", "h:1;2"),
        ("C", "a" * 256, "h:1;2"),
        ("C" * 256, "a", "h:1;2"),
        ("C", "\ud800", "h:1;2"),
        ("C", "a", ""),
        ("C", "a", "h" * 4097),
    ],
)
def test_unbounded_or_unwritable_text_is_refused(cluster: str, name: str, code: str) -> None:
    """What enters the log for ever is bounded and UTF-8."""
    command = commands.ApplyBrokerId(cluster=cluster, broker_set=name, broker_id=1, register_check_code=code)
    assert World().refused(command).code == "InvalidText"


def test_names_beyond_ascii_are_fine() -> None:
    """Any UTF-8 text may name a set."""
    world = World()
    world.do(applying(1, name="брокер/а"))
    assert next_id(world, "брокер/а") == 2


def test_an_empty_cluster_name_is_fine() -> None:
    """Java stores what it is given; only the set's name is a key."""
    command = commands.ApplyBrokerId(cluster="", broker_set="a", broker_id=1, register_check_code="h:1;2")
    assert World().reply(command, commands.BrokerIdApplied).cluster == ""


def test_a_set_holds_so_many_ids_and_no_more() -> None:
    """The limit is a setting; who has an id keeps it."""
    world = World(PolicySettings(replicas_max=2))
    for broker_id in (1, 2):
        world.do(applying(broker_id))
    assert world.refused(applying(3)).code == "BrokerSetFull"
    assert world.events(applying(2)) == ()


def test_a_cleaned_id_is_not_handed_out_again() -> None:
    """The counter never goes back while the set lives."""
    world = World()
    world.set_of(1, 2, in_sync=(1, 2))
    world.heard(2, alive=False)
    world.do(commands.CleanBrokerData(cluster="C", broker_set="a", broker_ids="2"))
    assert next_id(world) == 3
