"""The processes of simulated services: each holds a lease, and a key under it; and those of members, some in each.

They are not started here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from quorate.cli.cluster import NodePlace
from quorate.cli.processes import Child
from quorate.demo.companions import NICENESS

NAMES = ("/services/orders/1", "/services/orders/2")
TTL_S = 6
DOWN_S = 2.0 * TTL_S
"""Long enough for the lease of one that was stopped to expire, and for the key to be seen gone; members are fenced."""
STAYING = ("store-1:journal", "store-2:journal", "mqtt-1:mqtt")
LEAVING = ("store-3:journal", "mqtt-2:mqtt")
"""Members of the process that is stopped now and then."""


@dataclass(frozen=True)
class Service:
    """One process: the key of a simulated service, or the names of members, and what it is called."""

    key: str
    child: Child
    told: str
    stays: bool = False
    """It is never stopped."""
    members: tuple[str, ...] = ()


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
        child = Child(name, words, home / f"{name}.log", niceness=NICENESS)
        made.append(Service(key, child, f"the service that holds {key}"))
    made.insert(1, _members(home, nodes, LEAVING, stays=False))
    return [*made, _members(home, nodes, STAYING, stays=True)]


def _members(home: Path, nodes: str, members: tuple[str, ...], *, stays: bool) -> Service:
    """A process of some members."""
    names = tuple(member.partition(":")[0] for member in members)
    words = ["simmembers", "--nodes", nodes, *(word for member in members for word in ("--member", member))]
    file = f"members-{names[0]}"
    child = Child(file, words, home / f"{file}.log", niceness=NICENESS)
    return Service(", ".join(names), child, f"the members {' and '.join(names)}", stays, names)
