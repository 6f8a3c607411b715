"""Three real nodes, clients on all of them, and somebody who kills, pauses and cuts off.

Rules: a fault lasts until it has been lived with: another leader decides (if the leader was struck), the others have
answered new writes and reads, and the victim owes answers to reads asked after those writes. It is over when the
victim answers again. Nothing waits for time to pass (but an echo has a length); every wait has a deadline and a name.
"""

import asyncio
import random
import shutil
import signal
import time
import tomllib
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path

import msgspec

from quorate.cli.cluster import node_tree, render
from quorate.events import ControllerLeaderElected, Event, Stamp
from quorate.wire.avro import decode_events
from tests.directories import copy, kept, may_not_vote, put_back
from tests.kills.cluster import PROGRAM, Cluster, verify
from tests.linearizability.clients import Clients
from tests.linearizability.history import History
from tests.linearizability.links import Links

PATIENCE_S = 120.0
"""Generous: a node that is started on a busy machine needs its time; nobody waits longer than it takes."""
LOOK_S = 0.03
ECHO_S = 0.7
ECHO_FACTOR = 10.0
"""So long the echo is, and so much slower it comes."""
ALONE_S = 2.0
"""Many election timeouts."""
WRITES = 15
READS = 30
OWED = 10
"""What a fault is lived with for: so many writes and reads by the others, so many reads the victim owes."""


class Fault(msgspec.Struct, frozen=True):
    """What was done to whom, and when (on the history's clock)."""

    kind: str
    victim: int
    led: bool
    began: float
    outlived: float
    """From here on the others had written and read without it."""
    ended: float
    """Healed: the victim answers again a moment later."""


class Findings(msgspec.Struct, frozen=True):
    """What a campaign leaves to be judged."""

    history: History
    faults: list[Fault]
    elections: list[tuple[int, int]]
    """(offset, node that leads from there on), of the log all nodes have."""
    held_bytes: int
    log: list[tuple[Stamp, Event]]
    """The log all nodes have."""
    clients: Clients


class Nemesis:
    """Strikes one node at a time."""

    def __init__(self, cluster: Cluster, links: Links, history: History, rng: random.Random) -> None:
        self._cluster = cluster
        self._links = links
        self._history = history
        self._rng = rng
        self.faults: list[Fault] = []

    async def strike(self, kind: str) -> None:
        """One fault, from the first blow to the first answers after it."""
        leader = await self.leader(self._cluster.places)
        of_leader, blow = (KINDS | PUT_BACK)[kind]
        victim = leader if of_leader else self._rng.choice([node for node in self._cluster.places if node != leader])
        began = time.monotonic()
        outlived = await blow(self, victim)
        ended = time.monotonic()
        self.faults.append(Fault(kind, victim, of_leader, began, outlived, ended))
        await self.serves(ended, [victim], kind)

    async def serves(self, since: float, nodes: Collection[int], kind: str) -> None:
        """Each of them answers reads and writes begun at ``since`` or later."""
        for node in nodes:
            await self._until(partial(self._answered, since, [node], READS, 1), f"node {node} serves after: {kind}")

    # -- the faults

    async def _kill(self, victim: int) -> float:
        """SIGKILL, and a new life."""
        self._cluster.kill(victim)
        since = await self._lived_with(victim, leads=True)
        self._cluster.start(victim)
        return since

    async def _pause(self, victim: int, *, leads: bool) -> float:
        """SIGSTOP, and it goes on as if nothing had happened."""
        self._cluster.send(victim, signal.SIGSTOP)
        since = await self._lived_with(victim, leads=leads)
        await self._owed(victim, since)
        self._cluster.send(victim, signal.SIGCONT)
        return since

    async def _cut(self, victim: int, *, out: bool, into: bool, leads: bool) -> float:
        """Nobody hears it, or it hears nobody, or both."""
        self._links.hold([*(self._links.out_of(victim) if out else ()), *(self._links.into(victim) if into else ())])
        since = await self._lived_with(victim, leads=leads)
        await self._owed(victim, since)
        self._links.release()
        return since

    async def _asleep(self, victim: int) -> float:
        """Cut off *and* paused: it wakes up believing that it leads, and nobody tells it better."""
        self._links.hold([*self._links.out_of(victim), *self._links.into(victim)])
        self._cluster.send(victim, signal.SIGSTOP)
        since = await self._lived_with(victim, leads=True)
        self._cluster.send(victim, signal.SIGCONT)
        awake = time.monotonic()
        await self._until(lambda: self._history.answered(awake, [victim], puts=False, level="stale"), "it is awake")
        await self._owed(victim, awake)
        self._links.release()
        return since

    async def _echo(self, victim: int) -> float:
        """What others told it before it was cut off reaches it slowly: it goes on believing that it leads and is heard,
        although another leads. No check of its quorum saves it; only the confirmation of each read does.
        """
        self._links.stretch(self._links.into(victim), ECHO_FACTOR)
        await asyncio.sleep(ECHO_S)
        self._links.hold(self._links.out_of(victim))
        since = await self._lived_with(victim, leads=True)
        await self._owed(victim, since)
        self._links.release()
        return since

    async def _goes_back(self, victim: int, *, running: bool) -> float:
        """It goes back to a copy of its directory, made while it ran, or while it was stopped and as the image of a
        disk. What it acknowledged since is with one other node, and that one is away: nobody leads. Once that one is
        back, so is the victim, and its vote.
        """
        cluster, data = self._cluster, self._data(victim)
        copied = data.with_name("copied")
        if running:
            copy(data, copied)
        else:
            cluster.kill(victim)
            shutil.copytree(data, copied)
            cluster.start(victim)
            await self.serves(time.monotonic(), [victim], "a copy is made")
        away, witness = self._rng.sample([node for node in cluster.places if node != victim], 2)
        cluster.kill(away)
        since = time.monotonic()
        await self._until(lambda: self._answered(since, [victim, witness], READS, WRITES), "two are a majority")
        cluster.kill(victim, witness)

        if running:
            shutil.rmtree(data)
            copied.rename(data)
        else:
            put_back(data, copied)
        cluster.start(victim, away)
        alone = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while time.monotonic() < alone + ALONE_S or not may_not_vote(data):
                for node in (victim, away):
                    status = await asyncio.to_thread(cluster.status, cluster.places[node])
                    assert status is None or status.leader is None, f"node {node} says that {status.leader} leads"
        cluster.start(witness)
        back = time.monotonic()
        await self.serves(back, cluster.places, "it went back")
        await self._until(lambda: not may_not_vote(data), "its vote")
        return back

    async def _takes_a_peers(self, victim: int) -> float:
        """A copy of a peer's directory is in the place of its own, whole and without the file that says so first: it is
        refused by name, and left as it was. With its own in its place the victim goes on.
        """
        cluster, data = self._cluster, self._data(victim)
        cluster.kill(victim)
        own = data.rename(data.with_name("own"))
        peer = self._rng.choice([node for node in cluster.places if node != victim])
        copy(self._data(peer), data)
        for named in (True, False):
            if not named:
                (data / "voter.json").unlink()
            before = kept(data)
            said = await asyncio.to_thread(cluster.refused, victim)
            assert f"belongs to node_id {peer}, not {victim}" in said, said
            assert kept(data) == before
        since = await self._lived_with(victim, leads=False)
        shutil.rmtree(data)
        own.rename(data)
        cluster.start(victim)
        return since

    def _data(self, node: int) -> Path:
        return self._cluster.places[node].folder / "data"

    async def _lived_with(self, victim: int, *, leads: bool) -> float:
        """Return when the others do without it; since when they do."""
        others = [node for node in self._cluster.places if node != victim]
        if leads:
            await self.leader(others)
        since = time.monotonic()
        await self._until(lambda: self._answered(since, others, READS, WRITES), f"work goes on without node {victim}")
        return time.monotonic()

    async def _owed(self, victim: int, since: float) -> None:
        """Return when the victim owes reads begun at ``since`` or later (or, if it can, has answered them)."""
        await self._until(
            lambda: self._history.waiting(since, victim) + self._history.answered(since, [victim], puts=False) >= OWED,
            f"reads of node {victim}",
        )

    # -- waiting

    def _answered(self, since: float, nodes: Collection[int], reads: int, writes: int) -> bool:
        history = self._history
        return (
            history.answered(since, nodes, puts=False) >= reads and history.answered(since, nodes, puts=True) >= writes
        )

    async def _until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}"
            await asyncio.sleep(LOOK_S)

    async def leader(self, among: Collection[int]) -> int:
        """Who leads and may decide, by its own word."""
        places, deadline = self._cluster.places, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for node in among:
                status = await asyncio.to_thread(self._cluster.status, places[node])
                if status is not None and status.leader == node and status.ready:
                    return node
            await asyncio.sleep(LOOK_S)
        raise AssertionError(f"no leader among {list(among)} within {PATIENCE_S:.0f} s")


Blow = Callable[[Nemesis, int], Awaitable[float]]

KINDS: dict[str, tuple[bool, Blow]] = {
    "the leader is killed": (True, Nemesis._kill),
    "the leader is paused": (True, partial(Nemesis._pause, leads=True)),
    "a follower is paused": (False, partial(Nemesis._pause, leads=False)),
    "the leader is cut off": (True, partial(Nemesis._cut, out=True, into=True, leads=True)),
    "nobody hears the leader": (True, partial(Nemesis._cut, out=True, into=False, leads=True)),
    "the leader hears nobody": (True, partial(Nemesis._cut, out=False, into=True, leads=True)),
    "a follower is cut off": (False, partial(Nemesis._cut, out=True, into=True, leads=False)),
    "the leader is cut off asleep": (True, Nemesis._asleep),
    "the leader hears an echo": (True, Nemesis._echo),
}
"""Kind → (is it the leader that is struck?, how)."""
PUT_BACK: dict[str, tuple[bool, Blow]] = {
    "a copy made while it was stopped": (False, partial(Nemesis._goes_back, running=False)),
    "a copy made while it ran": (False, partial(Nemesis._goes_back, running=True)),
    "a copy of a peer's": (False, Nemesis._takes_a_peers),
}
"""The same, of what is put in the place of a directory."""


def rewire(cluster: Cluster, dialed: dict[tuple[int, int], str]) -> None:
    """Have every node dial its peers where ``dialed`` says; it goes on listening where it did."""
    for node, place in cluster.places.items():
        cluster_id = tomllib.loads(place.config.read_text(encoding="utf-8"))["cluster"]["id"]
        seen = [
            other if other.id == node else msgspec.structs.replace(other, raft=dialed[node, other.id])
            for other in cluster.places.values()
        ]
        place.config.write_text(render(node_tree(place, tuple(seen), cluster_id)), encoding="utf-8")


def elections(log: list[tuple[Stamp, Event]]) -> list[tuple[int, int]]:
    """Who led from which offset on."""
    return [(stamp.offset, event.node_id) for stamp, event in log if isinstance(event, ControllerLeaderElected)]


def one_log(logs: dict[int, list[tuple[bytes, bytes]]]) -> list[tuple[Stamp, Event]]:
    """The one that all nodes have. Raises LostError if they have not."""
    verify(logs, [])
    return [fact for _, batch in next(iter(logs.values())) for fact in decode_events(batch)]


async def _campaign(
    cluster: Cluster, kinds: Sequence[str], rng: random.Random, history: History, clients: Clients
) -> tuple[list[Fault], int]:
    links = Links({node: place.raft for node, place in cluster.places.items()})
    rewire(cluster, await links.open())
    nemesis = Nemesis(cluster, links, history, rng)
    try:
        cluster.start()
        await nemesis.leader(cluster.places)
        await asyncio.to_thread(clients.prepare)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(clients.run())
            await nemesis.serves(time.monotonic(), list(cluster.places), "the start")
            for kind in kinds:
                await nemesis.strike(kind)
            running.cancel()
        await clients.drained()
        await asyncio.to_thread(cluster.same_everywhere)
        return nemesis.faults, links.held_bytes
    finally:
        cluster.revive()
        await asyncio.to_thread(cluster.stop)
        await links.close()


def campaign(
    folder: Path,
    rounds: int,
    seed: int,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    program: Sequence[str] = PROGRAM,
    clients: type[Clients] = Clients,
) -> Findings:
    """Every kind of fault, ``rounds`` times, in an order drawn from the seed. ``program``: what the nodes are."""
    rng = random.Random(seed)
    kinds = [kind for _ in range(rounds) for kind in rng.sample(kinds, len(kinds))]
    cluster, history = Cluster(folder, program=program), History()
    asking = clients(cluster.places, history, rng)
    faults, held_bytes = asyncio.run(_campaign(cluster, kinds, rng, history, asking))
    log = one_log(cluster.event_logs())
    return Findings(history, faults, elections(log), held_bytes, log, asking)
