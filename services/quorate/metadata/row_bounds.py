"""Bounds of rows that many events add to: a row travels whole, in a snapshot and to the process that replays.

Rules: judged before an event is written, never where it is applied: rows of old logs that are longer stay, and may
shrink, or change without growing. Of all other kinds one event says the whole row, or a rule bounds what adds to it
(tests/unit/metadata/test_row_bounds.py goes through every kind).
"""

from typing import Final

from quorate.events import BrokerAddressChanged, BrokerIdApplied, BrokerRegistered, ConfigChanged, Stamp, key
from quorate.model.evolve import evolve
from quorate.model.rows import row
from quorate.model.state import State

SCOPE_BYTES_MAX: Final = 1024 * 1024
"""Of the settings of one scope."""
SET_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of a broker set with all that its brokers said of themselves; an election adds its sentence."""

_NOWHERE: Final = Stamp(offset=0, term=0, time_ms=0)
"""Of no event: none of these rows has its stamp."""

Adding = ConfigChanged | BrokerIdApplied | BrokerRegistered | BrokerAddressChanged


def outgrows(state: State, event: Adding, bytes_max: int) -> bool:
    """Would the row of what the event is about be longer than allowed, and longer than it is?"""
    name = key(event)
    after = len(row(evolve(state, event, _NOWHERE), name) or b"")
    return after > bytes_max and after > len(row(state, name) or b"")
