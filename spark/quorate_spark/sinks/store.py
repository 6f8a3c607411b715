"""The serving store: a batch's rows, its guard and the new position in one transaction.

Rules: a batch that was applied is not applied again (``guards``, by query id and batch id). A row is written iff its
event is not reflected yet; the position then moves to the end of the batch. So the same batch again, another cut of the
log into batches, or a new checkpoint that starts over leave the store as if each event had come once. A batch that
begins after the position is refused, and so is the log of another cluster.

Theory: the store at position N is a function of the first N events. Rows are puts that name the event they come from,
so whatever an event below N put is there, and whatever one from N on puts is not.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Final, TypeVar

import msgspec

from quorate.errors import QuorateError, UsageError, check
from quorate_spark.serving import TABLES, VERSION, Audit, Entity, Progress
from quorate_spark.sinks.sql import Database, connect, shape, tables, upsert

SERVING: Final = "serving"
ARCHIVE: Final = "archive"

_REMEMBER: Final = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"

T = TypeVar("T")

Put = tuple[str, int, str]
"""Table, offset of the event, the row as JSON: what keyed.OUT holds."""


class LogGapError(UsageError):
    """Events between what a sink holds and what it is given are missing: remove the checkpoint, and they come again."""


class OtherClusterError(UsageError):
    """The sink holds the facts of another cluster."""


class OtherVersionError(UsageError):
    """The store was made by another version of serving.py."""


class ServingStore:
    """Opened at once, so that a wrong URL is told at the start; opened again after it failed. Safe between threads."""

    def __init__(self, url: str, clock_ms: Callable[[], int], made_by: str = "") -> None:
        """``made_by``: the folds that its rows are made by. Raises UsageError, OtherVersionError, StorageError."""
        self._url, self._made_by = url, made_by
        self._clock_ms = clock_ms
        self._lock = RLock()
        self._open: Database | None = None
        self.public_name = self._database().public_name

    def _database(self) -> Database:
        if self._open is None:
            database = connect(self._url)
            try:
                with database.transaction():
                    for statement in tables(database.kind):
                        database.write(statement, [()])
                    meta: dict[str, str] = dict(database.read("SELECT name, value FROM meta"))
                    facts = {"version": str(VERSION), "shape": shape(database.kind), "folds": self._made_by}
                    for name, ours in facts.items():
                        if not ours:  # Whoever opens it does not say.
                            continue
                        theirs = meta.setdefault(name, ours)  # A store of before these were kept has today's.
                        if theirs != ours:
                            raise OtherVersionError(
                                f"{database.public_name} has tables of {name} {theirs}, not {ours}: "
                                "give another sink and another checkpoint, both are built anew from the log"
                            )
                        database.write(_REMEMBER, [(name, ours)])
            except QuorateError:
                database.close()
                raise
            self._open = database
        return self._open

    def apply(self, query_id: str, batch_id: int, puts: Sequence[Put]) -> bool:
        """Write a batch of the serving query; False if it was written before.

        Raises LogGapError, OtherClusterError, StorageError; then nothing was written.
        """
        offsets = sorted(offset for table, offset, _ in puts if table == "audit")
        check(not puts or offsets, "a batch of rows without an event")
        if not offsets:
            return False
        check(
            offsets[-1] - offsets[0] + 1 == len(offsets), f"events between {offsets[0]} and {offsets[-1]} are missing"
        )
        with self._lock:
            return self._guarded(lambda db: self._apply(db, query_id, batch_id, offsets[0], offsets[-1] + 1, puts))

    def _apply(
        self, database: Database, query_id: str, batch_id: int, first: int, end: int, puts: Sequence[Put]
    ) -> bool:
        with database.transaction():
            guard = database.read("SELECT batch_id FROM guards WHERE query_id = ?", (query_id,))
            if guard and batch_id <= guard[0][0]:
                return False
            before = self._progress(database, SERVING)
            position = 0 if before is None else before.position
            if first > position:
                raise LogGapError(
                    f"{database.public_name} reflects {position} events and the checkpoint goes on at {first}: "
                    "remove the checkpoint's folder, the store is then completed from the log"
                )
            _check_cluster(database, puts)
            for table in TABLES:
                new = [row for name, offset, row in puts if name == table.name and offset >= position]
                rows = (msgspec.structs.astuple(msgspec.json.decode(row, type=table.row)) for row in new)
                database.write(upsert(database.kind, table.name, table.row, table.key, "event_offset"), rows)
            last_ms = max(msgspec.json.decode(row, type=Audit).time_ms for name, _, row in puts if name == "audit")
            earlier_ms = None if before is None else before.last_event_ms
            progress = Progress(
                name=SERVING,
                query_id=query_id,
                batch_id=batch_id,
                position=max(position, end),
                last_event_ms=max(last_ms, earlier_ms or 0),
                applied_ms=self._clock_ms(),
                seen_ms=self._clock_ms(),
                state="running",
                message="",
            )
            self._put_progress(database, progress)
            _put_guard(database, query_id, batch_id)
            return True

    def note(self, progress: Progress) -> None:
        """Tell how a query does. Raises StorageError."""
        with self._lock:
            self._guarded(lambda database: self._put_progress(database, progress))

    def seen(self, name: str, query_id: str, state: str, message: str) -> None:
        """The query was looked at just now: does it run, and if not, why. Raises StorageError."""
        now = self._clock_ms()
        update = "UPDATE progress SET seen_ms = ?, state = ?, message = ? WHERE name = ?"
        nothing_yet = Progress(
            name=name,
            query_id=query_id,
            batch_id=-1,
            position=0,
            last_event_ms=None,
            applied_ms=now,
            seen_ms=now,
            state=state,
            message=message,
        )

        def write(database: Database) -> None:
            with database.transaction():
                if self._progress(database, name) is None:
                    self._put_progress(database, nothing_yet)
                database.write(update, [(now, state, message, name)])

        with self._lock:
            self._guarded(write)

    def progress(self, name: str = SERVING) -> Progress | None:
        """How far a query is; None before its first batch. Raises StorageError."""
        with self._lock:
            return self._guarded(lambda database: self._progress(database, name))

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _guarded(self, work: Callable[[Database], T]) -> T:
        try:
            return work(self._database())
        except QuorateError:
            self.close()  # Whatever failed, a fresh connection is the surest way on.
            raise

    @staticmethod
    def _progress(database: Database, name: str) -> Progress | None:
        columns = ", ".join(Progress.__struct_fields__)
        rows = database.read(f"SELECT {columns} FROM progress WHERE name = ?", (name,))  # noqa: S608 our own names
        return None if not rows else Progress(**dict(zip(Progress.__struct_fields__, rows[0], strict=True)))

    @staticmethod
    def _put_progress(database: Database, progress: Progress) -> None:
        statement = upsert(database.kind, "progress", Progress, ("name",), "position")
        database.write(statement, [msgspec.structs.astuple(progress)])


def _put_guard(database: Database, query_id: str, batch_id: int) -> None:
    statement = "INSERT INTO guards VALUES (?, ?) ON CONFLICT (query_id) DO UPDATE SET batch_id = excluded.batch_id"
    database.write(statement, [(query_id, batch_id)])


def _check_cluster(database: Database, puts: Iterable[Put]) -> None:
    """The event at offset 0 names the cluster."""
    for name, offset, row in puts:
        if name == "entities" and offset == 0:
            key = msgspec.json.decode(row, type=Entity).key
            rows = database.read("SELECT value FROM meta WHERE name = 'cluster'")
            if not rows:
                database.write("INSERT INTO meta (name, value) VALUES ('cluster', ?)", [(key,)])
            elif rows[0][0] != key:
                raise OtherClusterError(
                    f"{database.public_name} holds the facts of {rows[0][0]}, and these are of {key}: "
                    "give another sink and another checkpoint"
                )
