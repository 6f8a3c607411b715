"""The log of a seed once more, in a process with another hash seed: ``python -m tests.sim.replay`` (logs on stdin).

Rules: production's state machine (``ReplicatedState``) over a store in memory, entry by entry; nothing of the run but
its committed entries, and the sum of the state at each index that a node was seen at. One that differs is a
violation.

Theory: a run's nodes share one process, so they walk every set and map in one order, and agree where two machines
would not. The order of strings in a hash table changes with ``PYTHONHASHSEED``; so whatever of it reaches the state
shows here.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from quorate.consensus.ports import Index, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage_settings import EventLogSettings
from quorate.controller import ReplicatedState
from quorate.metadata.requests import RequestSettings
from quorate.metadata.sums import shown
from quorate.metrics import Metrics
from tests.sim.world import ViolationError
from tests.stand_ins import MemoryStore

ROOT = Path(__file__).resolve().parents[2]
HASH_SEEDS = ("1", "2", "3", "4242")
ANY_ORDER = "equal state whatever the order of hash tables"


class Retold(msgspec.Struct, frozen=True):
    """What a seed leaves to be told again."""

    seed: int
    requests: RequestSettings
    entries: list[tuple[int, int, bytes]]
    """Index, term and bytes of every committed entry."""
    states: dict[int, str]
    """Index → sum of the state there."""


def differs(told: Retold) -> str:
    """Where the state is another now; "" if nowhere."""
    store = MemoryStore()
    machine = ReplicatedState(store, EventLog(store, EventLogSettings()), Metrics(), told.requests)
    for index, term, entry in told.entries:
        machine.apply(Index(index), Term(term), entry)
        machine.applied()
        wanted = told.states.get(index)
        if wanted is not None and shown(machine.marked.whole) != wanted:
            return f"seed {told.seed}: the state at index {index} is another"
    return ""


def elsewhere(told: Iterable[Retold], hash_seed: str, mutant: str = "") -> list[str]:
    """Have them told again by a process with this hash seed: what differs. A process that fails is told too."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.sim.replay", mutant]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, input=msgspec.msgpack.encode(list(told)), capture_output=True, check=False
    )
    if done.returncode:
        return [f"no replay under hash seed {hash_seed}: {done.stderr.decode()[-400:]}"]
    return [f"{line} under hash seed {hash_seed}" for line in done.stdout.decode().splitlines()]


def other_hash_seed(seed: int, mutant: str) -> None:
    """One short seed here, and its log told again elsewhere. Raises ViolationError."""
    from tests.sim.simulation import Plan, Simulation

    simulation = Simulation(Plan(seed, size=3, faults_s=2.0))
    simulation.run()
    for found in elsewhere([simulation.retold()], HASH_SEEDS[seed % len(HASH_SEEDS)], mutant):
        raise ViolationError(ANY_ORDER, found)


def main() -> None:
    """Say what differs, a line each."""
    from tests.sim.mutants import MUTANTS

    if sys.argv[1]:
        MUTANTS[sys.argv[1]].apply()
    for told in msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[Retold]):
        found = differs(told)
        if found:
            print(found)


if __name__ == "__main__":
    main()
