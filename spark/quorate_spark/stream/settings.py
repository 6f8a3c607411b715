"""Everything about the Spark application that can be set."""

from quorate.errors import UsageError
from quorate_spark.limits import Limits
from quorate_spark.source import SourceOptions
from quorate_spark.source.frames import Source


class StreamSettings(Limits, frozen=True, kw_only=True):
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

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot be."""
        super().__post_init__()
        if not self.sink or not self.checkpoint:
            raise UsageError("a sink and a checkpoint are needed")
