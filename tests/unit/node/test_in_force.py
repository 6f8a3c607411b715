"""What is in force at a node, and whence."""

from pathlib import Path

import pytest

from quorate.metadata.commands import ChangeConfig, RecordLeader
from quorate.model.state import EMPTY
from quorate.node.in_force import in_force
from quorate.node.settings import build, sources
from tests.unit.metadata.kit import CREATE, World
from tests.unit.node.test_settings import a_tree

PATH = Path("/etc/quorate/node.toml")


def held(world: World | None = None, **sections: dict[str, object]) -> dict[str, tuple[str, str]]:
    """Name → value and source, of a node with these settings."""
    tree, environ = a_tree(**sections), {"QUORATE_ENGINE__TICK_S": "0.02"}
    settings = build(tree, environ, {"log.level": "debug"}, PATH.parent)
    whence = sources(tree, environ, {"log.level": "debug"}, PATH)
    found = in_force(settings, whence, EMPTY if world is None else world.state)
    return {item.name: (item.value, item.source) for item in found}


def test_every_setting_is_there_with_its_source() -> None:
    """Default, file, environment, flag; nested ones by their whole name; a list as JSON."""
    found = held(node={"insecure_listeners": ["rpc"]})
    assert found["engine.tick_s"] == ("0.02", "environment QUORATE_ENGINE__TICK_S")
    assert found["log.level"] == ("debug", "flag --set")
    assert found["node.insecure_listeners"] == ('["rpc"]', f"file {PATH}")
    assert found["policy.enable_elect_unclean_master"] == ("false", "default")
    assert found["engine.snapshots.window_chunks"][1] == "default"
    assert len(found) > 100


def test_a_listener_is_shown_where_it_listens() -> None:
    """At its own address, else at that of its voter, and it is said whose; one that does not listen has none."""
    found = held(listeners={"http": "127.0.0.1:9"})
    assert found["listeners.http"] == ("127.0.0.1:9", f"file {PATH}")
    (voter,) = [voter for voter in a_tree()["cluster"]["voters"] if voter["id"] == 1]
    assert found["listeners.rpc"] == (voter["rpc"], "cluster.voters[1].rpc")
    assert found["listeners.grpc"] == ("", "default")


def test_the_key_of_the_cluster_is_not_shown() -> None:
    """Neither the secret nor its length; that there is none is no secret."""
    assert held(cluster={"key": "k" * 32})["cluster.key"] == ("(secret)", f"file {PATH}")
    assert held()["cluster.key"] == ("", "default")


def test_the_log_s_word_holds() -> None:
    """A scope of the log overrules a file, and the leader's own scope that of all controllers, as in elections."""
    world = World()
    world.do(CREATE)
    unclean = "enableElectUncleanMaster"
    world.do(ChangeConfig(scope="controller", changes={unclean: "true"}))
    world.do(ChangeConfig(scope="cluster", changes={"requests.remembered_max": "7"}))
    name = "policy.enable_elect_unclean_master"
    found = held(world, requests={"remembered_max": 9, "remembered_ms_max": 5})
    assert found[name] == ("true", "log, scope controller")
    assert found["requests.remembered_max"] == ("7", "log, scope cluster")
    assert found["requests.remembered_ms_max"] == ("3600000", "default")
    world.do(RecordLeader(node_id=1, cause="first start"))
    world.do(ChangeConfig(scope="node/1", changes={unclean: "false"}))
    assert held(world)[name] == ("false", "log, scope node/1")


@pytest.mark.parametrize("name", ["policy.enable_elect_unclean_master", "requests.remembered_max"])
def test_before_there_is_a_cluster_a_node_has_its_own(name: str) -> None:
    """Nothing is in the log yet."""
    assert held()[name][1] == "default"
