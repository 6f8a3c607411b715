"""The Spark application's serving store, read: how far its queries are, and the elections it made.

Rules: read only; one statement per question, so that rows and the position they reflect are of one moment; on a thread
of its own, for a database may take its time: one question at a time, and one that hangs holds up neither the page nor
its end. What it needs beyond the dashboard is imported when a store is named.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, Final

import msgspec

from quorate.errors import UsageError
from quorate.model.election_words import kind_words, rule_words
from quorate_spark.dashboard.panels.elections import ElectionItem, kind_of
from quorate_spark.serving import Progress

_FIRST: Final = "first AND outcome = 'elected'"
"""As the page counts: an election that found nobody is none that a set begins with."""
CLOSE_S: Final = 1.0
"""How long the end waits for a question."""
_PROGRESS = ", ".join(Progress.__struct_fields__)
_ELECTION = (
    "election_offset, time_ms, broker_set, outcome, first, trigger_by, evidence, old_master, new_master, master_epoch, "
    "decided_by, unclean, candidate_count, alive_count, fault_ms, acknowledged_ms, unavailable_ms"
)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Elections as of ``position`` events, which batch ``batch`` completed."""

    position: int
    batch: int
    seen_ms: int
    """When the query was last known to lack nothing of what it was given."""
    items: list[ElectionItem]


class ElectionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which elections; as the parameters of /api/elections."""

    only: str = ""
    kind: str = ""
    before: int | None = None
    after: int | None = None
    first: bool = False
    limit: int = 100


class SparkStore:
    """The store at a URL. Raises UsageError for one that is none."""

    def __init__(self, url: str) -> None:
        try:
            from quorate_spark.sinks import sql  # noqa: PLC0415  Brings the drivers of databases.
        except ModuleNotFoundError as error:
            raise UsageError(f"--serving needs {error.name}: pip install 'quorate[spark]'") from error
        self._connect: Callable[[], Any] = lambda: sql.connect(url, read_only=True)
        self._database: Any = None
        self._reading: asyncio.Future[list[Any]] | None = None
        scheme = url.partition(":")[0]
        if scheme not in ("sqlite", "postgresql", "postgres"):
            raise UsageError(f"--serving {scheme}:…: sqlite:///FILE or postgresql://USER@HOST/DATABASE")
        sql.public(url)  # What is no URL is told at the start.

    async def progress(self) -> list[Progress]:
        """A row for each query. Raises QuorateError."""
        rows = await self._ask(f"SELECT {_PROGRESS} FROM progress ORDER BY name", ())  # noqa: S608  Our own names.
        return [Progress(**dict(zip(Progress.__struct_fields__, row, strict=True))) for row in rows]

    async def elections(self, asked: ElectionQuery) -> Page | None:
        """A page of one more than asked for, newest first (oldest first with ``after``); None: nothing was written.

        Raises QuorateError.
        """
        forward = asked.after is not None
        where, values = ["TRUE"], []
        for clause, value in (
            ("broker_set = ?", asked.only or None),
            ("(CASE WHEN evidence = '' THEN trigger_by ELSE evidence END) = ?", asked.kind or None),
            ("election_offset < ?", asked.before),
            ("election_offset > ?", asked.after),
        ):
            if value is not None:
                where.append(clause)
                values.append(value)
        if not asked.first:
            where.append(f"NOT ({_FIRST})")
        statement = (
            f"SELECT p.position, p.batch_id, p.seen_ms, e.* FROM progress p LEFT JOIN (SELECT {_ELECTION} "  # noqa: S608
            f"FROM elections WHERE {' AND '.join(where)} ORDER BY election_offset {'ASC' if forward else 'DESC'} "
            "LIMIT ?) e ON TRUE WHERE p.name = 'serving' "
            f"ORDER BY e.election_offset {'ASC' if forward else 'DESC'}"
        )
        rows = await self._ask(statement, (*values, asked.limit + 1))
        if not rows:
            return None
        position, batch, seen_ms = rows[0][:3]
        items = [_item(row[3:]) for row in rows if row[3] is not None]
        return Page(position=position, batch=batch, seen_ms=seen_ms, items=items)

    async def _ask(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        while self._reading is not None and not self._reading.done():
            await asyncio.wait({self._reading})
        answer: Future[list[Any]] = Future()

        def read() -> None:
            try:
                answer.set_result(self._read(statement, values))
            except BaseException as error:  # noqa: BLE001  Whoever asked is told.
                answer.set_exception(error)

        Thread(target=read, name="serving", daemon=True).start()
        self._reading = asyncio.wrap_future(answer)
        self._reading.add_done_callback(lambda reading: reading.cancelled() or reading.exception())
        return await asyncio.shield(self._reading)  # Who asked may have gone; the question goes on.

    def _read(self, statement: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            if self._database is None:
                self._database = self._connect()
            rows: list[Any] = self._database.read(statement, values)
        except Exception:
            self._hang_up()
            raise
        return rows

    def _hang_up(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    async def close(self) -> None:
        """Hang up, unless a question hangs."""
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=CLOSE_S)
        if self._reading is None or self._reading.done():
            self._hang_up()


def _item(row: tuple[Any, ...]) -> ElectionItem:
    (
        offset, t, broker_set, outcome, first, trigger, evidence, old, new, epoch, decided_by, unclean, candidates,
        alive, fault, acked, unavailable,
    ) = row  # fmt: skip
    return ElectionItem(
        offset=offset,
        t=t,
        set=broker_set,
        type="MasterElected" if outcome == "elected" else "ElectionFailed",
        kind=kind_of(evidence, trigger),
        kind_words=kind_words(kind_of(evidence, trigger)),
        trigger=trigger,
        evidence=evidence,
        first=bool(first) and outcome == "elected",
        from_=old,
        to=new,
        epoch=epoch,
        decided_by=decided_by,
        rule_words=rule_words(decided_by),
        unclean=bool(unclean),
        candidates=candidates,
        alive=alive,
        fault_at=fault,
        fault_estimated=None,
        acked_at=acked,
        unavailable_ms=None if unavailable is None else max(0, unavailable),  # The clocks of two leaders.
    )
