"""Stock clients of etcd at three nodes: Go's clientv3 with the recipes of its ``concurrency``, and aetcd in Python. At
the leader alone, at a follower alone, and at all of them through a SIGKILL of the leader. What they did is in the log,
where kcat reads it, and on the page.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from quorate.gateway.http.answers import Status
from tests.browser.screen import Screen
from tests.clusters import Started, leader, quorate, until, up
from tests.etcd.drivers import Driver, driven, python
from tests.etcd.oracle import started
from tests.kcat import Record, read_back
from tests.peers import peer

RECIPES: Final = ("keys", "mutex", "election", "stm")
AETCD: Final = Path(__file__).parents[1] / "clients/aetcd/drive.py"
Commands = Callable[[str, str], dict[str, Sequence[str]]]
"""Of endpoints and a prefix: each program by its name."""


def _clientv3(where: str, prefix: str) -> dict[str, Sequence[str]]:
    program = str(peer("clientv3") / "clientv3")
    return {name: (program, name, where, f"{prefix}/{name}") for name in RECIPES}


def _aetcd(where: str, prefix: str) -> dict[str, Sequence[str]]:
    return {"aetcd": (*python(peer("aetcd")), str(AETCD), where, f"{prefix}/keys")}


CLIENTS: Final[dict[str, Commands]] = {"clientv3": _clientv3, "aetcd": _aetcd}
EACH_CLIENT = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes; who is killed comes back."""
    with up(tmp_path_factory.mktemp("clients") / "c", "--restart") as running:
        yield running


def lines(told: dict[str, Driver], kind: str) -> list[dict[str, Any]]:
    """What any of them said of this."""
    return [line for driver in told.values() for line in driver.at(kind)]


def check(cluster: Started, page: Screen, told: dict[str, Driver], prefix: str) -> None:
    """What a client cannot see: kcat and the page have every change of its keys and every lease as the log has them.
    Each of its numbers is there once and in order, at the revisions it was told; so is a write of each who held the
    lock, the key of each who led, at its revision, and both accounts of each transfer. Its lease ended once. Whoever
    held the lock had it by a revision of his own, later than those before.
    """
    (kept,) = lines(told, "kept")
    led = cluster.nodes[leader(cluster)]
    dumped = quorate("log", "dump", "-o", "json", "--node", led["http"], timeout_s=60)
    facts = [json.loads(line) for line in dumped.stdout.splitlines()]
    expected = [Record(fact["offset"], fact["type"], key) for fact in facts if (key := _key(fact, prefix))]
    read = [fact for fact in read_back(page, cluster, f"key/{prefix}/", "lease/") if fact["offset"] < len(facts)]
    assert [Record(fact["offset"], fact["type"], fact["key"]) for fact in read] == expected
    puts = [fact for fact in read if fact["type"] == "KeyPut"]
    number = f"key/{prefix}/keys/number"
    assert [fact["offset"] for fact in puts if fact["key"] == number] == kept["revisions"]
    changes = [fact["offset"] for fact in read if fact["key"] == number]
    assert page.history_of_key(f"{prefix}/keys/number", changes[-1]) == changes[:-51:-1]
    ended = [fact["key"] for fact in read if fact["type"] == "LeaseEnded"]
    assert [ended.count(f"lease/{line['lease']}") for line in lines(told, "revoked")] == [1]
    assert sum(fact["key"].endswith("/fenced") for fact in puts) >= len(lines(told, "locked"))
    campaigns = {fact["offset"] for fact in puts if fact["key"].startswith(f"key/{prefix}/election/")}
    assert {line["revision"] for line in lines(told, "leads")} <= campaigns
    moved = sum(fact["key"].startswith(f"key/{prefix}/stm/") for fact in puts)
    assert all(moved >= 2 * line["transfers"] > 0 for line in lines(told, "moved"))
    held = [line["revision"] for line in lines(told, "locked")]
    assert len(held) >= 20
    assert held == sorted(set(held))
    won = [line["name"] for line in lines(told, "leads")]
    assert won == [f"candidate-{number}" for number in range(len(won))]


def _key(fact: dict[str, Any], prefix: str) -> str:
    """Of a change below the prefix, and of what happened to a lease; empty: another fact."""
    event = fact["event"]
    if fact["type"].startswith("Lease"):
        return f"lease/{event['lease']}"
    return f"key/{event['key']}" if event.get("key", "").startswith(f"{prefix}/") else ""


@EACH_CLIENT
@pytest.mark.parametrize("way", ["leader", "follower"])
def test_a_stock_client_at_one_node(way: str, client: str, cluster: Started, page: Screen, tmp_path: Path) -> None:
    """Keys, watches, leases, locks, elections and transactions keep what they promise, whichever node is asked."""
    led, prefix = leader(cluster), f"/{client}/{way}"
    where = cluster.nodes[led if way == "leader" else (led + 1) % 3]["grpc"]
    with driven(CLIENTS[client](where, prefix), tmp_path) as told:
        for driver in told.values():
            driver.go_on()
    check(cluster, page, told, prefix)


@EACH_CLIENT
def test_a_stock_client_through_a_kill_of_the_leader(
    client: str, cluster: Started, page: Screen, tmp_path: Path
) -> None:
    """The same while the leader is killed under them: a lease that is kept alive stays, a lock has one holder, a watch
    misses nothing and repeats nothing, and no money is lost.
    """
    led, prefix = leader(cluster), f"/{client}/killed"
    addresses = [cluster.nodes[(led + step) % 3]["grpc"] for step in range(3)]
    with driven(CLIENTS[client](",".join(addresses), prefix), tmp_path) as told:
        other = cluster.node((led + 1) % 3)
        before = other.get("/v1/status", Status)
        _process(cluster, led).kill()

        def another_leads() -> bool:
            now = other.get("/v1/status", Status)
            return now.term > before.term and now.leader is not None and now.offset > before.offset + 20

        until(another_leads, "work under another leader")
        for driver in told.values():
            driver.go_on()
    check(cluster, page, told, prefix)


@pytest.mark.oracle
@pytest.mark.peers
@pytest.mark.parametrize("place", [0, 1], ids=["leader", "follower"])
@EACH_CLIENT
def test_what_a_stock_client_demands_holds_of_etcd(client: str, place: int, tmp_path: Path) -> None:
    """Its programs end well at Debian's etcd too: what they ask of us is what etcd does."""
    (tmp_path / "etcd").mkdir()
    with started(peer("etcd-server") / "etcd-server", tmp_path / "etcd") as addresses:
        with driven(CLIENTS[client](addresses[place], "/theirs"), tmp_path) as told:
            for driver in told.values():
                driver.go_on()
        assert len(lines(told, "locked")) >= 20
        assert lines(told, "kept")


def _process(cluster: Started, place: int) -> psutil.Process:
    """That runs this node now: one that was killed has another than the ready line says."""
    config = str(cluster.config(place))
    (found,) = (one for one in psutil.Process(cluster.process.pid).children() if config in one.cmdline())
    return found
