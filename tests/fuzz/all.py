"""All fuzzers, two at a time: each is one process on one core.

What one says is printed when it ends, with how it ended. Exit status 0 only if all of them found nothing.

Usage: ``all.py [--seconds N] [--jobs N]``.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).parent
MARGIN_S = 60
"""For one that takes longer than it was told to: starting, and its last input."""


def run(fuzzer: Path, seconds: int) -> bool:
    """Did it end in time, with nothing found?"""
    command = [sys.executable, str(fuzzer), "--seconds", str(seconds)]
    try:
        ended = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds + MARGIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said, word = (late.output or b"").decode(errors="replace"), f"killed after {late.timeout:.0f} s"
    else:
        said, word = ended.stdout, "ok" if ended.returncode == 0 else f"failed, status {ended.returncode}"
    print(f"{said}── {fuzzer.stem}: {word}", flush=True)
    return word == "ok"


def main() -> int:
    """The status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    fuzzers = sorted(FOLDER.glob("fuzz_*.py"))
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda fuzzer: run(fuzzer, options.seconds), fuzzers))
    print(f"{len(found)} fuzzers, {found.count(False)} failed")
    return 0 if found and all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
