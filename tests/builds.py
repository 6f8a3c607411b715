"""Another build of the product, made here: a copy of the package with other schemas, generated, and edits of its code.

Started with ``PYTHONPATH`` at its folder, everything else as the build under test.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import quorate as package

BUILT = Path(package.__path__[0])
SCHEMAS = BUILT.parents[1] / "schemas"


def other_build(folder: Path, schemas: Mapping[str, str], changes: Mapping[str, Sequence[tuple[str, str]]]) -> Path:
    """What PYTHONPATH must begin with. ``schemas``: event → its text; ``changes``: file of the package → what stands in
    it, and what takes its place.
    """
    shutil.copytree(BUILT, folder / "quorate", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(SCHEMAS, folder / "schemas")
    for name, text in schemas.items():
        (folder / "schemas" / f"{name}.avsc").write_text(text)
    for name, edits in changes.items():
        file = folder / "quorate" / name
        text = file.read_text()
        for old, new in edits:
            assert old in text, f"{name} has changed: {old}"
            text = text.replace(old, new)
        file.write_text(text)
    generate = [sys.executable, "-m", "quorate.events.generate", "--schemas", str(folder / "schemas")]
    subprocess.run(generate, env={**os.environ, "PYTHONPATH": str(folder)}, check=True, timeout=60, cwd=folder)
    return folder
