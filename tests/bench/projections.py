"""Projections measured: how fresh, how fast they catch up, how many reads they take and what that spares the leader."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from quorate.cli.client import Node
from quorate.gateway.http.answers import Done
from quorate_projections.folding import Folding, TakeResult
from quorate_projections.store import RowStore
from tests.bench.harness import Figure, Ours, Run, cpu_share, finish_load, ours, quantiles, start_load
from tests.contract.client import Remoting
from tests.projections.history import records
from tests.projections.log import HistoryLog
from tests.projections.worker import SERVE, Worker, workers

EVENTS = 30_000
SAVE_EVERY = 500
SERVERS = (1, 2, 3)
PER_SECOND = 1000


def projections(run: Run) -> None:
    """All of it."""
    run.take("projections catch-up", partial(catch_up, run))
    run.take("projections freshness", partial(freshness, run))
    read_servers(run)


def catch_up(run: Run) -> Figure:
    """Folding and storing alone; the same events from a served log; a wiped worker until it is ready."""
    log = records(99, EVENTS)
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        alone = _fold_alone(Path(folder) / "alone", log)
        with HistoryLog(seed=99) as served:
            served.append_events(EVENTS)
            words = ["--nodes", served.bootstrap, "--data-dir", f"{folder}/rebuilt"]
            command = [*SERVE[:-1], "rebuild", *words]
            told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
            reached = float(told.rsplit(" ", 2)[-2])
            worker = Worker({"nodes": served.bootstrap}, Path(folder) / "wiped")
            began = time.monotonic()
            with workers(worker):
                worker.wait(ready=True, offset=served.events)
                ready_s = time.monotonic() - began
    return {
        "events": EVENTS,
        "fold_and_store_per_second": round(alone),
        "catch_up_per_second": round(reached),
        "share": round(reached / alone, 2),
        "wiped_until_ready_s": round(ready_s, 2),
    }


def _fold_alone(folder: Path, log: Any) -> float:
    """Events a second of folding into RocksDB, without Kafka."""
    store = RowStore(folder)
    folding, began = Folding(store), time.monotonic()
    for record in log:
        if folding.take(record.offset, record.headers, record.value) is not TakeResult.APPLIED:
            raise RuntimeError(str(folding.failed))
        if store.unsaved >= SAVE_EVERY:
            store.save()
    store.save()
    took = time.monotonic() - began
    store.close()
    return len(log) / took


@contextmanager
def beside(run: Run, cluster: Ours, count: int) -> Iterator[list[Worker]]:
    """Workers that follow the cluster."""
    nodes = ",".join(node["kafka"] for node in cluster.started.nodes)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=run.folder))
        all_of_them = [Worker({"nodes": nodes}, Path(folder) / f"w{number}") for number in range(count)]
        stack.enter_context(workers(*all_of_them))
        for worker in all_of_them:
            worker.wait(ready=True)
        yield all_of_them


def freshness(run: Run, count: int = 400, rate: float = 50.0) -> Figure:
    """An event is decided (its own time) → a reader that waits for it has it, commit and HTTP included; ms."""
    with ours(run) as cluster, beside(run, cluster, 1) as (worker,):
        node, samples = Node(cluster.leader()["http"]), list[float]()
        offset = worker.health()["offset"]
        writer = threading.Thread(target=_write, args=(node, count, rate))
        writer.start()
        for number in range(count):
            status, page = worker.ask(f"/views/topics/fresh-{number}", min_offset=offset + number + 1, wait_ms=30_000)
            if status != 200:
                raise RuntimeError(str(page))
            samples.append(time.time() * 1000 - page["row"]["changed_ms"])
        writer.join()
    run.samples("projections-freshness", samples)
    return quantiles(samples)


def _write(node: Node, count: int, rate: float) -> None:
    body = {"read_queues": 4, "write_queues": 4, "permission": 6}
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        node.send("PUT", f"/v1/topics/fresh-{number}", body, Done)


def read_servers(run: Run) -> None:
    """Reads a second of 1, 2 and 3 workers; the leader's CPU for 1,000 reads a second, asked itself and not."""
    with ours(run) as cluster:
        _register(cluster.leader()["rpc"])
        asked = run.take("projections leader asked", partial(_leader_asked, run, cluster))
        with beside(run, cluster, max(SERVERS)) as all_of_them:
            ports = [worker.port for worker in all_of_them]
            for count in SERVERS:
                run.take(f"projections reads, {count} servers", partial(_reads, ports[:count], 4.0, 0))
            run.take("projections leader", lambda: asked | _leader_spared(cluster, ports[0]))


def _leader_asked(run: Run, cluster: Ours) -> Figure:
    leader = cluster.leader()
    idle = cpu_share(leader["pid"], 3.0)
    process = start_load(run, "reads", cluster.rpc(leader), 16, PER_SECOND, "reads-at-leader", 5)
    busy = cpu_share(leader["pid"], 4.0)
    found = finish_load(process)["per_second"]
    return {
        "reads_per_second": found,
        "leader_cpu_idle": round(idle, 3),
        "leader_cpu_asked_itself": round(busy, 3),
    }


def _leader_spared(cluster: Ours, port: int) -> Figure:
    """The same reads of a worker; the CPU of the leader meanwhile."""
    found: list[Figure] = []
    reader = threading.Thread(target=lambda: found.append(_reads([port], 5.0, PER_SECOND)))
    reader.start()
    time.sleep(0.5)
    spared = cpu_share(cluster.leader()["pid"], 4.0)
    reader.join()
    if not found:
        raise RuntimeError("the worker did not answer")
    return {"worker_reads_per_second": found[0]["per_second"], "leader_cpu_workers_asked": round(spared, 3)}


def _register(address: str) -> None:
    """A broker set to ask for."""
    with Remoting(address) as client:
        client.ask(
            1013, clusterName="bench", brokerName="asked", appliedBrokerId=1, registerCheckCode="127.0.0.1:1;1"
        )  # fmt: skip


def _reads(ports: list[int], seconds: float, rate: float) -> Figure:
    words = [",".join(map(str, ports)), "/views/broker_sets/asked", str(seconds), str(rate), str(8 * len(ports))]
    command = [sys.executable, "-m", "tests.bench.reads", *words]
    found: Figure = json.loads(subprocess.run(command, capture_output=True, timeout=60, check=True).stdout)
    if found["others"] or not found["operations"]:
        raise RuntimeError(str(found))
    return found
