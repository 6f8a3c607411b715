"""An ordered map that never changes: what changes it makes another one, which shares all but a few nodes with it.

Rules: keys are any bytes, in the order of their bytes; every version stays what it was, and costs nothing to keep but
the nodes that others no longer share. A range begins at its start and ends before its end. Nothing here calls itself.

Theory: a B+ tree, every leaf as deep as the next (Bayer & McCreight 1972, "Organization and Maintenance of Large
Ordered Indexes"), changed by copying the path from the root to the leaf (Okasaki 1998, "Purely Functional Data
Structures", chapter 2). A node is three tuples, which the collector of cycles soon forgets, for there is none in them:

* leaf: its keys, their values, nothing;
* branch: for each node below it the lowest key that may be there, the node, and how many keys it holds. That lowest
  key is never looked at for the first one, where all keys go that come before the second.

So a node is split by cutting its tuples in two, and two neighbours are joined by adding them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import eq, itemgetter, lt
from typing import Any, Final, Generic, TypeVar

import msgspec

from quorate.errors import check
from quorate.slices import Steps

V = TypeVar("V")
_Node = tuple[tuple[bytes, ...], tuple[Any, ...], tuple[int, ...]]
_Path = list[tuple[_Node, int]]
"""From the root to above the leaf: each branch, and which of its nodes comes next."""

_MOST: Final = 48
"""Entries of a node (docs/adr/0077)."""
_LEAST: Final = _MOST // 4
"""Of a node that is not the root. Not half: a key that is put and deleted in turns would split and join each time."""
_FILL: Final = _MOST * 3 // 4
"""Entries of a node that is built of rows in their order."""

_EMPTY: Final[_Node] = ((), (), ())
_keys_of = itemgetter(0)
_nodes_of = itemgetter(1)


class OrderedMap(msgspec.Struct, Generic[V], frozen=True, gc=False, eq=False):  # noqa: PLW1641  A hash reads all keys.
    """``OrderedMap()`` is the empty one; ``building`` makes one of many rows."""

    _root: _Node = _EMPTY
    _height: int = 0
    """Branches above each leaf."""

    def get(self, key: bytes) -> V | None:
        """The value of this key; None when it is not there."""
        keys, values, _ = self._leaf(key)
        at = bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            value: V = values[at]
            return value
        return None

    def __contains__(self, key: bytes) -> bool:
        keys = self._leaf(key)[0]
        at = bisect_left(keys, key)
        return at < len(keys) and keys[at] == key

    def __len__(self) -> int:
        return _size(self._root)

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(map(_keys_of, self._leaves(b"", None, reverse=False)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OrderedMap):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(map(eq, self.items(), other.items())))

    def __ne__(self, other: object) -> bool:
        return not self == other  # Else it would be msgspec's, which compares identities.

    def __repr__(self) -> str:
        return f"OrderedMap({len(self)} keys)"

    def items(
        self, start: bytes = b"", end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, V]]:
        """Each key from ``start`` on and before ``end`` (None: all the rest) with its value, in order or against it.

        It goes as far as it is read: ``next`` gives the first or the last, ``islice`` as many as fit an answer.
        """
        for keys, values, _ in self._leaves(start, end, reverse=reverse):
            first = bisect_left(keys, start)
            behind = len(keys) if end is None else bisect_left(keys, end)
            if reverse:
                yield from zip(keys[first:behind][::-1], values[first:behind][::-1], strict=True)
                if first:
                    return
            else:
                yield from zip(keys[first:behind], values[first:behind], strict=True)
                if behind < len(keys):
                    return

    def count(self, start: bytes = b"", end: bytes | None = None) -> int:
        """How many keys there are from ``start`` on and before ``end``; no key is read for it."""
        before_end = len(self) if end is None else self._rank(end)
        return max(0, before_end - self._rank(start))

    def set(self, key: bytes, value: V) -> "OrderedMap[V]":
        """The map in which the key has this value."""
        path, (keys, values, _) = self._way(key)
        at = bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            return _grafted(path, (keys, _with(values, at, value), ()), 0)
        return _grafted(path, (_inserted(keys, at, key), _inserted(values, at, value), ()), 1)

    def delete(self, key: bytes) -> "OrderedMap[V]":
        """The map without the key. Raises KeyError when it is not there."""
        path, (keys, values, _) = self._way(key)
        at = bisect_left(keys, key)
        if at == len(keys) or keys[at] != key:
            raise KeyError(key)
        return _grafted(path, (keys[:at] + keys[at + 1 :], values[:at] + values[at + 1 :], ()), -1)

    def _leaf(self, key: bytes) -> _Node:
        """Where the key is, or would be."""
        node = self._root
        for _ in range(self._height):
            node = node[1][bisect_right(node[0], key, 1) - 1]
        return node

    def _way(self, key: bytes) -> tuple[_Path, _Node]:
        """The same, and the way there."""
        path: _Path = []
        node = self._root
        for _ in range(self._height):
            at = bisect_right(node[0], key, 1) - 1
            path.append((node, at))
            node = node[1][at]
        return path, node

    def _leaves(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[_Node]:
        """The leaf where such a range begins and all behind it, or where it ends and all before it."""
        level: Iterator[_Node] = iter((self._root,))
        for _ in range(self._height):
            lows, nodes, _ = next(level)
            if reverse:
                behind = len(nodes) if end is None else bisect_left(lows, end, 1)
                level = chain(reversed(nodes[:behind]), chain.from_iterable(map(reversed, map(_nodes_of, level))))
            else:
                first = bisect_right(lows, start, 1) - 1
                level = chain(nodes[first:], chain.from_iterable(map(_nodes_of, level)))
        return level

    def _rank(self, key: bytes) -> int:
        """How many keys come before this one."""
        rank, node = 0, self._root
        for _ in range(self._height):
            lows, nodes, counts = node
            at = bisect_right(lows, key, 1) - 1
            rank += sum(counts[:at])
            node = nodes[at]
        return rank + bisect_left(node[0], key)


def building(pairs: Iterable[tuple[bytes, V]]) -> Steps[OrderedMap[V]]:
    """The map of these keys and values, a node a step. Raises InvariantBrokenError if the keys do not ascend."""
    rows, level, height = iter(pairs), list[_Node](), 0
    while chunk := tuple(islice(rows, _FILL)):
        keys, values = zip(*chunk, strict=True)
        run = level[-1][0][-1:] + keys if level else keys
        check(all(map(lt, run, run[1:])), "the keys of a map do not ascend")
        level.append((keys, values, ()))
        yield
    level = _evened(level)
    while len(level) > 1:
        above: list[_Node] = []
        for first in range(0, len(level), _FILL):
            above.append(_branch(tuple(level[first : first + _FILL])))
            yield
        level, height = _evened(above), height + 1
    return OrderedMap(level[0], height) if level else OrderedMap()


def after_prefix(prefix: bytes) -> bytes | None:
    """Where the keys with this prefix end: the first key that comes after them all. None: no key does."""
    shortest = prefix.rstrip(b"\xff")
    return shortest[:-1] + bytes((shortest[-1] + 1,)) if shortest else None


def _grafted(path: _Path, node: _Node, added: int) -> OrderedMap[Any]:
    """The map in which this node, which holds so many keys more, stands at the end of the path. The nodes of the path
    are made anew; one that is too large is split, one that is too small is joined with its neighbour.
    """
    height = len(path)
    while path:
        (lows, nodes, counts), at = path.pop()
        if _LEAST <= len(node[0]) <= _MOST:
            counts = _with(counts, at, counts[at] + added) if added else counts
            node = (lows, _with(nodes, at, node), counts)
            continue
        first, behind, parts = at, at + 1, _halves(node)
        if len(node[0]) < _LEAST:
            first = max(at - 1, 0)
            behind, parts = first + 2, _joined(nodes[first], node) if at else _joined(node, nodes[1])
        made = _branch(parts)
        node = (
            lows[: first + 1] + made[0][1:] + lows[behind:],
            nodes[:first] + parts + nodes[behind:],
            counts[:first] + made[2] + counts[behind:],
        )
    if len(node[0]) > _MOST:
        return OrderedMap(_branch(_halves(node)), height + 1)
    if height and len(node[0]) == 1:
        return OrderedMap(node[1][0], height - 1)
    return OrderedMap(node, height)


def _branch(nodes: tuple[_Node, ...]) -> _Node:
    """The node above these."""
    return tuple([node[0][0] for node in nodes]), nodes, tuple(map(_size, nodes))


def _halves(node: _Node) -> tuple[_Node, ...]:
    keys, items, counts = node
    half = len(keys) // 2
    return (keys[:half], items[:half], counts[:half]), (keys[half:], items[half:], counts[half:])


def _joined(left: _Node, right: _Node) -> tuple[_Node, ...]:
    """Two neighbours as one node, or two of one size if that were too large."""
    node = (left[0] + right[0], left[1] + right[1], left[2] + right[2])
    return (node,) if len(node[0]) <= _MOST else _halves(node)


def _evened(level: list[_Node]) -> list[_Node]:
    """The nodes of a level, when what was left for the last of them was too little for a node."""
    if len(level) > 1 and len(level[-1][0]) < _LEAST:
        level[-2:] = _joined(*level[-2:])
    return level


def _size(node: _Node) -> int:
    """How many keys there are in and below it."""
    return sum(node[2]) or len(node[0])


def _with(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    """The tuple with another item in this place; by way of a list, which is half the work of adding three tuples."""
    changed = [*items]
    changed[at] = item
    return tuple(changed)


def _inserted(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    """The tuple with one more item, before the one in this place."""
    changed = [*items]
    changed.insert(at, item)
    return tuple(changed)
