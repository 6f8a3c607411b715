"""The demonstration's table: what a person sees of a story, at the widths terminals have."""

import random
from argparse import Namespace
from pathlib import Path

import msgspec
import pytest

from quorate.cli.cluster import LocalCluster, places
from quorate.cli.output import complain
from quorate.demo.brokers import brokers
from quorate.demo.demonstration import Demonstration
from quorate.demo.screen import TableTeller
from quorate.demo.services import services
from quorate.events import ElectionFailed, KeyPut
from tests.unit.cli.stories import T0, applied, candidate, elected, fact, leads

REASON = "master’s connection closed: lower max offset"


def a_demonstration(folder: Path) -> Demonstration:
    """Two sets of two brokers and three nodes, nothing started; a failover after a kill, and a set without a master."""
    cluster = LocalCluster(places(folder, 3, 9870), complain)
    options = Namespace(sets=2, replicas=2, base_port=9870)
    held = services(folder, cluster.places.values())
    demo = Demonstration(cluster, brokers(folder, options, "h:1"), [], TableTeller(), random.Random(1), held)
    story = demo.story
    story.tell(fact(0, 0, leads(2)))
    address = demo.cast[1].address
    for event in (applied(1), applied(2, address=address), applied(1, "broker-b")):
        story.tell(fact(1, 1, event))
    story.tell(fact(1, 1, elected(1, 1)))
    story.tell(fact(1, 2, KeyPut(key="/services/orders/2", value=b"", lease=1, following=0)))
    story.fault(T0 + 1000, "SIGKILL to the master of broker-a", "broker-a")
    story.tell(fact(2, 1012, msgspec.structs.replace(elected(2, 2, 1), master_address=address)))
    story.tell(
        fact(
            3,
            1020,
            ElectionFailed(
                cluster="c", broker_set="broker-b", trigger="master lost", evidence="heartbeat expired", old_master=1,
                master_epoch=4, candidates=(candidate(1, "not alive", alive=False),), explanation="Nobody is fit.",
                last_heartbeat_ms=0, detected_ms=0, proposed_ms=0,
            ),
        )
    )  # fmt: skip
    return demo


@pytest.fixture(params=[80, 160])
def picture(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """The width, and the lines of what is shown."""
    width: int = request.param
    monkeypatch.setenv("COLUMNS", str(width))
    teller = TableTeller()
    teller.show(a_demonstration(tmp_path))
    teller.close()
    return width, capsys.readouterr().out.splitlines()


def rows(lines: list[str]) -> list[list[str]]:
    """The cells of the table, each whole: a line whose first cell is empty goes on with the one before."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            if cells[0]:
                found.append(cells)
            else:
                found[-1] = [" ".join(filter(None, pair)) for pair in zip(found[-1], cells, strict=True)]
    return found


def test_the_table_fits_and_says_why(picture: tuple[int, list[str]]) -> None:
    """No line is wider than the terminal; each set has its brokers, master, epoch, those in sync, and the reason."""
    width, lines = picture
    assert max(map(len, lines)) <= width
    assert rows(lines) == [
        ["broker-a", "● ◆", "2 127.0.0.1:9971", "2", "2", REASON],
        ["broker-b", "● ●", "nobody", "4", "", ""],
    ]


def test_nodes_happenings_and_figures_stand_around_it(picture: tuple[int, list[str]]) -> None:
    """Above the table who leads and who is down, below it the faults and elections as they came, and the figures."""
    shown = " ".join(" ".join(picture[1]).split())
    assert "offset 4 nodes 1 down kafka 127.0.0.1:9872 2 leads down kafka 127.0.0.1:9882 3 down" in shown
    assert "leases ● /services/orders/1 not yet ● /services/orders/2 is there" in shown
    told = [
        "node 2 leads the controllers",
        "SIGKILL to the master of broker-a",
        "[12 ms after the kill]",
        "Nobody is fit",
    ]
    assert [shown.index(line) for line in told] == sorted(shown.index(line) for line in told)
    assert "1 faults, 1 fail-overs (p50 12 ms, max 12 ms); the leading controller changed 0 times" in shown
