"""The recorded lives of stock brokers with Java controllers, told to Quorate: the same answers, or a deviation."""

from pathlib import Path

import pytest

from quorate.wire.remoting import HeaderType
from tests.contract.deviations import Deviation, load, unexplained
from tests.contract.replay import life, replayed


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["dledger", "jraft"])
@pytest.mark.parametrize(
    ("header_type", "through_follower"),
    [
        pytest.param(HeaderType.JSON, False, id="json, as recorded"),
        pytest.param(HeaderType.BINARY, True, id="binary, through a follower"),
        pytest.param(HeaderType.BINARY, False, id="binary, as recorded", marks=pytest.mark.slow),
        pytest.param(HeaderType.JSON, True, id="json, through a follower", marks=pytest.mark.slow),
    ],
)
def test_a_recorded_life_is_answered_as_it_was(
    mode: str, header_type: HeaderType, through_follower: bool, tmp_path: Path, deviations: list[Deviation]
) -> None:
    """Boot, failover, return, switch-over, settings, loss of the leader, SIGTERM, cleaning: each answer and push, with
    either header, at the recorded roles and through a node that follows.
    """
    told = {line.number for line in life(mode) if line.kind == "response" or line.request_code == 1008}
    for java, ours in replayed(mode, tmp_path, header_type, through_follower=through_follower):
        assert len(java) == len(told), "every recorded answer and push has its counterpart"
        assert unexplained(mode, f"golden {mode}", java, ours, deviations) == []
        entries = [entry for entry in load() if entry.case == f"golden {mode}"]
        unexplained(mode, f"golden {mode}", java, ours, entries)
        assert [entry for entry in entries if not (entry.used or entry.sometimes)] == [], (
            "an entry that explains nothing is out of date"
        )
