"""The least that a setting may be: what every settings struct asks of its numbers before its own rules.

Rules: a number is above 0, so that a limit lets something through and a period passes; where 0 means something (none,
at once) the struct names the setting. Nothing is ever below 0, or without an end.
"""

import math
from collections.abc import Collection
from functools import cache
from typing import get_args

import msgspec

from quorate.errors import UsageError


def bounded(settings: msgspec.Struct, *, zero: Collection[str] = ()) -> None:
    """Raise UsageError, naming every number that is too small or infinite. ``zero``: the settings that may be 0."""
    wrong = []
    for name in _numbers(type(settings)):
        value = getattr(settings, name)
        if value == math.inf or not (value > 0 or (value == 0 and name in zero)):  # So that NaN is wrong too.
            wrong.append(f"{name} must be {'at least' if name in zero else 'above'} 0, not {value}")
    if wrong:
        raise UsageError("; ".join(wrong))


@cache
def _numbers(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if (get_args(field.type) or (field.type,))[0] in (int, float))
