"""``quorate simbroker`` without a set: some broker sets of simulated brokers for a cluster that runs.

Rules: each broker is a process of its own, ended with us; what they keep lies in a folder that is theirs and stays, so
that a second start goes on: brokers that forgot who they are would be others, and their sets without a master for good.
"""

import asyncio
from argparse import Namespace
from pathlib import Path

from quorate.asking import addresses, right_port
from quorate.cli.cluster import PORT_MAX, unused
from quorate.cli.command import DONE
from quorate.cli.output import complain
from quorate.cli.processes import die_with
from quorate.cli.up import stop_asked
from quorate.demo.brokers import FIRST_BROKER_PORT, brokers
from quorate.demo.channel import CallError, connect
from quorate.errors import UsageError, reason_of
from quorate.unseen import unseen_by_git
from quorate.wire.remoting_headers import RequestCode

HOME = Path("brokers")
SETS_MAX = 26
LOOK_S = 0.2
STOP_PATIENCE_S = 5.0
CONTROLLERS_PATIENCE_S = 5.0
"""So long nobody may answer before it is said."""


def checked(options: Namespace) -> tuple[str, ...]:
    """Where the controllers are. Raises UsageError for what cannot be."""
    if not 1 <= options.sets <= SETS_MAX or options.replicas < 1:
        raise UsageError(f"--sets {options.sets} --replicas {options.replicas}: 1 to {SETS_MAX} sets of at least 1")
    if not 0 < options.port <= PORT_MAX - options.sets * options.replicas:
        raise UsageError(f"--port {options.port}: {options.sets * options.replicas} brokers do not fit above it")
    return addresses(options.controllers.replace(";", ","), "--controllers")


async def _answers(address: str) -> bool:
    """Is a controller there?"""
    try:
        channel = await connect(address, lambda *_: None)
    except CallError:
        return False
    try:
        await channel.ask(RequestCode.CONTROLLER_GET_METADATA_INFO)
    except CallError:
        return False
    finally:
        channel.close()
    return True


async def tell_silence(controllers: tuple[str, ...], patience_s: float = CONTROLLERS_PATIENCE_S) -> None:
    """Say it once, with what to do, when none of them has answered."""
    try:
        async with asyncio.timeout(patience_s):
            while not any(await asyncio.gather(*map(_answers, controllers))):  # noqa: ASYNC110  Another process answers.
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        usual = "quorate up starts a cluster here; --controllers wants the rpc addresses of another, HOST:PORT;…"
        looks = (asyncio.to_thread(right_port, address, "--controllers", "rpc") for address in controllers)
        advice = next(filter(None, await asyncio.gather(*looks)), usual)
        complain(f"{', '.join(controllers)}: no controller has answered for {patience_s:g} s; {advice}")


async def _run(options: Namespace, home: Path, controllers: tuple[str, ...]) -> None:
    asked = stop_asked()
    options.base_port = options.port - FIRST_BROKER_PORT
    cast = brokers(home, options, ";".join(controllers))
    unused({f"broker {one.number} of {one.broker_set}": one.address for one in cast}, "--port")
    try:
        for broker in cast:
            await broker.child.start()
        looking = asyncio.create_task(tell_silence(controllers))
        print(f"{len(cast)} simulated brokers from {cast[0].address} on, kept in {home}; Ctrl-C ends them", flush=True)
        await asked.wait()
        looking.cancel()
    finally:
        await asyncio.gather(*(broker.child.stop(STOP_PATIENCE_S) for broker in cast if broker.child.alive))


def run(options: Namespace) -> int:
    """Until told to stop. Raises UsageError."""
    controllers = checked(options)
    die_with(options.die_with)
    home: Path = (options.home or HOME).resolve()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--home {home}: {reason_of(error)}") from error
    unseen_by_git(home)
    asyncio.run(_run(options, home, controllers))
    return DONE
