"""A cluster of three Quorate nodes with stock RocketMQ beside it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.cluster import QuorateCluster
from tests.peers import peer
from tests.rocketmq.stock import Peer, Stock
from tests.rocketmq.world import World


@contextlib.contextmanager
def _begun(directory: Path, *, name_server: bool) -> Iterator[World]:
    jars = peer("rocketmq") / "lib"
    with contextlib.ExitStack() as stack:
        stock = Stock(directory / "stock", jars)
        stack.callback(stock.stop)
        cluster = QuorateCluster(directory / "quorate")
        stack.callback(cluster.stop)
        if name_server:
            stock.name_server()
        else:
            stock.names = ";".join(cluster.addresses)
        yield World(cluster, stock, Peer(stock))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Name server, three controllers, a client; no broker yet."""
    with _begun(tmp_path, name_server=True) as begun:
        yield begun


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[World]:
    """The same without a name server: the three controllers are all there is."""
    with _begun(tmp_path, name_server=False) as begun:
        yield begun
