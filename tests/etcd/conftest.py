"""One cluster for all cases, and the stories it told, each asked for once, of the leader and of a follower."""

from collections.abc import Callable, Iterator

import pytest

from tests.browser.screen import Screen
from tests.browsers import headless, showing
from tests.clusters import Started
from tests.etcd.cases import CASES
from tests.etcd.client import Client
from tests.etcd.deviations import Deviation, load
from tests.etcd.subject import started
from tests.etcd.teller import Story, tell

WAYS = ("leader", "follower")
Told = Callable[[str, str], Story]
"""Of a way and a case."""


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """Ask for a way and a case; get the story."""
    kept: dict[tuple[str, str], Story] = {}
    with started(tmp_path_factory.mktemp("etcd") / "cluster") as addresses:
        clients = dict(zip(WAYS, map(Client, addresses), strict=False))

        def ask(way: str, case: str) -> Story:
            if (way, case) not in kept:
                kept[way, case] = tell(CASES[case], case, clients[way])
            return kept[way, case]

        yield ask
        for client in clients.values():
            client.close()


@pytest.fixture(scope="module")
def page(cluster: Started) -> Iterator[Screen]:
    """A window on the page of a file's own cluster."""
    with headless() as browser, showing(browser, cluster) as shown:
        yield shown


@pytest.fixture(scope="session")
def deviations() -> list[Deviation]:
    """The lines of deviations.toml."""
    return load()
