"""The tiers of checking: ``check`` (≤ 90 s), ``test`` (≤ 30 min), ``all`` (≤ 90 min); each holds the one before.

A tier is a list of steps; a step is a command with a deadline (generous: the stated times are those of a quiet machine
with two cores), and running past it is a failure. The last line counts:
every test of a pytest step, and one for each other step: ``N passed, N failed, N skipped``. Exit 0 only if nothing
failed (and, with ``QUORATE_FORBID_SKIPS=1``, nothing was skipped).

All that a run says is kept in ``.run/tiers/<tier>.log`` until the next. A tier that took longer than its stated time
says so in its last line but one; that is no failure, for machines differ.

Usage: ``tiers.py check|test|all [STEP …]`` (names narrow it to those steps).
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CLOSING = re.compile(r"\d+ [a-z]+.* in [\d.]+s\b")
"""How pytest's last line looks; what its plugins say may come after it."""
COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed)")
FAST = "not slow and not bench and not oracle"
PURE = "*/quorate/metadata/*,*/quorate/model/*,*/quorate/wire/*"
UNIT = ["tests/unit", "tests/property", "tests/model", "tests/faults"]
ROOMS = (
    "cli",
    "consensus",
    "controller",
    "demo",
    "events",
    "gateway",
    "history",
    "leaf",
    "metadata",
    "model",
    "node",
    "wire",
    "test_slices.py",
)
LOOPS = "tests/unit/consensus/test_journal_crash.py"
WHOLE_LIVES = ["tests/unit/sim", "tests/faults", LOOPS]
"""Whole lives of clusters, a crash at every byte: a third of the time of all unit tests. ``test`` has them."""
BYTES = [
    "tests/unit/events",
    "tests/unit/wire",
    *(
        f"tests/unit/consensus/test_{name}.py"
        for name in ("codec", "engine", "entry", "event_log", "journal", "snapshots")
    ),
]
"""Where bytes are made and read that the native leaf makes and reads where it was built: the same holds without it."""
MEASURED = [*(f"tests/unit/{room}" for room in ROOMS), "tests/property", f"--ignore={LOOPS}"]
"""What the floors count: tests about the rooms of ``quorate``. The others (simulator, model, views, Spark, the page, a
crash at every byte) go through the same code in loops that measuring makes three to five times as long, and not to
cover it: they would only flatter the figure.
"""
UNMEASURED = [
    *sorted(f"tests/unit/{path.name}" for path in (ROOT / "tests/unit").glob("[!_.]*") if path.name not in ROOMS),
    "tests/model",
    "tests/faults",
    LOOPS,
]
"""All the rest of ``UNIT``, whatever is added to it."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Spark in tests: compiling thoroughly, as suits a JVM that lives for days, is half of what it does in a minute."""
STATED_S = {"check": 90, "test": 1800, "all": 5400}
"""What a tier may take on a quiet machine with two cores, after set-up."""
KEPT = ROOT / ".run" / "tiers"
GRACE_S = 45
"""For an interrupted step to end its processes."""
PROCESSES = ["tests/integration", "tests/contract", "tests/etcd"]
STOCK = [f"tests/{room}" for room in ("kafka_tools", "clients", "mirror", "projections", "mqtt")]
TWO = ("-n", "2", "--dist", "loadfile")
"""For files of tests that wait more than they work: two of them at a time."""
FOUR = ("-n", "4", "--dist", "worksteal")
"""For thousands of short tests, of which some wait: four at a time, on two cores."""
BY_THE_CLOCK = [
    "tests/integration/test_demo.py",
    "tests/integration/test_review_node.py",
    "tests/contract/test_leadership.py",
]
"""What would take a neighbour's load for a fault: no leader may change without one, no answer may come late."""


@dataclass(frozen=True)
class Step:
    """One command; ``tests`` says that it is pytest and its closing line counts."""

    name: str
    command: list[str]
    budget_s: int
    tests: bool = False
    env: dict[str, str] = field(default_factory=dict)


@dataclass
class Tally:
    """What happened so far."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


def tool(name: str, *arguments: str) -> list[str]:
    """A program of the environment."""
    return [str(BIN / name), *arguments]


def module(name: str, *arguments: str) -> list[str]:
    """A module run by this interpreter."""
    return [sys.executable, "-m", name, *arguments]


def pytest(name: str, budget_s: int, paths: list[str], *arguments: str, marks: str = FAST, **env: str) -> Step:
    """A run of pytest over paths."""
    return Step(name, module("pytest", "-q", "-m", marks, *arguments, *paths), budget_s, tests=True, env=env)


def check() -> list[Step]:
    """Static checks, unit and property tests."""
    return [
        Step("ruff", tool("ruff", "check", "."), 60),
        Step("format", tool("ruff", "format", "--check", "."), 60),
        Step("imports", tool("lint-imports", "--no-logo"), 90),
        Step("generated code", module("quorate.events.generate", "--check"), 60),
        Step("generated messages", module("quorate.gateway.grpc.generate", "--check"), 60),
        Step("schema compatibility", module("quorate.events.compat"), 60),
        Step("spelling", tool("codespell", "."), 60),
        Step("pyproject", tool("validate-pyproject", "pyproject.toml"), 60),
        Step("types", tool("mypy"), 240),
        pytest("unit and property tests", 240, UNIT, *FOUR, *(f"--ignore={path}" for path in WHOLE_LIVES)),
    ]


def sim(name: str, seeds: str, budget_s: int, *arguments: str) -> Step:
    """A run of the simulator."""
    return Step(name, module("tests.sim", "--seeds", seeds, "--jobs", "2", *arguments), budget_s)


def test() -> list[Step]:
    """What must be green before a change lands."""
    return [
        *check()[:-1],  # The unit and property tests run once: in two parts, of which one is measured.
        Step("no coverage yet", tool("coverage", "erase"), 60),
        Step(
            "unit and property tests, measured",
            module("coverage", "run", "-m", "pytest", "-q", "-n", "2", "-m", FAST, *MEASURED),
            900,
            tests=True,
        ),
        pytest("unit and model tests, unmeasured", 600, UNMEASURED, "-n", "2"),
        Step("coverage of both workers", tool("coverage", "combine", "--quiet"), 60),
        Step("coverage floor", tool("coverage", "report", "--format=total", "--fail-under=90"), 30),
        Step("coverage of the pure rooms", tool("coverage", "report", f"--include={PURE}", "--fail-under=100"), 30),
        Step("the wheel, installed alone", [sys.executable, ".ci/wheel.py"], 400),
        pytest(
            "integration",
            1200,
            PROCESSES,
            *TWO,
            *(f"--ignore={path}" for path in BY_THE_CLOCK),
            JAVA_TOOL_OPTIONS=SHORT_LIVED,
        ),
        pytest("integration, by the clock", 600, BY_THE_CLOCK),
        pytest("kills", 900, ["tests/kills", "tests/linearizability"]),
        sim("simulator", "1..4000", 240, "--seconds", "120", "--at-least", "70"),
        pytest("stock tools and clients, views, a mirror", 1200, STOCK, *TWO),
        pytest("stock rocketmq brokers", 900, ["tests/rocketmq"]),
        pytest("spark", 900, ["tests/spark"], *TWO, JAVA_TOOL_OPTIONS=SHORT_LIVED),
        pytest("the page, and its data", 900, ["tests/browser", "tests/dashboard"], *TWO),
        pytest("every reader against a replay", 900, ["tests/equality"], JAVA_TOOL_OPTIONS=SHORT_LIVED),
    ]


def at_length() -> list[Step]:
    """What is marked slow or oracle, by rooms. Those that wait more than they work go two at a time."""
    marks = "(slow or oracle) and not bench"
    waiting = ["contract", "etcd", "kafka_tools", "clients", "faults", "kills", "linearizability", "projections"]
    return [
        pytest("integration, at length", 1200, ["tests/integration"], marks=marks),
        pytest(
            "oracles, kills, histories and damage, at length",
            2400,
            [f"tests/{room}" for room in waiting],
            *TWO,
            marks=marks,
        ),
        pytest("spark, at length", 1200, ["tests/spark"], marks=marks, JAVA_TOOL_OPTIONS=SHORT_LIVED),
        pytest("every reader, at length", 1200, ["tests/equality"], marks=marks, JAVA_TOOL_OPTIONS=SHORT_LIVED),
        pytest("every picture of the page", 300, ["tests/browser"], marks=marks),
    ]


def everything() -> list[Step]:
    """Oracles, long loops, all seeds, fuzzing. What a longer run below holds too is left out of ``test``."""
    held = {"simulator", "every reader against a replay"}
    return [
        *(step for step in test() if step.name not in held),
        pytest("without the native leaf", 300, BYTES, "-n", "2", QUORATE_PURE="1"),
        pytest("laws, at length", 900, ["tests/property", "tests/model"], "-n", "2", QUORATE_HYPOTHESIS="all"),
        *at_length(),
        sim("simulator, all seeds", "1..2000", 2700),
        Step("mutants", module("tests.sim", "--mutants", "--seeds", "1..400"), 1500),
        Step("fuzzers", [sys.executable, "tests/fuzz/all.py", "--seconds", "60"], 600),
    ]


def end(process: subprocess.Popen[str]) -> None:
    """Let a step end what it started (pytest takes down its fixtures); what has not ended after a while is killed."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def run(step: Step, say: Callable[[str], None]) -> tuple[int, str]:
    """Run one step, passing its output on; its status and pytest's closing line. Ends it when its budget is spent."""
    process = subprocess.Popen(
        step.command,
        cwd=ROOT,
        env=os.environ | step.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None

    def over() -> None:
        print(f"{step.name}: over its budget of {step.budget_s} s", file=sys.stderr, flush=True)
        end(process)

    timer = threading.Timer(step.budget_s, over)
    timer.start()
    lines: list[str] = []
    try:
        for line in process.stdout:
            say(line)
            lines.append(line)
        return process.wait(), next(filter(CLOSING.search, reversed(lines)), "")
    except KeyboardInterrupt:
        end(process)
        raise
    finally:
        timer.cancel()


def count(step: Step, status: int, closing: str, tally: Tally) -> None:
    """Add a finished step to the tally."""
    found = {word.rstrip("s") if word.startswith("error") else word: int(n) for n, word in COUNT.findall(closing)}
    if step.tests:
        tally.passed += found.get("passed", 0) + found.get("xfailed", 0)
        tally.skipped += found.get("skipped", 0)
        failed = found.get("failed", 0) + found.get("error", 0) + found.get("xpassed", 0)
        tally.failed += max(failed, int(status != 0))  # Also 5: a step that found no test is no check.
    elif status == 0:
        tally.passed += 1
    else:
        tally.failed += 1


def run_all(tier: str, steps: list[Step], say: Callable[[str], None]) -> Tally:
    """Run the steps one after the other, and say how each ended, and all of them."""
    tally, troubled, started = Tally(), list[str](), time.monotonic()
    for step in steps:
        say(f"── {step.name}\n")
        began, failed_before = time.monotonic(), tally.failed
        status, closing = run(step, say)
        count(step, status, closing, tally)
        if tally.failed > failed_before:
            troubled.append(step.name)
        say(f"── {step.name}: {'failed' if step.name in troubled else 'ok'} in {time.monotonic() - began:.1f} s\n")
    took_s = time.monotonic() - started
    longer = f", longer than the {STATED_S[tier]} s of a quiet machine" if took_s > STATED_S[tier] else ""
    say(f"{tier}: {took_s:.0f} s{longer}" + (f"; failed: {', '.join(troubled)}" if troubled else "") + "\n")
    say(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped\n")
    return tally


def main(arguments: list[str]) -> int:
    """Run a tier; the status is what ``make`` reports."""
    tiers = {"check": check, "test": test, "all": everything}
    if not arguments or arguments[0] not in tiers:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # As Ctrl-C: what runs is ended, not left behind.
    steps = [step for step in tiers[arguments[0]]() if not arguments[1:] or step.name in arguments[1:]]
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{arguments[0]}.log").open("w") as kept:

        def say(line: str) -> None:
            print(line, end="", flush=True)
            kept.write(line)
            kept.flush()

        tally = run_all(arguments[0], steps, say)
    skips_count = os.environ.get("QUORATE_FORBID_SKIPS") == "1" and tally.skipped
    return 1 if tally.failed or skips_count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
