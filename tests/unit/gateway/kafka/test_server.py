"""The listener over real sockets: the answers to every call, in order, in limits; and what a bad client gets."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quorate.errors import UsageError
from quorate.gateway.kafka import KafkaNode, KafkaSettings, group_rows
from quorate.gateway.kafka.group_rows import KeptOffset
from quorate.gateway.kafka.reading import end_of_epoch
from quorate.wire.avro import decode_events
from quorate.wire.kafka import WINDOW, Api, ErrorCode
from quorate.wire.kafka_primitives import int16, int32, string
from quorate.wire.records import scan
from tests.kafka_tools.fakes import START_MS, TOPIC, FakeLedger, ServedLog
from tests.kafka_tools.raw import Client, fetch, fetched
from tests.unit.wire.kafka_oracle import request_frame

FETCH = 11


def offsets(records: bytes) -> list[int]:
    """Offsets of all events in a fetch's records."""
    infos = list(scan(records))
    return [offset for info in infos for offset in range(info.base_offset, info.last_offset + 1)]


def list_offsets(timestamp: int, partition: int = 0) -> dict[str, Any]:
    """Ask for one offset."""
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": [asked]}]}


def found_offset(answer: dict[str, Any]) -> tuple[int, int, int]:
    """(error, offset, time) of the one partition."""
    partition = answer["topics"][0]["partitions"][0]
    return partition["error_code"], partition["offset"], partition["timestamp"]


def epoch_query(epoch: int) -> dict[str, Any]:
    """Ask where one epoch ends."""
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    return {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [asked]}]}


@contextlib.contextmanager
def serving(nodes: int = 1, **limits: Any) -> Iterator[tuple[ServedLog, Client]]:
    """A log with its listeners, and a client of the first."""
    with ServedLog(nodes, KafkaSettings(**limits)) as served:
        client = Client(served.ports[0])
        try:
            yield served, client
        finally:
            client.socket.close()


def test_any_offset_of_a_batch_fetches_the_whole_batch() -> None:
    """Records begin with the batch that holds the offset, and go on to the end, ready to be decoded."""
    with serving() as (served, client):
        served.append(10, 3)
        for offset in range(30):
            found = fetched(client.ask(Api.FETCH, FETCH, fetch(offset)))
            assert offsets(found["records"]) == list(range(offset // 3 * 3, 30))
            assert (found["error_code"], found["high_watermark"], found["log_start_offset"]) == (0, 30, 0)
        stamp, _ = decode_events(served.log.batches[9])[0]
        assert stamp.offset == 27


def test_a_fetch_of_what_left_memory_waits_for_it_and_holds_up_nobody() -> None:
    """It is answered when what it asks for is at hand; meanwhile others are served. A client that is gone by then is
    answered nothing.
    """
    with serving() as (served, client):
        served.append(10, 3)
        served.log.in_memory_from = 15
        client.send(Api.FETCH, FETCH, fetch(0))
        other = Client(served.ports[0])
        gone = Client(served.ports[0])
        gone.send(Api.FETCH, FETCH, fetch(1))
        assert offsets(fetched(other.ask(Api.FETCH, FETCH, fetch(15)))["records"]) == list(range(15, 30))

        async def waiting() -> int:
            return len(served.log.asked)

        async def read() -> None:
            for done in served.log.asked:
                done()

        while served.do(waiting()) < 2:
            pass
        gone.socket.close()
        served.do(read())
        assert offsets(fetched(client.receive())["records"]) == list(range(30))
        other.socket.close()


def test_an_error_behind_a_read_costs_its_connection_alone() -> None:
    """Whatever is raised where an answer is made, or in a request behind it, ends that client's connection; who told of
    the read is told of no error, and others are served.
    """
    with serving() as (served, client):
        served.append(10, 3)
        served.log.in_memory_from = 15
        client.send(Api.FETCH, FETCH, fetch(0))

        async def waiting() -> int:
            return len(served.log.asked)

        async def read() -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.delattr(served.log, "batches")
                served.log.asked[0]()

        while not served.do(waiting()):
            pass
        served.do(read())
        assert client.closed()
        other = Client(served.ports[0])
        assert offsets(fetched(other.ask(Api.FETCH, FETCH, fetch(15)))["records"]) == list(range(15, 30))
        other.socket.close()


@pytest.mark.parametrize("version", range(4, 13))
def test_every_fetch_version_has_the_same_records(version: int) -> None:
    """Nothing but the envelope changes with the version."""
    with serving() as (served, client):
        served.append(3, 2)
        found = fetched(client.ask(Api.FETCH, version, fetch(2)))
        assert offsets(found["records"]) == [2, 3, 4, 5]


def test_a_fetch_is_bounded_but_never_empty() -> None:
    """Limits of client and server hold for all batches but the first, which always comes whole."""
    with serving(fetch_bytes_max=2_000, fetch_bytes_min=1) as (served, client):
        served.append(50, 4)
        one = len(served.log.batches[0])
        for how in ({"max_bytes": 1}, {"partition_bytes": 1}, {"max_bytes": one + 10}):
            assert offsets(fetched(client.ask(Api.FETCH, FETCH, fetch(0, **how)))["records"]) == [0, 1, 2, 3]
        most = fetched(client.ask(Api.FETCH, FETCH, fetch(0)))["records"]
        assert one < len(most) <= 2_000


@pytest.mark.parametrize("how", [{"max_bytes": 1}, {"partition_bytes": 1}, {"max_bytes": 0}, {"partition_bytes": -1}])
def test_a_fetch_of_one_byte_is_a_fair_one(how: dict[str, int]) -> None:
    """Entries are small batches: who asks for less than ``fetch_bytes_min`` gets that much, not an event a round trip.
    What the node itself allows stays the limit.
    """
    with serving(fetch_bytes_min=4_000) as (served, client):
        served.append(200)
        records = fetched(client.ask(Api.FETCH, FETCH, fetch(0, **how)))["records"]
        assert 3_000 < len(records) <= 4_000
        assert len(offsets(records)) > 10
    with serving(fetch_bytes_min=4_000, fetch_bytes_max=1_000) as (served, client):
        served.append(200)
        assert len(fetched(client.ask(Api.FETCH, FETCH, fetch(0, **how)))["records"]) <= 1_000


def test_at_the_end_and_where_others_are_there_is_nothing_yet() -> None:
    """An offset this node has not reached, but the leader has, is not an error: no records, our high watermark. So is
    any offset while nobody can say where the log ends.
    """
    with serving() as (served, client):
        served.append(2)
        served.views[0].ahead = 5
        for offset in (2, 3, 7):
            found = fetched(client.ask(Api.FETCH, FETCH, fetch(offset)))
            assert (found["error_code"], found["high_watermark"], found["records"]) == (0, 2, b"")
        served.views[0].confirmable = False
        found = fetched(client.ask(Api.FETCH, FETCH, fetch(1 << 40)))
        assert (found["error_code"], found["records"]) == (0, b"")


def test_beyond_the_log_is_out_of_range() -> None:
    """An offset that the leader has not reached either is error 1 at once, however long the client would wait: its
    reset policy decides, where it would have waited for ever. One event short of that is a wait, as ever.
    """
    with serving() as (served, client):
        served.append(2)
        served.views[0].ahead = 5
        for offset in (8, 1 << 40, 2**63 - 1):
            found = fetched(client.ask(Api.FETCH, FETCH, fetch(offset, wait_ms=30_000)))
            assert (found["error_code"], found["high_watermark"], found["records"]) == (1, 2, b"")
        client.send(Api.FETCH, FETCH, fetch(2, wait_ms=30_000))
        served.append()
        assert offsets(fetched(client.receive())["records"]) == [2]


def test_who_left_while_the_leader_was_asked_is_not_parked() -> None:
    """The answer comes to nobody, and nothing is kept."""
    with serving() as (served, client):
        asked: list[Any] = []
        served.views[0].confirmed_end = asked.append  # type: ignore[method-assign, assignment]
        client.send(Api.FETCH, FETCH, fetch(5, wait_ms=30_000))
        while not asked:
            served.do(_turns())
        client.socket.close()
        while served.servers[0].connections:
            served.do(_turns())
        served.do(_called(asked[0], 9))
        assert not served.servers[0]._waiting


async def _called(done: Callable[[int], None], end: int) -> None:
    done(end)


def test_a_long_poll_ends_with_the_first_event() -> None:
    """A waiting fetch is answered when events are applied, with them and the new high watermark."""
    with serving() as (served, client):
        client.send(Api.FETCH, FETCH, fetch(0, wait_ms=30_000))
        served.append(1, 2)
        found = fetched(client.receive())
        assert (offsets(found["records"]), found["high_watermark"]) == ([0, 1], 2)


def test_a_long_poll_ends_with_its_time() -> None:
    """Without events it is answered empty, at the latest after the server's own limit."""
    with serving(fetch_wait_max_ms=30) as (served, client):
        assert fetched(client.ask(Api.FETCH, FETCH, fetch(0, wait_ms=2**31 - 1)))["records"] == b""
        assert served.metrics[0].fetch_waits == 1


def test_a_long_poll_waits_for_enough_bytes() -> None:
    """Less than ``min_bytes`` does not end it; enough does."""
    with serving() as (served, client):
        client.send(Api.FETCH, FETCH, fetch(0, wait_ms=30_000, min_bytes=700))
        for _ in range(10):
            served.append()
        records = fetched(client.receive())["records"]
        assert len(records) >= 700
        assert offsets(records)[0] == 0


@pytest.mark.parametrize("limits", [{}, {"max_bytes": 1_000}, {"partition_bytes": 1_000}])
def test_a_fetch_that_a_limit_ends_waits_for_no_more(limits: dict[str, int]) -> None:
    """More than ``min_bytes`` lie there, but no answer can hold them: what it can hold comes at once, as from Kafka."""
    with serving(fetch_bytes_max=2_000) as (served, client):
        served.append(50)
        client.socket.settimeout(5)
        asked = fetch(0, wait_ms=30_000, min_bytes=1 << 20, **limits)
        assert offsets(fetched(client.ask(Api.FETCH, FETCH, asked))["records"])[0] == 0


@pytest.mark.parametrize("name", ["wake_bytes_per_turn", "wakes_per_turn", "requests_per_turn"])
def test_a_turn_that_may_do_nothing_is_refused(name: str) -> None:
    """With such a limit waiting clients would be put off from turn to turn for ever."""
    limits: dict[str, Any] = {name: 0}
    with pytest.raises(UsageError, match=name):
        KafkaSettings(**limits)


@pytest.mark.parametrize("limits", [{"wake_bytes_per_turn": 1_000}, {"wakes_per_turn": 3}])
def test_many_long_polls_are_all_served(limits: dict[str, int]) -> None:
    """More bytes, or more answers, than one turn may hand out still reach every client."""
    with serving(**limits) as (served, _):
        clients = [Client(served.ports[0]) for _ in range(40)]
        for client in clients:
            client.send(Api.FETCH, FETCH, fetch(0, wait_ms=30_000))
        served.append(1, 5)
        assert all(offsets(fetched(client.receive())["records"]) == [0, 1, 2, 3, 4] for client in clients)
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"topic": "other"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_another_topic_or_partition_is_unknown(how: dict[str, Any], error: ErrorCode) -> None:
    """The error comes at once, whatever the client would wait."""
    with serving() as (_, client):
        assert fetched(client.ask(Api.FETCH, FETCH, fetch(0, wait_ms=30_000, **how)))["error_code"] == error


def test_before_the_start_is_out_of_range() -> None:
    """A negative offset, or one that is trimmed, is error 1 at once."""
    with serving() as (served, client):
        served.append(3)
        served.log.start_offset = 1
        for offset in (-1, 0):
            assert fetched(client.ask(Api.FETCH, FETCH, fetch(offset, wait_ms=30_000)))["error_code"] == 1


def test_fetch_sessions_are_not_kept() -> None:
    """A client that names a session is told there is none, and fetches in full (KIP-227)."""
    with serving() as (_, client):
        answer = client.ask(Api.FETCH, FETCH, fetch(0, session=9))
        assert (answer["error_code"], answer["session_id"], answer["responses"]) == (70, 0, [])


def test_the_leader_sends_a_client_to_the_node_in_its_rack() -> None:
    """Only the leader does, only to a node it reaches; that node serves the fetch itself (KIP-392)."""
    with serving(3) as (served, leader):
        served.append(2)
        sent = fetched(leader.ask(Api.FETCH, FETCH, fetch(0, rack="node-3")))
        assert (sent["preferred_read_replica"], sent["records"]) == (3, b"")
        third = Client(served.ports[2])
        assert offsets(fetched(third.ask(Api.FETCH, FETCH, fetch(0, rack="node-3")))["records"]) == [0, 1]
        third.socket.close()
        for rack in ("node-1", "nowhere"):
            assert offsets(fetched(leader.ask(Api.FETCH, FETCH, fetch(0, rack=rack)))["records"]) == [0, 1]
        served.views[0].known[2] = KafkaNode(3, "127.0.0.1", served.ports[2], alive=False)
        assert fetched(leader.ask(Api.FETCH, FETCH, fetch(0, rack="node-3")))["preferred_read_replica"] == -1


def test_a_node_that_does_not_serve_sends_clients_elsewhere() -> None:
    """While its batches are not all here it answers error 6, and names no leader it is not."""
    with serving() as (served, client):
        served.append(2)
        served.views[0].serving = False
        served.views[0].leader_id = None
        assert fetched(client.ask(Api.FETCH, FETCH, fetch(0, wait_ms=30_000)))["error_code"] == 6
        assert found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(-1)))[0] == 6
        assert found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(-2)))[0] == 6
        topic = client.ask(Api.METADATA, 5, {"topics": None, "allow_auto_topic_creation": True})["topics"][0]
        assert topic["partitions"][0]["leader_id"] == -1
        assert topic["partitions"][0]["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE


def test_offsets_by_time() -> None:
    """Earliest, latest and the first event at or after a time; beyond the last event there is none."""
    with serving() as (served, client):
        served.append(10, 3)

        def ask(timestamp: int) -> tuple[int, int, int]:
            return found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(timestamp)))

        assert ask(-2) == (0, 0, -1)
        assert ask(-1) == (0, 30, -1)
        assert ask(0) == (0, 0, START_MS)
        assert ask(START_MS + 1) == (0, 3, START_MS + 1000)
        assert ask(START_MS + 9000) == (0, 27, START_MS + 9000)
        assert ask(START_MS + 9001) == (0, -1, -1)
        assert ask(-3)[0] == ErrorCode.UNSUPPORTED_VERSION
        other = client.ask(Api.LIST_OFFSETS, 5, list_offsets(-1, partition=3))
        assert found_offset(other)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_time_that_left_memory_is_searched_beside_the_loop() -> None:
    """It is answered when what was found is at hand; meanwhile others are served."""
    with serving() as (served, client):
        served.append(10, 3)
        served.log.times_in_memory_from = START_MS + 5000
        client.send(Api.LIST_OFFSETS, 5, list_offsets(START_MS + 1))
        other = Client(served.ports[0])
        newer = other.ask(Api.LIST_OFFSETS, 5, list_offsets(START_MS + 5000))
        assert found_offset(newer) == (0, 15, START_MS + 5000)

        async def waiting() -> int:
            return len(served.log.asked)

        async def searched() -> None:
            served.log.asked[0]()

        while not served.do(waiting()):
            pass
        served.do(searched())
        assert found_offset(client.receive()) == (0, 3, START_MS + 1000)
        other.socket.close()


def test_a_partition_asked_for_twice_is_refused() -> None:
    """As by Kafka (42), wherever in the request it is repeated: a search of the log must not cost just twelve bytes."""
    with serving() as (served, client):
        served.append(10)
        searched: list[int] = []
        served.log.first_since = searched.append  # type: ignore[assignment, method-assign]
        partitions = [
            {"partition_index": at, "current_leader_epoch": -1, "timestamp": time}
            for at, time in ((0, START_MS), (0, START_MS + 1), (1, START_MS))
        ]
        topics = [{"name": TOPIC, "partitions": partitions}, {"name": TOPIC, "partitions": partitions[:1]}]
        asked = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        found = client.ask(Api.LIST_OFFSETS, 5, asked)["topics"]
        errors = [partition["error_code"] for topic in found for partition in topic["partitions"]]
        assert errors == [42, 42, 3, 42]
        assert searched == []


def test_latest_needs_the_leaders_word() -> None:
    """Unconfirmed it is error 6, so that no client ever sees it go backwards; earliest needs nobody."""
    with serving() as (served, client):
        served.append(2)
        served.views[0].confirmable = False
        assert found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(-1))) == (6, -1, -1)
        assert found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(-2))) == (0, 0, -1)


def test_a_leader_that_never_answers_has_a_deadline() -> None:
    """ListOffsets(latest) is error 6 after the time-out, and a late word changes nothing."""
    with serving(confirm_timeout_s=0.05) as (served, client):
        asked: list[Any] = []
        served.views[0].confirmed_end = asked.append  # type: ignore[assignment, method-assign]
        assert found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(-1)))[0] == 6

        async def late() -> None:
            asked[0](9)

        served.do(late())
        assert found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(-2)))[0] == 0


def test_where_terms_end() -> None:
    """An old term ends where the next began; the newest at the end of the log, if the leader vouches for it."""
    with serving() as (served, client):
        served.append(2, 5, term=2)
        served.append(1, 5, term=4)

        def ask(epoch: int) -> tuple[int, int, int]:
            found = client.ask(Api.OFFSET_FOR_LEADER_EPOCH, 3, epoch_query(epoch))["topics"][0]["partitions"][0]
            return found["error_code"], found["leader_epoch"], found["end_offset"]

        assert [ask(epoch) for epoch in (1, 2, 3, 4, 5)] == [
            (0, 1, 0),
            (0, 2, 10),
            (0, 2, 10),
            (0, 4, 15),
            (0, -1, -1),
        ]
        served.views[0].confirmable = False
        assert [ask(epoch)[0] for epoch in (2, 4, 5)] == [0, 6, 6]


def test_the_end_of_an_epoch_of_an_empty_log_is_unknown() -> None:
    """Nothing was written, so no epoch is known."""
    assert end_of_epoch([], 0, 1) == (-1, -1)


@pytest.mark.parametrize("epoch", [-1, -2])
def test_the_end_of_no_epoch_is_unknown(epoch: int) -> None:
    """As in Java: who names none must not hear that the log ends at its beginning."""
    assert end_of_epoch([(1, 0), (3, 10)], 20, epoch) == (-1, -1)


def test_metadata_names_nodes_leader_and_topic() -> None:
    """All nodes, their racks, the leader as controller and partition leader; other topics are unknown."""
    with serving(3) as (served, client):
        served.set_leader(2, 5)
        found = client.ask(Api.METADATA, 5, {"topics": None, "allow_auto_topic_creation": True})
        assert [(b["node_id"], b["port"], b["rack"]) for b in found["brokers"]] == [
            (i + 1, port, f"node-{i + 1}") for i, port in enumerate(served.ports)
        ]
        assert (found["controller_id"], found["cluster_id"]) == (2, "test-cluster")
        assert [t["name"] for t in found["topics"]] == [TOPIC]
        assert found["topics"][0]["partitions"][0]["leader_id"] == 2
        some = client.ask(Api.METADATA, 5, {"topics": [{"name": "x"}], "allow_auto_topic_creation": True})["topics"]
        assert [(t["name"], t["error_code"]) for t in some] == [("x", 3)]
        assert client.ask(Api.METADATA, 1, {"topics": []})["topics"] == []


def test_who_asks_for_nodes_alone_is_not_told_of_one_that_is_away() -> None:
    """Tools ask each of them. Readers are told of all, and so is everyone by a node that reaches no majority."""
    with serving(3) as (served, client):
        known = served.views[0].known

        def told(topics: list[dict[str, str]] | None) -> list[int]:
            found = client.ask(Api.METADATA, 5, {"topics": topics, "allow_auto_topic_creation": True})
            return [broker["node_id"] for broker in found["brokers"]]

        known[2] = KafkaNode(3, "127.0.0.1", served.ports[2], alive=False)
        assert told([]) == [1, 2]
        assert told(None) == told([{"name": TOPIC}]) == [1, 2, 3]
        known[1] = KafkaNode(2, "127.0.0.1", served.ports[1], alive=False)
        assert told([]) == [1, 2, 3]


def test_without_a_leader_a_node_names_itself() -> None:
    """Committed events can be read from any node, so readers need no leader; there is no controller then."""
    with serving(3) as (served, client):
        served.set_leader(None, 5)
        found = client.ask(Api.METADATA, 5, {"topics": None, "allow_auto_topic_creation": True})
        assert found["controller_id"] == -1
        assert found["topics"][0]["partitions"][0]["leader_id"] == 1


def test_a_leader_out_of_reach_is_not_named() -> None:
    """A node that has lost its connection to the leader sends nobody there; it serves readers itself."""
    with serving(2) as (served, client):
        served.set_leader(2, 5)
        served.views[0].known[1] = KafkaNode(2, "127.0.0.1", served.ports[1], alive=False)
        found = client.ask(Api.METADATA, 5, {"topics": None, "allow_auto_topic_creation": True})
        assert (found["controller_id"], found["topics"][0]["partitions"][0]["leader_id"]) == (-1, 1)
        assert client.ask(Api.FIND_COORDINATOR, 2, {"key": "g", "key_type": 0})["error_code"] == 15


def test_the_local_view_names_only_this_node() -> None:
    """For clients that must stay with one node: one broker, which leads."""
    with ServedLog(3, KafkaSettings(view="local")) as served:
        client = Client(served.ports[1])
        found = client.ask(Api.METADATA, 5, {"topics": None, "allow_auto_topic_creation": True})
        assert [b["node_id"] for b in found["brokers"]] == [2]
        assert found["controller_id"] == found["topics"][0]["partitions"][0]["leader_id"] == 2
        client.socket.close()


def test_producing_is_refused() -> None:
    """Error 29 for every partition; the log stays as it is. (Without an answer: test_endings.py.)"""
    with serving() as (served, client):
        batch = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 1,
            "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": b"records"}]}],
        }
        answer = client.ask(Api.PRODUCE, 8, batch)
        partition = answer["responses"][0]["partition_responses"][0]
        assert (partition["error_code"], partition["base_offset"]) == (29, -1)
        assert "read-only" in partition["error_message"]
        assert served.log.end_offset == 0


GROUP_CALLS: list[tuple[Api, int, dict[str, Any]]] = [
    (
        Api.JOIN_GROUP,
        5,
        {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"s"}],
        },
    ),
    (
        Api.SYNC_GROUP,
        3,
        {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None, "assignments": []},
    ),
    (Api.HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}),
    (Api.LEAVE_GROUP, 1, {"group_id": "g", "member_id": "m"}),
]


def test_only_the_leader_coordinates() -> None:
    """A follower answers every call about members with error 16, and tells who the coordinator is."""
    with serving(2) as (served, client):
        served.set_leader(2, 1)
        for api, version, value in GROUP_CALLS:
            assert client.ask(api, version, value)["error_code"] == ErrorCode.NOT_COORDINATOR, api.name
        found = client.ask(Api.FIND_COORDINATOR, 2, {"key": "g", "key_type": 0})
        assert (found["error_code"], found["node_id"], found["port"]) == (0, 2, served.ports[1])
        served.set_leader(None, 2)
        assert client.ask(Api.FIND_COORDINATOR, 2, {"key": "g", "key_type": 0})["error_code"] == 15
        assert client.ask(Api.FIND_COORDINATOR, 2, {"key": "t", "key_type": 1})["error_code"] == 53


def test_members_are_not_frightened_by_a_leader_that_is_about_to_coordinate() -> None:
    """A join is asked for patience (14). A heartbeat is fine and a sync begins again: 14 ends some clients there."""
    with serving() as (served, client):
        served.views[0].open = False
        found = {api: client.ask(api, version, value)["error_code"] for api, version, value in GROUP_CALLS}
        assert found == {
            Api.JOIN_GROUP: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            Api.SYNC_GROUP: ErrorCode.REBALANCE_IN_PROGRESS,
            Api.HEARTBEAT: ErrorCode.NONE,
            Api.LEAVE_GROUP: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        }


def commit(partition: int, offset: int, topic: str = TOPIC) -> dict[str, Any]:
    """Commit one offset from outside any membership."""
    at = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": 3,
        "committed_metadata": "note",
    }
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [at]}],
    }


def test_committed_offsets_come_back() -> None:
    """A position is kept for the one partition there is; asking for all shows what is kept."""
    with serving() as (served, client):
        served.append(43)
        done = client.ask(Api.OFFSET_COMMIT, 7, commit(0, 42))
        assert done["topics"][0]["partitions"][0]["error_code"] == 0
        for topic, partition in (("other", 0), (TOPIC, 1)):
            refused = client.ask(Api.OFFSET_COMMIT, 7, commit(partition, 1, topic))
            assert refused["topics"][0]["partitions"][0]["error_code"] == 3
        everything = client.ask(Api.OFFSET_FETCH, 5, {"group_id": "g", "topics": None})["topics"]
        assert [(t["name"], p["committed_offset"], p["metadata"]) for t in everything for p in t["partitions"]] == [
            (TOPIC, 42, "note")
        ]
        none = client.ask(Api.OFFSET_FETCH, 5, {"group_id": "unheard", "topics": None})
        assert (none["error_code"], none["topics"]) == (0, [])


def test_a_position_asked_for_often_is_told_once() -> None:
    """Its metadata is kilobytes, its number four bytes."""
    with serving() as (served, client):
        served.append(43)
        client.ask(Api.OFFSET_COMMIT, 7, commit(0, 42))
        topic = {"name": TOPIC, "partition_indexes": [0, 1, 0]}
        (found,) = client.ask(Api.OFFSET_FETCH, 5, {"group_id": "g", "topics": [topic, topic]})["topics"]
        assert [(p["partition_index"], p["committed_offset"]) for p in found["partitions"]] == [(0, 42), (1, -1)]


def test_a_position_committed_twice_in_one_request_is_the_last() -> None:
    """One change of what is kept, one answer."""
    with serving() as (served, client):
        served.append(43)
        ledger = served.views[0].groups
        ledger.held = True
        first, last = commit(0, 42)["topics"], commit(0, 43)["topics"]
        client.send(Api.OFFSET_COMMIT, 7, {**commit(0, 0), "topics": first + last})
        served.do(_turns())
        assert len(ledger.waiting) == 1
        served.do(_released(ledger))
        (found,) = client.receive()["topics"]
        assert [(p["partition_index"], p["error_code"]) for p in found["partitions"]] == [(0, 0)]
        assert fetch_offset(client) == (0, 43)


def test_a_partition_fetched_twice_is_read_once() -> None:
    """The last entry counts, as in Kafka; a long poll that waits is looked at as one partition."""
    with serving() as (served, client):
        served.append(3)
        asked = fetch(0)
        asked["topics"] *= 3
        asked["topics"][2] = fetch(2)["topics"][0]
        answer = client.ask(Api.FETCH, FETCH, asked)
        (topic,) = answer["responses"]
        assert offsets(fetched(answer)["records"]) == [2]
        assert len(topic["partitions"]) == 1


def fetch_offset(client: Client) -> tuple[int, int]:
    """(error, position) of the group."""
    asked = {"group_id": "g", "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
    found = client.ask(Api.OFFSET_FETCH, 5, asked)
    return found["error_code"], found["topics"][0]["partitions"][0]["committed_offset"]


def test_committed_offsets_outlive_the_leader() -> None:
    """Any node tells what was kept, if it can be sure of it; only the next coordinator takes commits."""
    with serving(2) as (served, client):
        served.append(43)
        client.ask(Api.OFFSET_COMMIT, 7, commit(0, 42))
        served.set_leader(2, 2)
        assert fetch_offset(client) == (0, 42)
        served.views[0].confirmable = False
        assert fetch_offset(client) == (ErrorCode.NOT_COORDINATOR, -1)
        second = Client(served.ports[1])
        assert fetch_offset(second) == (0, 42)
        second.socket.close()
        refused = client.ask(Api.OFFSET_COMMIT, 7, commit(0, 1))
        assert refused["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NOT_COORDINATOR


def test_a_position_is_told_only_by_a_leader_that_is_sure() -> None:
    """One whose term is not open yet, or whose leadership nobody confirms, asks for patience: error 14."""
    with serving() as (served, client):
        served.append(43)
        client.ask(Api.OFFSET_COMMIT, 7, commit(0, 42))
        served.views[0].confirmable = False
        assert fetch_offset(client) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        served.views[0].open = False
        assert fetch_offset(client) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        served.views[0].confirmable = True
        assert fetch_offset(client) == (0, 42)


def test_a_commit_of_many_partitions_is_one_answer() -> None:
    """Each has its own result, and the answer comes when the last of them is kept."""
    with serving() as (served, client):
        served.append(43)
        ledger = served.views[0].groups
        ledger.held = True
        asked = commit(0, 42)
        asked["topics"][0]["partitions"].append({**asked["topics"][0]["partitions"][0], "partition_index": 3})
        client.send(Api.OFFSET_COMMIT, 7, asked)
        served.do(_turns())
        assert ledger.waiting
        served.do(_released(ledger))
        results = client.receive()["topics"][0]["partitions"]
        assert [(r["partition_index"], r["error_code"]) for r in results] == [(0, 0), (3, 3)]


async def _released(ledger: FakeLedger) -> None:
    ledger.held = False
    ledger.release()


def committed(client: Client, offset: int) -> int:
    """What a commit of this position is answered."""
    answer = client.ask(Api.OFFSET_COMMIT, 7, commit(0, offset))
    error: int = answer["topics"][0]["partitions"][0]["error_code"]
    return error


def test_a_position_beyond_the_log_is_refused() -> None:
    """Error 1, and what was kept stays. Where the log ends is the leader's word when its own copy is behind; without
    that word the client asks again (15).
    """
    with serving() as (served, client):
        served.append(5)
        served.views[0].ahead = 2
        assert [committed(client, offset) for offset in (5, 7, 8, 1 << 40, -1, -7)] == [0, 0, 1, 1, 28, 28]
        assert group_rows.decode_offset(served.views[0].groups.rows[b"offset/g"]).offset == 7
        served.views[0].confirmable = False
        assert committed(client, 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert committed(client, 4) == ErrorCode.NONE


def test_a_leader_that_lost_its_office_while_it_asked_takes_no_commit() -> None:
    """The position is not written, and the client looks for the next coordinator."""
    with serving(2) as (served, client):
        asked: list[Any] = []
        served.views[0].confirmed_end = asked.append  # type: ignore[method-assign, assignment]
        client.send(Api.OFFSET_COMMIT, 7, commit(0, 1))
        while not asked:
            served.do(_turns())
        served.set_leader(2, 2)
        served.do(_called(asked[0], 9))
        assert client.receive()["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NOT_COORDINATOR
        assert not served.views[0].groups.rows


def test_a_kept_position_that_cannot_be_is_none() -> None:
    """Older builds took any; whoever reads it back begins where its reset policy says, and tools show no lag."""
    with serving() as (served, client):
        served.append(5)
        row = group_rows.encode(KeptOffset(1 << 40, 1, "", START_MS))
        served.views[0].groups.rows[group_rows.offset_key("g")] = row
        assert fetch_offset(client) == (0, -1)
        assert client.ask(Api.OFFSET_FETCH, 5, {"group_id": "g", "topics": None})["topics"] == []


def test_a_member_is_sent_away_when_the_leader_changes() -> None:
    """A join that waits is answered error 16 within a sweep."""
    with serving(2, group_initial_delay_s=60.0, sweep_period_s=0.02) as (served, client):
        client.send(*GROUP_CALLS[0][:2], {**GROUP_CALLS[0][2], "group_instance_id": "i"})
        served.do(_turns())
        served.set_leader(2, 2)
        assert client.receive()["error_code"] == ErrorCode.NOT_COORDINATOR


def test_what_a_member_asks_when_it_is_sent_away_is_of_the_new_term() -> None:
    """A node that loses its office and has it again sends those away that wait. What one of them had pipelined is asked
    of the groups as they were kept, and answered.
    """
    with serving(group_initial_delay_s=0.0, sweep_period_s=0.02) as (served, client):
        api, version, value = GROUP_CALLS[0]
        static = {**value, "group_instance_id": "i0"}
        member = client.ask(api, version, static)
        given = {"group_id": "g", "generation_id": 1, "member_id": member["member_id"], "group_instance_id": "i0"}
        assert client.ask(Api.SYNC_GROUP, 3, {**given, "assignments": []})["error_code"] == 0
        other = Client(served.ports[0])
        for number in (1, 2):
            other.send(api, version, {**value, "group_instance_id": f"i{number}"})
        served.do(_turns())
        served.set_leader(1, 2)
        assert other.receive()["error_code"] == ErrorCode.NOT_COORDINATOR
        again = client.ask(api, version, {**static, "member_id": member["member_id"]})
        assert again["generation_id"] == other.receive()["generation_id"] == 2
        assert {one["group_instance_id"] for one in again["members"]} == {"i0", "i2"}
        other.socket.close()


def test_no_more_members_leave_than_there_may_be() -> None:
    """A LeaveGroup that names more is invalid as a whole; one that names as many is answered for each."""
    with serving(group_members_max=3) as (_, client):
        for count, told in ((4, (ErrorCode.INVALID_REQUEST, [])), (3, (0, [ErrorCode.UNKNOWN_MEMBER_ID] * 3))):
            members = [{"member_id": "", "group_instance_id": f"i{number}"} for number in range(count)]
            found = client.ask(Api.LEAVE_GROUP, 3, {"group_id": "g", "members": members})
            assert (found["error_code"], [member["error_code"] for member in found["members"]]) == told


async def _turns() -> None:
    """Let the listener read what was sent."""
    await asyncio.sleep(0.05)


def test_pipelined_requests_are_answered_in_order() -> None:
    """A long poll holds back what was asked after it on the same connection, and nothing is lost."""
    with serving(requests_per_turn=3) as (served, client):
        client.send(Api.FETCH, FETCH, fetch(0, wait_ms=30_000))
        for _ in range(20):
            client.send(Api.METADATA, 1, {"topics": []})
        client.send(Api.LIST_OFFSETS, 5, list_offsets(-1))
        served.append(1, 2)
        assert offsets(fetched(client.receive())["records"]) == [0, 1]
        assert all(client.receive()["topics"] == [] for _ in range(20))
        assert found_offset(client.receive()) == (0, 2, -1)


def test_an_unknown_api_versions_is_answered_in_version_0() -> None:
    """Newer clients step down: error 35 with the list, and the connection stays (KIP-511)."""
    with serving() as (_, client):
        frame = int16(18) + int16(9) + int32(77) + string("c") + b"\x00anything"
        client._asked.append((Api.API_VERSIONS, 0))
        client.socket.sendall(int32(len(frame)) + frame)
        found = client.receive()
        assert found["error_code"] == 35
        assert len(found["api_keys"]) == len(WINDOW)
        assert client.ask(Api.API_VERSIONS, 3, {"client_software_name": "c", "client_software_version": "1"})[
            "api_keys"
        ]


@pytest.mark.parametrize(
    "frame",
    [
        int16(22) + int16(0) + int32(1) + string("c") + b"\x00" * 8,  # InitProducerId is not listed
        int16(3) + int16(13) + int32(1) + string("c") + b"\x00" * 8,  # Metadata beyond the window
        int16(3) + int16(1) + int32(1) + string("c") + int32(2**31 - 1),  # a hostile array
        int16(1) + int16(11) + int32(1) + string("c") + b"\xff" * 40,
    ],
    ids=["unlisted key", "version beyond the window", "hostile array", "noise"],
)
def test_a_bad_request_costs_its_connection_and_nothing_else(frame: bytes) -> None:
    """The connection is closed and counted; others go on."""
    with serving() as (served, client):
        bad = Client(served.ports[0])
        bad.socket.sendall(int32(len(frame)) + frame)
        assert bad.closed()
        assert served.metrics[0].peer_errors["kafka"] == 1
        assert client.ask(Api.METADATA, 1, {"topics": []})["topics"] == []


@pytest.mark.parametrize("size", [-1, 0, 5_000, 2**31 - 1])
def test_a_frame_of_a_bad_size_costs_its_connection(size: int) -> None:
    """Nothing is buffered for it."""
    with serving(request_bytes_max=4_000) as (_, client):
        client.socket.sendall(int32(size) + b"x" * 10)
        assert client.closed()


def test_the_silent_make_room() -> None:
    """All places are taken: the proven client stays, each new one is served, and the silent go, the oldest first."""
    with serving(connections_max=6) as (served, first):
        first.ask(Api.METADATA, 1, {"topics": []})
        silent = [Client(served.ports[0]) for _ in range(5)]
        fresh = [Client(served.ports[0]) for _ in range(3)]
        for client in fresh:
            assert client.ask(Api.METADATA, 1, {"topics": []})["topics"] == []
        for client in silent[:3]:
            assert client.closed()
        for client in (first, *silent[3:], *fresh):
            assert client.ask(Api.METADATA, 1, {"topics": []})["topics"] == []
            client.socket.close()


def test_a_waiting_consumer_is_not_idle() -> None:
    """A long poll of a client beyond what its address may prove is passed over while the silent can go."""
    with serving(connections_max=4, proven_per_address_max=1) as (served, first):
        first.ask(Api.METADATA, 1, {"topics": []})
        waiting = Client(served.ports[0])
        waiting.send(Api.FETCH, FETCH, fetch(0, wait_ms=20_000))
        while not served.metrics[0].fetch_waits:
            served.do(_turns())
        silent = [Client(served.ports[0]) for _ in range(4)]
        for client in silent[:2]:
            assert client.closed()
        served.append(1, 1)
        assert offsets(fetched(waiting.receive())["records"]) == [0]
        for client in (waiting, *silent):
            client.socket.close()


def test_a_connection_that_never_sends_a_byte_has_a_deadline() -> None:
    """One that asked once may be silent for longer."""
    with serving(sweep_period_s=0.02, first_byte_timeout_s=0.1) as (served, asked):
        asked.ask(Api.METADATA, 1, {"topics": []})
        silent = Client(served.ports[0])
        assert silent.closed()
        silent.socket.close()
        assert asked.ask(Api.METADATA, 1, {"topics": []})["topics"] == []


def test_idle_dribbling_and_deaf_clients_are_disconnected() -> None:
    """No request, a frame that never ends, or answers never read: each has its deadline."""
    with serving(sweep_period_s=0.02, idle_timeout_s=0.1) as (_, idle):
        idle.ask(Api.METADATA, 1, {"topics": []})
        assert idle.closed()
    with serving(sweep_period_s=0.02, frame_timeout_s=0.1) as (_, dribbling):
        dribbling.socket.sendall(int32(100) + b"\x00")
        assert dribbling.closed()
    with serving(sweep_period_s=0.02, write_timeout_s=0.1) as (served, deaf):
        served.append(200, 30)
        frame = request_frame(Api.FETCH, FETCH, fetch(0))
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                deaf.socket.sendall(int32(len(frame)) + frame)
        while served.servers[0].connections:
            served.do(_turns())


def test_a_waiting_client_is_not_idle() -> None:
    """A long poll longer than the idle time-out is served all the same."""
    with serving(sweep_period_s=0.02, idle_timeout_s=0.1, frame_timeout_s=0.1) as (served, client):
        client.send(Api.FETCH, FETCH, fetch(0, wait_ms=30_000))
        for _ in range(5):
            served.do(_turns())
        served.append()
        assert offsets(fetched(client.receive())["records"]) == [0]


def test_a_client_that_leaves_is_forgotten() -> None:
    """Its long poll is no longer looked at."""
    with serving() as (served, client):
        client.send(Api.FETCH, FETCH, fetch(0, wait_ms=30_000))
        while served.metrics[0].fetch_waits == 0:
            served.do(_turns())
        client.socket.close()
        while served.servers[0].connections:
            served.do(_turns())
        assert not served.servers[0]._waiting
        served.append()


class Nobody:
    """Access for nobody, quota for nothing."""

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        return False

    def admit(self, principal: str, operation: str) -> bool:
        return False


def test_who_may_not_read_is_told_so() -> None:
    """Fetches are refused with error 29 and group calls with 30, by the access hook."""
    with serving() as (served, client):
        served.append()
        served.servers[0]._access = Nobody()
        assert fetched(client.ask(Api.FETCH, FETCH, fetch(0)))["error_code"] == 29
        for api, version, value in GROUP_CALLS:
            assert client.ask(api, version, value)["error_code"] == ErrorCode.GROUP_AUTHORIZATION_FAILED, api.name


def test_over_quota_means_later() -> None:
    """The request is served after the delay, once."""
    with serving(over_quota_delay_s=0.05) as (served, client):
        served.servers[0]._quota = Nobody()
        assert client.ask(Api.METADATA, 1, {"topics": []})["topics"] == []


def test_one_encoding_serves_all_who_ask_the_same() -> None:
    """The log is read once for many equal fetches, and again only when it has grown."""
    with serving() as (served, client):
        served.append(3)
        reads: list[int] = []
        read = served.log.read

        def counted(offset: int, max_bytes: int) -> list[bytes]:
            reads.append(offset)
            return read(offset, max_bytes)

        served.log.read = counted  # type: ignore[method-assign]
        for _ in range(5):
            client.ask(Api.FETCH, FETCH, fetch(1))
        assert reads == [1]
        served.append()
        assert offsets(fetched(client.ask(Api.FETCH, FETCH, fetch(1)))["records"]) == [1, 2, 3]
        assert reads == [1, 1]
