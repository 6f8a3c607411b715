"""The demonstration as ``make run`` starts it, made shorter."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import termios
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from quorate.gateway.http.answers import Status
from tests.clusters import QUORATE, free_ports, quorate, running, until

LINE_UP, CURSOR_BACK = "\x1b[1A", "\x1b[?25h"
"""What a terminal is told to draw over a line, and at the end."""
WARM_S = 120.0
"""Spark needs half a minute when nothing else wants the processors."""


def test_masters_fail_over_and_nothing_changes_without_a_fault(tmp_path: Path) -> None:
    """Killed masters are replaced while controllers die too, and the lease of a stopped service expires; no leader or
    master changes without a fault, and no other lease expires.
    """
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
        assert [service["key"] for service in demo.ready["services"]] == ["/services/orders/1", "/services/orders/2"]
        members = {one["member"] for one in demo.ready["members"]}
        assert members == {"store-1", "store-2", "store-3", "mqtt-1", "mqtt-2"}
        rest, _ = demo.process.communicate(timeout=70)
    told = [json.loads(line) for line in rest.decode().splitlines()]
    summary = told[-1]
    assert summary["kind"] == "summary"
    assert summary["failovers"] >= 3
    assert summary["leases_expired"] >= 1
    assert summary["leases_expired_without_stop"] == 0
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
        until(lambda: len(_get(f"{page}api/leases")["data"]["leases"]) == 2, "two services hold leases")
        until(lambda: len(_get(f"{page}api/sessions")["data"]["sessions"]) == 6, "clients of two brokers have sessions")
        until(lambda: len(_get(f"{page}api/shards")["data"]["shards"]) == 1, "the stores have a shard")
        until(lambda: _get(f"{page}api/health")["offset"] >= offset, "the page follows the log")
        assert demo.stop(signal.SIGINT) == 0


def test_without_java_everything_but_spark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has none is told so, by name; page and views are there."""
    nice = shutil.which("nice")
    assert nice is not None
    (tmp_path / "nice").symlink_to(nice)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["demo", "-o", "json", "--data-dir", str(tmp_path / "d"), "--base-port", str(free_ports(120))]
    few = ["--nodes", "1", "--sets", "1", "--replicas", "2", "--every", "0"]
    with running([*words, *few], tmp_path / "d") as demo:
        assert "spark is left out: there is no java" in demo.stderr.read_text()
        assert {"page", "views"} <= demo.ready.keys()
        until(lambda: _get(f"{demo.ready['page']}api/streams")["data"]["unconfigured"] == ["spark"], "the page")
        assert demo.stop(signal.SIGINT) == 0


def test_a_terminal_shows_the_table_until_the_end(tmp_path: Path) -> None:
    """Whoever watches sees the sets in a table that changes in place, with the reason of each election; at the end the
    last one stands there, and the cursor is back.
    """
    words = ["demo", "--with", "none", "--nodes", "1", "--sets", "2", "--replicas", "2", "--every", "0", "--for", "1"]
    where = ["--data-dir", str(tmp_path / "d"), "--base-port", str(free_ports(120))]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 160))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with open(tmp_path / "errors", "wb") as errors, open(ours, "rb", buffering=0) as screen:  # noqa: PTH123
        demo = subprocess.Popen(
            [*QUORATE, *words, *where], stdout=theirs, stderr=errors, env={**environment, "TERM": "xterm"}
        )
        os.close(theirs)
        shown = b""
        try:
            with contextlib.suppress(OSError):  # How Linux says that nobody has the terminal any more.
                while piece := screen.read(1 << 16):
                    shown += piece
        finally:
            demo.terminate()
            status = demo.wait(30)
    assert status == 0
    text = shown.decode()
    assert text.count(LINE_UP) > 10
    assert text.rstrip().endswith(CURSOR_BACK)
    last = re.sub(r"\x1b\[[\d;]*m", "", text[text.rindex("Quorate  ") :])
    for name in ("broker-a", "broker-b"):
        [row] = [line for line in last.splitlines() if line.startswith(f"│{name}")]
        cells = [cell.strip() for cell in row.strip("│").split("│")]
        assert cells[3:] == ["1", "1,2", "asked by a broker: first to ask"]


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("java") is None, reason="absent peer: java")
def test_the_whole_picture_is_alive(tmp_path: Path) -> None:
    """As ``make run`` starts it: while masters are killed, views, Spark and the page tell of one and the same failover,
    with who won, by which rule, and when it was acknowledged; Ctrl-C ends all of it.
    """
    words = ["demo", "-o", "json", "--data-dir", str(tmp_path / "d"), "--base-port", str(free_ports(120))]
    with running([*words, "--sets", "2", "--every", "3", "--seed", "4"], tmp_path / "d") as demo:
        page, views = demo.ready["page"], demo.ready["views"]

        def streams() -> set[str]:
            found = _get(f"{page}api/streams")["data"]["streams"]
            return {one["state"] for one in found if one["kind"] != "dashboard"}

        until(lambda: streams() == {"running"}, "views and Spark are live on the page", WARM_S)
        until(lambda: _failovers(page), "a failover that was acknowledged", WARM_S)
        told = _failovers(page)[0]
        asked = f"{page}api/elections?after={told['offset'] - 1}&limit=1"
        until(lambda: _get(asked)["source"] == "spark", "the page tells it by Spark's tables", WARM_S)
        [by_spark] = _get(asked)["data"]["elections"]
        row = _get(f"{views}views/elections/{told['offset']:020}?min_offset={told['offset'] + 1}")["row"]
        wanted = (told["offset"], told["set"], told["to"], told["epoch"], told["decided_by"])
        assert tuple(by_spark[name] for name in ("offset", "set", "to", "epoch", "decided_by")) == wanted
        assert tuple(row[n] for n in ("offset", "broker_set", "master", "master_epoch", "decided_by")) == wanted
        assert [ack for ack in row["acks"] if ack["broker_id"] == told["to"]]
        assert demo.stop(signal.SIGINT) == 0


def _failovers(page: str) -> list[Any]:
    """Newest first: a master was lost and another took over, and said so."""
    found = _get(f"{page}api/elections")["data"]["elections"]
    return [one for one in found if one["from"] and one["to"] and one["from"] != one["to"] and one["acked_at"]]


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


def test_an_unknown_companion_is_named() -> None:
    """``--with`` something that is not there is a usage error that lists what is."""
    done = quorate("demo", "--with", "tea")
    assert done.returncode == 2
    assert "tea" in done.stderr
    assert "views, spark, page" in done.stderr
