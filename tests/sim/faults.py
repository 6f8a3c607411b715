"""What goes wrong, when, and to whom: a seed's own climate, drawn once, and the storms it sends.

Theory (swarm testing, Groce et al. 2012): a run in which every fault is equally likely explores little; so each seed
draws its own rates, many of them zero, and its own targets (leaders more often than chance would).
"""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Literal

import msgspec

from quorate.consensus.journal.frames import (
    FRAMES_AT,
    LAG_UNKNOWN,
    SEAL_AT,
    SEAL_BYTES,
    decode_frame,
    decode_header,
    decode_seal,
    seed_of,
)
from quorate.consensus.ports import NodeId
from quorate.consensus.storage.store import read_applied
from tests.sim.cluster import Cluster, Host, Process
from tests.sim.directories import Directories
from tests.sim.disk import SECTOR, Loss, SimDisk
from tests.sim.network import Weather
from tests.sim.room import HARDLY, LITTLE, PLENTY

WEIGHTS = {
    "crash": 4.0,
    "crash all": 0.7,
    "partition": 1.0,
    "one way": 1.0,
    "isolate": 1.0,
    "bridge": 1.0,
    "depose": 2.0,
    "hand over": 1.0,
    "heal": 3.0,
    "stall": 1.0,
    "slow": 1.0,
    "pause": 1.0,
    "weather": 1.0,
    "reset": 1.0,
    "lose journal": 0.5,
    "fail disk": 1.0,
    "skew": 0.5,
    "cut and stall": 1.0,
    "disk full": 0.7,
    "unreadable": 0.5,
    "unreadable sector": 0.5,
    "rot": 1.0,
    "drift": 0.7,
    "deafen": 0.7,
    "pair off": 2.0,
    "jump": 0.5,
    "wipe": 1.0,
    "put back": 4.0,
    "clone": 0.4,
    "exchange": 0.4,
    "store rot": 0.5,
    "disk low": 0.7,
    "voter file rot": 0.4,
    "log rot": 1.0,
}
"""How often each kind of fault strikes, relative to the others."""
AMONG_SEVERAL = {
    "partition",
    "one way",
    "isolate",
    "bridge",
    "depose",
    "hand over",
    "deafen",
    "pair off",
    "lose journal",
    "rot",
    "unreadable sector",
    "cut and stall",
    "wipe",
    "put back",
    "clone",
    "exchange",
    "store rot",
    "voter file rot",
    "log rot",
}
LASTS_S = {
    "partition": 0.5,
    "one way": 0.5,
    "isolate": 0.5,
    "bridge": 0.5,
    "depose": 0.4,
    "stall": 0.3,
    "slow": 0.5,
    "weather": 0.5,
    "disk full": 0.3,
    "drift": 0.5,
    "cut and stall": 0.5,
    "deafen": 0.8,
    "pair off": 0.6,
    "jump": 0.5,
    "disk low": 0.7,
}
"""How long a fault is held to go on when it is counted what it met (``coverage``)."""
AIMED = {
    "vote": ("crash",),
    "snapshot": ("crash leader", "crash", "cut"),
    "truncation": ("crash", "crash leader"),
    "election": ("crash", "cut", "stall"),
    "trim": ("crash", "power"),
}
"""Directed climates: at such a moment, one of these befalls the node it happens to (or its leader), right then or
within a few milliseconds. Chance alone brings a leader's death into one snapshot of hundreds."""


DAY_MS = 86_400_000


class Climate(msgspec.Struct, frozen=True):
    """A seed's rates. ``gap_s``: longest calm between two faults, virtual seconds."""

    weights: dict[str, float]
    gap_s: float
    leader_share: float
    power_share: float
    aims: dict[str, float]
    """Moment → chance that something befalls the node then."""
    downtimes_s: tuple[float, ...]
    weather: Weather

    @staticmethod
    def draw(random: Random, size: int) -> "Climate":
        """One climate."""
        kinds = [kind for kind in WEIGHTS if size > 1 or kind not in AMONG_SEVERAL]
        if size < 5:
            kinds = [kind for kind in kinds if kind not in {"bridge", "pair off"}]
        if random.random() < 0.4:
            chosen = {"heal", *random.sample(kinds, 3)}
        else:
            chosen = {"heal", *(kind for kind in kinds if random.random() < 0.75)}
        return Climate(
            weights={kind: weight for kind, weight in WEIGHTS.items() if kind in chosen},
            gap_s=random.choice((0.05, 0.15, 0.4, 0.8)),
            leader_share=random.choice((0.3, 0.6, 0.9)),
            power_share=random.choice((0.0, 0.5, 0.5, 1.0)),
            aims={moment: random.choice((0.0, 0.0, 0.1, 0.3, 0.6)) for moment in sorted(AIMED)},
            downtimes_s=random.choice(((0.005, 0.05), (0.05, 0.4), (0.3, 1.0))),
            weather=draw_weather(random),
        )


def draw_weather(random: Random) -> Weather:
    """One kind of weather."""
    return Weather(
        loss=random.choice((0.0, 0.0, 0.02, 0.1)),
        duplicate=random.choice((0.0, 0.02, 0.2)),
        reorder=random.choice((0.0, 0.0, 0.05, 0.2)),
        straggle=random.choice((0.0, 0.0, 0.01)),
        delay_max_s=random.choice((0.001, 0.005, 0.02)),
    )


class Nemesis:
    """Sends the storms until ``stop``."""

    def __init__(self, cluster: Cluster, climate: Climate) -> None:
        self._cluster = cluster
        self._climate = climate
        self._random = cluster.world.random
        self._stopped = False
        self.directories = Directories(cluster, self._random)
        self.faults = 0
        self._strikes: dict[str, Callable[[], None]] = {
            "crash": self._crash,
            "crash all": self._crash_all,
            "partition": self._partition,
            "one way": self._one_way,
            "isolate": self._isolate,
            "bridge": self._bridge,
            "depose": self._depose,
            "hand over": self._hand_over,
            "heal": self._heal,
            "stall": self._stall,
            "slow": self._slow,
            "pause": self._pause,
            "weather": self._weather,
            "reset": self._reset,
            "lose journal": self._lose_journal,
            "fail disk": self._fail_disk,
            "skew": self._skew,
            "cut and stall": self._cut_and_stall,
            "disk full": self._disk_full,
            "unreadable": self._unreadable,
            "unreadable sector": self._unreadable_sector,
            "rot": self._rot,
            "drift": self._drift,
            "deafen": self._deafen,
            "pair off": self._pair_off,
            "jump": self._jump,
            "wipe": self._wipe,
            "put back": self._put_back,
            "clone": self._clone,
            "exchange": self._exchange,
            "store rot": self._rot_store,
            "disk low": self._disk_low,
            "voter file rot": self._rot_voter_file,
            "log rot": self._rot_log,
        }

    def start(self) -> None:
        """Begin."""
        self._cluster.fabric.weather = self._climate.weather
        self.directories.start()
        self._cluster.world.after(self._random.random() * 0.6, self._next)

    def stop(self, but: Iterable[NodeId] = ()) -> None:
        """All faults end: wires whole, disks fast, everybody awake. Of ``but`` nobody is spared: each stays dead, cut
        off both ways or one, or asleep, until ``relent``.
        """
        self._stopped = True
        cluster = self._cluster
        cluster.fabric.heal()
        cluster.fabric.weather = Weather()
        cluster.client_loss = 0.0
        cluster.set_free(cluster.voters, PLENTY)
        for host in cluster.hosts.values():
            host.slowness.factor = 1.0
            host.slowness.stalled_until = 0.0
            host.disk.failing = host.disk.full = host.disk.unreadable = False
            host.disk.bad.clear()
            self._skew_clock(host, 0)
        for node in but:
            self._forsake(node)

    def _forsake(self, node: NodeId) -> None:
        """Nobody mends this one."""
        cluster, fate = self._cluster, self._random.choice(("dead", "dead", "cut off", "deaf", "mute", "asleep"))
        cluster.counts[f"left {fate}"] += 1
        cluster.world.note(f"n{node} left {fate}")
        host = cluster.hosts[node]
        others = self._others(node)
        match fate:
            case "dead":
                host.kept_down = True
                cluster.crash(node, self._loss(), 0.0)
            case "cut off":
                cluster.fabric.cut |= {pair for peer in others for pair in ((node, peer), (peer, node))}
            case "deaf":
                cluster.fabric.cut |= {(peer, node) for peer in others}
            case "mute":
                cluster.fabric.cut |= {(node, peer) for peer in others}
            case _:
                if host.process is not None:
                    host.process.loop.forsaken = True
                    host.process.loop.pause()

    def relent(self, nodes: Iterable[NodeId]) -> None:
        """They are mended too."""
        self._cluster.fabric.heal()
        for node in nodes:
            host = self._cluster.hosts[node]
            host.kept_down = False
            self._cluster.start(node)
            if host.process is not None and host.process.loop.forsaken:
                host.process.loop.forsaken = False
                host.process.loop.resume()

    def _next(self) -> None:
        if self._stopped:
            return
        (kind,) = self._random.choices(list(self._climate.weights), list(self._climate.weights.values()))
        self.faults += 1
        self._cluster.world.note(f"fault {kind}")
        self._cluster.coverage.strike(kind, LASTS_S.get(kind, 0.0))
        self._strikes[kind]()
        self._cluster.world.after(self._random.random() * self._climate.gap_s, self._next)

    def _victim(self) -> NodeId:
        leaders = self._cluster.leaders()
        if leaders and self._random.random() < self._climate.leader_share:
            return self._random.choice(leaders).node_id
        return self._random.choice(self._cluster.voters)

    def _others(self, node: NodeId) -> list[NodeId]:
        return [peer for peer in self._cluster.voters if peer != node]

    def _loss(self) -> Loss:
        return "power" if self._random.random() < self._climate.power_share else "kill"

    def _down_s(self) -> float:
        return self._random.random() * self._random.choice(self._climate.downtimes_s)

    def crash_soon(self, node: NodeId, within_s: float, loss: Loss | None = None) -> None:
        """Crash the process that runs there now, unless it is gone by then."""
        process = self._cluster.hosts[node].process

        def strike() -> None:
            if process is not None and process.alive and not self._stopped:
                self._cluster.crash(node, loss or self._loss(), self._down_s())

        self._cluster.world.after(self._random.random() * within_s, strike)

    def moment(self, name: str, node: NodeId) -> None:
        """Something rare happened to the node: the most instructive moment to suffer. (Called within a turn.)"""
        aimed = AIMED.get(name)
        if aimed is None or self._stopped or self._random.random() >= self._climate.aims[name]:
            return
        what = self._random.choice(aimed)
        leaders = [process.node_id for process in self._cluster.leaders() if process.node_id != node]
        victim = self._random.choice(leaders) if what == "crash leader" and leaders else node
        self._cluster.counts[f"aimed: {what} at {name}"] += 1
        self._cluster.coverage.strike(what if what != "power" else "crash")
        match what:
            case "cut":
                self._cluster.world.after(0.0, lambda: self._cut_for(victim, 0.1 + self._random.random() * 0.6))
            case "stall":
                self._stall_disk(victim, 0.2 + self._random.random())
            case _:
                self.crash_soon(
                    victim, self._random.choice((0.0005, 0.004, 0.05)), "power" if what == "power" else None
                )

    def _crash(self) -> None:
        self._cluster.crash(self._victim(), self._loss(), self._down_s())

    def _crash_all(self) -> None:
        loss = self._loss()
        for node in self._cluster.voters:
            self._cluster.crash(node, loss, self._down_s())

    def _cut(self, pairs: set[tuple[NodeId, NodeId]], count: str) -> None:
        """Lose frames on these wires from now on; some of their sessions break for good."""
        self._cluster.counts[count] += 1
        self._cluster.fabric.cut |= pairs
        for a, b in sorted(pairs):
            if self._random.random() < 0.3:
                self._cluster.world.after(self._random.random(), lambda a=a, b=b: self._break_if_cut(a, b))  # type: ignore[misc]

    def _break_if_cut(self, a: NodeId, b: NodeId) -> None:
        if (a, b) in self._cluster.fabric.cut:
            self._cluster.fabric.reset(a, b)

    def _partition(self) -> None:
        nodes = list(self._cluster.voters)
        self._random.shuffle(nodes)
        some = set(nodes[: self._random.randrange(1, len(nodes))])
        self._cut({(a, b) for a in nodes for b in nodes if (a in some) != (b in some)}, "partitions")

    def _one_way(self) -> None:
        node = self._victim()
        out = self._random.random() < 0.5
        peers = [peer for peer in self._others(node) if self._random.random() < 0.7]
        self._cut({(node, peer) if out else (peer, node) for peer in peers}, "one-way partitions")

    def _isolate(self) -> None:
        node = self._victim()
        self._cut({pair for peer in self._others(node) for pair in ((node, peer), (peer, node))}, "partitions")

    def _bridge(self) -> None:
        """Two halves that hear each other only through one node."""
        nodes = list(self._cluster.voters)
        self._random.shuffle(nodes)
        half = len(nodes) // 2
        left, right = nodes[:half], nodes[half + 1 :]
        self._cut({pair for a in left for b in right for pair in ((a, b), (b, a))}, "partitions")

    def _heal(self) -> None:
        self._cluster.fabric.heal()

    def _stall(self) -> None:
        self._stall_disk(self._victim(), self._random.choice((0.05, 0.3, 1.0)))

    def _stall_disk(self, node: NodeId, for_s: float) -> None:
        self._cluster.counts["disk stalls"] += 1
        self._cluster.hosts[node].slowness.stalled_until = self._cluster.world.now + for_s

    def _slow(self) -> None:
        for host in self._cluster.hosts.values():
            host.slowness.factor = 1.0
        self._cluster.hosts[self._victim()].slowness.factor = self._random.choice((1, 10, 40))

    def _pause(self) -> None:
        self._cluster.pause(self._victim(), self._random.choice((0.05, 0.3, 1.0)) * self._random.random())

    def _weather(self) -> None:
        self._cluster.fabric.weather = draw_weather(self._random)
        self._cluster.client_loss = self._random.choice((0.0, 0.02, 0.1))

    def _reset(self) -> None:
        node = self._victim()
        for peer in self._others(node):
            if self._random.random() < 0.7:
                self._cluster.fabric.reset(node, peer)

    def _lose_journal(self) -> None:
        """Only while a majority remembers: two forgotten journals of three are a lost cluster, and no bug."""
        node = self._victim()
        if self._majority_remembers_without(node):
            self._cluster.crash(node, "power", self._down_s(), lose_journal=True)

    def _majority_remembers_without(self, node: NodeId) -> bool:
        """Two of five may forget together, in a cluster that is founded."""
        cluster = self._cluster
        others = [peer for peer in self._others(node) if cluster.remembers(peer) and cluster.has_state(peer)]
        running = [self._cluster.hosts[peer].process for peer in self._others(node)]
        founded = any(process is not None and process.node.offset for process in running)
        return founded and len(others) >= self._cluster.quorum and not self._cluster.untold - {node}

    def _others_vote(self, node: NodeId) -> bool:
        """And is the cluster founded? Before that, one that lost its journal waits for an operator (ADR 47)."""
        if self._cluster.untold - {node}:
            return False
        cluster, others = self._cluster, self._others(node)
        return all(cluster.votes(peer) and cluster.has_state(peer) and cluster.founded(peer) for peer in others)

    def _rot(self) -> None:
        """A bit flips, a sector is never written or written elsewhere, a file is cut short (at a record's edge, as by a
        crash, or anywhere) or gone: all of it in a journal, while its node is down; or bits and sectors of what is
        sealed, beneath a node that runs (consensus/storage/scrub.py). Only while every other node may vote.
        """
        self._of_one(self._rot_of)
        self._of_one(self._rot_beneath)

    def _rot_beneath(self, node: NodeId, _down_s: float) -> bool:
        damage = damage_sealed(self._cluster.hosts[node].disk, self._random)
        if damage is not None:
            self._cluster.counts[f"rot beneath who runs: {damage}"] += 1
        return damage is not None

    def _rot_of(self, node: NodeId, down_s: float) -> bool:
        self._cluster.crash(node, self._loss(), down_s)
        self._cluster.forgetful.add(node)  # Until it is seen to vote.
        self._cluster.lost_at[node] = self._cluster.world.now  # In the last frames it looks like a crash to the node.
        host = self._cluster.hosts[node]
        with host.store.readable():
            applied = read_applied(host.store)
        host.store.settle()  # It is what proves the damage: a start that is cut short may not take it.
        damage = damage_journal(host.disk, self._random, 0 if applied is None else applied.durable_seq)
        self._cluster.counts[f"rot: {damage}"] += 1
        return True

    def _rot_store(self) -> None:
        """The store cannot be opened, or a row of the state is not what was written: while its node is down."""
        self._of_one(self._rot_store_of)

    def _rot_store_of(self, node: NodeId, down_s: float) -> bool:
        host = self._cluster.hosts[node]
        if not self._cluster.has_state(node):
            return False
        self._cluster.crash(node, self._loss(), down_s)
        host.store_hurt = True
        self._cluster.counts[f"store rot: {host.store.damage()}"] += 1
        return True

    def _rot_log(self) -> None:
        """A batch of the event log, or a row that says how far the store is, is not what was written: while its node is
        down, or beneath one that runs, which reads on (consensus/storage/scrub.py) until it meets it.
        """
        self._of_one(self._rot_log_of)

    def _rot_log_of(self, node: NodeId, down_s: float) -> bool:
        host = self._cluster.hosts[node]
        if not self._cluster.has_state(node):
            return False
        if self._random.random() < 0.5:
            self._cluster.crash(node, self._loss(), down_s)
        damage = host.store.damage_log()
        host.store_hurt = host.store.hurt
        self._cluster.counts[f"log rot: {damage}"] += 1
        return True

    def _rot_voter_file(self) -> None:
        """A bit of the voter file flips, or the file is cut short or gone: while its node is down. Its journal is
        whole, and nothing says that its votes and acknowledgements are all there.
        """
        self._of_one(self._rot_voter_file_of)

    def _rot_voter_file_of(self, node: NodeId, down_s: float) -> bool:
        cluster, host, random = self._cluster, self._cluster.hosts[node], self._random
        if not cluster.has_state(node):
            return False
        cluster.crash(node, self._loss(), down_s)
        small = bytearray(host.disk.small or b"")
        if host.process is not None or not small:
            return True
        kind = random.choice(("bit", "truncation", "deletion"))
        at = random.randrange(len(small))
        small[at] ^= 1 << random.randrange(8)
        host.disk.small = {"bit": bytes(small), "truncation": bytes(small[:at]), "deletion": None}[kind]
        cluster.counts[f"voter file rot: {kind}"] += 1
        cluster.journal_lost(host)
        return True

    def _wipe(self) -> None:
        self._of_one(self._wipe_of)

    def _wipe_of(self, node: NodeId, down_s: float) -> bool:
        self._cluster.counts["directories wiped"] += 1
        self.directories.wipe(node, down_s)
        return True

    def _of_one(self, strike: Callable[[NodeId, float], bool], tries: int = 12) -> None:
        """To the first it can be done to, from some victim on; only while every other one votes, so perhaps later."""
        first = self._victim()
        for node in (first, *self._others(first)):
            runs = self._cluster.hosts[node].process is not None
            if runs and self._others_vote(node) and strike(node, self._down_s()):
                return
        if tries and not self._stopped:
            self._cluster.world.after(0.08, lambda: None if self._stopped else self._of_one(strike, tries - 1))

    def _put_back(self) -> None:
        """Copies are made now, of nodes as they run or of one that dies and is not back yet; soon one is put back."""
        node = self._victim()
        if self._random.random() < 0.6:
            self._cluster.crash(node, self._loss(), self._down_s())
            self.directories.copy(node, self._loss())
        else:
            for voter in self._cluster.voters:
                self.directories.copy(voter, self._loss())
        later_s = 0.1 + self._random.random() * 0.9
        self._cluster.world.after(later_s, lambda: None if self._stopped else self._of_one(self.directories.put_back))

    def _clone(self) -> None:
        node = self._victim()
        self.directories.clone(node, self._random.choice(self._others(node)), self._loss(), self._down_s())

    def _exchange(self) -> None:
        node = self._victim()
        self.directories.exchange(node, self._random.choice(self._others(node)), self._loss(), self._down_s())

    def _fail_disk(self) -> None:
        self._cluster.fail_disk(self._victim())

    def _disk_full(self) -> None:
        """ENOSPC, and after a while there is room again."""
        self._for_a_while("full", self._victim(), 0.05 + self._random.random() * 0.5)

    def _disk_low(self) -> None:
        """Less is free on one disk than the floor, or on all, for others grow too; then hardly more; then there is
        room.
        """
        nodes = self._cluster.voters if self._random.random() < 0.3 else (self._victim(),)
        for_s = 0.1 + self._random.random()
        self._cluster.set_free(nodes, LITTLE)

        def room(free: int) -> None:
            if not self._stopped:  # A disk that is low later is not this fault's.
                self._cluster.set_free(nodes, free)

        for at_s, free in ((for_s, HARDLY), (for_s + 0.3, PLENTY)):
            self._cluster.world.after(at_s, partial(room, free))

    def _unreadable(self) -> None:
        """EIO on every read, for a moment (a controller resets)."""
        self._for_a_while("unreadable", self._victim(), 0.05 + self._random.random() * 0.3)

    def _unreadable_sector(self) -> None:
        """A sector of a journal that was written well cannot be read any more (EIO): nobody knows before it is read,
        by a node that reads old entries or starts.
        """
        self._of_one(self._unreadable_sector_of)

    def _unreadable_sector_of(self, node: NodeId, down_s: float) -> bool:
        disk = self._cluster.hosts[node].disk
        names = written(disk)
        if not names:
            return False
        name = self._random.choice(names)
        disk.bad.add((name, self._random.randrange(len(disk.view[name].rstrip(b"\0"))) // SECTOR))
        self._cluster.counts["sectors gone bad"] += 1
        if self._random.random() < 0.5:
            self._cluster.crash(node, self._loss(), down_s)
        return True

    def _for_a_while(self, state: Literal["full", "unreadable"], node: NodeId, for_s: float) -> None:
        disk = self._cluster.hosts[node].disk
        self._cluster.counts[f"disks {state}"] += 1
        setattr(disk, state, True)
        self._cluster.world.after(for_s, lambda: setattr(disk, state, False))

    def _drift(self) -> None:
        """Clocks that run at other speeds, each from its next start on; the wall clock with them."""
        for host in self._cluster.hosts.values():
            host.rate = self._random.choice((0.95, 0.99, 1.0, 1.01, 1.05))

    def _skew(self) -> None:
        host = self._cluster.hosts[self._victim()]
        self._skew_clock(host, self._random.choice((-600_000, -5000, -50, 0, 50, 5000, 600_000)))

    def _jump(self) -> None:
        """Wall clocks leap beyond everything that is kept by time, and back after a while: a leader's, one, or all."""
        hosts = list(self._cluster.hosts.values())
        leaders = [self._cluster.hosts[process.node_id] for process in self._cluster.leaders()]
        struck = self._random.choice((leaders, [self._random.choice(hosts)], hosts))
        skew_ms = self._random.choice((-DAY_MS, -3_600_000, 3_600_000, DAY_MS, 400 * DAY_MS))
        for host in struck:
            self._skew_clock(host, skew_ms)
            self._cluster.world.after(0.1 + self._random.random(), partial(self._skew_clock, host, 0))

    @staticmethod
    def _skew_clock(host: Host, skew_ms: int) -> None:
        host.wall_skew_ms = skew_ms
        if host.process is not None:
            host.process.loop.wall_skew_ms = skew_ms

    def _cut_and_stall(self) -> None:
        """A node cut off with its disk stuck, for a moment: held acks meet a new term."""
        node = self._victim()
        self._stall_disk(node, 0.2 + self._random.random() * 0.8)
        self._cut_for(node, 0.15 + self._random.random() * 0.5)

    def _depose(self) -> None:
        """A leader cut off until another may lead, then back with what it wrote alone."""
        leaders = self._cluster.leaders()
        if leaders:
            self._cut_for(self._random.choice(leaders).node_id, 0.2 + self._random.random() * 0.6)

    def _deafen(self) -> None:
        """A leader that is heard and hears nobody: others have its last entries, and it never learns that."""
        leaders = self._cluster.leaders()
        if leaders:
            node = leaders[0].node_id
            pairs = {(peer, node) for peer in self._others(node)}
            self._cut(pairs, "one-way partitions")
            self._cluster.world.after(0.4 + self._random.random() * 0.8, lambda: self._uncut(pairs))

    def _pair_off(self) -> None:
        """A leader and one follower on one side, all others on the other."""
        leaders = self._cluster.leaders()
        if leaders:
            pair = {leaders[0].node_id, self._random.choice(self._others(leaders[0].node_id))}
            nodes = self._cluster.voters
            pairs = {(a, b) for a in nodes for b in nodes if (a in pair) != (b in pair)}
            self._cut(pairs, "partitions")
            self._cluster.world.after(0.3 + self._random.random() * 0.7, lambda: self._uncut(pairs))

    def _hand_over(self) -> None:
        """A leader is asked to let another lead, as a stopping node asks itself."""
        for process in self._cluster.leaders():
            self._cluster.counts["hand-overs"] += 1
            process.loop.io(partial(_hand_over, process))

    def _cut_for(self, node: NodeId, for_s: float) -> None:
        pairs = {pair for peer in self._others(node) for pair in ((node, peer), (peer, node))}
        self._cut(pairs, "partitions")
        self._cluster.world.after(for_s, lambda: self._uncut(pairs))

    def _uncut(self, pairs: set[tuple[NodeId, NodeId]]) -> None:
        if not self._stopped:
            self._cluster.fabric.cut -= pairs


def written(disk: SimDisk) -> list[str]:
    """Segments of the journal that have begun."""
    return [name for name in disk.names() if name.endswith(".journal") and any(disk.view[name][:SECTOR])]


def damage_journal(disk: SimDisk, random: Random, known_seq: int) -> str:
    """Hurt one segment that has been written to, where something durable proves it; what was done. ``known_seq``:
    operations that the store knows were durable.
    """
    names = written(disk)
    if not names:
        return "nothing"
    name = random.choice(names)
    disk.hurt = True
    content = disk.view[name]
    used = len(content.rstrip(b"\0"))
    disk.settle(name)
    kind = random.choice(("bit", "bit", "lost sector", "misdirected sector", "truncation", "deletion"))
    if kind == "deletion":
        for files in (disk.view, disk.image):
            del files[name]
        disk.rotten.discard(name)
        return kind
    if kind == "truncation":
        at = random.randrange(used)
        if at % 2 and cut_at_edge(disk, name, at, known_seq):
            return "cut at an edge"
        del content[at:]
    elif kind == "bit":
        content[random.randrange(used)] ^= 1 << random.randrange(8)
    else:  # Below the sector that was written last: of that, nothing but the other nodes can know.
        below = range(0, max(1, (used - 1) // SECTOR) * SECTOR, SECTOR)
        at = random.choice([at for at in below if name != names[-1] or shows(bytes(content), at, known_seq)])
        new = disk.view[random.choice(names)][SECTOR : 2 * SECTOR] if kind == "misdirected sector" else bytes(SECTOR)
        content[at : at + SECTOR] = new
    disk.image[name] = bytearray(content)
    return kind


def damage_sealed(disk: SimDisk, random: Random) -> str | None:
    """Hurt a sealed segment in which nothing is under way, beneath a process that may remember all of it; what was
    done. None: there is no such segment, or the journal is hurt already.
    """
    seals = {name: decode_seal(bytes(disk.view[name][:FRAMES_AT])) for name in written(disk)[:-1] if disk.settled(name)}
    ends = {name: seal.end for name, seal in seals.items() if seal is not None and seal.end > FRAMES_AT}
    if disk.hurt or not ends:
        return None
    name = random.choice(sorted(ends))
    content, kind = bytearray(disk.view[name]), random.choice(("bit", "lost sector", "misdirected sector"))
    if kind == "bit":
        content[random.randrange(FRAMES_AT, ends[name])] ^= 1 << random.randrange(8)
    else:
        at = random.randrange(FRAMES_AT, ends[name], SECTOR)
        end = min(at + SECTOR, ends[name])
        new = disk.view[name][SECTOR : 2 * SECTOR] if kind == "misdirected sector" else bytes(SECTOR)
        content[at:end] = new[: end - at]
    if content == disk.view[name]:
        return None
    disk.view[name], disk.image[name] = content, bytearray(content)
    disk.hurt = True
    disk.rotten.add(name)
    return kind


def shows(data: bytes, at: int, known_seq: int) -> bool:
    """Is it seen that the sector at ``at`` of the last segment is gone? Not if all that spoke for the first record in
    it goes with it: what is left is what a power loss may leave of a write that was under way (journal/recovery.py).
    """
    header = decode_header(data)
    if at < FRAMES_AT or header is None:
        return True
    first, offset, seed = 0, FRAMES_AT, seed_of(header.segment)
    while (frame := decode_frame(data, offset, seed)) is not None and frame.intact:
        offset = frame.end
        if not first and frame.end > at:
            first = frame.seq
        if first and frame.start >= at + SECTOR and frame.lag != LAG_UNKNOWN and frame.seq - frame.lag >= first:
            return True
    return not first or first <= known_seq


def _hand_over(process: Process) -> None:
    process.node.engine.transfer_leadership()


def cut_at_edge(disk: SimDisk, name: str, before: int, known_seq: int) -> bool:
    """Cut the journal at the last edge of a record before byte ``before`` of this segment, as if nothing behind it had
    ever been written. False, and nothing done: no edge there takes what is known to have been durable.
    """
    content = disk.view[name]
    header = decode_header(bytes(content))
    if header is None or header.start_seq > known_seq:
        return False
    data, at, seed = bytes(content), FRAMES_AT, seed_of(header.segment)
    while (frame := decode_frame(data, at, seed)) is not None and frame.end <= before and frame.seq < known_seq:
        at = frame.end
    content[at:] = bytes(len(content) - at)
    content[SEAL_AT : SEAL_AT + SEAL_BYTES] = bytes(SEAL_BYTES)
    for later in [other for other in disk.names() if other.endswith(".journal") and other > name]:
        for files in (disk.view, disk.image):
            files.pop(later, None)
    disk.image[name] = bytearray(content)
    disk.cut = True
    return True
