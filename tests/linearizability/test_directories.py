"""A voter's data directory is replaced by a copy, under clients: nothing acknowledged is lost, by their history."""

from pathlib import Path

import pytest

from tests.linearizability.nemesis import PUT_BACK, campaign
from tests.linearizability.test_reads import judge

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("kind", PUT_BACK)
def test_a_directory_put_back_loses_nothing_acknowledged(kind: str, tmp_path: Path) -> None:
    """One order of the writes explains every read on every node, before and after; who may not lead meanwhile does
    not, or is refused by name, and comes back (the nemesis says so).
    """
    judge(campaign(tmp_path / "c", 1, 1, kinds=[kind]))
