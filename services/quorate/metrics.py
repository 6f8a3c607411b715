"""What a node counts about itself: plain integers, turned into text only when someone scrapes them.

Rules: counting is ``metrics.commits += 1`` or one ``Histogram.observe``; nothing here allocates per request, takes a
lock, or knows an exporter (that is ``gateway/http/exposition.py``). Keys of the small dicts come from closed sets
(codes, results, registered names), never from what a client may invent freely. Gauges are asked at scrape time.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable

LATENCY_BOUNDS_US = (*(step * 10**power for power in range(7) for step in (1, 3, 5)), 10**7)
"""Upper bounds of latency buckets, microseconds: 1 µs … 10 s in steps of 1, 3, 5, as ``ControllerMetricsManager``."""


class Histogram:
    """Counts per latency bucket; the last count is for what lies above every bound."""

    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BOUNDS_US) + 1)
        self.total_us = 0

    def observe(self, elapsed_us: int) -> None:
        """Count one measurement, in microseconds."""
        self.counts[bisect_left(LATENCY_BOUNDS_US, elapsed_us)] += 1
        self.total_us += elapsed_us


class Gauge:
    """A value that is asked for when scraped; ``labels`` tell gauges of one name apart."""

    __slots__ = ("about", "labels", "name", "read")

    def __init__(self, name: str, about: str, read: Callable[[], float], labels: dict[str, str]) -> None:
        self.name = name
        self.about = about
        self.read = read
        self.labels = labels


class Metrics:
    """Everything one node counts since it started. One instance per node, handed to whoever counts."""

    __slots__ = (
        "clock_behind_ms",
        "commit_us",
        "commits",
        "elections",
        "entries_not_executed",
        "events",
        "fetch_waits",
        "forwarded",
        "fsync_us",
        "fsyncs",
        "gauges",
        "kafka_bytes_out",
        "kafka_requests",
        "leader_changes",
        "peer_errors",
        "refusals",
        "request_us",
        "requests",
        "role_changes_acknowledged",
        "role_changes_failed",
        "unknown_outcomes",
    )

    def __init__(self) -> None:
        self.commits = 0
        """Commands committed and applied here (each one entry)."""
        self.commit_us = Histogram()
        """From taking a command to its answer, on the node that decided it; commands that wrote something only."""
        self.events = 0
        """Events applied here."""
        self.entries_not_executed = 0
        """Entries skipped at apply: decided in another term or at another offset."""
        self.forwarded = 0
        """Commands and reads sent on to the leader."""
        self.unknown_outcomes = 0
        """Commands proposed whose caller was told it may or may not have happened."""
        self.leader_changes = 0
        """Times this node saw another node, or itself, become leader."""
        self.role_changes_acknowledged = 0
        """1008 requests a broker answered."""
        self.role_changes_failed = 0
        """1008 requests no broker answered in time."""
        self.fsyncs = 0
        """Syncs of the journal."""
        self.fsync_us = Histogram()
        """How long each sync of the journal took."""
        self.kafka_bytes_out = 0
        """Bytes of Kafka responses sent."""
        self.fetch_waits = 0
        """Kafka fetches that had to wait for new events."""
        self.refusals: defaultdict[str, int] = defaultdict(int)
        """Refused commands by refusal code."""
        self.elections: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """(cluster, broker set, result) → count; result is RocketMQ's ``new_master_elected``, ``keep_current_master``
        or ``no_master_elected``; what this node decided. Sets that are gone are told as one without a name."""
        self.requests: defaultdict[tuple[str, str], int] = defaultdict(int)
        """(RocketMQ request type, ``success`` | ``failed`` | ``timeout``) → count."""
        self.request_us: defaultdict[str, Histogram] = defaultdict(Histogram)
        """RocketMQ request type → how long requests took from frame to reply."""
        self.kafka_requests: defaultdict[tuple[int, int], int] = defaultdict(int)
        """(API key, version) → count; only what the version window allows, so bounded."""
        self.peer_errors: defaultdict[str, int] = defaultdict(int)
        """Protocol violations by listener: ``remoting``, ``raft``, ``kafka``, ``http``."""
        self.clock_behind_ms = 0
        """How far behind the last event's time this node's clock was when that was applied: clocks differ so much."""
        self.gauges: list[Gauge] = []

    def gauge(self, name: str, about: str, read: Callable[[], float], **labels: str) -> None:
        """Register a value to ask for at scrape time; ``name`` without the ``quorate_`` prefix, units last."""
        self.gauges.append(Gauge(name, about, read, labels))
