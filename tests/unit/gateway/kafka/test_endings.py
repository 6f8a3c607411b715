"""How a connection ends: what was asked before is answered first, and who cannot be served is told so in its words."""

import contextlib
import socket
import ssl
import struct
from typing import Any

import pytest

from quorate.wire import kafka_admin_responses as admin_responses
from quorate.wire import kafka_responses as responses
from quorate.wire.kafka import Api, ErrorCode
from quorate.wire.kafka_primitives import int16, int32, string
from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.raw import Client, fetch, fetched
from tests.unit.gateway.kafka.test_server import GROUP_CALLS, found_offset, list_offsets, serving
from tests.unit.wire.kafka_oracle import request_frame

UNLISTED = int16(22) + int16(0) + int32(1) + string("c") + b"\x00" * 8
"""InitProducerId, which is not served."""


def produce(acks: int) -> dict[str, Any]:
    """A Produce of one batch."""
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": b"records"}]}]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 1, "topic_data": data}


def framed(frame: bytes) -> bytes:
    """With its length."""
    return int32(len(frame)) + frame


def test_ready_answers_leave_before_the_connection_is_closed() -> None:
    """However many requests came in one segment with the one that is not served: all before it are answered."""
    asked = framed(request_frame(Api.API_VERSIONS, 0, {})) + framed(request_frame(Api.METADATA, 1, {"topics": None}))
    with serving() as (served, _):
        for _ in range(20):
            client = Client(served.ports[0])
            client._asked = [(Api.API_VERSIONS, 0), (Api.METADATA, 1)]
            client.socket.sendall(asked + framed(UNLISTED))
            assert client.receive()["error_code"] == 0
            assert client.receive()["topics"][0]["name"] == TOPIC
            assert client.closed()
        assert served.metrics[0].peer_errors["kafka"] == 20


def test_what_is_sent_after_the_end_does_not_cost_the_answers() -> None:
    """The node closes its side, takes and drops what still comes, and does not reset the connection."""
    with serving() as (served, client):
        client._asked = [(Api.API_VERSIONS, 0)]
        client.socket.sendall(framed(request_frame(Api.API_VERSIONS, 0, {})) + framed(UNLISTED))
        for _ in range(50):
            client.socket.sendall(bytes(20_000))
        assert client.receive()["error_code"] == 0
        assert client.socket.recv(1) == b""
        client.socket.close()
        assert served.metrics[0].peer_errors["kafka"] == 1


def test_who_does_not_go_is_hung_up_on() -> None:
    """A client that keeps its side open has as long as for a frame."""
    with serving(sweep_period_s=0.02, frame_timeout_s=0.1) as (served, client):
        client.socket.sendall(framed(UNLISTED))
        assert client.socket.recv(1) == b""
        with contextlib.suppress(ConnectionError):  # Reset: the node is rid of it.
            while served.servers[0].connections:
                client.socket.sendall(b"still here")
        assert served.servers[0].connections == 0
        client.socket.close()


def failing(patch: pytest.MonkeyPatch, owner: object, name: str, version: int) -> None:
    """What makes answers has a fault in this version."""
    made = getattr(owner, name)

    def make(of: int, *args: Any, **how: Any) -> Any:
        if of == version:
            raise ValueError("for a test")
        return made(of, *args, **how)

    patch.setattr(owner, name, make)


@pytest.mark.parametrize("late", [False, True])
def test_a_fault_costs_its_connection_and_nothing_else(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the request's turn or in a later one: answers before it leave, the connection ends, its place is free."""
    with serving() as (served, client), Client(served.ports[0]).socket:
        view = served.views[0]
        failing(monkeypatch, admin_responses, "describe_quorum", 0)
        if late:
            loop, quorum = served._loop, view.quorum
            monkeypatch.setattr(view, "quorum", lambda done: loop.call_soon(lambda: quorum(done)))
        client.send(Api.LIST_OFFSETS, 5, list_offsets(-1))
        client.send(Api.DESCRIBE_QUORUM, 0, {"topics": []})
        client.send(Api.LIST_OFFSETS, 5, list_offsets(-1))
        assert found_offset(client.receive()) == (0, 0, -1)
        assert client.closed()
        while served.servers[0].connections > 1:
            pass
        other = Client(served.ports[0])
        assert other.ask(Api.DESCRIBE_QUORUM, 1, {"topics": []})["error_code"] == 0
        other.socket.close()


def test_a_fault_in_one_members_answer_costs_no_other_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation is told to everyone but the member whose answer cannot be made."""
    api, _, asked = GROUP_CALLS[0]
    with serving() as (served, client):
        other = Client(served.ports[0])
        failing(monkeypatch, responses, "join_group", 2)
        client.send(api, 2, asked)
        other.send(api, 3, asked)
        assert client.closed()
        member = other.receive()
        assert (member["error_code"], member["generation_id"]) == (0, 1)
        other.socket.close()


def test_a_fault_in_a_woken_fetch_costs_no_other_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of many that wait is told nothing and goes; the others have their events, and the next ones too."""
    with serving() as (served, first):
        other, second = Client(served.ports[0]), Client(served.ports[0])
        for turn, client in enumerate((first, second)):
            client.send(Api.FETCH, 11, fetch(turn, wait_ms=30_000))
            while served.metrics[0].fetch_waits < 2 * turn + 1:
                pass
            other.send(Api.FETCH, 12, fetch(turn, wait_ms=30_000))
            while served.metrics[0].fetch_waits < 2 * turn + 2:
                pass
            with monkeypatch.context() as patch:
                failing(patch, served.servers[0]._reader, "fetch", 11)
                served.append(1)
                assert client.closed()
                assert fetched(other.receive())["records"]
        other.socket.close()


def test_producing_without_an_answer_ends_the_connection() -> None:
    """Who wants no answer (acks 0) cannot be told an error: it loses its connection, as with Kafka, and notices."""
    with serving() as (served, client):
        client._asked = [(Api.LIST_OFFSETS, 5)]
        before, after = (framed(request_frame(Api.LIST_OFFSETS, 5, list_offsets(-1))) for _ in range(2))
        client.socket.sendall(before + framed(request_frame(Api.PRODUCE, 7, produce(0))) + after)
        assert found_offset(client.receive()) == (0, 0, -1)
        assert client.closed()
        assert served.log.end_offset == 0
        refused = Client(served.ports[0])
        answer = refused.ask(Api.PRODUCE, 7, produce(1))["responses"][0]["partition_responses"][0]
        assert answer["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused.socket.close()


@pytest.mark.parametrize("version", [0, 1])
def test_signing_in_is_refused_as_by_a_plaintext_listener(version: int) -> None:
    """Error 34 and no mechanism, as Kafka's own; the connection stays, and reads all the same."""
    with serving() as (_, client):
        found = client.ask(Api.SASL_HANDSHAKE, version, {"mechanism": "PLAIN"})
        assert (found["error_code"], found["mechanisms"]) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        for step in range(3):
            told = client.ask(Api.SASL_AUTHENTICATE, step, {"auth_bytes": b"\0user\0secret"})
            assert told["error_code"] == ErrorCode.ILLEGAL_SASL_STATE
            assert "PLAINTEXT" in told["error_message"]
        assert found_offset(client.ask(Api.LIST_OFFSETS, 5, list_offsets(-1))) == (0, 0, -1)


def test_a_tls_client_is_told_at_once() -> None:
    """By an alert of its own protocol; the node's counters have it as a broken protocol."""
    with serving() as (served, _):
        context = ssl.create_default_context()
        plain = socket.create_connection(("127.0.0.1", served.ports[0]), timeout=10)
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
            context.wrap_socket(plain, server_hostname="localhost")
        assert served.metrics[0].peer_errors["kafka"] == 1


def test_metadata_of_version_0_is_what_old_probes_ask() -> None:
    """kafka-python before 2.0.3 probes with it: an empty list asks for all topics; racks and controller have no place.

    Read by hand: it must be what Kafka's ``MetadataResponse.json`` says of version 0, to the byte.
    """
    with serving() as (served, client):
        frame = request_frame(Api.METADATA, 0, {"topics": []})
        client.socket.sendall(framed(frame))
        size = int.from_bytes(client.read(4), "big")
        body = client.read(size)[4:]
        name = TOPIC.encode()
        node = struct.pack(">i", 1) + string("127.0.0.1") + int32(served.ports[0])
        partition = int16(0) + int32(0) + int32(1) + int32(1) + int32(1) + int32(1) + int32(1)
        topic = int16(0) + int16(len(name)) + name + int32(1) + partition
        assert body == int32(1) + node + int32(1) + topic
