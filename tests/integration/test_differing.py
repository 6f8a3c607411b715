"""Real nodes, one of which holds another state: it is found out and stops, the others go on."""

from pathlib import Path

import msgspec
import psutil
import pytest

from quorate.consensus.ports import StoreOp
from quorate.consensus.storage.store import RocksStore, applied_ops, read_applied
from quorate.gateway.http.answers import Done, Status
from quorate.metadata.sums import SUM_BYTES, joined
from quorate.model.state import Topic
from tests.clusters import quorate, until, up
from tests.integration.test_up import serving
from tests.plain_sums import sum_of


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
