"""How fast the log comes into Spark by either reader, beside librdkafka alone and decoding alone, on one node's log."""

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.harness import Run, load
from tests.clusters import up
from tests.peers import PEERS, present

EVENTS = 100_000
TURNS = 2
"""The better of these counts: the first one warms."""


def spark_source(run: Run) -> None:
    """Events a second from offset 0 to the end: batch and stream (``availableNow``), rows counted by Spark."""
    from quorate_spark.session import session
    from quorate_spark.source import SourceOptions, events
    from quorate_spark.source.log import EventLog
    from quorate_spark.source.reader import row

    with tempfile.TemporaryDirectory(dir=run.folder) as folder, up(Path(folder) / "c", nodes=1) as cluster:
        node = cluster.nodes[0]
        log = EventLog(SourceOptions(nodes=node["kafka"]))
        for turn in itertools.count():
            if (end := log.end()) >= EVENTS or turn == 12:
                break
            load(run, "commits", int(node["rpc"].rpartition(":")[2]), 64, 0, f"fill-{turn}", 10)
        records = list(log.records(0, end))
        size = round(sum(len(record.value) for record in records) / end)
        run.keep("log alone", _best(end, lambda: sum(1 for _ in log.records(0, end)), event_bytes=size))
        run.keep("decoding alone", _best(end, lambda: sum(1 for record in records if row(record))))
        log.close()
        jars = sorted((PEERS / "spark").glob("*.jar")) if present("spark") else ()
        spark = session("local[2]", "bench", jars)
        for source in ("quorate", "kafka") if jars else ("quorate",):

            def batch(source: Any = source) -> int:
                frame = events(spark, SourceOptions(nodes=node["kafka"]), source, streaming=False)
                frame.write.format("noop").mode("overwrite").save()
                return end

            def stream(source: Any = source) -> int:
                frame = events(spark, SourceOptions(nodes=node["kafka"]), source)
                checkpoint = tempfile.mkdtemp(dir=folder)
                writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
                query = writer.trigger(availableNow=True).start()
                query.awaitTermination(300)
                return sum(progress["numInputRows"] for progress in query.recentProgress)

            run.keep(f"spark batch {source}", _best(end, batch))
            run.keep(f"spark stream {source}", _best(end, stream))
        spark.stop()


def _best(events: int, work: Callable[[], int], **more: Any) -> dict[str, Any]:
    """The best of some turns; each must have had all events."""
    best = 0.0
    for _ in range(TURNS):
        began = time.perf_counter()
        done = work()
        best = max(best, done / (time.perf_counter() - began))
        if done < events:  # A stream may meet a few more: the load's brokers are missed after a while.
            raise RuntimeError(f"{done} events of {events} came")
    return {"events": events, "per_second": round(best), **more}
