"""Limits that decide what state is: they stand in the log, so that every node, and every replay, has the same
(docs/adr/0085).

Rules: what remembered requests are, how many rows consumer groups keep, when a position lapses, and whether a copy of a
segment that is not in sync may lead, is decided by the scope ``cluster`` of the settings in the log, under the names
the settings of a node have; where it says nothing, by the defaults of then, which are written here and never change. A
node's own settings only say what a leader records where nothing is recorded yet. A number is written without an
exponent, as ``50000`` or ``0.5``, a switch as ``true`` or ``false``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from quorate.metadata.requests import RequestSettings, RequestTable
from quorate.model.state import State

SCOPE: Final = "cluster"
REMEMBERED_MAX: Final = "requests.remembered_max"
REMEMBERED_MS_MAX: Final = "requests.remembered_ms_max"
GROUP_ROWS_MAX: Final = "controller.group_rows_max"
GROUP_EXPIRY_S: Final = "kafka.group_expiry_s"
UNCLEAN_SEGMENT_LEADERS: Final = "policy.journal_unclean_leaders"
UNSAID: Final[Mapping[str, float]] = {
    REMEMBERED_MAX: 100_000,
    REMEMBERED_MS_MAX: 3_600_000,
    GROUP_ROWS_MAX: 20_000,
    GROUP_EXPIRY_S: 7 * 24 * 3600,
    UNCLEAN_SEGMENT_LEADERS: False,
}
"""In force where the log says nothing."""


def is_count(value: str) -> bool:
    """Of remembered requests: 0 is none."""
    return value.isascii() and value.isdigit() and len(value) <= 9


def is_some(value: str) -> bool:
    """Rows, at least one."""
    return is_count(value) and int(value) > 0


def is_time(value: str) -> bool:
    """Milliseconds, at least one."""
    return value.isascii() and value.isdigit() and len(value) <= 12 and int(value) > 0


def is_seconds(value: str) -> bool:
    """More than none; fractions down to a millionth."""
    return re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", value) is not None and float(value) > 0


def is_switch(value: str) -> bool:
    """On or off."""
    return value in ("true", "false")


CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    REMEMBERED_MAX: is_count,
    REMEMBERED_MS_MAX: is_time,
    GROUP_ROWS_MAX: is_some,
    GROUP_EXPIRY_S: is_seconds,
    UNCLEAN_SEGMENT_LEADERS: is_switch,
}


def limits_of_requests(state: State) -> tuple[int, int]:
    """How many requests are remembered, and for how many milliseconds."""
    if SCOPE not in state.configs:
        return int(UNSAID[REMEMBERED_MAX]), int(UNSAID[REMEMBERED_MS_MAX])
    return int(in_force(state, REMEMBERED_MAX)), int(in_force(state, REMEMBERED_MS_MAX))


def in_force(state: State, name: str) -> float:
    """The value in the log; the constant where there is none, or one from before values were checked that cannot be."""
    config = state.configs.get(SCOPE)
    value = None if config is None else config.values.get(name)
    if value is None or not CHECKS[name](value):
        return UNSAID[name]
    return value == "true" if CHECKS[name] is is_switch else float(value)


def limited(table: RequestTable, state: State) -> RequestTable:
    """The table under the limits in force in this state."""
    return table.limited(*limits_of_requests(state))


def own_limits(
    requests: RequestSettings, group_rows_max: int, group_expiry_s: float, *, unclean_segment_leaders: bool
) -> dict[str, float]:
    """A node's own, by name."""
    return {
        REMEMBERED_MAX: requests.remembered_max,
        REMEMBERED_MS_MAX: requests.remembered_ms_max,
        GROUP_ROWS_MAX: group_rows_max,
        GROUP_EXPIRY_S: group_expiry_s,
        UNCLEAN_SEGMENT_LEADERS: unclean_segment_leaders,
    }


def in_words(value: float) -> str:
    """As the log has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6f}".rstrip("0").rstrip(".")


def unrecorded(state: State, own: Mapping[str, float]) -> dict[str, str]:
    """The limits a leader with these of its own has to record: those that differ and that the log does not have, and
    that it can have.
    """
    config = state.configs.get(SCOPE)
    record = {} if config is None else config.values
    differ = {name: in_words(value) for name, value in own.items() if name not in record and value != UNSAID[name]}
    return {name: value for name, value in differ.items() if CHECKS[name](value)}


def overruled(state: State, own: Mapping[str, float]) -> Iterator[str]:
    """Which of a node's own limits the log overrules, a sentence each."""
    for name, value in own.items():
        if in_words(value) != (holds := in_words(in_force(state, name))):
            yield f"{name} is {in_words(value)} in this node's settings; the cluster's {holds} holds"
