"""What a log may say, told again plainly: the invariants that kills must not hurt, over every event in its order.

Rules: nothing of the model is used. An epoch is the offset of the event that gave it, so whoever was answered with an
epoch finds his own name at that offset; whatever else is written about a segment or a session names its last epoch.
"""

from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from quorate.events import (
    ControllerLeaderElected,
    Event,
    KeyDeleted,
    KeyPut,
    LeaseEnded,
    LeaseGranted,
    MemberRegistered,
    SegmentCopyDeleted,
    SegmentCreated,
    SegmentInSyncAltered,
    SegmentLeaderElected,
    SegmentSealed,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    ShardCreated,
    ShardDeleting,
    ShardGone,
    SubscriptionsChanged,
    decode,
)
from tests.consumed import record_of
from tests.kills.cluster import TOPIC, LostError

PATIENCE_S: Final = 60.0


def read_log(bootstrap: str) -> Iterator[tuple[int, int, int, Event]]:
    """Offset, term, time and event of everything there is, as a stock consumer gets it. Raises LostError."""
    options = {"bootstrap.servers": bootstrap, "group.id": "ledger", "enable.auto.commit": False}
    consumer = Consumer(options)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE_S)
        read = 0
        while read < end:
            found = consumer.consume(min(1000, end - read), PATIENCE_S)  # It waits for so many.
            if not found:
                raise LostError(f"{read} of {end} events were read")
            for message in found:
                if (error := message.error()) is not None:
                    raise LostError(f"after {read} of {end} events: {error}")
                record = record_of(message)
                if record.offset != read:
                    raise LostError(f"offset {record.offset} where {read} was due")
                read += 1
                term = int(dict(record.headers)["term"])
                yield record.offset, term, record.time_ms, decode(record.value or b"")
    finally:
        consumer.close()


class _Session:
    """The last opening of a client."""

    def __init__(self, event: SessionOpened, epoch: int) -> None:
        self.member_epoch, self.epoch, self.expiry_s = event.member_epoch, epoch, event.expiry_s
        self.gone_ms = 0


class Ledger:
    """Folds the log; ``LostError`` for what may not be."""

    def __init__(self) -> None:
        self.keys: dict[bytes, bytes] = {}
        self.given: dict[int, tuple[str, str]] = {}
        """Epochs: what has it, and who (a member; of a member itself its incarnation)."""
        self.sets: set[tuple[str, int, frozenset[str]]] = set()
        """Segment, set epoch, who is in sync."""
        self.leases: set[int] = set()
        """Those that live."""
        self.ended_ms: dict[int, int] = {}
        """Leases that ended by themselves."""
        self.sessions: dict[str, _Session] = {}
        self.deleting: dict[str, int] = {}
        self.gone: set[tuple[str, int]] = set()
        """Shards that went, by name and epoch."""
        self.across = 0
        """How many of these were to go in one term, and went in another."""
        self.ends: dict[tuple[int, str], int] = {}
        """Where a segment ends, by the epoch of its shard and its name."""
        self.copies: set[tuple[int, str, str]] = set()
        """That are deleted: the epoch of the shard, the segment, the member."""
        self._leaders: dict[int, int] = {}
        self._led: dict[str, tuple[str, int]] = {}
        self._in_sync: dict[str, set[tuple[str, int]]] = {}
        """Of a segment: members, each in one life."""
        self._left: dict[int, set[tuple[str, str]]] = {}
        """Copies of a shard, by its epoch: segment, member."""
        self._since: dict[int, int] = {}
        """The term in which a shard was to go, by its epoch."""
        self._held: dict[int, set[bytes]] = {}
        self._lease_of: dict[bytes, int] = {}
        self._shards: dict[str, int] = {}
        self._lost: dict[int, int] = {}
        self._settled: dict[int, int] = {}
        """Lost members by epoch, and since when; those of whom nothing hangs on it any more."""

    def take(self, offset: int, term: int, time_ms: int, event: Event) -> None:
        """The next event. Raises LostError."""
        match event:
            case ControllerLeaderElected(node_id=node):
                self._true(self._leaders.setdefault(term, node) == node, "one leader in a term", event)
            case MemberRegistered():
                self.given[offset] = (event.member, event.incarnation)
            case KeyPut() | KeyDeleted() | LeaseGranted() | LeaseEnded():
                self._key_or_lease(time_ms, event)
            case _:
                self._shard(offset, term, event)
                self._segment(offset, event)
                self._session(offset, time_ms, event)

    def _true(self, holds: bool, law: str, event: Event) -> None:
        if not holds:
            raise LostError(f"not so: {law}: {event}")

    def _key_or_lease(self, time_ms: int, event: KeyPut | KeyDeleted | LeaseGranted | LeaseEnded) -> None:
        match event:
            case LeaseGranted(lease=lease):
                self._true(lease not in self.leases and lease not in self.ended_ms, "a lease begins once", event)
                self.leases.add(lease)
                self._held[lease] = set()
            case LeaseEnded(lease=lease):
                self._true(lease in self.leases, "a lease that lives ends, once", event)
                self.leases.remove(lease)
                self._true(not self._held.pop(lease), "a lease ends with its keys", event)
                if event.reason == "expired":
                    self.ended_ms[lease] = time_ms
            case KeyPut():
                key = event.key.encode()
                self._detach(key)
                self.keys[key] = event.value
                if event.lease:
                    self._true(event.lease in self.leases, "a lease that has a key lives", event)
                    self._held[event.lease].add(key)
                    self._lease_of[key] = event.lease
            case KeyDeleted():
                key = event.key.encode()
                self._detach(key)
                self._true(self.keys.pop(key, None) is not None, "a key that is there is deleted", event)

    def _detach(self, key: bytes) -> None:
        if lease := self._lease_of.pop(key, 0):
            self._held[lease].discard(key)

    def _shard(self, offset: int, term: int, event: Event) -> None:
        match event:
            case ShardCreated(shard=shard):
                self._true(shard not in self._shards, "a shard begins once", event)
                self._shards[shard], self._left[offset] = offset, set()
            case ShardDeleting(shard=shard):
                self._true(self._shards.get(shard) == event.epoch, "the shard that is there is to go", event)
                self.deleting[shard], self._since[event.epoch] = event.epoch, term
            case SegmentCopyDeleted(segment=segment, member=member):
                epoch = self.deleting.get(segment.rpartition("/")[0], -1)
                left = self._left.get(epoch, set())
                self._true((segment, member) in left, "a copy that is to go is deleted, once", event)
                left.remove((segment, member))
                self.copies.add((epoch, segment, member))
            case ShardGone(shard=shard):
                self._true(self.deleting.pop(shard, None) == event.epoch, "a shard goes that is to go", event)
                self._true(not self._left.pop(event.epoch), "a shard goes with its last copy", event)
                self.gone.add((shard, self._shards.pop(shard)))
                self.across += self._since[event.epoch] != term
            case _:
                pass

    def _segment(self, offset: int, event: Event) -> None:
        match event:
            case SegmentCreated(segment=segment):
                self._lead(segment, event.copies[0].member, offset)
                self._in_sync[segment] = {(one.member, one.member_epoch) for one in event.copies}
                self._left[self._shards[segment.rpartition("/")[0]]] |= {(segment, one.member) for one in event.copies}
            case SegmentLeaderElected(segment=segment):
                elected = (event.leader, event.member_epoch)
                self._true(elected in self._in_sync.get(segment, ()), "who is elected was in sync", event)
                self._lead(segment, event.leader, offset)
                self._in_sync[segment] = {(one.member, one.member_epoch) for one in event.in_sync}
            case SegmentInSyncAltered(segment=segment):
                by = (event.leader, event.leader_epoch)
                self._true(self._led.get(segment) == by, "the last leader alone says who is in sync", event)
                self.sets.add((segment, event.set_epoch, frozenset(one.member for one in event.new)))
                self._in_sync[segment] = {(one.member, one.member_epoch) for one in event.new}
            case SegmentSealed(segment=segment):
                by = (event.leader, event.leader_epoch)
                self._true(self._led.get(segment) == by, "the last leader alone ends a segment", event)
                place = self._shards[segment.rpartition("/")[0]], segment
                self._true(place not in self.ends, "a segment ends once", event)
                self.ends[place] = event.end_offset
            case _:
                pass

    def _lead(self, segment: str, member: str, offset: int) -> None:
        self._led[segment], self.given[offset] = (member, offset), (segment, member)

    def _session(self, offset: int, time_ms: int, event: Event) -> None:
        match event:
            case SessionOpened(client=client):
                self.sessions[client] = _Session(event, offset)
                self.given[offset] = client, event.member
            case SubscriptionsChanged(client=client) | SessionDisconnected(client=client):
                session = self._current(client, event)
                if isinstance(event, SessionDisconnected):
                    session.gone_ms, session.expiry_s = event.disconnected_ms, event.expiry_s
            case SessionEnded(client=client):
                session = self._current(client, event)
                since = session.gone_ms or (self._settled | self._lost).get(session.member_epoch, 0)
                if event.reason == "expired":
                    due = since + session.expiry_s * 1000
                    self._true(bool(since) and time_ms >= due, "a session ends when it is due, not before", event)
                del self.sessions[client]
            case SessionOwnerLost():
                self._lost[event.member_epoch] = time_ms
            case SessionOwnerSettled():
                since_ms = self._lost.pop(event.member_epoch)
                if event.reason != "unfenced":  # The last session may end behind that, in the same decision.
                    self._settled[event.member_epoch] = since_ms
            case _:
                pass

    def _current(self, client: str, event: "SubscriptionsChanged | SessionDisconnected | SessionEnded") -> _Session:
        session = self.sessions.get(client)
        if session is None or session.epoch != event.session_epoch:
            raise LostError(f"not so: the last opening of a session alone is written about: {event}")
        return session
