"""Debian's ``etcdctl``, unmodified, at three nodes, through a SIGKILL of their leader. Each story is read back: what it
did is in the log, where kcat reads it, and on the page.
"""

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
from tests.browser.screen import Screen
from tests.clusters import Started, leader, quorate, until, up
from tests.kcat import read_back
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
    led = leader(cluster)
    return Ctl(etcdctl(), cluster.nodes[led if request.param == "leader" else (led + 1) % 3])


def value(put: dict[str, Any]) -> str:
    """Of a KeyPut that was read back."""
    return b64decode(put["value"]["value"]).decode()


def test_keys_transactions_and_revisions(ctl: Ctl, cluster: Started, page: Screen) -> None:
    """As its manual has them; each change is one fact, and nothing else is."""
    assert ctl("put", "/ctl/a", "1") == "OK\n"
    first = ctl.json("get", "/ctl/a")["kvs"][0]
    assert ctl("put", "/ctl/a", "2", "--prev-kv") == "OK\n/ctl/a\n1\n"
    compared = 'value("/ctl/a") = "2"\n\nput /ctl/b yes\n\nput /ctl/b no\n\n'
    assert ctl("txn", stdin=compared) == "SUCCESS\n\nOK\n"
    assert ctl("get", "/ctl/", "--prefix") == "/ctl/a\n2\n/ctl/b\nyes\n"
    assert ctl("get", "/ctl/a", "--rev", str(first["mod_revision"]), "--print-value-only") == "1\n"
    assert ctl("del", "/ctl/", "--prefix") == "2\n"
    read = read_back(page, cluster, "key//ctl/")
    done = [fact for fact in read if fact["offset"] >= first["mod_revision"]]
    assert [(fact["key"], value(fact)) for fact in done[:3]] == [
        ("key//ctl/a", "1"), ("key//ctl/a", "2"), ("key//ctl/b", "yes"),
    ]  # fmt: skip
    assert [(fact["key"], fact["type"]) for fact in done[3:]] == [
        ("key//ctl/a", "KeyDeleted"), ("key//ctl/b", "KeyDeleted"),
    ]  # fmt: skip


def test_members_and_health(ctl: Ctl, cluster: Started, page: Screen) -> None:
    """Three members, one of which leads, all healthy, all with the same keys; they and their leader are in the log."""
    members = ctl.json("member", "list")["members"]
    assert [member["clientURLs"] for member in members] == [[f"http://{node['grpc']}"] for node in cluster.nodes]
    status = ctl.json("endpoint", "status", "--cluster")
    assert len(status) == 3
    assert {one["Status"]["leader"] for one in status} == {cluster.node().get("/v1/status", Status).leader}
    assert all(one["health"] for one in ctl.json("endpoint", "health", "--cluster"))
    assert len({one["HashKV"]["hash"] for one in ctl.json("endpoint", "hashkv", "--cluster")}) == 1
    read = [fact["value"] for fact in read_back(page, cluster, "node/", "leader/")]
    started = {fact["node_id"]: fact["addresses"]["raft"] for fact in read if fact["type"] == "NodeStarted"}
    assert [[f"http://{started[member['ID']]}"] for member in members] == [member["peerURLs"] for member in members]
    elected = [fact["node_id"] for fact in read if fact["type"] == "ControllerLeaderElected"]
    assert {one["Status"]["leader"] for one in status} == {elected[-1]}


def test_a_lock_and_an_election(ctl: Ctl, cluster: Started, page: Screen) -> None:
    """The recipes of ``clientv3/concurrency``: a lock is held by one at a time, an election has one winner. Each key of
    theirs was put once, under a lease that was granted, and deleted once.
    """
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
    read = read_back(page, cluster, "key/job/", "key/boss/", "lease/")
    puts = [fact for fact in read if fact["type"] == "KeyPut"]
    deleted = [fact["key"] for fact in read if fact["type"] == "KeyDeleted"]
    assert [value(put) for put in puts][-3:] == ["", "first", "second"]
    assert sorted(put["key"] for put in puts) == sorted(deleted)
    granted = {fact["key"] for fact in read if fact["type"] == "LeaseGranted"}
    assert {f"lease/{put['value']['lease']}" for put in puts} <= granted


def test_a_watch_and_a_lease_outlive_the_leader(cluster: Started, page: Screen) -> None:
    """Every change is told once, in order, through a SIGKILL of the leader; a lease that is kept alive stays, and one
    whose holder is gone ends with its key. The log says all of it, and so do kcat and the page.
    """
    ctl = Ctl(etcdctl(), *cluster.nodes)
    lease = ctl("lease", "grant", "60").split()[1]
    ctl("put", "/kept", "x", "--lease", lease)
    alive = ctl.start("lease", "keep-alive", lease)
    gone = ctl("lease", "grant", "5").split()[1]
    ctl("put", "/gone", "x", "--lease", gone)
    following = ctl.json("get", "/gone")["header"]["revision"] + 1  # Whenever the program has started.

    def begin() -> "subprocess.Popen[str]":
        return ctl.start("watch", "/seen/", "--prefix", "--rev", str(following), "-w", "json")

    watch = begin()
    try:
        for number in range(3):
            ctl("put", "/seen/k", str(number))
        led = cluster.nodes[leader(cluster)]
        psutil.Process(led["pid"]).kill()
        for number in range(3, 6):
            ctl.put("/seen/k", str(number))
        told: list[str] = []
        while len(told) < 6:
            assert watch.stdout is not None
            line = json.loads(watch.stdout.readline())
            if line["Canceled"]:  # As etcd, a node that knows no leader ends it.
                watch.communicate()
                watch = begin()
                continue
            told += [b64decode(event["kv"]["value"]).decode() for event in line["Events"]]
            following = line["Events"][-1]["kv"]["mod_revision"] + 1
        assert told == [str(number) for number in range(6)]
        until(lambda: not ctl("get", "/gone"), "the end of the lease", 60)
        assert ctl("get", "/kept", "--print-value-only") == "x\n"
    finally:
        for process in (alive, watch):
            process.kill()
            process.communicate()
    (node,) = [node for node in cluster.nodes if node["id"] != led["id"]][:1]
    log = quorate("log", "tail", "-n", "200", "--node", node["http"]).stdout
    assert f"lease {gone} ended: not heard for" in log
    assert "key /gone was deleted" in log
    read = read_back(page, cluster, "key//kept", "key//gone", "key//seen/k", "lease/", "leader/")
    for key, count in (("/kept", 1), ("/gone", 2), ("/seen/k", 6)):
        changes = [fact["offset"] for fact in read if fact["key"] == f"key/{key}"]
        assert len(changes) == count
        assert page.history_of_key(key, read[-1]["offset"]) == changes[::-1]
    assert [value(fact) for fact in read if fact["key"] == "key//seen/k"] == told
    leases = [(fact["type"], fact["key"]) for fact in read]
    assert [leases.count((kind, f"lease/{int(gone, 16)}")) for kind in ("LeaseGranted", "LeaseEnded")] == [1, 1]
    assert [leases.count((kind, f"lease/{int(lease, 16)}")) for kind in ("LeaseGranted", "LeaseEnded")] == [1, 0]
    assert [fact["value"]["node_id"] for fact in read if fact["key"] == "leader/controller"][-1] != led["id"]
    assert page.open("/key/%2Fkept").text("#p-value pre") == "x"
    assert "not heard for" in page.open("/key/%2Fgone").text(".kh td.wrap")
