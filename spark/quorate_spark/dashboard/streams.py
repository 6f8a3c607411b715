"""How fresh everything is that reads the log: our own fold, the Spark queries, the projections.

Rules: asked about once a second while somebody watches, each with a deadline; who does not answer is ``down``, with the
reason. Nothing else on the page depends on it.
"""

from collections.abc import Callable

import msgspec
from msgspec import UNSET, UnsetType

from quorate_spark.dashboard.follow import Following
from quorate_spark.dashboard.settings import Settings


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One reader of the log."""

    name: str
    kind: str
    """``dashboard``, ``spark`` or ``projection``."""
    state: str
    offset: int | None = None
    lag: int | None = None
    age_ms: int | None = None
    batch: int | UnsetType = UNSET
    message: str = ""


class StreamsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/streams."""

    end_offset: int
    streams: list[Stream]
    unconfigured: list[str]


class Streams:
    """The readers, as they were when last asked."""

    def __init__(self, settings: Settings, clock_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._clock_ms = clock_ms

    async def ask_all(self) -> None:
        """Ask each once."""

    async def close(self) -> None:
        """Let go of everything."""

    def answer(self, following: Following, offset: int, now: int) -> StreamsAnswer:
        """As of the last time they were asked."""
        end = max(following.end_offset, offset)
        ours = Stream(
            name="fold",
            kind="dashboard",
            state=following.state,
            offset=offset,
            lag=end - offset,
            age_ms=now - following.newest_at if following.newest_at else None,
            message=following.message,
        )
        missing = [("spark", self._settings.serving), ("projections", self._settings.projections)]
        return StreamsAnswer(
            end_offset=end, streams=[ours], unconfigured=[name for name, given in missing if not given]
        )
