"""A measure in a process of its own: what it leaves behind, or does to itself, is no other measure's trouble."""

import json
import multiprocessing
import signal
import sys
import time
from contextlib import suppress

import psutil

from tests.bench.harness import Figure, Run, deadline, reason
from tests.bench.measures import MEASURES

MEASURE_MAX_S = 300.0
"""What one measure may take; the longest takes a third of it."""
ENDING_S = 60.0
"""What it may take to clean up after that."""


def apart(run: Run) -> dict[str, Figure]:
    """One measure, in a process of its own; its figures, and how long it took as a whole."""
    began, process = time.monotonic(), multiprocessing.get_context("spawn").Process(target=_measure, args=(run,))
    process.start()
    process.join(MEASURE_MAX_S + ENDING_S)
    if process.is_alive():
        _kill([psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)])
        process.join()
    kept = run.folder / f"figures-{run.measure}.json"
    figures: dict[str, Figure] = json.loads(kept.read_text()) if kept.exists() else {}
    whole: Figure = {"took_s": round(time.monotonic() - began, 1)}
    if whole["took_s"] > MEASURE_MAX_S:
        whole["failed"] = f"not done within {MEASURE_MAX_S:.0f} s"
    elif process.exitcode and not any("failed" in figure for figure in figures.values()):
        whole["failed"] = f"its process ended with {process.exitcode}"
    figures[f"measure {run.measure}"] = figures.get(f"measure {run.measure}", {}) | whole
    return figures


def _measure(run: Run) -> None:
    """In that process. Whatever the measure started is gone afterwards."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with deadline(MEASURE_MAX_S):
            MEASURES[run.measure](run)
    except BaseException as error:  # noqa: BLE001 - to be told in the report
        run.keep(f"measure {run.measure}", {"failed": reason(error)})
    finally:
        _kill(psutil.Process().children(recursive=True))


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
