"""The live table: who is heard, how lately, and how far each broker's log reaches. Soft state of every node.

Rules: heartbeats are never log entries. A heartbeat costs a few attribute writes: no task, timer, log line or metric
object; what is overdue is looked for once a second, among all only when somebody's patience may have run out. A close
counts only on the channel of the last heartbeat and only when confirmed (liveness.py); until then the broker is
*suspect*, still alive.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Protocol

import msgspec

from quorate.metadata.commands import Evidence
from quorate.model.live import LogReport

LiveKey = tuple[str, str, int]
"""(cluster, broker set, broker id)."""


class Beat(LogReport, Protocol):
    """A heartbeat, whoever decoded it: such as wire.remoting_headers.HeartbeatFields."""

    @property
    def cluster(self) -> str:
        """RocketMQ ``clusterName``."""

    @property
    def broker_set(self) -> str:
        """RocketMQ ``brokerName``."""

    @property
    def broker_id(self) -> int | None:
        """Never None here: the gateway answers a heartbeat without an id."""

    @property
    def address(self) -> str:
        """Where the broker serves, ``host:port``."""

    @property
    def timeout_ms(self) -> int:
        """How long its silence means nothing."""


class LiveInfo(msgspec.Struct, frozen=True, gc=False):
    """What a broker's last heartbeat said (metadata.context.LiveInfo)."""

    epoch: int
    max_offset: int
    confirm_offset: int
    priority: int
    last_heartbeat_ms: int


class Channel(Protocol):
    """A broker's connection, as the table sees it."""

    address: str
    last: object | None
    """The table's own: the entry of the last heartbeat on this channel."""


class LiveEntry:
    """One broker. Times are monotonic seconds; mutable, owned by the table."""

    __slots__ = (
        "address",
        "alive",
        "alive_since",
        "broker_id",
        "broker_set",
        "channel",
        "closed_at",
        "closed_elsewhere",
        "cluster",
        "confirm_offset",
        "died_at",
        "epoch",
        "evidence",
        "last_dial",
        "max_offset",
        "priority",
        "seen",
        "timeout_s",
    )

    def __init__(self, beat: Beat, broker_id: int, now: float) -> None:
        self.cluster = beat.cluster
        self.broker_set = beat.broker_set
        self.broker_id = broker_id
        self.address = beat.address
        self.epoch = beat.epoch
        self.max_offset = beat.max_offset
        self.confirm_offset = beat.confirm_offset
        self.priority = beat.priority
        self.timeout_s = 10.0
        self.seen = now
        self.alive = True
        self.alive_since = now
        self.died_at = 0.0
        self.evidence: Evidence = ""
        self.channel: Channel | None = None
        self.closed_at: float | None = None
        self.last_dial = 0.0
        self.closed_elsewhere: dict[int, float] = {}

    @property
    def key(self) -> LiveKey:
        """(cluster, broker set, broker id)."""
        return (self.cluster, self.broker_set, self.broker_id)

    @property
    def suspect(self) -> bool:
        """Its channel closed, nothing was heard since, and nobody has confirmed the death."""
        return self.alive and self.closed_at is not None


def _nobody(_: LiveEntry) -> None:
    """Nobody listens."""


class LiveTable:
    """All brokers heard by this node. ``on_alive`` is called with a broker heard for the first time, or again after it
    was dead.
    """

    def __init__(
        self,
        *,
        started: float,
        timeout_s: float,
        timeout_max_s: float,
        entries_max: int,
        on_alive: Callable[[LiveEntry], None] = _nobody,
    ) -> None:
        self._entries: dict[LiveKey, LiveEntry] = {}
        self._living: dict[LiveKey, LiveEntry] = {}
        self._dead: OrderedDict[LiveKey, LiveEntry] = OrderedDict()
        self._dead_of: dict[str, dict[LiveKey, LiveEntry]] = {}
        self._by_channel: dict[int, dict[LiveKey, LiveEntry]] = {}
        self.judged_from = started + timeout_s
        """From here on a broker that was never heard counts as dead; before it is too early to say."""
        self._timeout_s = timeout_s
        self._timeout_max_s = timeout_max_s
        self._entries_max = entries_max
        self.beats = 0
        self.ignored = 0
        self.suspects = 0
        self._on_alive = on_alive
        self._none_overdue_until = inf
        """Up to then nobody's patience runs out: whoever is heard only moves on."""

    def __len__(self) -> int:
        """How many brokers were ever heard."""
        return len(self._entries)

    @property
    def living(self) -> int:
        """How many entries are alive, suspects among them."""
        return len(self._living)

    def __iter__(self) -> Iterator[LiveEntry]:
        """Entries, oldest first."""
        return iter(self._entries.values())

    def get(self, cluster: str, broker_set: str, broker_id: int) -> LiveEntry | None:
        """The entry, or None: never heard here."""
        return self._entries.get((cluster, broker_set, broker_id))

    def heard(self, beat: Beat, channel: Channel, now: float) -> None:
        """Take a heartbeat. Offsets move only forward as the pair (epoch, max offset) (Java ``onBrokerHeartbeat``)."""
        self.beats += 1
        entry = channel.last
        if (
            not isinstance(entry, LiveEntry)
            or entry.broker_id != beat.broker_id
            or entry.broker_set != beat.broker_set
            or entry.cluster != beat.cluster
            or entry.channel is not channel
        ):
            bound = self._bind(beat, channel, now)
            if bound is None:
                return
            entry = bound
        self._update(entry, beat, now)

    def _update(self, entry: LiveEntry, beat: Beat, now: float) -> None:
        entry.seen = now
        if entry.closed_at is not None:
            entry.closed_at = None
            self.suspects -= 1
        entry.address = beat.address
        entry.priority = beat.priority
        timeout_s = beat.timeout_ms / 1000.0
        if timeout_s != entry.timeout_s:
            self._be_patient(entry, timeout_s)
        epoch = beat.epoch
        if not entry.alive:
            entry.alive = True
            self._uncount_dead(entry)
            self._living[entry.key] = entry
            entry.alive_since = now
            entry.evidence = ""
            self._begin(entry, beat)
            self._be_patient(entry, timeout_s)
            self._on_alive(entry)
        elif epoch > entry.epoch or (epoch == entry.epoch and beat.max_offset >= entry.max_offset):
            entry.epoch = epoch
            entry.max_offset = beat.max_offset
            entry.confirm_offset = beat.confirm_offset

    def _begin(self, entry: LiveEntry, beat: Beat) -> None:
        """Another life, perhaps with less of a log: what the last one had says nothing (Java forgets at the close)."""
        entry.epoch = beat.epoch
        entry.max_offset = beat.max_offset
        entry.confirm_offset = beat.confirm_offset

    def _bind(self, beat: Beat, channel: Channel, now: float) -> LiveEntry | None:
        """Find or make the entry and tie it to the channel its last heartbeat came on."""
        if beat.broker_id is None:
            return None
        key = (beat.cluster, beat.broker_set, beat.broker_id)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= self._entries_max:
                self.ignored += 1
                return None
            entry = self._entries[key] = self._living[key] = LiveEntry(beat, beat.broker_id, now)
            self._be_patient(entry, beat.timeout_ms / 1000.0)
            self._on_alive(entry)
        if entry.channel is not channel:
            if entry.channel is not None:
                self._untie(entry)
            else:
                self._begin(entry, beat)
            entry.channel = channel
            entry.closed_elsewhere.clear()
            self._by_channel.setdefault(id(channel), {})[key] = entry
        channel.last = entry
        return entry

    def _untie(self, entry: LiveEntry) -> None:
        tied = self._by_channel.get(id(entry.channel))
        if tied is not None and tied.pop(entry.key, None) is not None and not tied:
            del self._by_channel[id(entry.channel)]

    def closed(self, channel: Channel, now: float) -> list[LiveEntry]:
        """The channel closed: the living brokers whose last heartbeat came on it are now suspect."""
        channel.last = None
        suspects = []
        for entry in self._by_channel.pop(id(channel), {}).values():
            entry.channel = None
            if entry.alive:
                self.suspects += entry.closed_at is None
                entry.closed_at = now
                suspects.append(entry)
        return suspects

    def overdue(self, now: float) -> list[LiveEntry]:
        """Living entries whose patience ran out; the caller decides (``mark_dead``). All are looked at only when one of
        them may be.
        """
        if now <= self._none_overdue_until:
            return []
        found = [e for e in self._living.values() if e.seen + e.timeout_s < now]
        self._none_overdue_until = min([e.seen + e.timeout_s for e in self._living.values()], default=inf)
        return found

    def _be_patient(self, entry: LiveEntry, timeout_s: float) -> None:
        """It lives, and this is how long it asks to be waited for."""
        entry.timeout_s = min(timeout_s, self._timeout_max_s) if timeout_s > 0 else self._timeout_s
        self._none_overdue_until = min(self._none_overdue_until, entry.seen + entry.timeout_s)

    def suspected(self) -> list[LiveEntry]:
        """The living whose channel closed."""
        return [e for e in self._living.values() if e.suspect] if self.suspects else []

    def dead_of(self, broker_set: str) -> list[LiveEntry]:
        """The dead that named this set."""
        return list(self._dead_of.get(broker_set, {}).values())

    def some_dead(self, most: int) -> list[LiveEntry]:
        """At most so many of the dead, others at each call until all were asked for."""
        entries = [entry for _, entry in zip(range(most), self._dead.values(), strict=False)]
        for entry in entries:
            self._dead.move_to_end(entry.key)
        return entries

    def mark_dead(self, entry: LiveEntry, evidence: Evidence, now: float) -> None:
        """It is dead until heard again."""
        self._uncount(entry)
        if self._entries.get(entry.key) is entry:
            self._dead[entry.key] = entry
            self._dead_of.setdefault(entry.broker_set, {})[entry.key] = entry
        entry.alive = False
        entry.evidence = evidence
        entry.died_at = now
        entry.closed_at = None
        entry.closed_elsewhere.clear()

    def forget(self, entry: LiveEntry) -> None:
        """As if it had never been heard; its channel may still be open and bring it back."""
        if entry.channel is not None:
            self._untie(entry)
            entry.channel = None
        self._uncount(entry)
        entry.alive, entry.closed_at = False, None
        self._uncount_dead(entry)
        del self._entries[entry.key]

    def _uncount_dead(self, entry: LiveEntry) -> None:
        if self._dead.pop(entry.key, None) is not None:
            of_set = self._dead_of[entry.broker_set]
            del of_set[entry.key]
            if not of_set:
                del self._dead_of[entry.broker_set]

    def _uncount(self, entry: LiveEntry) -> None:
        self._living.pop(entry.key, None)
        self.suspects -= entry.suspect

    def at(self, now: float, now_ms: int = 0) -> "LiveNow":
        """The table at this moment, which is ``now_ms`` by the wall clock."""
        return LiveNow(self._entries, self.judged_from, now, now_ms)


class LiveNow(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The table at one moment, as ``decide`` and the queries see it (model.live.LiveView)."""

    _entries: Mapping[LiveKey, LiveEntry]
    _judged_from: float
    now: float
    now_ms: int

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        """True / False by evidence; None = never heard here and too early to say (one timeout after the start)."""
        entry = self._entries.get((cluster, broker_set, broker_id))
        if entry is None:
            return None if self.now < self._judged_from else False
        return entry.alive and entry.seen + entry.timeout_s >= self.now

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        """Did its channel close, unconfirmed?"""
        entry = self._entries.get((cluster, broker_set, broker_id))
        return entry is not None and entry.suspect

    def info(self, cluster: str, broker_set: str, broker_id: int) -> LiveInfo | None:
        """What its last heartbeat said, or None."""
        entry = self._entries.get((cluster, broker_set, broker_id))
        if entry is None:
            return None
        return LiveInfo(
            epoch=entry.epoch,
            max_offset=entry.max_offset,
            confirm_offset=entry.confirm_offset,
            priority=entry.priority,
            last_heartbeat_ms=self.now_ms - int((self.now - entry.seen) * 1000),
        )
