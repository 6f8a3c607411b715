"""What tools ask about groups, configs and the cluster: kafka-python reads what we write, byte for byte."""

import pytest

from quorate.wire import kafka_admin_responses as responses
from quorate.wire.kafka import WINDOW, Api, RequestHeader
from quorate.wire.kafka_admin_responses import (
    DescribedConfig,
    DescribedGroup,
    DescribedMember,
    DescribedQuorum,
    DescribedResource,
    ListedGroup,
    QuorumReplica,
)
from quorate.wire.kafka_primitives import int32
from quorate.wire.kafka_responses import BrokerAddress, response
from tests.unit.wire.kafka_oracle import decoded
from tests.unit.wire.test_kafka_responses import all_versions, subset

DIRECTORY = bytes(range(16))


@all_versions(Api.LIST_GROUPS)
def test_list_groups(api: Api, version: int) -> None:
    """Names and protocol types; states from version 4, types from version 5."""
    groups = [ListedGroup("a", "consumer", "Stable"), ListedGroup("b", "", "Empty")]
    listed = [responses.listed_group(version, group) for group in groups]
    found = decoded(api, version, responses.list_groups(version, listed))
    assert [(g["group_id"], g["protocol_type"]) for g in found["groups"]] == [("a", "consumer"), ("b", "")]
    assert [g.get("group_state") for g in found["groups"]] == (["Stable", "Empty"] if version >= 4 else [None, None])
    assert [g.get("group_type") for g in found["groups"]] == ["classic" if version >= 5 else None] * 2
    assert decoded(api, version, responses.list_groups(version, [], 14))["error_code"] == 14


@all_versions(Api.DESCRIBE_GROUPS)
def test_describe_groups(api: Api, version: int) -> None:
    """Each group with its members, or its error."""
    member = DescribedMember("m", "i", "client", "/host", b"subscription", b"assignment")
    groups = [DescribedGroup(0, "g", "Stable", "consumer", "range", (member,)), DescribedGroup(16, "other")]
    known, other = decoded(api, version, responses.describe_groups(version, groups))["groups"]
    subset(known, error_code=0, group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range")
    (told,) = known["members"]
    subset(told, member_id="m", group_instance_id="i", client_id="client", client_host="/host")
    subset(told, member_metadata=b"subscription", member_assignment=b"assignment")
    subset(other, error_code=16, group_id="other", group_state="Dead", members=[])


@all_versions(Api.DELETE_GROUPS)
def test_delete_groups(api: Api, version: int) -> None:
    """Each group has its own error."""
    found = decoded(api, version, responses.delete_groups(version, [("a", 0), ("b", 69)]))
    assert [(group["group_id"], group["error_code"]) for group in found["results"]] == [("a", 0), ("b", 69)]


@all_versions(Api.DESCRIBE_CONFIGS)
def test_describe_configs(api: Api, version: int) -> None:
    """Names, values, where they come from; an error has its message."""
    configs = (DescribedConfig("a", "1", 3), DescribedConfig("b", "x", 2, default=True))
    resources = [DescribedResource(0, None, 2, "t", configs), DescribedResource(3, "no such topic", 2, "u")]
    known, other = decoded(api, version, responses.describe_configs(version, resources))["results"]
    subset(known, error_code=0, error_message=None, resource_type=2, resource_name="t")
    for config, (name, value, source, kind) in zip(known["configs"], (("a", "1", 4, 3), ("b", "x", 5, 2)), strict=True):
        subset(config, name=name, value=value, config_source=source, config_type=kind, read_only=True)
        subset(config, is_sensitive=False, synonyms=[], documentation=None)
    subset(other, error_code=3, error_message="no such topic", configs=[])


@all_versions(Api.DESCRIBE_CLUSTER)
def test_describe_cluster(api: Api, version: int) -> None:
    """Nodes, leader, cluster id; or an error with its message."""
    brokers = [BrokerAddress(1, "h1", 9092, "rack"), BrokerAddress(2, "h2", 9093)]
    found = decoded(api, version, responses.describe_cluster(version, brokers, "cluster", 2))
    subset(found, error_code=0, error_message=None, cluster_id="cluster", controller_id=2, endpoint_type=1)
    for told, broker in zip(found["brokers"], brokers, strict=True):
        subset(told, broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack, is_fenced=False)
    failed = decoded(api, version, responses.describe_cluster(version, [], "c", -1, 2, (114, "for clients")))
    subset(failed, error_code=114, error_message="for clients", brokers=[], endpoint_type=2)


@all_versions(Api.DESCRIBE_QUORUM)
def test_describe_quorum(api: Api, version: int) -> None:
    """The leader, the term, the high watermark and each voter's log; an unknown partition has its error only."""
    quorum = DescribedQuorum(1, 7, 101, (QuorumReplica(1, 102, 5, 5, DIRECTORY), QuorumReplica(2, 90, 4, -1)))
    topics = [("__cluster_metadata", [(0, 0), (1, 3)])]
    body = responses.describe_quorum(version, topics, quorum, [BrokerAddress(1, "h1", 65_535)])
    found = decoded(api, version, body)
    assert found["error_code"] == 0
    known, unknown = found["topics"][0]["partitions"]
    subset(known, partition_index=0, error_code=0, leader_id=1, leader_epoch=7, high_watermark=101, observers=[])
    first, second = known["current_voters"]
    subset(first, replica_id=1, log_end_offset=102, last_fetch_timestamp=5, last_caught_up_timestamp=5)
    subset(second, replica_id=2, log_end_offset=90, last_fetch_timestamp=4, last_caught_up_timestamp=-1)
    subset(unknown, partition_index=1, error_code=3, current_voters=[])
    if version >= 2:
        assert DIRECTORY in body
        (node,) = found["nodes"]
        assert [(listener["host"], listener["port"]) for listener in node["listeners"]] == [("h1", 65_535)]


@pytest.mark.parametrize(
    ("api", "version", "tagged"),
    [
        (Api.DESCRIBE_CLUSTER, 0, True),
        (Api.DESCRIBE_QUORUM, 2, True),
        (Api.LIST_GROUPS, 2, False),
        (Api.LIST_GROUPS, 3, True),
        (Api.DESCRIBE_CONFIGS, 3, False),
        (Api.API_VERSIONS, 3, False),
        (Api.FETCH, 11, False),
        (Api.FETCH, WINDOW[Api.FETCH][1], True),
    ],
)
def test_flexible_answers_have_tags_in_their_header(api: Api, version: int, *, tagged: bool) -> None:
    """An empty set of tags follows the correlation id, but never in the answer to ApiVersions (KIP-511)."""
    header = RequestHeader(api, version, 9, None)
    assert header.flexible_response is tagged
    framed = response(9, b"body", flexible=header.flexible_response)
    assert framed == int32(len(framed) - 4) + int32(9) + (b"\x00" if tagged else b"") + b"body"
