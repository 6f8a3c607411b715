"""The measures, one function each: what is done, what is kept. Bars and ratios are ``report.py``'s."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.bench.consumers import consumers
from tests.bench.etcd import etcd
from tests.bench.failover import failover, null_failover
from tests.bench.fleet import scale
from tests.bench.growth import growth, restart
from tests.bench.harness import (
    BEATS,
    LATENCIES,
    ROUNDS,
    Figure,
    Ours,
    Run,
    cpu_s,
    cpu_share,
    finish_load,
    fsync_probe,
    load,
    measured,
    middle,
    null_server,
    ours,
    profile,
    rest,
    rss_mib,
    start_load,
)
from tests.bench.java import java
from tests.bench.keys import keys
from tests.bench.links import links
from tests.bench.machine_counts import machine_counts
from tests.bench.page import page
from tests.bench.pairs import pairs
from tests.bench.projections import projections
from tests.bench.snapshot import snapshot
from tests.bench.spark_source import spark_source
from tests.bench.watchers import watchers

CLIENTS = (1, 16, 64)
COMMITS = 150_000
SYNC_PERIOD_S = 0.005
PROFILES = (
    ("closed 1", "commits", 1, 0.0),
    ("closed 64", "commits", 64, 0.0),
    ("open 1000", "commits", 64, 1000.0),
    ("reads 64", "reads", 64, 0.0),
    ("reads", "reads", 16, 500.0),
)
"""Name, mode, clients, rate of what is sampled once more, apart from the measurement."""


def controls(run: Run) -> None:
    """The disk alone, and every load against a server that does nothing: what machine and generator cost."""
    run.take("fsync", lambda: fsync_probe(run, "alone"))
    loads = [(f"null closed {clients}", "commits", clients, 0.0) for clients in CLIENTS]
    loads += [("null open 1000", "commits", 64, 1000.0), ("null reads 16", "reads", 16, 0.0)]
    with null_server() as (port, process):
        run.take("null memory", lambda: {"rss_mib": round(rss_mib(process.pid), 1)})
        for name, mode, clients, rate in [*loads, ("null reads 500", "reads", 16, 500.0)]:
            run.take(name, partial(load, run, mode, port, clients, rate, name.replace(" ", "-")))
        for name, connections, rate in BEATS:
            run.take(f"null {name}", partial(_beats, run, process.pid, port, connections, rate, f"null {name}"))
    run.take("null SIGKILL", partial(null_failover, run))


def commits(run: Run) -> None:
    """Closed loop with 1, 16 and 64 clients; open loop at 1,000 a second over 64 connections; CPU, syncs and memory."""
    loads = [(f"closed {clients}", "commits", clients, 0.0) for clients in CLIENTS]
    loads += [("open 1000", "commits", 64, 1000.0), ("reads 16", "reads", 16, 0.0), ("reads 64", "reads", 64, 0.0)]
    with ours(run) as cluster:
        run.take("rest", partial(rest, cluster))
        for name, mode, clients, rate in loads:
            run.take(name, partial(measured, run, cluster, mode, clients, rate, name.replace(" ", "-")))
        leader = cluster.leader()
        for name, mode, clients, rate in PROFILES:
            file = f"profiled-{name.replace(' ', '-')}"
            again = partial(load, run, mode, cluster.rpc(leader), clients, rate, file)
            profile(run, leader["pid"], name, again)
        follower = cluster.follower()
        on_leader = partial(load, run, "commits", cluster.rpc(leader), 64, 0.0, "profiled-follower")
        profile(run, follower["pid"], "follower, closed 64", on_leader)
        there = partial(load, run, "reads", cluster.rpc(follower), 16, 500.0, "profiled-reads-follower")
        profile(run, follower["pid"], "reads, follower", there)
        profile(run, leader["pid"], "at rest", lambda seconds: {"share": cpu_share(leader["pid"], seconds)})
        run.take("memory", partial(memory, run, cluster))


def memory(run: Run, cluster: Ours) -> Figure:
    """Resident memory of each node after 150,000 commits."""
    leader = cluster.leader()
    while cluster.metric(leader, "quorate_commits_total") < COMMITS:
        load(run, "commits", cluster.rpc(leader), 64, 0, "memory", 5)
    found = [rss_mib(node["pid"]) for node in cluster.started.nodes]
    return {"rss_mib": [round(mib, 1) for mib in found], "max_mib": round(max(found), 1), "syncs": cluster.syncs()}


def reads(run: Run) -> None:
    """Linearizable 1004 at 500/s on the leader and on a follower: alone, and beside 500 commits/s, in turn."""
    for name in ("leader", "follower"):
        idle, busy = [], []
        for number in range(1, ROUNDS + 1):
            with ours(run) as cluster:  # A new one: brokers of a load that ended are fenced.
                port = cluster.rpc(cluster.leader() if name == "leader" else cluster.follower())
                asked = partial(load, run, "reads", port, 16, 500, f"{name}-reads-idle-{number}")
                idle.append(run.take(f"{name} reads idle, {number}", asked))
                beside = partial(_reads_beside, run, f"{name}-reads-busy-{number}", cluster, port)
                busy.append(run.take(f"{name} reads under 500 commits, {number}", beside))
        run.take(f"{name} reads idle", partial(middle, idle))
        run.take(f"{name} reads under 500 commits", partial(_allowed, idle, busy))


def _reads_beside(run: Run, name: str, cluster: Ours, port: int) -> Figure:
    """While 500 commits a second go on, and a probe syncs beside the nodes: what a sync takes in this very run."""
    writer = start_load(run, "commits", cluster.rpc(cluster.leader()), 32, 500, f"beside-{name}", run.seconds + 1)
    try:
        syncs = cluster.syncs()
        with ThreadPoolExecutor(1) as beside:
            count = int(run.seconds / SYNC_PERIOD_S)
            fsync = beside.submit(fsync_probe, run, f"during-{name}", count, SYNC_PERIOD_S)
            figure = load(run, "reads", port, 16, 500, name)
            figure["fsync_p99_us"] = fsync.result()["p99_us"]
        figure["syncs"] = [after - earlier for after, earlier in zip(cluster.syncs(), syncs, strict=True)]
    finally:
        written = finish_load(writer)
    figure["commits_beside"] = written["per_second"]
    return figure


def _allowed(idle: list[Figure], busy: list[Figure]) -> Figure:
    """What reads may take beside commits: twice the fsync p99 of that run, and what they take idle."""
    figure, alone = middle(busy), middle(idle)
    allowed = 2 * figure["fsync_p99_us"] + alone["p99_us"]
    return figure | {"allowed_p99_us": allowed, "p99_to_allowed": round(figure["p99_us"] / allowed, 2)}


def heartbeats(run: Run) -> None:
    """Pipelined on one node; and 10,000 a second from 500 connections: CPU of that node per heartbeat."""
    with ours(run) as cluster:
        node = cluster.leader()
        for name, connections, rate in BEATS:
            run.take(name, partial(_beats, run, node["pid"], cluster.rpc(node), connections, rate, name))
        for name, connections, rate in BEATS:
            again = partial(load, run, "beats", cluster.rpc(node), connections, rate, "profiled-beats")
            profile(run, node["pid"], name, again)


def _beats(run: Run, pid: int, port: int, connections: int, rate: float, name: str) -> Figure:
    """Heartbeats to one process, and its CPU for each, without what it uses when nobody asks anything."""
    idle = cpu_share(pid, 2.0)
    before, started = cpu_s(pid), time.monotonic()
    figure = load(run, "beats", port, connections, rate, name.replace(" ", "-").replace("/", "-"))
    spent = cpu_s(pid) - before - idle * (time.monotonic() - started)
    for latency in LATENCIES:
        del figure[latency]  # One-way: nobody answers.
    return figure | {"cpu_us": round(spent * 1e6 / figure["operations"], 2), "idle_cpu_share": round(idle, 4)}


MEASURES: dict[str, Callable[[Run], None]] = {
    "counts": machine_counts,
    "controls": controls,
    "commits": commits,
    "java": java,
    "etcd": etcd,
    "keys": keys,
    "reads": reads,
    "links": links,
    "heartbeats": heartbeats,
    "failover": failover,
    "scale": scale,
    "growth": growth,
    "restart": restart,
    "snapshot": snapshot,
    "consumers": consumers,
    "watchers": watchers,
    "page": page,
    "spark": spark_source,
    "projections": projections,
    "pairs": pairs,
}
"""``pairs`` needs another checkout to compare with."""
