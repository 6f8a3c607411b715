"""Nothing acknowledged is ever lost: not by a killed node, not by all of them, not by a power failure."""

import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clusters import until
from tests.kills import power
from tests.kills.cluster import Cluster, LostError, Reader, Writers, verify


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled undo library."""
    return power.build(tmp_path_factory.mktemp("undo"))


def campaign(folder: Path, library: Path, rounds: int, seed: int, *, lie: bool = False) -> dict[str, int]:
    """Kill under load, round after round, each after something was acknowledged; what happened. Raises LostError.

    ``lie``: until the first power failure syncs do nothing, but for those with which the nodes came to be.
    """
    rng = random.Random(seed)
    cluster = Cluster(folder, library=library)
    writers, counts = Writers(cluster), {"alone": 0, "all": 0, "power": 0, "undone bytes": 0}
    try:
        cluster.start()
        cluster.leader()
        reader = None if lie else Reader(cluster)
        lying = ExitStack()
        if lie:
            lying.enter_context(cluster.lying())
        writers.start()
        for number in range(rounds):
            had = len(writers.acknowledged)
            until(lambda: len(writers.acknowledged) > had, "an acknowledged write", 30)  # noqa: B023
            time.sleep(rng.uniform(0.3, 1.0))
            if number % 2:
                cluster.kill(victim := rng.choice([cluster.leader(), *cluster.places]))
                counts["alone"] += 1
                time.sleep(rng.uniform(0.0, 1.0))
                cluster.start(victim)
            else:
                cluster.kill(*cluster.places)
                counts["all"] += 1
                if number % 4 == 0:
                    counts["power"] += 1
                    counts["undone bytes"] += cluster.lose_power(*cluster.places)
                    lying.close()
                cluster.start()
            cluster.leader()
        writers.stop()
        cluster.same_everywhere()
        cluster.stop()
        logs = cluster.event_logs()
        counts["events"] = verify(logs, writers.acknowledged)
        counts["acknowledged"] = len(writers.acknowledged)
        if reader is not None:
            cluster.start()
            cluster.leader()
            reader.stop(counts["events"])
        return counts
    finally:
        writers.stop()
        cluster.stop()


def test_kills_and_power_failures_under_load_lose_nothing(tmp_path: Path, library: Path) -> None:
    """Five rounds, of one node, of all, of all and their unsynced bytes: logs equal and gapless, nothing lost."""
    counts = campaign(tmp_path, library, rounds=5, seed=1)
    assert counts["power"] >= 2
    assert counts["undone bytes"] > 0
    assert counts["acknowledged"] > 50
    print(counts)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_rounds_of_kills_and_power_failures_lose_nothing(tmp_path: Path, library: Path) -> None:
    """The same, twenty rounds."""
    counts = campaign(tmp_path, library, rounds=20, seed=2)
    assert counts["power"] >= 5
    assert counts["undone bytes"] > 0
    assert counts["acknowledged"] > 200
    print(counts)


def test_with_sync_switched_off_the_same_campaign_fails(tmp_path: Path, library: Path) -> None:
    """The campaign can tell: a disk whose syncs do nothing loses, with the power, writes that were acknowledged, and
    that alone is what fails: all nodes start again, elect, agree, and have not got them.
    """
    with pytest.raises(LostError, match=r"^[1-9]\d* of \d+ acknowledged writes are lost"):
        campaign(tmp_path, library, rounds=1, seed=1, lie=True)
