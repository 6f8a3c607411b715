"""Reads on every node, over the wire: levels, followers, the past, what-if, diff."""

import json
import random
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from quorate.cli.client import NodeError
from quorate.cli.facts import facts
from quorate.gateway.http.answers import Done, Quorum, StateHash, Topics
from quorate.gateway.http.writing import TopicBody
from quorate.model.evolve import evolve
from quorate.model.state import EMPTY, State
from tests.clusters import Started, leader, quorate, until, up
from tests.contract.client import Remoting

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with up(tmp_path_factory.mktemp("reads") / "c") as started:
        for number in range(60):
            put(started, number % 3, f"t{number % 7}", number % 5 + 1)
        yield started


def put(cluster: Started, index: int, name: str, queues: int) -> int:
    """Create or change a topic through a node; the offset that reflects it."""
    body = TopicBody(read_queues=queues, write_queues=queues)
    return cluster.node(index).send("PUT", f"/v1/topics/{name}", body, Done).offset


def ask(cluster: Started, index: int, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """Status and JSON, whatever the status."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{cluster.nodes[index]['http']}{path}", data, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def folded(cluster: Started, offset: int) -> State:
    """The fold of the log as node 0 tells it, here and by nothing of the node's own."""
    state = EMPTY
    for fact in facts(cluster.node(0), 0, offset):
        state = evolve(state, fact.event, fact.stamp)
    return state


def test_a_read_on_any_node_sees_what_was_acknowledged_by_any_other(cluster: Started) -> None:
    """Linearizable by default, over HTTP and remoting; nobody asks for an offset."""
    for number in range(30):
        writer, reader = number % 3, (number + 1 + number // 3 % 2) % 3
        offset = put(cluster, writer, "seen", number % 9 + 1)
        status, found = ask(cluster, reader, "/v1/topics/seen")
        assert (status, found["topic"]["read_queues"]) == (200, number % 9 + 1)
        assert found["offset"] >= offset
        assert found["node"] == cluster.nodes[reader]["id"]
        with Remoting(cluster.nodes[reader]["rpc"]) as client:
            assert json.loads(client.ask(351, topic="seen").body)["readQueueNums"] == number % 9 + 1


def test_levels_are_what_they_say(cluster: Started) -> None:
    """``at_least`` has the offset or says in time how far it is; ``stale`` needs nobody."""
    offset = put(cluster, 0, "level", 3)
    for index in range(3):
        status, found = ask(cluster, index, f"/v1/topics/level?level=at_least&min_offset={offset}")
        assert (status, found["topic"]["read_queues"], found["offset"] >= offset) == (200, 3, True)
        assert ask(cluster, index, "/v1/topics?level=stale")[0] == 200
        with Remoting(cluster.nodes[index]["rpc"]) as client:
            for how in ({"level": "at_least", "minOffset": offset}, {"at": offset}):
                answer = client.ask(351, topic="level", **how)
                assert (answer.code, json.loads(answer.body)["readQueueNums"]) == (0, 3)
                assert int(answer.fields["offset"]) >= offset
    status, found = ask(cluster, 1, f"/v1/status?level=at_least&min_offset={offset + 1000}")
    assert (status, found["error"]["code"], found["error"]["end_offset"] >= offset) == (504, "behind", True)


def test_every_node_tells_the_past_as_the_log_folds_it(cluster: Started) -> None:
    """Random offsets on all nodes: equal hashes, and equal to a fold made here from the events."""
    end = ask(cluster, 0, "/v1/topics")[1]["offset"]
    chance = random.Random(7)
    for offset in [0, 1, end, *(chance.randrange(end + 1) for _ in range(12))]:
        hashes = {cluster.node(index).get("/v1/state-hash", StateHash, at=offset).rows for index in range(3)}
        assert len(hashes) == 1, offset
        state = folded(cluster, offset)
        page = cluster.node(chance.randrange(3)).get("/v1/topics", Topics, at=offset, limit=200)
        assert (page.offset, page.past) == (offset, True)
        assert {t.topic: (t.read_queues, t.permission) for t in page.topics} == {
            name: (topic.read_queues, topic.permission) for name, topic in state.topics.items()
        }
        led = cluster.node(0).get("/v1/quorum", Quorum, at=offset).leader
        assert led == (state.leader.node_id if state.leader else None)


def test_the_command_line_looks_at_the_past(cluster: Started) -> None:
    """``at``, ``diff`` and ``whatif`` against a follower."""
    node = ["--node", cluster.nodes[(leader(cluster) + 1) % 3]["http"]]
    before = put(cluster, 0, "cli", 1)
    put(cluster, 0, "cli", 2)
    shown = json.loads(quorate("at", str(before), "topics", "-o", "json", *node).stdout)
    assert [t["read_queues"] for t in shown if t["topic"] == "cli"] == [1]
    diff = json.loads(quorate("diff", str(before), str(before + 1), "-o", "json", *node).stdout)
    assert [(c["key"], c["after"]["read_queues"]) for c in diff["entities"]] == [("topic/cli", 2)]
    assert quorate("at", "0", "status", *node).stdout.startswith("At offset 0 there was no leader yet")
    ids = [str(entry["id"]) for entry in cluster.nodes]
    assert quorate("whatif", "--fail", f"node/{ids[0]}", *node).returncode == 0
    assert quorate("whatif", "--fail", f"node/{ids[0]}", "--fail", f"node/{ids[1]}", *node).returncode == 1
    future = quorate("at", "999999", "status", *node)
    assert (future.returncode, "the log ends at offset" in future.stderr) == (1, True)


def test_a_replaying_process_that_is_killed_is_replaced(cluster: Started) -> None:
    """The node lives, and the next question is answered."""
    end = ask(cluster, 0, "/v1/topics")[1]["offset"]
    assert ask(cluster, 0, f"/v1/topics?at={end - 9}")[0] == 200
    workers = [
        child
        for child in psutil.Process(cluster.nodes[0]["pid"]).children(recursive=True)
        if "quorate.history.worker" in child.cmdline()
    ]
    assert workers
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
    until(lambda: ask(cluster, 0, f"/v1/topics?at={end - 8}")[0] == 200, "an answer after the kill")


def test_without_a_quorum_no_read_is_linearizable_and_none_is_wrong(tmp_path: Path) -> None:
    """The leader dies with a follower: the last node answers stale reads and the past, and refuses the rest."""
    with up(tmp_path / "c") as cluster:
        offset = put(cluster, 0, "kept", 4)
        last = (leader(cluster) + 1) % 3
        until(lambda: ask(cluster, last, f"/v1/topics/kept?level=at_least&min_offset={offset}")[0] == 200, "caught up")
        for index in range(3):
            if index != last:
                psutil.Process(cluster.nodes[index]["pid"]).kill()
        until(lambda: ask(cluster, last, "/v1/topics/kept")[0] == 503, "a refusal")
        assert ask(cluster, last, "/v1/topics/kept?level=stale")[1]["topic"]["read_queues"] == 4
        assert ask(cluster, last, f"/v1/topics/kept?at={offset}")[1]["topic"]["read_queues"] == 4
        with pytest.raises(NodeError):
            cluster.node(last).get("/v1/topics", Topics)
        with Remoting(cluster.nodes[last]["rpc"]) as client:
            assert client.ask(351, topic="kept").code == 2007


def test_questions_and_answers_are_described(cluster: Started) -> None:
    """The document names every parameter and error a client needs."""
    status, found = ask(cluster, 0, "/openapi.json")
    assert status == 200
    names = {p["name"] for p in found["paths"]["/v1/brokers"]["get"]["parameters"]}
    assert names == {"limit", "after", "level", "min_offset", "at"}
    assert {"/v1/diff", "/v1/whatif"} <= found["paths"].keys()
    assert msgspec.json.encode(found["components"]["schemas"]["Trouble"]).count(b"end_offset") >= 1
