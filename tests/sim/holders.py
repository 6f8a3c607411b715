"""Holders of leases: each takes one, attaches a key to it, keeps it alive through any node, and falls silent one day.

Rules: a holder knows what an etcd client knows: it was told *kept* or *not found*, or nothing. It counts from when it
asked, for the leader counts from when it heard.

Theory: a lease is a promise in both directions. It does not end within its time from a word that was answered, whoever
leads by then and however fast its clock runs; and once its holder is silent it ends, with its keys, however often the
leader changes: its time, the period of notes and the grace later. What counts is the time in which something was
committed, for nobody can end a lease without a leader, and in which the node that leads now was there: one that starts
anew does not know how long a note stood before, and no note of a lease of a second can say less than a second.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from quorate.events import Event, KeyDeleted, KeyPut, LeaseEnded, LeaseGranted
from quorate.metadata.commands import Command, GrantLease, KeepLease, PutKey
from tests.sim.clients import Answer, Done, Result, Service
from tests.sim.cluster import Cluster
from tests.sim.nodes import LEASE_CHECKPOINT_S, LEASE_GRACE_S, CoreNode
from tests.sim.world import ViolationError

KEPT: Final = "a lease whose holder is heard does not end"
WITH_KEYS: Final = "a lease ends with its keys, and with these alone"
ENDS: Final = "a lease ends in its time, however often the leader changes"
IDLE_S: Final = 0.5
"""A pause between two commits that is longer counts as none of a leader's time."""
LATE_S: Final = 5.0
"""For a last word that is on its way, and for what is noticed by sweeps and tried again."""
SOON_S: Final = 1.0
"""The same for a leader that was there all the time."""
TTL_S: Final = 1
"""The shortest: what is left of it must run out in the time a run has."""
FAST: Final = 1.05
"""Seconds the fastest machine counts in one (``faults``)."""


class Holder:
    """One lease after the other."""

    def __init__(self, holders: "Holders", number: int) -> None:
        self._holders, self._number = holders, number
        self._random = holders.cluster.world.random
        self._lives = 0
        self.lease = 0
        self.heard_s = 0.0
        """When the last request that was answered *kept* was made."""
        self._silent_s: float | None = None
        """None: nobody said yet that it is granted."""

    def begin(self) -> None:
        """Another lease."""
        self._lives += 1
        self.lease, self.heard_s, self._silent_s = self._number * 1000 + self._lives, 0.0, None
        self._holders.by_lease[self.lease] = self

    def _granted(self, lease: int, asked_s: float, result: Result) -> None:
        if isinstance(result, Done) and lease == self.lease:
            self._silent_s = self._holders.cluster.world.now + 0.3 + self._random.random() * 2.0
            self._ask(PutKey(key=b"/held/%d" % self._number, value=b"%d" % lease, lease=lease), self._nothing)

    def _nothing(self, lease: int, asked_s: float, result: Result) -> None:
        """Whatever became of it."""

    def _kept(self, lease: int, asked_s: float, result: Result) -> None:
        if isinstance(result, Done) and lease == self.lease:
            self.heard_s = max(self.heard_s, asked_s)
            self._holders.cluster.counts["leases kept alive"] += 1

    def _ask(self, command: Command, told: Callable[[int, float, Result], None]) -> None:
        cluster, lease = self._holders.cluster, self.lease
        tag = self._holders.tag()
        self._holders.asked[lease] = self._holders.led_s

        def call(service: Service, done: Answer) -> None:
            assert isinstance(service, CoreNode)
            service.submit(command, tag, "", done)

        cluster.ask(self._random.choice(cluster.voters), call, partial(told, lease, cluster.world.now), "lease")

    def step(self) -> None:
        """Ask for the lease, or keep it alive; or be silent, and begin anew about when it should have ended."""
        world = self._holders.cluster.world
        if self._holders.stopped:
            return
        if self._silent_s is None:
            self._ask(GrantLease(lease=self.lease, ttl_s=TTL_S), self._granted)
        elif world.now < self._silent_s:
            self._ask(KeepLease(lease=self.lease), self._kept)
        elif world.now > self._silent_s + TTL_S * 1.5:
            self.begin()
        world.after(TTL_S / 5 * (0.5 + self._random.random()), self.step)


class Holders:
    """All of them, and what the log says of leases. ``in_time``: leaders have room to end what is due."""

    def __init__(self, cluster: Cluster, count: int, *, in_time: bool) -> None:
        self.cluster = cluster
        self._in_time = in_time
        self.by_lease: dict[int, Holder] = {}
        self._holders = [Holder(self, number) for number in range(1, count + 1)]
        self._attached: dict[int, set[str]] = {}
        self._lease_of: dict[str, int] = {}
        self._asked = 0
        self.asked: dict[int, float] = {}
        """By lease, when its holder last said anything: in leaders' time."""
        self.led_s = 0.0
        """How long there was a leader that could commit."""
        self._committed_s = 0.0
        self._began_s: dict[tuple[int, int], float] = {}
        """By node and life: when it was first seen, in leaders' time."""
        self.stopped = False

    def start(self) -> None:
        """Begin."""
        for holder in self._holders:
            holder.begin()
            self.cluster.world.after(self.cluster.world.random.random(), holder.step)

    def stop(self) -> None:
        """All fall silent for good."""
        self.stopped = True

    @property
    def settled(self) -> bool:
        """Has every lease of those that are silent ended?"""
        return not self._attached

    def tag(self) -> str:
        """Of the next attempt."""
        self._asked += 1
        return f"lease-{self._asked}"

    def committed(self, event: Event) -> None:
        """The next event of the log. Raises ViolationError."""
        self._time_passes()
        match event:
            case LeaseGranted():
                self._attached[event.lease] = set()
            case KeyPut(key=key, lease=lease):
                self._detach(key)
                if lease:
                    if lease not in self._attached:
                        raise ViolationError(WITH_KEYS, f"{event}: there is no such lease")
                    self._attached[lease].add(key)
                    self._lease_of[key] = lease
            case KeyDeleted(key=key):
                self._detach(key)
            case LeaseEnded():
                self._ended(event)
            case _:
                pass

    def _time_passes(self) -> None:
        now = self.cluster.world.now
        if now - self._committed_s < IDLE_S:
            self.led_s += now - self._committed_s
        self._committed_s = now
        for process in self.cluster.processes():
            self._began_s.setdefault((process.node_id, process.incarnation), self.led_s)
        soonest_s = TTL_S * FAST + LEASE_CHECKPOINT_S + LEASE_GRACE_S
        for lease in self._attached if self._in_time else ():
            silent_s = self.led_s - self.asked[lease]
            if silent_s > soonest_s + LATE_S and self._leader_was_there_s() > soonest_s + SOON_S:
                raise ViolationError(ENDS, f"{lease} lives {silent_s:.3f} s after its holder's last word")

    def _leader_was_there_s(self) -> float:
        """For how long, in leaders' time, the node that leads has lived; 0 when none does."""
        if not (leaders := self.cluster.leaders()):
            return 0.0
        leader = max(leaders, key=lambda process: process.node.engine.term)
        return self.led_s - self._began_s[leader.node_id, leader.incarnation]

    def _detach(self, key: str) -> None:
        lease = self._lease_of.pop(key, 0)
        if lease:
            self._attached[lease].discard(key)

    def _ended(self, event: LeaseEnded) -> None:
        if left := self._attached.pop(event.lease):
            raise ViolationError(WITH_KEYS, f"{event} left {left}")
        self.cluster.counts["leases expired"] += event.reason == "expired"
        holder = self.by_lease[event.lease]
        since_s = self.cluster.world.now - holder.heard_s
        if holder.lease == event.lease and since_s * FAST < TTL_S:
            raise ViolationError(KEPT, f"{event}, {since_s:.3f} s after its holder was heard")
