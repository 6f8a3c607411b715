"""Watchers, and who watches a key.

Rules: a watcher has its place in the log (``next``): every change at or after it is still to be told, everything before
was told. To find who watches a key costs a look-up for the key, and one for each length of prefix that is watched; only
ranges that are no prefix are compared one by one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from quorate.controller.key_history import KeyChanges
from quorate.model.keys import bounds
from quorate.model.ordered import after_prefix
from quorate.model.state import KeyValue

G = TypeVar("G")
NUMBERS_BYTES: Final = 48
"""What a key of an answer takes beside its name and its value, at most."""


class Happened(NamedTuple):
    """What became of a key: of this a watcher's answer is made once its client takes it. ``before``: if it is told."""

    name: bytes
    before: KeyValue | None
    after: KeyValue | None
    revision: int

    @property
    def size(self) -> int:
        """Bytes of an answer that it takes; at most, or few more."""
        size = NUMBERS_BYTES + len(self.name)
        if self.after is not None:
            size += len(self.after.value)
        if self.before is not None:
            size += NUMBERS_BYTES + len(self.name) + len(self.before.value)
        return size


class Watcher(Generic[G]):
    """What one watch wants. ``group``: whose it is."""

    __slots__ = (
        "deletes",
        "end",
        "fragment",
        "group",
        "next",
        "number",
        "previous",
        "progress",
        "puts",
        "start",
        "told",
    )

    def __init__(
        self,
        group: G,
        number: int,
        key: bytes,
        range_end: bytes,
        next_revision: int,
        *,
        puts: bool = True,
        deletes: bool = True,
        previous: bool = False,
        progress: bool = False,
        fragment: bool = False,
    ) -> None:
        self.group, self.number = group, number
        self.start, self.end = bounds(key or b"\x00", range_end)
        self.next = next_revision
        self.puts, self.deletes = puts, deletes
        self.previous, self.progress, self.fragment = previous, progress, fragment
        self.told = False
        """Was something told since progress was?"""

    @property
    def held(self) -> int:
        """Bytes of its range."""
        return len(self.start) + len(self.end or b"")

    def covers(self, name: bytes) -> bool:
        """Is this key in its range?"""
        return self.start <= name and (self.end is None or name < self.end)

    def happened(self, change: KeyChanges, names: Iterable[bytes]) -> list[Happened]:
        """What it is to be told of a change of these keys."""
        found = []
        for name in names:
            before, after = change.before.get(name), change.after.get(name)
            if (self.deletes and before is not None) if after is None else self.puts:
                found.append(Happened(name, before if self.previous else None, after, change.revision))
        return found


AnyWatcher = Watcher[Any]


Found = dict[int, tuple[dict[AnyWatcher, None], list[bytes]]]
"""Watchers that stand in one place, by its identity, and the keys that they watch."""


def watching(found: Found) -> Iterator[tuple[AnyWatcher, list[bytes]]]:
    """Who watches some of the keys that were looked up, and which."""
    for place, names in found.values():
        for watcher in tuple(place):
            yield watcher, names


class WatcherIndex:
    """Watchers by what they watch."""

    def __init__(self) -> None:
        self._keys: dict[bytes, dict[AnyWatcher, None]] = {}
        self._prefixes: dict[bytes, dict[AnyWatcher, None]] = {}
        self._lengths: Counter[int] = Counter()
        """How many prefixes of each length there are."""
        self._others: dict[AnyWatcher, None] = {}
        self._all: dict[AnyWatcher, None] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AnyWatcher]:
        return iter(tuple(self._all))

    def __contains__(self, watcher: AnyWatcher) -> bool:
        return watcher in self._all

    def add(self, watcher: AnyWatcher) -> None:
        """One more."""
        self._all[watcher] = None
        start, prefix = watcher.start, _prefix(watcher)
        if watcher.end == start + b"\x00":
            self._keys.setdefault(start, {})[watcher] = None
        elif prefix is not None:
            if prefix not in self._prefixes:
                self._lengths[len(prefix)] += 1
            self._prefixes.setdefault(prefix, {})[watcher] = None
        else:
            self._others[watcher] = None

    def remove(self, watcher: AnyWatcher) -> None:
        """One less, if it is here."""
        if self._all.pop(watcher, self) is self:
            return
        start, prefix = watcher.start, _prefix(watcher)
        if watcher.end == start + b"\x00":
            _taken(self._keys, start, watcher)
        elif prefix is not None:
            if _taken(self._prefixes, prefix, watcher):
                self._lengths[len(prefix)] -= 1
                if not self._lengths[len(prefix)]:
                    del self._lengths[len(prefix)]
        else:
            del self._others[watcher]

    @property
    def looks(self) -> int:
        """How many looks tell who watches a key."""
        return 1 + len(self._lengths)

    def find(self, names: Iterable[bytes], found: Found) -> None:
        """Add where those stand who watch some of these keys; but for ``others``, whom only a comparison tells. Each
        key is looked up once, for however many watchers.
        """
        for name in names:
            for place in self._places(name):
                found.setdefault(id(place), (place, []))[1].append(name)

    def _places(self, name: bytes) -> Iterator[dict[AnyWatcher, None]]:
        if name in self._keys:
            yield self._keys[name]
        for length in self._lengths:
            if length <= len(name) and name[:length] in self._prefixes:
                yield self._prefixes[name[:length]]

    def others(self) -> tuple[AnyWatcher, ...]:
        """Those whose range is neither a key nor a prefix."""
        return tuple(self._others)


def _prefix(watcher: AnyWatcher) -> bytes | None:
    """The prefix that all keys in its range have, and no others; None: there is none."""
    if watcher.end is None:
        return b"" if watcher.start <= b"\x00" else None
    return watcher.start if watcher.end == after_prefix(watcher.start) else None


def _taken(places: dict[bytes, dict[AnyWatcher, None]], name: bytes, watcher: AnyWatcher) -> bool:
    """Take it from its place; was it the last there?"""
    del places[name][watcher]
    if places[name]:
        return False
    del places[name]
    return True
