"""Real nodes, one of which holds another state: it is found out and stops, the others go on."""

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import msgspec
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import NodePlace, found
from quorate.consensus.ports import StoreOp
from quorate.consensus.storage.store import RocksStore, applied_ops, read_applied
from quorate.controller.settings import WRONG_STOPS_WITHIN_S
from quorate.events import ControllerLeaderElected
from quorate.gateway.http.answers import Done, Log, Status
from quorate.metadata.sums import SUM_BYTES, joined
from quorate.model.state import Topic
from tests.clusters import free_ports, quorate, until, up
from tests.integration.test_fail_stop import leader, served
from tests.integration.test_member import equal, told
from tests.integration.test_up import serving
from tests.plain_sums import sum_of

NAMED = "(stopped: its state was wrong|left: its state differed)"
"""In its own words, or in those of who saw it go before they came."""
TOPIC = {"read_queues": 4, "write_queues": 4, "permission": 6}
PATIENT = "\n[engine]\nelection_timeout_quiet_s = 10.0\nelection_timeout_min_s = 10.0\nelection_timeout_max_s = 20.0\n"
"""Who has this stands only when the leadership is handed over to it."""
LOOK_S = 0.01


def forge(store: RocksStore) -> None:
    """Another row of a topic, with sums that fit: as if an event had been applied wrongly."""
    key = b"topic/default/t"
    row = store.get("rows", key)
    assert row is not None
    topic = msgspec.msgpack.decode(row[1:], type=Topic)
    topic = msgspec.structs.replace(topic, read_queues=topic.read_queues + 1)
    store.write([StoreOp("rows", key, row[:1] + msgspec.msgpack.encode(topic, order="deterministic"))])
    families = ("rows", "requests", "groups")
    totals = [sum_of(family, store.scan(family)) for family in families]  # type: ignore[arg-type]
    sums = totals[0].to_bytes(SUM_BYTES, "little") + joined(*totals).to_bytes(SUM_BYTES, "little")
    applied = read_applied(store)
    assert applied is not None
    store.write(applied_ops(applied.index, applied.term, applied.next_offset, applied.time_ms, sums))
    store.sync()


@pytest.mark.slow
def test_a_node_with_another_state_stops_by_name_and_the_others_go_on(tmp_path: Path) -> None:
    """Its rows, its sums and its store agree with each other; its events do not. It says so and exits; the others name
    it in ``status``, and serve on.
    """
    topic = {"read_queues": 4, "write_queues": 4, "permission": 6}
    with up(tmp_path / "c") as cluster:
        cluster.node().send("PUT", "/v1/topics/t", topic, Done)
        led = cluster.node().get("/v1/status", Status).leader
        victim = next(index for index in range(3) if cluster.nodes[index]["id"] != led)
        number = cluster.nodes[victim]["id"]
        offset = cluster.node().get("/v1/status", Status).offset
        cluster.node(victim).get("/v1/status", Status, min_offset=offset)
        psutil.Process(cluster.nodes[victim]["pid"]).kill()
        until(lambda: f"node {number} (pid" in cluster.stderr.read_text(), "the report of its death")
        store = RocksStore(str(cluster.config(victim).parent / "data" / "store"))
        forge(store)
        store.close()
        ended = quorate("serve", "--config", str(cluster.config(victim)))
        assert ended.returncode == 1
        said = [line for line in ended.stderr.splitlines() if "StateIsWrongError" in line]
        assert said, ended.stderr
        assert f"the state of node {number} is wrong at index" in said[0]
        assert "its events, folded anew, make another state" in said[0]
        others = [cluster.node(index) for index in range(3) if index != victim]
        for other in others:
            assert other.serves()
            until(lambda: other.get("/v1/status", Status).alarms, "the alarm")  # noqa: B023 - called at once
            told = other.get("/v1/status", Status)
            assert not told.healthy
            assert told.alarms is not None
            assert f"node {number} stopped: its state was wrong at index" in told.alarms[0]
        compared = quorate("state-hash", "--node", others[0].address)
        assert (compared.returncode, f"node {number} is not compared" in compared.stderr) == (0, True)
        with serving(cluster.config(victim)):
            until(cluster.node(victim).serves, "the return of the node")
            until(lambda: not any(other.get("/v1/status", Status).alarms for other in others), "the end of the alarm")
            assert quorate("state-hash", "--node", others[0].address).returncode == 0
            folder = cluster.config(victim).parent / "data"
            assert [found for found in folder.iterdir() if found.name.startswith("store") and found.name != "store"]


class Machine:
    """How late this machine lets a thread run that only sleeps: what any node's timer may be late too, and more of it
    than each.
    """

    def __init__(self) -> None:
        self.late: list[tuple[float, float]] = []
        """When, and by how much."""
        self._end = Event()

    def lateness_s(self, begin: float, end: float) -> float:
        """All of it between two times."""
        return sum(late for when, late in self.late if begin <= when <= end + LOOK_S)

    @contextmanager
    def watched(self) -> Iterator["Machine"]:
        """Meanwhile."""
        thread = Thread(target=self._watch)
        thread.start()
        try:
            yield self
        finally:
            self._end.set()
            thread.join()

    def _watch(self) -> None:
        while not self._end.is_set():
            began = time.time()
            time.sleep(LOOK_S)
            self.late.append((time.time(), max(0.0, time.time() - began - LOOK_S)))


def last_without_alarm(nodes: list[Node], victim: subprocess.Popen[bytes]) -> float:
    """When the others were last asked and none knew of a difference: nodes compared for the first time after that. One
    that never answered is starting, and has compared nothing.
    """
    before, answered = time.time(), set[str]()
    while victim.poll() is None:
        asked, known = time.time(), True
        for node in nodes:
            try:
                alarms = node.get("/v1/status", Status, level="stale").alarms
            except NodeError:
                known = known and node.address not in answered
                continue
            if alarms:
                return before
            answered.add(node.address)
        if known:
            before = asked
    return before


def lines(place: NodePlace) -> list[dict[str, Any]]:
    """What a node wrote down."""
    text = (place.folder / "node.log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def gauge(place: NodePlace, name: str) -> float:
    """As a node tells it to who scrapes it."""
    with urlopen(f"http://{place.http}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return next(family for family in families if family.name == name).samples[0].value


@pytest.mark.slow
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_wrong_node_is_gone_within_two_seconds_and_its_remedies_bring_it_back(tmp_path: Path, leads: bool) -> None:
    """The leader by its own state hands over first; the others answer and write on. Its last words name state and
    remedy: its next start. Where the whole directory is given up instead, ``member rebuild`` is named and does it.
    After either all three add up to the same.

    The bound is the product's own. It is counted from before the first comparison (the last look at which nobody knew
    of a difference), by the one clock of the machine, and widened by what a thread that only sleeps was late meanwhile.
    """
    places = found(tmp_path / "c", 3, free_ports(30))
    with ExitStack() as stack:
        logs = [stack.enter_context((place.folder / "node.log").open("wb")) for place in places]

        def start(at: int) -> subprocess.Popen[bytes]:
            return stack.enter_context(served(places[at], logs[at].fileno(), buffered=False))

        nodes = [start(at) for at in range(3)]
        until(lambda: all(Node(place.http, 1.0).serves() for place in places), "all nodes serve")
        Node(places[0].http).send("PUT", "/v1/topics/t", TOPIC, Done)
        until(lambda: equal(list(places)), "three equal nodes")
        victim = 2
        for at in range(3):  # The last to stop has the longest log: it may win.
            nodes[at].terminate()
            assert nodes[at].wait(30) == 0
        store = RocksStore(str(places[victim].folder / "data" / "store"))
        forge(store)
        store.close()
        configs = [place.config.read_text() for place in places]
        for at, place in enumerate(places):
            place.config.write_text(configs[at] + (PATIENT if (at != victim) == leads else ""))

        others = [place for at, place in enumerate(places) if at != victim]
        with Machine().watched() as machine:
            nodes = [start(at) for at in range(3)]
            before = last_without_alarm([Node(place.http, 1.0) for place in others], nodes[victim])
            assert nodes[victim].wait(30) == 1
        [failed] = [line for line in lines(places[victim]) if line["event"] == "failed"]
        number = places[victim].id
        assert failed["error"].startswith(f"StateIsWrongError: the state of node {number} is wrong at index ")
        assert "its events, folded anew, make another state" in failed["error"]
        assert failed["error"].endswith("its next start puts the store aside and makes it anew")
        stopped = datetime.fromisoformat(failed["ts"]).timestamp()
        assert stopped - before < WRONG_STOPS_WITHIN_S + machine.lateness_s(before, stopped)

        until(lambda: leader(others[0]) in {place.id for place in others}, "another leader")
        log = Node(others[0].http).get("/v1/log", Log, **{"from": "0", "limit": "500"})
        elected = [one.event for one in log.events if isinstance(one.event, ControllerLeaderElected)]
        if leads:
            assert (elected[-2].node_id, elected[-1].cause) == (number, "handed over")
        else:
            assert elected[-1].node_id != number
        Node(others[0].http).send("PUT", "/v1/topics/u", TOPIC, Done)
        for place in others:
            status = Node(place.http).get("/v1/status", Status)
            assert status.alarms is not None
            assert re.match(rf"node {number} {NAMED} at index", status.alarms[0])
            assert gauge(place, "quorate_state_alarms") == 1

        if not leads:
            shutil.move(places[victim].folder / "data", tmp_path / "wrong")
        nodes[victim] = start(victim)
        if not leads:
            until(lambda: told(places[victim]), "the command")
            assert quorate(*shlex.split(told(places[victim])), "--node", others[0].http).returncode == 0
        until(lambda: equal(list(places)), "three equal nodes")
        until(lambda: not any(Node(place.http).get("/v1/status", Status).alarms for place in places), "no alarm")
        assert [gauge(place, "quorate_state_alarms") for place in places] == [0] * 3
        until(lambda: gauge(places[victim], "quorate_state_comparisons"), "its comparisons")
        compared = quorate("state-hash", "--node", places[victim].http)
        assert (compared.returncode, "nodes 3, 1, 2 agree at offset" in compared.stdout) == (0, True)
        assert [node.poll() for node in nodes] == [None] * 3
