"""``python -m tests.findings NAME TREE``: look at a checkout from outside for one finding of docs/faults.md.

``TREE`` has its own ``.venv``. Prints one sentence. 1: the defect shows. 0: it does not. ``all`` looks for each, one
after the other. No name: which there are.
"""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("[a-i][0-9]*_*.py"))


def main(words: list[str]) -> int:
    """1: the defect shows. 0: it does not. 2: used wrongly."""
    if len(words) != 2 or words[0] not in {"all", *NAMES}:
        print(__doc__, *NAMES, sep="\n")
        return 2
    tree = Path(words[1]).resolve()
    found = {name: _shows(name, tree) for name in (NAMES if words[0] == "all" else words[:1])}
    return int(any(found.values()))


def _shows(name: str, tree: Path) -> bool:
    seen = importlib.import_module(f"tests.findings.{name}").look(tree)
    print(f"{name}: {'DEFECT' if seen.defect else 'well'}: {seen.sentence}", flush=True)
    return bool(seen.defect)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
