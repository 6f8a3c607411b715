"""Programs that use etcd's stock clients, each a process that tells what it did as lines of JSON.

Rules: ``{"at": "half"}`` says that trouble may begin; the program goes on until its standard input ends, which says
that trouble is over, and then does its other half; its last line is ``{"at": "done"}`` and its status 0. Anything else
is what the client, or we, did not keep.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.clusters import until

PATIENCE_S = 100.0
"""Longer than a program's own."""


def python(packages: Path) -> Sequence[str]:
    """A Python that has these packages and none of ours."""
    return ("env", f"PYTHONPATH={packages}", sys.executable)


class Driver:
    """One of them, at work."""

    def __init__(self, command: Sequence[str], stderr: Path) -> None:
        self.name = " ".join(command)
        self.told: list[dict[str, Any]] = []
        self._stderr = stderr
        with stderr.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.append(json.loads(line))

    def at(self, where: str) -> list[dict[str, Any]]:
        """Its lines of this kind."""
        return [line for line in list(self.told) if line["at"] == where]

    def is_half_done(self) -> bool:
        """May trouble begin? True also of a program that ended: ``finish`` says why."""
        return bool(self.at("half")) or self._process.poll() is not None

    def go_on(self) -> None:
        """Trouble is over."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def finish(self) -> None:
        """Wait for its end, which is the right one."""
        self._process.wait(PATIENCE_S)
        self._thread.join(10)
        end = self.told[-1:], self._process.returncode
        assert end == ([{"at": "done"}], 0), (self.name, self.told[-5:], self._stderr.read_text()[-8000:])

    def kill(self) -> None:
        """Whatever it does."""
        self._process.kill()
        self._process.wait(10)
        self._thread.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def driven(commands: dict[str, Sequence[str]], folder: Path) -> Iterator[dict[str, Driver]]:
    """All of them at once, by name, each half done; none is left."""
    with ExitStack() as stack:
        found: dict[str, Driver] = {}
        for name, command in commands.items():
            found[name] = Driver(command, folder / f"{name}.stderr")
            stack.callback(found[name].kill)
        until(lambda: all(driver.is_half_done() for driver in found.values()), "half of the work", PATIENCE_S)
        yield found
        for driver in found.values():
            driver.finish()
