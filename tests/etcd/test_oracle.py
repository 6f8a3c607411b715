"""Debian's etcd itself, asked again: what is recorded of it is what it answers."""

from pathlib import Path

import pytest

from tests.etcd.deviations import unexplained
from tests.etcd.oracle import started
from tests.etcd.record import load, stories
from tests.peers import peer


@pytest.mark.oracle
@pytest.mark.peers
@pytest.mark.timeout(600)
def test_the_recorded_answers_are_what_etcd_says(tmp_path: Path) -> None:
    """Every case, of the leader of three nodes and of a follower."""
    recorded = load()
    with started(peer("etcd-server") / "etcd-server", tmp_path) as addresses:
        for way, address in zip(recorded, addresses, strict=False):
            told = stories(address)
            assert told.keys() == recorded[way].keys()
            assert [line for case in told for line in unexplained(way, case, recorded[way][case], told[case], [])] == []
