"""Logs for the dashboard's tests: a cluster's life made up from a seed, and one that was recorded."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from quorate.events import encode
from quorate_spark.dashboard.log import FoldedLog
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.program import listen
from quorate_spark.dashboard.service import Service
from quorate_spark.dashboard.settings import Flapping, Settings
from quorate_spark.dashboard.spool import Fact
from tests.dashboard.replay import Replay
from tests.projections.history import History

RECORDED = Path(__file__).with_name("recorded.jsonl")
Http = TestClient[web.Request, web.Application]
FLAPPING = Flapping(elections=2, window_ms=60)
"""Made-up lives are short: some hundred milliseconds."""


class Page(TestServer):
    """A service behind the page's own door."""

    def __init__(self, service: Service) -> None:
        super().__init__(service.app())
        self._service = service

    async def start_server(self, *_: Any, **__: Any) -> None:
        self.runner = self._service.runner()
        listener = await listen(self.runner, self._service, Settings(port=0))
        self.port = listener.sockets[0].getsockname()[1]
        self._root = URL(f"http://127.0.0.1:{self.port}")


@cache
def life(seed: int, events: int) -> tuple[Fact, ...]:
    """At least so many events, whole commands."""
    history = History(seed)
    facts: list[Fact] = []
    while len(facts) < events:
        facts += [Fact(stamp, event, encode(event)) for event, stamp in history.commit()]
    return tuple(facts)


@cache
def told(seed: int, events: int) -> list[dict[str, Any]]:
    """The same as rows of ``quorate log dump -o json``."""
    return [
        {
            **msgspec.to_builtins(fact.stamp),
            "type": type(fact.event).__name__,
            "event": json.loads(msgspec.json.encode(fact.event)),
        }
        for fact in life(seed, events)
    ]


def folded(facts: tuple[Fact, ...] | list[Fact], every: int = 16, most: int = 1_000) -> FoldedLog:
    """A log that has taken them, with checkpoints ``every`` so many events."""
    log = FoldedLog()
    log.history._every, log.history._checkpoints_max = every, most
    for start in range(0, len(facts), 7):
        log.take(facts[start : start + 7])
    return log


def view(log: FoldedLog, offset: int) -> View:
    """The view of the past."""
    state = log.history.at(offset)
    return View(log, state, state.time or 0, FLAPPING)


@cache
def log_of(seed: int, events: int) -> FoldedLog:
    """A folded life; folded once."""
    return folded(life(seed, events))


def both(events: int, seed: int, share: float) -> tuple[View, Replay]:
    """The view at some offset of a life, and the replay up to it."""
    log = log_of(seed, events)
    offset = round(share * log.tip.offset)
    return view(log, offset), Replay(told(seed, events), offset)


def plain(answer: msgspec.Struct) -> Any:
    """As a browser gets it."""
    return json.loads(msgspec.json.encode(answer))
