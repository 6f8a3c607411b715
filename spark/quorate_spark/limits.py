"""Limits and periods of the Spark application: known without PySpark, so that ``quorate stream --help`` names them."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from quorate.bounds import bounded

COMPACT_EVERY: Final = 200
FLAPPING_ELECTIONS: Final = 4
FLAPPING_WINDOW_MS: Final = 30 * 60 * 1000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is a flag of ``quorate stream``."""

    trigger_ms: Annotated[int, Meta(description="least time between two batches of the serving query")] = 200
    archive_trigger_ms: Annotated[int, Meta(description="the same of the archive: each batch is a file")] = 5_000
    compact_every: Annotated[int, Meta(description="commits of the archive after which its small files are joined")] = (
        COMPACT_EVERY
    )
    flapping_elections: Annotated[int, Meta(description="so many in the window flap")] = FLAPPING_ELECTIONS
    flapping_window_ms: Annotated[int, Meta(description="length of that window")] = FLAPPING_WINDOW_MS
    backoff_ms: Annotated[
        int, Meta(description="a failed query is started again after this, doubled with each failure in a row")
    ] = 500
    backoff_max_ms: Annotated[int, Meta(description="the longest such wait")] = 30_000
    look_ms: Annotated[int, Meta(description="how often the queries are looked at")] = 1_000
    start_timeout_ms: Annotated[
        int, Meta(description="for the first batch, Spark's own start included; then the query is started again")
    ] = 180_000
    stop_ms: Annotated[
        int, Meta(description="how long the end waits for batches that are under way; the next start does them again")
    ] = 2_000
    once: Annotated[bool, Meta(description="take what is there now and end")] = False

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("trigger_ms", "archive_trigger_ms", "stop_ms"))
