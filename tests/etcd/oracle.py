"""Debian's etcd: three nodes on loopback, of which the leader is asked."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.clusters import free_ports
from tests.etcd.client import Client, Failed

NODES: Final = 3
START_S: Final = 60.0
END_S: Final = 20.0


@contextmanager
def started(program: Path, folder: Path) -> Iterator[list[str]]:
    """Its addresses, the leader's first; everything is ended by its id."""
    base = free_ports(2 * NODES)
    clients = [f"127.0.0.1:{base + number}" for number in range(NODES)]
    peers = [f"http://127.0.0.1:{base + NODES + number}" for number in range(NODES)]
    members = ",".join(f"n{number}={peer}" for number, peer in enumerate(peers))
    with ExitStack() as stack:
        for number, (address, peer) in enumerate(zip(clients, peers, strict=True)):
            client = f"http://{address}"
            words = ["--name", f"n{number}", "--data-dir", str(folder / f"n{number}"), "--initial-cluster", members]
            words += ["--listen-client-urls", client, "--advertise-client-urls", client]
            words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--log-level", "error"]
            stack.enter_context(_running([str(program), *words], folder / f"n{number}.log"))
        leader = _leader(clients)
        yield [leader, *(one for one in clients if one != leader)]


@contextmanager
def _running(words: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as said:
        process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_S)


def _leader(addresses: list[str]) -> str:
    """Which of them leads. Raises TimeoutError."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        for address in addresses:
            with Client(address) as client:
                status = client.ask("Status", {})
            if not isinstance(status, Failed) and status.leader and status.leader == status.header.member_id:
                return address
        time.sleep(0.1)
    raise TimeoutError("no etcd node leads")
