"""The worker's tables: rows, position, freshness, and callers that wait for more. No Faust in here.

Rules: ``offset`` is the number of events reflected (those before it), as in a node's own HTTP interface. ``age_ms`` is
the time since the rows are known to have been all there was: a Fetch answer came and nothing in it was missing. It
never claims to be younger than that, and never older than the last event reflected.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec

from quorate.errors import UsageError
from quorate.resolving import resolver
from quorate_projections.folding import Failure, Folding, TakeResult
from quorate_projections.generations import Generations
from quorate_projections.record import Headers
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import RowStore


class TooManyWaitersError(UsageError):
    """``waiters_max`` callers wait already."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``/ready``."""

    ready: bool
    reason: str
    """Why not; empty when ready."""
    offset: int
    time_ms: int
    age_ms: int
    end_offset: int | None
    """Where the log ends, as the node read from said (a mirror counts its markers too); null: not heard yet."""
    lag: int | None
    """Events behind that end."""
    failed: Failure | None
    """Why the table stands still."""
    rewinds: int
    cluster_id: str
    generation: str
    source: str


class MaterializedViews:
    """One worker's rows. ``heard``: Kafka offset of the end and Unix ms, of the last word of a node."""

    def __init__(
        self,
        settings: ProjectionSettings,
        wall_ms: Callable[[], int],
        heard: Callable[[], tuple[int, int] | None],
    ) -> None:
        self.settings = settings
        self.heard = heard
        self.generations = Generations(Path(settings.data_dir))
        self._wall_ms = wall_ms
        self._lock = self.generations.lock("serving")
        self.generation = self.generations.current
        try:
            self.folding = self.folding_of(self.generation)
        except BaseException:
            self._lock.close()
            raise
        self.generations.remove_before(self.generation)
        self.passed = 0
        """Kafka offset up to which only markers follow the position."""
        self.rewinds = 0
        self.trouble = "no node has answered yet"
        """Why nothing is followed at the moment; empty when all is well."""
        self._current_ms = 0
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def folding_of(self, generation: str) -> Folding:
        """A generation's rows, to be gone on with. Raises StorageError, VersionsDifferError."""
        return Folding(self.open(generation), resolver(self.settings.node))

    def open(self, generation: str) -> RowStore:
        """A generation's rows. Raises StorageError, VersionsDifferError."""
        return RowStore(self.generations.path(generation), cache_rows=self.settings.cache_rows)

    @property
    def store(self) -> RowStore:
        """The rows served."""
        return self.folding.store

    @property
    def offset(self) -> int:
        """Events reflected."""
        return self.store.position.events

    def take(self, kafka: int, headers: Headers, value: bytes | None) -> TakeResult:
        """Look at one record; ``kafka`` is its Kafka offset. Never raises for what a record says."""
        return self.folding.take(kafka, headers, value)

    def saved(self, _end: int = 0) -> None:
        """Events were applied: those who waited for them go on."""
        while self._waiters and self._waiters[0][0] <= self.offset:
            waiter = heapq.heappop(self._waiters)[2]
            if not waiter.done():
                waiter.set_result(None)

    async def reached(self, offset: int, timeout_s: float) -> bool:
        """Wait until ``offset`` events are reflected; False: not in time. Raises TooManyWaitersError."""
        if offset <= self.offset:
            return True
        self._waiters = [entry for entry in self._waiters if not entry[2].done()]
        heapq.heapify(self._waiters)
        if len(self._waiters) >= self.settings.waiters_max:
            raise TooManyWaitersError(f"{len(self._waiters)} callers wait already")
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (offset, next(self._numbers), waiter))
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        return True

    @property
    def waiting(self) -> int:
        """Callers that wait for an offset."""
        return sum(not entry[2].done() for entry in self._waiters)

    def switch(self, generation: str, folding: Folding) -> None:
        """Serve other rows from now on; the ones before are closed and removed."""
        before = self.store
        self.generation, self.folding, self.trouble = generation, folding, ""
        before.close()
        self.generations.remove_before(generation)
        self.saved()

    def close(self) -> None:
        """Write what is left and let the directory go."""
        self.store.close()
        self._lock.close()

    # How fresh.

    def missing(self) -> int | None:
        """Kafka offsets between us and the end; None before a node was heard."""
        reading = self.heard()
        if reading is None:
            return None
        end, when = reading
        behind = max(0, end - max(self.store.position.kafka, self.passed))
        if behind == 0:
            self._current_ms = max(self._current_ms, when)
        return behind

    @property
    def age_ms(self) -> int:
        """Milliseconds since the rows were all there was."""
        self.missing()
        return max(0, self._wall_ms() - max(self._current_ms, self.store.position.time_ms))

    def health(self) -> Health:
        """Can this worker be asked?"""
        settings, position, failed = self.settings, self.store.position, self.folding.failed
        reading, lag = self.heard(), self.missing()
        silent_ms = None if reading is None else self._wall_ms() - reading[1]
        if failed is not None:
            reason = f"stands still at {failed.offset}: {failed.reason}"
        elif self.trouble:
            reason = self.trouble
        elif lag is None or silent_ms is None:
            reason = "no node has answered yet"
        elif lag > settings.ready_lag_max:
            reason = f"{lag} events behind"
        elif silent_ms > settings.ready_age_max_s * 1000:
            reason = f"no word of a node for {silent_ms} ms"
        else:
            reason = ""
        return Health(
            ready=not reason,
            reason=reason,
            offset=position.events,
            time_ms=position.time_ms,
            age_ms=self.age_ms,
            end_offset=None if reading is None else reading[0],
            lag=lag,
            failed=failed,
            rewinds=self.rewinds,
            cluster_id=position.cluster_id,
            generation=self.generation,
            source=",".join(settings.bootstrap),
        )
