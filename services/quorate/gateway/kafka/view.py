"""A node as the Kafka listener sees it: its log, its neighbours, its leader, the rows of consumer groups.

Rules: the composition root implements ``LogView``; tests implement it in memory. Everything runs on the node's thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from quorate.controller import QuorumIs, WriteResult


class KafkaNode(msgspec.Struct, frozen=True, gc=False):
    """A node of the cluster as Kafka clients reach it (advertised address)."""

    node_id: int
    host: str
    port: int
    rack: str = ""
    """Clients that set ``client.rack`` to it, or to ``node-<id>``, read from this node (KIP-392)."""
    alive: bool = True
    """False while this node has no connection to it; clients are not sent there."""


class EventLogReader(Protocol):
    """The applied events as record batches (implemented by consensus/storage/event_log.py)."""

    @property
    def start_offset(self) -> int:
        """The oldest offset kept."""

    @property
    def end_offset(self) -> int:
        """One past the last applied event: the high watermark."""

    @property
    def term_starts(self) -> Sequence[tuple[int, int]]:
        """(term, offset of its first event), ascending."""

    def ready(self, offset: int, max_bytes: int, done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        """Is what ``read`` would give in memory? If not, ``done``, which must not raise, is called, later, when
        ``read`` has it at hand; not if that is not ``wanted`` then.
        """

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        """Whole batches; the first holds ``offset`` and comes whatever its size, the rest while they fit."""

    @property
    def newest_ms(self) -> int:
        """Time of the last event, Unix ms; 0 when there is none."""

    def times_ready(self, times_ms: Iterable[int], done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        """Does memory tell ``first_since`` of these? If not, ``done`` is called as by ``ready``."""

    def first_since(self, time_ms: int) -> tuple[int, int] | None:
        """The first event whose time is at least ``time_ms`` (Unix ms): its offset and time; None: there is none."""


class GroupLedger(Protocol):
    """What the cluster keeps for consumer groups (metadata/group_rows.py); every node has it, the leader writes it."""

    def __len__(self) -> int:
        """Rows kept."""

    def get(self, key: bytes) -> bytes | None:
        """The row as applied here."""

    def starting_with(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose keys begin so, as of now."""

    def expiry_s(self) -> float:
        """How long after its commit a position lapses, unless its group has members: the cluster's, not a node's."""

    def pending(self, key: bytes) -> bool:
        """Is a change of this row on its way?"""

    def put(self, key: bytes, row: bytes | None, done: Callable[[WriteResult], None], *, needed: bool = False) -> None:
        """Have it written, or removed; always calls back (controller/group_writer.py). ``needed``: also where there is
        no room for others.
        """


class LogView(Protocol):
    """One node, seen by a consumer of its log."""

    node_id: int
    cluster_id: str

    def hear(self, applied: Callable[[int], None]) -> None:
        """Have this called with the new end offset after each slice of applied entries."""

    @property
    def log(self) -> EventLogReader:
        """The applied events, as record batches."""

    @property
    def groups(self) -> GroupLedger:
        """What the cluster keeps for consumer groups."""

    @property
    def leader_id(self) -> int | None:
        """The leader's id, as far as this node knows."""

    @property
    def term(self) -> int:
        """The current term."""

    @property
    def coordinates(self) -> bool:
        """Does this node lead, with all that was ever committed applied? Then it coordinates consumer groups."""

    @property
    def serving(self) -> bool:
        """False while the event batches are not all here (snapshot install) or the node is stopping."""

    @property
    def entry_bytes_max(self) -> int:
        """The events of one command are at most this long, encoded."""

    def nodes(self) -> Sequence[KafkaNode]:
        """Every voter, this node too."""

    def confirmed_end(self, done: Callable[[int | None], None]) -> None:
        """Ask the leader (a read index) where the log ends now; None when it cannot be known. Always calls back."""

    def quorum(self, done: Callable[[QuorumIs | None], None]) -> None:
        """Ask the leader how far every voter is; None when it cannot be known. Always calls back."""

    def directories(self) -> Mapping[int, bytes]:
        """Node id → UUID of its data directory, of those that are known."""
