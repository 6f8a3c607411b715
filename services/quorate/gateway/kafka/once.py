"""Removes duplicate topics and partitions from a request, so that each is answered once.

A topic or partition costs a client a few bytes to name and us an answer to give; ten thousand times the same is
never meant.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

_P = TypeVar("_P")


def once(
    topics: Sequence[tuple[str, Sequence[_P]]], key: Callable[[_P], Hashable]
) -> Sequence[tuple[str, Sequence[_P]]]:
    """Every topic once, every partition in it once (told apart by ``key``); of what is named again the last counts."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        return topics
    merged: dict[str, dict[Hashable, _P]] = {}
    for name, partitions in topics:
        merged.setdefault(name, {}).update((key(partition), partition) for partition in partitions)
    return tuple((name, tuple(parts.values())) for name, parts in merged.items())
