"""The recorded lives of stock brokers with Java controllers, told to Quorate: the same answers, or a deviation."""

from pathlib import Path

import pytest

from tests.contract.deviations import Deviation, load, unexplained
from tests.contract.replay import life, replayed


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["dledger", "jraft"])
def test_a_recorded_life_is_answered_as_it_was(mode: str, tmp_path: Path, deviations: list[Deviation]) -> None:
    """Boot, failover, return, switch-over, settings, loss of the leader, SIGTERM, cleaning: each answer and push."""
    told = {line.number for line in life(mode) if line.kind == "response" or line.request_code == 1008}
    for java, ours in replayed(mode, tmp_path):
        assert len(java) == len(told), "every recorded answer and push has its counterpart"
        assert unexplained(mode, f"golden {mode}", java, ours, deviations) == []
        entries = [entry for entry in load() if entry.case == f"golden {mode}"]
        unexplained(mode, f"golden {mode}", java, ours, entries)
        assert [entry for entry in entries if not (entry.used or entry.sometimes)] == [], (
            "an entry that explains nothing is out of date"
        )
