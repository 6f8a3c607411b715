"""A projection worker as its user starts it: ``quorate projections serve`` as a process, asked over HTTP."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.clusters import free_ports, until

SERVE = (sys.executable, "-m", "quorate", "projections", "serve")
FAULTY = (sys.executable, str(Path(__file__).with_name("faulty.py")))


@dataclass
class Worker:
    """One worker; started again it has the same port and data directory."""

    source: dict[str, str]
    """``nodes`` or ``mirror``, and other flags."""
    folder: Path
    command: tuple[str, ...] = SERVE
    environ: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1))
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def stderr(self) -> Path:
        """Where it says what troubles it."""
        return self.folder.with_name(self.folder.name + ".stderr")

    def start(self) -> "Worker":
        """Start it; it may not serve yet."""
        flags = {"data-dir": str(self.folder), "port": str(self.port), "audit-period-s": "0.3", **self.source}
        words = [word for name, value in flags.items() for word in (f"--{name}", value)]
        with self.stderr.open("ab") as errors:
            self.process = subprocess.Popen(
                [*self.command, *words], stdout=subprocess.DEVNULL, stderr=errors, env=os.environ | self.environ
            )
        return self

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def ask(self, path: str, **query: object) -> tuple[int, dict[str, Any]]:
        """(status, answer). Raises OSError while it does not serve."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path + (f"?{urlencode(query)}" if query else ""))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()

    def row(self, view: str, key: str, **query: object) -> dict[str, Any]:
        """A row."""
        status, answer = self.ask(f"/views/{view}/{quote(key, safe='')}", **query)
        assert status == 200, answer
        return answer

    def health(self) -> dict[str, Any]:
        """What ``/ready`` says; empty while nobody answers."""
        try:
            return self.ask("/ready")[1]
        except OSError:
            return {}

    def wait(self, timeout_s: float = 60, **wanted: object) -> dict[str, Any]:
        """Until ``/ready`` says these things (ready=True, offset=…); what it says then."""
        found: dict[str, Any] = {}

        def there() -> bool:
            found.clear()
            found.update(self.health())
            assert self.process is None or self.process.poll() is None, self.stderr.read_text()
            return bool(found) and all(found[name] == value for name, value in wanted.items())

        try:
            until(there, f"{wanted}", timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {found}\n{self.stderr.read_text()[-2000:]}") from None
        return found


@contextmanager
def workers(*all_of_them: Worker) -> Iterator[None]:
    """Start them; end them afterwards, whatever happened."""
    try:
        for worker in all_of_them:
            worker.start()
        yield
    finally:
        for worker in all_of_them:
            if worker.process is not None and worker.process.poll() is None:
                worker.kill()


def pause(seconds: float) -> None:
    """Let the world go on a little."""
    time.sleep(seconds)
