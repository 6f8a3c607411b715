"""A cluster of three Quorate nodes with stock RocketMQ beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rocketmq.world import World, begun


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Name server, three controllers, a client; no broker yet."""
    with begun(tmp_path, name_server=True) as made:
        yield made


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[World]:
    """The same without a name server: the three controllers are all there is, and each broker has a node of its own."""
    with begun(tmp_path, name_server=False, spread=True) as made:
        yield made
