"""Many keys, many watchers, many puts: what heartbeats of members notice of it, what it takes, and how a node restarts.

Rules: the load with its watchers is a process of etcd's Go client (tests/clients/clientv3/watchers.go), the heartbeats
are one of Python's, which stands in both: with and without the load are measured in turn, and the median round counts.
What the machine alone does to them is measured in the same rounds: heartbeats to a lone node that nobody else asks
anything. Beside it, etcd under the same load, with the words that keep a lease of its alive.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import grpc

from quorate.cli.client import Node, NodeError
from quorate.gateway.grpc.pb import members_pb2, rpc_pb2
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub, LeaseStub
from quorate.gateway.http.answers import Status
from tests.bench.etcd import leader as etcd_leader
from tests.bench.etcd import three
from tests.bench.harness import HELD, ROUNDS, Figure, Ours, Run, ending, ours, quantiles, rss_mib, said
from tests.clusters import QUORATE
from tests.peers import PEERS, present

KEYS, TXN_KEYS, FILLING = 200_000, 100, 8
PREFIX: Final = "w"
WATCHES, PUTS_PER_SECOND = 1_000, 1_000
BEATS_PER_SECOND = 100
SETTLED_S = 1.0
"""From the first put to the first heartbeat that counts."""
VALUE: Final = b"v" * 100
READY_S = 60.0


def watchers(run: Run) -> None:
    """Heartbeats with and without the load, resident memory, a restart after a kill; and etcd under the same load."""
    if missing := [name for name in ("clientv3", "etcd-server") if not present(name)]:
        run.keep("watchers", {"failed": f"absent: {', '.join(missing)} (make peers)"})
        return
    with ours(run) as cluster, ours(run, nodes=1) as idle:
        leader = cluster.leader()
        if "failed" in run.take("watchers fill", partial(_fill, cluster, leader)):
            return
        run.take("watchers", partial(_rounds, run, leader, idle.leader()))
        run.take("watchers restart", partial(_restart, run, cluster, leader))
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        run.take("etcd watchers", partial(_etcd, run, Path(folder)))


def _etcd(run: Run, folder: Path) -> Figure:
    """What watchers of etcd see, and its leader's memory."""
    found: Figure = {}
    with three(PEERS / "etcd-server" / "etcd-server", folder) as (ports, processes):
        leader = etcd_leader(ports)
        address = f"127.0.0.1:{ports[leader]}"
        asyncio.run(_filled(address))
        beaten = _beaten(run, address, {"lease_word": ("lease", address)}, found)
        return {**beaten, "leader_rss_mib": round(rss_mib(processes[leader].pid), 1), **found}


def _fill(cluster: Ours, leader: dict[str, Any]) -> Figure:
    began = time.monotonic()
    asyncio.run(_filled(leader["grpc"]))
    resident = [round(rss_mib(node["pid"]), 1) for node in cluster.started.nodes]
    return {"keys_per_second": round(KEYS / (time.monotonic() - began)), "rss_mib": max(resident)}


async def _filled(address: str) -> None:
    numbers = iter(range(0, KEYS, TXN_KEYS))
    async with grpc.aio.insecure_channel(address) as channel, asyncio.TaskGroup() as group:
        stub = KVStub(channel)

        async def fill() -> None:
            for first in numbers:
                puts = [rpc_pb2.PutRequest(key=key(number), value=VALUE) for number in range(first, first + TXN_KEYS)]
                await stub.Txn(rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_put=put) for put in puts]))

        for _ in range(FILLING):
            group.create_task(fill())


def key(number: int) -> bytes:
    """Each watcher has a prefix, and as many keys below it as any other."""
    return b"%s%04d/%06d" % (PREFIX.encode(), number % WATCHES, number)


def _rounds(run: Run, leader: dict[str, Any], idle: dict[str, Any]) -> Figure:
    load: Figure = {}
    whom = {"heartbeat": ("member", str(leader["grpc"])), "idle": ("member", str(idle["grpc"]))}
    beaten = _beaten(run, leader["grpc"], whom, load)
    return {**beaten, "leader_rss_mib": round(rss_mib(leader["pid"]), 1), **load}


def _beaten(run: Run, address: str, whom: Mapping[str, tuple[str, str]], load: Figure) -> Figure:
    """Of each the median p99 with and without the load on this address; each beats by itself."""
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, which in whom.items():
            with _beating(run, *which) as beats:
                taken[f"{name}_p99_ms_without"].append(beats()["p99_ms"])
        for name, which in whom.items():
            with _beating(run, *which) as beats, _loaded(address, load):
                time.sleep(SETTLED_S)
                taken[f"{name}_p99_ms"].append(beats()["p99_ms"])
    found: Figure = {name: median(rounds) for name, rounds in taken.items()}
    for name in whom:
        found[f"{name}_p99_to_without"] = round(found[f"{name}_p99_ms"] / found[f"{name}_p99_ms_without"], 2)
    return found


@contextmanager
def _beating(run: Run, kind: str, address: str) -> Iterator[Callable[[], Figure]]:
    """What beats and measures when it is called: a process that has started, whose start would be a load by itself."""
    command = [sys.executable, "-m", "tests.bench.watchers", kind, address, str(run.seconds)]
    with ending(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as beating:
        said(beating)

        def beats() -> Figure:
            assert beating.stdin is not None
            beating.stdin.close()
            found: Figure = json.loads(said(beating))
            return found

        yield beats


@contextmanager
def _loaded(address: str, found: Figure) -> Iterator[None]:
    """Watches and puts at this node meanwhile; what they saw is noted at the end. Raises RuntimeError."""
    command = [str(PEERS / "clientv3" / "clientv3"), "watchers", address, PREFIX]
    command += map(str, (KEYS, WATCHES, PUTS_PER_SECOND))
    with ending(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as loading:
        _heard(loading, "watching")
        yield
        assert loading.stdin is not None
        loading.stdin.close()
        seen = _heard(loading, "watched")
        if seen["per_second"] < HELD * PUTS_PER_SECOND:
            seen["rate_not_held"] = PUTS_PER_SECOND
        found.update(seen)


def _heard(loading: "subprocess.Popen[str]", what: str) -> Figure:
    told: Figure = json.loads(said(loading))
    if told.pop("at") != what:
        raise RuntimeError(f"no {what!r}: {told}")
    return told


def _restart(run: Run, cluster: Ours, leader: dict[str, Any]) -> Figure:
    """The leader is killed and started again: until it serves, whoever leads by then."""
    place = cluster.started.nodes.index(leader)
    subprocess.run(["kill", "-KILL", str(leader["pid"])], check=True)
    with (run.folder / "watchers-restart.log").open("w") as log:
        began = time.monotonic()
        command = [*QUORATE, "serve", "--config", str(cluster.started.config(place))]
        with ending(subprocess.Popen(command, stdout=log, stderr=log, text=True)) as again:
            _until_ready(cluster.started.node(place))
            return {"ready_s": round(time.monotonic() - began, 2), "rss_mib": round(rss_mib(again.pid), 1)}


def _until_ready(node: Node) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            if node.get("/v1/status", Status).ready:
                return
        except NodeError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"not ready within {READY_S:.0f} s")


# -- the process of heartbeats


async def member(address: str, seconds: float) -> Figure:
    """A member that beats at its pace once standard input ends, answered or not; how long answers take."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = MembersStub(channel)
        request = members_pb2.RegisterMemberRequest(name="bench", incarnation="1", timeout_ms=600_000)
        epoch = (await stub.Register(request)).epoch
        await _begin()
        taken: list[float] = []

        async def one() -> None:
            began = time.perf_counter()
            await stub.Heartbeat(members_pb2.MemberHeartbeatRequest(name="bench", epoch=epoch, applied_revision=epoch))
            taken.append((time.perf_counter() - began) * 1000)

        await _paced(one, seconds)
    return quantiles(taken)


async def lease(address: str, seconds: float) -> Figure:
    """A lease of etcd's that is kept alive as often, on one stream, as its clients do; how long answers take."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = LeaseStub(channel)
        number = (await stub.LeaseGrant(rpc_pb2.LeaseGrantRequest(TTL=600))).ID
        words = stub.LeaseKeepAlive()
        sent: deque[float] = deque()
        taken: list[float] = []

        turn = asyncio.Lock()

        async def one() -> None:
            sent.append(time.perf_counter())
            async with turn:
                await words.write(rpc_pb2.LeaseKeepAliveRequest(ID=number))

        async def answers() -> None:
            taken.extend([(time.perf_counter() - sent.popleft()) * 1000 async for _ in words])

        answered = asyncio.create_task(answers())
        await _begin()
        await _paced(one, seconds)
        await words.done_writing()
        await answered
    return quantiles(taken)


async def _begin() -> None:
    print("there", flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def _paced(one: Callable[[], Coroutine[Any, Any, None]], seconds: float) -> None:
    """So many a second, answered or not, and then all answers."""
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(BEATS_PER_SECOND * seconds)):
            await asyncio.sleep(max(began + number / BEATS_PER_SECOND - time.perf_counter(), 0))
            group.create_task(one())


def main() -> None:
    """``member`` or ``lease``, an address and seconds: a line when it is there, and one of JSON when it has beaten."""
    kind, address, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run({"member": member, "lease": lease}[kind](address, float(seconds)))), flush=True)


if __name__ == "__main__":
    main()
