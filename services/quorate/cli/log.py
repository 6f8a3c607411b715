"""``quorate log tail`` and ``quorate log dump``: the committed events, for eyes or for programs.

Rules: one event per line, in order of offset, none twice. ``-o json`` is one JSON document per line, with the stamp's
fields beside the event, as ``/v1/log`` names them. What the node has is told, unless a level is asked for: then what is
there at that level is told in full. ``dump --data-dir`` reads the store of a node that is stopped.
"""

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from quorate.cli.client import Node, add_node
from quorate.cli.command import DONE, Command
from quorate.cli.facts import Fact, facts
from quorate.cli.freshness import add_freshness, asked_node, asks, freshness
from quorate.cli.output import add_output, yaml
from quorate.errors import UsageError
from quorate.gateway.http.answers import Log
from quorate.model.words import sentence
from quorate.tables import hanging
from quorate.terminal import visible

FOLLOW_S = 0.2
LINES = "default: table; json: JSON lines, one document a line; yaml: a stream of documents"


def _tail_arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser, LINES)
    parser.add_argument("-n", "--lines", type=int, default=20, help="latest events (default: 20)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with new ones until Ctrl-C")
    add_freshness(parser)


def _dump_arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser, LINES)
    parser.add_argument("--from", dest="start", type=int, default=0, metavar="OFFSET", help="first (default: 0)")
    parser.add_argument("--to", dest="stop", type=int, metavar="OFFSET", help="stop before it (default: the end)")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="of a stopped node, instead of asking one")
    add_freshness(parser)


def end_of_log(node: Node, options: Namespace) -> int:
    """The offset after the last event there is, at the level asked for."""
    return node.get("/v1/log", Log, **{"from": 0, "limit": 1, **freshness(options, "stale")}).end_offset


def tail(options: Namespace) -> int:
    """The latest events, and with ``-f`` every new one."""
    if options.follow and options.at is not None:
        raise UsageError("--follow: nothing is added to the past")
    if options.lines < 0:
        raise UsageError(f"--lines {options.lines}: not below 0")
    node = asked_node(options)
    end = end_of_log(node, options)
    start = max(end - options.lines, 0)
    while True:
        for fact in facts(node, start, options.at):
            print_fact(fact, options.output)
            start = fact.stamp.offset + 1
        if not options.follow:
            return DONE
        time.sleep(FOLLOW_S)


def dump(options: Namespace) -> int:
    """A piece of the log."""
    if options.start < 0 or (options.stop is not None and options.stop < options.start):
        raise UsageError(f"--from {options.start} --to {options.stop}: no such piece")
    piece: Iterable[Fact]
    if options.data_dir is not None:
        if asks(options):
            raise UsageError("--data-dir: a stopped node has one level, what it has")
        piece = stored(options.data_dir, options.start, options.stop)
    else:
        node, stop = asked_node(options), options.stop
        if asks(options):
            end = end_of_log(node, options)
            if options.at is not None:
                stop = end if stop is None else min(stop, end)
        piece = facts(node, options.start, stop)
    for fact in piece:
        print_fact(fact, options.output)
    return DONE


def stored(data_dir: Path, start: int, stop: int | None) -> Iterator[Fact]:
    """Events from the store of a stopped node. Raises UsageError when there is none, StorageError when it is in use."""
    from quorate.consensus.storage.disk import DirectoryLock
    from quorate.consensus.storage.event_log import EventLog
    from quorate.consensus.storage.store import RocksStore
    from quorate.wire.avro import decode_events

    if not (data_dir / "store").is_dir():
        raise UsageError(f"{data_dir} holds no store")
    lock = DirectoryLock(str(data_dir))
    store = RocksStore(str(data_dir / "store"))
    try:
        for *_, batch in EventLog(store).batches_from(start):
            for stamp, event in decode_events(batch):
                if stop is not None and stamp.offset >= stop:
                    return
                if stamp.offset >= start:
                    yield Fact(stamp, event)
    finally:
        store.close()
        lock.release()


def print_fact(fact: Fact, output: str) -> None:
    """One event, as asked."""
    if output == "table":
        head = f"{fact.stamp.offset:>8}  {fact.clock}  {type(fact.event).__name__:<23}  "
        print("\n".join(hanging(head, visible(sentence(fact.event)))), flush=True)
        return
    record = {
        **msgspec.to_builtins(fact.stamp),
        "type": type(fact.event).__name__,
        "event": msgspec.to_builtins(fact.event),
    }
    if output == "json":
        print(json.dumps(record, ensure_ascii=False), flush=True)
    else:
        print("\n".join(["---", *yaml(record)]), flush=True)


def _arguments(parser: ArgumentParser) -> None:
    acts = parser.add_subparsers(metavar="tail|dump", required=True)
    for name, summary, add, act in (
        ("tail", "The latest events, and with -f every new one.", _tail_arguments, tail),
        ("dump", "A piece of the log, from a node or from a stopped node's folder.", _dump_arguments, dump),
    ):
        own = acts.add_parser(name, help=summary, description=summary)
        add(own)
        own.set_defaults(act=act)


def _run(options: Namespace) -> int:
    status: int = options.act(options)
    return status


COMMAND = Command(_arguments, _run)
