"""Plots of a run as SVG, from its figures and raw samples: ``python -m tests.bench.plots RUN... [--into FOLDER]``.

Rules: nothing is drawn that a run did not measure, and the numbers of a plot stand in it; a line or bar that is absent
was not measured. Where several runs are named, a later one's figure replaces an earlier one's. The colours stand apart
for the colour-blind (Okabe and Ito), and the text follows the reader's dark or light theme.
"""

import argparse
import json
import math
from array import array
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.bench.report import CLIENTS, KINDS, Figures

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 44
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
POINTS = 200
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#444}.title{font-size:14px;font-weight:600}.axis{stroke:#888;fill:none}"
    ".grid{stroke:#8884;fill:none}@media(prefers-color-scheme:dark){text{fill:#ccc}}"
)
OURS = "Quorate"
SYSTEMS = {"": OURS} | {f"{kind} ": name for kind, name in KINDS.items()}
"""By what the names of their figures begin with."""


class Line(NamedTuple):
    """One curve: its name, and its points in the plot's units."""

    name: str
    points: Sequence[tuple[float, float]]


class Scale:
    """From a value to a place on an axis; logarithmic, or from 0."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool) -> None:
        self.log, self.low, self.high = log, low, high
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """The place."""
        low, high, it = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self._start + (self._end - self._start) * (it - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values: 1, 2 and 5 of each decade, or about five steps from 0."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if self.high / self.low < 500 else (1,)
            found = [step * 10.0**decade for decade in decades for step in steps]
            return [value for value in found if self.low <= value <= self.high]
        step = 10.0 ** math.floor(math.log10(self.high / 2))
        step = next(times * step for times in (1, 2, 5, 10) if self.high / (times * step) <= 6)
        return [number * step for number in range(int(self.high / step) + 1)]


def svg(title: str, parts: list[str], named: Sequence[str], described: str) -> str:
    """The whole drawing, with its legend."""
    legend = [
        f'<rect x="{WIDTH - RIGHT + 14}" y="{TOP + 20 * row}" width="12" height="12" fill="{COLOURS[row % 5]}"/>'
        f'<text x="{WIDTH - RIGHT + 32}" y="{TOP + 20 * row + 10}">{escape(name)}</text>'
        for row, name in enumerate(named)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    about = f"<title>{escape(title)}</title><desc>{escape(described)}</desc><style>{STYLE}</style>"
    return (
        "\n".join(
            [head, about, f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>', *parts, *legend, "</svg>"]
        )
        + "\n"
    )


def readable(value: float) -> str:
    """As it is read: 1,000,000."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def axes(x: Scale, y: Scale, x_name: str, y_name: str, x_ticks: Sequence[float] | None = None) -> list[str]:
    """Lines and numbers of both axes."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in y.ticks():
        at = y.at(value)
        parts += [f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>']
        parts += [f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{readable(value)}</text>']
    for value in x.ticks() if x_ticks is None else x_ticks:
        parts += [f'<text x="{x.at(value):.1f}" y="{bottom + 16}" text-anchor="middle">{readable(value)}</text>']
    parts += [f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>']
    parts += [f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_name)}</text>']
    return [*parts, f'<text x="{LEFT}" y="{TOP - 6}">{escape(y_name)}</text>']


def curves(title: str, lines: Sequence[Line], x_name: str, y_name: str, *, log_x: bool, marked: bool = False) -> str:
    """Lines over an axis; ``marked``: with their few points, and the last value."""
    xs, ys = ([point[axis] for line in lines for point in line.points] for axis in (0, 1))
    x = Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT, log=log_x)
    y = Scale(0, max(ys) * (1.15 if marked else 1), HEIGHT - BOTTOM, TOP, log=False)
    parts = axes(x, y, x_name, y_name, sorted(set(xs)) if marked else None)
    for row, line in enumerate(lines):
        way = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line.points)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{COLOURS[row % 5]}" stroke-width="2"/>')
        for a, b in line.points if marked else ():
            parts.append(f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{COLOURS[row % 5]}"/>')
    told = (
        "; ".join(f"{line.name}: {', '.join(f'{a:g} {b:g}' for a, b in line.points)}" for line in lines)
        if marked
        else ""
    )
    named = [f"{line.name}: {line.points[-1][1]:,.3g}" if marked else line.name for line in lines]
    return svg(title, parts, named, told)


def bars(title: str, groups: Sequence[str], rows: Mapping[str, Sequence[float | None]], y_name: str) -> str:
    """For each group one bar of each row that has one, with its number above it."""
    most = max(value for row in rows.values() for value in row if value is not None)
    y = Scale(0, most * 1.1, HEIGHT - BOTTOM, TOP, log=False)
    x = Scale(0, len(groups), LEFT, WIDTH - RIGHT, log=False)
    parts = axes(x, y, "clients", y_name, ())
    wide = (x.at(1) - x.at(0)) * 0.84 / len(rows)
    for place, group in enumerate(groups):
        middle = x.at(place + 0.5)
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(group)}</text>')
        for number, values in enumerate(rows.values()):
            value = values[place]
            if value is None:
                continue
            left, top = middle + (number - len(rows) / 2) * wide, y.at(value)
            size = f'width="{wide - 2:.1f}" height="{HEIGHT - BOTTOM - top:.1f}"'
            parts.append(f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{COLOURS[number % 5]}"/>')
            parts.append(
                f'<text x="{left + wide / 2 - 1:.1f}" y="{top - 4:.1f}" text-anchor="middle">{value:,.0f}</text>'
            )
    return svg(title, parts, list(rows), "")


def shares(samples: Sequence[int]) -> list[tuple[float, float]]:
    """Milliseconds, and the share of commits that took no longer, in per cent."""
    ordered = sorted(samples)
    steps = [number * (len(ordered) - 1) // POINTS for number in range(POINTS + 1)]
    return [(max(ordered[step], 1) / 1000, 100 * (step + 1) / len(ordered)) for step in steps]


def drawn(runs: Sequence[Path]) -> dict[str, str]:
    """Every plot that these runs have the figures for, by the name of its file."""
    figures: Figures = {}
    for run in runs:
        for kept in sorted(run.glob("figures-*.json")):
            figures |= json.loads(kept.read_text())
    found: dict[str, str] = {}
    rates = {
        name: [figures.get(f"{start}closed {clients}", {}).get("per_second") for clients in CLIENTS]
        for start, name in SYSTEMS.items()
    }
    rates = {name: row for name, row in rates.items() if any(row)}
    if OURS in rates:
        found["rates.svg"] = bars("Commits a second, closed loop", [str(n) for n in CLIENTS], rates, "commits/s")
    raw = {name: _samples(runs, f"{start}closed 64") for start, name in SYSTEMS.items()}
    if raw[OURS]:
        lines = [Line(name, shares(samples)) for name, samples in raw.items() if samples]
        found["latency.svg"] = curves(
            "How long a commit takes, 64 clients, closed loop", lines, "milliseconds", "% of commits", log_x=True
        )
    sets = {
        int(name.split()[1]): row
        for name, row in figures.items()
        if name.startswith("growth ") and name.endswith(" sets")
    }
    sets = {size: row for size, row in sorted(sets.items()) if "failed" not in row}
    if len(sets) > 1:
        first = sets[min(sets)]
        names = [name for name in first if name.endswith(": leader")]
        lines = [
            Line(name.removesuffix(": leader"), [(size, row[name] / first[name]) for size, row in sets.items()])
            for name in names
        ]
        found["growth.svg"] = curves(
            "Steps of the leader, to those with the fewest sets",
            lines,
            "broker sets of two",
            "×",
            log_x=True,
            marked=True,
        )
    events = {
        row["events"]: row
        for name, row in figures.items()
        if name.startswith("growth ") and "ready_s_after_kill" in row
    }
    if len(events) > 1:
        ends = {"after a clean end": "ready_s_after_clean_end", "after a kill": "ready_s_after_kill"}
        lines = [Line(name, [(size, events[size][key]) for size in sorted(events)]) for name, key in ends.items()]
        found["restart.svg"] = curves(
            "From the start to ready", lines, "events in the log", "s", log_x=True, marked=True
        )
    return found


def _samples(runs: Sequence[Path], name: str) -> "array[int]":
    """Microseconds, of the last run that has them."""
    samples = array("I")
    for run in runs:
        if (file := run / f"{name.replace(' ', '-')}.u32").exists():
            samples = array("I", file.read_bytes())
    return samples


def draw(runs: Sequence[Path], into: Path) -> list[str]:
    """Write them; the names of the files."""
    into.mkdir(parents=True, exist_ok=True)
    found = drawn(runs)
    for name, text in found.items():
        (into / name).write_text(text)
    return list(found)


def main() -> None:
    """Write the plots of the runs that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.plots", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders with figures-*.json, oldest first")
    parser.add_argument("--into", type=Path, default=Path("docs/plots"))
    options = parser.parse_args()
    print("\n".join(draw(options.runs, options.into)) or "no figures for any plot")


if __name__ == "__main__":
    main()
