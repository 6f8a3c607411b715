"""Offsets on three real nodes, over gRPC and from the command line, through a SIGKILL of the leader."""

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
import psutil
import pytest

from quorate.gateway.grpc.pb import offsets_pb2 as pb
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.pb.offsets_pb2_grpc import OffsetsStub
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub, WatchStub
from tests.clusters import Started, leader, quorate, until, up

TIMEOUT_S = 5.0
COMMITTERS, BEFORE, ENOUGH, FAR = 4, 20, 40, 1_000_000
RACERS = 6
LOST_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes."""
    with up(tmp_path_factory.mktemp("offsets") / "c") as started:
        yield started


def committing(group: str, shard: str, offset: int, **more: int) -> pb.CommitOffsetsRequest:
    return pb.CommitOffsetsRequest(group=group, positions=[pb.CommitOffset(shard=shard, offset=offset, **more)])


def answered(stub: OffsetsStub, request: pb.CommitOffsetsRequest, timeout_s: float) -> tuple[int, str]:
    """The revision of a commit, or why there is none."""
    try:
        return stub.Commit(request, timeout=timeout_s).revision, ""
    except grpc.RpcError as error:
        return 0, f"{error.code().name} {error.details()}"


def said(cluster: Started, *words: str, node: int = 0) -> tuple[int, Any, str]:
    """How a command ends, what it prints in JSON, and what it complains of."""
    done = quorate("offsets", *words, "-o", "json", "--node", cluster.nodes[node]["http"])
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_offsets_are_committed_at_any_node_and_one_of_a_race_wins(cluster: Started) -> None:
    """The others are refused by name and told where it is; a watch of the keys sees each commit once."""
    led = leader(cluster)
    follower = (led + 1) % 3
    with (
        grpc.insecure_channel(cluster.nodes[led]["grpc"]) as one,
        grpc.insecure_channel(cluster.nodes[follower]["grpc"]) as two,
    ):
        here, there = OffsetsStub(one), OffsetsStub(two)
        first = there.Commit(committing("race", "s", 10, expected_revision=0), timeout=TIMEOUT_S).revision
        (found,) = here.Fetch(pb.FetchOffsetsRequest(group="race"), timeout=TIMEOUT_S).positions
        assert (found.shard, found.offset, found.revision) == ("s", 10, first)

        def race(number: int) -> tuple[int, str]:
            return answered((here, there)[number % 2], committing("race", "s", 20 + number, expected_offset=10), 10)

        with ThreadPoolExecutor(RACERS) as pool:
            ends = list(pool.map(race, range(RACERS)))
        ((won, revision),) = [(20 + at, revision) for at, (revision, _) in enumerate(ends) if revision]
        where = f"race is at offset {won}, revision {revision} in s, not at offset 10"
        lost = f"FAILED_PRECONDITION quorate: StaleOffset: {where}"
        assert [why for number, why in ends if not number] == [lost] * (RACERS - 1)
        (found,) = there.Fetch(pb.FetchOffsetsRequest(group="race"), timeout=TIMEOUT_S).positions
        assert (found.offset, found.revision) == (won, revision)
        created = rpc_pb2.WatchCreateRequest(
            key=b"quorate.offsets/race/", range_end=b"quorate.offsets/race0", start_revision=first
        )
        asked: Queue[rpc_pb2.WatchRequest | None] = Queue()
        asked.put(rpc_pb2.WatchRequest(create_request=created))
        answers = WatchStub(two).Watch(iter(asked.get, None), timeout=20)
        seen: list[bytes] = []
        while len(seen) < 2:
            seen += [event.kv.value for event in next(answers).events]
        asked.put(None)  # Who asks nothing more is told nothing more.
        assert seen == [b"10", str(won).encode()]


def test_the_command_line_commits_tells_and_deletes(cluster: Started) -> None:
    """At any node; what was not as expected exits 1 and says where it is."""
    led = leader(cluster)
    status, told, _ = said(cluster, "commit", "cli", "orders/0", "5", "--expect-revision", "0", node=led)
    assert status == 0
    first = told["revision"]
    status, told, _ = said(cluster, "commit", "cli", "orders/0", "7", "--expect-offset", "5", node=(led + 1) % 3)
    assert status == 0
    second = told["revision"]
    status, told, why = said(cluster, "commit", "cli", "orders/0", "8", "--expect-offset", "5")
    assert (status, told) == (1, None)
    assert why == f"quorate: StaleOffset: cli is at offset 7, revision {second} in orders/0, not at offset 5\n"
    assert said(cluster, "get", "cli")[:2] == (0, [{"shard": "orders/0", "offset": 7, "revision": second}])
    past = [{"shard": "orders/0", "offset": 5, "revision": first}]
    assert said(cluster, "get", "cli", "orders/0", "--revision", str(first))[:2] == (0, past)
    assert said(cluster, "get", "cli", "--at", str(second))[:2] == (0, past)
    assert {"group": "cli", "keys": 1} in said(cluster, "list", "--stale", node=led)[1]
    assert said(cluster, "delete", "cli", "none")[:2][0] == 1
    status, told, _ = said(cluster, "delete", "cli", "--all")
    assert (status, told["deleted"]) == (0, 1)
    assert said(cluster, "get", "cli")[:2] == (1, [])
    assert {"group": "cli", "keys": 1} in said(cluster, "list", "--revision", str(second), node=led)[1]
    assert "cli" not in [one["group"] for one in said(cluster, "list")[1]]
    for wrong in (("commit", "cli", "s", "-1"), ("commit", "cli", "s", "x"), ("delete", "cli"), ("get",)):
        assert quorate("offsets", *wrong, "--node", cluster.nodes[0]["http"]).returncode == 2
    table = quorate("offsets", "list", "--node", cluster.nodes[0]["http"])
    assert table.stdout.splitlines()[0].split() == ["group", "shards"]
    log = quorate("log", "tail", "-n", "5", "--node", cluster.nodes[0]["http"]).stdout
    assert "quorate.offsets/cli/orders/0" in log


class Committer:
    """Commits one offset after the other for its group, at any node that answers; ``at``: what it knows to be done."""

    def __init__(self, addresses: list[str], number: int) -> None:
        self.group, self.at, self.until = f"g{number}", 0, FAR
        self.unsure = 0
        """Answers that did not come."""
        self._addresses, self._next = addresses, number

    def run(self) -> None:
        """Until it has come as far as it should."""
        stubs = [OffsetsStub(grpc.insecure_channel(address)) for address in self._addresses]
        deadline = time.monotonic() + LOST_S
        while self.at < self.until:
            assert time.monotonic() < deadline, f"{self.group} came only to {self.at}"
            self._commit(stubs[self._next % len(stubs)])

    def _commit(self, stub: OffsetsStub) -> None:
        """One more. That it is there already is an answer too: its own, which was lost."""
        expected = {"expected_offset": self.at} if self.at else {"expected_revision": 0}
        revision, why = answered(stub, committing(self.group, "s", self.at + 1, **expected), 2)
        if not revision and "StaleOffset" not in why:
            self.unsure += 1
            self._next += 1
            time.sleep(0.05)
            return
        assert revision or (self.unsure and f"is at offset {self.at + 1}, " in why), why
        self.at += 1


def test_nothing_that_was_acknowledged_is_lost_when_the_leader_is_killed(tmp_path: Path) -> None:
    """Groups commit at all nodes while their leader dies, and ask again when an answer is lost: each ends where its
    committer knows it to be, and has been at every offset once.
    """
    with up(tmp_path / "c") as cluster:
        led = leader(cluster)
        committers = [Committer([node["grpc"] for node in cluster.nodes], number) for number in range(COMMITTERS)]
        with ThreadPoolExecutor(COMMITTERS) as pool:
            ends = [pool.submit(one.run) for one in committers]
            until(lambda: min(one.at for one in committers) >= BEFORE or any(map(Future.done, ends)), "commits")
            psutil.Process(cluster.nodes[led]["pid"]).send_signal(signal.SIGKILL)
            for one in committers:
                one.until = one.at + ENOUGH
            for end in ends:
                end.result(timeout=LOST_S + TIMEOUT_S)
        assert sum(one.unsure for one in committers)
        for lives in (at for at in range(3) if at != led):
            with grpc.insecure_channel(cluster.nodes[lives]["grpc"]) as channel:
                for one in committers:
                    request = pb.FetchOffsetsRequest(group=one.group)
                    (found,) = OffsetsStub(channel).Fetch(request, timeout=10).positions
                    assert (found.shard, found.offset) == ("s", one.at)
                    key = f"quorate.offsets/{one.group}/s".encode()
                    (kept,) = KVStub(channel).Range(rpc_pb2.RangeRequest(key=key), timeout=10).kvs
                    assert (kept.value, kept.version) == (str(one.at).encode(), one.at)
