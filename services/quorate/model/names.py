"""Names in their order: which members, shards and clients there are, for lists that are read a page at a time.

Rules: pure. Beside each map of entities the state keeps the names of its keys in order; a page costs what is on it. The
order is that of code points, which UTF-8 keeps.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.model.ordered import OrderedMap, after_prefix, building
from quorate.slices import Steps

Names = OrderedMap[None]
_ANY: Final = "surrogatepass"
"""What is asked for may be no name at all."""


NUMBER_DIGITS_MAX: Final = 19
"""Of a number in a name: an int64 has no more, and Python reads 4,300 at most."""


def is_number(text: str) -> bool:
    """Is this part of a name a number, as it is written?"""
    plain = text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX
    return plain and (text == "0" or text[0] != "0")


def with_name(names: Names, name: str) -> Names:
    """The names and this one."""
    raw = name.encode()
    return names if raw in names else names.set(raw, None)


def without_name(names: Names, name: str) -> Names:
    """The names without this one; a part of a state has no names."""
    raw = name.encode()
    return names.delete(raw) if raw in names else names


def following(names: Names, after: str = "", prefix: str = "") -> Iterator[str]:
    """Those with the prefix that come after a name, in order; it goes as far as it is read."""
    below, behind = prefix.encode(errors=_ANY), after.encode(errors=_ANY)
    start = max(below, behind + b"\x00") if after else below
    for raw in names.items(start, after_prefix(below)):
        yield raw[0].decode()


def naming(names: Iterable[str]) -> Steps[Names]:
    """All of these, in any order."""
    return building((raw, None) for raw in sorted(name.encode() for name in names))
