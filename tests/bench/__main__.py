"""``make bench``: measure beside controls in the same run. Raw samples, figures and the report go to ``.run/bench``.

A measure that fails, or does not end in time, is told in the report, and the next one goes on. The report is written
anew after each. ``--beside CHECKOUT`` measures another checkout too, in turns with this one (``pairs``).
``counts --write`` only counts, and writes the table that tests compare (``tests/bench/counts.toml``).
"""

import argparse
import os
import platform
import sys
import time
from pathlib import Path

from quorate.node.build import interpreter, leaf
from tests.bench import counts
from tests.bench.apart import apart
from tests.bench.harness import Figure, Run, build_tools
from tests.bench.measures import MEASURES
from tests.bench.plots import draw
from tests.bench.report import failures, render

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 5


def main() -> int:
    """Run the chosen measures, once or more often. 1 when a figure of ours failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"default: all of {', '.join(MEASURES)}")
    parser.add_argument("--runs", type=int, default=1, help="how often; two or more are compared")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each load")
    parser.add_argument("--write", action="store_true", help="with counts alone: write its table, and do nothing else")
    parser.add_argument("--beside", metavar="CHECKOUT", default="", help="another checkout, for pairs")
    options = parser.parse_args()
    if options.write:
        if options.measures != ["counts"]:
            parser.error("--write goes with counts, and nothing else")
        counts.write(counts.whole())
        return 0
    chosen = options.measures or [name for name in MEASURES if name != "pairs" or options.beside]
    if "pairs" in chosen and not (Path(options.beside) / "services").is_dir():
        parser.error("pairs needs --beside, a checkout of the project")
    if unknown := [name for name in chosen if name not in MEASURES]:
        parser.error(f"no such measure: {', '.join(unknown)}")
    folder = ROOT / ".run" / "bench" / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    tools, began, report = build_tools(folder), time.monotonic(), folder / "report.md"
    runs: list[dict[str, Figure]] = []
    for number in range(1, options.runs + 1):
        where = folder / f"run-{number}"
        where.mkdir()
        runs.append({})
        for place, name in enumerate(chosen, start=1):
            gone = time.monotonic() - began
            print(f"[{place}/{len(chosen)}] {name} (run {number} of {options.runs}, {gone:.0f} s so far)", flush=True)
            runs[-1].update(apart(Run(where, tools, options.seconds, name, options.beside)))
            report.write_text(render(runs, _machine(options.seconds, time.monotonic() - began)))
        draw([where], where)
    print(report.read_text())
    print(f"kept in {folder.relative_to(ROOT)}")
    return int(any(failures(figures, ours_only=True) for figures in runs))


def _machine(seconds: int, took_s: float) -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, {interpreter()}, leaf {leaf()}"
        f"; loads of {seconds} s; {took_s / 60:.1f} min in all"
    )


if __name__ == "__main__":
    sys.exit(main())
