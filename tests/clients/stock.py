"""Stock Kafka clients, each behind one tiny interface: a process that reads the log from offset 0, an offset a line.

Rules: a client is what its users have, with ordinary settings; the driver adds nothing but the printing. Alone it keeps
its own place, in a group the cluster keeps it. Whatever a client tells its user as an error is an ``error`` line, or
its end. An absent peer skips its client by name.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.test_tools import console
from tests.peers import PEERS

NODE = str(PEERS / "node/programs/node")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OFFSET = re.compile(rb"(?:Offset:)?(\d+)")


@dataclass(frozen=True)
class Client:
    """One client in one mode. ``command(bootstrap, rack, group)`` is what starts it."""

    name: str
    command: Callable[[str, str, str], Sequence[str]]
    peer: str = ""
    """What ``make peers`` must have fetched."""

    @property
    def grouped(self) -> bool:
        """Does it read as a member of a group?"""
        return self.name.endswith("group")

    @property
    def group(self) -> str:
        """Which group that would be."""
        return f"conformance-{self.name}"


def _python(client: str, *, group: bool) -> Client:
    def command(bootstrap: str, rack: str, name: str) -> Sequence[str]:
        start = (sys.executable, "-m", "tests.clients.drivers", client, bootstrap, TOPIC, rack)
        return (*start, name) if group else start

    return Client(f"{client}-group" if group else client, command)


_PATIENT = ("-E",)
"""kcat ends when no node can be reached, unless it is told to go on."""


def _kcat(bootstrap: str, rack: str, _group: str) -> Sequence[str]:
    settings = ("-X", f"client.rack={rack}", "-X", "auto.offset.reset=error")
    where = ("-b", bootstrap, "-C", "-t", TOPIC, "-p", "0", "-o", "0")
    return (str(PEERS / "kcat/kcat"), *where, "-q", "-u", *_PATIENT, "-f", "%o\\n", *settings)


def _kcat_group(bootstrap: str, rack: str, group: str) -> Sequence[str]:
    settings = [f"client.rack={rack}", "auto.offset.reset=earliest", "session.timeout.ms=30000"]
    options = [part for setting in settings for part in ("-X", setting)]
    return (
        str(PEERS / "kcat/kcat"),
        "-b",
        bootstrap,
        *_PATIENT,
        "-q",
        "-u",
        "-f",
        "%o\\n",
        *options,
        "-G",
        group,
        TOPIC,
    )


def _java(bootstrap: str, rack: str, *how: str) -> Sequence[str]:
    properties = [f"client.rack={rack}", "session.timeout.ms=30000", "auto.commit.interval.ms=500"]
    options = [part for text in properties for part in ("--command-property", text)]
    printing = ("--formatter-property", "print.offset=true", "--formatter-property", "print.value=false")
    where = ("--bootstrap-server", bootstrap, "--topic", TOPIC)
    return console("consumer", *where, *options, *printing, *how)


def _franz(bootstrap: str, rack: str, *group: str) -> Sequence[str]:
    return (str(PEERS / "franz-go/franz"), bootstrap, TOPIC, rack, *group)


CLIENTS = (
    _python("confluent", group=False),
    _python("confluent", group=True),
    _python("aiokafka", group=False),
    _python("aiokafka", group=True),
    _python("kafka-python", group=False),
    _python("kafka-python", group=True),
    Client("kcat", _kcat, "kcat"),
    Client("kcat-group", _kcat_group, "kcat"),
    Client("java-console", lambda where, rack, _: _java(where, rack, "--partition", "0", "--offset", "0"), "kafka"),
    Client("java-console-group", lambda w, r, group: _java(w, r, "--group", group, "--from-beginning"), "kafka"),
    Client("franz-go", lambda where, rack, _: _franz(where, rack), "franz-go"),
    Client("franz-go-group", _franz, "franz-go"),
    Client(
        "kafkajs-group",
        lambda where, _, group: (NODE, str(HERE / "kafkajs/consume.cjs"), where, TOPIC, group),
        "kafkajs",
    ),
)


class Reader:
    """A running client; ``seen`` has the offsets in the order they came."""

    def __init__(self, client: Client, bootstrap: str, rack: str, folder: Path) -> None:
        self.name = client.name
        self.seen: list[int] = []
        self.errors: list[str] = []
        self._stopped = False
        environment = os.environ | {"NODE_PATH": str(PEERS / "kafkajs/node_modules"), "NODE_NO_WARNINGS": "1"}
        command = client.command(bootstrap, rack, client.group)
        with (folder / f"{client.name}.stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, env=environment, start_new_session=True
            )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = OFFSET.fullmatch(line.strip())
            if found:
                self.seen.append(int(found[1]))
            elif line.strip():
                self.errors.append(line.decode(errors="replace").strip())
        if not self._stopped:
            self.errors.append(f"ended by itself, {self._process.wait()}")

    def read_to(self, end: int) -> bool:
        """Has it seen so many, or given up?"""
        return len(self.seen) >= end or bool(self.errors)

    def stop(self) -> None:
        """End it, and wait for its last line."""
        self._stopped = True
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self._thread.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
