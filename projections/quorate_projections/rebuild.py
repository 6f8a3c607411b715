"""``quorate projections rebuild``: all rows again from offset 0, in a generation beside the current one.

Rules: the worker goes on serving the current generation meanwhile; the new one becomes current only when it has reached
the end of the log, and the worker then follows by itself. Broken off, it leaves everything as it was; so it does where
the log is not the one that the current rows were made from, or does not hold all that they reflect.
"""

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiokafka.errors import KafkaError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from quorate.asking import UnreachedError
from quorate.errors import PeerError, QuorateError
from quorate.resolving import resolver
from quorate_projections.folding import Folding
from quorate_projections.generations import Busy, Generations
from quorate_projections.reader import LogReader, OtherLogError, prepare
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import Position, RowStore, stored_position

DONE: Final = 0


class RebuildError(QuorateError):
    """The rows could not be made; nothing has changed."""


def rebuild(settings: ProjectionSettings, saved: Callable[[int, int], None], monotonic: Callable[[], float]) -> Folding:
    """Make and switch; ``saved`` is told (position, end) in Kafka offsets. Raises RebuildError, Busy, StorageError."""
    generations = Generations(Path(settings.data_dir))
    with generations.lock("rebuild"):
        current = stored_position(generations.path(generations.current))
        name = generations.fresh()
        store = RowStore(generations.path(name), cache_rows=settings.cache_rows)
        folding = Folding(store, resolver(settings.node))
        try:
            _fill(settings, folding, current, saved, monotonic)
        except BaseException:
            store.close()
            generations.remove(name)
            raise
        store.close()
        generations.switch(name)
        _tidy(generations, name)
    return folding


def _fill(
    settings: ProjectionSettings,
    folding: Folding,
    current: Position | None,
    saved: Callable[[int, int], None],
    monotonic: Callable[[], float],
) -> None:
    def progress(end: int) -> None:
        saved(folding.store.position.kafka, end)

    async def fill() -> None:
        if current is not None:
            await _compare(settings, current, monotonic)
        await prepare(settings, folding, monotonic, progress, lambda: False)

    try:
        asyncio.run(fill())
    except (KafkaError, PeerError, UnreachedError, OSError) as error:
        raise RebuildError(f"{','.join(settings.bootstrap)}: {error}") from error
    if folding.failed is not None:
        raise RebuildError(f"event {folding.failed.offset}: {folding.failed.reason}")
    if folding.store.position.events == 0:
        raise RebuildError(f"{','.join(settings.bootstrap)}: {settings.topic} has no events")


async def _compare(settings: ProjectionSettings, current: Position, monotonic: Callable[[], float]) -> None:
    """Is it the log of the rows that would be replaced, and all that they reflect? Raises RebuildError if not."""
    async with LogReader(settings, monotonic) as reader:
        try:
            place = await reader.place(current)
        except OtherLogError as error:
            source, folder = ",".join(settings.bootstrap), settings.data_dir
            raise RebuildError(f"{source}: {error}; to begin with another log, delete {folder}") from error
    if place is None:
        raise RebuildError(f"{','.join(settings.bootstrap)}: the log ends before the {current.events} events reflected")


def _tidy(generations: Generations, name: str) -> None:
    """Remove the old rows, unless a worker serves from them: it does so when it has switched, or begins again."""
    try:
        with generations.lock("serving"):
            generations.remove_before(name)
    except Busy:
        return


def run(settings: ProjectionSettings, options: Namespace) -> int:
    """The command, with its progress bar on stderr."""
    began = time.monotonic()
    columns = (TextColumn("rebuilding"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("", total=None)
        folding = rebuild(settings, lambda at, end: bar.update(task, completed=at, total=max(end, at)), time.monotonic)
    took_s = max(time.monotonic() - began, 1e-6)
    position = folding.store.position
    generation = Generations(Path(settings.data_dir)).current
    print(
        f"{generation} is current: {position.events} events of {position.cluster_id} in {took_s:.1f} s,"
        f" {position.events / took_s:.0f} events/s"
    )
    return DONE
