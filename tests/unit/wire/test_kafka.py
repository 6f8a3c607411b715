"""Requests: what kafka-python writes, we read; what nobody should write raises one declared error."""

import uuid
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import PeerError
from quorate.wire import kafka_requests as requests
from quorate.wire.kafka import WINDOW, Api, KafkaFormatError, UnsupportedRequestError, decode_request, frame_size
from quorate.wire.kafka_primitives import MAX_ITEMS, Reader, compact_string, int16, int32, string, uvarint
from tests.unit.wire.kafka_oracle import request_frame

T = TypeVar("T")

names = st.text(max_size=20)
int8s = st.integers(0, 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=20)


def few(items: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    """Up to three of them."""
    return st.lists(items, max_size=3)


REQUESTS: dict[Api, st.SearchStrategy[dict[str, Any]]] = {
    Api.FETCH: st.fixed_dictionaries(
        {
            "replica_id": st.just(-1),
            "max_wait_ms": int32s,
            "min_bytes": int32s,
            "max_bytes": int32s,
            "isolation_level": int8s,
            "session_id": int32s,
            "session_epoch": int32s,
            "topics": few(
                st.fixed_dictionaries(
                    {
                        "topic": names,
                        "topic_id": st.uuids(),
                        "partitions": few(
                            st.fixed_dictionaries(
                                {
                                    "partition": int32s,
                                    "current_leader_epoch": int32s,
                                    "last_fetched_epoch": int32s,
                                    "fetch_offset": int64s,
                                    "log_start_offset": int64s,
                                    "partition_max_bytes": int32s,
                                }
                            )
                        ),
                    }
                )
            ),
            "forgotten_topics_data": few(
                st.fixed_dictionaries({"topic": names, "topic_id": st.uuids(), "partitions": few(int32s)})
            ),
            "rack_id": names,
        }
    ),
    Api.LIST_OFFSETS: st.fixed_dictionaries(
        {
            "replica_id": st.just(-1),
            "isolation_level": int8s,
            "topics": few(
                st.fixed_dictionaries(
                    {
                        "name": names,
                        "partitions": few(
                            st.fixed_dictionaries(
                                {"partition_index": int32s, "current_leader_epoch": int32s, "timestamp": int64s}
                            )
                        ),
                    }
                )
            ),
        }
    ),
    Api.JOIN_GROUP: st.fixed_dictionaries(
        {
            "group_id": names,
            "session_timeout_ms": int32s,
            "rebalance_timeout_ms": int32s,
            "member_id": names,
            "group_instance_id": st.none() | names,
            "protocol_type": names,
            "reason": st.none() | names,
            "protocols": few(st.fixed_dictionaries({"name": names, "metadata": blobs})),
        }
    ),
    Api.SYNC_GROUP: st.fixed_dictionaries(
        {
            "group_id": names,
            "generation_id": int32s,
            "member_id": names,
            "group_instance_id": st.none() | names,
            "protocol_type": st.none() | names,
            "protocol_name": st.none() | names,
            "assignments": few(st.fixed_dictionaries({"member_id": names, "assignment": blobs})),
        }
    ),
    Api.OFFSET_COMMIT: st.fixed_dictionaries(
        {
            "group_id": names,
            "generation_id_or_member_epoch": int32s,
            "member_id": names,
            "group_instance_id": st.none() | names,
            "retention_time_ms": int64s,
            "topics": few(
                st.fixed_dictionaries(
                    {
                        "name": names,
                        "partitions": few(
                            st.fixed_dictionaries(
                                {
                                    "partition_index": int32s,
                                    "committed_offset": int64s,
                                    "committed_leader_epoch": int32s,
                                    "committed_metadata": st.none() | names,
                                }
                            )
                        ),
                    }
                )
            ),
        }
    ),
}


def read(api: Api, version: int, value: dict[str, Any]) -> Any:
    """What we make of kafka-python's bytes."""
    header, request = decode_request(request_frame(api, version, value))
    assert (header.api, header.version, header.correlation_id, header.client_id) == (api, version, 77, "test")
    return request


def versions(api: Api) -> range:
    """All versions of the window."""
    return range(WINDOW[api][0], WINDOW[api][1] + 1)


def test_the_window_is_what_the_stock_clients_were_measured_with() -> None:
    """No key and no version is offered beyond this table; Produce from 0."""
    assert {Api(key).name: window for key, window in WINDOW.items()} == {
        "PRODUCE": (0, 11),
        "FETCH": (4, 17),
        "LIST_OFFSETS": (1, 9),
        "METADATA": (0, 12),
        "OFFSET_COMMIT": (2, 9),
        "OFFSET_FETCH": (1, 9),
        "FIND_COORDINATOR": (0, 6),
        "JOIN_GROUP": (0, 9),
        "HEARTBEAT": (0, 4),
        "LEAVE_GROUP": (0, 5),
        "SYNC_GROUP": (0, 5),
        "DESCRIBE_GROUPS": (0, 5),
        "LIST_GROUPS": (0, 5),
        "SASL_HANDSHAKE": (0, 1),
        "API_VERSIONS": (0, 4),
        "OFFSET_FOR_LEADER_EPOCH": (2, 4),
        "DESCRIBE_CONFIGS": (1, 4),
        "SASL_AUTHENTICATE": (0, 2),
        "DELETE_GROUPS": (0, 2),
        "DESCRIBE_QUORUM": (0, 2),
        "DESCRIBE_CLUSTER": (0, 2),
    }
    assert set(requests.DECODERS) == set(WINDOW)


@given(REQUESTS[Api.FETCH], st.sampled_from(versions(Api.FETCH)))
def test_fetch_is_read_as_written(value: dict[str, Any], version: int) -> None:
    """Every field we keep has the value the client wrote, or the protocol's default where the version lacks it."""
    request = read(Api.FETCH, version, value)
    assert request == requests.FetchRequest(
        value["max_wait_ms"],
        value["min_bytes"],
        value["max_bytes"],
        value["isolation_level"],
        value["session_id"] if version >= 7 else 0,
        tuple(
            (
                topic["topic"] if version < 13 else requests.BY_ID + topic["topic_id"].hex,
                tuple(
                    requests.FetchPartition(p["partition"], p["fetch_offset"], p["partition_max_bytes"])
                    for p in topic["partitions"]
                ),
            )
            for topic in value["topics"]
        ),
        value["rack_id"] if version >= 11 else "",
    )


@given(REQUESTS[Api.LIST_OFFSETS], st.sampled_from(versions(Api.LIST_OFFSETS)))
def test_list_offsets_is_read_as_written(value: dict[str, Any], version: int) -> None:
    """Partitions and timestamps come through in every version."""
    request = read(Api.LIST_OFFSETS, version, value)
    assert request.isolation_level == (value["isolation_level"] if version >= 2 else 0)
    assert request.topics == tuple(
        (t["name"], tuple(requests.OffsetQuery(p["partition_index"], p["timestamp"]) for p in t["partitions"]))
        for t in value["topics"]
    )


@given(REQUESTS[Api.JOIN_GROUP], st.sampled_from(versions(Api.JOIN_GROUP)))
def test_join_group_is_read_as_written(value: dict[str, Any], version: int) -> None:
    """Timeouts, ids and protocols come through; only version 4 and dynamic members of 5 must come twice (KIP-394)."""
    request = read(Api.JOIN_GROUP, version, value)
    instance = value["group_instance_id"] if version >= 5 else None
    assert request == requests.JoinGroupRequest(
        value["group_id"],
        value["session_timeout_ms"],
        value["rebalance_timeout_ms"] if version >= 1 else value["session_timeout_ms"],
        value["member_id"],
        instance,
        value["protocol_type"],
        tuple((p["name"], p["metadata"]) for p in value["protocols"]),
        member_id_required=version >= 4 and instance is None,
    )


@given(REQUESTS[Api.SYNC_GROUP], st.sampled_from(versions(Api.SYNC_GROUP)))
def test_sync_group_is_read_as_written(value: dict[str, Any], version: int) -> None:
    """Generation, ids and assignments come through in every version."""
    request = read(Api.SYNC_GROUP, version, value)
    assert request == requests.SyncGroupRequest(
        value["group_id"],
        value["generation_id"],
        value["member_id"],
        value["group_instance_id"] if version >= 3 else None,
        tuple((a["member_id"], a["assignment"]) for a in value["assignments"]),
        *((value["protocol_type"], value["protocol_name"]) if version >= 5 else (None, None)),
    )


@given(REQUESTS[Api.OFFSET_COMMIT], st.sampled_from(versions(Api.OFFSET_COMMIT)))
def test_offset_commit_is_read_as_written(value: dict[str, Any], version: int) -> None:
    """Positions come through in every version, with the leader epoch from 6 and the instance id from 7."""
    request = read(Api.OFFSET_COMMIT, version, value)
    assert (request.group, request.generation, request.member_id) == (
        value["group_id"],
        value["generation_id_or_member_epoch"],
        value["member_id"],
    )
    assert request.instance_id == (value["group_instance_id"] if version >= 7 else None)
    assert request.topics == tuple(
        (
            t["name"],
            tuple(
                requests.OffsetCommitPartition(
                    p["partition_index"],
                    p["committed_offset"],
                    p["committed_leader_epoch"] if version >= 6 else -1,
                    p["committed_metadata"],
                )
                for p in t["partitions"]
            ),
        )
        for t in value["topics"]
    )


@pytest.mark.parametrize("version", versions(Api.METADATA))
def test_metadata_tells_all_topics_from_none(version: int) -> None:
    """A null list asks for every topic, an empty one for none; but for all in version 0, which had no null."""
    auto = {"allow_auto_topic_creation": True} if version >= 4 else {}
    assert read(Api.METADATA, version, {"topics": None, **auto}) == requests.MetadataRequest(None)
    assert read(Api.METADATA, version, {"topics": [], **auto}) == requests.MetadataRequest(() if version else None)
    assert read(Api.METADATA, version, {"topics": [{"name": "t"}], **auto}) == requests.MetadataRequest(("t",))
    if version >= 10:
        by_id = [{"name": None, "topic_id": uuid.UUID(int=7)}, {"name": "t", "topic_id": uuid.UUID(int=0)}]
        found = read(Api.METADATA, version, {"topics": by_id, **auto})
        assert found == requests.MetadataRequest((f"{requests.BY_ID}{7:032x}", "t"))
        with pytest.raises(KafkaFormatError):
            read(Api.METADATA, version, {"topics": [{"name": f"{requests.BY_ID}t", "topic_id": uuid.UUID(int=0)}]})


@pytest.mark.parametrize("version", versions(Api.SASL_AUTHENTICATE))
def test_a_step_of_signing_in_is_read_and_forgotten(version: int) -> None:
    """The bytes are taken in every version, and not kept."""
    assert read(Api.SASL_AUTHENTICATE, version, {"auth_bytes": b"secret"}) == requests.SaslAuthenticateRequest()
    shake = version % 2
    assert read(Api.SASL_HANDSHAKE, shake, {"mechanism": "PLAIN"}) == requests.SaslHandshakeRequest("PLAIN")


@pytest.mark.parametrize("version", versions(Api.OFFSET_FETCH))
def test_offset_fetch_is_read_as_written(version: int) -> None:
    """The partitions asked for come through; from version 2 null asks for all."""
    for topics, expected in (([{"name": "t", "partition_indexes": [0, 7]}], (("t", (0, 7)),)), (None, None)):
        if topics is None and version < 2:
            continue
        one = {"group_id": "g", "topics": topics}
        value = one if version < 8 else {"groups": [one, {"group_id": "h", "topics": None}]}
        request = read(Api.OFFSET_FETCH, version, value)
        others = () if version < 8 else (requests.GroupPositions("h", None),)
        assert request == requests.OffsetFetchRequest((requests.GroupPositions("g", expected), *others))


@pytest.mark.parametrize("version", versions(Api.OFFSET_FOR_LEADER_EPOCH))
def test_offset_for_leader_epoch_is_read_as_written(version: int) -> None:
    """The epoch asked for comes through, the client's own current epoch is passed over."""
    value = {
        "replica_id": -1,
        "topics": [{"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": 9, "leader_epoch": 4}]}],
    }
    request = read(Api.OFFSET_FOR_LEADER_EPOCH, version, value)
    assert request == requests.OffsetForLeaderEpochRequest((("t", (requests.EpochQuery(0, 4),)),))


@pytest.mark.parametrize("version", versions(Api.PRODUCE))
def test_produce_is_read_without_its_records(version: int) -> None:
    """Acks and partitions come through, whatever the records are."""
    value = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 1,
        "topic_data": [{"name": "t", "partition_data": [{"index": 3, "records": b"not records"}]}],
    }
    assert read(Api.PRODUCE, version, value) == requests.ProduceRequest(-1, (("t", (3,)),))


@pytest.mark.parametrize("version", versions(Api.HEARTBEAT))
def test_heartbeat_is_read_as_written(version: int) -> None:
    """The member that beats is known by its ids."""
    value = {"group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": "i"}
    expected = requests.HeartbeatRequest("g", 3, "m", "i" if version >= 3 else None)
    assert read(Api.HEARTBEAT, version, value) == expected


@pytest.mark.parametrize("version", versions(Api.LEAVE_GROUP))
def test_leave_group_is_read_as_written(version: int) -> None:
    """One member leaves before version 3, any number from there on."""
    value: dict[str, Any] = {"group_id": "g", "member_id": "m"}
    if version >= 3:
        value = {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": "i"}]}
    instance = "i" if version >= 3 else None
    assert read(Api.LEAVE_GROUP, version, value) == requests.LeaveGroupRequest(
        "g", (requests.LeavingMember("m", instance),)
    )


@pytest.mark.parametrize("version", versions(Api.FIND_COORDINATOR))
def test_find_coordinator_is_read_as_written(version: int) -> None:
    """Groups are asked for by default, transactions only when the version can say so."""
    value: dict[str, Any] = {"key": "k", "key_type": 1}
    if version >= 4:
        value = {"coordinator_keys": ["k", "l"], "key_type": 1}
    keys = ("k",) if version < 4 else ("k", "l")
    request = read(Api.FIND_COORDINATOR, version, value)
    assert request == requests.FindCoordinatorRequest(keys, 1 if version >= 1 else 0)


@pytest.mark.parametrize("version", versions(Api.LIST_GROUPS))
def test_list_groups_is_read_as_written(version: int) -> None:
    """The filters are read where a version has them, in any case of letters."""
    value = {"states_filter": ["Stable", "empty"], "types_filter": ["Classic"]}
    asked = {name: value[name] for name, since in (("states_filter", 4), ("types_filter", 5)) if version >= since}
    request = read(Api.LIST_GROUPS, version, asked)
    assert request.states == (("stable", "empty") if version >= 4 else ())
    assert request.types == (("classic",) if version >= 5 else ())


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_GROUPS))
def test_describe_groups_is_read_as_written(version: int) -> None:
    """The groups, whatever else is asked."""
    value: dict[str, Any] = {"groups": ["a", "b"], "include_authorized_operations": True}
    assert read(Api.DESCRIBE_GROUPS, version, value) == requests.DescribeGroupsRequest(("a", "b"))


@pytest.mark.parametrize("version", versions(Api.DELETE_GROUPS))
def test_delete_groups_is_read_as_written(version: int) -> None:
    """The names."""
    value = {"groups_names": ["a", "b"]}
    assert read(Api.DELETE_GROUPS, version, value) == requests.DeleteGroupsRequest(("a", "b"))


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_CONFIGS))
def test_describe_configs_is_read_as_written(version: int) -> None:
    """Kind, name, and which keys: null means all."""
    value = {
        "resources": [
            {"resource_type": 2, "resource_name": "t", "configuration_keys": None},
            {"resource_type": 4, "resource_name": "1", "configuration_keys": ["a", "b"]},
        ],
        "include_synonyms": True,
        "include_documentation": True,
    }
    expected = (requests.ConfigQuery(2, "t", None), requests.ConfigQuery(4, "1", ("a", "b")))
    assert read(Api.DESCRIBE_CONFIGS, version, value) == requests.DescribeConfigsRequest(expected)


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_CLUSTER))
def test_describe_cluster_is_read_as_written(version: int) -> None:
    """Before version 1 it is about brokers."""
    value = {"include_cluster_authorized_operations": True, "endpoint_type": 2, "include_fenced_brokers": True}
    request = read(Api.DESCRIBE_CLUSTER, version, value)
    assert request == requests.DescribeClusterRequest(2 if version >= 1 else 1)


@pytest.mark.parametrize("version", versions(Api.DESCRIBE_QUORUM))
def test_describe_quorum_is_read_as_written(version: int) -> None:
    """Topics and partitions."""
    value = {
        "topics": [
            {"topic_name": "a", "partitions": [{"partition_index": 0}, {"partition_index": 7}]},
            {"topic_name": "b", "partitions": []},
        ]
    }
    assert read(Api.DESCRIBE_QUORUM, version, value).topics == (("a", (0, 7)), ("b", ()))


def test_api_versions_3_is_flexible() -> None:
    """Its header and body have tagged fields; unknown tags are passed over."""
    value = {"client_software_name": "a-client", "client_software_version": "1.0"}
    assert read(Api.API_VERSIONS, 3, value) == requests.ApiVersionsRequest("a-client", "1.0")
    frame = int16(18) + int16(3) + int32(77) + string("test") + b"\x01\x05\x02hi" + b"\x02a\x02b" + b"\x01\x07\x01!"
    assert decode_request(frame)[1] == requests.ApiVersionsRequest("a", "b")


@pytest.mark.parametrize(("api", "version"), [(18, 5), (18, -1), (0, 12), (1, 3), (1, 18), (3, 14), (22, 0), (19, 4)])
def test_outside_the_window_the_header_is_still_known(api: int, version: int) -> None:
    """An unserved key or version names itself, so that ApiVersions can be answered with error 35."""
    with pytest.raises(UnsupportedRequestError) as refused:
        decode_request(int16(api) + int16(version) + int32(5) + string("c") + b"whatever")
    assert (refused.value.header.api, refused.value.header.version) == (api, version)
    assert refused.value.header.correlation_id == 5


@given(REQUESTS[Api.FETCH], st.sampled_from(versions(Api.FETCH)))
def test_the_same_fetch_of_two_consumers_keeps_their_own_numbers(value: dict[str, Any], version: int) -> None:
    """A Fetch is decoded once for all who send it; each gets its own correlation id back."""
    frame = request_frame(Api.FETCH, version, value)
    found = [decode_request(frame[:4] + int32(number) + frame[8:]) for number in (7, -8)]
    assert [header.correlation_id for header, _ in found] == [7, -8]
    assert [header.client_id for header, _ in found] == ["test", "test"]
    assert found[0][1] == found[1][1] == decode_request(frame)[1]


@given(st.sampled_from(sorted(REQUESTS)), st.data())
def test_every_cut_is_a_format_error(api: Api, data: st.DataObject) -> None:
    """A request cut short anywhere raises KafkaFormatError and nothing else; bytes behind it are passed over."""
    value, version = data.draw(REQUESTS[api]), data.draw(st.sampled_from(versions(api)))
    frame = request_frame(api, version, value)
    for size in range(len(frame)):
        with pytest.raises(KafkaFormatError):
            decode_request(frame[:size])
    assert decode_request(frame + b"\x00\x01") == decode_request(frame)


@pytest.mark.parametrize("count", [MAX_ITEMS + 1, 2**31 - 1, -2, -(2**31)])
def test_a_huge_array_is_refused_before_it_is_built(count: int) -> None:
    """A length that the frame cannot hold, or above the limit, is an error at once."""
    head = int16(Api.METADATA) + int16(1) + int32(1) + string("c")
    with pytest.raises(KafkaFormatError):
        decode_request(head + int32(count) + b"\x00\x00" * min(max(count, 0), 20_000))


def test_all_arrays_of_a_request_share_one_limit() -> None:
    """Many small arrays cannot add up to more than one large one may hold."""
    topic = string("t") + int32(100) + int32(0) * 100
    head = int16(Api.OFFSET_FETCH) + int16(1) + int32(1) + string("c") + string("g")
    with pytest.raises(KafkaFormatError, match="array elements"):
        decode_request(head + int32(101) + topic * 101)


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 10])
def test_a_varint_of_more_than_32_bits_is_refused(data: bytes) -> None:
    """No compact length can ask for more than the protocol knows."""
    with pytest.raises(KafkaFormatError):
        Reader(data).uvarint()


@given(st.integers(0, 2**32 - 1))
def test_varints_are_read_as_written(value: int) -> None:
    """Seven bits at a time, least significant first."""
    data, left = bytearray(), value
    while left >= 0x80:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    assert Reader(bytes(data)).uvarint() == value


def test_text_must_be_utf_8() -> None:
    """A string of other bytes is a format error, not a UnicodeDecodeError."""
    with pytest.raises(KafkaFormatError, match="UTF-8"):
        decode_request(int16(3) + int16(1) + int32(1) + int16(2) + b"\xff\xfe" + int32(-1))


@pytest.mark.parametrize("nullable", [False, True])
def test_a_string_is_no_longer_than_either_form_can_say(nullable: bool) -> None:
    """What a client sends in the compact form may have to be told another in the old one."""

    def read(size: int) -> str | None:
        reader = Reader(compact_string("x" * size))
        return reader.compact_nullable_string() if nullable else reader.compact_string()

    longest = read(32_767)
    assert longest is not None
    assert Reader(string(longest)).string() == longest
    with pytest.raises(KafkaFormatError, match="32768 bytes"):
        read(32_768)


@pytest.mark.parametrize("size", [-1, 0, 9, 1001, 2**31 - 1])
def test_a_frame_of_a_hostile_size_is_refused(size: int) -> None:
    """Sizes below a header or above the limit never get a buffer."""
    with pytest.raises(KafkaFormatError):
        frame_size(int32(size), 1000)


def test_a_frame_is_waited_for() -> None:
    """Until its length is there nothing is known; then its size is."""
    assert frame_size(b"\x00\x00\x00", 1000) is None
    assert frame_size(int32(1000) + b"x", 1000) == 1000


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_peer_errors(data: bytes) -> None:
    """Whatever arrives, the decoder returns a request or raises a PeerError."""
    for key, (oldest, newest) in WINDOW.items():
        for version in (oldest, newest):
            try:
                _, request = decode_request(int16(key) + int16(version) + int32(1) + int16(-1) + data)
            except PeerError:
                continue
            assert isinstance(request, msgspec.Struct)


def test_an_array_that_may_not_be_null_is_refused() -> None:
    """Length -1 where the protocol has no null is a format error."""
    reader = Reader(b"\xff\xff\xff\xff")
    with pytest.raises(KafkaFormatError):
        reader.array(reader.int32)


@given(st.integers(0, 2**32 - 1), st.text(max_size=300))
def test_what_is_written_with_a_short_length_is_read_back(number: int, text: str) -> None:
    """UNSIGNED_VARINT takes as many bytes as it needs, also in front of a COMPACT_STRING."""
    reader = Reader(uvarint(number) + compact_string(text))
    assert (reader.uvarint(), reader.compact_string()) == (number, text)
