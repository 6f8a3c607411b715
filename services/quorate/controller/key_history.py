"""The keys after each of the last entries that changed them: for reads of a revision, and for watches.

Rules: a revision is the offset of an entry's last event; whole entries only, so what one decision wrote is seen at
once. Bounded by entries and by their bytes: what is older is told by the event log alone. Maps share what did not
change between them, so an entry kept costs about what it wrote.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from quorate.events import raw_name
from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue

Keys = OrderedMap[KeyValue]
_KIND = b"key/"


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
        self._entries: deque[KeyChanges] = deque()
        self._bytes = 0
        self.begin(0, OrderedMap())

    def begin(self, end_offset: int, keys: Keys) -> None:
        """These are the keys, and nothing is known of what was before."""
        self._entries.clear()
        self._bytes = 0
        self.floor = end_offset - 1
        """The lowest revision of which the keys are known."""
        self._oldest = keys

    def changed(self, end_offset: int, before: Keys, after: Keys, row_keys: Sequence[bytes], size: int) -> None:
        """An entry that ends before this offset is applied, with events of these keys."""
        names = tuple(raw_name(key.decode().split("/", 2)[2]) for key in row_keys if key.startswith(_KIND))
        self._entries.append(KeyChanges(end_offset - 1, before, after, names, size))
        self._bytes += size
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            gone = self._entries.popleft()
            self._bytes -= gone.size
            self.floor, self._oldest = gone.revision, gone.after

    def at(self, revision: int) -> Keys | None:
        """The keys after the last entry that ends at or before this revision. None: that is not known any more."""
        if revision < self.floor:
            return None
        place = bisect_right(self._entries, revision, key=_revision_of)
        return self._entries[place - 1].after if place else self._oldest

    def since(self, revision: int) -> Iterator[KeyChanges]:
        """The changes from this revision on, in order; ``revision`` must be above the floor."""
        place = bisect_right(self._entries, revision - 1, key=_revision_of)
        return islice(self._entries, place, None)


def _revision_of(changes: KeyChanges) -> int:
    return changes.revision
