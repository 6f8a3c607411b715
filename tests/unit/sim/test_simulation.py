"""The simulator as a whole: the same on every run, quiet on sound code, loud on planted bugs."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import msgspec
import pytest

from tests.sim.faults import WEIGHTS
from tests.sim.minima import Expected, Learned
from tests.sim.mutants import MUTANTS
from tests.sim.planted import EDITED, check
from tests.sim.replay import elsewhere
from tests.sim.runner import Options, Outcome, Tally, plan_for, prepare, run_seed
from tests.sim.scripted import clip_term, play, stale_decision, stale_entries
from tests.sim.simulation import Plan, Simulation

ROOT = Path(__file__).resolve().parents[3]
ONE = Options(first=1, last=1, faults_s=1.5)


def trace(seeds: str, hash_seed: str) -> str:
    """The line with the digest of these seeds, from a process started with another order of sets."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'services'}"}
    command = [sys.executable, "-m", "tests.sim", "--seeds", seeds, "--jobs", "1"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("trace: ")]
    return line


def test_a_seed_is_the_same_run_everywhere() -> None:
    """Two processes started with different hash seeds agree on every event of some runs. In these a new leader goes
    over the broker sets, and which it takes first is seen in all that follows.
    """
    assert trace("7..11", "0") == trace("7..11", "1") != trace("7..7", "0")


def test_watches_are_the_same_everywhere() -> None:
    """As above, where keys are watched."""
    assert trace("13..13", "0") == trace("13..13", "1")


def test_other_seeds_are_other_runs() -> None:
    """Seeds differ."""
    traces = {Simulation(Plan(seed, size=3, faults_s=0.5)).run().trace for seed in range(5, 9)}
    assert len(traces) == 4


def caught(mutant: str, seeds: range) -> set[str]:
    """The invariants by which a mutant is caught on these seeds, in a child of its own."""
    options = Options(first=seeds.start, last=seeds.stop, mutant=mutant)
    with get_context("fork").Pool(1, prepare, (mutant,)) as pool:
        outcomes = pool.starmap(run_seed, [(options, seed) for seed in seeds])
    return {outcome.invariant for outcome in outcomes if outcome.invariant}


@pytest.mark.parametrize(
    ("mutant", "invariant"),
    [
        ("non-durable vote", "no vote leaves before it is on disk"),
        ("non-durable ack", "every ack is true on its own disk"),
        ("answer before commit", "no answer before its commit"),
        ("lost request table", "the sums carried along are those of the rows"),
        ("snapshot without requests", "equal state, requests and groups at equal index"),
        ("evolve by chance", "equal state at equal offset"),
    ],
)
def test_planted_bugs_are_caught_by_name(mutant: str, invariant: str) -> None:
    """A bug that shows within a few seeds is caught, and by the invariant that states what it breaks."""
    assert invariant in caught(mutant, range(1, 9))


@pytest.mark.parametrize("script", [clip_term, stale_decision, stale_entries])
def test_sound_code_passes_the_scripts(script: Callable[[int], None]) -> None:
    """A scripted schedule reaches its stage and breaks nothing."""
    assert play(script) > 0


def test_figure_8_through_the_clip_catches_the_clip_without_term() -> None:
    """Without its term test the clip commits an entry that another leader then lacks."""
    assert "leader completeness" in caught("clip without term", range(1, 13))


def test_decisions_of_a_lost_leadership_are_caught() -> None:
    """An entry decided in one term and executed in another is not the one that was to be executed at its offset."""
    assert "one event log, byte for byte" in caught("stale term at apply", range(1, 13))


def test_entries_of_an_earlier_leadership_are_caught() -> None:
    """A follower refuses a frame with what its leader wrote in another term: an honest one sends none such."""
    assert "no exception" in caught("old entries sent", range(1, 13))


def test_every_mutant_says_what_is_wrong() -> None:
    """The table in the docs has a row for each."""
    page = (ROOT / "docs" / "simulator.md").read_text()
    assert [name for name in MUTANTS if f"| {name} |" not in page] == []


def test_too_little_seen_fails_a_run() -> None:
    """A run that passes every seed but saw no elections is not a pass, nor one in which no read met a pause."""
    tally = Tally(Options(first=1, last=2_000, quiet=True))
    counts = dict.fromkeys(Expected.read().names() - {"read under pause"}, 1_000) | {"elections": 0}
    for seed in range(1, 2_001):
        tally.add(Outcome(seed, 3, counts=counts, met={("pause", "read"): 0}))
    assert [short.partition(" 0 < ")[0] for short in tally.shortfalls()] == ["elections", "read under pause"]
    assert not tally.summary()


def test_what_is_seldom_may_be_missing_from_few_seeds_and_not_from_many() -> None:
    """Half of the average is due, less than that where five standard deviations go further: few seeds, or clumps."""
    expected = Expected({"seldom": (12, 1.0), "in clumps": (400, 20.0), "often": (4_000, 1.0)})
    assert [expected.due("seldom", seeds) for seeds in (100, 2_000)] == [0, 120]
    assert [expected.due("in clumps", seeds) for seeds in (100, 2_000)] == [0, 4_000]
    assert [expected.due("often", seeds) for seeds in (100, 2_000)] == [2_000, 40_000]


def test_every_fault_must_meet_requests() -> None:
    """No kind of fault is left out of what a run must have seen, nor are the requests of a new one."""
    must = {f"{request} under {fault}" for fault in WEIGHTS for request in ("config", "read", "topic")}
    assert must - Expected.read().names() == set()


def test_a_run_learns_what_the_next_must_see() -> None:
    """What was seen often enough is written with its average and its clump, and read back as it was."""
    learned = Learned()
    for seed in range(400):
        learned.add({"steady": 2, "clumped": 8 * (seed % 4 == 0), "once": int(seed == 0)})
    expected = Expected.parse(learned.text())
    assert expected.names() == {"steady", "clumped"}
    assert [expected.due(name, 2_000) for name in ("steady", "clumped")] == [2_000, 2_000]
    assert 'clumped" = [200.0, 6.0]' in learned.text()


def test_a_state_that_depends_on_the_order_of_a_hash_table_is_found() -> None:
    """A log told again under another hash seed gives the same states; one sum changed, and it is said where."""
    simulation = Simulation(Plan(3, size=3, faults_s=0.5))
    simulation.run()
    told = simulation.retold()
    last = max(told.states)
    assert elsewhere([told], "7") == []
    wrong = msgspec.structs.replace(told, states=told.states | {last: "another"})
    assert elsewhere([wrong], "7") == [f"seed 3: the state at index {last} is another under hash seed 7"]


def test_a_core_lives_alone_while_the_rest_stays_hurt() -> None:
    """In some seeds a majority answers every client before anybody else is mended, however these are hurt."""
    counts = Counter[str]()
    for seed in range(40, 80):
        counts.update(Simulation(Plan(seed, size=3, faults_s=1.0)).run().counts)
    left = {name for name in counts if name.startswith("left ")}
    assert counts["lives of a core alone"] >= 8
    assert "left dead" in left and 3 <= len(left) <= 5


def test_an_exception_of_the_code_under_test_is_a_finding() -> None:
    """Whatever is raised inside a seed becomes a bad outcome, never a skipped seed."""
    broken = Options(first=1, last=1, size=-1)
    outcome = run_seed(broken, 1)
    assert outcome.invariant == "no exception"
    assert plan_for(ONE, 7) == Plan(7, faults_s=1.5)


def test_every_planted_line_is_still_there() -> None:
    """A mutant whose text production does not have any more plants nothing, and would be said to live."""
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        assert [said for said in pool.map(check, EDITED, chunksize=1) if said] == []


def test_at_least_forty_five_bugs_are_planted() -> None:
    """And whoever is caught by a unit test names one that exists."""
    assert len(MUTANTS) >= 45
    files = {ROOT / mutant.test.partition("::")[0] for mutant in MUTANTS.values() if mutant.test}
    assert [path for path in files if not path.exists()] == []
