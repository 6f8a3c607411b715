"""The two databases of the serving store, and what differs between them; the statements are derived from serving.py.

Rules: SQLite by default, in WAL mode and synchronous, so that what a batch wrote is on disk before Spark calls it done;
PostgreSQL by URL. A connection serves one writer. Names are those of serving.py, none comes from outside. Every wait
has a deadline.
"""

import hashlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, get_type_hints
from urllib.parse import urlsplit

import psycopg

from quorate.errors import StorageError, UsageError
from quorate_spark.serving import TABLES, Json, Progress

WAIT_S: Final = 10
"""How long a connection, a lock or another writer is waited for."""
SILENCE: Final[dict[str, Any]] = {
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": WAIT_S * 1_000,
}
"""When a host of PostgreSQL's that has gone without a word is given up."""
STATEMENT_S: Final = 120
"""How long PostgreSQL may work on one statement."""
LOCK: Final = 0x51554F52
"""Key of the advisory lock by which PostgreSQL lets one batch at a time through."""
UNBOUNDED: Final = frozenset({"entities"})
"""Tables whose key is a text of any length. PostgreSQL's B-tree takes some 2,700 bytes of it."""

Value = None | bool | int | float | str
Found = tuple[Any, ...]

_TYPES: Final = {
    "sqlite": {int: "INTEGER", bool: "INTEGER", str: "TEXT", Json: "TEXT"},
    "postgresql": {int: "BIGINT", bool: "BOOLEAN", str: "TEXT", Json: "JSON"},
}


class Database(ABC):
    """An open database. Values stand as ``?`` in its statements. Raises StorageError when it fails."""

    kind: str
    public_name: str
    """How it may be called where others read: without a password."""

    @abstractmethod
    def transaction(self) -> "_Transaction":
        """A context: all that is written within, or nothing; nobody else writes the store meanwhile."""

    @abstractmethod
    def snapshot(self) -> "_Transaction":
        """A context: all that is read within is of one moment, so that ``progress`` stamps every row set beside it."""

    @abstractmethod
    def write(self, statement: str, rows: Iterable[Sequence[Value]]) -> None:
        """Run it once for each row of values."""

    @abstractmethod
    def read(self, statement: str, values: Sequence[Value] = ()) -> list[Found]:
        """The rows it finds."""

    @abstractmethod
    def close(self) -> None:
        """Hang up."""


_Transaction = Any


class Sqlite(Database):
    """A file; ``read_only`` never makes one."""

    kind = "sqlite"

    def __init__(self, path: str, *, read_only: bool) -> None:
        self.public_name = f"sqlite:///{path}"
        file = Path(path).absolute()
        if not read_only:
            file.parent.mkdir(parents=True, exist_ok=True)
        mode = "ro" if read_only else "rwc"
        with _translated(self.public_name):
            self._connection = sqlite3.connect(
                f"{file.as_uri()}?mode={mode}",
                timeout=WAIT_S,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
            if not read_only:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Takes the write lock at once; another writer is waited for, ``WAIT_S`` at most."""
        with _translated(self.public_name):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads of one transaction that is never committed."""
        with _translated(self.public_name):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def write(self, statement: str, rows: Iterable[Sequence[Value]]) -> None:
        """One prepared statement for all rows."""
        with _translated(self.public_name):
            self._connection.executemany(statement, rows)

    def read(self, statement: str, values: Sequence[Value] = ()) -> list[Found]:
        """Fetches all of them at once."""
        with _translated(self.public_name):
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class Postgres(Database):
    """A PostgreSQL database; the tables are in the first schema of its search path."""

    kind = "postgresql"

    def __init__(self, url: str, *, read_only: bool) -> None:
        self.public_name = public(url)
        limits = f"-c lock_timeout={WAIT_S}s -c statement_timeout={STATEMENT_S}s"
        readonly = " -c default_transaction_read_only=on" if read_only else ""
        with _translated(self.public_name):
            self._connection: psycopg.Connection[Found] = psycopg.connect(
                url, autocommit=True, connect_timeout=WAIT_S, options=limits + readonly, **SILENCE
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """An advisory lock stands for the store: another writer is waited for, ``WAIT_S`` at most."""
        with _translated(self.public_name), self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction with REPEATABLE READ."""
        with _translated(self.public_name), self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def write(self, statement: str, rows: Iterable[Sequence[Value]]) -> None:
        """PostgreSQL's text cannot hold a NUL: it becomes U+FFFD."""
        with _translated(self.public_name), self._connection.cursor() as cursor:
            cursor.executemany(_percent(statement), ([_storable(value) for value in row] for row in rows))

    def read(self, statement: str, values: Sequence[Value] = ()) -> list[Found]:
        """Fetches all of them at once; ``?`` becomes ``%s``."""
        with _translated(self.public_name), self._connection.cursor() as cursor:
            return cursor.execute(_percent(statement), values).fetchall()

    def close(self) -> None:
        """End the session."""
        self._connection.close()


def connect(url: str, *, read_only: bool = False) -> Database:
    """``sqlite:///FILE`` (``sqlite:////FILE`` from the root) or ``postgresql://…``. Raises UsageError, StorageError."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite" and url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return Sqlite(url.removeprefix("sqlite:///"), read_only=read_only)
    if scheme in ("postgresql", "postgres"):
        return Postgres(url, read_only=read_only)
    raise UsageError(f"{public(url)} is no serving store: sqlite:///FILE or postgresql://USER@HOST/DATABASE")


def tables(kind: str) -> Iterator[str]:
    """The statements that make every table of the store, and the indexes beside them, unless it is there."""
    for table in TABLES:
        yield _table(kind, table.name, table.row, table.key)
        if _hashed(kind, table.name):
            one = _unique(kind, table.name, table.key)
            yield f"CREATE UNIQUE INDEX IF NOT EXISTS {table.name}_one ON {table.name} ({one})"
            yield f"CREATE INDEX IF NOT EXISTS {table.name}_by_key ON {table.name} USING hash ({', '.join(table.key)})"
    yield _table(kind, "progress", Progress, ("name",))
    yield f"CREATE TABLE IF NOT EXISTS guards (query_id TEXT PRIMARY KEY, batch_id {_TYPES[kind][int]} NOT NULL)"
    yield "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"


def shape(kind: str) -> str:
    """What tells these tables from others: a table or a column more makes another shape, and another store."""
    return hashlib.sha256("\n".join(tables(kind)).encode()).hexdigest()[:16]


def _hashed(kind: str, name: str) -> bool:
    return kind == "postgresql" and name in UNBOUNDED


def _unique(kind: str, name: str, key: Sequence[str]) -> str:
    """What there is one row of: a key, or its hash where it may be too long for an index.

    PostgreSQL hashes bytes; a text becomes its bytes once its backslashes are escaped.
    """
    if not _hashed(kind, name):
        return ", ".join(key)
    return ", ".join(rf"sha256(replace({column}, '\', '\\')::bytea)" for column in key)


def _table(kind: str, name: str, row: type, key: Sequence[str]) -> str:
    columns = []
    for column, hint in get_type_hints(row, include_extras=True).items():
        optional = hint not in _TYPES[kind]
        sort = next(sort for sort in _TYPES[kind] if hint in (sort, sort | None))
        columns.append(f"{column} {_TYPES[kind][sort]}{'' if optional else ' NOT NULL'}")
    if not _hashed(kind, name):
        columns.append(f"PRIMARY KEY ({', '.join(key)})")
    return f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)})"


def upsert(kind: str, name: str, row: type, key: Sequence[str], newer: str) -> str:
    """Put a row; one that is there gives way unless its column ``newer`` is ahead."""
    columns = list(get_type_hints(row))
    marks = ", ".join("?" for _ in columns)
    others = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
    return (
        f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks}) "  # noqa: S608 names are our own
        f"ON CONFLICT ({_unique(kind, name, key)}) DO UPDATE SET {others} WHERE excluded.{newer} >= {name}.{newer}"
    )


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, psycopg.Error) as error:
        raise StorageError(f"{name}: {str(error).strip()}") from error


def _percent(statement: str) -> str:
    return statement.replace("?", "%s")


def _storable(value: Value) -> Value:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def public(url: str) -> str:
    """A URL as it may be called where others read: without a password. Raises UsageError."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError("the serving store's URL is none: percent-encode what is special in its password") from None
    host = parts.netloc.rpartition("@")[2]
    user = parts.username
    return parts._replace(netloc=f"{user}@{host}" if user else host, query="").geturl()
