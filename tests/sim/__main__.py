"""``python -m tests.sim --seeds 1..500``: run the simulator; see docs/simulator.md.

Rules: where production code walks a hash map, the order is part of a run. None should matter; so that a seed repeats
all the same, the program starts itself again with ``PYTHONHASHSEED=0``, unless that is set to a number.
"""

import argparse
import os
import sys

from tests.sim.mutants import MUTANTS, table
from tests.sim.runner import Options, run


def seed_range(text: str) -> tuple[int, int]:
    """``a..b``, both included; ``a..`` goes on until the time is over."""
    first, dots, last = text.partition("..")
    try:
        return int(first), int(last) if last else (int(first) + 10**6 if dots else int(first))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form a..b") from error


def main() -> int:
    """0: all is well. 1: it is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=seed_range, default=(1, 200), metavar="A..B", help="seeds, both ends included")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seconds", type=float, default=0.0, help="start no further seed after this long")
    parser.add_argument("--at-least", type=int, default=0, help="fail when fewer seeds were run")
    parser.add_argument("--size", type=int, default=0, choices=(0, 1, 3, 5), help="nodes; 0: the seed chooses")
    parser.add_argument("--faults-seconds", type=float, default=0.0, help="virtual seconds of faults; 0: the default")
    parser.add_argument("--learn", action="store_true", help="write what was seen as what later runs must see half of")
    parser.add_argument("--mutant", default="", choices=["", *sorted(MUTANTS)], help="run with a planted bug")
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="run every planted bug, or the one named, until it is caught; print a table",
    )
    arguments = parser.parse_args()
    first, last = arguments.seeds
    if arguments.mutants:
        return table(last, arguments.jobs, arguments.mutant)
    options = Options(
        first=first,
        last=last,
        jobs=arguments.jobs,
        seconds=arguments.seconds,
        at_least=arguments.at_least,
        mutant=arguments.mutant,
        size=arguments.size,
        faults_s=arguments.faults_seconds,
        learn=arguments.learn,
    )
    return 0 if run(options).summary() else 1


if __name__ == "__main__":
    if not os.environ.get("PYTHONHASHSEED", "").isdigit():
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    sys.exit(main())
