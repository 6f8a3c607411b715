"""What every test of this room ends with."""

from collections.abc import Iterator

import pytest

from tests.unit.gateway.grpc.house import end_streams


@pytest.fixture(autouse=True)
def _streams() -> Iterator[None]:
    """No stream goes on from one test to the next."""
    yield
    end_streams()
