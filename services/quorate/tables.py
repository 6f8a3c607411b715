"""Tables for eyes: left-aligned columns that fit the terminal.

Rules: nothing is left out. What is too wide is first wrapped within its columns; where the words themselves do not fit
side by side, each row becomes a block of lines, a name and a value each. A word is broken only where it is longer than
all that is left of a line. Into a pipe a row is one line, as wide as it is. Nothing a terminal would obey is printed
(quorate/terminal.py).
"""

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from quorate.terminal import visible, visible_bytes

GAP = "  "
ROOM_MIN, BELOW = 40, 10
"""A text that would have less beside its head stands below it, so far in."""
_WORD = re.compile(r"\S+?(?:,|$|(?=\s))")


def terminal_width() -> int | None:
    """Of the terminal that stdout is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns(header: Sequence[str], rows: Iterable[Sequence[object]], width: int | None = None) -> Iterable[str]:
    """The lines of a table; ``width``: of the terminal, when it is not the one that stdout is."""
    width = width or terminal_width()
    cells = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    if width is not None and _whole(widths) > width:
        words = [max(len(word) for row in cells for word in _words(row[column])) for column in range(len(header))]
        if _whole(words) > width:
            yield from _blocks(cells, width)
            return
        widths = _narrowed(widths, words, width)
    for row in cells:
        yield from _lines(row, widths)


def cell(value: object) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value)) or "-"
    return _text(value)


def _text(value: object) -> str:
    return visible_bytes(value) if isinstance(value, bytes) else visible(str(value))


def wrapped(text: str, width: int) -> list[str]:
    """Its words in lines of this width; a comma ends a word too, and one that is longer than a line is broken."""
    lines, line = list[str](), ""
    for match in _WORD.finditer(text):
        glue = " " if line and text[match.start() - 1].isspace() else ""
        if line and len(line) + len(glue) + len(match[0]) > width:
            lines.append(line)
            line, glue = "", ""
        line += glue + match[0]
        while len(line) > width:
            lines.append(line[:width])
            line = line[width:]
    return [*lines, line]


def hanging(head: str, text: str, width: int | None = None) -> Iterator[str]:
    """``text`` behind its head, wrapped on a terminal: under its beginning, or below the head where little is left."""
    width = width or terminal_width()
    if width is None or len(head) + len(text) <= width:
        yield head + text
        return
    if width - len(head) < ROOM_MIN:
        yield head.rstrip()
        head = " " * min(BELOW, width // 2)
    for line in wrapped(text, width - len(head)):
        yield head + line
        head = " " * len(head)


def _words(text: str) -> list[str]:
    return _WORD.findall(text) or [""]


def _whole(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _narrowed(widths: Sequence[int], words: Sequence[int], width: int) -> list[int]:
    """The widest is made narrower until all fit; none gets narrower than its longest word."""
    sizes = list(widths)
    while _whole(sizes) > width:
        widest = max((column for column in range(len(sizes)) if sizes[column] > words[column]), key=sizes.__getitem__)
        sizes[widest] -= 1
    return sizes


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    parts = [[text] if len(text) <= width else wrapped(text, width) for text, width in zip(row, widths, strict=True)]
    for line in zip_longest(*parts, fillvalue=""):
        yield GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def _blocks(cells: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    header, *rows = cells
    name_width = max(map(len, header))
    room = max(width - name_width - len(GAP), 1)
    for count, row in enumerate(rows):
        if count:
            yield ""
        for name, text in zip(header, row, strict=True):
            yield from _lines((name, text), (name_width, room))
