"""``pip install`` of locked requirement files, with progress: ``install.py -r FILE …``. Errors are pip's own."""

import os
import re
import subprocess
import sys
from pathlib import Path

PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off")
LOCKED = ("--no-build-isolation", "--require-hashes")
PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==", re.MULTILINE)
EVERY = 20
"""Without a terminal one line for so many packages."""


def main(words: list[str]) -> int:
    """Install; pip's exit status."""
    files = [Path(word) for word in words if not word.startswith("-")]
    names = {name.lower() for file in files for name in PACKAGE.findall(file.read_text())}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*PIP, *LOCKED, *words], stdout=subprocess.PIPE, text=True, env=environment) as pip:
        seen = 0
        for line in pip.stdout or ():
            if line.startswith("Collecting "):
                seen += 1
                tell(f"setup: {seen} of {len(names)} packages: {line.split()[1]}", always=seen % EVERY == 0)
            elif line.startswith("Installing collected packages"):
                tell(f"setup: putting {line.count(',') + 1} packages in place", always=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    return pip.returncode


def tell(text: str, *, always: bool) -> None:
    """On a terminal over the line before; elsewhere only now and then."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)
    elif always:
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
