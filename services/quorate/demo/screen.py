"""How the demonstration is told: a live table on a terminal, lines elsewhere, JSON for programs."""

import json
import sys
import time
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from quorate.cli.cluster import LocalCluster
from quorate.demo.brokers import Broker
from quorate.demo.companions import Companion
from quorate.demo.services import Service
from quorate.demo.story import Story
from quorate.events import Stamp
from quorate.terminal import visible

STYLES = {"fault": "bold red", "note": "yellow", "fact": "green"}


class Shown(Protocol):
    """What a screen shows of a demonstration."""

    cluster: LocalCluster
    cast: list[Broker]
    beside: list[Companion]
    services: list[Service]
    story: Story

    def places(self) -> dict[str, str]:
        """Where the page and the views are."""

    def ready_line(self) -> str:
        """As of ``up``, with the brokers."""


class Teller(Protocol):
    """Hears what happens."""

    def ready(self, demo: Shown) -> None:
        """Everything runs."""

    def tell(self, kind: str, line: str, stamp: Stamp | None = None) -> None:
        """One happening; ``kind``: fact (with its stamp), fault or note."""

    def show(self, demo: Shown) -> None:
        """Called several times a second."""

    def sum_up(self, story: Story) -> None:
        """It is over."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class LineTeller:
    """One line per happening."""

    def ready(self, demo: Shown) -> None:
        """Everything runs."""
        print(f"ready: {len(demo.cluster.places)} nodes, {len(demo.cast)} brokers{_look(demo)}", flush=True)

    def tell(self, kind: str, line: str, stamp: Stamp | None = None) -> None:
        """One happening; ``kind``: fact (with its stamp), fault or note."""
        place = f"{stamp.offset:>6}" if stamp is not None else " " * 6
        print(f"{time.strftime('%H:%M:%S')} {place} {kind:<5} {visible(line)}", flush=True)

    def show(self, demo: Shown) -> None:
        """Called several times a second."""

    def sum_up(self, story: Story) -> None:
        """It is over."""
        print(figures(story), flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""


class JsonTeller(LineTeller):
    """One JSON document per line: the ready line first, then every happening, at last the summary."""

    def __init__(self) -> None:
        self._ready = False

    def ready(self, demo: Shown) -> None:
        """Everything runs."""
        print(demo.ready_line(), flush=True)
        self._ready = True

    def tell(self, kind: str, line: str, stamp: Stamp | None = None) -> None:
        """One happening; ``kind``: fact (with its stamp), fault or note."""
        if not self._ready:
            return
        where = {} if stamp is None else {"offset": stamp.offset, "time_ms": stamp.time_ms}
        print(json.dumps({"kind": kind, "text": line, **where}, ensure_ascii=False), flush=True)

    def sum_up(self, story: Story) -> None:
        """It is over."""
        print(json.dumps({"kind": "summary", **story.summary()}), flush=True)


class TableTeller:
    """A table of nodes and broker sets that changes in place, the latest happenings below it."""

    def __init__(self) -> None:
        self._live = Live(console=Console(), refresh_per_second=8, screen=False)
        self._started = time.monotonic()

    @staticmethod
    def fits() -> bool:
        """Is somebody watching?"""
        return sys.stdout.isatty()

    def ready(self, demo: Shown) -> None:
        """Everything runs."""

    def tell(self, kind: str, line: str, stamp: Stamp | None = None) -> None:
        """One happening; ``kind``: fact (with its stamp), fault or note. The story keeps the latest lines, ``show``
        prints them.
        """

    def show(self, demo: Shown) -> None:
        """Called several times a second."""
        if not self._live.is_started:
            self._live.start()
        look = Text(f"Look at{_look(demo).removeprefix(';')}" if demo.beside else "", "bold blue")
        self._live.update(
            Group(
                self._nodes(demo),
                look,
                _sets(demo),
                *_services(demo),
                _lines(demo.story),
                Text(figures(demo.story), "dim"),
            )
        )

    def sum_up(self, story: Story) -> None:
        """It is over."""

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._live.stop()

    def _nodes(self, demo: Shown) -> Text:
        ran = int(time.monotonic() - self._started)
        text = Text(f"Quorate  {ran // 60}:{ran % 60:02d}  offset {demo.story.offset}  nodes ")
        for number, place in demo.cluster.places.items():
            leads, lives = number == demo.story.leader, demo.cluster.alive(number)
            style = "bold red" if not lives else "bold green" if leads else "green"
            text.append(f" {number}{' leads' if leads else ''}{'' if lives else ' down'} ", style)
            text.append(f"kafka {place.kafka} ", "dim")
        return text


def _look(demo: Shown) -> str:
    """Where to look, in words."""
    return "".join(f"; {name}: {url}" for name, url in demo.places().items())


def _sets(demo: Shown) -> Table:
    table = Table(pad_edge=False)
    for name in ("set", "brokers", "master", "epoch", "in sync"):
        table.add_column(name, no_wrap=True)
    table.add_column("why this master")  # On a narrow terminal this gives way, in lines: names and numbers stay whole.
    for name, found in sorted(demo.story.sets.items()):
        brokers, address = Text(), found.address(found.master)
        for broker in demo.cast:
            if broker.broker_set == name:
                mark = "◆" if broker.address == address else "●"
                brokers.append(mark + " ", "green" if broker.child.alive else "red")
        master = (
            Text("nobody", "bold red")
            if found.master is None
            else Text(visible(f"{found.master} {address or 'is gone'}"))
        )
        in_sync, why = ",".join(map(str, found.sync_state_set)), visible(demo.story.reasons.get(name, ""))
        table.add_row(visible(name), brokers, master, str(found.master_epoch), in_sync, why)
    return table


def _services(demo: Shown) -> list[Text]:
    """Each service, and whether its key is there: only its lease tells."""
    if not demo.services:
        return []
    text = Text("leases  ")
    for service in (one for one in demo.services if not one.members):
        there = demo.story.services.get(service.key)
        word, style = (
            ("not yet", "dim") if there is None else ("is there", "green") if there else ("is gone", "bold red")
        )
        text.append("● ", "green" if service.child.alive else "red")
        text.append(f"{service.key} {word}  ", style)
    return [text]


def _lines(story: Story) -> Text:
    text = Text()
    for kind, time_ms, line in story.lines:
        text.append(f"{time.strftime('%H:%M:%S', time.localtime(time_ms / 1000))} ", "dim")
        text.append(f"{visible(line)}\n", STYLES[kind])
    return text


def figures(story: Story) -> str:
    """The run so far, in one line."""
    summary = story.summary()
    p50, most = summary["failover_ms_p50"], summary["failover_ms_max"]
    took = "" if p50 is None else f" (p50 {p50} ms, max {most} ms)"
    return (
        f"{summary['faults']} faults, {summary['failovers']} fail-overs{took}; the leading controller changed "
        f"{summary['leader_changes']} times, {summary['leader_changes_without_fault']} without a fault"
    )
