"""Everything about the Spark application that can be set."""

import msgspec

from quorate.errors import UsageError
from quorate_spark.pipelines.flapping import THRESHOLD, WINDOW_MS
from quorate_spark.sinks.delta import COMPACT_EVERY
from quorate_spark.source import SourceOptions
from quorate_spark.source.frames import Source


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ``quorate stream``."""

    source: SourceOptions
    """Where the log is, and how much of it one batch takes."""
    by: Source = "quorate"
    """Which reader: ours, or Spark's Kafka connector."""
    sink: str
    """URL of the serving store."""
    archive: str = ""
    """Folder or URI of the Delta archive; empty = none is kept."""
    checkpoint: str
    """Folder or URI of what Spark must remember; one run at a time has it."""
    trigger_ms: int = 200
    """A batch of the serving query begins at most so often."""
    archive_trigger_ms: int = 5_000
    """The same of the archive: each batch is a file, so rather seldom."""
    compact_every: int = COMPACT_EVERY
    """Commits of the archive after which its small files are joined."""
    flapping_elections: int = THRESHOLD
    """So many elections within the window are flapping."""
    flapping_window_ms: int = WINDOW_MS
    """Length of that window."""
    backoff_ms: int = 500
    """A failed query is started again after this, doubled with each failure in a row."""
    backoff_max_ms: int = 30_000
    """The longest such wait."""
    look_ms: int = 1_000
    """How often the queries are looked at."""
    start_timeout_ms: int = 180_000
    """How long the first batch may take, Spark's own start included; then the query is stopped, and started again."""
    stop_ms: int = 2_000
    """How long the end waits for batches that are under way; they are done again at the next start."""
    once: bool = False
    """Take what is there now and end."""

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be."""
        for name in ("trigger_ms", "archive_trigger_ms", "stop_ms"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative")
        wanted = ("compact_every", "flapping_elections", "flapping_window_ms", "backoff_ms", "look_ms")
        for name in (*wanted, "backoff_max_ms", "start_timeout_ms"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1")
        if not self.sink or not self.checkpoint:
            raise UsageError("a sink and a checkpoint are needed")
