"""``quorate simbroker`` without a set: some broker sets of simulated brokers for a cluster that runs.

Rules: each broker is a process of its own, ended with us; what they keep lies in a folder that is theirs, so that they
come back as who they were when it is named again.
"""

import asyncio
from argparse import Namespace
from pathlib import Path

from quorate.cli.cluster import PORT_MAX, unused
from quorate.cli.command import DONE
from quorate.cli.processes import die_with
from quorate.cli.up import Home, stop_asked
from quorate.demo.brokers import FIRST_BROKER_PORT, brokers
from quorate.errors import UsageError

SETS_MAX = 26
STOP_PATIENCE_S = 5.0


def checked(options: Namespace) -> None:
    """Raises UsageError for what cannot be."""
    if not 1 <= options.sets <= SETS_MAX or options.replicas < 1:
        raise UsageError(f"--sets {options.sets} --replicas {options.replicas}: 1 to {SETS_MAX} sets of at least 1")
    if not 0 < options.port <= PORT_MAX - options.sets * options.replicas:
        raise UsageError(f"--port {options.port}: {options.sets * options.replicas} brokers do not fit above it")


async def _run(options: Namespace, home: Path) -> None:
    asked = stop_asked()
    options.base_port = options.port - FIRST_BROKER_PORT
    cast = brokers(home, options, options.controllers)
    unused({f"broker {one.number} of {one.broker_set}": one.address for one in cast}, "--port")
    try:
        for broker in cast:
            await broker.child.start()
        print(f"{len(cast)} simulated brokers from {cast[0].address} on, kept in {home}; Ctrl-C ends them", flush=True)
        await asked.wait()
    finally:
        await asyncio.gather(*(broker.child.stop(STOP_PATIENCE_S) for broker in cast if broker.child.alive))


def run(options: Namespace) -> int:
    """Until told to stop. Raises UsageError."""
    checked(options)
    die_with(options.die_with)
    with Home(options.home) as home:
        asyncio.run(_run(options, home))
    return DONE
