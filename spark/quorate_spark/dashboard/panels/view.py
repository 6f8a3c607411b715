"""The input of a panel: the log, an offset, and for the newest offset the clock and the soft state."""

from dataclasses import dataclass

from quorate_spark.dashboard.log import FoldedLog
from quorate_spark.dashboard.model import State
from quorate_spark.dashboard.settings import Flapping
from quorate_spark.dashboard.soft_state import Soft


@dataclass(frozen=True)
class View:
    """The cluster at an offset. ``now``: the clock; in the past the time of the last event."""

    log: FoldedLog
    state: State
    now: int
    flapping: Flapping
    soft: Soft | None = None
    """None in the past, or when nothing was asked yet."""

    @property
    def offset(self) -> int:
        """How many events it reflects."""
        return self.state.offset
