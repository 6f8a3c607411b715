"""Keys and leases from the command line, on a cluster of three real nodes."""

import json
import os
import queue
import re
import signal
import subprocess
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from quorate.asking import Request, exchange
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub
from quorate.gateway.http.answers import Done, Status
from quorate.gateway.http.writing import FeatureBody
from tests.clusters import QUORATE, Started, quorate, resumed, said, until, up


class Lines:
    """What a command that lasts has told, line by line."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._lines = queue.SimpleQueue[bytes]()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def next(self) -> Any:
        """The next, which must come."""
        return json.loads(self._lines.get(timeout=30))

    def rest(self) -> bytes:
        """The next, or nothing at its end."""
        return self._lines.get(timeout=30)


def watches(cluster: Started, index: int) -> int:
    """How many watchers a node has."""
    _, body = exchange(cluster.nodes[index]["http"], Request("GET", "/metrics"), 5.0)
    (count,) = re.findall(rb"^quorate_grpc_watches (\d+)", body, re.MULTILINE)
    return int(count)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes at feature level 2."""
    with up(tmp_path_factory.mktemp("keys") / "c", "--feature-level", "1") as started:
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


def test_more_keys_than_a_node_deletes_at_once_go_in_portions(cluster: Started) -> None:
    """All of them, whether they are many or their names are long; each portion is said, and the sum."""
    names = [b"/many/%04d" % number for number in range(4_100)]
    names += [b"/many/long%d" % number + b"k" * 400_000 for number in range(4)]
    with grpc.insecure_channel(cluster.nodes[0]["grpc"]) as channel:
        for at in range(0, 4_100, 100):
            puts = [rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=name)) for name in names[at : at + 100]]
            KVStub(channel).Txn(rpc_pb2.TxnRequest(success=puts), timeout=10)
        for name in names[4_100:]:
            KVStub(channel).Put(rpc_pb2.PutRequest(key=name), timeout=10)
    deleted = quorate("kv", "del", "/many/", "--prefix", "--node", cluster.nodes[1]["http"])
    assert (deleted.returncode, deleted.stdout.split(" ")[0]) == (0, str(len(names))), deleted.stderr
    assert deleted.stderr.startswith("1000 deleted so far")
    assert quorate("kv", "get", "/many/", "--prefix", "--node", cluster.nodes[2]["http"]).returncode == 1


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
    assert lease in said(cluster, "lease", "list"), "beside those of other tests, until they end"
    held = str(cluster.node().get("/v1/status", Status).offset)
    said(cluster, "lease", "revoke", lease, node=1)
    assert lease in said(cluster, "at", held, "lease", "list", node=2)
    assert lease not in said(cluster, "lease", "list")
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


def test_keys_and_values_are_the_bytes_that_were_typed(cluster: Started) -> None:
    """Those that are no UTF-8 too, in every command and as either end of a range."""
    key, value = b"\xff/typed", b"\xfe\x80"

    def run(*words: str | bytes) -> str:
        done = subprocess.run(
            [*QUORATE, "kv", *words, "--node", cluster.nodes[0]["http"]], capture_output=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    put = int(run("put", key, value).split()[-1])
    (found,) = json.loads(run("get", b"\xff", "--prefix", "-o", "json"))["keys"]
    assert b64decode(found["value"]) == value
    assert json.loads(run("get", b"\xff", "--to", b"\xff\xff", "-o", "json"))["keys"] == [found]
    watch = [*QUORATE, "kv", "watch", key, "--revision", str(put), "-o", "json", "--node", cluster.nodes[0]["http"]]
    with subprocess.Popen(watch, stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["key"] == found["key"]
        watching.send_signal(signal.SIGINT)
    assert run("del", key).startswith("1 deleted")


def test_a_lease_is_a_word_of_kv_too(cluster: Started) -> None:
    """Every action of ``quorate lease`` is there."""
    lease = said(cluster, "kv", "lease", "grant", "60")["lease"]
    assert lease in said(cluster, "kv", "lease", "list")
    assert said(cluster, "kv", "lease", "keep-alive", lease, "--once")["ttl_s"] == 60
    assert said(cluster, "kv", "lease", "ttl", lease)["keys"] == []
    assert said(cluster, "kv", "lease", "revoke", lease)["lease"] == lease


def led_by(cluster: Started, index: int) -> int | None:
    """Whom this node takes for the leader."""
    return cluster.node(index).get("/v1/status", Status, level="stale").leader


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
def test_a_watch_and_a_keep_alive_outlive_the_node_they_began_at(tmp_path: Path, fate: signal.Signals) -> None:
    """It dies, or hangs. At the next of those named a watch goes on behind what it told: nothing is lost, and nothing
    told twice. The lease lives on. They end with an error when no node is left.
    """
    with ExitStack() as ends:
        cluster = ends.enter_context(up(tmp_path / "c"))
        node = ",".join(cluster.nodes[at]["http"] for at in (2, 0, 1))

        def begun(*words: str) -> Lines:
            process = subprocess.Popen([*QUORATE, *words, "-o", "json", "--node", node], stdout=subprocess.PIPE)
            ends.callback(process.wait, 10)
            ends.callback(process.kill)
            return Lines(process)

        places = [ends.enter_context(grpc.insecure_channel(cluster.nodes[at]["grpc"])) for at in (0, 1)]

        def put(name: str) -> int:
            """At each of the two that live, by turns."""
            request = rpc_pb2.PutRequest(key=f"/w/{name}".encode(), value=b"x")
            return int(KVStub(places[int(name) % 2]).Put(request, timeout=20).header.revision)

        lease = said(cluster, "lease", "grant", "30")["lease"]
        first = put("0")
        since = begun("kv", "watch", "/w/", "--prefix", "--revision", str(first))
        kept = begun("lease", "keep-alive", lease)
        assert (since.next()["key"], kept.next()["ttl_s"]) == ("/w/0", 30)
        now = begun("kv", "watch", "/w/", "--prefix")
        until(lambda: watches(cluster, 2) == 2, "both watches")
        put("1")
        assert [told.next()["key"] for told in (since, now)] == ["/w/1"] * 2
        os.kill(cluster.nodes[2]["pid"], fate)
        gone = (None, cluster.nodes[2]["id"])  # Who leads until then may have taken a put that nobody knows the end of.
        until(lambda: led_by(cluster, 0) not in gone and led_by(cluster, 1) not in gone, "a leader that lives")
        numbers = range(2, 12)
        for number in numbers:
            put(str(number))
        for told in (since, now):
            assert [told.next()["key"] for _ in numbers] == [f"/w/{number}" for number in numbers]
        assert [kept.next()["lease"] for _ in range(2)] == [lease] * 2
        if fate == signal.SIGSTOP:
            os.kill(cluster.nodes[2]["pid"], signal.SIGCONT)
            return
        assert cluster.stop() == 0
        for lasting in (since, now, kept):
            assert (lasting.process.wait(30), lasting.rest()) == (1, b"")


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
