"""``quorate stream`` as a process, and the log and the store it is compared by."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, TopicPartition

from quorate.errors import QuorateError
from quorate.events import Stamp, decode
from quorate_spark.sinks.sql import connect
from tests.clusters import END_TIMEOUT_S, gone, until
from tests.consumed import record_of
from tests.spark.compare import Tables, stored
from tests.spark.replay import Facts

TOPIC = "quorate.metadata.events"
START_S = 400.0
"""Generous: a first batch takes fifteen seconds on a quiet machine, and minutes on a busy one."""


class Stream:
    """One checkpoint, sink and archive, and the process that has them now."""

    def __init__(self, folder: Path, nodes: str, sink: str, *more: str) -> None:
        self.folder = folder
        self.sink = sink
        self.archive = str(folder / "archive")
        self._words = ["stream", "--nodes", nodes, "--sink", sink, "--archive", self.archive]
        self._words += ["--checkpoint", str(folder / "checkpoint"), "--archive-trigger-ms", "1000", "-o", "json", *more]
        self.process: subprocess.Popen[bytes] | None = None
        self.stderr = folder / "stream.stderr"

    def start(self) -> None:
        """In a group of its own."""
        with self.stderr.open("ab") as errors:
            words = [sys.executable, "-m", "quorate", *self._words]
            self.process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=errors, cwd=self.folder, start_new_session=True
            )

    def ready(self) -> dict[str, Any]:
        """Its ready line."""
        assert self.process is not None
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(START_S) else b""
        assert line, f"no ready line: {self.told()}"
        found: dict[str, Any] = json.loads(line)
        return found

    def told(self) -> str:
        """What it said last."""
        return self.stderr.read_text(errors="replace")[-4000:]

    def family(self) -> list[psutil.Process]:
        """The driver first, then its JVM and its workers."""
        assert self.process is not None
        driver = psutil.Process(self.process.pid)
        return [driver, *driver.children(recursive=True)]

    def kill(self, victims: Sequence[psutil.Process]) -> None:
        """kill -9 these, and whoever of the group is left then, so that no half-dead run meets the next."""
        family = self.family()
        for victim in victims:
            victim.kill()
        if victims[0].pid != family[0].pid:
            return
        self.end()

    def end(self) -> None:
        """Nothing of it is left afterwards."""
        if self.process is None:
            return
        family = []
        if self.process.poll() is None:
            family = [one.pid for one in self.family()]
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=END_TIMEOUT_S)
        until(lambda: all(map(gone, family)), f"the end of {family}", END_TIMEOUT_S)
        self.process = None

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        family = [one.pid for one in self.family()]
        self.process.terminate()
        self.process.communicate(timeout=END_TIMEOUT_S * 2)
        until(lambda: all(map(gone, family)), f"the end of {family}", END_TIMEOUT_S)
        status = self.process.returncode
        self.process = None
        return status

    def position(self) -> int:
        """Events the store reflects; 0 before there is one."""
        found: int = self.progress("serving").get("position", 0)
        return found

    def progress(self, name: str) -> dict[str, Any]:
        """A row of ``progress``; empty when there is none."""
        try:
            database = connect(self.sink, read_only=True)
        except QuorateError:
            return {}
        try:
            found = database.read("SELECT position, state, message, batch_id FROM progress WHERE name = ?", (name,))
        except QuorateError:
            return {}
        finally:
            database.close()
        return dict(zip(("position", "state", "message", "batch_id"), found[0], strict=True)) if found else {}

    def sample(self) -> tuple[int, Tables]:
        """Every table at one moment, and the position that stamps it."""
        database = connect(self.sink, read_only=True)
        try:
            with database.snapshot():
                ((position,),) = database.read("SELECT position FROM progress WHERE name = 'serving'")
                return position, stored(database)
        finally:
            database.close()

    def reach(self, position: int) -> None:
        """Wait until the store reflects so many events."""

        def there() -> bool:
            assert self.process is None or self.process.poll() is None, self.told()
            return self.position() >= position

        try:
            until(there, f"position {position}", START_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.progress('serving')}\n{self.told()}") from None


def log(nodes: str, end: int) -> Facts:
    """The first events of the log, read with a stock client and our decoder."""
    consumer = Consumer({"bootstrap.servers": nodes, "group.id": "replay", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + 60
    try:
        while len(found) < end:
            assert time.monotonic() < deadline, f"{len(found)} of {end} events"
            for message in consumer.consume(500, 0.5):
                assert message.error() is None, message.error()
                record = record_of(message)
                text = {name: value.decode() for name, value in record.headers}
                stamp = Stamp(
                    offset=int(text["offset"]),
                    term=int(text["term"]),
                    time_ms=int(text["time_ms"]),
                    principal=text["principal"],
                    cause=text["cause"],
                    request_id=text["request_id"],
                )
                found.append((stamp, decode(record.value or b"")))
    finally:
        consumer.close()
    return found[:end]
