"""What a benchmark stands on: the compiled load generators, the machine's own figures, processes and their CPU.

A figure that cannot be had is a figure too (``{"failed": why}``), and the others go on. Beside each lies what the
machine gave meanwhile: the load average, and the share of the CPU that its host took away.
"""

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quorate.consensus.storage.disk import FileDisk
from tests.clusters import Started, free_ports, running
from tests.native import compiled

HERE = Path(__file__).parent
Figure = dict[str, Any]


class OverdueError(BaseException):
    """A measurement did not end in time. No ``except Exception`` may take it for the failure of one figure."""


BEATS = (("heartbeats pipelined", 64, 0.0), ("heartbeats 10000/s", 500, 10_000.0))
"""Name, connections, rate (0: as fast as they are taken)."""
LATENCIES = ("p50_us", "p99_us", "p999_us", "max_us")
"""Of a load; of heartbeats, which nobody answers, they say nothing."""
SETTLE_S, REST_S = 2.0, 10.0
"""After a cluster began; and how long each node is watched at rest."""
HELD = 0.95
"""Of an open loop's rate, at least."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """What is done meanwhile, wherever it waits, ends by then with an OverdueError. In the main thread only."""

    def ring(*_: object) -> None:
        raise OverdueError(f"not done within {seconds:.0f} s")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Watch:
    """What the machine gave from here on."""

    def __init__(self) -> None:
        self._began, self._ticks = time.monotonic(), machine_ticks()

    def seen(self) -> Figure:
        """Seconds gone, the share of the CPU that the host took (steal), and the load average now."""
        ticks = [now - then for now, then in zip(machine_ticks(), self._ticks, strict=True)]
        return {
            "took_s": round(time.monotonic() - self._began, 1),
            "steal_pct": round(100 * ticks[STEAL] / max(sum(ticks), 1), 1),
            "load_average": round(os.getloadavg()[0], 2),
        }


STEAL = 7
"""Of ``user nice system idle iowait irq softirq steal`` (proc(5)); what follows is in them already."""


def machine_ticks() -> list[int]:
    """The first line of ``/proc/stat``."""
    with Path("/proc/stat").open() as lines:
        return [int(number) for number in lines.readline().split()[1 : STEAL + 2]]


@dataclass
class Run:
    """One run of one measure: its folder, its figures, and the raw samples beside them."""

    folder: Path
    tools: Path
    seconds: int
    measure: str
    beside: str = ""
    """Another checkout, for ``pairs``."""
    figures: dict[str, Figure] = field(default_factory=dict)

    def take(self, name: str, work: Callable[[], Figure]) -> Figure:
        """Note what is found, or why it failed, and what the machine gave meanwhile, if the figure does not say."""
        watch = Watch()
        try:
            figure = work()
        except Exception as error:  # noqa: BLE001 - whatever it was, the next figure is worth as much as without it
            figure = {"failed": reason(error)}
        return self.keep(name, watch.seen() | figure)

    def keep(self, name: str, figure: Figure) -> Figure:
        """Note a figure."""
        self.figures[name] = figure
        kept = self.folder / f"figures-{self.measure}.json"
        kept.write_text(json.dumps(self.figures, indent=1))
        print(f"  {name}: {json.dumps(figure)}", flush=True)
        return figure

    def samples(self, name: str, values: list[float]) -> None:
        """Keep raw samples that no generator wrote, in the order they came."""
        (self.folder / f"{name}.json").write_text(json.dumps(values))


def reason(error: BaseException) -> str:
    """Why, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}" if text else type(error).__name__


def quantiles(samples: list[float]) -> Figure:
    """p50, p99 and the greatest, in the samples' own unit, milliseconds."""
    if not samples:
        raise RuntimeError("no samples")
    ordered = sorted(samples)
    return {
        "samples": len(ordered),
        "p50_ms": round(ordered[len(ordered) // 2], 2),
        "p99_ms": round(ordered[len(ordered) * 99 // 100], 2),
        "max_ms": round(ordered[-1], 2),
    }


def build_tools(folder: Path) -> Path:
    """Compile the generators: they must not be the limit."""
    for name in ("load", "fleet", "etcd"):
        compiled(HERE / "load" / f"{name}.c", folder / name)
    return folder


def load(
    run: Run, mode: str, port: int, connections: int, rate: float, name: str, seconds: int = 0, tool: str = "load"
) -> Figure:
    """Run a generator; its JSON line. Raw samples go to ``<name>.u32`` (microseconds)."""
    return finish_load(start_load(run, mode, port, connections, rate, name, seconds, tool))


def start_load(
    run: Run, mode: str, port: int, connections: int, rate: float, name: str, seconds: int = 0, tool: str = "load"
) -> "subprocess.Popen[str]":
    """Begin a run of the generator; it has prepared its broker sets when this returns."""
    arguments = [mode, "127.0.0.1", str(port), str(connections), str(seconds or run.seconds), str(rate)]
    command = [str(run.tools / tool), *arguments, str(run.folder / f"{name}.u32")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        finish_load(process)
    return process


def finish_load(process: "subprocess.Popen[str]") -> Figure:
    """Its JSON line. Raises RuntimeError with what it said instead, or when nothing at all was answered."""
    try:
        out, err = process.communicate(timeout=180)
    finally:
        process.kill()
    if not out:
        raise RuntimeError(f"the load generator ended with {process.returncode}: {err.strip()}")
    found: Figure = json.loads(out)
    if not found["operations"]:
        raise RuntimeError(f"nothing was answered: {found['first_error']}")
    if not found["errors"]:
        found.pop("first_error")
    rate = found.pop("rate")
    if found["per_second"] < HELD * rate:
        found["rate_not_held"] = rate
    return found


def fsync_probe(run: Run, name: str, count: int = 1000, period_s: float = 0.0) -> Figure:
    """240 bytes written in place and synced, as the journal does it, with a pause after each; microseconds."""
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        disk = FileDisk(folder)
        disk.create("probe", 1 << 20)
        samples = []
        for k in range(count):
            start = time.perf_counter_ns()
            disk.write("probe", k * 240, b"x" * 240)
            disk.sync("probe")
            samples.append((time.perf_counter_ns() - start) // 1000)
            time.sleep(period_s)
        disk.close()
    (run.folder / f"fsync-{name}.u32").write_bytes(struct.pack(f"={count}I", *samples))
    samples.sort()
    return {"p50_us": samples[count // 2], "p99_us": samples[count * 99 // 100], "max_us": samples[-1]}


ROUNDS = 3
"""Of what is compared, in turn."""


def middle(rounds: list[Figure]) -> Figure:
    """The round with the median p99, and the p99 of all: one that the machine's host disturbed does not count.

    Raises RuntimeError when a round failed, with its reason.
    """
    for figure in rounds:
        if "failed" in figure:
            raise RuntimeError(f"a round failed: {figure['failed']}")
    ordered = sorted(rounds, key=lambda figure: float(figure["p99_us"]))
    return ordered[len(ordered) // 2] | {"p99_us_rounds": [figure["p99_us"] for figure in rounds]}


def cpu_s(pid: int) -> float:
    """CPU time a process has used, seconds, by its own clock (clock_getcpuclockid(3)): /proc counts in 10 ms."""
    return time.clock_gettime((~pid << 3) | 2)


def own_core(pid: int, others: list[int]) -> None:
    """One core for one process, the rest for the others, which share its machine only here. Nothing on a lone core."""
    first, *rest = sorted(os.sched_getaffinity(0))
    if not rest:
        return
    for process, cores in ((pid, [first]), *((other, rest) for other in others)):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


def cpu_share(pid: int, seconds: float) -> float:
    """CPU of a process from now on, as a share of one core."""
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_s(pid) - before) / (time.monotonic() - began)


def rss_mib(pid: int) -> float:
    """Resident memory of a process, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def profile(run: Run, pid: int, name: str, work: Callable[[int], Figure]) -> None:
    """Sample a process while ``work(seconds)`` is done once more, apart from the measurement.

    ``<name>.stacks`` holds one stack and its count per line.
    """
    seconds = 3

    def sampled() -> Figure:
        stacks = run.folder / f"{name.replace(' ', '-').replace('/', '-')}.stacks"
        words = ["record", "-p", str(pid), "-d", str(seconds), "-r", "200", "-f", "raw", "-o", str(stacks)]
        program = Path(sys.executable).with_name("py-spy")
        spy = subprocess.Popen([str(program), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            work(seconds + 1)
            _, err = spy.communicate(timeout=60)
        finally:
            spy.kill()
        top = hottest(stacks)
        if not top:
            raise RuntimeError(f"py-spy took no samples: {err.strip()}")
        return {"top": top}

    run.take(f"profile {name}", sampled)


ROOTS = ("threading.py)", "asyncio/runners.py)", "uvloop/__init__.py)", "<frozen runpy>)", "quorate/__main__.py)")
"""Everything is below these, and below the command line: they say nothing."""

WAITING = ("ThreadWorker._work ", "_worker (concurrent/futures/thread.py")
"""Threads with nothing to do, which are taken for work."""


def hottest(stacks: Path, count: int = 15) -> list[str]:
    """The functions most samples were in, or below, as ``share function``; and first, what adds up to the whole: the
    room (two folders) whose function it was that worked, or called what is not Python.
    """
    inside: Counter[str] = Counter()
    rooms: Counter[str] = Counter()
    total = 0
    for line in stacks.read_text().splitlines() if stacks.exists() else ():
        stack, _, times = line.rpartition(" ")
        last = stack.rpartition(";")[2]
        if last.startswith(WAITING):
            continue
        total += int(times)
        rooms[_room(last)] += int(times)
        for function in {frame.rpartition(":")[0] + ")" for frame in stack.split(";")}:
            inside[function] += int(times)
    told = [(times, name) for name, times in inside.most_common() if not name.endswith(ROOTS) and "/cli/" not in name]
    shares = ", ".join(f"{room} {times * 100 / total:.0f} %" for room, times in rooms.most_common(8))
    return [f"by room: {shares}"] * bool(total) + [
        f"{times * 100 / total:.0f} % {name}" for times, name in told[:count]
    ]


def _room(frame: str) -> str:
    """``consensus/raft`` of ``name (quorate/consensus/raft/engine.py:1)``; what is not ours by its first folder."""
    path = frame.rpartition("(")[2].rpartition(":")[0]
    folders = path.rpartition("quorate/")[2].split("/")[:-1] if "quorate/" in path else path.split("/")[:1]
    return "/".join(folders[:2]) or "quorate"


@contextmanager
def ending(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """A child that is killed when it is no longer needed, if it has not ended by itself."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def null_server() -> Iterator["tuple[int, subprocess.Popen[str]]"]:
    """The control server: its port and its process."""
    port = free_ports(1)
    command = [sys.executable, str(HERE / "null_server.py"), str(port)]
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        said(process)
        yield port, process


def said(process: "subprocess.Popen[str]") -> str:
    """The next line of a child. Raises RuntimeError when it ended instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        code, why = process.wait(10), process.stderr.read().strip() if process.stderr else ""
        raise RuntimeError(f"{process.args!r} ended with {code}: {why}")
    return line


class Ours:
    """A running three-node cluster."""

    def __init__(self, started: Started) -> None:
        self.started = started

    def leader(self, deadline_s: float = 30.0) -> dict[str, Any]:
        """The node that leads, as the ready line has it."""
        from quorate.cli.client import NodeError
        from quorate.gateway.http.answers import Status

        deadline = time.monotonic() + deadline_s
        while time.monotonic() < deadline:
            for index, node in enumerate(self.started.nodes):
                try:
                    status = self.started.node(index).get("/v1/status", Status)
                except NodeError:
                    continue
                if status.leader == node["id"]:
                    return node
            time.sleep(0.02)
        raise RuntimeError("no leader")

    def follower(self) -> dict[str, Any]:
        """A node that does not lead."""
        leader = self.leader()
        return next(node for node in self.started.nodes if node is not leader)

    def rpc(self, node: dict[str, Any]) -> int:
        """The port of its remoting listener."""
        return int(node["rpc"].rpartition(":")[2])

    def syncs(self) -> list[int]:
        """Syncs of every node's journal so far."""
        return [int(self.metric(node, "quorate_journal_syncs_total")) for node in self.started.nodes]

    def metric(self, node: dict[str, Any], name: str) -> float:
        """One plain counter of ``/metrics``."""
        import urllib.request

        with urllib.request.urlopen(f"http://{node['http']}/metrics", timeout=5) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        return 0.0


@contextmanager
def ours(run: Run, *words: str, nodes: int = 3) -> Iterator[Ours]:
    """A fresh cluster, started as a user starts it."""
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        base = free_ports(40)
        with running(
            ["up", "--nodes", str(nodes), "--data-dir", f"{folder}/c", "--base-port", str(base), *words],
            Path(folder) / "c",
        ) as up:
            cluster = Ours(up)
            cluster.leader()
            yield cluster


def rest(cluster: Ours, seconds: float = REST_S) -> Figure:
    """CPU of the leader and of a follower of whom nobody asks anything, in per cent of a core."""
    time.sleep(SETTLE_S)
    leader, follower = (cpu_share(node["pid"], seconds) for node in (cluster.leader(), cluster.follower()))
    return {"leader_pct": round(100 * leader, 2), "follower_pct": round(100 * follower, 2)}


def measured(run: Run, cluster: Ours, mode: str, connections: int, rate: float, name: str) -> Figure:
    """One load on the leader, with what it cost each node: CPU per operation, and syncs of the journal."""
    leader = cluster.leader()
    nodes = [leader, *(node for node in cluster.started.nodes if node is not leader)]
    generator = start_load(run, mode, cluster.rpc(leader), connections, rate, name)
    before, syncs = [cpu_s(node["pid"]) for node in nodes], cluster.syncs()
    figure = finish_load(generator)
    spent = [cpu_s(node["pid"]) - used for node, used in zip(nodes, before, strict=True)]
    if cluster.leader() is not leader:
        raise RuntimeError("the leader changed meanwhile")
    figure["leader_cpu_us"] = round(spent[0] * 1e6 / figure["operations"], 1)
    figure["follower_cpu_us"] = round(max(spent[1:]) * 1e6 / figure["operations"], 1)
    figure["syncs"] = [after - earlier for after, earlier in zip(cluster.syncs(), syncs, strict=True)]
    return figure
