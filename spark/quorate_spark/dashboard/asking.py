"""Questions as they come in a URL: strict, and refused with one word and one sentence."""

from collections.abc import Mapping
from typing import Final

import msgspec
from multidict import MultiMapping

from quorate.errors import QuorateError
from quorate.model.words import lease_of

STATUS: Final[Mapping[str, int]] = {
    "invalid": 400,
    "not_found": 404,
    "method_not_allowed": 405,
    "too_large": 413,
    "beyond_end": 416,
    "node_failed": 502,
    "busy": 503,
    "not_followed": 503,
}
NUMBER_DIGITS_MAX: Final = 15
TEXT_MAX: Final = 1_024
NAMES_MAX: Final = 2_000
KEY_MAX: Final = 4_096
"""Characters of a key, in a URL."""
_MOST: Final[Mapping[str, int]] = {"name": NAMES_MAX * 16, "set": NAMES_MAX * 16, "prefix": KEY_MAX, "from": KEY_MAX}


class ApiError(QuorateError):
    """Why there is no answer; ``code`` is one of STATUS."""

    def __init__(self, code: str, message: str, end_offset: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.end_offset = end_offset

    @property
    def status(self) -> int:
        """HTTP's number for it."""
        return STATUS[self.code]

    def body(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(Failed(error=Trouble(code=self.code, message=str(self), end_offset=self.end_offset)))


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why not."""

    code: str
    message: str
    end_offset: int | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every answer with a status of 400 or more."""

    error: Trouble


class Query:
    """The parameters of one question: each is known, comes once, and is what it should be."""

    def __init__(self, given: MultiMapping[str], parameters: frozenset[str]) -> None:
        for name in given:
            if name not in parameters:
                raise ApiError("invalid", f"{name[:40]!r} is not a parameter here")
            if len(given.getall(name)) > 1:
                raise ApiError("invalid", f"{name} is given more than once")
            if len(given[name]) > _MOST.get(name, TEXT_MAX):
                raise ApiError("invalid", f"{name} is too long")
        self._given = given

    def text(self, name: str) -> str:
        """A text; empty when it was not given."""
        return self._given.get(name, "")

    def number(self, name: str, least: int = 0, most: int = 10**NUMBER_DIGITS_MAX) -> int | None:
        """A whole number; None when it was not given."""
        text = self._given.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal()) or len(text) > NUMBER_DIGITS_MAX:
            raise ApiError("invalid", f"{name}: {text[:40]!r} is not a whole number")
        value = int(text)
        if not least <= value <= most:
            raise ApiError("invalid", f"{name}: {value} is not within {least} … {most}")
        return value

    def lease(self, name: str) -> int | None:
        """The number of a lease, hexadecimal; None when it was not given."""
        text = self._given.get(name)
        if text is None:
            return None
        lease = lease_of(text)
        if lease is None:
            raise ApiError("invalid", f"{name}: {text[:40]!r} is no number of a lease")
        return lease

    def at_most(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 to ``most``."""
        number = self.number(name, 1, most)
        return default if number is None else number

    def choice(self, name: str, *choices: str) -> str:
        """One of these; the first when it was not given."""
        text = self._given.get(name, choices[0])
        if text not in choices:
            raise ApiError("invalid", f"{name}: {text[:40]!r} is none of {', '.join(choices)}")
        return text

    def names(self, name: str) -> frozenset[str] | None:
        """Names with commas between; None when none was given."""
        text = self._given.get(name)
        if text is None:
            return None
        names = frozenset(filter(None, text.split(",")))
        if not names or len(names) > NAMES_MAX:
            raise ApiError("invalid", f"{name}: between 1 and {NAMES_MAX} names")
        return names
