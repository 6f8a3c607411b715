"""The state hash: a sum over rows, carried along from entry to entry.

Rules: a row's digest is BLAKE2b-256 over its family, its key and its value; a sum is that of all digests, modulo 2^256,
so the order of rows does not matter and a change costs what it touches: the old digest is taken off, the new one added.
Two sums: ``rows`` over the entities, which is what the events add up to, so it is equal at equal *offset* on all nodes
and in every replay; ``whole`` also over remembered requests and what consumer groups keep, equal at equal Raft *index*
(entries of groups take no offset).

Theory: an incremental multiset hash (Bellare and Micciancio, 1997: AdHASH). It finds faults, not adversaries: who
chooses rows freely can choose some with a given sum. A digest that is taken off comes from the value in memory, or was
kept since it was added; so a row that changed by itself leaves its trace either way once it is touched.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct as Layout
from typing import Final, Literal

import msgspec

from quorate.events.codec import KEPT_NAME_MAX
from quorate.metadata.requests import RequestTable, RowChange, rows_gone
from quorate.model.rows import ROWS_PER_STEP, row
from quorate.model.state import State
from quorate.slices import Steps

SummedFamily = Literal["rows", "requests", "groups"]

SUM_BYTES: Final = 32
KEPT_MAX: Final = 4096
"""Digests of entities' rows kept, so that a row that is written often is not encoded anew to take it off;
not of those with long names.
"""
RING_MAX: Final = 4096
"""Marks kept of the last entries."""

_MASK: Final = (1 << 256) - 1
_KEY_SIZE: Final = Layout("<I")
_ABSENT: Final = (0, 0)
_NOTHING: Final = (-1, 0, 0, 0, 0)
_SEEDS: Final[Mapping[SummedFamily, hashlib.blake2b]] = {
    "rows": hashlib.blake2b(digest_size=SUM_BYTES, person=b"rows"),
    "requests": hashlib.blake2b(digest_size=SUM_BYTES, person=b"requests"),
    "groups": hashlib.blake2b(digest_size=SUM_BYTES, person=b"groups"),
}


class Mark(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The sums once the entry at ``index``, of ``term``, was applied."""

    index: int
    term: int
    offset: int
    rows: int
    """Over the entities: equal at equal ``offset``."""
    whole: int
    """Over requests and groups too: equal at equal ``index``."""


def digest(family: SummedFamily, key: bytes, value: bytes) -> int:
    """Of one row."""
    hashed = _SEEDS[family].copy()
    hashed.update(_KEY_SIZE.pack(len(key)) + key + value)
    return int.from_bytes(hashed.digest(), "little")


def summing(family: SummedFamily, pairs: Iterable[tuple[bytes, bytes]]) -> Steps[int]:
    """Of all these rows, a few a step."""
    total = 0
    for count, (key, value) in enumerate(pairs, start=1):
        total += digest(family, key, value)
        if count % ROWS_PER_STEP == 0:
            yield
    return total & _MASK


def joined(*sums: int) -> int:
    """The sum over all that these are over."""
    return sum(sums) & _MASK


def packed(rows: int, whole: int) -> bytes:
    """Both sums, as a store keeps them."""
    return (rows | whole << 256).to_bytes(2 * SUM_BYTES, "little")


def shown(total: int) -> str:
    """A sum as people and programs compare it: 64 hexadecimal digits."""
    return f"{total:064x}"


class RunningSums:
    """Both sums of one state machine, and the marks of its last entries."""

    def __init__(self) -> None:
        self.rows = 0
        self._rest = 0
        """Over requests and groups."""
        self.bytes = 0
        """Of all rows, keys and values."""
        self._kept: dict[bytes, tuple[int, int]] = {}
        """Digest and size."""
        self._ring: list[tuple[int, int, int, int, int]] = [_NOTHING] * RING_MAX
        """Index, term, offset, sum over entities, sum over the rest; a ``Mark`` is made of it when somebody asks."""

    @property
    def whole(self) -> int:
        """The second sum."""
        return (self.rows + self._rest) & _MASK

    def packed(self) -> bytes:
        """Both, as the store keeps them."""
        return packed(self.rows, self.whole)

    def loading(self, family: SummedFamily, pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """The rows as they are read, each added on its way."""
        total = size = 0
        for pair in pairs:
            total += digest(family, *pair)
            size += len(pair[0]) + len(pair[1])
            yield pair
        self.bytes += size
        if family == "rows":
            self.rows = (self.rows + total) & _MASK
        else:
            self._rest = (self._rest + total) & _MASK

    def entity(self, before: State, key: bytes, value: bytes | None) -> None:
        """The row of an entity is written (None: taken away); ``before``: the state it was another in."""
        kept = self._kept
        old = kept.get(key)
        if old is None:
            was = row(before, key)
            old = _ABSENT if was is None else (digest("rows", key, was), len(key) + len(was))
        new = _ABSENT if value is None else (digest("rows", key, value), len(key) + len(value))
        if len(kept) >= KEPT_MAX:
            kept.clear()
        if len(key) <= KEPT_NAME_MAX:
            kept[key] = new
        self.rows = (self.rows + new[0] - old[0]) & _MASK
        self.bytes += new[1] - old[1]

    def requests(self, before: RequestTable, after: RequestTable, changes: Iterable[RowChange]) -> None:
        """The rows of the request table that an entry changed."""
        total = self._rest
        for key, value in rows_gone(before, after):
            total -= digest("requests", key, value)
            self.bytes -= len(key) + len(value)
        for key, now in dict(changes).items():
            if now is not None:
                total += digest("requests", key, now)
                self.bytes += len(key) + len(now)
        self._rest = total & _MASK

    def group(self, key: bytes, before: bytes | None, after: bytes | None) -> None:
        """A consumer group's row is written (None: there is none)."""
        total = self._rest
        if before is not None:
            total -= digest("groups", key, before)
            self.bytes -= len(key) + len(before)
        if after is not None:
            total += digest("groups", key, after)
            self.bytes += len(key) + len(after)
        self._rest = total & _MASK

    def mark(self, index: int, term: int, offset: int) -> None:
        """An entry is applied: remember what the sums are now."""
        self._ring[index % RING_MAX] = (index, term, offset, self.rows, self._rest)

    def at(self, index: int) -> Mark | None:
        """The sums after the entry at ``index``, if they are remembered."""
        slot_index, term, offset, entities, rest = self._ring[index % RING_MAX]
        if slot_index != index:
            return None
        return Mark(index=index, term=term, offset=offset, rows=entities, whole=(entities + rest) & _MASK)
