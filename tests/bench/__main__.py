"""``make bench``: measure beside controls in the same run. Raw samples, figures and the report go to ``.run/bench``."""

import argparse
import os
import platform
import time
from pathlib import Path

from tests.bench.harness import Run, build_tools
from tests.bench.measures import MEASURES
from tests.bench.report import render

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Run the chosen measurements, once or more often."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], help="default: all")
    parser.add_argument("--runs", type=int, default=1, help="how often; two or more are compared")
    parser.add_argument("--seconds", type=int, default=8, help="of each load")
    options = parser.parse_args()
    folder = ROOT / ".run" / "bench" / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    tools = build_tools(folder)
    runs = []
    for number in range(1, options.runs + 1):
        run = Run(folder / f"run-{number}", tools, options.seconds)
        run.folder.mkdir()
        for name in options.measures or MEASURES:
            print(f"{name} (run {number})", flush=True)
            MEASURES[name](run)
        runs.append(run.figures)
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    )
    report = folder / "report.md"
    report.write_text(render(runs, machine))
    print(report.read_text())
    print(f"kept in {folder.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
