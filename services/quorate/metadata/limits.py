"""Limits that decide what state is: they stand in the log, so that every node, and every replay, has the same.

Rules: what remembered requests are is decided by the scope ``cluster`` of the settings in the log, under the names the
settings of a node have; where it says nothing (a log of before it could), by the defaults of then, which are written
here and never change. A node's own settings only say what a leader records where nothing is recorded yet.
Limits of groups need not be here: a leader judges them, and its entries carry whole rows (docs/adr/0078).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from quorate.metadata.requests import RequestSettings, RequestTable
from quorate.model.state import State

SCOPE: Final = "cluster"
REMEMBERED_MAX: Final = "requests.remembered_max"
REMEMBERED_MS_MAX: Final = "requests.remembered_ms_max"
UNSAID: Final[Mapping[str, int]] = {REMEMBERED_MAX: 100_000, REMEMBERED_MS_MAX: 3_600_000}
"""In force where the log says nothing."""


def is_count(value: str) -> bool:
    """Of remembered requests: 0 is none."""
    return value.isascii() and value.isdigit() and len(value) <= 9


def is_time(value: str) -> bool:
    """Milliseconds, at least one."""
    return value.isascii() and value.isdigit() and len(value) <= 12 and int(value) > 0


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {REMEMBERED_MAX: is_count, REMEMBERED_MS_MAX: is_time}


def limits_in_force(state: State) -> tuple[int, int]:
    """How many requests are remembered, and for how many milliseconds."""
    config = state.configs.get(SCOPE)
    if config is None:
        return UNSAID[REMEMBERED_MAX], UNSAID[REMEMBERED_MS_MAX]
    return _limit(config.values, REMEMBERED_MAX), _limit(config.values, REMEMBERED_MS_MAX)


def _limit(values: Mapping[str, str], name: str) -> int:
    """The value in the log; the constant where there is none, or one from before values were checked that cannot be."""
    value = values.get(name)
    return int(value) if value is not None and CHECKS[name](value) else UNSAID[name]


def limited(table: RequestTable, state: State) -> RequestTable:
    """The table under the limits in force in this state."""
    return table.limited(*limits_in_force(state))


def own_limits(own: RequestSettings) -> dict[str, int]:
    """A node's own, by name."""
    return {REMEMBERED_MAX: own.remembered_max, REMEMBERED_MS_MAX: own.remembered_ms_max}


def unrecorded(state: State, own: RequestSettings) -> dict[str, str]:
    """The limits a leader with these settings has to record: those that differ and that the log does not have."""
    config = state.configs.get(SCOPE)
    record = {} if config is None else config.values
    return {name: str(value) for name, value in own_limits(own).items() if name not in record and value != UNSAID[name]}


def overruled(state: State, own: RequestSettings) -> Iterator[str]:
    """Which of a node's own settings the log overrules, a sentence each."""
    in_force = dict(zip((REMEMBERED_MAX, REMEMBERED_MS_MAX), limits_in_force(state), strict=True))
    for name, value in own_limits(own).items():
        if in_force[name] != value:
            yield f"{name} is {value} in this node's settings; the cluster's {in_force[name]} holds"
