"""``quorate up`` and ``serve``: what they promise to whoever starts the product from outside."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from quorate.cli.client import Node, NodeError
from quorate.gateway.http.answers import Feature, Quorum, StateHash, Status
from tests.clusters import QUORATE, Started, free_ports, gone, quorate, resumed, until, up


@contextmanager
def serving(config: Path) -> Iterator[None]:
    """A node by ``quorate serve``; told to stop at the end, it exits 0."""
    process = subprocess.Popen([*QUORATE, "serve", "--config", str(config)], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(30)
    assert status == 0


def leader(cluster: Started, index: int = 0) -> int | None:
    """Who leads, as one node believes."""
    return cluster.node(index).get("/v1/status", Status, level="stale").leader


def test_the_ready_line_says_where_everything_is(cluster: Started) -> None:
    """Ids count from 1, ports follow the rule, every process lives and every node serves."""
    base = int(cluster.nodes[0]["rpc"].rpartition(":")[2])
    for index, node in enumerate(cluster.nodes):
        assert node["id"] == index + 1
        assert not gone(node["pid"])
        for offset, listener in enumerate(("rpc", "raft", "kafka", "http")):
            assert node[listener] == f"127.0.0.1:{base + 10 * index + offset}"
        assert Node(node["http"]).serves()
        assert cluster.config(index).is_file()


def test_every_node_knows_the_whole_quorum(cluster: Started) -> None:
    """A ready cluster has one leader that all nodes name, and all its voters."""
    quorums = [cluster.node(index).get("/v1/quorum", Quorum) for index in range(3)]
    assert len({quorum.leader for quorum in quorums}) == 1
    assert all([voter.id for voter in quorum.voters] == [1, 2, 3] for quorum in quorums)


def test_existing_data_is_never_overwritten(cluster: Started) -> None:
    """A second ``up`` in the same folder is used wrongly, and says what to do."""
    ended = quorate("up", "--data-dir", str(cluster.folder))
    assert ended.returncode == 2
    assert "use --resume, or another --data-dir" in ended.stderr


@pytest.mark.parametrize(
    "words", [["--nodes", "2"], ["--resume"], ["--base-port", "65530"], ["--resume", "--data-dir", "none"]]
)
def test_what_cannot_be_started_is_refused(words: list[str], tmp_path: Path) -> None:
    """Impossible arguments end with status 2 before anything starts."""
    words = [str(tmp_path / "none") if word == "none" else word for word in words]
    assert quorate("up", *words).returncode == 2


def test_resuming_goes_on_with_the_same_cluster(tmp_path: Path) -> None:
    """After SIGTERM and ``--resume`` the cluster id is the same and nothing committed is missing."""
    with up(tmp_path / "c") as cluster:
        before = cluster.node().get("/v1/status", Status)
        assert quorate("config", "cluster", "note=kept", "--unread", "--node", cluster.nodes[1]["http"]).returncode == 0
        assert cluster.stop() == 0
    with resumed(tmp_path / "c") as cluster:
        after = cluster.node().get("/v1/status", Status)
        assert after.cluster_id == before.cluster_id
        assert after.offset > before.offset
        shown = quorate("config", "cluster", "--node", cluster.nodes[2]["http"])
        assert "note     kept" in shown.stdout
        assert cluster.stop(signal.SIGINT) == 0


def test_a_new_cluster_has_all_that_its_nodes_can_and_an_old_one_what_it_had(tmp_path: Path) -> None:
    """The first key is taken without another command, and ``up`` says at which level; resumed, it is left as it is."""
    with up(tmp_path / "new", nodes=1) as cluster:
        node = cluster.nodes[0]["http"]
        feature = cluster.node().get("/v1/feature", Feature)
        assert feature.level == feature.highest > 1
        assert cluster.stderr.read_text() == f"the feature level is {feature.level}\n"
        assert quorate("kv", "put", "/first", "x", "--node", node).returncode == 0
    with up(tmp_path / "old", "--feature-level", "1", nodes=1) as cluster:
        assert cluster.stop() == 0
    with resumed(tmp_path / "old") as cluster:
        assert cluster.node().get("/v1/feature", Feature).level == 1


def test_voters_are_fixed(tmp_path: Path) -> None:
    """A node whose settings name other voters than its cluster was created with does not start: alone, it would be a
    majority of itself and write another history.
    """
    with up(tmp_path / "c") as cluster:
        assert cluster.stop() == 0
    config = cluster.config(0)
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if "{ id = 2" not in line and "{ id = 3" not in line))
    ended = quorate("serve", "--config", str(config))
    assert ended.returncode == 1
    assert "cluster.voters names 1; this cluster was created with 1, 2, 3, and its voters are fixed" in ended.stderr


def test_a_node_that_dies_is_reported_and_can_be_brought_back(tmp_path: Path) -> None:
    """``up`` says which node died and of what, leaves it down, and ``serve`` makes it a member again."""
    with up(tmp_path / "c") as cluster:
        victim = next(i for i in range(3) if cluster.nodes[i]["id"] != leader(cluster))
        psutil.Process(cluster.nodes[victim]["pid"]).kill()
        number = cluster.nodes[victim]["id"]
        until(lambda: f"node {number} (pid" in cluster.stderr.read_text(), "the report of the death")
        assert "died: signal SIGKILL" in cluster.stderr.read_text()
        others = ",".join(cluster.nodes[(victim + more) % 3]["http"] for more in range(3))
        shown = quorate("status", "--node", others)  # The dead one is asked first, and passed over.
        assert (shown.returncode, "2 of 3 controllers connected" in shown.stdout) == (1, True)
        assert "instead" in shown.stderr
        with pytest.raises(NodeError):
            cluster.node(victim).get("/v1/status", Status)
        with serving(cluster.config(victim)):
            until(cluster.node(victim).serves, "the return of the node")
            found: list[StateHash] = []

            def level() -> bool:
                """The return is an event itself, which may be committed between two answers."""
                found[:] = [cluster.node(index).get("/v1/state-hash", StateHash) for index in range(3)]
                return len({answer.index for answer in found}) == 1

            until(level, "all nodes at one index")
            assert len({answer.hash for answer in found}) == 1


def test_a_node_is_started_again_when_that_is_wished(tmp_path: Path) -> None:
    """With ``--restart`` a killed node returns by itself, with another process id."""
    with up(tmp_path / "c", "--restart", nodes=1) as cluster:
        psutil.Process(cluster.nodes[0]["pid"]).kill()
        until(lambda: "starting it again" in cluster.stderr.read_text(), "the report of the death")
        until(cluster.node().serves, "the return of the node")
        assert gone(cluster.nodes[0]["pid"])


def test_nodes_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    """When ``up`` itself is killed, its nodes are gone with it."""
    with up(tmp_path / "c") as cluster:
        cluster.process.kill()
        cluster.process.communicate()
        until(lambda: all(gone(node["pid"]) for node in cluster.nodes), "the end of the orphans", 10)


def test_a_leader_told_to_stop_hands_over(tmp_path: Path) -> None:
    """SIGTERM to the leader: it exits 0, and the log says that the leadership was handed over."""
    with up(tmp_path / "c") as cluster:
        first = leader(cluster)
        index = next(i for i in range(3) if cluster.nodes[i]["id"] == first)
        process = psutil.Process(cluster.nodes[index]["pid"])
        process.send_signal(signal.SIGTERM)
        other = (index + 1) % 3
        until(lambda: leader(cluster, other) not in (None, first), "another leader", 10)
        until(lambda: f"node {first} (pid {process.pid}) died: exit status 0" in cluster.stderr.read_text(), "the end")
        told = quorate("log", "dump", "--node", cluster.nodes[other]["http"])
        assert f"node {first} handed over" in told.stdout


def test_java_s_property_file_starts_a_node(tmp_path: Path) -> None:
    """A controller.properties as RocketMQ has it serves on the rpc port it names, and HTTP at the derived one."""
    rpc = free_ports(4, spread=1000)
    config = tmp_path / "controller.properties"
    config.write_text(
        f"controllerDLegerGroup=group1\ncontrollerDLegerPeers=n0-127.0.0.1:{rpc}\ncontrollerDLegerSelfId=n0\n"
        f"controllerStorePath={tmp_path}\nlistenPort=9876\n"
    )
    with serving(config):
        node = Node(f"127.0.0.1:{rpc + 3000}")
        until(node.serves, "the node")
        assert node.get("/v1/quorum", Quorum).voters[0].rpc == f"127.0.0.1:{rpc}"
        assert node.get("/v1/status", Status).cluster_id == "group1"


def test_the_log_of_a_stopped_node_can_be_read(tmp_path: Path) -> None:
    """``log dump --data-dir`` tells what the node told while it ran; of a running node it is refused."""
    with up(tmp_path / "c", nodes=1) as cluster:
        data = str(cluster.config(0).parent / "data")
        assert quorate("log", "dump", "--data-dir", data).returncode == 2
        ask = ("log", "dump", "-o", "json", "--node", cluster.nodes[0]["http"])
        until(lambda: "NodeStarted" in quorate(*ask).stdout, "the last event of a start")
        alive = quorate(*ask)
        cluster.stop()
    stopped = quorate("log", "dump", "-o", "json", "--data-dir", data)
    assert stopped.returncode == 0
    assert stopped.stdout == alive.stdout
    assert "ClusterCreated" in stopped.stdout


def test_wrong_settings_stop_a_node_before_it_starts(tmp_path: Path) -> None:
    """Every problem is on stderr, the exit status is 2, and no data directory was made."""
    config = tmp_path / "node.toml"
    config.write_text('[node]\nid = 2\ndata_dir = "data"\ninsecure_listener = []\n[cluster]\nid = "x"\nvoters = []\n')
    ended = quorate("serve", "--config", str(config))
    assert ended.returncode == 2
    assert "node.insecure_listener: unknown setting; did you mean node.insecure_listeners?" in ended.stderr
    assert "cluster.voters: 0 voters" in ended.stderr
    assert not (tmp_path / "data").exists()
