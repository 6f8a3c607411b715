"""Questions about keys, as etcd's ``Range`` asks them (``etcdserver/txn/range.go`` of etcd 3.6), and their answers.

Rules: pure functions of an ordered map of keys. A range is a key and a range end: none, the key alone; a zero byte, all
keys from the key on; else all keys from the key on that come before the end.
"""

from collections.abc import Callable, Mapping
from heapq import merge
from itertools import chain, islice
from typing import Any, Final, Literal

import msgspec

from quorate.model.ordered import OrderedMap
from quorate.model.state import KeyValue
from quorate.slices import Steps, finished

Order = Literal["none", "ascending", "descending"]
SortBy = Literal["key", "version", "create", "mod", "value"]

ALL_BEHIND: Final = b"\x00"
KEYS_PER_STEP: Final = 256
"""Keys that one step of a long search looks at."""


class RangeKeys(msgspec.Struct, frozen=True, gc=False, tag=True, kw_only=True, omit_defaults=True):
    """Which keys, and what of them (etcd ``RangeRequest``); 0 is no bound."""

    key: bytes
    range_end: bytes = b""
    limit: int = 0
    order: Order = "none"
    sort_by: SortBy = "key"
    keys_only: bool = False
    count_only: bool = False
    min_mod_revision: int = 0
    max_mod_revision: int = 0
    min_create_revision: int = 0
    max_create_revision: int = 0

    @property
    def by_revision(self) -> bool:
        """Are some keys of the range left out by their revisions?"""
        return bool(
            self.min_mod_revision or self.max_mod_revision or self.min_create_revision or self.max_create_revision
        )


class KeysAre(msgspec.Struct, frozen=True, gc=False, tag=True, kw_only=True, omit_defaults=True):
    """The answer. ``count``: of all keys in the range, whatever was left out of ``found``."""

    found: tuple[KeyValue, ...] = ()
    more: bool = False
    """There are more than the limit let through."""
    count: int = 0


_SORTS: Final[Mapping[SortBy, Callable[[KeyValue], Any]]] = {
    "key": lambda found: found.key,
    "version": lambda found: found.version,
    "create": lambda found: found.create_revision,
    "mod": lambda found: found.mod_revision,
    "value": lambda found: found.value,
}


def bounds(key: bytes, range_end: bytes) -> tuple[bytes, bytes | None]:
    """First key and end (None: open) of a range, for ``OrderedMap``."""
    if not range_end:
        return key, key + b"\x00"
    return key, None if range_end == ALL_BEHIND else range_end


def within(keys: OrderedMap[KeyValue], asked: RangeKeys) -> KeysAre:
    """The keys asked for, at once: ``looked_at`` says how many keys that takes."""
    return finished(finding(keys, asked))


def looked_at(keys: OrderedMap[KeyValue], asked: RangeKeys) -> int:
    """How many keys must be looked at for it: for another order than theirs, or by revisions, all of the range."""
    if not asked.range_end:
        return 1
    if asked.count_only:
        return 0
    count = keys.count(*bounds(asked.key, asked.range_end))
    return min(count, asked.limit + 1) if asked.limit > 0 and _first_found(asked) else count


def finding(keys: OrderedMap[KeyValue], asked: RangeKeys) -> Steps[KeysAre]:
    """The keys asked for, so many a step: each step's are sorted by themselves, and then merged."""
    start, end = bounds(asked.key, asked.range_end)
    if not asked.range_end:
        alone = keys.get(asked.key)
        count, items = (0, iter(())) if alone is None else (1, iter((alone,)))
    else:
        count = keys.count(start, end)
        items = (found for _, found in keys.items(start, end))
    if asked.count_only:
        return KeysAre(count=count)
    most = min(asked.limit, count) + 1 if asked.limit > 0 else count
    if _first_found(asked):  # As etcd: what is sorted then is what the limit lets through.
        items = islice(items, most)
    passes = _passing(asked) if asked.by_revision else None
    descending = asked.order == "descending"
    by = None if asked.sort_by == "key" and not descending else _SORTS[asked.sort_by]
    runs: list[list[KeyValue]] = []
    while run := list(islice(items, KEYS_PER_STEP)):
        if len(run) == KEYS_PER_STEP:
            yield
        run = list(filter(passes, run)) if passes else run
        runs.append(sorted(run, key=by, reverse=descending) if by else run)
    merged = merge(*runs, key=by, reverse=descending) if by else chain.from_iterable(runs)
    found: list[KeyValue] = []
    while some := list(islice(merged, min(KEYS_PER_STEP, most - len(found)))):
        if len(some) == KEYS_PER_STEP:
            yield
        found += some
    more = 0 < asked.limit < len(found)
    if more:
        del found[asked.limit :]
    return KeysAre(found=tuple(map(_bare, found) if asked.keys_only else found), more=more, count=count)


def _first_found(asked: RangeKeys) -> bool:
    """Is the answer of the first keys of the range, as many as there may be?"""
    return asked.order == "none" and not asked.by_revision


def _passing(asked: RangeKeys) -> Callable[[KeyValue], bool]:
    min_mod, max_mod = asked.min_mod_revision, asked.max_mod_revision
    min_create, max_create = asked.min_create_revision, asked.max_create_revision

    def passes(found: KeyValue) -> bool:
        return (
            found.mod_revision >= min_mod
            and found.create_revision >= min_create
            and not (max_mod and found.mod_revision > max_mod)
            and not (max_create and found.create_revision > max_create)
        )

    return passes


def _bare(found: KeyValue) -> KeyValue:
    return msgspec.structs.replace(found, value=b"")
