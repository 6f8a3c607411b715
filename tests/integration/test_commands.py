"""The command line against real nodes: what it changes, and what it says of the wrong port."""

import json
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import QUORATE, free_ports, quorate, until, up

pytestmark = pytest.mark.integration


def test_the_command_line_changes_topics_and_names_wrong_ports(tmp_path: Path) -> None:
    """A topic is made, changed, refused and deleted as over HTTP; each other listener is named, with the right one;
    the settings in force are told with their source; a dead address before a living one is passed over.
    """
    with up(tmp_path / "c", nodes=1) as cluster:
        http = cluster.nodes[0]["http"]

        def run(*words: str) -> tuple[int, str]:
            ended = quorate(*words, "--node", http)
            return ended.returncode, ended.stdout + ended.stderr

        assert run("topics", "create", "orders", "--read-queues", "4")[0] == 0
        assert run("topics", "create", "orders")[0] == 1
        code, told = run("topics", "change", "orders", "--read-queues", "100000")
        assert code == 1
        assert "queue" in told
        assert run("topics", "change", "orders", "--write-queues", "2")[0] == 0
        assert "orders  4     2" in run("topics")[1]
        assert run("topics", "delete", "orders")[0] == 0
        assert run("topics", "delete", "orders") == (0, "there was no topic orders\n")
        code, told = run("elections", "elect", "nobody")
        assert code == 1
        assert "Broker hasn't been registered" in told
        code, told = run("config")
        assert "node.data_dir" in told
        assert f"file {(tmp_path / 'c' / 'n1' / 'node.toml').resolve()}" in told
        for listener in ("rpc", "raft", "kafka", "grpc"):
            ended = quorate("status", "--node", cluster.nodes[0][listener])
            assert ended.returncode == 1
            assert f"is the {listener} port of node 1: say --node {http}" in ended.stderr
        ended = quorate("status", "--node", f"127.0.0.1:1,{http}")
        assert (ended.returncode, ended.stderr.count("instead")) == (0, 1)


def test_a_node_says_where_it_listens_in_lines_of_one_shape_and_git_sees_nothing(tmp_path: Path) -> None:
    """Each line of a node's log is JSON that begins with time, level, event and node, commands too; one names every
    listener. A cluster in a checkout, its key first of all, is no part of it.
    """
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with up(tmp_path / "c", nodes=1) as cluster:
        node = cluster.nodes[0]
        assert quorate("topics", "create", "orders", "--node", node["http"]).returncode == 0
        lines = [json.loads(line) for line in (tmp_path / "c" / "n1" / "node.log").read_text().splitlines()]
        assert all(list(line)[:3] == ["ts", "level", "event"] for line in lines)
        assert all(line["ts"].endswith("Z") and len(line["ts"]) == len("2023-11-14T22:13:20.123000Z") for line in lines)
        (told,) = [line for line in lines if line["event"] == "listening"]
        listeners = ("rpc", "raft", "kafka", "http", "grpc")
        assert {name: told[name] for name in listeners} == {name: node[name] for name in listeners}
        assert any(line["event"] == "command" for line in lines)
        seen = subprocess.run(["git", "-C", str(tmp_path), "status", "--porcelain"], capture_output=True, check=True)
        assert b"c/" not in seen.stdout
        assert (tmp_path / "c" / "n1" / "data" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("listener", ["rpc", "raft", "kafka", "http", "grpc"])
def test_a_port_in_use_is_named_by_its_own_setting(tmp_path: Path, listener: str) -> None:
    """Whoever of the five it is; the node ends with status 2 and that sentence."""
    from quorate.cli.cluster import found

    place = found(tmp_path / "c", 1, free_ports(10))[0]
    host, _, port = place.addresses()[listener].rpartition(":")
    with socket.create_server((host, int(port))):
        ended = quorate("serve", "--config", str(place.config))
    assert ended.returncode == 2
    assert f"quorate: listeners.{listener}: cannot listen on {host}:{port}: " in ended.stderr


def test_simulated_brokers_are_one_command_away(tmp_path: Path) -> None:
    """``simbroker`` alone gives a running cluster sets with masters; it ends them when it is told to. They are kept
    where it was started, out of git's sight: the same command gives the same brokers, and their master, again. A
    new cluster has them too. Where nobody is, it says so, and what to do.
    """

    def sets(http: str) -> list[tuple[bool, list[int], list[bool]]]:
        """Has it a master, who is in sync, and which of its brokers live; of each."""
        told = json.loads(quorate("brokers", "-o", "json", "--node", http).stdout)
        return [
            (one["master"] is not None, sorted(one["sync_state_set"]), [each["alive"] for each in one["replicas"]])
            for one in told
        ]

    def live(node: Mapping[str, Any], times: int) -> None:
        words = [*QUORATE, "simbroker", "--sets", "1", "--controllers", node["rpc"], "--port", str(free_ports(4))]
        for _ in range(times):
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as fleet:
                try:
                    assert fleet.stdout is not None
                    line = fleet.stdout.readline()
                    assert "2 simulated brokers" in line
                    assert f"kept in {tmp_path / 'brokers'}; " in line
                    until(
                        lambda: sets(node["http"]) == [(True, [1, 2], [True, True])],
                        "one set of two, with a master",
                        30.0,
                    )
                finally:
                    fleet.send_signal(signal.SIGTERM)
                    status = fleet.wait(15)
            assert status == 0
            until(lambda: not any(sets(node["http"])[0][2]), "both are gone", 30.0)

    for folder, times in (("c", 2), ("another", 1)):
        with up(tmp_path / folder, nodes=1) as cluster:
            live(cluster.nodes[0], times)
    assert (tmp_path / "brokers" / ".gitignore").read_text() == "*\n"
    where = ["--controllers", "127.0.0.1:1", "--port", str(free_ports(4)), "--home", str(tmp_path / "nobody")]
    with subprocess.Popen([*QUORATE, "simbroker", *where], stderr=subprocess.PIPE, text=True) as fleet:
        try:
            assert fleet.stderr is not None
            assert "no controller has answered for 5 s; quorate up" in fleet.stderr.readline()
        finally:
            fleet.send_signal(signal.SIGTERM)
            assert fleet.wait(15) == 0
    assert quorate("simbroker", "--sets", "0").returncode == 2
    assert quorate("simbroker", "--port", "65535").returncode == 2
    assert quorate("simbroker", "--broker-set", "a").returncode == 2
