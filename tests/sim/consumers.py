"""Members of consumer groups: they join, read, commit, and go on elsewhere.

Rules: a node's desk (``desk``) is production's. A member keeps to Kafka's classic protocol: join, sync, fetch the
position, read, commit, heartbeat; whatever fails sends it to another node. It reads the log of any node, and each batch
must be the committed one that begins where the last one ended.

Theory: positions only grow here, for a member goes on where the group stands. So a position that is told after a commit
was answered must not be below it, whoever leads by then; unless it may have lapsed (clocks that jump).
"""

import zlib
from collections.abc import Callable

from quorate.consensus.ports import NodeId
from quorate.controller import ReadResult, ReadView
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from quorate.wire.kafka_responses import JoinedGroup
from tests.sim.cluster import Cluster, Process
from tests.sim.invariants import Invariants
from tests.sim.nodes import CoreNode
from tests.sim.world import ViolationError

KEPT = "a committed position is kept"
IN_TURN = "a reader of the log finds each event once, wherever it reads"
PATIENCE_S = 0.8
STEP_S = 0.12


Tell = Callable[[Callable[[], None]], None]
"""Takes what the member does with the answer, once it has travelled back."""


def _core_node(process: Process) -> CoreNode:
    assert isinstance(process.node, CoreNode)
    return process.node


class Member:
    """One consumer; it never stops."""

    def __init__(self, circle: "Circle", group: str, name: str) -> None:
        self._circle = circle
        self._cluster = circle.cluster
        self._world = circle.cluster.world
        self._group = group
        self._name = name
        self._id = ""
        self._generation = -1
        self._synced = False
        self._assigned = False
        self.position: int | None = None
        self._committed = -1
        self._asked = 0
        self._busy_until = 0.0
        self._node = self._world.random.choice(self._cluster.voters)
        self.commits = 0

    def _next_node(self) -> NodeId:
        """In turn: one that chooses by chance may miss the coordinator for as long as a core has to answer."""
        voters = self._cluster.voters
        return voters[(voters.index(self._node) + 1) % len(voters)]

    def start(self) -> None:
        """Begin."""
        self._world.after(self._world.random.random(), self._step)

    def _step(self) -> None:
        self._world.after(STEP_S * (0.5 + self._world.random.random()), self._step)
        if self._world.now < self._busy_until:
            return
        if self._generation < 0 or not self._synced:  # The answer to a sync may be lost: then it joins again.
            self._join()
        elif not self._assigned:
            self._heartbeat()
        elif self.position is None:
            self._fetch_position()
        else:
            self._read()
            if self.position > self._committed:
                self._commit(self.position)
            else:
                self._heartbeat()

    def _ask(self, call: Callable[[CoreNode, Tell], None], kind: str) -> None:
        """One request at a time; what comes too late is not heard."""
        self._busy_until = self._world.now + PATIENCE_S
        self._asked += 1
        asked, cluster, random = self._asked, self._cluster, self._world.random
        node = self._node
        end = cluster.coverage.begin(kind)

        def answer(hear: Callable[[], None]) -> None:
            end()
            if random.random() >= cluster.client_loss:
                self._world.after(random.random() * cluster.client_delay_s, lambda: self._heard(asked, hear))

        def arrive() -> None:
            process = cluster.hosts[node].process
            if process is not None and random.random() >= cluster.client_loss:
                process.loop.io(lambda: call(_core_node(process), answer))

        self._world.after(random.random() * cluster.client_delay_s, arrive)
        self._world.after(PATIENCE_S, lambda: self._lost_patience(asked))

    def _heard(self, asked: int, hear: Callable[[], None]) -> None:
        if asked == self._asked and self._busy_until:
            self._busy_until = 0.0
            hear()

    def _lost_patience(self, asked: int) -> None:
        if asked == self._asked and self._busy_until:
            self._busy_until = 0.0
            self._asked += 1
            self._node = self._next_node()

    def _refused(self, error: int) -> None:
        """What Kafka's clients do about each error, roughly."""
        if error in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}:
            self._node = self._next_node()
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._generation, self._assigned = -1, False
        elif error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}:
            self._id, self._generation, self._assigned = "", -1, False

    # The protocol.

    def _join(self) -> None:
        self.position = None
        request = JoinGroupRequest(
            self._group,
            600,
            700,
            self._id,
            None,
            "consumer",
            (("range", self._name.encode()),),
            member_id_required=False,
        )

        def joined(answer: JoinedGroup) -> None:
            if answer.error:
                self._id = answer.member_id if answer.error == ErrorCode.MEMBER_ID_REQUIRED else self._id
                self._refused(answer.error)
                return
            self._id, self._generation, self._synced = answer.member_id, answer.generation, False
            self._sync(answer)

        def call(node: CoreNode, answer: Tell) -> None:
            desk = node.desk
            if desk.coordinates():
                desk.groups.join(request, (self._name, "host"), lambda found: answer(lambda: joined(found)))
            else:
                answer(lambda: joined(JoinedGroup(ErrorCode.NOT_COORDINATOR, self._id)))

        self._ask(call, "group")

    def _sync(self, joined: JoinedGroup) -> None:
        first = min((member for member, _, _ in joined.members), default="")
        given = tuple((member, b"mine" if member == first else b"") for member, _, _ in joined.members)
        request = SyncGroupRequest(self._group, self._generation, self._id, None, given)

        def synced(error: int, assignment: bytes) -> None:
            if error:
                self._generation = -1
                self._refused(error)
            else:
                self._synced, self._assigned = True, assignment == b"mine"

        def call(node: CoreNode, answer: Tell) -> None:
            desk = node.desk
            if desk.coordinates():
                desk.groups.sync(request, lambda error, mine: answer(lambda: synced(error, mine)))
            else:
                answer(lambda: synced(ErrorCode.NOT_COORDINATOR, b""))

        self._ask(call, "group")

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(self._group, self._generation, self._id, None)

        def call(node: CoreNode, answer: Tell) -> None:
            desk = node.desk
            error = desk.groups.heartbeat(request) if desk.coordinates() else ErrorCode.NOT_COORDINATOR
            answer(lambda: self._refused(error))

        self._ask(call, "group")

    def _fetch_position(self) -> None:
        """From any node, as it has applied it after a confirmed read (KafkaServer._fetch_offsets)."""
        floor = self._circle.floor(self._group)

        def told(position: int | None) -> None:
            self._circle.told(self._group, position, floor)
            self.position = position or 0
            self._committed = -1 if position is None else position

        def call(node: CoreNode, answer: Tell) -> None:
            def seen(view: ReadResult) -> None:
                if isinstance(view, ReadView):
                    kept = node.desk.offsets.kept(self._group)
                    answer(lambda: told(None if kept is None else kept.offset))
                else:
                    answer(lambda: self._refused(ErrorCode.NOT_COORDINATOR))

            node.core.controller.read("linearizable", seen)

        self._ask(call, "read")

    def _commit(self, position: int) -> None:
        request = OffsetCommitRequest(self._group, self._generation, self._id, None, ())

        def committed(error: int) -> None:
            if error:
                self._refused(error)
            else:
                self._committed = position
                self.commits += 1
                self._circle.committed(self._group, position)

        def call(node: CoreNode, answer: Tell) -> None:
            desk = node.desk
            if desk.coordinates():
                at = OffsetCommitPartition(0, position, -1, None)
                desk.offsets.commit(request, at, lambda error: answer(lambda: committed(error)))
            else:
                answer(lambda: committed(ErrorCode.NOT_COORDINATOR))

        self._ask(call, "commit")

    def _read(self) -> None:
        """A little of the log, from any node that lives."""
        process = self._cluster.hosts[self._world.random.choice(self._cluster.voters)].process
        if process is not None and self.position is not None and not process.host.disk.unreadable:
            self.position = self._circle.follow(process, self.position)


class Circle:
    """All groups and their members, and what they were told."""

    def __init__(
        self, cluster: Cluster, invariants: Invariants, groups: int, members: int, *, clocks_hold: bool
    ) -> None:
        self.cluster = cluster
        self._invariants = invariants
        self._clocks_hold = clocks_hold
        self._floor: dict[str, int] = {}
        self.members = [Member(self, f"g{number % groups}", f"m{number}") for number in range(groups * members)]

    def start(self) -> None:
        """Everybody begins."""
        for member in self.members:
            member.start()

    @property
    def commits(self) -> int:
        """Positions kept so far."""
        return sum(member.commits for member in self.members)

    def floor(self, group: str) -> int:
        """The last position whose commit was answered."""
        return self._floor.get(group, -1)

    def committed(self, group: str, position: int) -> None:
        """A member was told that its position is kept."""
        self.cluster.counts["positions committed"] += 1
        self._floor[group] = max(self.floor(group), position)

    def told(self, group: str, position: int | None, floor: int) -> None:
        """A member was told where its group stands; ``floor`` was kept before it asked."""
        self.cluster.counts["positions fetched"] += 1
        if self._clocks_hold and (-1 if position is None else position) < floor:
            raise ViolationError(KEPT, f"{group} stands at {position}, {floor} was committed")

    def follow(self, process: Process, position: int) -> int:
        """Read on where ``position`` is, on this node; where that leads."""
        node = _core_node(process)
        if position >= node.core.log.end_offset:
            return position
        for data in node.served(position, 2000):
            base = int.from_bytes(data[:8], "big")
            count, crc = self._invariants.batch(base)
            if base > position or zlib.crc32(data) != crc or position >= base + count:
                raise ViolationError(IN_TURN, f"n{process.node_id} serves {base}, {count} where {position} was due")
            position = base + count
        self.cluster.counts["reads of the log"] += 1
        return position
