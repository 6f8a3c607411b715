"""Many seeds on many processes: progress, a summary, and an exit code that does not flatter.

Rules: a seed that fails, crashes, or does not finish fails the run; so does a run that saw less than it must
(``minima``), or fewer seeds than asked for. A failing seed prints the command that repeats it.
"""

import gc
import logging
import multiprocessing
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from types import FrameType

import msgspec
import structlog

from tests.sim.minima import PATH, Expected, Learned, seen
from tests.sim.mutants import MUTANTS
from tests.sim.replay import ANY_ORDER, HASH_SEEDS, Retold, elsewhere
from tests.sim.scripted import StageError
from tests.sim.simulation import Plan, Simulation
from tests.sim.world import ViolationError

SEED_LIMIT_S = 120
"""Seconds of CPU after which a seed counts as hanging: a run waits for nothing real, so a busy machine is no fault."""

RETOLD_EVERY = 10
"""Every so many seeds, one's log is told again by processes with other hash seeds (``replay``)."""


SEEDS_PER_LIFE = 50
"""Of a process that runs them: each leaves some ten megabytes behind."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a seed. ``invariant`` is empty when it passed."""

    seed: int
    size: int = 0
    trace: int = 0
    virtual_s: float = 0.0
    counts: dict[str, int] = {}
    met: dict[tuple[str, str], int] = {}
    cpu_s: float = 0.0
    told: Retold | None = None
    invariant: str = ""
    detail: str = ""


class Options(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    first: int
    last: int
    jobs: int = 2
    seconds: float = 0.0
    at_least: int = 0
    mutant: str = ""
    size: int = 0
    faults_s: float = 0.0
    stop_at_first: bool = False
    quiet: bool = False
    learn: bool = False


def prepare(mutant: str) -> None:
    """In a child: quiet libraries, and the mutation if there is one."""
    logging.disable(logging.CRITICAL)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    gc.disable()  # It costs a tenth of a seed's time; what is garbage goes with the process.
    if mutant:
        MUTANTS[mutant].apply()


def plan_for(options: Options, seed: int) -> Plan:
    """The plan of a seed."""
    plan = Plan(seed, size=options.size)
    return msgspec.structs.replace(plan, faults_s=options.faults_s) if options.faults_s else plan


def run_seed(options: Options, seed: int) -> Outcome:
    """One seed, in a child; never raises."""

    def too_long(_number: int, _frame: FrameType | None) -> None:
        raise ViolationError("every seed finishes", f"not within {SEED_LIMIT_S} s of CPU")

    previous = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, SEED_LIMIT_S)
    try:
        scripted = MUTANTS[options.mutant].script if options.mutant else None
        if scripted is not None:
            scripted(seed)
            return Outcome(seed)
        began = time.process_time()
        simulation = Simulation(plan_for(options, seed))
        report = simulation.run()
        cpu_s = time.process_time() - began
        told = simulation.retold() if seed % RETOLD_EVERY == 0 else None
        return Outcome(seed, report.size, report.trace, report.virtual_s, report.counts, report.met, cpu_s, told)
    except StageError:
        return Outcome(seed)
    except ViolationError as violation:
        return Outcome(seed, invariant=violation.name, detail=violation.detail)
    except Exception as error:  # noqa: BLE001  # Whatever the code under test raises is a finding.
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Outcome(seed, invariant="no exception", detail=f"{type(error).__name__}: {error} ({where})")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


class Tally:
    """Everything seen so far."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.started = time.monotonic()
        self.seeds = 0
        self.virtual_s = 0.0
        self.sizes: Counter[int] = Counter()
        self.counts: Counter[str] = Counter()
        self.met: Counter[tuple[str, str]] = Counter()
        self.learned = Learned()
        self.cpu_s = 0.0
        self.told: list[Retold] = []
        self.bad: list[Outcome] = []
        self.trace = 0
        """Digest of all that happened in the passing seeds, in the order they ended; with one job always the same."""
        self.unfinished: list[str] = []

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        self.seeds += 1
        self.virtual_s += outcome.virtual_s
        if outcome.invariant:
            self.bad.append(outcome)
            if not self.options.quiet:
                self.say(f"seed {outcome.seed}: {outcome.invariant}: {outcome.detail}")
                self.say(f"    again: {self.command(outcome.seed)}")
        else:
            self.sizes[outcome.size] += 1
            self.counts.update(outcome.counts)
            self.met.update(outcome.met)
            self.learned.add(seen(outcome.counts, outcome.met))
            self.cpu_s += outcome.cpu_s
            self.told += [outcome.told] if outcome.told is not None else []
            self.trace = zlib.crc32(f"{outcome.seed} {outcome.trace}".encode(), self.trace)
        self.progress()

    def command(self, seed: int) -> str:
        """What repeats this seed bit for bit."""
        options = self.options
        parts = [f".venv/bin/python -m tests.sim --seeds {seed}..{seed}"]
        parts += [f"--mutant {options.mutant!r}"] * bool(options.mutant)
        parts += [f"--size {options.size}"] * bool(options.size)
        parts += [f"--faults-seconds {options.faults_s}"] * bool(options.faults_s)
        return " ".join(parts)

    def say(self, line: str) -> None:
        """A line that stays."""
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
        print(line, flush=True)

    def progress(self) -> None:
        """A bar, on a terminal only."""
        if self.options.quiet or not sys.stderr.isatty():
            return
        options, took_s = self.options, time.monotonic() - self.started
        share = self.seeds / (options.last - options.first + 1)
        if options.seconds:
            share = max(share, min(1.0, took_s / options.seconds))
        bar = "█" * int(30 * share) + "·" * (30 - int(30 * share))
        sys.stderr.write(f"\r\033[K{bar} {self.seeds} seeds, {len(self.bad)} bad, {self.seeds / took_s * 60:.0f}/min")
        sys.stderr.flush()

    def shortfalls(self) -> list[str]:
        """What this run saw too little of."""
        return Expected.read().shortfalls(seen(self.counts, self.met), self.seeds)

    def tell_again(self) -> None:
        """The logs kept so far, in processes with other hash seeds."""
        told, self.told = self.told, []
        for number, hash_seed in enumerate(HASH_SEEDS):
            mine = told[number :: len(HASH_SEEDS)]
            self.counts["logs told again"] += len(mine)
            for line in elsewhere(mine, hash_seed, self.options.mutant) if mine else ():
                self.bad.append(Outcome(mine[0].seed, invariant=ANY_ORDER, detail=line))
                self.say(f"{ANY_ORDER}: {line}")

    def coverage(self) -> list[str]:
        """Faults down, requests across: how often they met."""
        faults = sorted({fault for fault, _ in self.met})
        requests = sorted({request for _, request in self.met})
        lines = [f"  {'':>15}" + "".join(f"{request:>11}" for request in requests)] if faults else []
        return lines + [
            f"  {fault:>15}" + "".join(f"{self.met[fault, request]:>11,}" for request in requests) for fault in faults
        ]

    def summary(self) -> bool:
        """Print it; True when the run passes."""
        took_s = time.monotonic() - self.started
        sizes = ", ".join(f"{count} with {size} node{'s' * (size > 1)}" for size, count in sorted(self.sizes.items()))
        self.say(f"\n{self.seeds} seeds ({sizes}), {self.virtual_s:.0f} virtual seconds, in {took_s:.0f} s")
        speed = self.virtual_s / self.cpu_s if self.cpu_s else 0.0
        self.say(f"rate: {self.seeds / took_s * 60:.0f} seeds/min, {self.options.jobs} processes")
        self.say(f"speed: {speed:.1f} virtual seconds a CPU second")
        self.say(f"trace: {self.trace:08x}")
        for name, count in sorted(self.counts.items()):
            self.say(f"  {count:>9,}  {name}")
        self.say("which requests met which faults:")
        for line in self.coverage():
            self.say(line)
        problems = [f"{len(self.bad)} bad seeds: {[outcome.seed for outcome in self.bad]}"] * bool(self.bad)
        problems += self.unfinished
        if self.options.learn and not problems:
            PATH.write_text(self.learned.text())
        problems += [f"too little seen: {short}" for short in self.shortfalls()]
        if self.seeds < self.options.at_least:
            problems.append(f"{self.seeds} seeds, {self.options.at_least} were asked for")
        for problem in problems:
            self.say(f"FAILED: {problem}")
        self.say(f"{self.seeds - len(self.bad)} passed, {len(self.bad)} failed")
        return not problems


def run(options: Options) -> Tally:
    """All seeds, or as many as ``seconds`` allow. New processes now and then: each keeps some megabytes of a seed."""
    tally = Tally(options)
    seeds = iter(range(options.first, options.last + 1))
    while not tally.unfinished:
        before = tally.seeds
        _run_some(options, tally, islice(seeds, SEEDS_PER_LIFE * options.jobs))
        if tally.seeds == before:
            break
    tally.tell_again()
    return tally


def _run_some(options: Options, tally: Tally, seeds: Iterator[int]) -> None:
    """In processes of their own."""
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.jobs, context, initializer=prepare, initargs=(options.mutant,)) as pool:
        waiting: dict[Future[Outcome], int] = {}
        try:
            while True:
                for seed in _more(tally, seeds, 2 * options.jobs - len(waiting)):
                    waiting[pool.submit(run_seed, options, seed)] = seed
                if not waiting:
                    return
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    seed = waiting.pop(future)
                    tally.add(future.result())
        except Exception as error:  # noqa: BLE001  # A child died: its seeds are unfinished.
            tally.unfinished.append(f"unfinished seeds {sorted(waiting.values())}: {type(error).__name__}: {error}")


def _more(tally: Tally, seeds: Iterator[int], count: int) -> Iterator[int]:
    """The next seeds, unless it is time to stop."""
    options = tally.options
    late = options.seconds and time.monotonic() - tally.started >= options.seconds
    if late or (options.stop_at_first and tally.bad):
        return
    for _, seed in zip(range(count), seeds, strict=False):
        yield seed
