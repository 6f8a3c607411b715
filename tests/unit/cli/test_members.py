"""``quorate members``: who is asked."""

import json
from collections.abc import Iterator

import pytest

from quorate.cli import program
from quorate.gateway.http.answers import HealthItem, MemberAnswer, MemberItem, Members, Quorum, QuorumMember
from tests.unit.cli.served import Served, serving

NOT_REACHED = "the leader, which alone hears members, was not reached"
DEAD = "127.0.0.1:1"


@pytest.fixture
def follower() -> Iterator[Served]:
    with serving() as served:
        answering(served, heard_ms=None)
        yield served


@pytest.fixture
def leader() -> Iterator[Served]:
    with serving() as served:
        answering(served, heard_ms=1000)
        served.answers["/readyz"] = {}
        yield served


def answering(node: Served, heard_ms: int | None) -> None:
    """A node that knows the member ``m``, and heard it then, or never."""
    health = HealthItem(disk_used_bytes=1, disk_total_bytes=2, cpu_percent=3, memory_percent=4, io_errors=5)
    item = MemberItem(
        name="m", state="active", incarnation="1", epoch=3, roles=("mqtt",), addresses={}, labels={}, timeout_ms=1000,
        draining=False, may_leave=False, changed_ms=5, last_heard_ms=heard_ms, health=health if heard_ms else None,
    )  # fmt: skip
    node.answers["/v1/members/m"] = MemberAnswer(offset=9, time_ms=5, node=1, member=item)
    node.answers["/v1/members"] = Members(offset=9, time_ms=5, node=1, members=[item], next=None)


def led_by(address: str) -> Quorum:
    """A quorum of one, which leads, or has no leader."""
    voter = QuorumMember(
        id=2, leader=bool(address), connected=True, rpc="", raft="", kafka="", http=address, version="1", started_ms=0,
        dir_uuid="",
    )  # fmt: skip
    return Quorum(
        offset=9, time_ms=5, node=1, cluster_id="c", leader=2, term=3, role="follower", voting=True, commit_index=1,
        applied_index=1, leader_since_ms=0, leader_cause="silent", voters=[voter],
    )  # fmt: skip


def heard(capsys: pytest.CaptureFixture[str]) -> object:
    """When the member was heard, of what was printed."""
    told = json.loads(capsys.readouterr().out)
    return (told[0] if isinstance(told, list) else told)["last_heard_ms"]


def run(node: Served, *words: str) -> int:
    return program.main(["members", *words, "--node", node.address])


@pytest.mark.parametrize("words", [("describe", "m"), ("list",)])
def test_what_is_heard_is_asked_of_the_leader(
    follower: Served, leader: Served, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever node is named; with ``--stale`` that one answers, and of the past nobody knows."""
    follower.answers["/v1/quorum"] = led_by(leader.address)
    assert run(follower, *words, "-o", "json") == 0
    assert heard(capsys) == 1000
    for own in (("--stale",), ("--at", "5")):
        assert run(follower, *words, *own, "-o", "json") == 0
        assert heard(capsys) is None
    assert [path for _, path, *_ in leader.asked][1:] == [f"/v1/members{'/m' if 'm' in words else ''}"]


def test_a_description_tells_how_the_leader_hears_the_member(
    follower: Served, leader: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """When, and its disk, processors, memory and errors, each in a row."""
    follower.answers["/v1/quorum"] = led_by(leader.address)
    assert run(follower, "describe", "m") == 0
    said = capsys.readouterr()
    assert {"heard", "disk", "cpu, memory", "io errors"} <= {line.split("  ")[0] for line in said.out.splitlines()}
    assert said.err == ""


@pytest.mark.parametrize("address", [DEAD, ""])
def test_a_leader_that_is_not_reached_is_told_in_one_line(
    follower: Served, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The node that was named answers then; a table of all members has nothing of what is heard, and asks as ever."""
    follower.answers["/v1/quorum"] = led_by(address)
    for words in (("describe", "m"), ("list", "-o", "json")):
        assert run(follower, *words) == 0
        said = capsys.readouterr()
        assert (said.err.count("\n"), said.err.startswith(NOT_REACHED)) == (1, True)
        assert "active" in said.out
    assert run(follower, "list") == 0
    assert capsys.readouterr().err == ""
