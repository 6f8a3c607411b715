"""``python -m tests.findings.rows TREE [WORD]``: run the tests that docs/faults.md names on the sources of a checkout.

For each row of the record (or those that hold ``WORD``): how many of its tests fail there. The tests are this
checkout's, ``quorate``, ``quorate_projections`` and ``quorate_spark`` those of ``TREE``. A test that needs a name which
the tree has not fails too; a file that cannot be read there is told as such. Left out: tests that are slow, or measure,
and a browser's.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"((?:[\w-]+/)+test_\w+\.py)?(?:::(test_\w+))?")
OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) (?:\S+?\.py)(?:::(test_\w+))?", re.MULTILINE)
EACH_S, FILE_S = 30, 600
SOON = "not slow and not oracle and not bench"
AT_ONCE = 2


def rows(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each finding, and the tests of its row: a file and a name, or a file and ``""`` for all that are in it."""
    for line in text.splitlines():
        if not line.startswith("| ") or "/test_" not in line:
            continue
        named, file = list[tuple[str, str]](), ""
        for path, test in NAMED.findall(line):
            file = path or file
            if path and not test:
                named.append((path, ""))
            elif file and test:
                named.append((file, test))
        yield line.split(" | ")[0].removeprefix("| "), named


def outcomes(file: str, tree: Path) -> dict[str, bool]:
    """By name: did the test pass there? Empty: none could be run."""
    sources = os.pathsep.join(str(tree / room) for room in ("services", "projections", "spark"))
    words = [
        "-q",
        "-rA",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        f"--timeout={EACH_S}",
        "-m",
        "not slow and not oracle and not bench",
    ]
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *words, file],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": sources},
            capture_output=True,
            text=True,
            timeout=FILE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}
    found = dict[str, bool]()
    for outcome, test in OUTCOME.findall(ran.stdout):
        if test:
            found[test] = found.get(test, True) and outcome == "PASSED"
    return found


def main(words: list[str]) -> int:
    """0: told. 2: used wrongly."""
    if len(words) not in {1, 2} or not (Path(words[0]) / "services").is_dir():
        print(__doc__)
        return 2
    tree, word = Path(words[0]).resolve(), words[1] if len(words) == 2 else ""
    chosen = [row for row in rows((ROOT / "docs/faults.md").read_text()) if word in row[0]]
    files = sorted({file for _, named in chosen for file, _ in named if "browser/" not in file})
    with ThreadPoolExecutor(AT_ONCE) as at_once:
        became = dict(zip(files, at_once.map(lambda file: outcomes(file, tree), files), strict=True))
    for finding, named in chosen:
        print(f"{sentence(named, became)}: {finding}")
    return 0


def sentence(named: list[tuple[str, str]], became: dict[str, dict[str, bool]]) -> str:
    """How many fail, of those that could be run."""
    ran = [passed for file, test in named for name, passed in became.get(file, {}).items() if test in {"", name}]
    return f"{ran.count(False)} of {len(ran)} fail" if ran else "not run"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
