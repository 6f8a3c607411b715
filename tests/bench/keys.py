"""Keys over gRPC beside etcd's own: puts and linearizable reads at the leader, asked by the same generator.

Whoever wants the ratio runs ``keys etcd``: etcd's figures of the same loads are those of ``etcd.py``.
"""

from functools import partial

from tests.bench.etcd import LOADS
from tests.bench.harness import Figure, Ours, Run, cpu_s, load, ours, profile, rss_mib
from tests.clusters import quorate

WARM_UP_S = 2


def keys(run: Run) -> None:
    """Closed loops with 1, 16 and 64 clients, reads, and where a put's time goes."""
    with ours(run) as cluster:
        leader = cluster.leader()
        port = int(leader["grpc"].rpartition(":")[2])
        raised = quorate("feature", "raise", "2", "--node", leader["http"])
        if raised.returncode:
            run.keep("keys", {"failed": raised.stderr.strip()})
            return
        run.take("keys warm-up", partial(load, run, "commits", port, 64, 0, "keys-warm-up", WARM_UP_S, tool="etcd"))
        for name, mode, clients in LOADS:
            run.take(f"keys {name}", partial(_measured, run, cluster, mode, port, clients, name))
        again = partial(load, run, "commits", port, 64, 0, "profiled-keys", tool="etcd")
        profile(run, leader["pid"], "keys", again)


def _measured(run: Run, cluster: Ours, mode: str, port: int, clients: int, name: str) -> Figure:
    """One load on the leader, and what it cost each node."""
    leader = cluster.leader()
    nodes = [leader, *(node for node in cluster.started.nodes if node is not leader)]
    before = [cpu_s(node["pid"]) for node in nodes]
    figure = load(run, mode, port, clients, 0, f"keys-{name.replace(' ', '-')}", tool="etcd")
    spent = [(cpu_s(node["pid"]) - was) * 1e6 / figure["operations"] for node, was in zip(nodes, before, strict=True)]
    resident = round(rss_mib(leader["pid"]), 1)
    return figure | {
        "leader_cpu_us": round(spent[0], 1),
        "follower_cpu_us": round(max(spent[1:]), 1),
        "rss_mib": resident,
    }
