"""The log as the dashboard keeps it: bytes in a file without a name, a few numbers per event in memory.

Rules: append-only, from offset 0, without gaps. Reading is safe from another thread while events are added. The file
is gone when the process is, however it ended: the cluster has the log, this is a copy.
"""

import os
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from quorate.errors import InvariantBrokenError
from quorate.events import SCHEMAS, Event, Stamp, decode, encode, entity_name, key
from quorate_spark.dashboard.rows import NOTHING, Names

INT64_MAX = (1 << 63) - 1
REPLAY_BYTES = 1 << 20
"""Read at once when many events are read."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, bytes, bytes]).decode


class Fact(msgspec.Struct, frozen=True, gc=False):
    """One event of the log, with its bytes."""

    stamp: Stamp
    event: Event
    frame: bytes
    """The event as it is on the wire; its schema may be one that this build does not have."""


def _own(fact: Fact) -> bytes:
    """The event in the newest schema of this build, where its frame is of another build's; else nothing."""
    return b"" if int.from_bytes(fact.frame[1:5], "big") in SCHEMAS else encode(fact.event)


def short_key(event: Event) -> str:
    """``broker-set/broker-a``: the key for people, without the tenant."""
    return _short(key(event))


@lru_cache(maxsize=16_384)
def _short(full: bytes) -> str:
    kind, _, name = full.decode().split("/", 2)
    return f"{kind}/{entity_name(kind, name)}"


class Spool:
    """Every event so far. Columns are indexed by offset."""

    def __init__(self) -> None:
        self._file, path = tempfile.mkstemp(prefix="quorate-dashboard-")
        self._end = weakref.finalize(self, os.close, self._file)
        Path(path).unlink()
        self._ends = array("q", [0])
        self.times = array("q")
        self.terms = array("q")
        self.types = array("B")
        self.keys = array("l")
        self.principals = array("l")
        self.causes = array("l")
        self.previous = array("q")
        """The event before it with the same key, or NOTHING."""
        self._latest = array("q")
        """By number of a key: its latest event."""
        self.type_names = Names()
        self.key_names = Names()
        self.principal_names = Names()
        self.cause_names = Names()

    def __len__(self) -> int:
        """The end offset."""
        return len(self.causes)

    def close(self) -> None:
        """Forget everything."""
        self._end()

    def append(self, fact: Fact) -> None:
        """Keep one more event. Raises InvariantBrokenError for one that cannot follow."""
        self.extend([fact])

    def extend(self, facts: list[Fact]) -> None:
        """Keep more events, with one write. Raises InvariantBrokenError for one that cannot follow; then keeps none."""
        self._check(facts)
        blobs = [_encode((fact.stamp.request_id, fact.frame, _own(fact))) for fact in facts]
        self._write(b"".join(blobs))
        for fact, blob in zip(facts, blobs, strict=True):
            stamp = fact.stamp
            self._ends.append(self._ends[-1] + len(blob))
            self.times.append(stamp.time_ms)
            self.terms.append(stamp.term)
            self.types.append(self.type_names.number(type(fact.event).__name__))
            self.keys.append(self._linked(self.key_names.number(short_key(fact.event)), stamp.offset))
            self.principals.append(self.principal_names.number(stamp.principal))
            self.causes.append(self.cause_names.number(stamp.cause))  # Last: its length is ours.

    def _linked(self, key: int, offset: int) -> int:
        """The key, whose latest event is now this one."""
        if key == len(self._latest):
            self._latest.append(NOTHING)
        self.previous.append(self._latest[key])
        self._latest[key] = offset
        return key

    def _check(self, facts: list[Fact]) -> None:
        offset = len(self)
        term, time = (self.terms[-1], self.times[-1]) if offset else (0, 0)
        for fact in facts:
            stamp = fact.stamp
            if stamp.offset != offset:
                raise InvariantBrokenError(f"event {stamp.offset} came where event {offset} belongs")
            if max(stamp.term, stamp.time_ms) > INT64_MAX:
                raise InvariantBrokenError(f"event {offset} has a number that no log of ours has")
            if stamp.term < term or stamp.time_ms < time:
                raise InvariantBrokenError(f"event {offset} is older than the one before it: another log")
            offset, term, time = offset + 1, stamp.term, stamp.time_ms

    def _write(self, data: bytes) -> None:
        os.lseek(self._file, self._ends[-1], os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def fact(self, offset: int) -> Fact:
        """One event. The offset must be below the end."""
        return next(self.facts(offset, offset + 1))

    def facts(self, start: int, stop: int) -> Iterator[Fact]:
        """Events ``start`` … ``stop`` - 1, all of which must be there."""
        at = start
        while at < stop:
            upto = max(at + 1, bisect_right(self._ends, self._ends[at] + REPLAY_BYTES, at, stop) - 1)
            base = self._ends[at]
            data = os.pread(self._file, self._ends[upto] - base, base)
            for offset in range(at, upto):
                request_id, frame, own = _decode(data[self._ends[offset] - base : self._ends[offset + 1] - base])
                yield Fact(self.stamp(offset, request_id), decode(own or frame), frame)
            at = upto

    def of_key(self, key: str, before: int) -> Iterator[int]:
        """Offsets of events with a key (in short form) and below ``before``, newest first. From one of them on, each is
        one step; from elsewhere, one for each that is newer.
        """
        number = self.key_names.known(key)
        if number is None or number >= len(self._latest):
            return
        at = before if before < len(self) and self.keys[before] == number else self._latest[number]
        while at >= before:
            at = self.previous[at]
        while at != NOTHING:
            yield at
            at = self.previous[at]

    def stamp(self, offset: int, request_id: str = "") -> Stamp:
        """The stamp of an event."""
        return Stamp(
            offset=offset,
            term=self.terms[offset],
            time_ms=self.times[offset],
            principal=self.principal_names.texts[self.principals[offset]],
            cause=self.cause_names.texts[self.causes[offset]],
            request_id=request_id,
        )

    def offset_at(self, time_ms: int) -> int:
        """How many events are not younger than a time."""
        return bisect_right(self.times, time_ms)
