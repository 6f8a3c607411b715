"""The committed table of what an operation costs (``counts.toml``), and what a run says against it.

``python -m tests.bench counts --write`` writes it anew; ``tests/integration/test_counts.py`` compares. A column is the
same in every run of the same code and the same version of Python, so a tenth is a change of the code. Steps are those
of one version of Python, and are compared only there; calls are compared everywhere. Counted twice: with the Python
functions alone, and (what needs no thousands of sets) with the native leaf, which is compiled for it.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from quorate.leaf import PURE
from tests.bench.counted import Counts, Table, grown, operations
from tests.bench.counted_members import member_beats

TABLE = Path(__file__).with_name("counts.toml")
ROOT = Path(__file__).resolve().parents[2]
WRITE = "python -m tests.bench counts --write"
Build = Literal["operations", "native"]
SIZES = (100, 2000)
TOLERANCE = 0.10
SLACK = 0.012
"""Of a column that is next to nothing: one for every 80 operations."""
SLACK_OF_TIMERS = 0.06
"""Few are armed for an operation, many by themselves: what those would have done meanwhile is an estimate."""
COLUMNS = Counts.__struct_fields__
MEMBERS = "members "
DEADLINE_S = 300
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
HEAD = f"""\
# What one operation costs a node, counted in one process and in virtual time (tests/bench/counted.py): calls of Python
# functions, calls of built-in ones, and bytecodes; turns of the loop, what it found ready, sends, writes and syncs of
# files, and timers. Written by: {WRITE}
# [operations]: with the Python functions alone (QUORATE_PURE=1). [native]: with the native leaf, whose work is no step.
python = "{VERSION}"
"""
NATIVE = "from quorate import leaf\nfrom tests.unit.leaf.kit import compiled\nleaf._library = compiled()\n"
"""Said first in the process that counts, before anything asks for a native function."""


def counted(*names: str, first: str = "") -> Table:
    """Count in a process of its own, with a fixed hash seed: ``operations``, ``commit``, a number of broker sets, or
    ``members`` and a number of them.
    ``first`` is done before, in that process.
    """
    code = f"{first}\nfrom tests.bench.counts import tell\ntell({names!r})"
    environment = os.environ | {"PYTHONHASHSEED": "0", PURE: "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"counting ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return msgspec.convert(json.loads(done.stdout), Table)


def tell(names: tuple[str, ...]) -> None:
    """In that process."""
    table: Table = {}
    for name in names:
        if name.startswith(MEMBERS):
            table |= member_beats(int(name.removeprefix(MEMBERS)))
        else:
            table |= grown(int(name)) if name.isdecimal() else operations(only_alone=name == "commit")
    print(msgspec.json.encode(table).decode())


def whole() -> dict[Build, Table]:
    """All that the committed table holds."""
    return {
        "operations": counted("operations") | counted(*map(str, SIZES)),
        "native": counted("operations", first=NATIVE),
    }


def committed(build: Build = "operations") -> tuple[str, Table]:
    """The version of Python whose steps it holds, and the table of a build."""
    known = tomllib.loads(TABLE.read_text())
    return known.pop("python"), msgspec.convert(known.pop(build), Table)


def write(tables: dict[Build, Table]) -> None:
    """Make them the committed ones."""
    parts = [HEAD]
    for build, table in tables.items():
        rows = "".join(
            f'"{name}" = {{ {", ".join(f"{column} = {_shown(getattr(row, column))}" for column in COLUMNS)} }}\n'
            for name, row in table.items()
        )
        parts.append(f"[{build}]\n{rows}")
    TABLE.write_text("\n".join(parts))


def _shown(number: float) -> str:
    digits = 1 if abs(number) >= 10 else 2 if abs(number) >= 1 else 3
    return f"{round(number, digits) + 0.0:.{digits}f}"  # Nothing has no sign.


def differences(known: Table, found: Table, version: str = VERSION) -> list[str]:
    """What became dearer or cheaper by more than a tenth, is no longer counted, or is not in the table."""
    columns = tuple(column for column in COLUMNS if column != "steps" or version == VERSION)
    told = [f"{name}: not in the table" for name in found if name not in known]
    for name, row in known.items():
        if name not in found:
            told.append(f"{name}: no longer counted")
            continue
        for column in columns:
            was, is_now = getattr(row, column), getattr(found[name], column)
            if abs(is_now - was) > max(TOLERANCE * abs(was), SLACK_OF_TIMERS if column == "timers" else SLACK):
                word = "dearer" if is_now > was else "cheaper"
                share = (is_now - was) / max(abs(was), SLACK)
                told.append(f"{name}: {word}: {column} {_shown(was)} → {_shown(is_now)} ({share:+.0%})")
    return told


def advice(told: list[str]) -> str:
    """What a failed comparison says."""
    return "\n".join([*told, f"If that is what the change means to do, write the table anew, and commit it: {WRITE}"])


__all__ = ["COLUMNS", "Counts", "advice", "committed", "counted", "differences", "whole", "write"]
