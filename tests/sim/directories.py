"""What becomes of a whole data directory: lost, put back from a copy, exchanged, taken from a peer; and who mends it.

Rules: as much is taken as the product says it bears (docs/adr/0047 to 0051, 0065): one voter's directory at a time,
while every other one votes. A copy that does not know itself to be one is put back only when every other voter has met
a later life than it lists: below that nothing can find it (docs/adr/0049). A start that must be refused is tried at
once, and must leave what it found as it was.

Theory: an operator stands beside the cluster. He names the new directory of a voter that says it waits for that, and
empties one whose directory was given up.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Literal

import msgspec

from quorate.consensus.ports import NodeId
from quorate.consensus.storage.directory import Voter, decode_voter
from quorate.errors import UsageError
from tests.sim.clients import Done, Nothing, Result
from tests.sim.cluster import Cluster, Host, Process
from tests.sim.disk import InjectedError, Loss, Rows
from tests.sim.world import ViolationError

REFUSED = "a foreign directory is refused by name, and left as it was"
LOOKS_S = 0.15
"""How often the operator looks."""
Part = Literal["directory", "journal", "store", "voter file"]


class Image(msgspec.Struct, frozen=True):
    """A copy of a directory."""

    files: dict[str, bytes]
    small: bytes | None
    rows: Rows


class Directories:
    """The faults, and the operator. ``loss`` and ``down_s``: how a process dies of it, and for how long."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._copies: dict[NodeId, Image] = {}
        self._asked = 0

    # Faults. Who calls makes sure that every other voter votes.

    def wipe(self, node: NodeId, down_s: float) -> None:
        """All of it is gone: journal, store and voter file."""
        self._cluster.crash(node, "power", down_s)
        self._put(self._cluster.hosts[node], Image({}, None, {}), copied=False)

    def copy(self, node: NodeId, loss: Loss) -> None:
        """For later: of a node that is stopped, or an image of the disk while it runs."""
        host = self._cluster.hosts[node]
        disk = host.disk
        if disk.small is None or disk.hurt or disk.unsound or host.store_hurt or not self._cluster.remembers(node):
            return
        running = host.process is not None
        self._cluster.counts["directories copied: running" if running else "directories copied: stopped"] += 1
        files = disk.copied(running=running, loss=loss)
        self._copies[node] = Image(files, disk.small, host.store.copied(running=running, loss=loss))

    def put_back(self, node: NodeId, down_s: float) -> bool:
        """The copy takes the place of what went on. A copy of files knows what it is, an image of a disk does not."""
        cluster, host = self._cluster, self._cluster.hosts[node]
        image, current = self._copies.get(node), decoded(host.disk.small)
        then = None if image is None else decoded(image.small)
        if image is None or then is None or current is None or not cluster.remembers(node):
            return False
        told = all(self._met_later(peer, node, then) for peer in cluster.voters if peer != node)
        copied = not told or self._random.random() < 0.5
        if then.incarnation != current.incarnation or not then.begun or self._accuses(then):
            return False
        cluster.counts["copies put back: known by the file" if copied else "copies put back: told by peers"] += 1
        cluster.crash(node, "power", down_s)
        self._put(host, image, copied=copied)
        return True

    def _met_later(self, peer: NodeId, node: NodeId, then: Voter) -> bool:
        """Does the peer's disk know a life that the copy does not list?"""
        known = decoded(self._cluster.hosts[peer].disk.small)
        met = None if known is None else known.met.get(node)
        return met is not None and met.incarnation == then.incarnation and met.life not in then.lives

    def _accuses(self, then: Voter) -> bool:
        """Has the copy met a life of another voter that was rolled back since? It would accuse one that has come back
        from that, and forget as well: two of three (docs/consensus.md says so).
        """
        for peer, met in then.met.items():
            current = decoded(self._cluster.hosts[NodeId(peer)].disk.small)
            same = current is not None and current.incarnation == met.incarnation
            if current is not None and same and met.life not in current.lives:
                return True
        return False

    def clone(self, node: NodeId, of: NodeId, loss: Loss, down_s: float) -> None:
        """A peer's directory in the place of one's own; then the own one again."""
        cluster = self._cluster
        mine, theirs = cluster.hosts[node], cluster.hosts[of]
        if theirs.disk.small is None or mine.disk.small is None or theirs.disk.unsound or mine.disk.unsound:
            return
        running = theirs.process is not None
        rows, small = theirs.store.copied(running=running, loss=loss), theirs.disk.small
        image = Image(theirs.disk.copied(running=running, loss=loss), small, rows)
        cluster.crash(node, loss, down_s)
        if mine.process is not None:
            return
        kept, own = (mine.disk.content(), mine.store.content()), mine.disk.small
        mine.disk.restore(image.files, image.small)
        mine.store.restore(image.rows)
        self._refused(mine, "directories cloned")
        mine.disk.put_content(kept[0])
        mine.disk.small = own
        mine.store.put_content(kept[1])

    def exchange(self, one: NodeId, two: NodeId, loss: Loss, down_s: float) -> None:
        """Two voters' directories, or a part of them; then each its own again."""
        cluster, part = self._cluster, self._random.choice(PARTS)
        hosts = cluster.hosts[one], cluster.hosts[two]
        if any(host.disk.small is None or not host.disk.begun or host.store.empty for host in hosts):
            return
        # What is in the place of a store that was given up is put aside unread, and kept there, whosever it is.
        if any(host.store_hurt or host.disk.unsound for host in hosts):
            return
        for host in hosts:
            cluster.crash(host.node_id, loss, down_s)
        if any(host.process is not None for host in hosts):
            return
        # Only the headers of a journal's segments say whose it is. Damage may have taken every one of them: nothing
        # then tells this journal from the node's own, damaged, and a start rightly begins a new one, as a node that
        # forgot. One header that can be read is enough to refuse it. A store names its owner itself.
        if part == "journal" and not all(host.disk.names_owner for host in hosts):
            cluster.counts["exchanges left out: a journal names nobody"] += 1
            return
        # So it is with a voter file that is damaged: who finds it there is one that lost its own.
        if part == "voter file" and any(decoded(host.disk.small) is None for host in hosts):
            cluster.counts["exchanges left out: a voter file names nobody"] += 1
            return
        # And with a store that was never synced: the power took all of it.
        if part == "store" and any(host.store.empty for host in hosts):
            cluster.counts["exchanges left out: a store names nobody"] += 1
            return
        self._swap(part, *hosts)
        for host in hosts:
            self._refused(host, f"exchanged: {part}")
        self._swap(part, *hosts)

    @staticmethod
    def _swap(part: Part, one: Host, two: Host) -> None:
        if part in {"directory", "journal"}:
            mine, theirs = one.disk.content(), two.disk.content()
            one.disk.put_content(theirs)
            two.disk.put_content(mine)
        if part in {"directory", "store"}:
            rows, others = one.store.content(), two.store.content()
            one.store.put_content(others)
            two.store.put_content(rows)
        if part in {"directory", "voter file"}:
            one.disk.small, two.disk.small = two.disk.small, one.disk.small

    def _refused(self, host: Host, what: str) -> None:
        """A start that must fail, now."""
        cluster = self._cluster
        failing, full, unreadable = host.disk.failing, host.disk.full, host.disk.unreadable
        host.disk.failing = host.disk.full = host.disk.unreadable = False
        before = host.disk.marks(), host.store.copied(running=False, loss="kill")
        host.incarnations += 1
        process = Process(cluster, host)
        try:
            process.boot()
        except UsageError as error:
            if not any(word in str(error) for word in ("belongs to", "journal of")):
                raise ViolationError(REFUSED, f"n{host.node_id}, {what}: {error}") from error
        else:
            raise ViolationError(REFUSED, f"n{host.node_id} starts: {what}")
        finally:
            process.alive = False
            process.loop.die()
        if before != (host.disk.marks(), host.store.copied(running=False, loss="kill")):
            raise ViolationError(REFUSED, f"n{host.node_id} was changed: {what}")
        cluster.counts[what] += 1
        host.disk.failing, host.disk.full, host.disk.unreadable = failing, full, unreadable

    def _put(self, host: Host, image: Image, *, copied: bool) -> None:
        """The process is dead."""
        host.disk.restore(image.files, image.small)
        host.store.restore(image.rows)
        host.voter_file.copied = copied
        self._cluster.journal_lost(host)

    # The operator.

    def start(self) -> None:
        """Look after it from now on."""
        self._cluster.world.after(LOOKS_S, self._look)

    def _look(self) -> None:
        for process in self._cluster.processes():
            with suppress(InjectedError):  # Who cannot read its disk now says nothing now.
                if "quorate member rebuild" in process.node.waits_for:
                    self._name(process)
        self._cluster.world.after(LOOKS_S, self._look)

    def _name(self, process: Process) -> None:
        """``quorate member rebuild``, at any other node."""
        cluster, node, new = self._cluster, process.node_id, process.node.incarnation
        others = [peer for peer in cluster.voters if peer != node]
        self._asked += 1
        tag = f"rebuild-{self._asked}"

        def call(service: object, done: Callable[[Result], None]) -> None:
            rebuild: Callable[..., None] = getattr(service, "rebuild")  # noqa: B009  # Not a client's.
            rebuild(node, new, tag, done)

        cluster.ask(self._random.choice(others), call, partial(self._answered, process), "rebuild")

    def _answered(self, process: Process, result: Result) -> None:
        """A directory that was given up never comes back: the operator empties it."""
        self._cluster.counts["voters rebuilt"] += isinstance(result, Done)
        if result == Nothing("refused: DirectoryTaken") and process.alive:
            self._cluster.counts["given-up directories emptied"] += 1
            self.wipe(process.node_id, 0.05)


PARTS: tuple[Part, ...] = ("directory", "journal", "store", "voter file")


def decoded(small: bytes | None) -> Voter | None:
    """What a voter file says."""
    return None if small is None else decode_voter(small)
