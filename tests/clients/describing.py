"""Kafka's own describing tools, one at a time, again and again while there is trouble; what they said is judged later.

Rules: a tool is run as its users run it, with its own timeouts: 60 s for topics and the list of groups, 30 s for a
group and configurations. No trouble keeps a node from answering for half as long. (Who can reach no node at all for
longer than that gets an error from each of them: nobody is there to be asked.) A failed tool may exit with 0 and print
why in place of its answer, so answers are held to the letter: whatever was not true of the cluster at some moment of
the run is an error.
"""

import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.test_tools import console
from tests.kills.cluster import Cluster

PATIENCE_S = 120.0
"""No tool takes longer."""
COMMITTED_S = 30.0
"""Within this time a group has committed what its reader has read: the longest auto-commit interval is 5 s."""
NOTE = re.compile(r"\s*(?:Warning: )?Consumer group '(\S+)' (?:is rebalancing|has no active members)\.\s*")
"""All that a tool may say beside its answer: a client that has lost its session joins again."""
POSITION = re.compile(rf"^(\S+) +{re.escape(TOPIC)} +0 +(\d+|-) +(\d+) +(\d+|-) ", re.MULTILINE)
CONFIG = re.compile(r"  [\w.]+=\S+ sensitive=false synonyms=\{\}")


@dataclass(frozen=True)
class Said:
    """What a tool said, and what was so while it ran."""

    tool: str
    status: int
    text: str
    errors: str
    least: int
    """Events that had been acknowledged when it started."""
    leader: int | None
    """Whom every node called leader before and after, in one and the same term; None: leadership may have passed on."""


def positions(text: str) -> dict[str, tuple[str, str, str]]:
    """Group → (position, end of the log, lag)."""
    return {group: (position, end, lag) for group, position, end, lag in POSITION.findall(text)}


class Tools:
    """The tools beside the readers of these groups. ``written``: how many events are acknowledged by now."""

    def __init__(self, cluster: Cluster, groups: Sequence[str], written: Callable[[], int]) -> None:
        self._cluster = cluster
        self._written = written
        where = ("--bootstrap-server", ",".join(place.kafka for place in cluster.places.values()))
        named = [part for group in groups for part in ("--group", group)]
        topic = ("--entity-type", "topics", "--entity-name", TOPIC)
        self._commands = {
            "group": console("groups", *where, "--describe", *named),
            "topic": console("topics", *where, "--describe"),
            "groups": console("groups", *where, "--list"),
            "configs": console("configs", *where, "--describe", *topic, "--all"),
        }
        self.said: list[Said] = []
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._running = self._thread.submit(self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            for tool in self._commands:
                if not self._stop.is_set():
                    self._ask(tool)

    def _ask(self, tool: str) -> str:
        least, before = self._written(), self._agreed()
        done = subprocess.run(self._commands[tool], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        leader = before[1] if before is not None and before == self._agreed() else None
        self.said.append(Said(tool, done.returncode, done.stdout, done.stderr, least, leader))
        return done.stdout

    def _agreed(self) -> tuple[int, int | None] | None:
        """(term, leader), if every node can be asked and all say the same."""
        found = [self._cluster.status(place) for place in self._cluster.places.values()]
        told = {(status.term, status.leader) if status is not None else None for status in found}
        return told.pop() if len(told) == 1 else None

    def stop(self) -> None:
        """Let the one that runs end; no other is started."""
        self._stop.set()
        self._thread.shutdown()
        self._running.result()

    def last_round(self) -> None:
        """Each once more, everything being read; the groups until they have committed it, too."""
        self.stop()
        for tool in ("topic", "groups", "configs"):
            self._ask(tool)
        deadline = time.monotonic() + COMMITTED_S
        while {lag for _, _, lag in positions(self._ask("group")).values()} != {"0"} and time.monotonic() < deadline:
            pass


class Judge:
    """Holds what was said, in its order, against what is known: there are these groups and, in the end, ``end`` events.

    Each method fails for what was never true.
    """

    def __init__(self, groups: Sequence[str], end: int) -> None:
        self._groups = set(groups)
        self._end = end
        self._positions: dict[str, int] = {}
        self._end_seen = 0

    def hear(self, said: Said) -> None:
        """Any of them."""
        assert said.status == 0, said
        assert not NOTE.sub("", said.errors), said
        {"group": self._group, "topic": self._topic, "groups": self._list, "configs": self._configs}[said.tool](said)

    def _group(self, said: Said) -> None:
        """Positions and the end of the log never go back; each row is sound in itself."""
        found, titles = positions(said.text), re.compile(r"GROUP +TOPIC +PARTITION +CURRENT-OFFSET ")
        rest = [line for line in said.text.splitlines() if not (titles.match(line) or POSITION.match(line))]
        assert not "".join(rest), said
        assert set(self._positions) <= set(found) <= self._groups, said
        assert set(found) | set(NOTE.findall(said.errors)) == self._groups, said
        for group, (position, end, lag) in found.items():
            assert max(said.least, self._end_seen) <= int(end) <= self._end, said
            if group in self._positions or position != "-":
                assert self._positions.get(group, 0) <= int(position) <= int(end), (group, said)
                assert int(lag) == int(end) - int(position), (group, said)
                self._positions[group] = int(position)
        self._end_seen = max(int(end) for _, end, _ in found.values())

    def _topic(self, said: Said) -> None:
        """One partition on all nodes; its leader is the cluster's. While leadership passes on it is whom the node that
        was asked calls leader, or itself if it can reach none; one that stops, or starts, names none.
        """
        found = dict(re.findall(r"(\w+): ?(\S+)", said.text))
        assert (found["Topic"], found["PartitionCount"], found["ReplicationFactor"]) == (TOPIC, "1", "3"), said
        assert found["Replicas"] == "1,2,3", said
        in_sync = found["Isr"].split(",")
        assert set(in_sync) <= {"1", "2", "3"}, said
        assert found["Leader"] in ([*in_sync, "none"] if said.leader is None else [str(said.leader)]), said

    def _list(self, said: Said) -> None:
        """Each group once. While leadership passes on there may be none: every node speaks for itself when it is asked,
        and who coordinates next may have been asked before.
        """
        found = said.text.split()
        assert sorted(found) == sorted(self._groups) or (said.leader is None and not found), said

    def _configs(self, said: Said) -> None:
        """The log is never compacted."""
        title, *configs = said.text.splitlines()
        assert title == f"All configs for topic {TOPIC} are:", said
        assert all(map(CONFIG.fullmatch, configs)), said
        assert "  cleanup.policy=delete sensitive=false synonyms={}" in configs, said
