"""What integration tests share: one cluster for those that do not harm it."""

from collections.abc import Iterator

import pytest

from tests.clusters import Started, up


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes that tests only talk to."""
    with up(tmp_path_factory.mktemp("shared") / "cluster") as started:
        yield started
