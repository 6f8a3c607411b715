"""Answers about the log: Metadata, ListOffsets, Fetch, OffsetForLeaderEpoch, as far as they need no waiting.

Rules: pure reading of a ``LogView``; the server does the waiting. Never a batch that ends before the offset asked for
(librdkafka would ask for ever). An offset beyond our end is no error but nothing yet, unless the leader says that the
log ends before it: the client may have read from a node that is ahead of us (an error would make it start over, or
spin).
"""

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter

from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.kafka.view import KafkaNode, LogView
from quorate.wire import kafka_responses as responses
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_requests import (
    BY_ID,
    FetchPartition,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    OffsetQuery,
)
from quorate.wire.kafka_responses import BrokerAddress, EpochEnd, FetchedPartition, FoundOffset, TopicView
from quorate.wire.records import scan

_CacheKey = tuple[int, int, int, int]
"""(version, isolation level, offset, most bytes)."""

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
"""Special times of ListOffsets (KIP-734, KIP-405, KIP-1005); no part of the log is anywhere but here."""
SPECIAL_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The version each of the newer ones came with."""


def end_of_epoch(term_starts: Sequence[tuple[int, int]], end_offset: int, epoch: int) -> tuple[int, int]:
    """The greatest term <= ``epoch`` that wrote events, and where it ends; (-1, -1) when ``epoch`` is none, or
    not known yet.

    Java ``LeaderEpochFileCache.endOffsetFor``.
    """
    if epoch < 0 or not term_starts or epoch > term_starts[-1][0]:
        return -1, -1
    following = bisect_right(term_starts, epoch, key=itemgetter(0))
    if not following:
        return epoch, term_starts[0][1]
    end = term_starts[following][1] if following < len(term_starts) else end_offset
    return term_starts[following - 1][0], end


def cut_short(part: FetchedPartition) -> bool:
    """Did a limit of size end the records before the log does? Then waiting brings no more of them."""
    if not part.records:
        return False
    *_, last = scan(part.records)
    return last.last_offset + 1 < part.high_watermark


def own_rack(node: KafkaNode) -> str:
    """The rack that has this node alone."""
    return f"node-{node.node_id}"


def topic_id(cluster_id: str, topic: str) -> bytes:
    """The topic's id (KIP-516): the same on every node and after every restart, another in every other cluster."""
    return hashlib.blake2b(f"{cluster_id}\0{topic}".encode(), digest_size=16).digest()


class LogReader:
    """Answers one node gives about its log."""

    def __init__(self, view: LogView, settings: KafkaSettings) -> None:
        self._view = view
        self._settings = settings
        self._cache: dict[_CacheKey, bytes] = {}
        self._cached_at = -1
        self._topic_id = topic_id(view.cluster_id, settings.topic)
        self._by_id = BY_ID + self._topic_id.hex()

    def knows(self, topic: str, partition: int) -> bool:
        """Is this our one partition?"""
        return partition == 0 and topic in (self._settings.topic, self._by_id)

    def unknown(self, topic: str) -> ErrorCode:
        """How that is told of a topic, or partition, that is not ours."""
        by_id = topic.startswith(BY_ID) and topic != self._by_id
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # Metadata.

    def metadata(self, version: int, request: MetadataRequest) -> bytes:
        """Who serves the log. Without a leader it can reach, a node names itself: reading needs none."""
        view, shown = self._view, self._shown()
        leader = self._leader_among(shown)
        own = next(n for n in shown if n.node_id == view.node_id)
        reader = leader or (own if view.serving else None)
        names = (self._settings.topic,) if request.topics is None else dict.fromkeys(request.topics)
        topics = [self._topic(name, reader, shown) for name in names]
        brokers, leader_id = self.brokers(near=request.topics == ())
        return responses.metadata(version, brokers, view.cluster_id, leader_id, topics)

    def brokers(self, *, near: bool = False) -> tuple[list[BrokerAddress], int]:
        """The nodes clients are told of, and the leader among them; -1: none known.

        ``near``: a tool asks for nodes alone. It will ask each of them and fail if one is away, so these are omitted if
        this node reaches a majority; else this node may be the one that is cut off. Readers are told of all nodes: the
        leader may send them to one that was away when they asked.
        """
        shown = self._shown()
        leader = self._leader_among(shown)
        reached = [n for n in shown if n.alive]
        named = reached if near and 2 * len(reached) > len(shown) else shown
        addresses = [BrokerAddress(n.node_id, n.host, n.port, n.rack or own_rack(n)) for n in named]
        return addresses, leader.node_id if leader else -1

    def _shown(self) -> list[KafkaNode]:
        view = self._view
        return [n for n in view.nodes() if self._settings.view == "cluster" or n.node_id == view.node_id]

    def _leader_among(self, shown: Sequence[KafkaNode]) -> KafkaNode | None:
        if self._settings.view == "local":
            return shown[0] if self._view.serving else None
        return next((n for n in shown if n.node_id == self._view.leader_id and n.alive), None)

    def _topic(self, name: str, leader: KafkaNode | None, shown: Sequence[KafkaNode]) -> TopicView:
        if not self.knows(name, 0):
            return TopicView(self.unknown(name), name)
        name = self._settings.topic
        replicas = tuple(n.node_id for n in shown)
        offline = tuple(n.node_id for n in shown if not n.alive)
        if leader is None:
            error = ErrorCode.LEADER_NOT_AVAILABLE
            return TopicView(ErrorCode.NONE, name, -1, replicas, error, offline, self._topic_id)
        return TopicView(ErrorCode.NONE, name, leader.node_id, replicas, 0, offline, self._topic_id)

    # Offsets.

    def list_offsets(self, version: int, request: ListOffsetsRequest, confirmed_end: int | None) -> bytes:
        """``confirmed_end``: the leader's end offset, needed for *latest*; None: it could not be had.

        A partition that is asked for twice is refused, as by Kafka (``KafkaApis``, duplicate partitions): a time costs
        a search of the log, and a request could name thousands.
        """
        asked = Counter((name, query.partition) for name, queries in request.topics for query in queries)
        return responses.list_offsets(
            version,
            [
                (
                    name,
                    [
                        self._found(version, name, query, confirmed_end)
                        if asked[name, query.partition] == 1
                        else FoundOffset(query.partition, ErrorCode.INVALID_REQUEST)
                        for query in queries
                    ],
                )
                for name, queries in request.topics
            ],
        )

    def _found(self, version: int, topic: str, query: OffsetQuery, confirmed_end: int | None) -> FoundOffset:
        log, index = self._view.log, query.partition
        if not self.knows(topic, index):
            return FoundOffset(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not self._view.serving or (query.timestamp == LATEST and confirmed_end is None):
            return FoundOffset(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if query.timestamp == LATEST:
            return FoundOffset(index, ErrorCode.NONE, -1, confirmed_end or 0)
        if query.timestamp == EARLIEST:
            return FoundOffset(index, ErrorCode.NONE, -1, log.start_offset)
        if query.timestamp < 0 and version < SPECIAL_SINCE.get(query.timestamp, version + 1):
            return FoundOffset(index, ErrorCode.UNSUPPORTED_VERSION)
        if query.timestamp == EARLIEST_LOCAL:
            return FoundOffset(index, ErrorCode.NONE, -1, log.start_offset)
        if query.timestamp == LATEST_TIERED or log.end_offset == log.start_offset:
            return FoundOffset(index, ErrorCode.NONE)
        offset, time_ms = log.first_since(self._searched(query)) or (-1, -1)
        return FoundOffset(index, ErrorCode.NONE, time_ms, offset)

    def _searched(self, query: OffsetQuery) -> int:
        """The time to search for. Times never go back, so the last event has the largest; the first that has it is
        told.
        """
        return self._view.log.newest_ms if query.timestamp == MAX_TIMESTAMP else query.timestamp

    def times_ready(self, request: ListOffsetsRequest, done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        """Is the time that it asks for found in memory? If not, ``done`` is called as by ``ready``."""
        asked = [query for name, queries in request.topics for query in queries if self.knows(name, query.partition)]
        if len(asked) != 1 or not (asked[0].timestamp >= 0 or asked[0].timestamp == MAX_TIMESTAMP):
            return True  # Nothing is searched for.
        return self._view.log.times_ready([self._searched(asked[0])], done, wanted)

    def needs_confirmed_end(self, request: ListOffsetsRequest | OffsetForLeaderEpochRequest) -> bool:
        """Does the answer depend on where the log ends *now*?"""
        if isinstance(request, ListOffsetsRequest):
            return any(q.timestamp == LATEST for _, queries in request.topics for q in queries)
        starts = self._view.log.term_starts
        newest = starts[-1][0] if starts else 0
        return any(q.leader_epoch >= newest for _, queries in request.topics for q in queries)

    def offset_for_leader_epoch(
        self, version: int, request: OffsetForLeaderEpochRequest, confirmed_end: int | None
    ) -> bytes:
        """Where terms end. The newest one ends where the log ends, which only the leader can vouch for."""
        log = self._view.log
        complete = confirmed_end is not None and log.end_offset >= confirmed_end

        def one(topic: str, partition: int, epoch: int) -> EpochEnd:
            if not self.knows(topic, partition):
                return EpochEnd(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            newest = log.term_starts[-1][0] if log.term_starts else 0
            if not self._view.serving or (epoch >= newest and not complete):
                return EpochEnd(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return EpochEnd(partition, ErrorCode.NONE, *end_of_epoch(log.term_starts, log.end_offset, epoch))

        return responses.offset_for_leader_epoch(
            version,
            [(name, [one(name, q.partition, q.leader_epoch) for q in queries]) for name, queries in request.topics],
        )

    # Fetch.

    def _most(self, asked: int) -> int:
        """Bytes of records that an answer may hold, when a client asks for so many."""
        return min(self._settings.fetch_bytes_max, max(asked, self._settings.fetch_bytes_min))

    def ahead(self, request: FetchRequest) -> bool:
        """Does it ask for what lies beyond our end? Then the leader's word tells waiting from what cannot be."""
        end = self._view.log.end_offset
        return self._view.serving and any(
            asked.fetch_offset > end and self.knows(name, asked.partition)
            for name, partitions in request.topics
            for asked in partitions
        )

    def ready(self, version: int, request: FetchRequest, done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        """Is the first that it asks for in memory? If not, ``done``, which must not raise, is called, later, when
        ``fetch`` has it at hand; not if that is not ``wanted`` then.
        """
        if self._cache_key(version, request) in self._cache:
            return True
        for name, partitions in request.topics:
            for asked in partitions:
                if self._view.serving and self.knows(name, asked.partition):
                    limit = min(self._most(request.max_bytes), self._most(asked.max_bytes))
                    return self._view.log.ready(asked.fetch_offset, limit, done, wanted)
        return True

    def fetch(self, version: int, request: FetchRequest, final: bool, confirmed_end: int | None = None) -> bytes | None:
        """The answer, or None while it is worth waiting; ``final``: answer with what there is. ``confirmed_end``: what
        lies beyond it, and beyond our end, is out of range.

        One encoded answer serves all who ask the same at the same end offset.
        """
        if request.session_id:
            return responses.fetch(version, [], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        key = self._cache_key(version, request)
        if key is not None:
            cached = self._cache.get(key)
            if cached is not None:
                return cached
        left = self._most(request.max_bytes)
        size, settled, topics = 0, not request.topics, []
        for name, partitions in request.topics:
            parts = []
            for asked in partitions:
                part = self._fetched(name, asked, request.rack, left - size, confirmed_end)
                size += len(part.records)
                settled = settled or part.error != ErrorCode.NONE or part.preferred_replica >= 0
                parts.append(part)
            topics.append((name, parts))
        settled = settled or final or size >= request.min_bytes
        if not settled and not any(cut_short(part) for _, parts in topics for part in parts):
            return None
        body = responses.fetch(version, topics, request.isolation_level)
        if key is not None and size:
            self._cache[key] = body
        return body

    def _cache_key(self, version: int, request: FetchRequest) -> _CacheKey | None:
        """The key of an ordinary fetch: our partition, no rack, no minimum. Forgets what another end offset cached."""
        if request.rack or request.min_bytes > 1 or len(request.topics) != 1 or len(request.topics[0][1]) != 1:
            return None
        end = self._view.log.end_offset
        if end != self._cached_at or len(self._cache) >= 16:
            self._cache.clear()
            self._cached_at = end
        name, (asked,) = request.topics[0]
        if not self.knows(name, asked.partition) or not self._view.serving:
            return None
        limit = self._most(min(request.max_bytes, asked.max_bytes))
        return version, request.isolation_level, asked.fetch_offset, limit

    def _fetched(
        self, topic: str, asked: FetchPartition, rack: str, left: int, confirmed_end: int | None
    ) -> FetchedPartition:
        log, index, offset = self._view.log, asked.partition, asked.fetch_offset
        if not self.knows(topic, index):
            return FetchedPartition(index, self.unknown(topic))
        if not self._view.serving:
            return FetchedPartition(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        start, end = log.start_offset, log.end_offset
        if offset < start or (confirmed_end is not None and offset > max(end, confirmed_end)):
            return FetchedPartition(index, ErrorCode.OFFSET_OUT_OF_RANGE, end, start)
        preferred = self._preferred(rack)
        if preferred is not None:
            return FetchedPartition(index, ErrorCode.NONE, end, start, b"", preferred)
        if offset >= end or left <= 0:
            return FetchedPartition(index, ErrorCode.NONE, end, start)
        batches = log.read(offset, min(left, self._most(asked.max_bytes)))
        return FetchedPartition(index, ErrorCode.NONE, end, start, b"".join(batches))

    def _preferred(self, rack: str) -> int | None:
        """The node in the client's rack, told by the leader only (KIP-392)."""
        view = self._view
        if not rack or self._settings.view == "local" or view.leader_id != view.node_id:
            return None
        near = [n.node_id for n in view.nodes() if rack in (n.rack, own_rack(n)) and n.alive]
        return None if not near or view.node_id in near else near[0]
