"""How fresh everything is that reads the log: our own fold, the Spark queries, the projections.

Rules: asked about once a second while somebody watches, each with a deadline; who does not answer is ``down``, with the
reason. Nothing else on the page depends on it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
import msgspec
from msgspec import UNSET, UnsetType

from quorate_spark.dashboard.follow import FollowStatus
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.spark_store import SparkStore
from quorate_spark.serving import Progress

NOT_ASKED: Final = "not asked yet"
DEAD_MS: Final = 10_000
"""A query that was not seen alive for so long is down."""
BEHIND_MS: Final = 10_000
"""A reader that has lacked the same events for so long is behind; the archive takes some every five seconds."""


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One reader of the log."""

    name: str
    kind: str
    """``dashboard``, ``spark`` or ``projection``."""
    state: str
    offset: int | None = None
    lag: int | None = None
    age_ms: int | None = None
    batch: int | UnsetType = UNSET
    message: str = ""


class StreamsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/streams."""

    end_offset: int
    streams: list[Stream]
    unconfigured: list[str]


class _Worker(msgspec.Struct, frozen=True):
    """A projection worker's answer at /ready."""

    ready: bool
    offset: int
    age_ms: int | None = None
    reason: str | None = None


class Streams:
    """The readers, as they were when last asked."""

    def __init__(self, settings: Settings, clock_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._clock_ms = clock_ms
        self._session: aiohttp.ClientSession | None = None
        self._workers: Mapping[str, _Worker | str] = dict.fromkeys(settings.projections, NOT_ASKED)
        self._queries: list[Progress] | str = NOT_ASKED
        self._lacking: dict[str, tuple[int, int]] = {}
        """By query: its position, and since when it is known that the log goes on there."""
        self.store = SparkStore(settings.serving) if settings.serving else None

    async def ask_all(self) -> None:
        """Ask each once."""
        workers, _ = await asyncio.gather(
            asyncio.gather(*(self._worker(address) for address in self._settings.projections)), self._ask_store()
        )
        self._workers = dict(zip(self._settings.projections, workers, strict=True))

    async def close(self) -> None:
        """Let go of everything."""
        if self._session is not None:
            await self._session.close()
        if self.store is not None:
            await self.store.close()

    async def _worker(self, address: str) -> _Worker | str:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._settings.node_timeout_ms / 1000)
            self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)
        try:
            async with self._session.get(f"http://{address}/ready") as response:
                return msgspec.json.decode(await response.read(), type=_Worker)
        except Exception as error:  # noqa: BLE001  Whatever it answered, it is the worker's trouble alone.
            return str(error) or type(error).__name__

    async def _ask_store(self) -> None:
        if self.store is None:
            return
        try:
            async with asyncio.timeout(self._settings.node_timeout_ms / 1000):
                self._queries = await self.store.progress()
        except TimeoutError:
            self._queries = "no answer in time"
        except Exception as error:  # noqa: BLE001  A database's driver may raise anything; nothing else depends on it.
            self._queries = str(error) or type(error).__name__

    def fresh(self, end: int, now: int) -> bool:
        """Does the serving query reflect the first ``end`` events, and live?"""
        if isinstance(self._queries, str):
            return False
        return any(
            query.name == "serving"
            and query.position >= end
            and query.state == "running"
            and now - query.seen_ms <= DEAD_MS
            for query in self._queries
        )

    def answer(self, following: FollowStatus, offset: int, now: int) -> StreamsAnswer:
        """As of the last time they were asked."""
        end = max(following.end_offset, offset)
        rows = [
            Stream(
                name="fold",
                kind="dashboard",
                state=following.state,
                offset=offset,
                lag=end - offset,
                age_ms=now - following.newest_at if following.newest_at else None,
                message=following.message,
            )
        ]
        if self.store is not None:
            if isinstance(self._queries, str):
                rows.append(_silent("serving", "spark", self._queries))
            else:
                rows += [self._query(query, end, now) for query in self._queries]
                if not self._queries:
                    rows.append(Stream(name="serving", kind="spark", state="down", message="no batch was written yet"))
        rows += [_projection(address, worker, end) for address, worker in self._workers.items()]
        missing = [("spark", self._settings.serving), ("projections", self._settings.projections)]
        return StreamsAnswer(end_offset=end, streams=rows, unconfigured=[name for name, given in missing if not given])

    def _lacking_ms(self, query: Progress, lag: int, now: int) -> int:
        """How long it is known to lack the events that follow its position."""
        if not lag:
            self._lacking.pop(query.name, None)
            return 0
        position, since = self._lacking.get(query.name, (-1, now))
        if position != query.position:
            since = now
        self._lacking[query.name] = (query.position, since)
        return now - since

    def _query(self, query: Progress, end: int, now: int) -> Stream:
        lag = max(0, end - query.position)
        lacking = self._lacking_ms(query, lag, now)
        silent = now - query.seen_ms
        state, message = query.state, query.message
        if state == "running":
            if silent > DEAD_MS:
                state, message = "down", f"not seen alive for {silent // 1000} s"
            elif lacking > BEHIND_MS:
                state = "behind"
        else:
            state = "down" if state == "stopped" else state
        return Stream(
            name=query.name,
            kind="spark",
            state=state,
            offset=query.position,
            lag=lag,
            age_ms=max(0, silent if not lag else max(silent, lacking)),
            batch=query.batch_id,
            message=message,
        )


def _silent(name: str, kind: str, why: str) -> Stream:
    return Stream(name=name, kind=kind, state="connecting" if why == NOT_ASKED else "down", message=why)


def _projection(address: str, worker: _Worker | str, end: int) -> Stream:
    if isinstance(worker, str):
        return _silent(address, "projection", worker)
    lag = max(0, end - worker.offset)
    return Stream(
        name=address,
        kind="projection",
        state="running" if worker.ready else "behind",
        offset=worker.offset,
        lag=lag,
        age_ms=worker.age_ms,
        message=worker.reason or "",
    )
