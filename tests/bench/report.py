"""From figures to a report: each bar of the project with what was measured, its ratio to a control of the same run."""

from dataclasses import dataclass
from typing import Any

Figures = dict[str, dict[str, Any]]
APART = 1.25
DISTURBED_PCT = 3.0
"""Of the CPU, taken by the machine's host: such a figure is marked."""


@dataclass(frozen=True)
class Bar:
    """One line: ``key`` of figure ``name``, times ``scale``. ``limit``: at most, or (negative) at least, or none."""

    what: str
    name: str
    key: str
    limit: float | None
    unit: str
    scale: float = 1
    control: tuple[str, str] | None = None

    def raw(self, figures: Figures) -> float | None:
        """As measured."""
        return _get(figures, self.name, self.key)

    def kept(self, figures: Figures) -> bool | None:
        """Is it? None: not measured, or there is no bar."""
        raw = self.raw(figures)
        if raw is None or self.limit is None:
            return None
        return raw * self.scale <= self.limit if self.limit > 0 else raw * self.scale >= -self.limit


def _get(figures: Figures, name: str, key: str) -> float | None:
    value = figures.get(name, {}).get(key)
    return None if value is None else float(value)


LOG = ("log alone", "per_second")
FSYNC = ("fsync", "p99_us")
READS = ("null reads 500", "p99_us")
KILL, STOP, PAGE = "failover SIGKILL", "failover SIGSTOP", "page"
FRESH, SOURCE, THERE = "projections freshness", "spark stream quorate", "200 consumers on a follower"
L_IDLE, F_IDLE = "leader reads idle", "follower reads idle"
L_BUSY, F_BUSY = "leader reads under 500 commits", "follower reads under 500 commits"
PIPED, PACED = "heartbeats pipelined", "heartbeats 10000/s"
MS = 1e-3
BARS = (
    Bar("open loop 1,000/s, 64 connections: p99", "open 1000", "p99_us", 5, "ms", MS, ("null open 1000", "p99_us")),
    Bar("closed loop, 64: commits/s", "closed 64", "per_second", -14_000, "/s", 1, ("null closed 64", "per_second")),
    Bar("closed loop, 64: p99", "closed 64", "p99_us", 9, "ms", MS, ("null closed 64", "p99_us")),
    Bar("closed loop, 64: CPU of the leader for each", "closed 64", "leader_cpu_us", 45, "µs"),
    Bar("closed loop, 64: CPU of a follower for each", "closed 64", "follower_cpu_us", 25, "µs"),
    Bar("closed loop, 1: p50", "closed 1", "p50_us", 0.6, "ms", MS, ("null closed 1", "p50_us")),
    Bar("closed loop, 1: CPU of the leader for each", "closed 1", "leader_cpu_us", 320, "µs"),
    Bar("SIGKILL of the leader → next write: p50", KILL, "p50_ms", 150, "ms", 1, ("null SIGKILL", "p50_ms")),
    Bar("SIGKILL of the leader → next write: max", KILL, "max_ms", 500, "ms", 1, ("null SIGKILL", "max_ms")),
    Bar("SIGSTOP of the leader → next write: p50", STOP, "p50_ms", 500, "ms"),
    Bar("SIGSTOP of the leader → next write: max", STOP, "max_ms", None, "ms"),
    Bar("heartbeats pipelined on one node", PIPED, "per_second", -400_000, "/s", 1, (f"null {PIPED}", "per_second")),
    Bar("heartbeats pipelined: CPU each", PIPED, "cpu_us", None, "µs", 1, (f"null {PIPED}", "cpu_us")),
    Bar("heartbeat at 10,000/s, 500 connections: CPU", PACED, "cpu_us", 16, "µs", 1, (f"null {PACED}", "cpu_us")),
    Bar("linearizable reads, 64 clients", "reads 64", "per_second", -50_000, "/s"),
    Bar("linearizable read on the leader, idle: p99", L_IDLE, "p99_us", 0.5, "ms", MS, READS),
    Bar("linearizable read on a follower, idle: p99", F_IDLE, "p99_us", 0.5, "ms", MS, READS),
    Bar("the same on the leader under 500 commits/s: p99", L_BUSY, "p99_us", 1, "ms", MS, FSYNC),
    Bar("the same on a follower under 500 commits/s: p99", F_BUSY, "p99_us", 1, "ms", MS, FSYNC),
    Bar("on the leader: p99 to (2 × fsync p99 + idle p99)", L_BUSY, "p99_to_allowed", 1, "×"),
    Bar("on a follower: p99 to (2 × fsync p99 + idle p99)", F_BUSY, "p99_to_allowed", 1, "×"),
    Bar("commit p99 with 200 consumers on a follower, to alone", THERE, "p99_ratio", 1.5, "×"),
    Bar("resident memory after 150,000 commits", "memory", "max_mib", 81, "MiB", 1, ("null memory", "rss_mib")),
    Bar("2,000 sets, 500 masters lost: share elected", "scale 2000", "elected_share", -1, ""),
    Bar("2,000 sets, 500 masters lost: the last elected after", "scale 2000", "elected_ms_max", 2, "s", MS),
    Bar("heartbeat p99 before", "scale 2000", "heartbeat_p99_us_calm", None, "ms", MS),
    Bar("heartbeat p99 meanwhile", "scale 2000", "heartbeat_p99_us_storm", None, "ms", MS),
    Bar("heartbeat p99 meanwhile, to before", "scale 2000", "heartbeat_p99_storm_to_calm", 1.5, "×"),
    Bar("CPU per heartbeat, 2,000 sets", "scale 2000", "heartbeat_cpu_us", None, "µs"),
    Bar("CPU per heartbeat, 2,000 sets to 100", "scale growth", "heartbeat_cpu_us", 1.5, "×"),
    Bar("CPU per election, 2,000 sets", "scale 2000", "election_cpu_us", None, "µs"),
    Bar("CPU per election, 2,000 sets to 100", "scale growth", "election_cpu_us", 1.5, "×"),
    Bar("event → Faust view: p50", FRESH, "p50_ms", 10, "ms"),
    Bar("event → Faust view: p99", FRESH, "p99_ms", None, "ms"),
    Bar("projections' catch-up, to fold and store alone", "projections catch-up", "share", -0.5, "×"),
    Bar("projections' catch-up: events/s", "projections catch-up", "catch_up_per_second", -10_000, "/s"),
    Bar("reads of 3 projection workers, to 1", "projections reads, 3 servers", "per_second", None, "/s", 1,
        ("projections reads, 1 servers", "per_second")),
    Bar("leader's CPU, 1,000 reads/s asked of it", "projections leader", "leader_cpu_asked_itself", None, "cores", 1,
        ("projections leader", "leader_cpu_workers_asked")),
    Bar("200,000 keys, 1,000 watchers, 1,000 puts/s: heartbeat p99 to without", "watchers", "heartbeat_p99_to_without",
        1.5, "×", 1, ("etcd watchers", "lease_word_p99_to_without")),
    Bar("the same, to a lone node that nobody else asks", "watchers", "idle_p99_to_without", None, "×"),
    Bar("the same: resident memory of the leader", "watchers", "leader_rss_mib", 320, "MiB"),
    Bar("the same: put → watcher, p99", "watchers", "watch_p99_ms", None, "ms"),
    Bar("the same: ready after a kill", "watchers restart", "ready_s", 8, "s"),
    Bar("puts over gRPC, 64 clients", "keys closed 64", "per_second", None, "/s", 1, ("etcd closed 64", "per_second")),
    Bar("puts over gRPC, 1 client", "keys closed 1", "per_second", None, "/s", 1, ("etcd closed 1", "per_second")),
    Bar("linearizable reads over gRPC, 64 clients", "keys reads 64", "per_second", None, "/s", 1,
        ("etcd reads 64", "per_second")),
    Bar("a lone put: p50 to (a lone commit by remoting + 1.2 × a bare call)", "keys lone", "p50_to_allowed", 1, "×"),
    Bar("event → page: p50", PAGE, "p50_ms", 500, "ms"),
    Bar("event → page: p99", PAGE, "p99_ms", 1500, "ms"),
    Bar("64 clients, to the other checkout: commits/s", "pairs 64", "per_second_ratio", -1.8, "×"),
    Bar("64 clients, to the other checkout: p99", "pairs 64", "p99_us_ratio", 0.6, "×"),
    Bar("1 client, to the other checkout: p50", "pairs 1", "p50_us_ratio", 0.65, "×"),
    Bar("1 client, with tags between voters to without: CPU of the leader for each", "links 1", "ratio", None, "×"),
    Bar("what these tags add to a lone commit", "links 1", "added_us", None, "µs"),
    Bar("64 clients, with these tags to without: CPU of the leader for each", "links 64", "ratio", None, "×"),
    Bar("what these tags add to a commit among 64", "links 64", "added_us", None, "µs"),
    Bar("a leader at rest, of a core", "rest", "leader_pct", 1, "%"),
    Bar("a follower at rest, of a core", "rest", "follower_pct", 1, "%"),
    Bar("events through the Spark source, streaming", SOURCE, "per_second", -10_000, "/s", 1, LOG),
    Bar("through Spark's own Kafka connector", "spark stream kafka", "per_second", None, "/s", 1, LOG),
)  # fmt: skip
KINDS = {"dledger": "DLedger", "jraft": "JRaft", "etcd": "etcd"}
"""Others, by the first word of their figures."""
TIMES = {"dledger": 15, "jraft": 4, "etcd": 4}
"""Commits a second with 64 clients, at least so often theirs."""
CLIENTS = (1, 16, 64)


def failures(figures: Figures, *, ours_only: bool = False) -> list[str]:
    """What could not be measured, and why. Not ours: the Java controllers, etcd, and what is not there."""
    return [
        f"{name}: {figure['failed']}"
        for name, figure in figures.items()
        if "failed" in figure
        and not (ours_only and (name.startswith(tuple(KINDS)) or str(figure["failed"]).startswith("absent:")))
    ]


def machine(figures: Figures, name: str) -> str:
    """What the machine gave meanwhile, marked where its host took much; errors; a rate that was not held."""
    figure = figures.get(name, {})
    if "steal_pct" not in figure:
        return ""
    mark = " ⚠" if figure["steal_pct"] >= DISTURBED_PCT else ""
    errors = f"; **{figure['errors']} errors**" if figure.get("errors") else ""
    slow = f"; **{figure['per_second']:,.0f}/s only**" if "rate_not_held" in figure else ""
    return f"{figure['steal_pct']:g} %{mark}, {figure['load_average']:g}{errors}{slow}"


def table(figures: Figures) -> list[str]:
    """The bars as Markdown."""
    lines = ["| what | measured | bar | kept | ratio to control | steal, load |", "|---|---:|---:|---|---|---:|"]
    for bar in BARS:
        raw = bar.raw(figures)
        if raw is None:
            if "failed" in figures.get(bar.name, {}):
                lines.append(f"| {bar.what} | **failed** | {_limit(bar)} | | | {machine(figures, bar.name)} |")
            continue
        kept = {True: "yes", False: "**no**", None: "–"}[bar.kept(figures)]
        control = _get(figures, *bar.control) if bar.control else None
        ratio = f"{raw / control:.2f} × {bar.control[0]}" if bar.control and control else "–"
        shown = f"{raw * bar.scale:,.2f} {bar.unit}"
        lines.append(f"| {bar.what} | {shown} | {_limit(bar)} | {kept} | {ratio} | {machine(figures, bar.name)} |")
    absent = [bar.what for bar in BARS if bar.name not in figures]
    return [*lines, *(["", f"Not measured: {'; '.join(absent)}."] if absent else [])]


def _limit(bar: Bar) -> str:
    if bar.limit is None:
        return "–"
    return f"{'≤' if bar.limit > 0 else '≥'} {abs(bar.limit):,g} {bar.unit}"


def beside_others(figures: Figures) -> list[str]:
    """The closed loops beside the Java controllers, etcd and the server that does nothing."""
    others = " | × | ".join(KINDS.values())
    lines = [
        f"| clients | commits/s | p50, p99 ms | CPU leader, follower µs | {others} | × | null server |",
        f"|---:|---:|---:|---:|{'---:|---:|' * len(KINDS)}---:|",
    ]
    for clients in CLIENTS:
        name = f"closed {clients}"
        mine = figures.get(name, {})
        rate = _get(figures, name, "per_second")
        if rate is None:
            continue
        latency = f"{mine['p50_us'] / 1000:.1f}, {mine['p99_us'] / 1000:.1f}"
        cpu = f"{mine['leader_cpu_us']:.0f}, {mine['follower_cpu_us']:.0f}"
        told_of: list[str] = []
        for kind in KINDS:
            theirs = figures.get(f"{kind} {name}", {})
            its = _get(figures, f"{kind} {name}", "per_second")
            told = f"{its:,.0f}/s, p99 {theirs['p99_us'] / 1000:.0f} ms" if its else "failed" if theirs else "–"
            told += f" ({theirs['errors']} errors)" if theirs.get("errors") else ""
            told_of += [told, f"{rate / its:.1f}" if its else "–"]
        null = _get(figures, f"null {name}", "per_second")
        told_of.append(f"{null:,.0f}/s" if null else "–")
        lines.append(f"| {clients} | {rate:,.0f}/s | {latency} | {cpu} | {' | '.join(told_of)} |")
    for kind, times in TIMES.items():
        mine_, theirs_ = _get(figures, "closed 64", "per_second"), _get(figures, f"{kind} closed 64", "per_second")
        if mine_ and theirs_:
            kept = "yes" if mine_ >= times * theirs_ else "**no**"
            lines += ["", f"≥ {times} × {KINDS[kind]} with 64 clients: {kept} ({mine_ / theirs_:.1f} ×)."]
    return lines


PROFILE_OF = {
    "closed 1": "closed 1",
    "closed 64": "closed 64",
    "keys lone": "keys",
    "reads 64": "reads 64",
    "open 1000": "open 1000",
    L_IDLE: "reads",
    L_BUSY: "reads",
    F_IDLE: "reads, follower",
    F_BUSY: "reads, follower",
    PIPED: PIPED,
    PACED: PACED,
    "scale 2000": PACED,
    "rest": "at rest",
    "pairs 64": "closed 64",
    "pairs 1": "closed 1",
}
"""Where the time of a figure goes: the leader, sampled under the same kind of load once more."""
OF_KEY = {"follower_cpu_us": "follower, closed 64"}
"""And where one figure of several has its own."""


def profiles(figures: Figures) -> list[str]:
    """For each bar that was not kept: the profile that shows where the time went, each profile once."""
    missed: dict[str, list[str]] = {}
    for bar in BARS:
        if bar.kept(figures) is False:
            missed.setdefault(OF_KEY.get(bar.key) or PROFILE_OF.get(bar.name, ""), []).append(bar.what)
    found: list[str] = []
    for name, titles in missed.items():
        profile = figures.get(f"profile {name}", {})
        found += [f"Profile *{name or 'none'}*, for: {'; '.join(titles)}", ""]
        found += [f"    {line}" for line in profile.get("top", [profile.get("failed", "not profiled")])] + [""]
    return found or ["Every bar that was measured is kept.", ""]


def agreement(first: Figures, second: Figures) -> list[str]:
    """Every bar in two runs, and their ratios to their controls: within a quarter of the smaller?"""
    lines = [
        "| what | first | second | apart | agree | ratios to control apart | steal |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    for bar in BARS:
        a, b = bar.raw(first), bar.raw(second)
        if a is None or b is None:
            continue
        ratios = [raw / control for raw, run in ((a, first), (b, second)) if (control := _control(bar, run))]
        near = _apart(*ratios) if len(ratios) == 2 else None
        agree = "yes" if _apart(a, b) <= APART else "**no**"
        steal = ", ".join(f"{run.get(bar.name, {}).get('steal_pct', 0):g} %" for run in (first, second))
        shown = f"{a * bar.scale:,.2f} | {b * bar.scale:,.2f} {bar.unit} | {_percent(_apart(a, b))}"
        lines.append(f"| {bar.what} | {shown} | {agree} | {'–' if near is None else _percent(near)} | {steal} |")
    return lines


def _control(bar: Bar, figures: Figures) -> float | None:
    return _get(figures, *bar.control) if bar.control else None


def _apart(a: float, b: float) -> float:
    """The greater in terms of the smaller."""
    return 1.0 if a == b else max(a, b) / min(a, b) if min(a, b) > 0 else float("inf")


def _percent(apart: float) -> str:
    return f"{(apart - 1) * 100:.0f} %"


def render(runs: list[Figures], machine_of: str) -> str:
    """The whole report."""
    parts = ["# Benchmarks", "", machine_of, ""]
    parts += [
        "Steal: share of the CPU the machine's host took during that figure (⚠: 3 % or more). Load: average of",
        "",
    ]
    parts[-2] += " one minute, the measurement's own load included. Raw samples and every figure lie beside this page."
    for number, figures in enumerate(runs, start=1):
        parts += [f"## Run {number}", "", *table(figures), "", *beside_others(figures), ""]
        if told := failures(figures):
            parts += ["Failed:", "", *(f"- {line}" for line in told), ""]
        parts += ["Where the time goes where a bar is not kept (share of samples in it or below it):", ""]
        parts += [*profiles(figures), "All figures:", "", "```"]
        parts += [f"{name}: {figure}" for name, figure in figures.items() if not name.startswith("profile ")]
        parts += ["```", ""]
    for number, figures in enumerate(runs[1:], start=2):
        parts += [f"## Do runs 1 and {number} agree within 25 %?", "", *agreement(runs[0], figures), ""]
    return "\n".join(parts) + "\n"
