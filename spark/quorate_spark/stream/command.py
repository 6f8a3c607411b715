"""``quorate stream``, and its batch jobs ``quorate stream state`` and ``quorate stream report``.

Rules: registered in the entry-point group ``quorate.commands``: ``arguments`` and ``run``. Exit 0 done, 1 a query was
halted, 2 used wrongly. Data to stdout, talk to stderr. PySpark is imported when it is to run, not before.
"""

import os
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import msgspec

from quorate.asking import add_node, addresses, kafka_addresses
from quorate.errors import UsageError
from quorate.flags import add_flags, typed
from quorate.tables import columns
from quorate.terminal import visible
from quorate_spark.limits import Limits

if TYPE_CHECKING:
    from quorate_spark.stream.settings import StreamSettings

DONE = 0
STOP_S: Final = 3.0
"""From SIGTERM to the end; what takes longer is cut off."""


def arguments(parser: ArgumentParser) -> None:
    """The words after ``quorate stream``."""
    parser.set_defaults(does=_stream)
    where = parser.add_argument_group("the log")
    add_node(where)
    kafka = "Kafka addresses instead: of nodes, or of the mirror's brokers"
    where.add_argument("--nodes", metavar="HOST:PORT,…", help=kafka)
    where.add_argument("--topic", help="name of the event topic")
    where.add_argument("--mirror", action="store_true", help="the nodes are a real Kafka that holds the mirror")
    where.add_argument("--cluster-id", dest="cluster", metavar="ID", help="refuse any other cluster")
    where.add_argument("--rack", help="read from the node of this zone, or node-<id>")
    where.add_argument("--source", choices=("quorate", "kafka"), default="quorate", help="kafka: Spark's own connector")
    where.add_argument("--jars", type=Path, metavar="DIR", help="the connector's jars (docs/spark.md)")
    where.add_argument("--max-events-per-trigger", type=int, metavar="N", help="the largest batch (default: 10000)")
    into = parser.add_argument_group("the sinks")
    into.add_argument("--sink", metavar="URL", help="serving store: sqlite:///FILE or postgresql://…")
    into.add_argument("--archive", metavar="DIR", help="Delta table with every event (default: none is kept)")
    into.add_argument("--checkpoint", metavar="DIR", help="what Spark must remember; one run at a time")
    how = parser.add_argument_group("the queries")
    how.add_argument("--master", default="local[2]", help="Spark's master (default: local[2])")
    add_flags(how, Limits)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="json: a ready line")
    jobs = parser.add_subparsers(metavar="JOB", required=False)
    _state_arguments(jobs.add_parser("state", help="every entity as of an offset or a time, from the archive"))
    _report_arguments(jobs.add_parser("report", help="weekly reliability of each broker set, from the archive"))


def _state_arguments(parser: ArgumentParser) -> None:
    parser.set_defaults(does=_state)
    parser.add_argument("--archive", required=True, metavar="DIR")
    parser.add_argument("--offset", type=int, metavar="N", help="after the first N events (default: all)")
    parser.add_argument("--time", metavar="TIME", help="after all events up to this time; ISO 8601 or epoch ms")
    parser.add_argument("--kind", help="only entities of this kind, e.g. broker-set")
    parser.add_argument("--master", default="local[2]", help="Spark's master (default: local[2])")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")


def _report_arguments(parser: ArgumentParser) -> None:
    parser.set_defaults(does=_report)
    parser.add_argument("--archive", required=True, metavar="DIR")
    parser.add_argument("--offset", type=int, metavar="N", help="of the first N events (default: all)")
    parser.add_argument("--week", metavar="YYYY-Www", help="only this ISO week (UTC)")
    parser.add_argument("--broker-set", help="only this one")
    parser.add_argument("--master", default="local[2]", help="Spark's master (default: local[2])")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")


def run(options: Namespace) -> int:
    """Run what was typed."""
    status: int = options.does(options)
    return status


def _stream(options: Namespace) -> int:
    for name in ("sink", "checkpoint", *(["nodes"] if options.mirror else [])):
        if not getattr(options, name):
            raise UsageError(f"--{name} is needed (quorate stream --help)")
    if not options.nodes:
        addresses(options.node)  # Whatever is wrong with what was typed is said before anything else.
    from quorate_spark.session import require_java  # noqa: PLC0415  PySpark takes a second to import.

    require_java()
    if not options.nodes:
        options.nodes = kafka_addresses(options.node, lambda: time.sleep(1.0), _say)
    from quorate_spark.stream import application  # noqa: PLC0415

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _say("starting Spark …")
    with _ended_in_time(stop):
        return application.run(
            settings(options),
            stop=stop,
            clock_ms=lambda: time.time_ns() // 1_000_000,
            ready=lambda line: print(line if options.output == "json" else _greeting(options), flush=True),
            say=_say,
            master=options.master,
            jars=tuple(sorted(options.jars.glob("*.jar"))) if options.jars else (),
        )


@contextmanager
def _ended_in_time(stop: Event) -> Iterator[None]:
    """Once told to stop, within ``STOP_S``: Spark waits twenty seconds for a batch whose node does not answer."""
    ended = Event()

    def watch() -> None:
        stop.wait()
        if not ended.wait(STOP_S):
            _say("Spark does not end in time: cut off, as by a kill; the next start goes on from the checkpoint")
            os._exit(0)  # The JVM ends with it: its stdin closes.

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def settings(options: Namespace) -> "StreamSettings":
    """The settings of the flags, and defaults for the others. Raises UsageError."""
    from quorate_spark.source import SourceOptions  # noqa: PLC0415
    from quorate_spark.stream.settings import StreamSettings  # noqa: PLC0415

    args = {name: getattr(options, name) for name in ("topic", "cluster", "rack") if getattr(options, name) is not None}
    source = SourceOptions(
        nodes=options.nodes,
        registry=options.node,
        mirror=options.mirror,
        max_events_per_trigger=10_000 if options.max_events_per_trigger is None else options.max_events_per_trigger,
        **args,
    )
    return StreamSettings(
        source=source,
        by=options.source,
        sink=options.sink,
        archive=options.archive or "",
        checkpoint=options.checkpoint,
        **typed(options, Limits),
    )


def _greeting(options: Namespace) -> str:
    return f"streaming from {options.nodes}; Ctrl-C ends it"


def _say(text: str) -> None:
    print(f"quorate stream: {visible(text)}", file=sys.stderr, flush=True)


def _state(options: Namespace) -> int:
    from quorate_spark.batch.history import history  # noqa: PLC0415
    from quorate_spark.batch.state import known, state  # noqa: PLC0415
    from quorate_spark.session import session  # noqa: PLC0415
    from quorate_spark.source.options import epoch_ms  # noqa: PLC0415

    time_ms = epoch_ms(options.time) if options.time else None
    spark = session(options.master, "quorate stream state")
    try:
        cut = history(spark, options.archive, options.offset, time_ms)
        entities = list(known(state(cut, options.kind)))
    finally:
        spark.stop()
    if options.output == "json":
        print(msgspec.json.encode({"offset": cut.position, "entities": entities}).decode())
    else:
        print(f"after {cut.position} events:")
        for one in entities:
            print(visible(f"{one.key}  @{one.event_offset}  {bytes(one.value).decode()}"))
    return DONE


def _report(options: Namespace) -> int:
    from quorate_spark.batch.history import history  # noqa: PLC0415
    from quorate_spark.batch.report import Week, weekly  # noqa: PLC0415
    from quorate_spark.session import session  # noqa: PLC0415

    spark = session(options.master, "quorate stream report")
    try:
        cut = history(spark, options.archive, options.offset)
        lines = [Week(**row.asDict()) for row in weekly(cut).collect()]
    finally:
        spark.stop()
    chosen = [
        line for line in lines if options.week in (None, line.week) and options.broker_set in (None, line.broker_set)
    ]
    if options.output == "json":
        print(msgspec.json.encode({"offset": cut.position, "weeks": chosen}).decode())
        return DONE
    names = Week.__struct_fields__
    for line in columns(names, [[_cell(getattr(week, name)) for name in names] for week in chosen]):
        print(line)
    return DONE


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6%}"
    return value
