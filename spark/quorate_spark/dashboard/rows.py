"""Rows of whole numbers, and texts as numbers: how the indexes keep millions of facts in little memory.

Rules: rows are only added at the end; the first column never falls, so that a prefix is found by bisection.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

NOTHING = -1
"""Stands for None in a column."""


class Rows:
    """A table of ``width`` columns of 64-bit numbers."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._cells = array("q")
        self._first = array("q")

    def __len__(self) -> int:
        return len(self._first)

    def append(self, *row: int) -> int:
        """Add a row; its number. Its length must be the table's width."""
        if len(row) != self._width:
            raise ValueError(f"a row of {len(row)} in a table of {self._width}")
        # The first column last: who cuts by it never sees half a row.
        self._cells.extend(row)
        self._first.append(row[0])
        return len(self._first) - 1

    def cut(self, value: int) -> int:
        """How many rows have a first column below ``value``."""
        return bisect_left(self._first, value)

    def row(self, number: int) -> tuple[int, ...]:
        """One row."""
        start = number * self._width
        return tuple(self._cells[start : start + self._width])

    def get(self, number: int, column: int) -> int:
        """One cell."""
        return self._cells[number * self._width + column]

    def put(self, number: int, column: int, value: int) -> None:
        """Fill in a cell that was not known when its row was added."""
        self._cells[number * self._width + column] = value

    def rows(self, start: int, stop: int) -> Iterator[tuple[int, ...]]:
        """Rows ``start`` … ``stop`` - 1."""
        return map(self.row, range(start, stop))


class Names:
    """Texts by number, in the order they were first seen."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text; a new one if need be."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number

    def known(self, text: str) -> int | None:
        """The number of a text, if it was ever seen."""
        return self._numbers.get(text)
