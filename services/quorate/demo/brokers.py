"""The processes of simulated brokers: which there are, and where each listens. They are not started here."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from quorate.cli.cluster import HOST
from quorate.cli.processes import Child

CLUSTER = "DemoCluster"
FIRST_BROKER_PORT = 100


@dataclass
class Broker:
    """One simulated broker: its set, number (as we count, not the id the controller gives), address and process."""

    broker_set: str
    number: int
    address: str
    child: Child


def place_of(index: int, options: Namespace) -> tuple[str, int]:
    """A broker's set, and its number in it."""
    return f"broker-{chr(ord('a') + index // options.replicas)}", index % options.replicas + 1


def brokers(folder: Path, options: Namespace, controllers: str) -> list[Broker]:
    """The brokers of all sets, not started."""
    made = []
    for index in range(options.sets * options.replicas):
        name, number = place_of(index, options)
        port = options.base_port + FIRST_BROKER_PORT + index
        home = folder / f"{name}-{number}"
        home.mkdir(parents=True, exist_ok=True)
        where = ["--broker-set", name, "--port", str(port), "--controllers", controllers, "--home", str(home)]
        child = Child(f"{name}-{number}", ["simbroker", "--cluster", CLUSTER, *where], home / "broker.log")
        made.append(Broker(name, number, f"{HOST}:{port}", child))
    return made
