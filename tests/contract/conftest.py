"""One cluster for all contract cases, and the answers it gave, asked for once per way of asking."""

from collections.abc import Iterator

import pytest

from quorate.wire.remoting import HeaderType
from tests.contract.cases import CASES
from tests.contract.cluster import QuorateCluster
from tests.contract.deviations import Deviation, load
from tests.contract.speaker import Story, tell

Way = tuple[bool, HeaderType]
"""(through a follower's address?, form of the headers)."""


class Answers:
    """What our cluster answers to each case, each way; each asked once."""

    def __init__(self, controllers: list[str]) -> None:
        self._controllers = controllers
        self._kept: dict[tuple[str, Way], Story] = {}

    def __call__(self, case: str, way: Way) -> Story:
        if (case, way) not in self._kept:
            follower, header_type = way
            name = f"{case}-{follower}-{header_type.name}"
            self._kept[case, way] = tell(
                CASES[case], name, self._controllers, follower=follower, header_type=header_type
            )
        return self._kept[case, way]


@pytest.fixture(scope="session")
def quorate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuorateCluster]:
    """Three nodes as ``quorate up`` starts them."""
    cluster = QuorateCluster(tmp_path_factory.mktemp("contract"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def answers(quorate: QuorateCluster) -> Answers:
    """Ask for a case, a way; get the story."""
    return Answers(quorate.addresses)


@pytest.fixture(scope="session")
def deviations() -> list[Deviation]:
    """The entries of deviations.toml; they remember which were needed."""
    return load()
