"""The feature level, which an operator raises; and clusters of two builds, of which one does not know it yet.

Rules: the level is production's rule (``metadata.decide.LEVELS``); in a cluster of two builds it is told that
``DeleteTopic``, too, writes an event that only the further build can read. A node's build is that of its start: it
says in ``RecordNodeStart`` and in every hello what it knows. Nodes are upgraded one by one, never downgraded. An
operator asks for the level again and again, as soon as he pleases, and for what it allows.

Theory: a voter that meets an event it cannot read is lost until it is upgraded. So what is looked at is not whether a
request is refused but what is committed: no level that some voter has not said it knows, no event of a level that is
not in force, and on no node's state an event of a level its build does not know.
"""

from functools import partial
from typing import Final

from quorate.consensus.ports import NodeId
from quorate.metadata.commands import Command, DeleteTopic, PutTopic, RaiseFeatureLevel
from quorate.metadata.decide import LEVELS
from tests.sim.clients import Answer, Done, Nothing, Result, Service
from tests.sim.cluster import Cluster
from tests.sim.levels_seen import FURTHER, OLD
from tests.sim.nodes import CoreNode

PRODUCTION: Final = dict(LEVELS)
OF_LEVEL: Final[dict[type[Command], int]] = {DeleteTopic: FURTHER}
TOPIC: Final = "of-the-level"
ALL_UPGRADED: Final = 0.7
"""Share of the seeds of mixed builds in which every node is upgraded, so that the level must be raised in the end."""


def in_this_seed(*, mixed: bool) -> None:
    """Production's table of levels, for the run that begins now."""
    LEVELS.clear()
    LEVELS.update(PRODUCTION | OF_LEVEL if mixed else PRODUCTION)


class Builds:
    """Which build runs where, and the operator. ``mixed`` False: all nodes are of the further build."""

    def __init__(self, cluster: Cluster, *, mixed: bool) -> None:
        self.mixed = mixed
        self._cluster, self._random = cluster, cluster.world.random
        self._installed = dict.fromkeys(cluster.voters, FURTHER)
        self._all_upgraded = True
        self._asked = 0
        self._stopped = False
        self.raised = False
        if mixed:
            self._installed = {node: self._random.choice((OLD, OLD, FURTHER)) for node in cluster.voters}
            self._all_upgraded = self._random.random() < ALL_UPGRADED

    def of(self, node: NodeId) -> int:
        """The level that a process which starts there now knows."""
        return self._installed[node]

    def start(self, within_s: float) -> None:
        """From now on; upgrades come within so many virtual seconds."""
        self._cluster.world.after(self._random.random() * 0.3, self._ask)
        if not self.mixed:
            return
        self._cluster.counts["seeds of mixed builds"] += 1
        old = [node for node, known in self._installed.items() if known == OLD]
        for node in old if self._all_upgraded else old[1:]:
            self._cluster.world.after((0.1 + self._random.random() * 0.8) * within_s, partial(self._upgrade, node))

    def stop(self) -> None:
        """The operator asks no more."""
        self._stopped = True

    @property
    def settled(self) -> bool:
        """Is the level what the builds allow?"""
        return self.raised or not self._all_upgraded

    def _upgrade(self, node: NodeId) -> None:
        self._installed[node] = FURTHER
        self._cluster.counts["nodes upgraded"] += 1
        self._cluster.crash(node, "kill", self._random.random() * 0.3)

    def _ask(self) -> None:
        """The level, something it allows, and a topic to do that to."""
        if self._stopped or (self.raised and not self.mixed):
            return
        if self.mixed:
            self._send(PutTopic(topic=TOPIC, read_queues=1, write_queues=1, permission=6))
            self._send(DeleteTopic(topic=TOPIC))
        if not self.raised:
            self._send(RaiseFeatureLevel(level=FURTHER))
        self._cluster.world.after(0.1 + self._random.random() * 0.4, self._ask)

    def _send(self, command: Command) -> None:
        self._asked += 1
        tag = f"level-{self._asked}"

        def call(service: Service, done: Answer) -> None:
            assert isinstance(service, CoreNode)
            service.submit(command, tag, "", done)

        self._cluster.ask(self._random.choice(self._cluster.voters), call, partial(self._heard, command), "level")

    def _heard(self, command: Command, result: Result) -> None:
        refused = result == Nothing("refused: UnsupportedFeatureLevel")
        counts, done = self._cluster.counts, isinstance(result, Done)
        match command:
            case RaiseFeatureLevel():
                counts["levels raised"] += done and not self.raised
                counts["levels refused"] += refused
                self.raised = self.raised or done
            case DeleteTopic():
                counts["commands of a level done"] += done
                counts["commands below their level refused"] += refused
            case _:
                pass
