"""The demonstration as ``make run`` starts it, made shorter."""

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

from quorate.gateway.http.answers import Status
from tests.clusters import free_ports, quorate, running, until


def test_masters_fail_over_and_nothing_changes_without_a_fault(tmp_path: Path) -> None:
    """Killed masters are replaced while controllers die too; no leader or master changes without a fault."""
    words = [
        "demo",
        "-o",
        "json",
        "--with",
        "none",
        "--data-dir",
        str(tmp_path / "d"),
        "--base-port",
        str(free_ports(120)),
    ]
    with running([*words, "--every", "2", "--seed", "3", "--for", "30"], tmp_path / "d") as demo:
        assert [node["id"] for node in demo.ready["nodes"]] == [1, 2, 3]
        assert len(demo.ready["brokers"]) == 12
        rest, _ = demo.process.communicate(timeout=70)
    told = [json.loads(line) for line in rest.decode().splitlines()]
    summary = told[-1]
    assert summary["kind"] == "summary"
    assert summary["failovers"] >= 3
    assert summary["leader_changes_without_fault"] == 0
    assert summary["failovers_without_fault"] == 0
    assert summary["failed_elections"] == 0
    offsets = [line["offset"] for line in told if line["kind"] == "fact"]
    assert offsets == sorted(set(offsets))


def test_ctrl_c_ends_everything(tmp_path: Path) -> None:
    """SIGINT ends nodes and brokers; ``stop`` fails if one is left."""
    words = [
        "demo",
        "-o",
        "json",
        "--with",
        "none",
        "--data-dir",
        str(tmp_path / "d"),
        "--base-port",
        str(free_ports(120)),
    ]
    with running([*words, "--nodes", "1", "--sets", "1", "--replicas", "2", "--every", "0"], tmp_path / "d") as demo:
        until(demo.node().serves, "the node")
        assert demo.stop(signal.SIGINT) == 0


def test_the_page_and_the_views_stand_beside_it(tmp_path: Path) -> None:
    """The ready line says where page and views are; both answer at the cluster's own offset, and end with it."""
    words = ["demo", "-o", "json", "--with", "page,views", "--data-dir", str(tmp_path / "d")]
    few = ["--nodes", "1", "--sets", "1", "--replicas", "2", "--every", "0", "--base-port", str(free_ports(120))]
    with running([*words, *few], tmp_path / "d") as demo:
        offset = demo.node().get("/v1/status", Status).offset
        page, views = demo.ready["page"], demo.ready["views"]
        assert _get(f"{views}views/broker_sets?min_offset={offset}")["offset"] >= offset
        until(lambda: _get(f"{page}api/health")["offset"] >= offset, "the page follows the log")
        assert demo.stop(signal.SIGINT) == 0


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


def test_an_unknown_companion_is_named() -> None:
    """``--with`` something that is not there is a usage error that lists what is."""
    done = quorate("demo", "--with", "tea")
    assert done.returncode == 2
    assert "tea" in done.stderr
    assert "views, spark, page" in done.stderr
