"""What a benchmark stands on: the compiled load generators, the machine's own figures, processes and their CPU."""

import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quorate.consensus.disk import FileDisk
from tests.clusters import Started, free_ports, running

HERE = Path(__file__).parent
TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Run:
    """One run of all measurements: its folder, its figures, and the raw samples beside them."""

    folder: Path
    tools: Path
    seconds: int
    figures: dict[str, Any] = field(default_factory=dict)

    def keep(self, name: str, figure: dict[str, Any]) -> dict[str, Any]:
        """Note a figure under a name, with the load average of the moment."""
        figure["load_average"] = round(os.getloadavg()[0], 2)
        self.figures[name] = figure
        (self.folder / "figures.json").write_text(json.dumps(self.figures, indent=1))
        print(f"  {name}: {json.dumps(figure)}", flush=True)
        return figure


def build_tools(folder: Path) -> Path:
    """Compile the generators. Raises SystemExit when there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("make bench needs a C compiler (cc): the load generator must not be the limit")
    for name in ("load", "fleet"):
        source = HERE / "load" / f"{name}.c"
        subprocess.run([compiler, "-O2", "-o", str(folder / name), str(source)], check=True)
    return folder


def load(run: Run, mode: str, port: int, connections: int, rate: float, name: str, seconds: int = 0) -> dict[str, Any]:
    """Run the generator; its JSON line. Raw samples go to ``<name>.u32`` (microseconds)."""
    process = start_load(run, mode, port, connections, rate, name, seconds)
    return finish_load(process)


def start_load(
    run: Run, mode: str, port: int, connections: int, rate: float, name: str, seconds: int = 0
) -> "subprocess.Popen[str]":
    """Begin a run of the generator."""
    arguments = [mode, "127.0.0.1", str(port), str(connections), str(seconds or run.seconds), str(rate)]
    samples = run.folder / f"{name}.u32"
    return subprocess.Popen(
        [str(run.tools / "load"), *arguments, str(samples)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish_load(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Its JSON line. Raises RuntimeError with what it said instead."""
    out, err = process.communicate(timeout=180)
    if not out:
        raise RuntimeError(f"the load generator failed: {err}")
    found: dict[str, Any] = json.loads(out)
    found.pop("first_error") if not found["errors"] else None
    return found


def fsync_probe(run: Run, count: int = 1000) -> dict[str, Any]:
    """240 bytes written in place and synced, as the journal does it; microseconds."""
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        disk = FileDisk(folder)
        disk.create("probe", 1 << 20)
        samples = []
        for k in range(count):
            start = time.perf_counter_ns()
            disk.write("probe", k * 240, b"x" * 240)
            disk.sync("probe")
            samples.append((time.perf_counter_ns() - start) // 1000)
        disk.close()
    (run.folder / f"fsync-{len(run.figures)}.u32").write_bytes(struct.pack(f"={count}I", *samples))
    samples.sort()
    return {"p50_us": samples[count // 2], "p99_us": samples[count * 99 // 100], "max_us": samples[-1]}


def cpu_s(pid: int) -> float:
    """CPU time a process has used, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_S


def rss_mib(pid: int) -> float:
    """Resident memory of a process, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def profiled(run: Run, pid: int, name: str, seconds: int) -> Iterator[None]:
    """Sample a process meanwhile; ``<name>.stacks`` holds one stack and its count per line. Not in a measured run."""
    stacks = run.folder / f"{name}.stacks"
    words = ["record", "-p", str(pid), "-d", str(seconds), "-r", "200", "-f", "raw", "-o", str(stacks)]
    spy = subprocess.Popen(
        [str(Path(sys.executable).with_name("py-spy")), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        spy.wait(timeout=60)
    run.keep(f"profile {name}", {"top": hottest(stacks)})


def hottest(stacks: Path, count: int = 15) -> list[str]:
    """The functions most samples were in, or below, as ``share function``; frames that all share are left out."""
    inside: Counter[str] = Counter()
    total = 0
    for line in stacks.read_text().splitlines() if stacks.exists() else ():
        stack, _, times = line.rpartition(" ")
        total += int(times)
        for function in {frame.rpartition(":")[0] + ")" for frame in stack.split(";")}:
            inside[function] += int(times)
    shared = {function for function, times in inside.items() if times > 0.7 * total}
    found = [(times, function) for function, times in inside.most_common() if function not in shared]
    return [f"{times * 100 / total:.0f} % {function}" for times, function in found[:count]]


@contextmanager
def null_server() -> Iterator["tuple[int, subprocess.Popen[str]]"]:
    """The control server: its port and its process."""
    port = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, str(HERE / "null_server.py"), str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield port, process
    finally:
        process.kill()
        process.wait()


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
def ours(run: Run, *words: str) -> Iterator[Ours]:
    """A fresh cluster, started as a user starts it."""
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        base = free_ports(40)
        with running(
            ["up", "--nodes", "3", "--data-dir", f"{folder}/c", "--base-port", str(base), *words], Path(folder) / "c"
        ) as up:
            cluster = Ours(up)
            cluster.leader()
            yield cluster


def median(values: list[float]) -> float:
    """The middle one."""
    return statistics.median(values)
