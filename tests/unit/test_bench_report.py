"""What ``make bench`` says of its figures: a reader must see what failed, what was disturbed, and if runs agree."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.harness import Run, middle
from tests.bench.links import in_turns, priced
from tests.bench.report import BARS, Figures, failures, render

KEPT = {"per_second": 15_000.0, "p50_us": 4000, "p99_us": 8000, "leader_cpu_us": 60.0, "follower_cpu_us": 40.0}
CALM = {"steal_pct": 0.1, "load_average": 2.0}


def line(report: str, what: str) -> str:
    """The first line of the report that begins with a bar's name."""
    return next(line for line in report.splitlines() if line.startswith(f"| {what} |"))


def test_a_figure_that_fails_is_told_and_the_next_one_is_taken(tmp_path: Path) -> None:
    """Whatever a measurement raises is its figure, with the reason; those after it are as if it had not been."""
    run = Run(tmp_path, tmp_path, 1, "test")

    def broken() -> dict[str, Any]:
        raise ConnectionResetError("it hung up")

    run.take("page", broken)
    run.take("closed 64", lambda: dict(KEPT))
    assert failures(run.figures) == ["page: ConnectionResetError: it hung up"]
    report = render([run.figures], "a machine")
    assert "- page: ConnectionResetError: it hung up" in report
    assert "**failed**" in line(report, "event → page: p50")
    assert "yes" in line(report, "closed loop, 64: commits/s")


def test_the_middle_round_keeps_what_the_machine_gave_in_it(tmp_path: Path) -> None:
    """A figure chosen among rounds is marked as disturbed when its own round was, not when it was chosen."""
    run = Run(tmp_path, tmp_path, 1, "test")
    rounds = [KEPT | {"p99_us": p99, "steal_pct": pct} for p99, pct in ((9000, 1.0), (7000, 2.0), (8000, 12.0))]
    kept = run.take("closed 64", lambda: middle(rounds))
    assert (kept["p99_us"], kept["steal_pct"], kept["p99_us_rounds"]) == (8000, 12.0, [9000, 7000, 8000])


def test_a_control_that_fails_is_no_failure_of_ours() -> None:
    """A Java controller that hangs up, or a peer that is not there, is told, but it is not ours."""
    figures = {
        "jraft closed 64": {"failed": "it hung up"},
        "spark stream kafka": {"failed": "absent: spark (make peers)"},
        "memory": {"failed": "no leader"},
    }
    assert len(failures(figures)) == 3
    assert failures(figures, ours_only=True) == ["memory: no leader"]


def test_a_disturbed_figure_is_marked() -> None:
    """Where the host of the machine took much of the CPU, the line of the figure says so."""
    calm, disturbed = ({"closed 64": KEPT | {"steal_pct": pct, "load_average": 2.0}} for pct in (0.1, 12.0))
    assert "⚠" not in line(render([calm], ""), "closed loop, 64: p99")
    assert "12 % ⚠" in line(render([disturbed], ""), "closed loop, 64: p99")


@pytest.mark.parametrize(("second", "agree"), [(12_000 * 1.24, "| yes |"), (12_000 * 1.26, "| **no** |")])
def test_two_runs_agree_within_a_quarter(second: float, agree: str) -> None:
    """More than 25 % of the smaller apart is not agreed."""
    runs = [{"closed 64": KEPT | CALM | {"per_second": value}} for value in (12_000.0, second)]
    told = render(runs, "").partition("agree within 25 %?")[2]
    assert agree in line(told, "closed loop, 64: commits/s")


def test_the_price_of_tags_is_between_a_second_and_the_next() -> None:
    """Odd seconds have them, and each is compared with the one after it."""
    used = [0.0, 1.0, 1.5, 2.0, 2.6, 3.1, 3.8, 4.4]  # 5, 5, 6, 5, 7 and 6 ms for each of a hundred commits, from 11 on.
    looks = [(10 + at, cpu, 100.0 * at) for at, cpu in enumerate(used)]
    found = priced(looks)
    assert (found["leader_cpu_us"], found["without_us"]) == (6000.0, 5000.0)
    assert (found["added_us"], found["error_us"]) == (666.7, 333.3)
    assert found["ratio"] == 1.2


def test_nodes_that_tag_in_turns_make_real_tags_and_none(tmp_path: Path) -> None:
    """The control is what it says: both ways are there, a packet of either way is taken by a node in the other, and
    programs that are started afterwards are as they were.
    """
    code = """if True:
        import time
        from quorate.consensus.transport.packets import LENGTH, Tags, pack, unpack
        seen = []
        for second in (3.0, 4.0):
            sender, taker = Tags(b"k", b"D", b"h", b"h"), Tags(b"k", b"D", b"h", b"h")
            time.time = lambda: second
            packet = pack(sender, [b"frame"], 1000)
            time.time = lambda: second + 1
            assert unpack(taker, packet, LENGTH.size, len(packet)) == [b"frame"]
            seen.append(any(packet[LENGTH.size : LENGTH.size + 16]))
        print(*seen)
    """

    def tags() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    with in_turns(tmp_path):
        assert tags().stdout.split() == ["True", "False"]
    assert tags().stdout.split() == ["True", "True"]


def test_a_load_that_went_wrong_is_marked() -> None:
    """Errors, and a rate that was not held, stand in the line of the figure: its value is not worth what it seems."""
    asked = {"open 1000": KEPT | CALM | {"per_second": 700.0, "rate_not_held": 1000, "errors": 3}}
    told = line(render([asked], ""), "open loop 1,000/s, 64 connections: p99")
    assert "3 errors" in told
    assert "700/s only" in told


def test_a_bar_that_is_missed_has_its_profile() -> None:
    """The report names the profile that shows where the time went, and holds it."""
    missed = KEPT | CALM | {"per_second": 9000.0}
    figures: Figures = {"closed 64": missed, "profile closed 64": {"top": ["38 % Decider.take"]}}
    report = render([figures], "")
    assert "**no**" in line(report, "closed loop, 64: commits/s")
    assert "Profile *closed 64*, for: closed loop, 64: commits/s" in report
    assert "    38 % Decider.take" in report


def test_every_bar_has_a_name_of_its_own() -> None:
    """Two lines that say the same could not be told apart."""
    assert len({bar.what for bar in BARS}) == len(BARS)
