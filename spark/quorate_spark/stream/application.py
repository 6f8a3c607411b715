"""The whole of ``quorate stream``: one Spark session, its queries, their sinks; from start to a clean stop.

Rules: one run at a time per checkpoint (a lock file; a run that was killed leaves none). What is wrong with the
settings, the store or the machine is told before Spark is started.
"""

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final

from quorate.errors import UsageError, reason_of
from quorate.unseen import unseen_by_git
from quorate_spark.pipelines.catalogue import folds
from quorate_spark.pipelines.keyed import names_of
from quorate_spark.session import require_java, session
from quorate_spark.sinks.store import ServingStore
from quorate_spark.stream.queries import queries
from quorate_spark.stream.settings import StreamSettings
from quorate_spark.stream.supervision import Supervisor

SPARK: Final = {
    # What transformWithState needs; state goes to the checkpoint as changes, with a snapshot now and then.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.stopTimeout": "20s",
}
"""Settings of the session; docs/spark.md says why."""


def run(
    settings: StreamSettings,
    *,
    stop: Event,
    clock_ms: Callable[[], int],
    ready: Callable[[str], None],
    say: Callable[[str], None],
    master: str = "local[2]",
    jars: tuple[Path, ...] = (),
) -> int:
    """Stream until ``stop``; 1 if a query halted, else 0. ``ready`` is called once with a line of JSON.

    Raises UsageError, StorageError when it cannot even begin.
    """
    require_java()
    with _alone(settings.checkpoint):
        made_by = names_of(folds(settings.flapping_elections, settings.flapping_window_ms))
        store = ServingStore(settings.sink, clock_ms, made_by)
        try:
            spark = session(master, "quorate stream", jars, SPARK)
            all_queries = queries(spark, settings, store, clock_ms)
            supervisor = Supervisor(all_queries, store, settings, clock_ms, say)
            line = {
                "ready": True,
                "queries": [query.name for query in all_queries],
                "sink": store.public_name,
                "archive": settings.archive,
            }
            try:
                supervisor.run(stop, lambda: ready(json.dumps(line)))
            finally:
                supervisor.stop()
                spark.stop()
            say(supervisor.last_words())
        finally:
            store.close()
    return 1 if supervisor.halted else 0


@contextmanager
def _alone(checkpoint: str) -> Iterator[None]:
    """Hold the checkpoint; where it is no local folder, nothing holds it. Raises UsageError when another run has it."""
    if "://" in checkpoint:
        yield
        return
    folder = Path(checkpoint)
    folder.mkdir(parents=True, exist_ok=True)
    unseen_by_git(folder)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another quorate stream has the checkpoint {checkpoint}") from error
        except OSError as error:
            raise UsageError(f"{checkpoint}: the checkpoint cannot be held: {reason_of(error)}") from error
        yield
