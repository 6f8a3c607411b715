"""What the bench says about others: etcd beside the Java controllers, and how often theirs ours must be."""

from typing import Any

from tests.bench.report import beside_others, failures


def closed(rate: float) -> dict[str, Any]:
    """A closed loop's figure."""
    return {
        "per_second": rate,
        "p50_us": 1000,
        "p99_us": 2000,
        "leader_cpu_us": 10.0,
        "follower_cpu_us": 5.0,
        "errors": 0,
    }


def test_others_stand_beside_us_with_how_often_theirs_ours_is() -> None:
    """Each peer has its column and its bar; one that was not measured has no bar, and none is taken for kept."""
    lines = beside_others({"closed 64": closed(9000), "etcd closed 64": closed(3000), "dledger closed 64": closed(500)})
    assert "| DLedger | × | JRaft | × | etcd | × | null server |" in lines[0]
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|")
    assert "≥ 4 × etcd with 64 clients: **no** (3.0 ×)." in lines
    assert "≥ 15 × DLedger with 64 clients: yes (18.0 ×)." in lines
    assert not any("JRaft with" in line for line in lines)


def test_a_peer_that_is_not_there_is_told_and_is_no_failure_of_ours() -> None:
    """etcd may be absent: the run says so, and its exit status is about us."""
    figures = {"etcd": {"failed": "absent: etcd-server (make peers)"}, "closed 64": {"failed": "no leader"}}
    assert failures(figures) == ["etcd: absent: etcd-server (make peers)", "closed 64: no leader"]
    assert failures(figures, ours_only=True) == ["closed 64: no leader"]
