"""Many keys, many watchers, many puts: what heartbeats of members notice of it, what it takes, and how a node restarts.

Rules: the heartbeats, and the load with its watchers, are a client process each; with and without the load are measured
in turn, and the median round counts. Python's clients are no native generators: what they cost stands in both.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from statistics import median
from typing import Any, Final

import grpc

from quorate.cli.client import Node, NodeError
from quorate.gateway.grpc.pb import members_pb2, rpc_pb2
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub, WatchStub
from quorate.gateway.http.answers import Status
from tests.bench.harness import HELD, ROUNDS, Figure, Ours, Run, ending, ours, quantiles, rss_mib, said
from tests.clusters import QUORATE, quorate

KEYS, TXN_KEYS, FILLING = 200_000, 100, 8
WATCHES, STREAMS = 1_000, 10
PUTS_PER_SECOND, UNDER_WAY_MAX = 1_000, 200
BEATS_PER_SECOND = 50
VALUE: Final = b"v" * 100
READY_S = 60.0


def watchers(run: Run) -> None:
    """Heartbeats with and without the load, resident memory, and a restart after a kill."""
    with ours(run) as cluster:
        leader = cluster.leader()
        if "failed" in run.take("watchers fill", partial(_fill, cluster, leader)):
            return
        run.take("watchers", partial(_rounds, run, leader))
        run.take("watchers restart", partial(_restart, run, cluster, leader))


def _fill(cluster: Ours, leader: dict[str, Any]) -> Figure:
    raised = quorate("feature", "raise", "2", "--node", leader["http"])
    if raised.returncode:
        raise RuntimeError(raised.stderr)
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
    return b"w%04d/%06d" % (number % WATCHES, number)


def _rounds(run: Run, leader: dict[str, Any]) -> Figure:
    without, under = list[Figure](), list[Figure]()
    load: Figure = {}
    for _ in range(ROUNDS):
        without.append(_beats(run, leader))
        with ending(_program("load", leader["grpc"], run.seconds + 2)) as loading:
            said(loading)
            under.append(_beats(run, leader))
            load = json.loads(said(loading))
    p99 = {name: median(one["p99_ms"] for one in rounds) for name, rounds in (("without", without), ("with", under))}
    return {
        "heartbeat_p99_ms": p99["with"],
        "heartbeat_p99_ms_without": p99["without"],
        "heartbeat_p99_to_without": round(p99["with"] / p99["without"], 2),
        "leader_rss_mib": round(rss_mib(leader["pid"]), 1),
        **load,
    }


def _beats(run: Run, leader: dict[str, Any]) -> Figure:
    with ending(_program("beat", leader["grpc"], run.seconds)) as beating:
        found: Figure = json.loads(said(beating))
    return found


def _program(what: str, address: str, seconds: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.bench.watchers", what, address, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


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


# -- the client processes


async def beat(address: str, seconds: float) -> Figure:
    """A member that beats at its pace, answered or not; how long answers take."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = MembersStub(channel)
        request = members_pb2.RegisterMemberRequest(name="bench", incarnation="1", timeout_ms=600_000)
        epoch = (await stub.Register(request)).epoch
        taken: list[float] = []

        async def one() -> None:
            began = time.perf_counter()
            await stub.Heartbeat(members_pb2.MemberHeartbeatRequest(name="bench", epoch=epoch, applied_revision=epoch))
            taken.append((time.perf_counter() - began) * 1000)

        await _paced(one, BEATS_PER_SECOND, seconds)
    return quantiles(taken)


async def load(address: str, seconds: float) -> Figure:
    """Watches on disjoint prefixes, and puts below them; said when all watch: how many, and how late events came."""
    late: list[float] = []
    sent: dict[bytes, float] = {}
    async with grpc.aio.insecure_channel(address) as channel:
        streams = [await _watching(WatchStub(channel), place) for place in range(STREAMS)]
        seen = [asyncio.create_task(_seen(stream, sent, late)) for stream in streams]
        print("watching", flush=True)
        puts, stub = 0, KVStub(channel)

        async def one() -> None:
            nonlocal puts
            puts += 1
            name = key(puts * 7919 % KEYS)
            value = b"%d" % puts
            sent[value] = time.perf_counter()
            await stub.Put(rpc_pb2.PutRequest(key=name, value=value))

        done = await _paced(one, PUTS_PER_SECOND, seconds)
        await asyncio.sleep(1.0)
        for task in seen:
            if task.done():
                task.result()
            task.cancel()
    told = quantiles(late)
    held = {} if done >= HELD * PUTS_PER_SECOND * seconds else {"rate_not_held": PUTS_PER_SECOND}
    return {
        **held,
        "puts_per_second": round(done / seconds),
        "events_missing": puts - len(late),
        "watch_p50_ms": told["p50_ms"],
        "watch_p99_ms": told["p99_ms"],
    }


async def _watching(stub: WatchStub, place: int) -> Any:
    async def requests() -> AsyncIterator[rpc_pb2.WatchRequest]:
        for number in range(place, WATCHES, STREAMS):
            create = rpc_pb2.WatchCreateRequest(key=b"w%04d/" % number, range_end=b"w%04d0" % number)
            yield rpc_pb2.WatchRequest(create_request=create)
        await asyncio.Event().wait()

    stream = stub.Watch(requests())
    for _ in range(WATCHES // STREAMS):
        answer = await stream.read()
        if not answer.created:
            raise RuntimeError(f"no watch was created: {answer}")
    return stream


async def _seen(stream: Any, sent: dict[bytes, float], late: list[float]) -> None:
    while True:
        answer = await stream.read()
        if answer is grpc.aio.EOF:
            raise RuntimeError("a stream of watches has ended")
        now = time.perf_counter()
        late.extend((now - sent.pop(event.kv.value)) * 1000 for event in answer.events)


async def _paced(one: Any, rate: float, seconds: float) -> int:
    """So many a second whoever answers, with a bound on what is under way; how many were answered."""
    under_way: set[asyncio.Task[None]] = set()
    done, began = 0, time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(began + number / rate - time.perf_counter(), 0))
        if time.perf_counter() - began > seconds:
            break
        while len(under_way) >= UNDER_WAY_MAX:
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(one())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        done += 1
    if under_way:
        await asyncio.gather(*under_way)
    return done


def main() -> None:
    """``beat`` or ``load``, an address, and seconds: one line of JSON."""
    what, address, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run({"beat": beat, "load": load}[what](address, float(seconds)))), flush=True)


if __name__ == "__main__":
    main()
