"""Keys over gRPC beside etcd's own: puts and linearizable reads at the leader, asked by the same generator.

Whoever wants the ratio runs ``keys etcd``: etcd's figures of the same loads are those of ``etcd.py``.
"""

from functools import partial

from tests.bench.etcd import LOADS, over_grpc
from tests.bench.harness import Figure, Run, load, ours, profile, rss_mib
from tests.clusters import quorate

WARM_UP_S = 2


def keys(run: Run) -> None:
    """Closed loops with 1, 16 and 64 clients, reads, and where a put's time goes."""
    with ours(run) as cluster:
        leader = cluster.leader()
        pids = [leader["pid"], *(node["pid"] for node in cluster.started.nodes if node is not leader)]
        port = int(leader["grpc"].rpartition(":")[2])
        raised = quorate("feature", "raise", "2", "--node", leader["http"])
        if raised.returncode:
            run.keep("keys", {"failed": raised.stderr.strip()})
            return
        run.take("keys warm-up", partial(load, run, "commits", port, 64, 0, "keys-warm-up", WARM_UP_S, tool="etcd"))
        for name, mode, clients in LOADS:
            run.take(f"keys {name}", partial(_measured, run, pids, mode, port, clients, f"keys {name}"))
        again = partial(load, run, "commits", port, 64, 0, "profiled-keys", tool="etcd")
        profile(run, leader["pid"], "keys", again)


def _measured(run: Run, pids: list[int], mode: str, port: int, clients: int, name: str) -> Figure:
    return over_grpc(run, pids, mode, port, clients, name) | {"rss_mib": round(rss_mib(pids[0]), 1)}
