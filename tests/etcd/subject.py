"""Three Quorate nodes, and the addresses at which they speak etcd's language."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clusters import until, up
from tests.etcd.client import Client, Failed


@contextmanager
def started(folder: Path) -> Iterator[list[str]]:
    """Their addresses, the leader's first."""
    with up(folder) as cluster:
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
