"""Keys over gRPC beside etcd's own: puts and linearizable reads at the leader, asked by the same generator.

Whoever wants the ratio runs ``keys etcd``: etcd's figures of the same loads are those of ``etcd.py``.
"""

from functools import partial

from tests.bench.etcd import LOADS, WARM_UP_S, over_grpc
from tests.bench.harness import Figure, Run, load, ours, profile, rss_mib


def keys(run: Run) -> None:
    """Closed loops with 1, 16 and 64 clients, reads, calls that ask for nothing, and where a put's time goes."""
    with ours(run) as cluster:
        leader = cluster.leader()
        pids = [leader["pid"], *(node["pid"] for node in cluster.started.nodes if node is not leader)]
        port = int(leader["grpc"].rpartition(":")[2])
        run.take("keys warm-up", partial(load, run, "commits", port, 64, 0, "keys-warm-up", WARM_UP_S, tool="etcd"))
        for name, mode, clients in LOADS:
            run.take(f"keys {name}", partial(_measured, run, pids, mode, port, clients, f"keys {name}"))
        run.take("keys remoting 1", partial(load, run, "commits", cluster.rpc(leader), 1, 0, "keys-remoting-1"))
        run.take("keys lone", partial(_lone, run))
        for name, clients in (("keys", 64), ("keys lone", 1)):
            file = f"profiled-{name.replace(' ', '-')}"
            again = partial(load, run, "commits", port, clients, 0, file, tool="etcd")
            profile(run, leader["pid"], name, again)


def _lone(run: Run) -> Figure:
    """A put that comes alone, beside a commit by remoting and a call that asks for nothing, of the same nodes."""
    put, commit, bare = (run.figures[f"keys {name}"]["p50_us"] for name in ("closed 1", "remoting 1", "echoes 1"))
    return {
        "p50_us": put,
        "commit_us": commit,
        "bare_us": bare,
        "p50_to_allowed": round(put / (commit + 1.2 * bare), 2),
    }


def _measured(run: Run, pids: list[int], mode: str, port: int, clients: int, name: str) -> Figure:
    return over_grpc(run, pids, mode, port, clients, name) | {"rss_mib": round(rss_mib(pids[0]), 1)}
