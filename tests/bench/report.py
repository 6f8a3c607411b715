"""From figures to a report: each bar of the project with what was measured, its ratio to a control of the same run."""

from typing import Any

Figures = dict[str, Any]


def _get(figures: Figures, name: str, key: str) -> float | None:
    value = figures.get(name, {}).get(key)
    return None if value is None else float(value)


def _ratio(a: float | None, b: float | None) -> str:
    return "–" if a is None or not b else f"{a / b:.2f}"


LOG = ("log alone", "per_second")
BARS: tuple[tuple[str, str, str, float, float, str, tuple[str, str] | None], ...] = (
    # what, figure, key, scale, bar (positive: at most; negative: at least), unit, control
    (
        "open loop 1,000 commits/s, 64 connections: p99",
        "open 1000",
        "p99_us",
        1e-3,
        5,
        "ms",
        ("null open 1000", "p99_us"),
    ),
    (
        "closed loop, 64 clients: commits/s",
        "closed 64",
        "per_second",
        1,
        -10_000,
        "/s",
        ("null closed 64", "per_second"),
    ),
    ("closed loop, 64 clients: p99", "closed 64", "p99_us", 1e-3, 10, "ms", ("null closed 64", "p99_us")),
    ("SIGKILL of the leader → next write: p50", "failover SIGKILL", "p50_ms", 1, 150, "ms", ("null SIGKILL", "p50_ms")),
    ("SIGKILL of the leader → next write: max", "failover SIGKILL", "max_ms", 1, 500, "ms", ("null SIGKILL", "max_ms")),
    (
        "heartbeats pipelined on one node",
        "heartbeats pipelined",
        "per_second",
        1,
        -200_000,
        "/s",
        ("null heartbeats pipelined", "per_second"),
    ),
    (
        "heartbeat at 10,000/s, 500 connections: CPU",
        "heartbeats 10000/s",
        "cpu_us",
        1,
        12,
        "µs",
        ("null heartbeats 10000/s", "cpu_us"),
    ),
    ("linearizable read, idle: p99", "reads idle", "p99_us", 1e-3, 1, "ms", ("null reads 500", "p99_us")),
    (
        "linearizable read under 500 commits/s: p99",
        "reads under 500 commits",
        "p99_us",
        1e-3,
        1,
        "ms",
        ("null reads 500", "p99_us"),
    ),
    ("read on the leader, idle: p99", "leader reads idle", "p99_us", 1e-3, 1, "ms", None),
    ("read on a follower, idle: p99", "follower reads idle", "p99_us", 1e-3, 1, "ms", None),
    (
        "read on the leader under 500 commits/s: p99, to 2 × fsync p99 + idle p99",
        "leader reads under 500 commits",
        "p99_to_allowed",
        1,
        1,
        "×",
        None,
    ),
    (
        "read on a follower under 500 commits/s: p99, to 2 × fsync p99 + idle p99",
        "follower reads under 500 commits",
        "p99_to_allowed",
        1,
        1,
        "×",
        None,
    ),
    (
        "commit p99 with 200 consumers on a follower, to alone",
        "200 consumers on a follower",
        "p99_ratio",
        1,
        1.5,
        "×",
        None,
    ),
    ("resident memory after 150,000 commits", "memory", "max_mib", 1, 90, "MiB", ("null memory", "rss_mib")),
    ("2,000 sets, 500 masters lost: share elected", "scale 2000", "elected_share", 1, -1, "", None),
    ("2,000 sets, 500 masters lost: the last elected after", "scale 2000", "elected_ms_max", 1e-3, 2, "s", None),
    ("heartbeat p99 meanwhile, to before", "scale 2000", "heartbeat_p99_storm_to_calm", 1, 1.5, "×", None),
    ("CPU per heartbeat, 2,000 sets to 100", "scale growth", "heartbeat_cpu_us", 1, 1.5, "×", None),
    ("events through the Spark source, streaming", "spark stream quorate", "per_second", 1, -10_000, "/s", LOG),
    ("events through Spark's own connector, streaming", "spark stream kafka", "per_second", 1, -10_000, "/s", LOG),
    ("CPU per election, 2,000 sets to 100", "scale growth", "election_cpu_us", 1, 1.5, "×", None),
)


def table(figures: Figures) -> str:
    """The bars as Markdown."""
    lines = ["| what | measured | bar | kept | ratio to control |", "|---|---:|---:|---|---|"]
    for what, name, key, scale, bar, unit, control in BARS:
        raw = _get(figures, name, key)
        if raw is None:
            lines.append(f"| {what} | not measured | | | |")
            continue
        value, limit = raw * scale, abs(bar)
        kept = value <= limit if bar > 0 else value >= limit
        ratio = f"{_ratio(raw, _get(figures, *control))} × {control[0]}" if control else "–"
        sign = "≤" if bar > 0 else "≥"
        lines.append(
            f"| {what} | {value:,.2f} {unit} | {sign} {limit:,g} {unit} | {'yes' if kept else '**no**'} | {ratio} |"
        )
    for kind in ("dledger", "jraft"):
        mine, java = _get(figures, "closed 64", "per_second"), _get(figures, f"{kind} closed 64", "per_second")
        if java:
            wanted = "≥ 10 ×" if kind == "dledger" else "–"
            met = "–" if kind != "dledger" else "yes" if mine and mine >= 10 * java else "**no**"
            lines.append(
                f"| closed loop 64, ratio to Java {kind} | {_ratio(mine, java)} × | {wanted} | {met} | {java:,.0f}/s |"
            )
        for name, figure in figures.items():
            if name.startswith(f"{kind} ") and "failed" in figure:
                lines.append(f"| Java {name} | it hung up: {figure['failed'].strip()} | | | |")
    return "\n".join(lines)


PROFILE_OF = {
    "closed 64": "closed 64",
    "open 1000": "open 1000",
    "reads idle": "reads idle",
    "reads under 500 commits": "reads idle",
    "heartbeats pipelined": "heartbeats",
    "heartbeats 10000/s": "heartbeats",
    "scale 2000": "heartbeats",
}
"""Where the time of a figure goes: the leader, sampled under the same load once more."""


def profiles(figures: Figures) -> list[str]:
    """For each bar that was not kept, once: where the time went."""
    found: list[str] = []
    for what, name, key, scale, bar, *_ in BARS:
        raw = _get(figures, name, key)
        if raw is None or (raw * scale <= bar if bar > 0 else raw * scale >= -bar):
            continue
        profile = f"profile {PROFILE_OF.get(name, '')}"
        if profile in figures and f"{profile}:" not in found:
            found += [f"{profile}:", "", *(f"    {line}" for line in figures[profile]["top"]), ""]
        elif profile not in figures:
            found += [f"not profiled: {what}", ""]
    return found


def agreement(first: Figures, second: Figures) -> list[str]:
    """Which figures of two runs differ by more than a quarter of the smaller."""
    apart = []
    for what, name, key, *_ in BARS:
        a, b = _get(first, name, key), _get(second, name, key)
        if a and b and max(a, b) > 1.25 * min(a, b):
            apart.append(f"{what}: {a:,.0f} and {b:,.0f}")
    return apart


def render(runs: list[Figures], machine: str) -> str:
    """The whole report."""
    parts = ["# Benchmarks", "", machine, ""]
    for number, figures in enumerate(runs, start=1):
        parts += [f"## Run {number}", "", table(figures), ""]
        parts += ["All figures:", "", "```"]
        parts += [f"{name}: {figure}" for name, figure in figures.items() if not name.startswith("profile ")]
        parts += ["```", ""]
        parts += ["Where the time goes where a bar is not kept (share of samples in it or below it):", ""]
        parts += profiles(figures)
    if len(runs) > 1:
        apart = agreement(runs[0], runs[1])
        parts += ["## Agreement of the runs", ""]
        parts += [f"- not agreed, more than 25 % apart: {line}" for line in apart] or ["All agree within 25 %."]
    return "\n".join(parts) + "\n"
