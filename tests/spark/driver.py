"""A driver to be killed: the log into Parquet files, small batch by small batch; prints a line after each.

Usage: ``python -m tests.spark.driver NODES CHECKPOINT SINK [--now]``; ``--now`` reads what is there and ends.
"""

import sys

from quorate_spark.session import session
from quorate_spark.source import SourceOptions, events


def main(nodes: str, checkpoint: str, sink: str, *now: str) -> None:
    """Until somebody ends it, or to the end of the log."""
    spark = session("local[2]", "driver")
    frame = events(spark, SourceOptions(nodes=nodes, max_events_per_trigger=20))
    writer = frame.writeStream.format("parquet").option("path", sink).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start() if now else writer.start()
    told = -1
    while not query.awaitTermination(0.05):  # type: ignore[arg-type]  # PySpark takes parts of a second, its hint not
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != told:
            told = progress["batchId"]
            print(told, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
