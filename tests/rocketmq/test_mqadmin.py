"""Stock mqadmin of 5.3.3 against a three-node Quorate, with the Java controller's outcomes."""

import pytest

from quorate.events import ConfigChanged, MasterElected, TopicCreated
from tests.contract.client import Remoting, read_json
from tests.rocketmq.world import World

pytestmark = pytest.mark.timeout(400)


def lines(text: str) -> set[str]:
    """What was printed, tabs and runs of spaces as one space."""
    return {" ".join(line.split()) for line in text.splitlines()}


def meta_data(world: World) -> None:
    """GetControllerMetaData from each node names the one leader and all peers."""
    leader = world.cluster.leader()
    for address in world.cluster.addresses:
        said = lines(world.peer.admin("getControllerMetaData", "-a", address))
        assert {
            f"#ControllerLeaderId n{leader}",
            f"#ControllerLeaderAddress {world.cluster.nodes[leader]['rpc']}",
            *(f"#Peer: n{number}:{node['rpc']}" for number, node in world.cluster.nodes.items()),
        } <= said, said


def sync_state_set(world: World) -> None:
    """GetSyncStateSet prints the master and both replicas in sync and alive."""
    said = world.peer.admin("getSyncStateSet", "-a", world.cluster.addresses[0], "-b", "broker-a")
    for number, port in world.ports.items():
        identity = f"brokerName='broker-a', brokerId={number}, brokerAddress='127.0.0.1:{port}', alive=true"
        assert f"ReplicaIdentity{{{identity}}}" in said
    assert {"#brokerName broker-a", "#MasterBrokerId 1", "#MasterEpoch 1", "#SyncStateSetNums 2"} <= lines(said), said


def elect_master(world: World) -> None:
    """ElectMaster switches a healthy pair over; designating the master that already is one is 2011."""
    command = ("electMaster", "-a", world.cluster.addresses[1], "-bn", "broker-a", "-c", "DefaultCluster", "-b", 2)
    said = world.peer.admin(*command)
    expected = {"#BrokerName broker-a", f"#BrokerMasterAddr 127.0.0.1:{world.ports[2]}", "#MasterEpoch 2"}
    assert expected <= lines(said), said
    assert world.replica_info()[0] == 2
    world.until_in_sync(1, 2)
    assert "CODE: 2011" in world.peer.admin(*command)
    assert "CODE: 2010" in world.peer.admin(*command[:4], "nobody", *command[5:])


def config(world: World) -> None:
    """GetControllerConfig and updateControllerConfig on every node; a black-listed key is 16."""
    every = ";".join(world.cluster.addresses)
    key = "scanNotActiveBrokerInterval"
    said = world.peer.admin("updateControllerConfig", "-a", every, "-k", key, "-v", 4000)
    assert "update controller config success!" in said, said
    assert f"{key} : 4000" in said
    said = world.peer.admin("getControllerConfig", "-a", every)
    for address in world.cluster.addresses:
        assert f"============{address}============" in said, said
    assert [line.split() for line in said.splitlines() if line.startswith(key)] == [[key, "=", "4000"]] * 3, said
    assert "CODE: 16" in world.peer.admin("updateControllerConfig", "-a", every, "-k", "configStorePath", "-v", "/x")


def topic(world: World) -> None:
    """UpdateTopic at a controller's address sends 17 and prints success; the topic is there."""
    address = world.cluster.addresses[2]
    command = ("updateTopic", "-n", world.stock.names, "-b", address, "-t", "T", "-r", 4, "-w", 4)
    said = world.peer.admin(*command, "-a", "+message.type=FIFO")
    assert f"create topic to {address} success." in said, said
    with Remoting(address) as client:
        found = read_json(client.ask(351, topic="T").body)
    assert (found["writeQueueNums"], found["attributes"]) == (4, {"message.type": "FIFO"})
    assert "CODE: 29" in world.peer.admin(*command[:5], "-t", "TBW102"), "system topics are protected"


def clean(world: World) -> None:
    """CleanBrokerMetadata refuses living brokers with 2009 and forgets dead ones."""
    command = ("cleanBrokerMetadata", "-a", world.cluster.addresses[0], "-bn", "broker-a", "-c", "DefaultCluster")
    assert "CODE: 2009" in world.peer.admin(*command, "-b", 1)
    world.kill_broker(1)
    world.until_in_sync(2)
    said = world.peer.admin(*command, "-b", 1)
    assert "clear broker broker-a metadata from controller success!" in said, said
    table = read_json(world.ask(1006, ["broker-a"]).body)["replicasInfoTable"]["broker-a"]
    assert [replica["brokerId"] for replica in table["inSyncReplicas"]] == [2]
    assert table["notInSyncReplicas"] == []


def test_mqadmin_has_the_java_controllers_outcomes(world: World) -> None:
    """All seven commands, their success and their refusals, and what they did is in the log."""
    world.start_broker(1)
    world.until_master(1)
    world.start_broker(2)
    world.until_in_sync(1, 2)
    meta_data(world)
    sync_state_set(world)
    elect_master(world)
    config(world)
    topic(world)
    clean(world)
    events = world.events(1)
    switch = next(event for event in events if isinstance(event, MasterElected) and event.old_master == 1)
    assert (switch.trigger, switch.master) == ("admin", 2)
    assert any(isinstance(event, TopicCreated) and event.topic == "T" for event in events)
    scopes = {event.scope for event in events if isinstance(event, ConfigChanged)}
    assert scopes == {"node/1", "node/2", "node/3"}
