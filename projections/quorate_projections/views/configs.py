"""The view ``configs``: the settings in the log, by scope."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Config
from quorate_projections.views.view import showing


class ConfigRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The settings of one scope. A scope without settings has no row."""

    scope: str = ""
    values: dict[str, str] = {}
    changed_offset: int = -1
    changed_ms: int = 0
    changed_by: str = ""
    """Principal of the last change."""


def show(config: Config, before: ConfigRow, stamp: Stamp) -> ConfigRow:
    """The settings, when they changed and by whom."""
    return ConfigRow(
        scope=config.scope,
        values=config.values,
        changed_offset=stamp.offset,
        changed_ms=stamp.time_ms,
        changed_by=stamp.principal,
    )


VIEW = showing("configs", "Settings in the log, by scope.", ConfigRow(), {"config": ("", show)})
