"""The log as ``kcat`` reads it, with nothing of ours in between: offsets, and the keys of the records."""

import subprocess
from typing import Final

from tests.peers import peer

TOPIC: Final = "quorate.metadata.events"


def keys(bootstrap: str) -> dict[int, str]:
    """By offset, to the end there is now; without kcat the test is skipped by its name."""
    command = [str(peer("kcat") / "kcat"), "-q", "-C", "-b", bootstrap, "-t", TOPIC, "-p", "0", "-o", "beginning", "-e"]
    done = subprocess.run([*command, "-f", "%o %k\\n"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = (line.split(" ", 1) for line in done.stdout.splitlines())
    return {int(offset): key for offset, key in found}
