"""``quorate up``: a cluster on this machine, one process per node."""

import asyncio
import shutil
import signal
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from quorate.cli.cluster import LocalCluster, found, listeners, planned, resume, unused
from quorate.cli.command import DONE, Command
from quorate.cli.output import complain
from quorate.cli.processes import add_die_with, die_with
from quorate.errors import QuorateError, UsageError
from quorate.node.private import only_ours

BASE_PORT = 9870
NODES = 3


def add_cluster(parser: ArgumentParser) -> None:
    """The arguments that say which cluster."""
    parser.add_argument("--nodes", type=int, help=f"1, 3 or 5 (default: {NODES})")
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where it lives (default: a temporary folder, deleted at the end)"
    )
    parser.add_argument(
        "--base-port",
        type=int,
        metavar="P",
        help=f"node i: P+10i … P+10i+4 (default: {BASE_PORT})",
    )
    parser.add_argument("--resume", action="store_true", help="go on with the data in DIR")
    parser.add_argument("--restart", action="store_true", help="start a node that died again")
    add_die_with(parser)


class Home:
    """The folder of a cluster: the one that was named, or a temporary one that goes away with us."""

    def __init__(self, folder: Path | None) -> None:
        self._temporary = folder is None
        self.path = (folder or Path(tempfile.mkdtemp(prefix="quorate-"))).resolve()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)


def cluster_in(folder: Path, options: Namespace) -> LocalCluster:
    """The cluster that the arguments describe, not started. Raises UsageError."""
    if options.resume:
        if options.data_dir is None:
            raise UsageError("--resume needs --data-dir")
        where = resume(folder, options.nodes, options.base_port)
        unused(listeners(where))
    else:
        size = (
            NODES if options.nodes is None else options.nodes,
            BASE_PORT if options.base_port is None else options.base_port,
        )
        unused(listeners(planned(folder, *size)))
        where = found(folder, *size)
    return LocalCluster(where, complain, restart=options.restart)


def stop_asked() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return asked


def _arguments(parser: ArgumentParser) -> None:
    add_cluster(parser)
    text = "of a new cluster, as quorate feature raise (default: the highest that its nodes know)"
    parser.add_argument("--feature-level", type=int, metavar="N", help=text)


async def _raise_level(cluster: LocalCluster, options: Namespace) -> None:
    """Of a new cluster, in which no older build can be. What fails here can be done by hand."""
    if options.resume:
        return
    try:
        complain(f"the feature level is {await asyncio.to_thread(cluster.raise_level, options.feature_level)}")
    except QuorateError as error:
        complain(f"the feature level is as it was founded (quorate feature raise tries again): {error}")


async def _up(options: Namespace, folder: Path) -> None:
    asked = stop_asked()
    cluster = cluster_in(folder, options)
    starting = asyncio.create_task(cluster.start())
    waiting = asyncio.create_task(asked.wait())
    await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if not asked.is_set():
            await starting
            await _raise_level(cluster, options)
            print(cluster.ready_line(), flush=True)
            await waiting
    finally:
        starting.cancel()
        waiting.cancel()
        await cluster.stop()


def run(options: Namespace) -> int:
    """Run a cluster until told to stop."""
    only_ours()
    die_with(options.die_with)
    with Home(options.data_dir) as folder:
        asyncio.run(_up(options, folder))
    return DONE


COMMAND = Command(_arguments, run)
