"""The dashboard beside a real cluster with failovers: killed and started again, refused by another cluster's log."""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Started, free_ports, gone, running, start, until
from tests.dashboard.replay import Replay

pytestmark = pytest.mark.integration

PANELS = (
    "health",
    "quorum",
    "sets",
    "timeline",
    "elections?first=1",
    "log?limit=1000",
    "density",
    "keys?flat=1",
    "leases",
    "members",
)


def ask(address: str, path: str) -> tuple[int, Any]:
    """Status and JSON of a GET."""
    try:
        with urllib.request.urlopen(f"http://{address}/{path}", timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def dashboard(demo: Started, folder: Path, port: int, *more: str) -> Started:
    """A dashboard of that cluster."""
    nodes = ",".join(node["kafka"] for node in demo.nodes)
    return start(["dashboard", "--nodes", nodes, "--port", str(port), "-o", "json", *more], folder)


def rows_of(demo: Started, end: int) -> list[dict[str, Any]]:
    """The log as a node tells it."""
    rows: list[dict[str, Any]] = []
    while len(rows) < end:
        _, page = ask(demo.nodes[0]["http"], f"v1/log?from={len(rows)}&limit=500")
        rows += page["events"]
    return rows[:end]


def live(address: str, since: int, enough: Any) -> list[dict[str, Any]]:
    """The data of ``facts`` from an offset on, until ``enough`` of them."""
    found: list[dict[str, Any]] = []
    with urllib.request.urlopen(f"http://{address}/api/live?from={since}", timeout=60) as response:
        kind = ""
        for line in response:
            text = line.decode()
            if text.startswith("event: "):
                kind = text[7:].strip()
            elif text.startswith("data: ") and kind == "facts":
                found.append(json.loads(text[6:]))
                if enough(found):
                    return found
    raise AssertionError("the stream ended")


def test_a_killed_dashboard_says_the_same_again(tmp_path: Path) -> None:
    """SIGKILL, start, and every panel at an offset is byte for byte what it was, and what a replay of the log says;
    what comes live is gapless, and elections go by while it is watched.
    """
    base, port = free_ports(160), free_ports(1)
    words = ["demo", "--base-port", str(base), "--sets", "2", "--every", "1.5", "--seed", "3", "-o", "json"]
    with running([*words, "--data-dir", str(tmp_path / "demo")], tmp_path / "demo") as demo:
        address = f"127.0.0.1:{port}"
        first = dashboard(demo, tmp_path / "first", port)
        until(lambda: ask(address, "api/elections")[1].get("data", {}).get("elections"), "an election on the page")
        end = ask(address, "api/health")[1]["offset"]
        before = {panel: ask(address, f"api/{panel}{'&' if '?' in panel else '?'}at={end}") for panel in PANELS}
        assert {status for status, _ in before.values()} == {200}
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.communicate()
        second = dashboard(demo, tmp_path / "second", port)
        try:
            until(lambda: ask(address, "api/health")[1].get("offset", 0) >= end, "the page to be back")
            after = {panel: ask(address, f"api/{panel}{'&' if '?' in panel else '?'}at={end}") for panel in PANELS}
            assert after == before
            watched(demo, address, end)
            compare(demo, before["sets"][1], end)
            held = Replay(rows_of(demo, end), end)
            assert held.differences("keys", before["keys?flat=1"][1]["data"]) == []
            assert held.differences("leases", before["leases"][1]["data"]) == []
            assert held.differences("members", before["members"][1]["data"]) == []
            refused(demo, tmp_path, before["sets"][1])
        finally:
            assert second.stop() == 0


def watched(demo: Started, address: str, since: int) -> None:
    """Facts are gapless, an election is among them, and soft state tells of every node."""
    seen = live(address, since, lambda found: any(e["type"] == "MasterElected" for f in found for e in f["events"]))
    offsets = [event["offset"] for facts in seen for event in facts["events"]]
    assert offsets == list(range(since, offsets[-1] + 1))
    assert seen[-1]["offset"] == offsets[-1] + 1

    def told() -> bool:
        _, answer = ask(address, "api/quorum")
        lives = [node.get("live", {}) for node in answer["data"]["nodes"]]
        return sum(live_.get("end") is not None for live_ in lives) >= 2

    until(told, "soft state of the nodes")


def compare(demo: Started, answer: dict[str, Any], end: int) -> None:
    """The sets are those of a replay of the log as a node tells it."""
    replay = Replay(rows_of(demo, end), end)
    assert answer["offset"] == end
    expected = [replay.set_row(name, answer["time"], 4, 1_800_000) for name in sorted(replay.sets)]
    assert answer["data"]["sets"] == expected


def refused(demo: Started, folder: Path, _answer: dict[str, Any]) -> None:
    """A dashboard that was told another cluster's id shows nothing and says why."""
    port = free_ports(1)
    other = dashboard(demo, folder / "other", port, "--cluster-id", "another")
    try:
        address = f"127.0.0.1:{port}"

        def state() -> str:
            return str(ask(address, "api/streams")[1]["data"]["streams"][0]["state"])

        until(lambda: state() == "refused", "the refusal of another cluster")
        status, body = ask(address, "api/health")
        assert (status, body["error"]["code"]) == (503, "not_followed")
        assert "another" in body["error"]["message"]
    finally:
        other.process.terminate()
        other.process.communicate(timeout=30)
        until(lambda: gone(other.process.pid), "its end")


def test_the_page_stays_when_the_cluster_goes(tmp_path: Path) -> None:
    """With every node dead the past and the last state are still answered, ever older, and the stream says so."""
    base, port = free_ports(160), free_ports(1)
    words = ["up", "--nodes", "1", "--base-port", str(base), "--data-dir", str(tmp_path / "up")]
    address = f"127.0.0.1:{port}"
    with running(words, tmp_path / "up") as cluster:
        page = dashboard(cluster, tmp_path / "page", port)
        until(lambda: ask(address, "api/health")[1].get("offset", 0) >= 3, "the first events")
        end = ask(address, "api/health")[1]["offset"]
    try:
        until(lambda: ask(address, "api/streams")[1]["data"]["streams"][0]["state"] == "connecting", "the loss")
        status, body = ask(address, "api/health")
        assert (status, body["offset"]) == (200, end)
        time.sleep(0.1)
        assert ask(address, "api/health")[1]["age_ms"] > body["age_ms"]
        assert ask(address, f"api/quorum?at={end}")[0] == 200
        told = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{address}/api/whatif", b'{"fail": ["node/1"]}', told, method="POST")
        with pytest.raises(urllib.error.HTTPError) as error, urllib.request.urlopen(request, timeout=10):
            pass
        assert error.value.code == 502
        error.value.close()
    finally:
        assert page.stop() == 0
