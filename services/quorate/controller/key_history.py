"""The keys after each of the last entries that changed them: for reads of a revision, and for watches.

Rules: a revision is the offset of an entry's last event; whole entries only, so what one decision wrote is seen at
once. Bounded by entries and by their bytes: what is older is told by the event log alone. Maps share what did not
change between them, so an entry kept costs about what it wrote.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from quorate.events import raw_name
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue

Keys = OrderedMap[KeyValue]
_KIND = b"key/"
GONE_MAX: Final = 128
"""Entries that are kept although they do not count any more."""


class KeyChanges(msgspec.Struct, frozen=True, gc=False):
    """What one entry did to keys."""

    revision: int
    before: Keys
    after: Keys
    names: tuple[bytes, ...]
    """Of the keys it touched, in the order of its events."""
    size: int
    """Bytes of its events."""


class KeyHistory:
    """Of the last ``entries_max`` entries that changed keys, and ``bytes_max`` bytes of them."""

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self.begin(0, OrderedMap())

    def begin(self, end_offset: int, keys: Keys) -> None:
        """These are the keys, and nothing is known of what was before."""
        self._entries: list[KeyChanges] = []
        """Those that count begin at ``_first``: the others go many at a time. A list, to be cut anywhere."""
        self._first = 0
        self._bytes = 0
        self.floor = end_offset - 1
        """The lowest revision of which the keys are known."""
        self._oldest = keys

    def changed(self, end_offset: int, before: Keys, after: Keys, row_keys: Sequence[bytes], size: int) -> None:
        """An entry that ends before this offset is applied, with events of these keys."""
        names = tuple(raw_name(key.decode().split("/", 2)[2]) for key in row_keys if key.startswith(_KIND))
        entries = self._entries
        entries.append(KeyChanges(end_offset - 1, before, after, names, size))
        self._bytes += size
        while len(entries) - self._first > self._entries_max or self._bytes > self._bytes_max:
            gone = entries[self._first]
            self._first += 1
            self._bytes -= gone.size
            self.floor, self._oldest = gone.revision, gone.after
        if self._first >= GONE_MAX:
            del entries[: self._first]
            self._first = 0

    def at(self, revision: int) -> Keys | None:
        """The keys after the last entry that ends at or before this revision. None: that is not known any more."""
        if revision < self.floor:
            return None
        place = self._behind(revision)
        return self._entries[place - 1].after if place > self._first else self._oldest

    def since(self, revision: int, most: int) -> list[KeyChanges]:
        """So many changes from this revision on, in order; ``revision`` must be above the floor."""
        place = self._behind(revision - 1)
        return self._entries[place : place + most]

    def _behind(self, revision: int) -> int:
        """Where the first entry is that ends after this revision."""
        return bisect_right(self._entries, revision, lo=self._first, key=_revision_of)


def _revision_of(changes: KeyChanges) -> int:
    return changes.revision
