"""Kafka's own administration tools see a healthy cluster: its leader, its voters, its groups, its configuration."""

import re
import uuid
from base64 import urlsafe_b64encode

import pytest

from tests.clusters import Started
from tests.kafka_tools.conftest import http
from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.test_tools import consumed, end, java


def tool(cluster: Started, name: str, *arguments: str, index: int = 1) -> str:
    """A tool against one node."""
    return java(name, "--bootstrap-server", cluster.nodes[index]["kafka"], *arguments)


def rows(text: str) -> list[dict[str, str]]:
    """A table whose first line has the titles."""
    titles, *lines = [line.split() for line in text.strip().splitlines() if line.strip()]
    return [dict(zip(titles, line, strict=False)) for line in lines]


@pytest.fixture(scope="module")
def group(cluster: Started) -> str:
    """A group that has read and committed five events, and has no members."""
    name = "java-admin"
    what = ("--topic", TOPIC, "--group", name, "--from-beginning", "--max-messages", "5", "--timeout-ms", "20000")
    text = tool(cluster, "consumer", *what, "--formatter-property", "print.offset=true", index=0)
    assert consumed(text) == list(range(5))
    return name


def test_kafka_topics_describes_the_topic(cluster: Started) -> None:
    """Partition, leader, replicas, in sync, and what is configured."""
    found = dict(re.findall(r"(\w+): ?(\S+)", tool(cluster, "topics", "--describe")))
    assert (found["Topic"], found["PartitionCount"], found["ReplicationFactor"]) == (TOPIC, "1", "3")
    assert found["Leader"] == str(http(cluster, 0, "/v1/quorum")["leader"])
    assert found["Replicas"] == found["Isr"] == "1,2,3"
    assert "retention.ms=-1" in found["Configs"]


def test_consumer_groups_are_listed_and_described(cluster: Started, group: str) -> None:
    """Position, end and lag of a group, whichever node is asked."""
    assert group in tool(cluster, "groups", "--list", index=2).split()
    (told,) = rows(tool(cluster, "groups", "--describe", "--group", group, index=0))
    assert (told["TOPIC"], told["PARTITION"]) == (TOPIC, "0")
    last = end(cluster)
    assert (int(told["CURRENT-OFFSET"]), int(told["LOG-END-OFFSET"]), int(told["LAG"])) == (5, last, last - 5)


def test_the_quorum_is_described(cluster: Started) -> None:
    """Leader, term and every voter with its directory, by a node that need not be the leader."""
    quorum = http(cluster, 0, "/v1/quorum")
    follower = next(i for i, node in enumerate(cluster.nodes) if node["id"] != quorum["leader"])
    told = dict(re.findall(r"(\w+): +(.+)", tool(cluster, "quorum", "describe", "--status", index=follower)))
    assert (int(told["LeaderId"]), int(told["LeaderEpoch"])) == (quorum["leader"], quorum["term"])
    assert told["ClusterId"] == quorum["cluster_id"]
    assert set(re.findall(r'"id": (\d+)', told["CurrentVoters"])) == {"1", "2", "3"}
    known = {urlsafe_b64encode(uuid.UUID(v["dir_uuid"]).bytes).decode().rstrip("=") for v in quorum["voters"]}
    assert set(re.findall(r'"directoryId": "([^"]+)"', told["CurrentVoters"])) == known


@pytest.mark.slow
def test_replication_is_described(cluster: Started) -> None:
    """Each voter's log end and lag; one leader, the rest followers."""
    table = rows(tool(cluster, "quorum", "describe", "--replication"))
    assert sorted(row["NodeId"] for row in table) == ["1", "2", "3"]
    assert sorted(row["Status"] for row in table) == ["Follower", "Follower", "Leader"]
    ends = {int(row["LogEndOffset"]) for row in table}
    assert max(ends) - min(ends) < 10
    assert all(int(row["LastCaughtUpTimestamp"]) > 0 for row in table if row["Lag"] == "0")


@pytest.mark.slow
def test_configurations_are_described(cluster: Started) -> None:
    """The topic's and each node's own."""
    topic = tool(cluster, "configs", "--describe", "--entity-type", "topics", "--entity-name", TOPIC, "--all")
    assert "cleanup.policy=delete" in topic
    assert "max.message.bytes=4190208" in topic
    node = tool(cluster, "configs", "--describe", "--entity-type", "brokers", "--entity-name", "3", "--all")
    assert "node.id=3" in node
    assert f"advertised.listeners=PLAINTEXT://{cluster.nodes[2]['kafka']}" in node


@pytest.mark.slow
def test_the_cluster_is_described(cluster: Started) -> None:
    """Its id; its nodes as endpoints; the versions each of them serves."""
    where = ("--bootstrap-server", cluster.nodes[2]["kafka"])
    assert http(cluster, 0, "/v1/quorum")["cluster_id"] in java("cluster", "cluster-id", *where)
    table = rows(java("cluster", "list-endpoints", *where))
    assert {(row["ID"], row["PORT"]) for row in table} == {
        (str(node["id"]), node["kafka"].partition(":")[2]) for node in cluster.nodes
    }
    versions = tool(cluster, "versions")
    assert versions.count("Fetch(1): 4 to 17") == 3
    assert versions.count("DescribeTopicPartitions(75): UNSUPPORTED") == 3


@pytest.mark.slow
def test_a_position_can_be_reset_and_deleted(cluster: Started) -> None:
    """By the tool, while the group has no members; what the consumer then reads is what it was set to."""
    name, where = "java-reset", ("--topic", TOPIC)
    tool(cluster, "groups", "--reset-offsets", "--group", name, *where, "--to-offset", "7", "--execute")
    what = (*where, "--group", name, "--max-messages", "2", "--timeout-ms", "20000")
    text = tool(cluster, "consumer", *what, "--formatter-property", "print.offset=true")
    assert consumed(text) == [7, 8]
    (told,) = rows(tool(cluster, "groups", "--describe", "--group", name, "--state"))
    assert told["STATE"] == "Empty" or "Empty" in told.values()
    assert "successful" in tool(cluster, "groups", "--delete", "--group", name)
    assert name not in tool(cluster, "all-groups", "--list").split()
