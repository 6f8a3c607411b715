"""A voter of real nodes loses its whole data directory, and is brought back by the command it names itself."""

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import NodePlace, found
from quorate.gateway.http.answers import Quorum, StateHash, Status
from tests.clusters import free_ports, quorate, until
from tests.integration.test_fail_stop import leader, served


def told(place: NodePlace) -> str:
    """The command that the waiting node names; empty before it does."""
    text = (place.folder / "node.log").read_text(errors="replace")
    command = re.search(r"quorate (member rebuild \d+ --directory [0-9a-f-]{36})", text)
    return command[1] if command else ""


def equal(places: list[NodePlace]) -> bool:
    """Have all applied the same, and do they add up to the same?"""
    try:
        found = [Node(place.http, 1.0).get("/v1/state-hash", StateHash) for place in places]
    except NodeError:
        return False
    return len({(one.index, one.hash) for one in found}) == 1


@pytest.mark.slow
def test_a_wiped_voter_comes_back_by_the_command_it_names(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, it counts again (another may fail now), and its old directory stays out."""
    places = found(tmp_path / "c", 3, free_ports(30))
    with ExitStack() as stack:
        logs = [stack.enter_context((place.folder / "node.log").open("wb")) for place in places]
        nodes = [
            stack.enter_context(served(place, log.fileno(), buffered=False))
            for place, log in zip(places, logs, strict=True)
        ]
        until(lambda: all(Node(place.http, 1.0).serves() for place in places), "all nodes serve")
        assert quorate("config", "cluster", "before=1", "--unread", "--node", places[0].http).returncode == 0
        lost = next(i for i, place in enumerate(places) if place.id != leader(places[0]))
        others = [i for i in range(3) if i != lost]
        here = Node(places[others[0]].http)
        refused = quorate(
            "member", "rebuild", str(places[lost].id), "--directory", places_uuid(9), "--node", here.address
        )
        assert (refused.returncode, "stop it first" in " ".join(refused.stderr.split())) == (1, True)

        nodes[lost].kill()
        nodes[lost].wait()
        data = places[lost].folder / "data"
        shutil.move(data, tmp_path / "old")
        nodes[lost] = stack.enter_context(served(places[lost], logs[lost].fileno(), buffered=False))
        until(lambda: told(places[lost]), "the command")
        assert quorate("config", "cluster", "meanwhile=1", "--unread", "--node", here.address).returncode == 0
        assert quorate(*shlex.split(told(places[lost])), "--node", here.address).returncode == 0
        until(lambda: Node(places[lost].http, 1.0).serves() and equal(list(places)), "three equal nodes", 40.0)
        back = Node(places[lost].http)
        until(lambda: back.get("/v1/quorum", Quorum, level="stale").voting, "its vote", 40.0)

        down = others[1]
        nodes[down].kill()
        nodes[down].wait()
        until(
            lambda: quorate("config", "cluster", "after=1", "--unread", "--node", here.address).returncode == 0,
            "a write",
            30.0,
        )
        shown = quorate("config", "cluster", "--node", places[lost].http, "--linearizable").stdout
        assert all(name in shown for name in ("before", "meanwhile", "after"))

        nodes[lost].kill()
        nodes[lost].wait()
        nodes[down] = stack.enter_context(served(places[down], logs[down].fileno(), buffered=False))
        until(lambda: Node(places[down].http, 1.0).serves(), "two nodes")
        shutil.move(data, tmp_path / "new")
        shutil.move(tmp_path / "old", data)
        stack.enter_context(served(places[lost], logs[lost].fileno(), buffered=False))
        text = "knows another directory as node"
        until(lambda: text in (places[lost].folder / "node.log").read_text(), "the old directory is refused")
        members = Node(here.address).get("/v1/quorum", Quorum).voters
        assert [member.connected for member in members if member.id == places[lost].id] == [False]


@contextmanager
def all_served(places: list[NodePlace]) -> Iterator[None]:
    """Every one of them runs, with a new log."""
    with ExitStack() as stack:
        for place in places:
            log = stack.enter_context((place.folder / "node.log").open("wb"))
            stack.enter_context(served(place, log.fileno(), buffered=False))
        yield


@pytest.mark.slow
def test_all_but_one_of_five_are_wiped(tmp_path: Path) -> None:
    """Nothing is founded: each wiped one names the command, whoever runs it hears that there is no leader, and the one
    that is left keeps what it has. With their directories back they are five, and all is there.
    """
    places = list(found(tmp_path / "c", 5, free_ports(50)))
    left, *wiped = places
    with all_served(places):
        until(lambda: all(Node(place.http, 1.0).serves() for place in places), "all nodes serve")
        assert quorate("config", "cluster", "before=1", "--unread", "--node", left.http).returncode == 0
        until(lambda: equal(places), "five equal nodes")
        offset = Node(left.http).get("/v1/status", Status).offset
    for place in wiped:
        (place.folder / "data").rename(place.folder / "lost")

    with all_served(places):
        until(lambda: all(map(told, wiped)), "the commands")
        for place in (left, wiped[0]):
            ran = quorate(*shlex.split(told(wiped[0])), "--node", place.http)
            assert (ran.returncode, "waiting for a leader" in ran.stderr) == (1, True)
        for place, says in ((left, "knows no leader; it reaches 1 of 5"), (wiped[0], told(wiped[0]))):
            asked = quorate("status", "--node", place.http)
            assert (asked.returncode, says in " ".join(asked.stdout.split())) == (1, True)
        alone = [Node(place.http).get("/v1/status", Status, level="stale") for place in places]
        assert [status.leader for status in alone] == [None] * 5
        assert alone[0].offset >= offset  # They said a last word when they stopped.
        assert [status.offset for status in alone[1:]] == [0] * 4

    for place in wiped:
        shutil.rmtree(place.folder / "data")
        (place.folder / "lost").rename(place.folder / "data")
    with all_served(places):
        until(lambda: all(Node(place.http, 1.0).serves() for place in places), "all nodes serve")
        shown = quorate("config", "cluster", "--node", wiped[0].http, "--linearizable").stdout
        assert "before" in shown


def places_uuid(number: int) -> str:
    """Some directory's id."""
    return f"00000000-0000-4000-8000-{number:012}"
