"""How eager balance is, of every kind of thing that it moves."""

from typing import Final

import msgspec

from quorate.bounds import bounded
from quorate.errors import UsageError

MOVED: Final = 2
"""What a move changes of the difference between two places."""


class BalanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How eager the plan is, and whether the leader carries it out by itself."""

    period_s: float = 0.0
    """How often the leader looks, and moves; 0: only an operator does (``quorate balance``)."""
    moves_max: int = 8
    """Moves of one plan, at most: masters and leaders of segments together."""
    apart_min: int = 2
    """A leadership moves to a place, or a member, that leads so many fewer; at least 2, or two would take turns."""
    rest_s: float = 60.0
    """A set or segment whose last election is younger stays as it is."""
    label: str = ""
    """The capability of a broker, or label of a member, that names its place, a rack say. Where a broker has none, its
    host is its place; a member is a place of its own.
    """
    clients_apart_percent: int = 20
    """A member is advised to hand clients over that has so many more of them than would be its share."""
    clients_max: int = 100
    """So many clients at a time, at most."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("period_s", "rest_s", "clients_apart_percent"))
        if self.apart_min < MOVED:
            raise UsageError(f"apart_min must be at least {MOVED}, not {self.apart_min}")
