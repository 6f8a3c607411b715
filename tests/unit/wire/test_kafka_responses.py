"""Responses: kafka-python reads what we write, byte for byte, in every version of the window."""

import uuid
from typing import Any

import pytest

from quorate.wire import kafka_responses as responses
from quorate.wire.kafka import WINDOW, Api, ErrorCode
from quorate.wire.kafka_primitives import int32
from quorate.wire.kafka_requests import BY_ID
from quorate.wire.kafka_responses import (
    BrokerAddress,
    CommittedOffset,
    EpochEnd,
    FetchedPartition,
    FoundOffset,
    JoinedGroup,
    TopicView,
)
from tests.unit.wire.kafka_oracle import decoded


def all_versions(*apis: Api) -> pytest.MarkDecorator:
    """Run a test for each version of these keys."""
    cases = [(api, version) for api in apis for version in range(WINDOW[api][0], WINDOW[api][1] + 1)]
    return pytest.mark.parametrize(("api", "version"), cases, ids=[f"{a.name}-{v}" for a, v in cases])


ID = bytes(range(16))
"""Of a topic."""


def subset(found: dict[str, Any], **expected: Any) -> None:
    """The fields this version has are as expected."""
    for name, value in expected.items():
        if name in found:
            assert found[name] == value, name


def test_a_response_begins_with_its_length_and_correlation_id() -> None:
    """The frame is length, correlation id, body; the length counts neither itself nor more."""
    assert responses.response(77, b"body") == int32(8) + int32(77) + b"body"


@all_versions(Api.API_VERSIONS)
def test_api_versions(api: Api, version: int) -> None:
    """The whole window is told, in every version, flexible or not."""
    found = decoded(api, version, responses.api_versions(version, WINDOW))
    told = {key["api_key"]: (key["min_version"], key["max_version"]) for key in found["api_keys"]}
    assert told == {int(key): window for key, window in WINDOW.items()}
    assert found["error_code"] == 0


def test_an_unsupported_api_versions_is_told_in_version_0() -> None:
    """Error 35 comes with the list, so that the client may choose again (KIP-511)."""
    found = decoded(Api.API_VERSIONS, 0, responses.api_versions(0, WINDOW, ErrorCode.UNSUPPORTED_VERSION))
    assert found["error_code"] == 35
    assert len(found["api_keys"]) == len(WINDOW)


@all_versions(Api.METADATA)
def test_metadata(api: Api, version: int) -> None:
    """Brokers, racks, cluster, controller, topics and their one partition come through."""
    brokers = [BrokerAddress(1, "h1", 9092, "node-1"), BrokerAddress(2, "h2", 9093)]
    topics = [
        TopicView(ErrorCode.NONE, "t", 2, (1, 2, 3), offline=(1, 3), topic_id=ID),
        TopicView(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "other"),
        TopicView(ErrorCode.NONE, "leaderless", -1, (1, 2), ErrorCode.LEADER_NOT_AVAILABLE),
    ]
    found = decoded(api, version, responses.metadata(version, brokers, "cluster", 2, topics))
    expected = [
        {"node_id": 1, "host": "h1", "port": 9092, "rack": "node-1"},
        {"node_id": 2, "host": "h2", "port": 9093, "rack": None},
    ]
    if version == 0:
        expected = [{"node_id": b["node_id"], "host": b["host"], "port": b["port"]} for b in expected]
    assert found["brokers"] == expected
    subset(found, throttle_time_ms=0, cluster_id="cluster", controller_id=2)
    known, unknown, leaderless = found["topics"]
    assert (known["error_code"], known["name"]) == (0, "t")
    subset(known, topic_id=uuid.UUID(bytes=ID))
    subset(known["partitions"][0], leader_epoch=-1)
    subset(known, is_internal=False)
    (partition,) = known["partitions"]
    subset(
        partition,
        error_code=0,
        partition_index=0,
        leader_id=2,
        replica_nodes=[1, 2, 3],
        isr_nodes=[2],
        offline_replicas=[1, 3],
    )
    assert (unknown["error_code"], unknown["name"], unknown["partitions"]) == (3, "other", [])
    assert (leaderless["partitions"][0]["error_code"], leaderless["partitions"][0]["leader_id"]) == (5, -1)


@pytest.mark.parametrize("version", [10, 11, 12])
def test_a_topic_asked_for_by_its_id(version: int) -> None:
    """One that is not known is told by that id; it has no name, which the last version can say."""
    topics = [TopicView(ErrorCode.UNKNOWN_TOPIC_ID, BY_ID + ID.hex())]
    (found,) = decoded(Api.METADATA, version, responses.metadata(version, [], "c", -1, topics))["topics"]
    assert (found["error_code"], found["topic_id"]) == (100, uuid.UUID(bytes=ID))
    assert found["name"] == (None if version == 12 else "")


@all_versions(Api.LIST_OFFSETS)
def test_list_offsets(api: Api, version: int) -> None:
    """Offset, time and error of each partition come through; there is no leader epoch."""
    asked = [("t", [FoundOffset(0, 0, 123, 45), FoundOffset(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])]
    found = decoded(api, version, responses.list_offsets(version, asked))
    first, second = found["topics"][0]["partitions"]
    subset(first, partition_index=0, error_code=0, timestamp=123, offset=45, leader_epoch=-1)
    subset(second, partition_index=1, error_code=3, timestamp=-1, offset=-1, leader_epoch=-1)


@all_versions(Api.FETCH)
@pytest.mark.parametrize("isolation", [0, 1])
def test_fetch(api: Api, version: int, isolation: int) -> None:
    """Records and offsets come through; read-committed clients are told that nothing was aborted."""
    parts = [FetchedPartition(0, 0, 50, 3, b"batches", 2)]
    topic_id = uuid.UUID(int=7)
    name = "t" if version < 13 else BY_ID + topic_id.hex
    found = decoded(api, version, responses.fetch(version, [(name, parts)], isolation))
    subset(found, throttle_time_ms=0, error_code=0, session_id=0)
    subset(found["responses"][0], topic="t", topic_id=topic_id)
    (partition,) = found["responses"][0]["partitions"]
    subset(
        partition,
        partition_index=0,
        error_code=0,
        high_watermark=50,
        last_stable_offset=50,
        log_start_offset=3,
        aborted_transactions=[] if isolation else None,
        preferred_read_replica=2,
        records=b"batches",
    )


@all_versions(Api.PRODUCE)
def test_produce_refused(api: Api, version: int) -> None:
    """Every partition gets the error, and the reason where the version has room for it."""
    body = responses.produce_refused(version, [("t", [0, 1])], ErrorCode.TOPIC_AUTHORIZATION_FAILED, "read-only")
    found = decoded(api, version, body)
    assert [p["error_code"] for p in found["responses"][0]["partition_responses"]] == [29, 29]
    subset(found["responses"][0]["partition_responses"][1], index=1, base_offset=-1, error_message="read-only")


@all_versions(Api.OFFSET_FOR_LEADER_EPOCH)
def test_offset_for_leader_epoch(api: Api, version: int) -> None:
    """The epoch and its end come through."""
    body = responses.offset_for_leader_epoch(version, [("t", [EpochEnd(0, 0, 4, 99), EpochEnd(1, 3)])])
    first, second = decoded(api, version, body)["topics"][0]["partitions"]
    assert (first["error_code"], first["leader_epoch"], first["end_offset"]) == (0, 4, 99)
    assert (second["error_code"], second["leader_epoch"], second["end_offset"]) == (3, -1, -1)


@all_versions(Api.FIND_COORDINATOR)
def test_find_coordinator(api: Api, version: int) -> None:
    """The coordinator's address comes through, or an error and no address."""
    keys = ["a", "b"] if version >= 4 else ["a"]
    body = responses.find_coordinator(version, keys, BrokerAddress(3, "h", 9094))
    body_of_none = responses.find_coordinator(version, keys, None, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found, none = decoded(api, version, body), decoded(api, version, body_of_none)
    if version >= 4:
        assert [one["key"] for one in found["coordinators"]] == keys
        found, none = found["coordinators"][1], none["coordinators"][1]
    subset(found, error_code=0, error_message=None, node_id=3, host="h", port=9094)
    subset(none, error_code=15, node_id=-1, host="", port=-1)


@all_versions(Api.JOIN_GROUP)
def test_join_group(api: Api, version: int) -> None:
    """Generation, protocol, leader and, for the leader, everybody's subscription come through."""
    joined = JoinedGroup(0, "m1", 4, "range", "m1", (("m1", None, b"s1"), ("m2", "i2", b"s2")), "consumer")
    found = decoded(api, version, responses.join_group(version, joined))
    subset(found, error_code=0, generation_id=4, protocol_name="range", leader="m1", member_id="m1")
    subset(found, protocol_type="consumer", skip_assignment=False)
    assert [(m["member_id"], m["metadata"]) for m in found["members"]] == [("m1", b"s1"), ("m2", b"s2")]
    if version >= 5:
        assert [m["group_instance_id"] for m in found["members"]] == [None, "i2"]
    refused = decoded(api, version, responses.join_group(version, JoinedGroup(ErrorCode.MEMBER_ID_REQUIRED, "m")))
    subset(refused, error_code=79, generation_id=-1, member_id="m", members=[])


@all_versions(Api.SASL_HANDSHAKE)
def test_sasl_handshake(api: Api, version: int) -> None:
    """The error, and no mechanism."""
    assert decoded(api, version, responses.sasl_handshake_refused(34)) == {"error_code": 34, "mechanisms": []}


@all_versions(Api.SASL_AUTHENTICATE)
def test_sasl_authenticate(api: Api, version: int) -> None:
    """The error with its message."""
    found = decoded(api, version, responses.sasl_authenticate_refused(version, 34, "plaintext"))
    subset(found, error_code=34, error_message="plaintext", auth_bytes=b"", session_lifetime_ms=0)


@all_versions(Api.SYNC_GROUP)
def test_sync_group(api: Api, version: int) -> None:
    """The assignment comes through."""
    found = decoded(api, version, responses.sync_group(version, 0, b"mine", ("consumer", "range")))
    subset(found, error_code=0, assignment=b"mine", throttle_time_ms=0, protocol_type="consumer", protocol_name="range")


@all_versions(Api.HEARTBEAT)
def test_heartbeat(api: Api, version: int) -> None:
    """The error comes through."""
    assert decoded(api, version, responses.heartbeat(version, 27))["error_code"] == 27


@all_versions(Api.LEAVE_GROUP)
def test_leave_group(api: Api, version: int) -> None:
    """One error before version 3, one for each member from there on."""
    found = decoded(api, version, responses.leave_group(version, [("m", "i", 25)]))
    if version < 3:
        assert found["error_code"] == 25
    else:
        assert found["error_code"] == 0
        assert found["members"] == [{"member_id": "m", "group_instance_id": "i", "error_code": 25}]


@all_versions(Api.OFFSET_COMMIT)
def test_offset_commit(api: Api, version: int) -> None:
    """Each partition has its own error."""
    found = decoded(api, version, responses.offset_commit(version, [("t", [(0, 0), (1, 3)])]))
    assert found["topics"][0]["name"] == "t"
    assert [(p["partition_index"], p["error_code"]) for p in found["topics"][0]["partitions"]] == [(0, 0), (1, 3)]


@all_versions(Api.OFFSET_FETCH)
def test_offset_fetch(api: Api, version: int) -> None:
    """Kept positions come through, with the epoch from version 5; an error is told where the version looks for it."""
    topics = [("t", [CommittedOffset(0, 42, 3, "note"), CommittedOffset(1)])]
    groups = [("g", topics, 0), ("h", [], ErrorCode.GROUP_AUTHORIZATION_FAILED)][: 2 if version >= 8 else 1]
    found = decoded(api, version, responses.offset_fetch(version, groups))
    if version >= 8:
        assert [(g["group_id"], g["error_code"]) for g in found["groups"]] == [("g", 0), ("h", 30)]
        found = found["groups"][0]
    first, second = found["topics"][0]["partitions"]
    subset(first, committed_offset=42, committed_leader_epoch=3, metadata="note", error_code=0)
    subset(second, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=0)
    failed = decoded(api, version, responses.offset_fetch(version, [("g", topics, ErrorCode.NOT_COORDINATOR)]))
    failed = failed["groups"][0] if version >= 8 else failed
    assert failed["topics"][0]["partitions"][0]["error_code"] == 16
    subset(failed, error_code=16)
