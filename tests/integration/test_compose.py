"""docker-compose.yml runs: the command of each container as a process, healthy by the file's own check, all together.

What needs a Docker engine is not shown here: that the images build, and who may write into a new volume.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark", reason="absent peer: pyspark (make setup-all)")

from quorate.cli.client import Node
from quorate.gateway.http.answers import BrokerSets
from tests.clusters import until
from tests.contract.client import Remoting, read_json
from tests.integration.containers import HOSTS, Container, composition, stop
from tests.peers import REASON, peer

BROKERS = {f"{HOSTS[name]}:10911" for name in ("broker-1", "broker-2")}
CLUSTER_INFO = 106
"""A name server's GET_BROKER_CLUSTER_INFO: every broker that has registered."""


@pytest.fixture
def composed() -> Iterator[dict[str, Container]]:
    """The whole composition, started; its folder is one that PostgreSQL's account, which is not root, can get at."""
    if shutil.which("java") is None:
        pytest.skip(f"{REASON}java")
    for name in ("kafka", "postgresql", "rocketmq"):
        peer(name)
    with tempfile.TemporaryDirectory(prefix="quorate-compose-") as home:
        Path(home).chmod(0o755)
        with composition(Path(home)) as running:
            yield running


def one_set() -> bool:
    """Both brokers, each at its own address, are one set in sync, with one master: does every controller say so?"""
    for number in (1, 2, 3):
        controller = Node(f"{HOSTS[f'controller-{number}']}:9873", timeout_s=30)
        told = controller.get("/v1/brokers", BrokerSets).brokers
        in_sync = {replica.address for item in told for replica in item.replicas if replica.in_sync and replica.alive}
        if [item.broker_set for item in told] != ["broker-a"] or in_sync != BROKERS:
            return False
        if told[0].master_address not in BROKERS:
            return False
    return True


def registered() -> bool:
    """Does the name server know both brokers?"""
    with Remoting(f"{HOSTS['names']}:9876") as client:
        found = read_json(client.ask(CLUSTER_INFO).body)["brokerAddrTable"]
    return {address for item in found.values() for address in item["brokerAddrs"].values()} == BROKERS


def streams() -> dict[str, str]:
    """Who reads the log, and how it does, as the page says."""
    with urlopen(f"http://{HOSTS['dashboard']}:9950/api/streams", timeout=10) as answer:
        found = json.load(answer)["data"]["streams"]
    return {stream["name"]: stream["state"] for stream in found}


@pytest.mark.peers
@pytest.mark.timeout(900)
def test_every_container_runs_and_is_healthy_and_all_work_together(composed: dict[str, Container]) -> None:
    """Each is healthy by its own check; stock brokers are a set with a master, the page sees views, and Spark by way of
    PostgreSQL; all state is in volumes; asked to end, each does as its image should, ours with status 0.
    """
    for container in composed.values():
        container.until_healthy()
    until(one_set, "two brokers in sync, one master")
    until(registered, "the name server knows both brokers")
    readers = {"fold": "following", "serving": "running", "archive": "running", f"{HOSTS['views']}:9951": "running"}
    until(lambda: streams() == readers, "the page sees every reader")
    places = [place for container in composed.values() for place in container.places.values()]
    assert [place for place in places if not any(place.iterdir())] == []
    assert stop(composed) == {name: container.program.ends_with for name, container in composed.items()}
