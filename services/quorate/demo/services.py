"""The processes of simulated services: each holds a lease, and a key under it. They are not started here."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from quorate.cli.cluster import NodePlace
from quorate.cli.processes import Child
from quorate.demo.companions import NICENESS

NAMES = ("/services/orders/1", "/services/orders/2")
TTL_S = 6
DOWN_S = 2.0 * TTL_S
"""Long enough for the lease of one that was stopped to expire, and for the key to be seen gone."""


@dataclass(frozen=True)
class Service:
    """One simulated service: its key and its process."""

    key: str
    child: Child


def services(folder: Path, places: Iterable[NodePlace]) -> list[Service]:
    """All of them; none in a cluster that was made before nodes spoke gRPC."""
    nodes = ",".join(place.grpc for place in places if place.grpc)
    if not nodes:
        return []
    home = folder / "services"
    home.mkdir(parents=True, exist_ok=True)
    made = []
    for key in NAMES:
        name = key.strip("/").replace("/", "-")
        words = ["simservice", "--nodes", nodes, "--key", key, "--ttl", str(TTL_S)]
        made.append(Service(key, Child(name, words, home / f"{name}.log", niceness=NICENESS)))
    return made
