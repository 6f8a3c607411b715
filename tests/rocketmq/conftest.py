"""A cluster of three Quorate nodes with stock RocketMQ beside it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.cluster import QuorateCluster
from tests.peers import peer
from tests.rocketmq.stock import Peer, Stock
from tests.rocketmq.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Name server, three controllers, a client; no broker yet."""
    jars = peer("rocketmq") / "lib"
    with contextlib.ExitStack() as stack:
        stock = Stock(tmp_path / "stock", jars)
        stack.callback(stock.stop)
        cluster = QuorateCluster(tmp_path / "quorate")
        stack.callback(cluster.stop)
        stock.name_server()
        yield World(cluster, stock, Peer(stock))
