"""A PostgreSQL server of the test's own, on loopback, with a database per caller."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.clusters import END_TIMEOUT_S, free_ports, until
from tests.peers import peer


def account(home: Path, folder: Path) -> dict[str, Any]:
    """How ``subprocess`` runs its programs in a folder: with the libraries they bring, and never as root."""
    libraries = home / "libraries"
    more = {"LD_LIBRARY_PATH": libraries.read_text().strip()} if libraries.exists() else {}
    found: dict[str, Any] = {"env": os.environ | more | {"LC_ALL": "C"}, "cwd": folder}
    if os.getuid() == 0:
        found |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody", "nogroup")
    return found


class Server:
    """One data folder and its server process."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._folder = folder
        self._bin = home / "bin"
        self._as = account(home, folder)
        self._port = free_ports(1)
        words = ["-D", str(folder / "data"), "-U", "quorate", "--auth=trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([self._bin / "initdb", *words], check=True, capture_output=True, timeout=120, **self._as)
        self.start()

    def start(self) -> None:
        """And wait until it answers."""
        words = ["-D", str(self._folder / "data"), "-p", str(self._port), "-k", "", "-h", "127.0.0.1"]
        with (self._folder / "log").open("ab") as said:
            self.process = subprocess.Popen([self._bin / "postgres", *words], stdout=said, stderr=said, **self._as)
        until(self._answers, "a PostgreSQL that answers")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        """Of a database, there or not."""
        return f"postgresql://quorate:not-asked-for@127.0.0.1:{self._port}/{database}"

    def database(self) -> str:
        """The URL of a new one."""
        name = f"d{secrets.token_hex(6)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT is PostgreSQL's own crash: no checkpoint, nobody is waited for."""
        self.process.send_signal(number)
        self.process.wait(END_TIMEOUT_S)


@contextmanager
def server() -> Iterator[Server]:
    """Skips by name where PostgreSQL was not fetched."""
    home = peer("postgresql")
    with tempfile.TemporaryDirectory(prefix="quorate-pg-") as folder:
        running = Server(Path(folder), home)
        try:
            yield running
        finally:
            if running.process.poll() is None:
                running.stop()
