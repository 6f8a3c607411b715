"""The control of the craft: three etcd nodes, under the same closed loops in the same run.

What is compared, and what is not: a put of 240 bytes (as long as a record of ours) that a majority has synced, over
gRPC as etcd's own benchmark asks for it, with a commit of ours, which also decides, checks and answers what a broker
asked; a linearizable range of one key with a replica info. Both are asked on the leader, on loopback, with their own
default settings, on the same disk. etcd is Debian's build of it: its version and Go's are told beside.
"""

import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from tests.bench.harness import Figure, Run, cpu_s, ending, load
from tests.clusters import free_ports
from tests.peers import PEERS, present

LOADS = (
    ("closed 1", "commits", 1),
    ("closed 16", "commits", 16),
    ("closed 64", "commits", 64),
    ("reads 16", "reads", 16),
    ("reads 64", "reads", 64),
    ("echoes 1", "echoes", 1),
)
WARM_UP_S = 2
LEADER_S = 30.0


def etcd(run: Run) -> None:
    """Closed loops with 1, 16 and 64 clients, reads, and calls that ask for nothing."""
    if not present("etcd-server"):
        run.keep("etcd", {"failed": "absent: etcd-server (make peers)"})
        return
    program = PEERS / "etcd-server" / "etcd-server"
    run.take("etcd build", lambda: {"version": _version(program)})
    with tempfile.TemporaryDirectory(dir=run.folder) as folder, ExitStack() as stack:
        found: list[int] = []
        nodes: list[subprocess.Popen[str]] = []

        def warm_up() -> Figure:
            ports, processes = stack.enter_context(three(program, Path(folder)))
            place = leader(ports)
            found.append(ports[place])
            nodes.extend([processes[place], *(one for one in processes if one is not processes[place])])
            return load(run, "commits", found[0], 64, 0, "etcd-warm-up", WARM_UP_S, tool="etcd")

        run.take("etcd warm-up", warm_up)
        for name, mode, clients in LOADS if found else ():
            run.take(
                f"etcd {name}",
                partial(over_grpc, run, [node.pid for node in nodes], mode, found[0], clients, f"etcd {name}"),
            )


def over_grpc(run: Run, pids: list[int], mode: str, port: int, clients: int, name: str) -> Figure:
    """One load on the leader, and what it cost each node; the leader's is the first process."""
    before = [cpu_s(pid) for pid in pids]
    figure = load(run, mode, port, clients, 0, name.replace(" ", "-"), tool="etcd")
    spent = [(cpu_s(pid) - was) * 1e6 / figure["operations"] for pid, was in zip(pids, before, strict=True)]
    return figure | {"leader_cpu_us": round(spent[0], 1), "follower_cpu_us": round(max(spent[1:]), 1)}


def _version(program: Path) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    return "; ".join(line for line in said.splitlines() if line.startswith(("etcd", "Go ")))


@contextmanager
def three(program: Path, folder: Path) -> Iterator[tuple[list[int], "list[subprocess.Popen[str]]"]]:
    """A cluster: its ports for clients, and its processes."""
    base = free_ports(6)
    clients, peers = [base + number for number in range(3)], [base + 3 + number for number in range(3)]
    members = ",".join(f"n{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
    with ExitStack() as stack:
        processes = []
        for number in range(3):
            client, peer = (f"http://127.0.0.1:{ports[number]}" for ports in (clients, peers))
            words = ["--name", f"n{number}", "--data-dir", str(folder / f"n{number}"), "--initial-cluster", members]
            words += ["--listen-client-urls", client, "--advertise-client-urls", client]
            words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--log-level", "error"]
            with (folder / f"n{number}.log").open("w") as log:
                started = subprocess.Popen([program, *words], stdout=log, stderr=subprocess.STDOUT, text=True)
            processes.append(stack.enter_context(ending(started)))
        yield clients, processes


def leader(ports: list[int]) -> int:
    """Which of them leads, by its place. Raises RuntimeError."""
    end = time.monotonic() + LEADER_S
    while time.monotonic() < end:
        for place, port in enumerate(ports):
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/v3/maintenance/status", data=b"{}")
            try:
                with urllib.request.urlopen(asked, timeout=2) as answer:
                    status = msgspec.json.decode(answer.read())
            except (OSError, urllib.error.URLError):
                continue
            if status.get("leader") == status["header"]["member_id"]:
                return place
        time.sleep(0.2)
    raise RuntimeError("no etcd node leads")
