"""``--node``: several addresses, the next where one does not answer, and what is said when none does."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from quorate import asking
from quorate.asking import Request, UnreachedError, exchange, kafka_addresses
from quorate.cli import program
from quorate.cli.client import Node, NodeError
from quorate.errors import UsageError
from quorate.gateway.http.answers import Done, Topics
from quorate.metadata.commands import Accepted
from tests.unit.cli.served import Served, serving

AT: dict[str, Any] = {"offset": 9, "time_ms": 5, "node": 1}
DEAD = "127.0.0.1:1"
NOTHING = Topics(**AT, topics=[], next=None)


@pytest.fixture
def node() -> Iterator[Served]:
    with serving() as served:
        yield served


@contextlib.contextmanager
def listener(says: bytes) -> Iterator[str]:
    """A port that is not HTTP: whoever comes is told this, and the line is closed once he has said something."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    guest, _ = server.accept()
                    with guest:
                        guest.sendall(says)
                        guest.recv(65_536)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_the_next_address_is_asked_where_one_does_not_answer(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer comes from the first that gives one; who was passed over, and why, is said on stderr."""
    node.answers["/v1/topics"] = NOTHING
    assert program.main(["topics", "--node", f"{DEAD}, {node.address}"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("topic")
    assert said.err == f"node {DEAD}: connection refused: asked {node.address} instead\n"


def test_the_one_that_answered_is_asked_on(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages come from one node, and a dead one is waited for and told once."""
    pages = {None: Topics(**AT, topics=[], next="a"), "a": NOTHING}
    node.answers["/v1/topics"] = lambda query: pages[query.get("after")]
    assert program.main(["topics", "--node", f"{DEAD},{node.address}"]) == 0
    assert len(node.asked) == 2
    assert capsys.readouterr().err.count("instead") == 1


def test_a_node_that_is_not_available_is_passed_over(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """503 says that nothing was proposed: another may know a leader; where none does, the first one is quoted."""
    unavailable = (503, b'{"error":{"code":"unavailable","message":"no leader is known"}}')
    node.answers["/v1/config/cluster"] = unavailable
    with serving() as other:
        other.answers["/v1/config/cluster"] = Done(**AT, repeated=False, reply=Accepted())
        Node(f"{node.address},{other.address}").send("PUT", "/v1/config/cluster", {}, Done)
        assert "is not available" in capsys.readouterr().err
        other.answers["/v1/config/cluster"] = unavailable
        with pytest.raises(NodeError, match="no leader is known"):
            Node(f"{node.address},{other.address}").send("PUT", "/v1/config/cluster", {}, Done)


def test_a_change_that_may_have_been_made_is_not_asked_for_again(node: Served) -> None:
    """The line broke after the request: nobody knows, and that is said; a question goes on to the next node."""
    node.answers["/v1/topics"] = NOTHING
    with listener(b"") as broken:
        both = Node(f"{broken},{node.address}")
        with pytest.raises(NodeError, match="whether it was carried out is not known"):
            both.send("PUT", "/v1/config/cluster", {}, Done)
        assert not node.asked
        both.get("/v1/topics", Topics)
        assert len(node.asked) == 1


def test_a_change_is_made_by_the_next_where_nobody_listens(node: Served) -> None:
    """A connection that was refused carried nothing."""
    node.answers["/v1/config/cluster"] = Done(**AT, repeated=False, reply=Accepted())
    assert Node(f"{DEAD},{node.address}").send("PUT", "/v1/config/cluster", {}, Done).offset == 9


def test_nobody_answers_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Every address with its own reason, then where a cluster comes from and how to name another."""
    assert program.main(["status", "--node", f"{DEAD},127.0.0.1:2"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0 if n else 1] for n, line in enumerate(said[:2])] == [f"node {DEAD}", "node 127.0.0.1:2"]
    assert "quorate up" in said[2]
    assert "--node" in said[2]
    assert "$QUORATE_NODE" in said[2]


def test_whoever_looks_for_grpc_names_every_silent_node(capsys: pytest.CaptureFixture[str]) -> None:
    """A simulated service that finds nobody says whom it asked, and what to do once."""
    assert program.main(["simservice", "--node", f"{DEAD},127.0.0.1:2"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"quorate: node {DEAD}: connection refused",
        "node 127.0.0.1:2: connection refused",
        f"no node answers: {asking.REMEDY}",
    ]


@pytest.mark.parametrize("says", [b"", b"\x00\x00\x00\x10hello of a voter"])
def test_a_port_that_is_not_http_is_named(says: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """rpc and kafka close the line, raft says hello: no raw bytes are shown, and the port that is meant is said."""
    with listener(says) as address:
        assert program.main(["status", "--node", address]) == 1
    said = capsys.readouterr().err
    assert f"{address} is no HTTP port" in said
    assert "the rpc port + 3" in said
    assert "hello" not in said


def test_the_right_port_is_said_where_the_node_tells(
    node: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node's own list of listeners names the port that was typed, and the one that was meant; for changes too."""
    with listener(b"") as raft:
        monkeypatch.setattr(asking, "DISTANCES", (int(node.address[10:]) - int(raft[10:]),))
        node.answers["/v1/quorum"] = {"voters": [{"id": 2, "raft": raft, "http": node.address}]}
        for words in (["status"], ["config", "cluster", "a="]):
            assert program.main([*words, "--node", raft]) == 1
            said = capsys.readouterr().err
            assert f"{raft} is the raft port of node 2: say --node {node.address}" in said
            assert "not known" not in said


def test_one_default_for_every_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Readers, too, are told by ``--node``; the default is QUORATE_NODE, else the three of ``quorate up``."""
    pytest.importorskip("confluent_kafka", reason="projections are not installed (make setup-all)")
    for said, told in (("", asking.DEFAULT_NODE), ("h:1,h:2", "h:1,h:2")):
        monkeypatch.setenv("QUORATE_NODE", said)
        words = ("status", "whatif", "diff", "log tail", "dashboard", "stream", "mirror", "projections serve")
        for word in (*words, "projections rebuild"):
            with pytest.raises(SystemExit):
                program.main([*word.split(), "--help"])
            help_text = "".join(capsys.readouterr().out.split())
            assert f"$QUORATE_NODE;{told}" in help_text, word
            assert capsys.readouterr().err == ""


def test_a_port_of_another_kind_than_wanted_is_told_apart(node: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """An HTTP port where Kafka's is meant is named with the right one; of the right port nothing is said."""
    node.answers["/v1/quorum"] = {"voters": [{"id": 2, "kafka": "h:2", "http": node.address}]}
    told = asking.right_port(node.address, "--nodes", "kafka")
    assert told == f"{node.address} is the http port of node 2: say --nodes h:2"
    monkeypatch.setattr(asking, "DISTANCES", (0,))
    assert asking.right_port(node.address) == ""
    assert asking.right_port(DEAD) == ""


def test_a_reader_learns_where_the_log_is(node: Served) -> None:
    """Views, streams and the page are given HTTP addresses, and read from the Kafka listeners of all voters."""
    node.answers["/v1/quorum"] = {"voters": [{"id": 1, "kafka": "h:1"}, {"id": 2, "kafka": "h:2"}]}
    assert kafka_addresses(f"{DEAD},{node.address}", lambda: None, print) == "h:1,h:2"


def test_a_reader_waits_for_a_node_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    """It says once that it waits, and gives up with what to do; an address that is none is told at once."""
    waits: list[int] = []
    with pytest.raises(UnreachedError, match="quorate up"):
        kafka_addresses(DEAD, lambda: waits.append(1), print)
    assert len(waits) == asking.TRIES - 1
    said = capsys.readouterr().out
    assert said.count("no node answers yet, looking for 30 s") == 1
    assert "quorate up" in said
    with pytest.raises(UsageError, match="expected HOST:PORT"):
        kafka_addresses("here", lambda: waits.append(1), print)
    with pytest.raises(UsageError, match="at least one"):
        kafka_addresses(" , ", lambda: waits.append(1), print)


def test_an_answer_that_is_none_of_a_node_s(node: Served) -> None:
    """Another HTTP server stands there: it is waited for as a node that is not up, never believed."""
    node.answers["/v1/quorum"] = (200, b"<html>")
    with pytest.raises(UnreachedError, match="not the answer of a node"):
        kafka_addresses(node.address, lambda: None, lambda _: None)


def test_an_answer_has_a_bound_where_one_is_set(node: Served) -> None:
    """One byte more is no answer, however long it says it is."""
    node.answers["/v1/quorum"] = (200, b"x" * 1000)
    assert exchange(node.address, Request("GET", "/v1/quorum"), 5.0, 1000) == (200, b"x" * 1000)
    with pytest.raises(UnreachedError, match="more than 999 bytes"):
        exchange(node.address, Request("GET", "/v1/quorum"), 5.0, 999)


def test_an_answer_with_a_bound_does_not_drip_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and all of them together do not."""
    clock = iter(range(100))

    class Dripping:
        def read1(self, size: int) -> bytes:
            assert size
            return b"x"

    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: next(clock) * 0.4))
    with pytest.raises(TimeoutError):
        asking._bounded(cast("HTTPResponse", Dripping()), 1000, 1.0)


def test_a_silent_node_is_given_up_after_its_time() -> None:
    """It took the request and does not answer: told so, and that the request went out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UnreachedError, match="does not answer") as told:
            exchange(address, Request("GET", "/"), 0.05)
    assert told.value.sent


def test_a_mirror_copies_from_the_one_that_leads(node: Served) -> None:
    """Of several nodes the one that says it leads; where none does, what the first says, which is who led last; a dead
    one is no trouble.
    """
    pytest.importorskip("confluent_kafka", reason="projections are not installed (make setup-all)")
    from quorate_projections.mirror.node import HttpNode
    from quorate_projections.mirror.ports import MirrorError

    def says(number: int, role: str) -> dict[str, Any]:
        voters = [{"id": n, "kafka": f"h:{n}"} for n in (1, 2)]
        return {"node": number, "cluster_id": "c", "role": role, "term": 3, "voters": voters}

    with serving() as other:
        node.answers["/v1/quorum"], other.answers["/v1/quorum"] = says(1, "follower"), says(2, "leader")
        mirror = HttpNode((DEAD, node.address, other.address), 1.0)
        assert (mirror.ask().leads, mirror.ask().kafka) == (True, "h:2")
        other.answers["/v1/quorum"] = says(2, "follower")
        assert (mirror.ask().leads, mirror.ask().kafka) == (False, "h:2")
        assert HttpNode((DEAD, node.address, other.address), 1.0).ask().kafka == "h:1"
        other.answers["/v1/quorum"] = node.answers["/v1/quorum"] = msgspec.Raw(b"{}")
        with pytest.raises(MirrorError):
            mirror.ask()


def test_a_mirror_names_the_right_port(node: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a Kafka port it says which is meant, in one line; where nobody is, what to do."""
    pytest.importorskip("confluent_kafka", reason="projections are not installed (make setup-all)")
    from quorate_projections.mirror.node import HttpNode
    from quorate_projections.mirror.ports import MirrorError

    with listener(b"") as kafka:
        monkeypatch.setattr(asking, "DISTANCES", (int(node.address[10:]) - int(kafka[10:]),))
        node.answers["/v1/quorum"] = {"voters": [{"id": 2, "kafka": kafka, "http": node.address}]}
        with pytest.raises(MirrorError, match=f"is the kafka port of node 2: say --node {node.address}") as told:
            HttpNode((kafka,), 1.0).ask()
        assert "\n" not in str(told.value)
        assert str(told.value).count(kafka) == 2
    with pytest.raises(MirrorError, match="quorate up starts a cluster"):
        HttpNode((DEAD,), 1.0).ask()
