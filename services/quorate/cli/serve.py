"""``quorate serve``: one node in the foreground.

SIGTERM or SIGINT: stop accepting, hand the leadership over, flush, exit 0; a second one ends it at once. A node that
must stop (its disk failed, its state cannot be explained) says why and exits 1; one without its addresses exits 2.
"""

import asyncio
import faulthandler
import importlib
import os
import signal
import sys
import tomllib
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from quorate.cli.command import DONE, MISUSED, REFUSED, Command
from quorate.cli.output import complain
from quorate.cli.processes import add_die_with, die_with, until_orphaned
from quorate.errors import AddressError, QuorateError, UsageError
from quorate.node.private import only_ours
from quorate.terminal import visible_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.node.settings import NodeSettings


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="node.toml, or the controller.properties of RocketMQ"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting; may be repeated"
    )
    parser.add_argument("--check", action="store_true", help="only say whether the settings are right")
    add_die_with(parser)


def overrides_of(options: Namespace) -> dict[str, str]:
    """The settings of ``--set``. Raises UsageError."""
    overrides = {}
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: expected SECTION.KEY=VALUE")
        overrides[name] = value
    return overrides


def sources_of(options: Namespace) -> dict[str, str]:
    """Where each setting that was given comes from; of arguments that ``settings_of`` took."""
    from quorate.node.properties import read_pairs, translate
    from quorate.node.settings import sources

    toml = options.config.suffix == ".toml"
    tree = tomllib.loads(options.config.read_text(encoding="utf-8")) if toml else translate(read_pairs(options.config))
    return sources(tree, os.environ, overrides_of(options), options.config.resolve())


def unread_of(options: Namespace) -> list[tuple[str, str]]:
    """Keys of a properties file that nobody reads, and what may be meant."""
    from quorate.node.properties import read_pairs, unknown_keys

    return [] if options.config.suffix == ".toml" else unknown_keys(read_pairs(options.config))


def settings_of(options: Namespace) -> "NodeSettings":
    """The settings that the arguments name. Raises SettingsError, UsageError."""
    from quorate.node.properties import read_properties
    from quorate.node.settings import read_settings

    read = read_settings if options.config.suffix == ".toml" else read_properties
    return read(options.config, os.environ, overrides_of(options))


def load_structlog() -> None:
    """Import structlog as if rich were not installed: it would draw tracebacks that no node prints, and costs a quarter
    of the start-up. Does nothing when either is there already.
    """
    modules: dict[str, ModuleType | None] = cast("dict[str, ModuleType | None]", sys.modules)
    if "structlog" in modules or "rich" in modules:
        return
    modules["rich"] = None
    try:
        importlib.import_module("structlog")
    finally:
        del modules["rich"]


def spare_log() -> None:
    """Do without a log that cannot be written (it may be on the disk that failed): what is left in its buffer would
    become another exit status.
    """
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


async def _serve(settings: "NodeSettings", sources: "Mapping[str, str]", parent: int | None) -> int:
    """Run the node until told to stop, or until it must."""
    from quorate.node.node import Node
    from quorate.node.running import calm_collector

    asked = asyncio.Event()

    def stop() -> None:
        if asked.is_set():
            complain("asked twice: ending at once")
            os._exit(REFUSED)
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    node = Node(settings, sources)
    await node.start()
    calm_collector()
    reasons = [asyncio.create_task(asked.wait()), failing := asyncio.create_task(node.wait_failed())]
    if parent is not None:
        reasons.append(asyncio.create_task(until_orphaned(parent)))
    await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
    failed = failing.done()
    if failed:
        spare_log()
    for reason in reasons:
        reason.cancel()
    await asyncio.gather(*reasons, return_exceptions=True)
    await node.stop(handover=not failed)
    return REFUSED if failed else DONE


def run(options: Namespace) -> int:
    """Run one node; see the module."""
    import uvloop

    load_structlog()
    from quorate.node.logs import configure, logger

    die_with(options.die_with)
    settings = settings_of(options)
    unread = unread_of(options)
    if options.check:
        for key, meant in unread:
            complain(f"{options.config}: {key}: nobody reads it" + (f"; did you mean {meant}?" if meant else ""))
        return DONE
    only_ours()
    faulthandler.enable()
    configure(settings.log)
    for key, meant in unread:
        hint = {"meant": meant} if meant else {}
        logger(settings.node.id).warning("nobody reads this setting", file=str(options.config), key=key, **hint)
    try:
        return uvloop.run(_serve(settings, sources_of(options), options.die_with))
    except QuorateError as error:
        print(f"quorate: {visible_lines(str(error))}", file=sys.stderr)
        return MISUSED if isinstance(error, AddressError) else REFUSED


COMMAND = Command(_arguments, run)
