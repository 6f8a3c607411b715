"""A client that speaks the newest versions only: compact lengths, tags, topics by id; from the first question on."""

import uuid
from typing import Any

import pytest

from quorate.gateway.kafka.reading import topic_id
from quorate.wire.kafka import WINDOW, Api, ErrorCode
from tests.kafka_tools.fakes import START_MS, TOPIC, ServedLog
from tests.kafka_tools.raw import Client, fetch, fetched
from tests.unit.gateway.kafka.test_server import offsets, serving

ID = uuid.UUID(bytes=topic_id("test-cluster", TOPIC))
ELSE = uuid.UUID(int=5)


def newest(client: Client, api: Api, value: dict[str, Any]) -> dict[str, Any]:
    """Ask in the newest version there is."""
    return client.ask(api, WINDOW[api][1], value)


def by_id(offset: int, topic: uuid.UUID = ID, **how: Any) -> dict[str, Any]:
    """An ordinary fetch, the topic named by its id."""
    asked = fetch(offset, **how)
    asked["topics"] = [{**asked["topics"][0], "topic_id": topic}]
    return asked


def joined(client: Client, group: str = "g") -> dict[str, Any]:
    """Become the one member of a group: told an id first, then the leader."""
    value = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"s"}],
        "reason": "it begins",
    }
    promised = newest(client, Api.JOIN_GROUP, value)
    assert promised["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    found = newest(client, Api.JOIN_GROUP, {**value, "member_id": promised["member_id"]})
    assert (found["error_code"], found["protocol_type"], found["protocol_name"]) == (0, "consumer", "range")
    assert found["leader"] == found["member_id"]
    assert found["skip_assignment"] is False
    return found


def synced(client: Client, member: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Give oneself everything."""
    value = {
        "group_id": "g",
        "generation_id": member["generation_id"],
        "member_id": member["member_id"],
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member["member_id"], "assignment": b"everything"}],
    }
    return newest(client, Api.SYNC_GROUP, value | how)


def test_a_topic_is_found_and_read_by_its_id() -> None:
    """Metadata tells the id, the same on every node; Metadata and Fetch take it; any other is unknown (100)."""
    with serving(2) as (served, client):
        served.append(3)
        assert newest(client, Api.API_VERSIONS, {"client_software_name": "c", "client_software_version": "1"})[
            "api_keys"
        ]
        second = Client(served.ports[1])
        for each in (client, second):
            (topic,) = newest(each, Api.METADATA, {"topics": None})["topics"]
            assert (topic["name"], topic["topic_id"], topic["error_code"]) == (TOPIC, ID, 0)
            assert topic["partitions"][0]["leader_epoch"] == -1
        second.socket.close()
        asked = [{"name": None, "topic_id": ID}, {"name": None, "topic_id": ELSE}, {"name": "other", "topic_id": ELSE}]
        ours, unheard, other = newest(client, Api.METADATA, {"topics": asked})["topics"]
        assert (ours["name"], ours["error_code"]) == (TOPIC, 0)
        assert (unheard["name"], unheard["topic_id"], unheard["error_code"]) == (None, ELSE, ErrorCode.UNKNOWN_TOPIC_ID)
        assert (other["name"], other["error_code"]) == ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for version in range(13, WINDOW[Api.FETCH][1] + 1):
            answer = client.ask(Api.FETCH, version, by_id(1))
            assert answer["responses"][0]["topic_id"] == ID
            assert offsets(fetched(answer)["records"]) == [1, 2]
        for topic, error in ((ELSE, ErrorCode.UNKNOWN_TOPIC_ID), (uuid.UUID(int=0), ErrorCode.UNKNOWN_TOPIC_ID)):
            assert fetched(newest(client, Api.FETCH, by_id(0, topic, wait_ms=30_000)))["error_code"] == error
        wrong = fetched(newest(client, Api.FETCH, by_id(0, partition=1)))
        assert wrong["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert fetched(newest(client, Api.FETCH, by_id(1 << 40)))["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
        client.send(Api.FETCH, WINDOW[Api.FETCH][1], by_id(3, wait_ms=30_000))
        served.append()
        assert offsets(fetched(client.receive())["records"]) == [3]


def test_another_cluster_s_topic_has_another_id() -> None:
    """So that a client that is pointed elsewhere does not go on as if it were the same log."""
    assert topic_id("other", TOPIC) != ID.bytes != topic_id("test-cluster", "other")


def test_a_group_lives_in_the_newest_versions() -> None:
    """It joins, syncs, commits, beats, is described, leaves, is deleted; positions of several groups come together."""
    with serving() as (served, client):
        served.append(9)
        found = newest(client, Api.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g", "h", "g"]})
        assert [(c["key"], c["node_id"], c["error_code"]) for c in found["coordinators"]] == [("g", 1, 0), ("h", 1, 0)]
        member = joined(client)
        told = synced(client, member)
        assert (told["error_code"], told["assignment"], told["protocol_name"]) == (0, b"everything", "range")
        who = {
            "group_id": "g",
            "generation_id": member["generation_id"],
            "member_id": member["member_id"],
            "group_instance_id": None,
        }
        at = {
            "partition_index": 0,
            "committed_offset": 7,
            "committed_leader_epoch": -1,
            "committed_metadata": "note",
        }
        topics = [{"name": TOPIC, "partitions": [at]}]
        commit = {**who, "generation_id_or_member_epoch": member["generation_id"], "topics": topics}
        del commit["generation_id"]
        kept = newest(client, Api.OFFSET_COMMIT, commit)["topics"][0]["partitions"][0]
        assert kept["error_code"] == 0
        assert newest(client, Api.HEARTBEAT, who)["error_code"] == 0
        (described,) = newest(client, Api.DESCRIBE_GROUPS, {"groups": ["g"]})["groups"]
        assert (described["group_state"], len(described["members"])) == ("Stable", 1)
        asked = [{"group_id": "g", "topics": None}, {"group_id": "unheard", "topics": None}]
        first, second = newest(client, Api.OFFSET_FETCH, {"groups": asked, "require_stable": True})["groups"]
        assert first["topics"][0]["partitions"][0]["committed_offset"] == 7
        assert (second["group_id"], second["topics"], second["error_code"]) == ("unheard", [], 0)
        leaving = {"member_id": member["member_id"], "group_instance_id": None, "reason": "it ends"}
        left = newest(client, Api.LEAVE_GROUP, {"group_id": "g", "members": [leaving]})
        assert [m["error_code"] for m in left["members"]] == [0]
        (deleted,) = newest(client, Api.DELETE_GROUPS, {"groups_names": ["g"]})["results"]
        assert deleted["error_code"] == 0


def test_a_member_that_believes_another_protocol_was_chosen_is_told_so() -> None:
    """Error 23 (KIP-559); one that does not say is served."""
    with serving() as (_, client):
        member = joined(client)
        for wrong in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
            assert synced(client, member, **wrong)["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert synced(client, member, protocol_type=None, protocol_name=None)["error_code"] == 0


def test_an_answer_about_many_groups_has_an_end() -> None:
    """One group is always told; when the limit is passed the rest is to be asked for again (14)."""
    with serving(describe_bytes_max=100) as (served, client):
        served.append(2)
        for group in "abc":
            at = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m" * 200}
            asked = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
            newest(client, Api.OFFSET_COMMIT, {**asked, "topics": [{"name": TOPIC, "partitions": [at]}]})
        groups = [{"group_id": group, "topics": None} for group in "abca"]
        found = newest(client, Api.OFFSET_FETCH, {"groups": groups, "require_stable": False})["groups"]
        assert [(g["group_id"], g["error_code"], len(g["topics"])) for g in found] == [
            ("a", 0, 1),
            ("b", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
            ("c", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        ]


@pytest.mark.parametrize(
    ("version", "timestamp", "expected"),
    [
        (6, -3, (ErrorCode.UNSUPPORTED_VERSION, -1)),
        (7, -3, (ErrorCode.NONE, 2)),
        (7, -4, (ErrorCode.UNSUPPORTED_VERSION, -1)),
        (8, -4, (ErrorCode.NONE, 0)),
        (8, -5, (ErrorCode.UNSUPPORTED_VERSION, -1)),
        (9, -5, (ErrorCode.NONE, -1)),
        (9, -6, (ErrorCode.UNSUPPORTED_VERSION, -1)),
    ],
)
def test_special_times_come_with_their_versions(version: int, timestamp: int, expected: tuple[int, int]) -> None:
    """The greatest time (KIP-734) is the last entry's, and the first event that has it is told; no tier is remote."""

    def ask(client: Client) -> dict[str, Any]:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        value = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": [partition]}]}
        found: dict[str, Any] = client.ask(Api.LIST_OFFSETS, version, value)["topics"][0]["partitions"][0]
        return found

    with ServedLog() as served:
        client = Client(served.ports[0])
        empty = ask(client)
        assert empty["error_code"] == expected[0]
        assert empty["offset"] == (0 if timestamp == -4 and not expected[0] else -1)
        served.append(1, 2)
        served.append(1, 3)
        found = ask(client)
        assert (found["error_code"], found["offset"]) == expected
        assert found["timestamp"] == (START_MS + 1000 if timestamp == -3 and not expected[0] else -1)
        client.socket.close()
