"""The archive: every event as it came, in a Delta table partitioned by UTC date; no JVM writes it.

Rules: one commit per batch, with two transactions of the Delta protocol in it: the query's (its id → the batch id) and
the archive's own (``quorate.position`` → the number of events held). So a batch is appended once, whatever restarts or
starts over, and the events held are always the first ones of the log, without gap or copy. The table's description
names the cluster; another one is refused. Small files are joined now and then; readers ask the table for its files.

Source: Delta transaction protocol, "Transaction Identifiers".
"""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from quorate.errors import StorageError, check
from quorate.unseen import unseen_by_git
from quorate_spark.limits import COMPACT_EVERY
from quorate_spark.sinks.store import LogGapError, OtherClusterError

POSITION: Final = "quorate.position"


class Archive:
    """A Delta table at a path or URI; made with the first batch."""

    def __init__(self, uri: str, compact_every: int = COMPACT_EVERY) -> None:
        self.uri = uri
        self._compact_every = compact_every

    def position(self) -> int:
        """Events held. Raises StorageError."""
        table = self._table()
        return 0 if table is None else position(table)

    def apply(self, query_id: str, batch_id: int, events: pa.Table) -> bool:
        """Append a batch with the source's columns; False if it was appended before.

        Raises LogGapError, OtherClusterError, StorageError; then nothing was appended.
        """
        if events.num_rows == 0:
            return False
        try:
            return self._apply(query_id, batch_id, events.sort_by("offset"))
        except (DeltaError, OSError) as error:
            raise StorageError(f"{self.uri}: {error}") from error

    def _apply(self, query_id: str, batch_id: int, events: pa.Table) -> bool:
        first, last = events["offset"][0].as_py(), events["offset"][-1].as_py()
        check(last - first + 1 == events.num_rows, f"events between {first} and {last} are missing, or twice there")
        table = self._table()
        held, cluster = 0, events["key"][0].as_py()
        if table is not None:
            version = table.transaction_version(query_id)
            if version is not None and batch_id <= version:
                return False
            held, about = position(table), table.metadata().description
            if first == 0 and about != cluster:
                raise OtherClusterError(f"{self.uri} holds the facts of {about}, and these are of {cluster}")
        if first > held:
            raise LogGapError(
                f"{self.uri} holds {held} events and the checkpoint goes on at {first}: remove the checkpoint's "
                "folder, the archive is then completed from the log"
            )
        new = events.slice(max(0, held - first))
        transactions = [Transaction(query_id, batch_id), Transaction(POSITION, max(held, last + 1))]
        write_deltalake(
            self.uri if table is None else table,
            new.append_column("date", pc.strftime(new["time"], format="%Y-%m-%d")),
            mode="append",
            partition_by=["date"],
            description=cluster if table is None else None,
            commit_properties=CommitProperties(app_transactions=transactions),
        )
        if table is None and "://" not in self.uri:
            unseen_by_git(Path(self.uri))
        self._tidy()
        return True

    def _table(self) -> DeltaTable | None:
        return DeltaTable(self.uri) if DeltaTable.is_deltatable(self.uri) else None

    def _tidy(self) -> None:
        table = self._table()
        if table is not None and table.version() % self._compact_every == self._compact_every - 1:
            table.optimize.compact()
            table.vacuum(dry_run=False)  # Files unused for the table's retention, a week.
            table.create_checkpoint()


def position(table: DeltaTable) -> int:
    """Events a table holds."""
    return table.transaction_version(POSITION) or 0
