"""The bench's plots: what a run measured is drawn, to scale and with its numbers, and nothing else."""

import json
import re
import xml.etree.ElementTree as ET
from array import array
from pathlib import Path

from tests.bench.plots import Scale, draw, shares

SVG = "{http://www.w3.org/2000/svg}"


def kept(folder: Path, measure: str, figures: dict[str, object]) -> None:
    """The figures file of a measure."""
    (folder / f"figures-{measure}.json").write_text(json.dumps(figures))


def texts(drawing: Path) -> list[str]:
    """What stands in it; it is well-formed."""
    return [found.text or "" for found in ET.parse(drawing).iter(f"{SVG}text")]


def test_bars_are_as_long_as_the_rates_and_an_unmeasured_one_is_absent(tmp_path: Path) -> None:
    """Twice the rate is twice the bar; a system without figures is not named."""
    kept(tmp_path, "commits", {"closed 1": {"per_second": 1000}, "closed 64": {"per_second": 4000}})
    kept(tmp_path, "etcd", {"etcd closed 64": {"per_second": 2000}, "etcd closed 1": {"failed": "no leader"}})
    assert draw([tmp_path], tmp_path / "plots") == ["rates.svg"]
    drawing = tmp_path / "plots" / "rates.svg"
    bars = [
        float(found.attrib["height"]) for found in ET.parse(drawing).iter(f"{SVG}rect") if found.attrib["width"] != "12"
    ]
    assert [round(bar / bars[0], 1) for bar in bars] == [1.0, 4.0, 2.0]
    assert {"4,000", "2,000", "Quorate", "etcd"} <= set(texts(drawing))
    assert "DLedger" not in texts(drawing)


def test_a_latency_curve_goes_through_its_quantiles(tmp_path: Path) -> None:
    """Of 1 to 1,000 µs, half are below 0.5 ms; the last point is the longest, at 100 %."""
    samples = array("I", range(1000, 0, -1))
    points = shares(samples)
    assert points[0] == (0.001, 0.1)
    assert points[-1] == (1.0, 100.0)
    assert all(abs(share - 100 * ms) < 0.5 for ms, share in points)
    (tmp_path / "closed-64.u32").write_bytes(samples.tobytes())
    assert draw([tmp_path], tmp_path) == ["latency.svg"]
    assert "Quorate" in texts(tmp_path / "latency.svg")


def test_growth_is_told_against_the_smallest_size_and_a_later_run_replaces_a_figure(tmp_path: Path) -> None:
    """Steps with 1,000 sets stand as a multiple of those with 100; sizes that failed are left out."""
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, steps in ((old, 900), (new, 660)):
        folder.mkdir()
        kept(folder, "growth", {"growth 1000 sets": {"heartbeat: leader": steps, "commit alone: follower": 1}})
    kept(old, "first", {"growth 100 sets": {"heartbeat: leader": 600}, "growth 10000 sets": {"failed": "no time"}})
    assert draw([old, new], tmp_path) == ["growth.svg"]
    assert "heartbeat: 1.1" in texts(tmp_path / "growth.svg")
    described = re.search("<desc>(.*)</desc>", (tmp_path / "growth.svg").read_text())
    assert described is not None
    assert described[1] == "heartbeat: 100 1, 1000 1.1"
    restart = {"ready_s_after_clean_end": 1.2, "ready_s_after_kill": 1.4}
    kept(new, "restart", {f"growth {n} events": restart | {"events": n} for n in (1000, 10_000)})
    assert draw([new], tmp_path) == ["restart.svg"]


def test_a_run_without_such_figures_has_no_plot(tmp_path: Path) -> None:
    """Nothing is drawn of nothing."""
    kept(tmp_path, "page", {"page": {"p50_ms": 3}})
    assert draw([tmp_path], tmp_path / "plots") == []


def test_ticks_are_round_and_within_the_scale() -> None:
    """From 0 in about five steps; 1, 2 and 5 of a decade on a logarithmic axis; places follow the scale."""
    assert Scale(0, 9000, 0, 1, log=False).ticks() == [0, 2000, 4000, 6000, 8000]
    assert Scale(0.3, 20, 0, 1, log=True).ticks() == [0.5, 1, 2, 5, 10, 20]
    assert Scale(1, 100, 0, 200, log=True).at(10) == 100
