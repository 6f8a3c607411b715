"""Settings in the log: scopes, known keys, values, and what they overrule."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from quorate.events import ConfigChange, ConfigChanged
from quorate.metadata.commands import ChangeConfig, RecordLeader
from quorate.metadata.configs import (
    BLACK_LIST,
    CONTROLLER_KEYS,
    SCOPES,
    heeded,
    policy_in_force,
    unread,
)
from quorate.metadata.limits import CHECKS, UNCLEAN_SEGMENT_LEADERS, in_force
from quorate.metadata.policy import PolicySettings
from quorate.model.brokers import learners, values
from quorate.model.state import BrokerSet, Config, State
from quorate.model.subjects import level_in_force
from tests.unit.metadata.kit import CREATE, World

Effects = dict[str, tuple[str, Callable[[State], object]]]


def change(scope: str, **changes: str | None) -> ChangeConfig:
    """One change of settings."""
    return ChangeConfig(scope=scope, changes=changes)


def test_what_means_something_is_known_by_scope() -> None:
    """What is heeded can be set, and does something."""
    assert heeded("cluster") == frozenset(
        {
            "controller.group_rows_max",
            "kafka.group_expiry_s",
            "policy.journal_unclean_leaders",
            "requests.remembered_max",
            "requests.remembered_ms_max",
            "schemas.compatibility",
        }
    )
    assert heeded("broker-set/a") == frozenset({"enableElectUncleanMaster", "learners", "notifyBrokerRoleChanged"})
    assert heeded("topic/t") == frozenset()
    assert (
        heeded("controller") == heeded("node/1") == frozenset({"enableElectUncleanMaster", "notifyBrokerRoleChanged"})
    )


@pytest.mark.parametrize(
    ("scope", "name", "said"),
    [
        (
            "cluster",
            "foo",
            "nothing reads foo in cluster; there it is controller.group_rows_max, kafka.group_expiry_s",
        ),
        ("topic/t", "foo", "nothing reads foo in topic/t"),
        (
            "broker-set/a",
            "zone",
            "nothing reads zone in broker-set/a; there it is enableElectUncleanMaster, learners, ",
        ),
        ("broker-set/a", "notifyBrokerRoleChanged", ""),
        ("broker-set/a", "zone.1", ""),
        ("topic/t", "zone.1", "nothing reads zone.1 in topic/t"),
        ("cluster", "requests.remembered_max", ""),
        ("controller", "foo", ""),
        (
            "controller",
            "mappedFileSize",
            "nothing reads mappedFileSize in controller; there it is enableElectUncleanMaster, notifyBrokerRoleChanged",
        ),
        ("node/1", "electMasterMaxRetryCount", "nothing reads electMasterMaxRetryCount in node/1; there it is "),
        ("nowhere", "foo", ""),
        ("topic/", "foo", ""),
    ],
)
def test_what_nothing_reads_is_told(scope: str, name: str, said: str) -> None:
    """With what is read there; to unset is never wrong, and what the rules refuse anyway is left to them."""
    assert unread(scope, {name: "1"}).startswith(said)
    assert bool(unread(scope, {name: "1"})) == bool(said)
    assert unread(scope, {name: None}) == ""


def test_the_scope_of_a_node_that_is_not_there_is_read_by_nobody() -> None:
    """Where it is known which there are; a node has one name, and to unset is never wrong."""
    for scope in ("node/99", "node/01"):
        told = f"nothing reads enableElectUncleanMaster in {scope}: there is no such node"
        assert unread(scope, {"enableElectUncleanMaster": "true"}, [1, 2]) == told
        assert unread(scope, {"enableElectUncleanMaster": None}, [1, 2]) == ""
        assert unread(scope, {"enableElectUncleanMaster": "true"}) == ""
    assert unread("node/2", {"enableElectUncleanMaster": "true"}, [1, 2]) == ""
    assert unread("controller", {"enableElectUncleanMaster": "true"}, [1, 2]) == ""


def unclean(state: State) -> object:
    """May a broker of the set a lead that is not in sync?"""
    return policy_in_force(state, PolicySettings(), "a").enable_elect_unclean_master


def notified(state: State) -> object:
    """Is the set a told of role changes?"""
    return policy_in_force(state, PolicySettings(), "a").notify_broker_role_changed


OF_SETS: Effects = {
    "enableElectUncleanMaster": ("true", unclean),
    "notifyBrokerRoleChanged": ("false", notified),
}
SWITCHES = (UNCLEAN_SEGMENT_LEADERS,)
EFFECTS: dict[str, Effects] = {
    "controller": OF_SETS,
    "cluster": {
        **{name: ("true" if name in SWITCHES else "7", partial(in_force, name=name)) for name in CHECKS},
        "schemas.compatibility": ("NONE", partial(level_in_force, subject="")),
    },
    "node/1": OF_SETS,
    "broker-set/a": {**OF_SETS, "learners": ("2", partial(learners, broker_set=BrokerSet(name="a", cluster="c")))},
    "topic/t": {},
    "subject/s": {"compatibility": ("NONE", partial(level_in_force, subject="s"))},
}
"""What each setting does that is heeded in a scope: a value that is not the default, and what it changes."""


def test_every_scope_has_an_effect_or_is_refused() -> None:
    """Each setting that is heeded changes what is in force, and back; any other one is refused, by the rules or, where
    they would take it as a note or because Java's tools set it, by HTTP and the command line.
    """
    assert {scope.partition("/")[0] for scope in EFFECTS} == {one.partition("/")[0] for one in SCOPES.split(", ")}
    for scope, effects in EFFECTS.items():
        assert heeded(scope) == effects.keys()
        world = World()
        world.do(CREATE)
        world.do(RecordLeader(node_id=1, cause="first start"))
        for name, (value, look) in effects.items():
            before = look(world.state)
            assert unread(scope, {name: value}) == ""
            world.do(ChangeConfig(scope=scope, changes={name: value}))
            assert look(world.state) != before, (scope, name)
            world.do(ChangeConfig(scope=scope, changes={name: None}))
            assert look(world.state) == before, (scope, name)
        if scope in ("controller", "node/1"):
            assert world.refused(change(scope, nobodyReadsIt="1")).code == "UnknownConfigKey"
            for name in CONTROLLER_KEYS.keys() - effects.keys():
                assert unread(scope, {name: "1"}).startswith(f"nothing reads {name} in {scope}")
        else:
            assert unread(scope, {"nobodyReadsIt": "1"}).startswith(f"nothing reads nobodyReadsIt in {scope}")


def test_settings_are_set_changed_and_unset_with_what_was_before() -> None:
    """Sorted by name; a scope without settings is no entity any more."""
    world = World()
    assert world.events(change("cluster", b="1", a="2")) == (
        ConfigChanged(
            scope="cluster",
            changes=(ConfigChange(name="a", old=None, new="2"), ConfigChange(name="b", old=None, new="1")),
        ),
    )
    assert world.events(change("cluster", b="3", a="2")) == (
        ConfigChanged(scope="cluster", changes=(ConfigChange(name="b", old="1", new="3"),)),
    )
    assert dict(values(world.state, "cluster")) == {"a": "2", "b": "3"}
    world.do(change("cluster", a=None, b=None))
    assert "cluster" not in world.state.configs
    assert dict(values(world.state, "cluster")) == {}


def test_what_is_so_already_writes_nothing() -> None:
    """The same value, an absent one unset, and nothing at all (1009 with an empty body)."""
    world = World()
    world.do(change("cluster", a="1"))
    for command in (change("cluster", a="1"), change("cluster", x=None), change("cluster")):
        assert world.events(command) == ()


@pytest.mark.parametrize(
    "scope", ["", "galaxy", "node/", "node/x", "node/-1", "topic/", "broker-set/", "broker-set/" + "a" * 256, "topic"]
)
def test_scopes_that_do_not_exist_are_refused(scope: str) -> None:
    """A setting nobody reads is a mistake."""
    assert World().refused(change(scope, a="1")).code == "InvalidConfigScope"


@pytest.mark.parametrize("scope", ["cluster", "node/7", "broker-set/a/b", "topic/T"])
def test_scopes_that_exist_are_taken(scope: str) -> None:
    """Names may hold anything but nothing."""
    assert World().events(change(scope, notifyBrokerRoleChanged="true"))


@pytest.mark.parametrize("key", sorted(BLACK_LIST))
def test_the_black_list_is_refused_whole(key: str) -> None:
    """Java's 16, and nothing of the change happens."""
    world = World()
    refusal = world.refused(ChangeConfig(scope="controller", changes={"metricsLabel": "x", key: "y"}))
    assert (refusal.code, refusal.remark) == ("ConfigBlackListed", "Can not update config in black list.")


@pytest.mark.parametrize(
    ("scope", "key", "value", "code"),
    [
        ("controller", "noSuchKey", "1", "UnknownConfigKey"),
        ("node/1", "noSuchKey", None, "UnknownConfigKey"),
        ("cluster", "a b", "1", "UnknownConfigKey"),
        ("cluster", "", "1", "UnknownConfigKey"),
        ("cluster", "a" * 256, "1", "UnknownConfigKey"),
        ("controller", "enableElectUncleanMaster", "yes", "InvalidConfigValue"),
        ("controller", "scanInactiveMasterInterval", "5s", "InvalidConfigValue"),
        ("broker-set/a", "learners", "1,2", "InvalidConfigValue"),
        ("broker-set/a", "enableElectUncleanMaster", "", "InvalidConfigValue"),
        ("broker-set/a", "notifyBrokerRoleChanged", "on", "InvalidConfigValue"),
        ("cluster", "a", "x" * 4097, "InvalidConfigValue"),
        ("cluster", "a", "\udc00", "InvalidConfigValue"),
    ],
)
def test_unknown_keys_and_wrong_values_are_refused(scope: str, key: str, value: str | None, code: str) -> None:
    """Typed where the key is known, bounded everywhere."""
    assert World().refused(ChangeConfig(scope=scope, changes={key: value})).code == code


def test_too_many_settings_in_one_change_are_refused() -> None:
    """One event stays of a size."""
    world = World(PolicySettings(listed_max=2))
    assert world.events(change("cluster", a="1", b=""))
    assert world.refused(change("cluster", a="1", b="2", c="3")).code == "InvalidConfigValue"


def test_a_scope_has_a_bounded_number_of_settings() -> None:
    """However many changes bring them; what is there may change, and what is unset makes room."""
    world = World(PolicySettings(listed_max=2))
    assert world.events(change("topic/t", a="1"))
    assert world.events(change("topic/t", b="1"))
    refusal = world.refused(change("topic/t", c="1"))
    assert (refusal.code, refusal.remark) == ("TooManySettings", "topic/t would have more than 2 settings")
    assert world.events(change("topic/t", a="2"))
    assert world.events(change("topic/t", a=None, c="1"))
    world.policy = PolicySettings(listed_max=1)  # As if they were from before there was a bound.
    assert world.events(change("topic/t", b="2"))
    assert world.events(change("topic/t", b=None))
    assert world.refused(change("topic/t", b="1")).code == "TooManySettings"


def test_the_settings_of_a_scope_have_bounded_bytes() -> None:
    """They are one row: what is more than its bound is refused, from an old log stays readable, and may shrink."""
    world = World()
    many: dict[str, str | None] = {str(number): "x" * 4000 for number in range(261)}
    assert world.events(ChangeConfig(scope="topic/t", changes=many))
    refusal = world.refused(change("topic/t", more="x" * 4000))
    remark = "the settings of topic/t would have more than 1048576 bytes"
    assert (refusal.code, refusal.remark) == ("TooManySettings", remark)
    assert world.events(change("topic/u", more="x" * 4000))
    old = Config(scope="topic/t", values={str(number): "x" * 4000 for number in range(300)})
    world.state = msgspec.structs.replace(world.state, configs=world.state.configs.set("topic/t", old))
    assert world.refused(change("topic/t", more="1")).code == "TooManySettings"
    assert world.events(ChangeConfig(scope="topic/t", changes={"1": "y" * 4000}))
    assert world.events(ChangeConfig(scope="topic/t", changes={"1": None, "more": "1"}))
    assert world.refused(ChangeConfig(scope="topic/t", changes={"1": "x" * 4000})).code == "TooManySettings"
    assert len(values(world.state, "topic/t")) == 300


@pytest.mark.parametrize("key", sorted(CONTROLLER_KEYS))
def test_every_key_of_javas_controller_can_be_set(key: str) -> None:
    """With a value of its type."""
    value = next(value for value in ("true", "5") if CONTROLLER_KEYS[key](value))
    assert World().events(ChangeConfig(scope="controller", changes={key: value}))


def test_the_nearer_scope_overrules_the_policy() -> None:
    """File, then controller, then the leader's node, then the broker set."""
    world = World()
    world.do(CREATE)
    policy = PolicySettings()

    def in_force(broker_set: str = "a") -> tuple[bool, bool]:
        found = policy_in_force(world.state, policy, broker_set)
        return found.enable_elect_unclean_master, found.notify_broker_role_changed

    assert in_force() == (False, True)
    world.do(change("controller", metricsLabel="k:v"))
    assert policy_in_force(world.state, policy, "a") is policy
    world.do(change("controller", enableElectUncleanMaster="true", notifyBrokerRoleChanged="false"))
    assert in_force() == (True, False)
    world.do(change("node/1", enableElectUncleanMaster="false"))
    assert in_force() == (True, False)
    world.do(RecordLeader(node_id=1, cause="first start"))
    assert in_force() == (False, False)
    world.do(change("broker-set/a", enableElectUncleanMaster="true"))
    assert (in_force(), in_force("b"), in_force("")) == ((True, False), (False, False), (False, False))
    world.do(change("controller", enableElectUncleanMaster=None))
    world.do(change("broker-set/a", enableElectUncleanMaster=None))
    world.do(change("node/1", enableElectUncleanMaster=None))
    assert in_force() == (False, False)
