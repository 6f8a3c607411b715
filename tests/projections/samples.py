"""Answers of workers, taken at any moment, and compared afterwards with a replay at the offset each is stamped with."""

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from quorate_projections.views import VIEWS as CATALOGUE
from tests.batches import Record
from tests.projections.history import commits
from tests.projections.log import HistoryLog
from tests.projections.replay import Replay, Row
from tests.projections.worker import Worker

VIEWS = tuple(view.name for view in CATALOGUE)


@dataclass
class Samples:
    """What was answered."""

    chance: random.Random
    taken: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """(view, order, page)."""

    def take(self, worker: Worker, view: str = "") -> bool:
        """One page of some view; False: the worker did not answer."""
        view, order = view or self.chance.choice(VIEWS), self.chance.choice(("asc", "desc"))
        try:
            status, page = worker.ask(f"/views/{view}", limit=300, order=order)
        except OSError:
            return False
        assert status == 200, page
        self.taken.append((view, order, page))
        return True

    def check(self, log: HistoryLog) -> None:
        """Every sample equals the replay, and of every view some rows were compared (``fill`` sees to it)."""
        full = self.compare(list(islice(chain.from_iterable(commits(log.seed)), log.events)))
        assert all(full[view] for view in VIEWS), full

    def compare(self, log: list[Record]) -> Counter[str]:
        """Every sample equals the replay at its own offset; how many samples of each view were not empty."""
        replay, full = Replay(), Counter[str]()
        for view, order, page in sorted(self.taken, key=lambda sample: sample[2]["offset"]):
            while replay.count < page["offset"]:
                replay.feed(log[replay.count])
            wanted = ordered(replay.shown(view), order)[: len(page["rows"])]
            assert [(row["key"], row["row"]) for row in page["rows"]] == wanted, (view, page["offset"])
            assert page["next"] is not None or len(page["rows"]) == len(replay.shown(view))
            full[view] += bool(wanted)
        return full

    @property
    def offsets(self) -> int:
        """Distinct offsets sampled."""
        return len({page["offset"] for _, _, page in self.taken})


def fill(log: HistoryLog) -> None:
    """Go on with its life until every view has rows: which of them it is without at some moment is chance."""
    replay, records = Replay(), chain.from_iterable(commits(log.seed))
    while replay.count < log.events or not all(map(replay.shown, VIEWS)):
        if replay.count == log.events:
            log.append_commits(1)
        replay.feed(next(records))


def ordered(rows: dict[str, Row], order: str) -> list[tuple[str, Row]]:
    """By key, as bytes are ordered."""
    return sorted(rows.items(), key=lambda item: item[0].encode(), reverse=order == "desc")
