"""RocketMQ's property files start a node of ours."""

from pathlib import Path

import pytest

from quorate.gateway.remoting.node_config import NodeConfig
from quorate.gateway.remoting.properties import parse
from quorate.model.state import EMPTY
from quorate.node.properties import read_properties
from quorate.node.settings import NodeSettings, SettingsError

DLEDGER = """
controllerDLegerGroup = group1
controllerDLegerPeers = n0-127.0.0.1:9878;n1-127.0.0.1:9868;n2-127.0.0.1:9858
controllerDLegerSelfId = n1
controllerStorePath = STORE
"""
JRAFT = """
controllerType = jRaft
jRaftGroupId = jRaft-Controller
jRaftServerId = localhost:9881
jRaftInitConf = localhost:9880,localhost:9881,localhost:9882
jRaftControllerRPCAddr = localhost:9770,localhost:9771,localhost:9772
controllerStorePath = STORE
"""


def read(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> NodeSettings:
    path = tmp_path / "controller.properties"
    path.write_text(text.replace("STORE", str(tmp_path)))
    return read_properties(path, environ or {}, {})


def test_a_dledger_file_gives_ids_by_position_and_ports_by_rule(tmp_path: Path) -> None:
    """Peers keep their addresses; what Java has no port for stands at fixed distances from it."""
    found = read(tmp_path, DLEDGER)
    assert found.node.id == 2
    assert (found.cluster.id, found.cluster.name) == ("group1", "group1")
    assert found.node.data_dir == str(tmp_path / "quorate")
    me = found.me
    assert (me.rpc, me.raft, me.kafka, me.http) == (
        "127.0.0.1:9868", "127.0.0.1:10868", "127.0.0.1:11868", "127.0.0.1:12868",
    )  # fmt: skip


def test_a_jraft_file_keeps_its_raft_addresses(tmp_path: Path) -> None:
    """JRaft has a raft port of its own, and its rpc addresses go by position."""
    found = read(tmp_path, JRAFT)
    assert found.node.id == 2
    assert (found.me.rpc, found.me.raft, found.me.http) == ("localhost:9771", "localhost:9881", "localhost:12771")


def test_java_settings_without_a_meaning_here_are_carried(tmp_path: Path) -> None:
    """What only Java heeds is kept to be shown; a name server's keys are not; a long idle time is ours too."""
    found = read(
        tmp_path,
        DLEDGER + "configBlackList=configBlackList;mappedFileSize\nmetricsExporterType=PROM\nkvConfigPath=/x\n"
        "serverChannelMaxIdleTimeSeconds=45\nserverSocketBacklog=2048\n",
    )
    carried = parse(found.remoting.java)
    assert carried["configBlackList"] == "configBlackList;mappedFileSize"
    assert carried["metricsExporterType"] == "PROM"
    assert "kvConfigPath" not in carried
    assert (found.remoting.idle_deadline_s, found.remoting.backlog) == (45.0, 2048)


def test_a_black_list_from_the_file_holds() -> None:
    """1009 may not touch what the file's own black list names, and 1010 shows that list."""
    config = NodeConfig(1, {"configBlackList": "configBlackList;mappedFileSize"})
    assert config.changes("mappedFileSize=5\n") is None
    assert config.changes("metricsLabel=a:b\n") == {"metricsLabel": "a:b"}
    assert "configBlackList=configBlackList;mappedFileSize\n" in config.text(EMPTY)


def test_an_election_timeout_of_jraft_is_ours(tmp_path: Path) -> None:
    """JRaft waits between its timeout and twice that; so does a node started from its file."""
    found = read(tmp_path, JRAFT + "jRaftElectionTimeoutMs=1500\n")
    assert (found.engine.election_timeout_min_s, found.engine.election_timeout_max_s) == (1.5, 3.0)


def test_java_settings_with_a_meaning_here_keep_it(tmp_path: Path) -> None:
    """Truths parse as in Java, milliseconds become seconds, the rest is ignored."""
    found = read(
        tmp_path,
        DLEDGER + "enableElectUncleanMaster=TRUE\nnotifyBrokerRoleChanged=no\nscanInactiveMasterInterval=2500\n"
        "listenPort=9876\nclusterTest=true\nkvConfigPath=/x\n",
    )
    assert found.policy.enable_elect_unclean_master is True
    assert found.policy.notify_broker_role_changed is False
    assert found.controller.inactive_master_scan_period_s == 2.5


def test_settings_of_ours_may_stand_in_the_same_file(tmp_path: Path) -> None:
    """``quorate.…`` keys are ours, and yield to the environment as a file does."""
    text = DLEDGER + "quorate.engine.tick_s=0.02\nquorate.ports.kafka=4000\n"
    assert read(tmp_path, text).engine.tick_s == 0.02
    assert read(tmp_path, text).me.kafka == "127.0.0.1:13868"
    assert read(tmp_path, text, {"QUORATE_ENGINE__TICK_S": "0.03"}).engine.tick_s == 0.03


def test_the_bind_address_is_java_s(tmp_path: Path) -> None:
    """``bindAddress`` moves the rpc listener, not what others are told; off loopback it must be named."""
    named = DLEDGER + 'bindAddress=0.0.0.0\nquorate.node.insecure_listeners=["rpc"]\n'
    assert read(tmp_path, named).bind("rpc") == ("0.0.0.0", 9868)
    with pytest.raises(SettingsError, match=r"listeners\.rpc: 0\.0\.0\.0 is not loopback"):
        read(tmp_path, DLEDGER + "bindAddress=0.0.0.0\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "controllerDLegerPeers: missing"),
        (DLEDGER.replace("SelfId = n1", "SelfId = n7"), "'n7' is not among controllerDLegerPeers"),
        (DLEDGER.replace("n0-127", "n0.127"), "is not id-host:port"),
        (DLEDGER.replace("Group = group1", "Group ="), "controllerDLegerGroup: missing"),
        (DLEDGER.replace(":9878", ":port"), "is not host:port"),
        (DLEDGER + "scanInactiveMasterInterval=soon\n", "scanInactiveMasterInterval: "),
        (DLEDGER + "quorate.engine=1\n", r"expected quorate.SECTION.KEY"),
        (DLEDGER + "quorate.engine.tic_s=1\n",
         "controller.properties: quorate.engine.tic_s: unknown setting; did you mean quorate.engine.tick_s?"),
        (DLEDGER + "quorate.engin.tick_s=1\n",
         "controller.properties: quorate.engin.tick_s: unknown setting; did you mean quorate.engine?"),
        (DLEDGER + "quorate.ports.raft=far\n", r"quorate.ports.raft: "),
        (DLEDGER + "quorate.ports.htp=3\n", "quorate.ports.htp: unknown setting; did you mean quorate.ports.http?"),
        (DLEDGER + "quorate.ports.rpc=3\n", "quorate.ports.rpc: unknown setting"),
        (JRAFT.replace(",localhost:9772", ""), "names 2 addresses, jRaftInitConf 3"),
        (JRAFT.replace("ServerId = localhost:9881", "ServerId = localhost:1"), "localhost:1 is not among"),
    ],
)  # fmt: skip
def test_what_does_not_make_sense_is_named(tmp_path: Path, text: str, problem: str) -> None:
    """A file that cannot start a node says why."""
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert problem in str(caught.value)


def test_a_setting_of_ours_may_stand_at_any_depth(tmp_path: Path) -> None:
    """As in the file of a node, in the environment and behind ``--set``."""
    nested = "quorate.storage.journal.sync=thread\nquorate.engine.snapshots.retain_entries=5\n"
    found = read(tmp_path, JRAFT + nested)
    assert (found.storage.journal.sync, found.engine.snapshots.retain_entries) == ("thread", 5)


def test_a_short_election_timeout_of_java_s_is_taken(tmp_path: Path) -> None:
    """What must not be longer than it is no longer."""
    assert read(tmp_path, JRAFT + "jRaftElectionTimeoutMs=200\n").engine.read_timeout_s == 0.4
