"""What grows: broker sets to 10,000 (20,000 brokers), and the log to a million events.

Rules: the cost of a heartbeat, a commit and an election is counted (``tests.bench.counted``), for a curve of times
would be one of the machine's hours. A restart is timed: a node alone, whose log was made through ``node.submit`` as
fast as it takes commands, is started again as a process of its own, until it is ready to decide. What a heartbeat, a
commit and an election cost with that log is CPU of such a process, its client included: the median of several rounds.

Usage, of its own processes: ``growth write|start|cost FOLDER EVENTS``.
"""

import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from quorate.controller import Answered, ReadView
from quorate.metadata.commands import (
    AlterSyncStateSet,
    ApplyBrokerId,
    Command,
    ElectMaster,
    PutTopic,
    RegisterBroker,
)
from quorate.node import Node
from quorate.node.logs import configure
from quorate.node.settings import LogSection, NodeSettings, build
from tests.bench.counted import beat, values
from tests.bench.counts import ROOT, counted
from tests.bench.harness import Figure, Run, ending, rss_mib, said
from tests.clusters import free_ports

SETS = (100, 1_000, 10_000)
EVENTS = (100_000, 300_000, 1_000_000)
TOPICS = 1000
AT_ONCE = 256
WRITE_S = 240
READY_S = 60.0
ROUNDS, BEATS, ASKED = 7, 2000, 100
"""Of heartbeats in each round; of commits and elections, one by one."""


def growth(run: Run) -> None:
    """What each costs with so many sets."""
    for sets in SETS:
        run.take(f"growth {sets} sets", partial(_sets, sets))


def restart(run: Run) -> None:
    """The log grows step by step, and after each the node is started again."""
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        for events in EVENTS:
            if "failed" in run.take(f"growth {events} events", partial(_events, Path(folder), events)):
                return


def _sets(sets: int) -> Figure:
    """Steps for each, by what it is."""
    found = counted(str(sets))
    return {name.removeprefix(f"{sets} sets, "): round(values(row)[2]) for name, row in found.items()}


def _events(folder: Path, events: int) -> Figure:
    """The log is grown to so many; then it starts after a clean end, and after a kill."""
    with ending(_program("write", folder, events)) as writer:
        found: Figure = json.loads(said(writer))
        writer.wait(READY_S)
    for end in ("clean end", "kill"):
        began = time.monotonic()
        with ending(_program("start", folder, events)) as started:
            offset = json.loads(said(started))["offset"]
            took, resident = time.monotonic() - began, rss_mib(started.pid)
        if offset < events:
            raise RuntimeError(f"after a {end} the log ends at {offset}, not at {events} or later")
        found |= {f"ready_s_after_{end.replace(' ', '_')}": round(took, 2), "rss_mib": round(resident, 1)}
    with ending(_program("cost", folder, events)) as costing:
        found |= json.loads(said(costing))
        costing.wait(READY_S)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return found | {"disk_mib": round(size / 2**20, 1)}


def _program(what: str, folder: Path, events: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.bench.growth", what, str(folder), str(events)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def settings(folder: Path) -> NodeSettings:
    """A cluster of one."""
    first = free_ports(4)
    rpc, raft, kafka, http = (f"127.0.0.1:{first + place}" for place in range(4))
    tree: dict[str, Any] = {
        "node": {"id": 1, "data_dir": "data"},
        "log": {"level": "error"},
        "cluster": {"id": "growth", "voters": [{"id": 1, "rpc": rpc, "raft": raft, "kafka": kafka, "http": http}]},
    }
    return build(tree, environ={}, overrides={}, base=folder)


async def _write(folder: Path, events: int) -> None:
    """Change topics until the log holds so many events; what it took."""
    async with Node(settings(folder)) as node:
        await node.ready(READY_S)
        view = await node.read()
        assert isinstance(view, ReadView), view
        began, numbers = time.monotonic(), itertools.count(view.offset)
        first = end = view.offset

        async def change() -> None:
            nonlocal end
            while end < events:
                number = next(numbers)
                queues = 4 + number // TOPICS % 8
                topic = f"topic-{number % TOPICS}"
                outcome = await node.submit(
                    PutTopic(topic=topic, read_queues=queues, write_queues=queues, permission=6)
                )
                if isinstance(outcome, Answered):  # Whatever else: more are asked for, until the log is long enough.
                    end = max(end, outcome.offset)
                if time.monotonic() - began > WRITE_S:
                    raise TimeoutError(f"{end} events only after {WRITE_S} s")

        await asyncio.gather(*(change() for _ in range(AT_ONCE)))
        rate = (end - first) / (time.monotonic() - began)
    print(json.dumps({"events": end, "written_per_second": round(rate)}), flush=True)


async def _start(folder: Path, _: int) -> None:
    """Until it is ready; then wait to be killed."""
    async with Node(settings(folder)) as node:
        await node.ready(READY_S)
        view = await node.read()
        assert isinstance(view, ReadView), view
        print(json.dumps({"offset": view.offset}), flush=True)
        await asyncio.Event().wait()


async def _cost(folder: Path, events: int) -> None:
    """CPU of this process, µs, for a heartbeat, a commit, and an election with the report that follows it."""
    async with Node(settings(folder)) as node:
        await node.ready(READY_S)
        name, address = f"bench-{events}", "127.0.0.1:1"
        for broker in (1, 2):
            await _answered(node, ApplyBrokerId("bench", name, broker, f"{address};{broker}"))
            await _answered(node, RegisterBroker("bench", name, broker, address))
        host, _, port = node.addresses.rpc.rpartition(":")
        answers, brokers = await asyncio.open_connection(host, int(port))

        async def beats() -> None:
            brokers.write((beat(name, 1) + beat(name, 2)) * (BEATS // 2 - 1))
            brokers.write(beat(name, 1) + beat(name, 2, oneway=False))
            await answers.read(4096)  # The last one's answer: all were heard.

        async def commits() -> None:
            for number in range(ASKED):
                await _answered(node, PutTopic(topic="cost", read_queues=1 + number % 2, write_queues=1, permission=6))

        async def elections() -> None:
            for number in range(ASKED):
                await _answered(node, ElectMaster(name, broker_id=1 + number % 2, designate=True))
                await _both_in_sync(node, name)

        await beats()
        await _answered(node, ElectMaster(name, broker_id=2))
        await _both_in_sync(node, name)
        found: Figure = {}
        for work, times in ((beats, BEATS), (commits, ASKED), (elections, ASKED)):
            rounds = []
            for _ in range(ROUNDS):
                began = time.process_time()
                await work()
                rounds.append((time.process_time() - began) * 1e6 / times)
            found[f"{work.__name__}_cpu_us"] = round(sorted(rounds)[ROUNDS // 2], 1)
    print(json.dumps(found), flush=True)


async def _both_in_sync(node: Node, name: str) -> None:
    """As the master reports after each election: only who is in sync can be elected."""
    found = node.core.controller.state.broker_sets[name]
    assert found.master is not None
    await _answered(
        node,
        AlterSyncStateSet(
            broker_set=name,
            master=found.master,
            master_epoch=found.master_epoch,
            sync_state_set=(1, 2),
            sync_state_set_epoch=found.sync_state_set_epoch,
        ),
    )


async def _answered(node: Node, command: Command) -> None:
    outcome = await node.submit(command)
    assert isinstance(outcome, Answered), outcome


def main(what: str, folder: str, events: str) -> None:
    """One of its processes."""
    import uvloop

    configure(LogSection(level="error"))
    work = {"write": _write, "start": _start, "cost": _cost}[what]
    uvloop.run(work(Path(folder), int(events)))


if __name__ == "__main__":
    main(*sys.argv[1:])
