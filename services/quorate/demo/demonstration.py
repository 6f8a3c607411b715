"""The demonstration: a cluster, broker sets of simulated brokers, faults, and the story of them as it happens.

Rules: every broker and node is a process of its own and ends with us; faults are SIGKILLs; what is told comes from the
event log as any node serves it, never from what we believe we did.
"""

import asyncio
import json
import random
import signal
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import HOST, LocalCluster, found, listeners, planned, unused
from quorate.cli.command import DONE
from quorate.cli.facts import Fact, facts
from quorate.cli.output import complain
from quorate.cli.processes import ChildError, die_with
from quorate.cli.up import Home, stop_asked
from quorate.demo import companions
from quorate.demo.brokers import FIRST_BROKER_PORT, Broker, brokers, place_of
from quorate.demo.companions import Companion
from quorate.demo.screen import JsonTeller, LineTeller, TableTeller, Teller
from quorate.demo.services import DOWN_S, Service, services
from quorate.demo.story import Story
from quorate.errors import QuorateError

FOLLOW_S = 0.1
SETTLE_TIMEOUT_S = 60.0
BROKER_DOWN_S = 8.0
NODE_DOWN_S = 4.0
NODE_FAULT_SHARE = 0.2
STOP_PATIENCE_S = 3.0
SERVICE_FAULTS = 4
"""So many faults of brokers and nodes for one of a service."""


class Demonstration:
    """Everything that runs, and the tasks that drive it."""

    def __init__(
        self,
        cluster: LocalCluster,
        cast: list[Broker],
        beside: list[Companion],
        teller: Teller,
        rng: random.Random,
        services: list[Service] | None = None,
    ) -> None:
        self.cluster = cluster
        self.cast = cast
        self.beside = beside
        self.services = services or []
        self.story = Story()
        self._teller = teller
        self._rng = rng

    async def start(self) -> None:
        """Nodes first, then what reads their log, then brokers. Raises ChildError."""
        await self.cluster.start()
        for companion in self.beside:
            await companion.child.start()
        for broker in self.cast:
            await broker.child.start()

    async def settled(self) -> None:
        """Return when each set has a master and all its brokers in sync. Raises ChildError."""
        size = Counter(broker.broker_set for broker in self.cast)
        try:
            async with asyncio.timeout(SETTLE_TIMEOUT_S):
                while {name: len(known.sync_state_set) for name, known in self.story.sets.items()} != size:  # noqa: ASYNC110
                    await asyncio.sleep(FOLLOW_S)
        except TimeoutError:
            raise ChildError(f"not every broker was in sync within {SETTLE_TIMEOUT_S:.0f} s") from None

    async def serve(self) -> None:
        """Raise the feature level as an operator would (``quorate feature raise``), and start the services: keys and
        leases need it. Where it cannot be, everything else goes on.
        """
        if not self.services:
            return
        try:
            await asyncio.to_thread(self.cluster.raise_level)
        except QuorateError as error:
            self._note(f"no services: the feature level is as it was: {error}")
            return
        for service in self.services:
            await service.child.start()

    async def stand(self) -> None:
        """Return when the page and the views answer. Raises ChildError."""
        await asyncio.gather(*(companion.stands() for companion in self.beside if companion.address))

    async def warm_up(self) -> None:
        """Tell when Spark is warm; when it dies, that it did: nothing else needs it."""
        for companion in self.beside:
            if not companion.address:
                began = time.monotonic()
                try:
                    await companion.warm()
                    line = f"{companion.name} is warm after {time.monotonic() - began:.0f} s: its panels are live"
                except ChildError as error:
                    line = str(error)
                self._note(line)

    def _note(self, line: str) -> None:
        self._teller.tell("note", self.story.note(_now_ms(), line))

    async def stop(self) -> None:
        """End everything, readers first."""
        await asyncio.gather(*(one.child.stop(companions.STOP_PATIENCE_S) for one in self.beside if one.child.alive))
        children = [one.child for one in self.services] + [one.child for one in self.cast]
        await asyncio.gather(*(child.stop(STOP_PATIENCE_S) for child in children if child.alive))
        await self.cluster.stop()

    def ready_line(self) -> str:
        """As of ``up``, with the brokers, the services and the members."""
        shown = [{"set": b.broker_set, "number": b.number, "address": b.address, "pid": b.child.pid} for b in self.cast]
        running = [one for one in self.services if one.child.alive]
        held = [{"key": one.key, "pid": one.child.pid} for one in running if not one.members]
        members = [{"member": name, "pid": one.child.pid} for one in running for name in one.members]
        return self.cluster.ready_line(brokers=shown, services=held, members=members, **self.places())

    def places(self) -> dict[str, str]:
        """Where the page and the views are."""
        return {companion.name: companion.url for companion in self.beside if companion.address}

    async def follow(self) -> None:
        """Read the log from whichever node answers, and tell it."""
        while True:
            for place in list(self.cluster.places.values()):
                try:
                    for fact in await asyncio.to_thread(self._news, place.http):
                        if (line := self.story.tell(fact)) is not None:
                            self._teller.tell("fact", line, fact.stamp)
                    break
                except NodeError:
                    continue
            self._teller.show(self)
            await asyncio.sleep(FOLLOW_S)

    def _news(self, address: str) -> list[Fact]:
        return list(facts(Node(address, timeout_s=1.0), self.story.offset))

    async def disturb(self, every_s: float) -> None:
        """One fault every so often, for ever."""
        async with asyncio.TaskGroup() as repairs:
            while True:
                await asyncio.sleep(every_s)
                nodes = [number for number in self.cluster.places if self.cluster.alive(number)]
                whole = len(nodes) == len(self.cluster.places) > 1
                if whole and self._rng.random() < NODE_FAULT_SHARE:
                    leader = self.story.leader
                    victim = leader if leader is not None and self._rng.random() < 1 / 2 else self._rng.choice(nodes)
                    repairs.create_task(self._kill_node(victim))
                elif victims := self._masters():
                    repairs.create_task(self._kill_broker(self._rng.choice(victims)))

    async def interrupt(self, every_s: float) -> None:
        """Stop one service after the other, some members among them, each for as long as it takes its lease to expire
        or them to be fenced, for ever.
        """
        for service in cycle(one for one in self.services if not one.stays):
            await asyncio.sleep(every_s)
            now = _now_ms()
            service.child.signal(signal.SIGKILL)
            line = self.story.stopped(now, f"SIGKILL to {service.told}", service.key)
            self._teller.tell("fault", line)
            await asyncio.sleep(DOWN_S)
            await service.child.start()
            self._note(f"{service.told} {'are' if service.members else 'is'} started again")

    def _masters(self) -> list[Broker]:
        """Masters of sets that are whole and all in sync, whose loss therefore costs nothing."""
        masters = []
        for name, known in sorted(self.story.sets.items()):
            members = [broker for broker in self.cast if broker.broker_set == name]
            fenced = any(replica.fenced for replica in known.replicas)
            if all(b.child.alive for b in members) and len(known.sync_state_set) == len(members) and not fenced:
                masters += [b for b in members if b.address == known.address(known.master)]
        return masters

    async def _kill_node(self, number: int) -> None:
        role = "the leading controller" if number == self.story.leader else "a following controller"
        now = _now_ms()  # taken before the signal: the cluster is quick
        self.cluster.kill(number)
        self._fault(now, f"SIGKILL to node {number}, {role}")
        await asyncio.sleep(NODE_DOWN_S)
        await self.cluster.start_node(number)
        self._teller.tell("note", self.story.repair(_now_ms(), f"node {number} is started again"))

    async def _kill_broker(self, broker: Broker) -> None:
        now = _now_ms()
        broker.child.signal(signal.SIGKILL)
        self._fault(now, f"SIGKILL to the master of {broker.broker_set} at {broker.address}", broker.broker_set)
        await asyncio.sleep(BROKER_DOWN_S)
        await broker.child.start()
        line = self.story.repair(_now_ms(), f"the broker at {broker.address} is started again", broker.broker_set)
        self._teller.tell("note", line)

    def _fault(self, time_ms: int, text: str, broker_set: str | None = None) -> None:
        self._teller.tell("fault", self.story.fault(time_ms, text, broker_set))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _stage(options: Namespace, names: Iterable[str]) -> dict[str, str]:
    """Every address of the brokers and of what reads beside them, and whose it is."""
    cast = (place_of(index, options) for index in range(options.sets * options.replicas))
    distances = {f"{name}-{number}": FIRST_BROKER_PORT + n for n, (name, number) in enumerate(cast)}
    distances |= {name: companions.PORTS[name] for name in names if name in companions.PORTS}
    return {name: f"{HOST}:{options.base_port + distance}" for name, distance in distances.items()}


async def _demonstrate(options: Namespace, folder: Path, teller: Teller) -> Story:
    asked = stop_asked()
    names = companions.possible(companions.wanted(options.beside), complain)
    unused(listeners(planned(folder, options.nodes, options.base_port)) | _stage(options, names))
    cluster = LocalCluster(found(folder, options.nodes, options.base_port), complain)
    controllers = ";".join(place.rpc for place in cluster.places.values())
    beside = companions.companions(names, folder, cluster.places.values(), options.base_port)
    cast = brokers(folder, options, controllers)
    simulated = services(folder, cluster.places.values()) if options.services else []
    demo = Demonstration(cluster, cast, beside, teller, random.Random(options.seed), simulated)

    ready = asyncio.Event()

    async def perform() -> None:
        complain(f"starting {options.nodes} nodes and {len(demo.cast)} brokers in {folder}")
        await demo.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(demo.follow())
            await demo.settled()
            await demo.serve()
            await demo.stand()
            teller.ready(demo)
            ready.set()
            group.create_task(demo.warm_up())
            if options.every:
                group.create_task(demo.disturb(options.every))
                group.create_task(demo.interrupt(SERVICE_FAULTS * options.every))

    playing = asyncio.create_task(perform())
    ending = asyncio.create_task(asked.wait())
    beginning = asyncio.create_task(ready.wait())
    tasks = (playing, ending, beginning)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((playing, ending), timeout=options.seconds, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            await playing
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await demo.stop()
    return demo.story


def _first(error: Exception) -> Exception:
    """The exception at the bottom of a task group's group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def run(options: Namespace) -> int:
    """Run the demonstration until told to stop."""
    die_with(options.die_with)
    teller: Teller = JsonTeller() if options.output == "json" else TableTeller() if TableTeller.fits() else LineTeller()
    with Home(options.data_dir) as folder:
        try:
            story = asyncio.run(_demonstrate(options, folder, teller))
        except ExceptionGroup as group:
            raise _first(group) from None
        finally:
            teller.close()
    teller.sum_up(story)
    complain(json.dumps(story.summary()))
    return DONE
