"""Three Quorate nodes that have raised their feature level, and the addresses at which they speak etcd's language."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.clusters import quorate, until, up
from tests.etcd.client import Client, Failed

FEATURE_LEVEL: Final = "2"
"""From which keys and leases are events of the log."""


@contextmanager
def started(folder: Path) -> Iterator[list[str]]:
    """Their addresses, the leader's first."""
    with up(folder) as cluster:
        raised = quorate("feature", "raise", FEATURE_LEVEL, "--node", cluster.nodes[0]["http"])
        assert raised.returncode == 0, raised.stderr + raised.stdout
        addresses = [node["grpc"] for node in cluster.nodes]
        until(lambda: leading(addresses), "a leader that every node names")
        leader = leading(addresses)
        yield [*leader, *(one for one in addresses if one not in leader)]


def leading(addresses: list[str]) -> list[str]:
    """The address of the one that says that it leads, if all of them name the same one."""
    named, found = set(), []
    for address in addresses:
        with Client(address) as client:
            status = client.ask("Status", {})
        if isinstance(status, Failed):
            return []
        named.add(status.leader)
        if status.leader == status.header.member_id:
            found.append(address)
    return found if len(named) == 1 else []
