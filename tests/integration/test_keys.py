"""Keys and leases from the command line, on a cluster of three real nodes."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.gateway.http.answers import Done, Status
from quorate.gateway.http.writing import FeatureBody
from tests.clusters import QUORATE, Started, quorate, resumed, said, until, up


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes at feature level 2."""
    with up(tmp_path_factory.mktemp("keys") / "c") as started:
        refused = quorate("kv", "put", "/a", "1", "--node", started.nodes[0]["http"])
        assert (refused.returncode, "needs feature level 2" in refused.stderr) == (1, True)
        started.node().send("PUT", "/v1/feature", FeatureBody(level=2), Done)
        yield started


def test_keys_are_put_read_and_deleted_at_every_node(cluster: Started) -> None:
    """What one node was told the others answer, at its revision and at the one before."""
    first = said(cluster, "kv", "put", "/read/a", "one", node=1)["revision"]
    second = said(cluster, "kv", "put", "/read/a", "two", node=2)["revision"]
    (now,) = said(cluster, "kv", "get", "/read/a")["keys"]
    assert (now["value"], now["create_revision"], now["mod_revision"], now["version"]) == ("dHdv", first, second, 2)
    (before,) = said(cluster, "kv", "get", "/read/a", "--revision", str(first), node=1)["keys"]
    assert (before["value"], before["version"]) == ("b25l", 1)
    assert said(cluster, "at", str(second), "kv", "get", "/read/a")["keys"] == [before]
    assert quorate("at", "1", "kv", "get", "/read/a", "--node", cluster.nodes[2]["http"]).returncode == 1
    said(cluster, "kv", "put", "/read/b", "")
    assert [one["key"] for one in said(cluster, "kv", "get", "/read/", "--prefix", node=2)["keys"]] == [
        "/read/a",
        "/read/b",
    ]
    assert said(cluster, "kv", "del", "/read/", "--prefix")["deleted"] == 2
    assert quorate("kv", "get", "/read/a", "--node", cluster.nodes[1]["http"]).returncode == 1


def test_a_simulated_service_finds_the_nodes_that_answer(cluster: Started) -> None:
    """By their HTTP addresses, as every command does; where none answers it says so."""
    node = f"127.0.0.1:1,{cluster.nodes[1]['http']}"
    with subprocess.Popen([*QUORATE, "simservice", "--node", node, "--key", "/sim/x"]) as service:
        asked = ("kv", "get", "/sim/x", "--node", cluster.nodes[2]["http"])
        until(lambda: quorate(*asked).returncode == 0, "its key")
        service.kill()
    lost = quorate("simservice", "--node", "127.0.0.1:1")
    assert (lost.returncode, "no node answers" in lost.stderr) == (1, True), lost.stderr


def test_a_lease_takes_its_keys_along(cluster: Started) -> None:
    """It is kept by a word, and ends when it is revoked, or when nobody says one; the log tells which."""
    lease = said(cluster, "lease", "grant", "60")["lease"]
    said(cluster, "kv", "put", "/held", "x", "--lease", lease, node=2)
    assert said(cluster, "lease", "ttl", lease, node=1)["keys"] == ["/held"]
    assert said(cluster, "lease", "keep-alive", lease, "--once", node=2)["ttl_s"] == 60
    assert said(cluster, "lease", "list") == [lease]
    said(cluster, "lease", "revoke", lease, node=1)
    short = said(cluster, "lease", "grant", "8")["lease"]
    said(cluster, "kv", "put", "/held", "y", "--lease", short)
    until(lambda: not cluster.node().get("/v1/status", Status).leases, "the end of the lease")
    log = quorate("log", "tail", "-n", "20", "--node", cluster.nodes[0]["http"]).stdout
    assert f"lease {lease} ended: revoked; 1 key went with it" in log
    assert f"lease {short} ended: not heard for 8." in log
    gone = quorate("lease", "ttl", lease, "--node", cluster.nodes[0]["http"])
    assert (gone.returncode, gone.stderr) == (1, f"quorate: there is no lease {lease}\n")


def test_a_watch_tells_each_change_once(cluster: Started) -> None:
    """From a revision of the past on, and what happens while it watches; Ctrl-C ends it."""
    first = said(cluster, "kv", "put", "/watched/a", "1")["revision"]
    words = ["kv", "watch", "/watched/", "--prefix", "--revision", str(first), "-o", "json"]
    watch = subprocess.Popen(
        [*QUORATE, *words, "--node", cluster.nodes[1]["http"]], stdout=subprocess.PIPE, env=os.environ
    )
    try:
        assert watch.stdout is not None
        told = [json.loads(watch.stdout.readline())]
        said(cluster, "kv", "put", "/watched/b", "2", node=2)
        said(cluster, "kv", "del", "/watched/a")
        told += [json.loads(watch.stdout.readline()) for _ in range(2)]
    finally:
        watch.send_signal(signal.SIGINT)
        watch.communicate(timeout=20)
    assert [(one["event"], one["key"]) for one in told] == [
        ("put", "/watched/a"),
        ("put", "/watched/b"),
        ("delete", "/watched/a"),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("kv", "get", ""), "etcdserver: key is not provided"),
        (("kv", "put", "/x", "y", "--lease", "77"), "etcdserver: requested lease not found"),
        (("kv", "get", "/x", "--revision", "999999999"), "required revision is a future revision"),
        (("lease", "grant", "99999999999"), "etcdserver: too large lease TTL"),
        (("lease", "revoke", "xyz"), "is no number of a lease"),
    ],
)
def test_what_is_refused_is_said(cluster: Started, words: tuple[str, ...], told: str) -> None:
    """In etcd's words where it has some; the exit status says that nothing was done."""
    done = quorate(*words, "--node", cluster.nodes[0]["http"])
    assert done.returncode in (1, 2)
    assert told in done.stderr


def test_a_folder_of_before_has_no_grpc_and_says_so(tmp_path: Path) -> None:
    """Its nodes listen where their settings say, and a command tells which setting is missing."""
    with up(tmp_path / "c", nodes=1) as started:
        config = started.config(0)
        assert started.stop() == 0
    text = config.read_text()
    lines = [line for line in text.splitlines() if not line.strip().startswith("grpc")]
    config.write_text("\n".join(lines).replace(f', grpc = "{started.nodes[0]["grpc"]}"', "") + "\n")
    assert started.nodes[0]["grpc"] not in config.read_text()
    with resumed(tmp_path / "c") as again:
        done = quorate("kv", "get", "/a", "--node", again.nodes[0]["http"])
        assert (done.returncode, "listeners.grpc" in done.stderr) == (1, True)
