"""Counts instead of times: calls and bytecodes in one process, instructions there, and system calls of real nodes.

Rules: the first are exact (``tests.bench.counted``). Instructions are counted by callgrind, in the same process, so
they depend on the build of Python and are no part of the committed table. System calls are counted by the kernel
(``perf stat``), or by ``strace``, which slows a node down and so makes batches larger. What the machine does not have
is told as absent.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from tests.bench.counted import AMONG, AT_ONCE, CLIENTS, Counted, beat, values
from tests.bench.counts import ROOT, counted
from tests.bench.harness import BEATS, HERE, Figure, Ours, Run, finish_load, ours, start_load
from tests.native import compiled

LOADS = (
    ("commit alone", "commits", 1, 0.0),
    (f"commit among {CLIENTS}", "commits", CLIENTS, 0.0),
    ("read alone", "reads", 1, 0.0),
    (f"read among {CLIENTS}", "reads", CLIENTS, 0.0),
    *((name.replace("heartbeats", "heartbeat"), "beats", connections, rate) for name, connections, rate in BEATS),
)
NAMES = (
    *("futex", "epoll_wait", "epoll_pwait", "read", "write", "writev", "sendto", "sendmsg", "recvfrom", "recvmsg"),
    *("fdatasync", "pwrite64", "io_submit", "io_getevents", "getpid"),
)
"""System calls that are told one by one."""
COMMITTED = "quorate_commits_total"
SETTLED_S = 0.5
CALLGRIND_S = 280
MARKS = "the marks themselves, a turn"
ALONE = 30


def machine_counts(run: Run) -> None:
    """All three."""
    run.take("calls", lambda: {name: list(map(round, values(row))) for name, row in counted("operations").items()})
    run.take("instructions", partial(instructions, run))
    with ours(run) as cluster:
        leader, follower = cluster.leader(), cluster.follower()
        rests = [per_second(node["pid"], 2.0) for node in (leader, follower)]
        run.keep("system calls a second at rest", dict(zip(("leader", "follower"), map(_told, rests), strict=True)))
        for name, mode, clients, rate in LOADS:
            work = partial(_system_calls, run, cluster, mode, clients, rate, rests)
            run.take(f"system calls, {name}", work)


def _told(spent: dict[str, float]) -> dict[str, float]:
    return {name: round(number, 2) for name, number in spent.items() if number >= 0.01}


def _system_calls(
    run: Run, cluster: Ours, mode: str, clients: int, rate: float, rests: list[dict[str, float]]
) -> Figure:
    """Of leader and follower for each operation, in the middle of a load, without those at rest."""
    leader, follower = cluster.leader(), cluster.follower()
    generator = start_load(run, mode, cluster.rpc(leader), clients, rate, f"counted-{mode}-{clients}", run.seconds + 2)
    try:
        time.sleep(SETTLED_S)
        commits, began = cluster.metric(leader, COMMITTED), time.monotonic()
        watched = [Watched(node["pid"], run.seconds) for node in (leader, follower)]
        spent = [one.per_second() for one in watched]
        made = (cluster.metric(leader, COMMITTED) - commits) / (time.monotonic() - began)
    finally:
        figure = finish_load(generator)
    pace = made if mode == "commits" else figure["per_second"]
    found: Figure = {"operations": figure["operations"], "per_second": round(pace, 1), "by": watched[0].tool}
    for role, now, rest in zip(("leader", "follower"), spent, rests, strict=True):
        names = sorted(now, key=lambda name: -now[name])
        found[role] = _told({name: (now[name] - rest.get(name, 0)) / pace for name in names})
    return found


def per_second(pid: int, seconds: float) -> dict[str, float]:
    """System calls of a process from now on: ``all``, and those that a node is known to make, by name."""
    return Watched(pid, seconds).per_second()


class Watched:
    """A process whose system calls are counted for a while, by what this machine has for that."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._seconds = seconds
        events = [f"syscalls:sys_enter_{name}" for name in NAMES]
        known = Path("/sys/kernel/tracing/events/syscalls")
        events = [event for event in events if (known / event.partition(":")[2]).exists()]
        names = ",".join(["raw_syscalls:sys_enter", *events])
        perf = ["perf", "stat", "-x", ",", "-e", names, "-p", str(pid), "--", "sleep", str(seconds)]
        trace = ["strace", "-c", "-f", "-q", "-p", str(pid)]
        self.tool = "perf" if _works(["perf", "stat", "-e", "raw_syscalls:sys_enter", "true"]) else "strace"
        if self.tool == "strace" and shutil.which("strace") is None:
            raise RuntimeError("absent: perf (with tracepoints) and strace")
        command = perf if self.tool == "perf" else trace
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def per_second(self) -> dict[str, float]:
        """Wait, and tell. Raises RuntimeError with what the tool said instead."""
        if self.tool == "strace":
            time.sleep(self._seconds)
            self._process.send_signal(signal.SIGINT)
        try:
            _, said = self._process.communicate(timeout=self._seconds + 30)
        finally:
            self._process.kill()
        if self.tool == "perf":
            rows = [line.split(",") for line in said.splitlines() if ":sys_enter" in line]
            counts = {row[2].removeprefix("syscalls:sys_enter_"): float(row[0]) for row in rows if row[0].isdigit()}
        else:
            rows = [line.split() for line in said.splitlines()]
            counts = {row[-1]: float(row[3]) for row in rows if len(row) > 4 and row[3].isdigit()}
        counts["all"] = counts.pop("raw_syscalls:sys_enter", 0) or counts.pop("total", 0)
        if not counts["all"]:
            raise RuntimeError(f"{self.tool}: {said.strip()[:300]}")
        return {name: number / self._seconds for name, number in counts.items()}


def _works(command: list[str]) -> bool:
    """Is there such a program, and may we?"""
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except OSError:
        return False


def instructions(run: Run) -> Figure:
    """Of the processor, for each operation, in the process of ``tests.bench.counted`` under callgrind."""
    if shutil.which("valgrind") is None or not Path("/usr/include/valgrind/callgrind.h").exists():
        return {"failed": "absent: valgrind, with its headers"}
    library = run.folder / "collect.so"
    compiled(HERE / "load" / "collect.c", library, "-shared", "-fPIC", "-I/usr/include")
    out = run.folder / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no"]
    command += ["--instr-atstart=no", "--read-inline-info=no", "--read-var-info=no", sys.executable, "-c"]
    command += [f"from tests.bench.machine_counts import collect\ncollect({str(library)!r})"]
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONMALLOC": "pymalloc"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=CALLGRIND_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"valgrind ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    found: Figure = {}
    for dump in sorted(out.parent.glob(f"{out.name}.*"), key=lambda path: int(path.suffix[1:])):
        text = dump.read_text()
        named = re.search(r"^desc: Trigger: Client Request: (.*?) / (\d+)(?: / (\d+))?$", text, re.MULTILINE)
        total = re.search(r"^summary: (\d+)", text, re.MULTILINE)
        if named and total:
            marks = found.get(MARKS, 0) * int(named[3] or 0)
            found[named[1]] = round((int(total[1]) - marks) / int(named[2]))
        dump.unlink()
    if not found:
        raise RuntimeError("callgrind counted nothing")
    return found


def collect(library: str) -> None:
    """In that process: each operation once for each role, which alone is counted meanwhile."""
    marks = ctypes.CDLL(library)
    cluster = Counted()
    sets = cluster.sets([f"bench-{number}" for number in range(min(CLIENTS, AT_ONCE))])
    cluster.run(2.0)
    roles = {"leader": cluster.leader, "follower": cluster.follower}
    first = sets[0]
    together = [beat("bench-0", 1)] * 100

    def beats() -> None:
        for number, piece in enumerate(together):
            cluster.world.after(number * 100e-6, partial(first.client.send, piece))
        cluster.run(0.012)

    operations: tuple[tuple[str, Callable[[], None], int, tuple[str, ...]], ...] = (
        ("commit alone", lambda: cluster.loop([first.alter], ALONE), ALONE, ("leader", "follower")),
        (
            f"commit among {CLIENTS}",
            lambda: cluster.loop([one.alter for one in sets], AMONG),
            AMONG * CLIENTS,
            ("leader", "follower"),
        ),
        ("read alone", lambda: cluster.loop([first.read], ALONE), ALONE, ("leader", "follower")),
        ("heartbeat alone", beats, len(together), ("leader",)),
    )
    pairs = 100
    marks.begin()
    for _ in range(pairs):
        marks.toggle()
        marks.toggle()
    marks.end(f"{MARKS} / {pairs}".encode())
    for name, work, times, counted_roles in operations:
        work()
        for role in counted_roles:
            chosen = f"n{roles[role].core.node_id}"

            turns = count()

            def around(who: str, turn: Callable[[], None], chosen: str = chosen, turns: "count[int]" = turns) -> None:
                if who != chosen:
                    turn()
                    return
                next(turns)
                marks.toggle()
                turn()
                marks.toggle()

            cluster.meter.around = around
            marks.begin()
            with cluster.metered():
                work()
            marks.end(f"{name}: {role} / {times} / {next(turns)}".encode())
