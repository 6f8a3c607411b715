"""Broker sets by the thousand: what a heartbeat and an election cost, and what happens when many masters go at once."""

import json
import subprocess
import time
import urllib.request
from statistics import median
from typing import Any, NamedTuple

from tests.bench.harness import ROUNDS, Figure, Run, cpu_s, cpu_share, ending, ours, own_core, said

SIZES = (100, 2000)
LOST_MIN = 100
"""Masters lost at least, so that there are enough elections to tell what one costs."""
BEATS_S = 5.0
DELIVERED_S = 6.0
"""Deliveries of the elections before are recorded after 5 s."""
CALM_S, STORM_S = 5, 3
WINDOW_S = 1.0
"""After the loss; the CPU of the elections in it is theirs."""


def scale(run: Run) -> None:
    """Sets of two, heartbeating to every node once a second; a quarter of the masters lost at once, up to three times.

    The leader has a core of its own, as it has on a machine of its own; the other nodes and all brokers share the rest.
    """
    for sets in SIZES:

        def one(sets: int = sets) -> Figure:
            with ours(run) as cluster:
                leader = cluster.leader()
                rest = cpu_share(leader["pid"], 2.0)
                ports = [str(cluster.rpc(node)) for node in cluster.started.nodes]
                command = [str(run.tools / "fleet"), str(sets), str(cluster.rpc(leader)), *ports]
                pipe = subprocess.PIPE
                with ending(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)) as fleet:
                    rivals = [node["pid"] for node in cluster.started.nodes if node is not leader]
                    own_core(leader["pid"], [*rivals, fleet.pid])
                    return _scale(run, leader, fleet, sets, rest) | {"syncs": cluster.syncs()}

        run.take(f"scale {sets}", one)
    run.take("scale growth", lambda: _growth(run))


def _growth(run: Run) -> Figure:
    small, large = run.figures[f"scale {SIZES[0]}"], run.figures[f"scale {SIZES[-1]}"]
    return {key: round(large[key] / max(small[key], 0.1), 2) for key in ("heartbeat_cpu_us", "election_cpu_us")}


def _scale(run: Run, leader: dict[str, Any], fleet: "subprocess.Popen[str]", sets: int, rest: float) -> Figure:
    founded = time.monotonic()
    _until(fleet, "ready")
    founded = time.monotonic() - founded
    time.sleep(DELIVERED_S)
    _tell(fleet, "probes 0")
    time.sleep(0.2)
    per_beat_us = (cpu_share(leader["pid"], BEATS_S) - rest) * 1e6 / (2 * sets)
    _tell(fleet, "probes 1")
    lost = max(sets // 4, LOST_MIN)
    storms = []
    for number in range(min(ROUNDS, sets // lost)):
        time.sleep(DELIVERED_S if number else 0)
        storms.append(_storm(leader, fleet, lost, per_beat_us))
    run.samples(f"elected-ms-{sets}", [float(ms) for storm in storms for ms in storm.took])
    return _figure(lost, storms) | {
        "sets": sets,
        "founded_s": round(founded, 1),
        "rest_cpu_share": round(rest, 4),
        "heartbeat_cpu_us": round(per_beat_us, 1),
    }


class Storm(NamedTuple):
    """Masters lost at once, and what the heartbeats of the others saw."""

    took: list[int]
    """Milliseconds until each of the elections."""
    calm: list[int]
    """Heartbeat p99 of each second before, microseconds."""
    during: list[int]
    """… and of each second from the loss on."""
    election_cpu_us: float


def _storm(leader: dict[str, Any], fleet: "subprocess.Popen[str]", lost: int, per_beat_us: float) -> Storm:
    before, began = cpu_s(leader["pid"]), time.monotonic()
    calm = _probes(fleet, CALM_S, time.time() * 1000)
    share = (cpu_s(leader["pid"]) - before) / (time.monotonic() - began)
    before, began = cpu_s(leader["pid"]), time.monotonic()
    _tell(fleet, f"kill {lost}")
    killed = _until(fleet, "killed")
    time.sleep(WINDOW_S)
    alive = share - per_beat_us * 1e-6 * lost
    spent = cpu_s(leader["pid"]) - before - alive * (time.monotonic() - began)
    during = _probes(fleet, STORM_S, killed["at_ms"])
    took = sorted(_elections(leader["http"], killed["at_ms"]))
    return Storm(took, calm, during, spent * 1e6 / max(sum(ms <= WINDOW_S * 1000 for ms in took), 1))


def _figure(lost: int, storms: list[Storm]) -> Figure:
    """The last election of any storm; of what the heartbeats saw, the worst second of the storm in the middle."""
    before = int(median(max(storm.calm) for storm in storms))
    during = int(median(max(storm.during) for storm in storms))
    took = sorted(ms for storm in storms for ms in storm.took)
    return {
        "masters_lost": lost,
        "elected": [len(storm.took) for storm in storms],
        "elected_share": min(len(storm.took) for storm in storms) / lost,
        "elected_ms_p50": took[len(took) // 2] if took else None,
        "elected_ms_max": took[-1] if took else None,
        "heartbeat_p99_us_calm": before,
        "heartbeat_p99_us_storm": during,
        "heartbeat_p99_storm_to_calm": round(during / max(before, 1), 2),
        "heartbeat_p99_us_calm_seconds": [storm.calm for storm in storms],
        "heartbeat_p99_us_storm_seconds": [storm.during for storm in storms],
        "election_cpu_us": round(median(storm.election_cpu_us for storm in storms), 1),
    }


def _tell(fleet: "subprocess.Popen[str]", line: str) -> None:
    assert fleet.stdin is not None
    fleet.stdin.write(line + "\n")
    fleet.stdin.flush()


def _until(fleet: "subprocess.Popen[str]", event: str) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = json.loads(said(fleet))
        if found["event"] == event:
            return found


def _probes(fleet: "subprocess.Popen[str]", count: int, since_ms: float) -> list[int]:
    """Heartbeat p99 of the first ``count`` seconds that end after a moment; earlier ones lie unread in the pipe."""
    found: list[int] = []
    while len(found) < count:
        probe = _until(fleet, "probe")
        if probe["at_ms"] > since_ms:
            found.append(probe["p99_us"])
    return found


def _elections(http: str, since_ms: int) -> list[int]:
    """Milliseconds after ``since_ms`` of every master elected."""
    took: list[int] = []
    at = 0
    while True:
        with urllib.request.urlopen(f"http://{http}/v1/log?from={at}&limit=1000", timeout=30) as answer:
            page = json.load(answer)
        times = [event["time_ms"] - since_ms for event in page["events"] if event["type"] == "MasterElected"]
        took += [time_ms for time_ms in times if time_ms >= 0]
        if page["next"] is None or not page["events"]:
            return took
        at = page["next"]
