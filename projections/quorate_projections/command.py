"""``quorate projections serve | status | rebuild``, registered in the entry-point group ``quorate.commands``.

Rules: the duck type of ``quorate.cli.command.Command``: ``arguments`` and ``run``; exit 0 done, 1 refused or unhealthy,
2 used wrongly. Data to stdout, talk to stderr. Faust is imported when it is to run, not before.
"""

import json
import os
import socket
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from quorate.asking import add_node
from quorate.errors import QuorateError
from quorate.flags import add_flags, texts
from quorate.listening import address_error
from quorate.log_filter import throttle_repeats
from quorate_projections import status
from quorate_projections.settings import PREFIX, ProjectionSettings, as_environment, located, read_settings

if TYPE_CHECKING:
    from quorate_projections.materialized_views import MaterializedViews

DONE: Final = 0


class WorkerEndedError(QuorateError):
    """The worker ended by itself."""


def arguments(parser: ArgumentParser) -> None:
    """The words after ``quorate projections``."""
    words = parser.add_subparsers(metavar="COMMAND", required=True)
    for word, does, summary in (
        ("serve", _serve, "Follow the events and serve the views over HTTP, in the foreground."),
        ("rebuild", _rebuild, "Make all rows again from offset 0 beside the served ones, then switch."),
    ):
        own = words.add_parser(word, help=summary, description=summary)
        add_node(own, os.environ.get(f"{PREFIX}NODE", ""))
        add_flags(own, ProjectionSettings)
        own.set_defaults(does=does)
    summary = "How far and how fresh the workers are; exit 1 when one is not ready."
    own = words.add_parser("status", help=summary, description=summary)
    status.arguments(own)
    own.set_defaults(does=status.run)


def run(options: Namespace) -> int:
    """Run the word that was typed."""
    does: Callable[[Namespace], int] = options.does
    return does(options)


def _settings(options: Namespace) -> ProjectionSettings:
    return read_settings(os.environ, {"node": options.node, **texts(options, ProjectionSettings)})


def _located(settings: ProjectionSettings) -> ProjectionSettings:
    """With the Kafka addresses of the nodes; waits for a node, a while."""
    say = partial(print, "quorate projections:", file=sys.stderr, flush=True)
    return located(settings, lambda: time.sleep(1.0), say)  # noqa: TID251  Nothing runs beside it yet.


def _serve(options: Namespace) -> int:
    """Run the Faust worker in this process until it is told to stop."""
    import faust  # noqa: PLC0415  Half a second that `quorate --help` need not spend.
    import uvloop  # noqa: PLC0415

    from quorate_projections.door import limits  # noqa: PLC0415

    settings = _settings(options)
    _look_at_port(settings)
    settings = msgspec.structs.replace(settings, connections_max=limits(settings).connections_max)
    settings = _located(settings)
    os.environ.update(as_environment(settings))
    from quorate_projections.app import app  # noqa: PLC0415  Reads the environment when imported.

    throttle_repeats()

    def ready(materialized_views: "MaterializedViews") -> None:
        line = {
            "ready": True,
            "http": f"{settings.host}:{settings.port}",
            "pid": os.getpid(),
            "offset": materialized_views.offset,
        }
        print(json.dumps(line), flush=True)

    _ = app.table.materialized_views  # Whatever is wrong with the data directory is said before anything runs.
    app.on_ready = ready
    uvloop.install()
    worker = faust.Worker(app, loglevel=settings.loglevel, quiet=True, stdout=sys.stderr, redirect_stdouts=False)
    worker.spinner = None  # It would write to the terminal, log or not.
    try:
        worker.execute_from_commandline()
    except SystemExit as ended:
        if ended.code:
            raise WorkerEndedError(f"the worker ended with status {ended.code}") from None
    return DONE


def _look_at_port(settings: ProjectionSettings) -> None:
    """Raises AddressError when it cannot be had: Faust would tell of itself at length, not of the flag."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise address_error("--port", settings.host, settings.port, error) from error


def _rebuild(options: Namespace) -> int:
    from quorate_projections import rebuild  # noqa: PLC0415  As above.

    return rebuild.run(_located(_settings(options)), options)
