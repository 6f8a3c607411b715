"""What durability costs: journal and store, in microseconds of CPU and milliseconds of waiting, beside a bare disk.

Run it: ``python tests/bench/bench_journal.py [DIRECTORY]`` (a new temporary directory there). The control is the least
a log can do on the same disk in the same run: one write into zeros and one ``fdatasync``.
"""

import asyncio
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from quorate.consensus.entry import Entry, decode_entry, encode_entry
from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import StoreOp, Term
from quorate.consensus.storage.disk import FileDisk, ThreadWorker
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import RocksStore, applied_ops
from quorate.consensus.storage_settings import JournalSettings
from tests.stand_ins import InlineWorker, ManualClock

ENTRY = Entry(
    kind="events",
    decided_term=Term(1),
    base_offset=1,
    count=1,
    time_ms=1_700_000_000_000,
    principal="broker",
    cause="registerBroker",
    request_id="",
    batch=bytes(range(240)),
)
ROUNDS = 5
SYNCS = 300
GROUPS = (1, 16, 64)
MANY = 150_000


class NoWait(FileDisk):
    """Writes and syncs nothing: what is left is our own work."""

    def write(self, name: str, offset: int, data: bytes) -> None:
        pass

    def sync(self, name: str) -> None:
        pass


def rss_mb() -> float:
    """Resident memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def best_us(call: Callable[[], object], calls: int) -> float:
    """CPU of this thread per call, the best of some rounds."""
    found = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(calls):
            call()
        found.append((time.thread_time() - start) / calls * 1e6)
    return min(found)


def percentiles(samples: list[float]) -> str:
    """p50 / p99 in ms."""
    ordered = sorted(samples)
    return f"{ordered[len(ordered) // 2] * 1e3:6.3f} / {ordered[int(len(ordered) * 0.99)] * 1e3:6.3f}"


def codec() -> None:
    """Entry bytes, both ways."""
    data = encode_entry(ENTRY)
    print(f"encode_entry                {best_us(lambda: encode_entry(ENTRY), 20_000):6.2f} us   ({len(data)} bytes)")
    print(f"decode_entry                {best_us(lambda: decode_entry(data), 20_000):6.2f} us")


def loop_work(folder: Path) -> None:
    """What an append costs in CPU up to its report, alone and in groups."""
    data = encode_entry(ENTRY)
    for group in GROUPS:
        disk = NoWait(str(folder / f"loop-{group}"))
        journal = Journal.open(disk, InlineWorker(), JournalSettings(), ManualClock())

        def turn(journal: Journal = journal, group: int = group) -> None:
            for _ in range(group):
                journal.append(journal.last_index + 1, 1, data)
            journal.flush()

        cost = best_us(turn, 10_000 // group) / group
        print(f"append, {group:2} per flush        {cost:6.2f} us per entry, disk not included")
        disk.close()


def control(folder: Path, group: int) -> list[float]:
    """Seconds of one write into zeros and one fdatasync, ``SYNCS`` times."""
    disk = FileDisk(str(folder / f"control-{group}"))
    data = (encode_entry(ENTRY) + bytes(48)) * group
    disk.create("zeros", len(data) * SYNCS)
    samples = []
    for number in range(SYNCS):
        start = time.perf_counter()
        disk.write("zeros", number * len(data), data)
        disk.sync("zeros")
        samples.append(time.perf_counter() - start)
    disk.close()
    return samples


async def threaded(folder: Path, group: int) -> tuple[list[float], float]:
    """Seconds from append to ``on_durable`` through the thread, and CPU of the process per sync in us."""
    disk = FileDisk(str(folder / f"thread-{group}"))
    loop = asyncio.get_running_loop()
    worker = ThreadWorker(loop, lambda error: sys.exit(f"fatal: {error}"))
    journal = Journal.open(disk, worker, JournalSettings(), ManualClock())
    data, samples = encode_entry(ENTRY), []
    durable = asyncio.Event()
    journal.on_durable = durable.set
    cpu = time.process_time()
    for _ in range(SYNCS):
        start = time.perf_counter()
        for _ in range(group):
            journal.append(journal.last_index + 1, 1, data)
        journal.flush()
        await durable.wait()
        durable.clear()
        samples.append(time.perf_counter() - start)
    cpu = time.process_time() - cpu
    worker.close(10)
    disk.close()
    return samples, cpu / SYNCS * 1e6


def waiting(folder: Path) -> None:
    """Durable appends against the control, interleaved."""
    for group in GROUPS:
        bare = control(folder, group)
        samples, cpu_us = asyncio.run(threaded(folder, group))
        ratio = sorted(samples)[SYNCS // 2] / sorted(bare)[SYNCS // 2]
        print(
            f"durable, {group:2} per sync        {percentiles(samples)} ms p50/p99 {cpu_us:4.0f} us CPU;"
            f"   bare disk {percentiles(bare)} ms; p50 ratio {ratio:.2f}"
        )


def recovery(folder: Path) -> None:
    """Start on a journal of many entries; memory before and after."""
    disk = FileDisk(str(folder / "many"))
    journal = Journal.open(disk, InlineWorker(), JournalSettings(), ManualClock())
    data, before = encode_entry(ENTRY), rss_mb()
    for _ in range(MANY // 100):
        for _ in range(100):
            journal.append(journal.last_index + 1, 1, data)
        journal.flush()
    size = journal.bytes_on_disk() / 1e6
    print(f"{MANY} entries           {rss_mb() - before:6.1f} MB more memory, {size:.0f} MB of disk")
    start = time.thread_time()
    again = Journal.open(disk, InlineWorker(), JournalSettings(), ManualClock())
    print(f"recovery                    {(time.thread_time() - start) / MANY * 1e6:6.2f} us per entry")
    start, read = time.thread_time(), 0
    while read < 50_000:
        read += len(again.entries(2 + read, 256 * 1024, 1000))
    print(f"entries() from disk         {(time.thread_time() - start) / read * 1e6:6.2f} us per entry")
    disk.close()


class Applying:
    """A store and an event log, written to as the state machine does."""

    def __init__(self, folder: Path) -> None:
        self.store = RocksStore(str(folder / "store"))
        self.log = EventLog(self.store)
        self._chance = random.Random(1)

    def apply(self, group: int) -> None:
        """One slice of ``group`` commits."""
        ops: list[StoreOp] = []
        batches = []
        offset = self.log.end_offset
        for _ in range(group):
            described = (offset, 1, Term(1), offset.to_bytes(8, "big") + ENTRY.batch)
            ops += self.log.ops_for(*described)
            ops.append(StoreOp("rows", b"broker-set/default/%d" % self._chance.randrange(2000), bytes(200)))
            batches.append(described)
            offset += 1
        self.store.write([*ops, *applied_ops(offset, 1, offset, 0)])
        self.log.publish(batches)


def store(folder: Path) -> None:
    """What an applied commit costs in the store, alone and while the worker's thread syncs without pause."""
    bench, before = Applying(folder), rss_mb()
    for group in GROUPS:
        cost = best_us(partial(bench.apply, group), 3_000 // group) / group
        print(f"store write, {group:2} per write   {cost:6.2f} us per commit")
    stop = threading.Event()

    def syncing() -> None:
        while not stop.is_set():
            bench.store.sync()

    for name, thread in (("idle", None), ("syncing", threading.Thread(target=syncing))):
        if thread:
            thread.start()
        samples = []
        for _ in range(2_000):
            start = time.perf_counter()
            bench.apply(1)
            samples.append(time.perf_counter() - start)
            time.sleep(0.0003)
        print(f"one store write, {name:9}  {percentiles(samples)} ms p50/p99")
    stop.set()
    while bench.log.end_offset < MANY:
        bench.apply(64)
    print(f"{MANY} commits           {rss_mb() - before:6.1f} MB more memory")
    bench.store.close()


def main() -> None:
    """Everything, on one directory."""
    print(f"load average {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        folder = Path(name)
        codec()
        loop_work(folder)
        waiting(folder)
        recovery(folder)
        store(folder)


if __name__ == "__main__":
    main()
