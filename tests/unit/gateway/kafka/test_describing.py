"""What tools see of a node: a healthy cluster with the right leader, groups as they are, configs that are true."""

from typing import Any

import pytest

from quorate.gateway.kafka import KafkaNode
from quorate.gateway.kafka.describing import Describer
from quorate.wire.kafka import Api, ErrorCode
from quorate.wire.kafka_admin_responses import DescribedConfig
from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.raw import Client
from tests.unit.gateway.kafka.test_server import GROUP_CALLS, commit, serving


def member(client: Client) -> dict[str, Any]:
    """Join and sync as the only member of group g."""
    joined = client.ask(Api.JOIN_GROUP, 5, {**GROUP_CALLS[0][2], "group_instance_id": "i"})
    assignments = [{"member_id": joined["member_id"], "assignment": b"everything"}]
    sync = {**GROUP_CALLS[1][2], "generation_id": 1, "member_id": joined["member_id"], "assignments": assignments}
    assert client.ask(Api.SYNC_GROUP, 3, {**sync, "group_instance_id": "i"})["error_code"] == 0
    return joined


def list_groups(client: Client, **filters: list[str]) -> dict[str, Any]:
    """The answer as it came."""
    found: dict[str, Any] = client.ask(Api.LIST_GROUPS, 5, {"states_filter": [], "types_filter": [], **filters})
    return found


def listed(client: Client, **filters: list[str]) -> dict[str, tuple[str, str, str]]:
    """Every group → its protocol type, state and type."""
    found = list_groups(client, **filters)
    assert found["error_code"] == 0
    return {g["group_id"]: (g["protocol_type"], g["group_state"], g["group_type"]) for g in found["groups"]}


def described(client: Client, group: str = "g") -> dict[str, Any]:
    """One group."""
    (found,) = client.ask(Api.DESCRIBE_GROUPS, 4, {"groups": [group], "include_authorized_operations": False})["groups"]
    result: dict[str, Any] = found
    return result


def test_groups_are_listed_with_their_states() -> None:
    """Those with members, and those that only keep a position; filtered when asked; on the coordinator only."""
    with serving(2) as (served, client):
        served.append()
        client.ask(Api.OFFSET_COMMIT, 7, {**commit(0, 1), "group_id": "alone"})
        member(client)
        everything = {"alone": ("consumer", "Empty", "classic"), "g": ("consumer", "Stable", "classic")}
        assert listed(client) == everything
        assert set(listed(client, states_filter=["empty"])) == {"alone"}
        assert set(listed(client, types_filter=["Classic", "Consumer"])) == {"alone", "g"}
        assert listed(client, types_filter=["Consumer"]) == {}
        served.set_leader(2, 2)
        assert listed(client) == {}
        second = Client(served.ports[1])
        assert listed(second) == everything
        second.socket.close()


def test_a_group_is_described_with_its_members() -> None:
    """Who they are, what they subscribed to, what they were given; an unknown group is dead, not an error."""
    with serving() as (served, client):
        served.append()
        joined = member(client)
        found = described(client)
        assert (found["error_code"], found["group_state"], found["protocol_data"]) == (0, "Stable", "range")
        (told,) = found["members"]
        assert (told["member_id"], told["group_instance_id"]) == (joined["member_id"], "i")
        assert (told["client_id"], told["client_host"]) == ("test", "127.0.0.1")
        assert (told["member_metadata"], told["member_assignment"]) == (b"s", b"everything")
        client.ask(Api.OFFSET_COMMIT, 7, {**commit(0, 1), "group_id": "alone"})
        assert (described(client, "alone")["group_state"], described(client, "alone")["members"]) == ("Empty", [])
        nobody = described(client, "nobody")
        assert (nobody["error_code"], nobody["group_state"]) == (0, "Dead")


def test_a_group_named_often_is_described_once() -> None:
    """A request of a few bytes a name must not make an answer of kilobytes for each."""
    with serving() as (_, client):
        member(client)
        asked = {"groups": ["g", "nobody", "g", "nobody"], "include_authorized_operations": False}
        found = client.ask(Api.DESCRIBE_GROUPS, 4, asked)["groups"]
        assert [(group["group_id"], len(group["members"])) for group in found] == [("g", 1), ("nobody", 0)]


def test_an_answer_holds_so_many_members() -> None:
    """The first group is told whole; of what does not fit behind it the client is told to ask again (14), and whoever
    does is told more each time.
    """
    with serving(describe_bytes_max=200) as (_, client):
        for group in ("a", "b"):
            joined = {**GROUP_CALLS[0][2], "group_id": group, "group_instance_id": "i"}
            assert client.ask(Api.JOIN_GROUP, 5, joined)["error_code"] == 0
        left = ["a", "nobody", "b"]
        answers = []
        while left:
            asked = {"groups": left, "include_authorized_operations": False}
            found = client.ask(Api.DESCRIBE_GROUPS, 4, asked)["groups"]
            answers.append([(group["group_id"], group["error_code"], len(group["members"])) for group in found])
            left = [group["group_id"] for group in found if group["error_code"]]
        again = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert answers == [[("a", 0, 1), ("nobody", 0, 0), ("b", again, 0)], [("b", 0, 1)]]


def test_a_group_is_described_by_its_coordinator_only() -> None:
    """Another node says 16; one that is just about to coordinate says 14, and lists nothing meanwhile."""
    with serving(2) as (served, client):
        served.set_leader(2, 2)
        assert described(client)["error_code"] == ErrorCode.NOT_COORDINATOR
        served.set_leader(1, 3)
        served.views[0].open = False
        assert described(client)["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert list_groups(client)["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_nobody_says_there_are_no_groups_while_nobody_knows_them() -> None:
    """A list is empty at a node that knows another to coordinate. Without a leader, with one that cannot be reached, or
    when it was the leader itself and is stopping, a node says that it cannot know: tools then ask it again.
    """
    with serving(2) as (served, client):
        member(client)
        view, unsure = served.views[0], ErrorCode.COORDINATOR_NOT_AVAILABLE
        view.serving = False
        assert list_groups(client)["error_code"] == unsure
        view.serving, view.leader_id = True, None
        assert list_groups(client)["error_code"] == unsure
        view.leader_id, view.known[1] = 2, KafkaNode(2, "127.0.0.1", served.ports[1], alive=False)
        assert list_groups(client)["error_code"] == unsure
        view.known[1] = KafkaNode(2, "127.0.0.1", served.ports[1])
        assert listed(client) == {}


def test_a_group_without_members_can_be_deleted() -> None:
    """Its position goes; one with members stays (68), an unknown one is unknown (69), a follower deletes nothing."""
    with serving(2) as (served, client):
        served.append()
        client.ask(Api.OFFSET_COMMIT, 7, {**commit(0, 1), "group_id": "alone"})
        member(client)
        asked = {"groups_names": ["alone", "g", "nobody"]}
        found = client.ask(Api.DELETE_GROUPS, 1, asked)["results"]
        assert {r["group_id"]: r["error_code"] for r in found} == {"alone": 0, "g": 68, "nobody": 69}
        assert set(listed(client)) == {"g"}
        served.set_leader(2, 2)
        found = client.ask(Api.DELETE_GROUPS, 1, asked)["results"]
        assert {r["error_code"] for r in found} == {ErrorCode.NOT_COORDINATOR}


def configs(client: Client, kind: int, name: str, keys: list[str] | None = None) -> tuple[int, dict[str, str]]:
    """(error, name → value) of one resource."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    asked = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    (found,) = client.ask(Api.DESCRIBE_CONFIGS, 3, asked)["results"]
    return found["error_code"], {config["name"]: config["value"] for config in found["configs"]}


def test_configs_tell_what_is_true() -> None:
    """The topic is never trimmed nor compacted; a node tells its own limits, and nothing about others."""
    with serving(3, connections_max=17) as (_, client):
        error, topic = configs(client, 2, TOPIC)
        assert error == 0
        assert (topic["retention.ms"], topic["retention.bytes"], topic["cleanup.policy"]) == ("-1", "-1", "delete")
        assert topic["min.insync.replicas"] == "2"
        assert configs(client, 2, TOPIC, ["retention.ms"]) == (0, {"retention.ms": "-1"})
        error, node = configs(client, 4, "1")
        assert error == 0
        assert (node["node.id"], node["max.connections"]) == ("1", "17")
        assert configs(client, 4, "") == (0, {})
        assert configs(client, 4, "2") == (ErrorCode.INVALID_REQUEST, {})
        assert configs(client, 2, "other") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {})
        assert configs(client, 99, "x") == (ErrorCode.INVALID_REQUEST, {})


def test_what_is_asked_for_twice_is_told_once() -> None:
    """Resources, quorums and topics: the answer is as long as what is different in the request."""
    with serving() as (_, client):
        resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        asked = {"resources": [resource] * 3, "include_synonyms": True, "include_documentation": True}
        assert len(client.ask(Api.DESCRIBE_CONFIGS, 3, asked)["results"]) == 1
        topic = {"topic_name": TOPIC, "partitions": [{"partition_index": 0}] * 3}
        (found,) = client.ask(Api.DESCRIBE_QUORUM, 2, {"topics": [topic] * 3})["topics"]
        assert len(found["partitions"]) == 1
        named = client.ask(Api.METADATA, 5, {"topics": [{"name": TOPIC}] * 3, "allow_auto_topic_creation": True})
        assert len(named["topics"]) == 1


def test_the_cluster_is_described_as_metadata_tells_it() -> None:
    """All nodes within reach, the leader as controller; who wants controllers is told that they are not to be had."""
    with serving(3) as (served, client):
        served.set_leader(2, 2)
        asked = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
        found = client.ask(Api.DESCRIBE_CLUSTER, 2, asked)
        assert (found["error_code"], found["cluster_id"], found["controller_id"]) == (0, "test-cluster", 2)
        assert [(b["broker_id"], b["port"]) for b in found["brokers"]] == list(enumerate(served.ports, start=1))
        served.views[0].known[2] = KafkaNode(3, "127.0.0.1", served.ports[2], alive=False)
        found = client.ask(Api.DESCRIBE_CLUSTER, 2, {**asked, "include_fenced_brokers": False})
        assert [b["broker_id"] for b in found["brokers"]] == [1, 2]
        refused = client.ask(Api.DESCRIBE_CLUSTER, 2, {**asked, "endpoint_type": 2})
        assert (refused["error_code"], refused["brokers"]) == (ErrorCode.MISMATCHED_ENDPOINT_TYPE, [])


def test_the_quorum_is_described_by_its_leader() -> None:
    """Voters with their positions, by any node; without a leader the client may ask again; other topics are unknown."""
    with serving(3) as (served, client):
        served.set_leader(2, 5)
        partitions = [{"partition_index": 0}]
        asked = {
            "topics": [{"topic_name": n, "partitions": partitions} for n in ("__cluster_metadata", TOPIC, "other")]
        }
        found = client.ask(Api.DESCRIBE_QUORUM, 2, asked)
        first, second, other = (topic["partitions"][0] for topic in found["topics"])
        assert (first["error_code"], first["leader_id"], first["leader_epoch"], first["high_watermark"]) == (
            0,
            2,
            5,
            93,
        )
        ends = {voter["replica_id"]: voter["log_end_offset"] for voter in first["current_voters"]}
        assert ends == {1: 92, 2: 93, 3: 94}
        caught_up = [voter["last_caught_up_timestamp"] > 0 for voter in first["current_voters"]]
        assert caught_up == [False, True, True]
        assert (second["error_code"], other["error_code"]) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        served.views[0].known[2] = KafkaNode(3, "127.0.0.1", served.ports[2], alive=False)
        found = client.ask(Api.DESCRIBE_QUORUM, 2, asked)
        assert {node["node_id"] for node in found["nodes"]} == {1, 2, 3}
        served.set_leader(None, 6)
        again = client.ask(Api.DESCRIBE_QUORUM, 2, asked)["topics"][0]["partitions"][0]
        assert again["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE


def test_configs_are_looked_up_once_in_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a resource is asked for other keys; each answer has its own."""
    built: list[str] = []
    real = Describer._node_configs

    def counted(self: Describer) -> tuple[DescribedConfig, ...]:
        built.append("node")
        return real(self)

    monkeypatch.setattr(Describer, "_node_configs", counted)
    keys = [None, [], ["node.id"], ["node.id", "max.connections"], ["nothing"]]
    with serving() as (_, client):
        resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": some} for some in keys]
        asked = {"resources": resources, "include_synonyms": True, "include_documentation": True}
        results = client.ask(Api.DESCRIBE_CONFIGS, 3, asked)["results"]
    everything, *others = [[config["name"] for config in found["configs"]] for found in results]
    assert {"node.id", "max.connections"} < set(everything)
    assert others == [[], ["node.id"], ["max.connections", "node.id"], []]
    assert built == ["node"]
