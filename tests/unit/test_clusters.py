"""What tests start clusters with."""

import pytest

from tests import clusters


def test_ports_are_not_found_free_twice_before_they_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that asks for the ports of a cluster, and then for another, gets one that the cluster will not take."""
    monkeypatch.setattr(clusters, "port_range", lambda: (20_000, 20_400))
    for _ in range(20):
        clusters._given.clear()
        first, other = clusters.free_ports(200), clusters.free_ports(1)
        assert other not in range(first, first + 200)
