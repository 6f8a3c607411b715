"""The measurements, one function each: what is done, what is kept. Bars and ratios are ``report.py``'s."""

import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from quorate.cli.client import NodeError
from quorate.gateway.http.answers import Status
from tests.bench.consumers import consumers
from tests.bench.harness import (
    Ours,
    Run,
    cpu_s,
    finish_load,
    fsync_probe,
    load,
    null_server,
    ours,
    profiled,
    rss_mib,
    start_load,
)
from tests.bench.projections import projections
from tests.bench.spark_source import spark_source
from tests.contract.client import Closed, Remoting
from tests.peers import peer, present
from tests.rocketmq.stock import JavaControllers, Stock

CLIENTS = (1, 16, 64)
BEATS = (("heartbeats pipelined", 64, 0.0), ("heartbeats 10000/s", 500, 10_000.0))
"""Name, connections, rate (0: as fast as they are taken)."""
PROFILES = (("closed 64", "commits", 64, 0.0), ("open 1000", "commits", 64, 1000.0), ("reads idle", "reads", 16, 500.0))
"""Name, mode, clients, rate of what is sampled once more, apart from the measurement."""


def controls(run: Run) -> None:
    """The disk alone, and every load against a server that does nothing: what machine and generator cost."""
    run.keep("fsync", fsync_probe(run))
    with null_server() as (port, process):
        run.keep("null memory", {"rss_mib": round(rss_mib(process.pid), 1)})
        for clients in CLIENTS:
            run.keep(f"null closed {clients}", load(run, "commits", port, clients, 0, f"null-{clients}"))
        run.keep("null open 1000", load(run, "commits", port, 64, 1000, "null-open-1000"))
        run.keep("null reads 16", load(run, "reads", port, 16, 0, "null-reads"))
        run.keep("null reads 500", load(run, "reads", port, 16, 500, "null-reads-500"))
        for name, connections, rate in BEATS:
            run.keep(f"null {name}", _beats(run, process.pid, port, connections, rate, f"null {name}"))
    run.keep("null SIGKILL", _null_failover(run))


def _null_failover(run: Run, trials: int = 20) -> dict[str, Any]:
    """SIGKILL of a server that does nothing → its client knows: no fail-over can be faster than that, in ms."""
    samples = []
    for _ in range(trials):
        with null_server() as (port, process), socket.create_connection(("127.0.0.1", port)) as client:
            time.sleep(0.05)
            start = time.perf_counter()
            process.kill()
            with suppress(ConnectionResetError):
                client.recv(1)
            samples.append(round((time.perf_counter() - start) * 1000, 2))
    samples.sort()
    return {"p50_ms": samples[len(samples) // 2], "max_ms": samples[-1], "samples_ms": samples}


def _measured(
    run: Run, cluster: Ours, mode: str, connections: int, rate: float, name: str, seconds: int = 0
) -> dict[str, Any]:
    """One load on the leader, with what it cost each node: CPU per operation, and syncs of the journal."""
    leader = cluster.leader()
    nodes = [leader, *(node for node in cluster.started.nodes if node is not leader)]
    before, syncs = [cpu_s(node["pid"]) for node in nodes], cluster.syncs()
    figure = load(run, mode, cluster.rpc(leader), connections, rate, name, seconds)
    spent = [cpu_s(node["pid"]) - used for node, used in zip(nodes, before, strict=True)]
    done = max(figure["operations"], 1)
    figure["leader_cpu_us"] = round(spent[0] * 1e6 / done, 1)
    figure["follower_cpu_us"] = round(max(spent[1:]) * 1e6 / done, 1)
    figure["syncs"] = [after - earlier for after, earlier in zip(cluster.syncs(), syncs, strict=True)]
    return figure


def commits(run: Run) -> None:
    """Closed loop with 1, 16 and 64 clients; open loop at 1,000 a second over 64 connections; CPU, syncs and memory."""
    with ours(run) as cluster:
        for clients in CLIENTS:
            run.keep(f"closed {clients}", _measured(run, cluster, "commits", clients, 0, f"closed-{clients}"))
        run.keep("open 1000", _measured(run, cluster, "commits", 64, 1000, "open-1000"))
        run.keep("reads closed 16", _measured(run, cluster, "reads", 16, 0, "reads-16"))
        reads(run, cluster)
        leader = cluster.leader()
        for name, mode, clients, rate in PROFILES:
            with profiled(run, leader["pid"], name, 4):
                load(run, mode, cluster.rpc(leader), clients, rate, f"profiled-{name}", 5)
        memory(run, cluster)


def reads(run: Run, cluster: Ours) -> None:
    """Linearizable 1004 at 500/s from 16 connections: alone, and beside 500 commits/s."""
    run.keep("reads idle", _measured(run, cluster, "reads", 16, 500, "reads-idle"))
    writer = start_load(run, "commits", cluster.rpc(cluster.leader()), 32, 500, "beside-reads")
    figure = _measured(run, cluster, "reads", 16, 500, "reads-busy", max(run.seconds - 2, 2))
    figure["commits_beside"] = finish_load(writer)["per_second"]
    run.keep("reads under 500 commits", figure)


def reads_everywhere(run: Run) -> None:
    """Linearizable 1004 at 500/s on the leader and on a follower: alone, and beside 500 commits/s; the disk of now."""
    seconds = max(run.seconds - 2, 2)
    for name in ("leader", "follower"):
        with ours(run) as cluster:
            leader = cluster.leader()
            node = leader if name == "leader" else next(n for n in cluster.started.nodes if n is not leader)
            port = cluster.rpc(node)
            fsync = fsync_probe(run)
            idle = run.keep(f"{name} reads idle", load(run, "reads", port, 16, 500, f"{name}-reads-idle"))
            writer = start_load(run, "commits", cluster.rpc(leader), 32, 500, f"beside-{name}-reads")
            figure = load(run, "reads", port, 16, 500, f"{name}-reads-busy", seconds)
            figure["commits_beside"] = finish_load(writer)["per_second"]
            figure["fsync_p99_us"] = max(fsync["p99_us"], fsync_probe(run)["p99_us"])
            figure["allowed_p99_us"] = 2 * figure["fsync_p99_us"] + idle["p99_us"]
            figure["p99_to_allowed"] = round(figure["p99_us"] / figure["allowed_p99_us"], 2)
            run.keep(f"{name} reads under 500 commits", figure)


def memory(run: Run, cluster: Ours) -> None:
    """Resident memory of each node after 150,000 commits."""
    leader = cluster.leader()
    while cluster.metric(leader, "quorate_commits_total") < 150_000:
        load(run, "commits", cluster.rpc(leader), 64, 0, "memory", 5)
    found = [rss_mib(node["pid"]) for node in cluster.started.nodes]
    figure = {"rss_mib": [round(mib, 1) for mib in found], "max_mib": round(max(found), 1), "syncs": cluster.syncs()}
    run.keep("memory", figure)


def heartbeats(run: Run) -> None:
    """Pipelined on one node; and 10,000 a second from 500 connections: CPU of that node per heartbeat."""
    with ours(run) as cluster:
        node = cluster.leader()
        for name, connections, rate in BEATS:
            syncs = cluster.syncs()
            figure = _beats(run, node["pid"], cluster.rpc(node), connections, rate, name)
            figure["syncs"] = [after - earlier for after, earlier in zip(cluster.syncs(), syncs, strict=True)]
            run.keep(name, figure)
        with profiled(run, node["pid"], "heartbeats", 4):
            load(run, "beats", cluster.rpc(node), 500, 10_000, "profiled-beats", 5)


def _beats(run: Run, pid: int, port: int, connections: int, rate: float, name: str) -> dict[str, Any]:
    """Heartbeats to one process, and its CPU for each, without what it uses when nobody asks anything."""
    idle = _cpu_share(pid, 2.0)
    before, started = cpu_s(pid), time.monotonic()
    figure = load(run, "beats", port, connections, rate, name.replace(" ", "-").replace("/", "-"))
    spent = cpu_s(pid) - before - idle * (time.monotonic() - started)
    figure["cpu_us"] = round(spent * 1e6 / figure["operations"], 2)
    figure["idle_cpu_share"] = round(idle, 4)
    return figure


def _cpu_share(pid: int, seconds: float) -> float:
    before = cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - before) / seconds


def failover(run: Run, trials: int = 20) -> None:
    """SIGKILL (and, apart, SIGSTOP) of the leader → the next acknowledged write by a client of a survivor; ms."""
    for name, number, count in (("failover SIGKILL", signal.SIGKILL, trials), ("failover SIGSTOP", signal.SIGSTOP, 5)):
        with ours(run, "--restart") as cluster:
            samples = [_failover(cluster, number) for _ in range(count)]
            syncs = cluster.syncs()  # Of the nodes' present lives.
        samples.sort()
        figure = {"p50_ms": samples[len(samples) // 2], "max_ms": samples[-1], "samples_ms": samples, "syncs": syncs}
        run.keep(name, figure)


def _failover(cluster: Ours, number: signal.Signals) -> float:
    """One trial: a client of a survivor writes again and again, 2 ms after each answer that is no acknowledgement."""
    leader = cluster.leader()
    survivor = next(node for node in cluster.started.nodes if node is not leader)
    pid = _pid(leader)
    with Remoting(survivor["rpc"]) as client:
        client.ask(17, topic="before", readQueueNums=4, writeQueueNums=4, perm=6)
        start = time.perf_counter()
        os.kill(pid, number)
        for attempt in itertools.count():
            topic = f"t-{start:.6f}-{attempt}".replace(".", "-")
            if client.ask(17, topic=topic, readQueueNums=4, writeQueueNums=4, perm=6).code == 0:
                break
            time.sleep(0.002)
        took = (time.perf_counter() - start) * 1000
    if number is signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
    time.sleep(2.0)
    _whole(cluster)
    return round(took, 1)


def _pid(node: dict[str, Any]) -> int:
    """The process that listens there now (a restarted node has a new one)."""
    port = int(node["rpc"].rpartition(":")[2])
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "serve" in command and any(c.laddr.port == port for c in process.net_connections() if c.status == "LISTEN"):
            return int(process.pid)
    raise RuntimeError(f"nobody listens on {port}")


def _whole(cluster: Ours) -> None:
    """Wait until every node is back and ready."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if all(cluster.started.node(k).get("/v1/status", Status).voters_connected == 3 for k in range(3)):
                return
        except NodeError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the cluster is not whole again")


def scale(run: Run, sizes: tuple[int, ...] = (100, 500, 2000)) -> None:
    """Broker sets of two, heartbeating to every node; a quarter of the masters lost at once."""
    for sets in sizes:
        with ours(run) as cluster:
            leader = cluster.leader()
            ports = [str(cluster.rpc(node)) for node in cluster.started.nodes]
            fleet = subprocess.Popen(
                [str(run.tools / "fleet"), str(sets), str(cluster.rpc(leader)), *ports],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                figure = _scale(cluster, leader, fleet, sets)
                run.keep(f"scale {sets}", {**figure, "syncs": cluster.syncs()})
            finally:
                fleet.kill()
                fleet.wait()
    small, large = run.figures[f"scale {sizes[0]}"], run.figures[f"scale {sizes[-1]}"]
    growth = {key: round(large[key] / max(small[key], 0.1), 2) for key in ("heartbeat_cpu_us", "election_cpu_us")}
    run.keep("scale growth", growth)


def _scale(cluster: Ours, leader: dict[str, Any], fleet: "subprocess.Popen[str]", sets: int) -> dict[str, Any]:
    assert fleet.stdin is not None
    _until(fleet, "ready")
    time.sleep(6.0)  # Deliveries of the first elections are recorded after 5 s.
    before, started = cpu_s(leader["pid"]), time.monotonic()
    calm = _probes(fleet, 5)
    per_beat = (cpu_s(leader["pid"]) - before) * 1e6 / ((time.monotonic() - started) * sets * 2)
    before = cpu_s(leader["pid"])
    fleet.stdin.write(f"kill {sets // 4}\n")
    fleet.stdin.flush()
    killed = _until(fleet, "killed")
    storm = _probes(fleet, 3)
    spent = cpu_s(leader["pid"]) - before - per_beat * 1e-6 * sets * 2 * 3
    took = sorted(_elections(leader["http"], killed["at_ms"]))
    return {
        "sets": sets,
        "heartbeat_cpu_us": round(per_beat, 1),
        "masters_lost": killed["masters"],
        "elected": len(took),
        "elected_share": len(took) / killed["masters"],
        "elected_ms_p50": took[len(took) // 2] if took else None,
        "elected_ms_max": took[-1] if took else None,
        "election_cpu_us": round(spent * 1e6 / max(len(took), 1), 1),
        "heartbeat_p99_us_calm": max(probe["p99_us"] for probe in calm),
        "heartbeat_p99_us_storm": max(probe["p99_us"] for probe in storm),
        "heartbeat_p99_storm_to_calm": round(
            max(probe["p99_us"] for probe in storm) / max(*(probe["p99_us"] for probe in calm), 1), 2
        ),
    }


def _until(fleet: "subprocess.Popen[str]", event: str) -> dict[str, Any]:
    assert fleet.stdout is not None
    for line in fleet.stdout:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event:
            return found
    raise RuntimeError(f"the fleet ended before {event!r}")


def _probes(fleet: "subprocess.Popen[str]", count: int) -> list[dict[str, Any]]:
    """The next ``count`` seconds of probes, from now on; what the fleet said before lies unread in the pipe."""
    now_ms = time.time() * 1000
    found: list[dict[str, Any]] = []
    while len(found) < count:
        probe = _until(fleet, "probe")
        if probe["at_ms"] > now_ms:
            found.append(probe)
    return found


def _elections(http: str, since_ms: int) -> list[int]:
    """Milliseconds after ``since_ms`` of every master elected."""
    took: list[int] = []
    at = 0
    while True:
        with urllib.request.urlopen(f"http://{http}/v1/log?from={at}&limit=1000", timeout=30) as answer:
            page = json.load(answer)
        times = [event["time_ms"] - since_ms for event in page["events"] if event["type"] == "MasterElected"]
        took += [time_ms for time_ms in times if time_ms >= 0]
        if page["next"] is None or not page["events"]:
            return took
        at = page["next"]


def java(run: Run) -> None:
    """The same loads on the Java controllers, DLedger and JRaft, after a warm-up of their JVMs."""
    if not present("rocketmq"):
        run.keep("java", {"absent": "rocketmq (make peers)"})
        return
    for kind in ("dledger", "jraft"):
        with tempfile.TemporaryDirectory(dir=run.folder) as folder:
            stock = Stock(Path(folder), peer("rocketmq") / "lib")
            try:
                _java(run, kind, JavaControllers(stock, kind))
            finally:
                stock.stop()


def _java(run: Run, kind: str, controllers: JavaControllers) -> None:
    port = _java_leader(controllers.addresses)
    load(run, "commits", port, 64, 0, f"{kind}-warm-up", 15)
    loads = [(f"closed {clients}", "commits", clients) for clients in CLIENTS]
    for name, mode, clients in [*loads, ("reads 16", "reads", 16), ("heartbeats pipelined", "beats", 64)]:
        try:
            figure = load(run, mode, port, clients, 0, f"{kind}-{mode}-{clients}")
        except RuntimeError as error:  # It hung up: that is its figure.
            figure = {"failed": str(error)}
        run.keep(f"{kind} {name}", figure)


def _java_leader(addresses: list[str]) -> int:
    """The port of the Java controller that leads."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for address in addresses:
            try:
                with Remoting(address) as client:
                    if client.ask(1005).fields.get("isLeader") == "true":
                        return int(address.rpartition(":")[2])
            except (OSError, Closed):
                continue
        time.sleep(0.5)
    raise RuntimeError("no Java controller leads")


MEASURES: dict[str, Callable[[Run], None]] = {
    "controls": controls,
    "commits": commits,
    "reads": reads_everywhere,
    "heartbeats": heartbeats,
    "failover": failover,
    "scale": scale,
    "java": java,
    "consumers": consumers,
    "spark": spark_source,
    "projections": projections,
}
