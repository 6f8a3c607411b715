"""Debian's ``etcdctl``, unmodified, at three nodes, through a SIGKILL of their leader; what it did is in the log."""

import json
import os
import signal
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from quorate.gateway.http.answers import Status
from tests import kcat
from tests.browsers import headless, showing
from tests.clusters import Started, quorate, until, up
from tests.peers import peer

UNKNOWN = "etcdserver: request timed out"
"""What etcd's servers say of a write whose leader was killed under it."""


class Ctl:
    """The program, and where it asks."""

    def __init__(self, program: str, *nodes: dict[str, Any]) -> None:
        endpoints = ",".join(node["grpc"] for node in nodes)
        self._command = [program, "--endpoints", endpoints, "--dial-timeout", "5s", "--command-timeout", "10s"]
        self._environment = os.environ | {"ETCDCTL_API": "3"}

    def _run(self, words: tuple[str, ...], stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._command, *words], input=stdin, capture_output=True, text=True, timeout=60, check=False,
            env=self._environment,
        )  # fmt: skip

    def __call__(self, *words: str, stdin: str = "") -> str:
        """What it prints; it must end well."""
        done = self._run(words, stdin)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def put(self, key: str, value: str) -> None:
        """As a careful client does: a put whose end nobody knows is looked for, and repeated if it was not done."""
        put = ("put", key, value)
        while (done := self._run(put)).returncode != 0:
            assert UNKNOWN in done.stderr, (put, done.stdout, done.stderr)
            if self("get", key, "--print-value-only") == f"{value}\n":
                return

    def json(self, *words: str) -> Any:
        """The same as JSON."""
        return json.loads(self(*words, "-w", "json"))

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Let it run."""
        return subprocess.Popen([*self._command, *words], stdout=subprocess.PIPE, text=True, env=self._environment)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes."""
    peer("etcd-client")
    with up(tmp_path_factory.mktemp("etcdctl") / "c", "--restart") as started:
        yield started


def etcdctl() -> str:
    """Where it is."""
    return str(peer("etcd-client") / "etcd-client")


@pytest.fixture(params=["leader", "follower"])
def ctl(cluster: Started, request: pytest.FixtureRequest) -> Ctl:
    """At one alone: what it does not answer nobody does."""
    led = cluster.node().get("/v1/status", Status).leader
    (node, *_) = [node for node in cluster.nodes if (node["id"] == led) == (request.param == "leader")]
    return Ctl(etcdctl(), node)


def test_keys_transactions_and_revisions(ctl: Ctl) -> None:
    """As its manual has them."""
    assert ctl("put", "/ctl/a", "1") == "OK\n"
    first = ctl.json("get", "/ctl/a")["kvs"][0]
    assert ctl("put", "/ctl/a", "2", "--prev-kv") == "OK\n/ctl/a\n1\n"
    compared = 'value("/ctl/a") = "2"\n\nput /ctl/b yes\n\nput /ctl/b no\n\n'
    assert ctl("txn", stdin=compared) == "SUCCESS\n\nOK\n"
    assert ctl("get", "/ctl/", "--prefix") == "/ctl/a\n2\n/ctl/b\nyes\n"
    assert ctl("get", "/ctl/a", "--rev", str(first["mod_revision"]), "--print-value-only") == "1\n"
    assert ctl("del", "/ctl/", "--prefix") == "2\n"


def test_members_and_health(ctl: Ctl, cluster: Started) -> None:
    """Three members, one of which leads, all healthy, all with the same keys."""
    members = ctl.json("member", "list")["members"]
    assert [member["clientURLs"] for member in members] == [[f"http://{node['grpc']}"] for node in cluster.nodes]
    status = ctl.json("endpoint", "status", "--cluster")
    assert len(status) == 3
    assert {one["Status"]["leader"] for one in status} == {cluster.node().get("/v1/status", Status).leader}
    assert all(one["health"] for one in ctl.json("endpoint", "health", "--cluster"))
    assert len({one["HashKV"]["hash"] for one in ctl.json("endpoint", "hashkv", "--cluster")}) == 1


def test_a_lock_and_an_election(ctl: Ctl) -> None:
    """The recipes of ``clientv3/concurrency``: a lock is held by one at a time, an election has one winner."""
    assert ctl("lock", "job", "echo", "held") == "held\n"
    boss = ctl.start("elect", "boss", "first")
    try:
        assert boss.stdout is not None
        boss.stdout.readline()
        assert boss.stdout.readline() == "first\n"
        other = ctl.start("elect", "boss", "second")
        boss.send_signal(signal.SIGINT)
        boss.wait(20)
        assert other.stdout is not None
        other.stdout.readline()
        assert other.stdout.readline() == "second\n"
        other.send_signal(signal.SIGINT)
        other.communicate(timeout=20)
    finally:
        boss.kill()
        boss.communicate()


def test_a_watch_and_a_lease_outlive_the_leader(cluster: Started) -> None:
    """Every change is told once, in order, through a SIGKILL of the leader; a lease that is kept alive stays, and one
    whose holder is gone ends with its key. The log says all of it, kcat finds each put in it, and
    the page shows them.
    """
    ctl = Ctl(etcdctl(), *cluster.nodes)
    lease = ctl("lease", "grant", "60").split()[1]
    ctl("put", "/kept", "x", "--lease", lease)
    alive = ctl.start("lease", "keep-alive", lease)
    gone = ctl("lease", "grant", "5").split()[1]
    ctl("put", "/gone", "x", "--lease", gone)
    following = str(ctl.json("get", "/gone")["header"]["revision"] + 1)  # Whenever the program has started.
    watch = ctl.start("watch", "/seen/", "--prefix", "--rev", following, "-w", "json")
    try:
        for number in range(3):
            ctl("put", "/seen/k", str(number))
        leader = cluster.node().get("/v1/status", Status).leader
        (pid,) = [node["pid"] for node in cluster.nodes if node["id"] == leader]
        psutil.Process(pid).kill()
        for number in range(3, 6):
            ctl.put("/seen/k", str(number))
        told: list[str] = []
        while len(told) < 6:
            assert watch.stdout is not None
            line = json.loads(watch.stdout.readline())
            told += [b64decode(event["kv"]["value"]).decode() for event in line["Events"]]
        assert told == [str(number) for number in range(6)]
        until(lambda: not ctl("get", "/gone"), "the end of the lease", 60)
        assert ctl("get", "/kept", "--print-value-only") == "x\n"
    finally:
        for process in (alive, watch):
            process.kill()
            process.communicate()
    (node,) = [node for node in cluster.nodes if node["id"] != leader][:1]
    log = quorate("log", "tail", "-n", "200", "--node", node["http"]).stdout
    assert f"lease {gone} ended: not heard for" in log
    assert "key /gone was deleted" in log
    read = list(kcat.keys(node["kafka"]).values())
    assert [read.count(f"key/default/{key}") for key in ("/kept", "/gone", "/seen/k")] == [1, 2, 6]
    with headless() as browser, showing(browser, cluster) as page:
        assert [len(page.history_of_key(key, len(read) - 1)) for key in ("/kept", "/gone", "/seen/k")] == [1, 2, 6]
        assert page.open("/key/%2Fkept").text("#p-value pre") == "x"
        assert "not heard for" in page.open("/key/%2Fgone").text(".kh td.wrap")
