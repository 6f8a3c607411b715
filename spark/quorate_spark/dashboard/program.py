"""From the command line to a service that listens, until it is told to stop."""

import asyncio
import json
import signal
import sys
import time
from argparse import Namespace
from functools import partial
from typing import Final

import uvloop

from quorate.asking import addresses, kafka_addresses
from quorate.descriptors import SPARE
from quorate.flags import typed
from quorate.guarded_web import GuardedRunner
from quorate.listening import address_error, fitted
from quorate.log_filter import throttle_repeats
from quorate_spark.dashboard.service import Service
from quorate_spark.dashboard.settings import Settings

ASKING_MAX: Final = 100
"""Connections on which nodes are asked: aiohttp's own limit."""


def settings_of(options: Namespace) -> Settings:
    """The settings the arguments describe. Raises UsageError."""
    return Settings(
        nodes=() if options.log is not None else _nodes(options),
        registry=options.node,
        recorded=options.log,
        names=tuple(options.name),
        projections=addresses(options.projections, "--projections") if options.projections else (),
        **typed(options, Settings),
    )


def _nodes(options: Namespace) -> tuple[str, ...]:
    """Kafka addresses: as said, or as a node says."""
    if options.nodes:
        return addresses(options.nodes, "--nodes")
    say = partial(print, "quorate dashboard:", file=sys.stderr)
    text = kafka_addresses(options.node, lambda: time.sleep(1.0), say)  # noqa: TID251  Nothing runs beside it yet.
    return tuple(text.split(","))


def serve(options: Namespace) -> int:
    """Serve until told to stop. Raises UsageError."""
    settings = settings_of(options)
    throttle_repeats()
    service = Service(settings, lambda: time.time_ns() // 1_000_000)  # noqa: TID251  The one reader of the clock here.
    # Not asyncio's own loop: it takes a thousand connections before it lets our door close one.
    return uvloop.run(_serve(service, settings, as_json=options.output == "json"))


async def _serve(service: Service, settings: Settings, *, as_json: bool) -> int:
    """Listen, say so, and wait for SIGINT or SIGTERM."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    runner = service.runner()
    try:
        listener = await listen(runner, service, settings)
        port = listener.sockets[0].getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        url = f"http://{host}:{port}/"
        offset = service.folded.tip.offset
        line = json.dumps({"ready": True, "url": url, "offset": offset}) if as_json else f"The dashboard is at {url}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        await asked.wait()
    finally:
        await runner.cleanup()
    return 0


async def listen(runner: GuardedRunner, service: Service, settings: Settings) -> asyncio.Server:
    """Listen, behind a door. Raises UsageError, and AddressError when the address cannot be had."""
    limits = fitted(settings.listening, SPARE + ASKING_MAX + len(settings.projections))
    try:
        listener = await runner.listen(settings.host, settings.port, limits)
    except OSError as error:
        raise address_error("--port", settings.host, settings.port, error) from error
    service.keeper = runner.keeper
    return listener
