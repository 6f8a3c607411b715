"""A log of made-up history behind the product's own Kafka listener, on a thread; and the same as a mirror has it.

``MirrorLog`` is that log as it lies in a real Kafka: every commit a transaction, so that Kafka's offsets have a hole
(the marker's) after each, and begin elsewhere; the events' own offsets are in their headers.
"""

import bisect
import itertools
import struct
from collections.abc import Iterator, Sequence

import google_crc32c

from quorate.gateway.kafka import KafkaSettings
from tests.batches import Record, encode_batch
from tests.kafka_tools.fakes import ServedLog
from tests.projections.history import commits

_MARKER_CHECKED = struct.Struct(">hiqqqhii")
_TRANSACTIONAL_CONTROL = 0x30


class HistoryLog(ServedLog):
    """Serves the first so many commits of a history; more are appended when asked."""

    first = 0
    """Kafka offset of the first record."""

    def __init__(self, seed: int = 1, port: int | None = None, history: Iterator[list[Record]] | None = None) -> None:
        super().__init__(1, KafkaSettings())
        if port is not None:
            self._move(port)
        self.seed = seed
        self._history = history or commits(seed)
        self.events = 0
        self.log.end_offset = self.log.start_offset = self.first
        self.log.read = self._read  # type: ignore[method-assign]

    def _move(self, port: int) -> None:
        """Serve there."""
        self.ports[0] = port
        for view in self.views:
            view.known = [type(node)(node.node_id, node.host, port) for node in view.known]

    def append_commits(self, count: int = 1) -> int:
        """Apply the next commits; how many events there are now."""
        self.do(self._apply([next(self._history) for _ in range(count)]))
        return self.events

    def append_events(self, count: int) -> int:
        """Apply commits until there are at least so many events more."""
        wanted = self.events + count
        while self.events < wanted:
            self.append_commits(min(200, max(1, (wanted - self.events) // 2)))
        return self.events

    def append_records(self, commit: Sequence[Record]) -> None:
        """Apply one commit that no history made."""
        self.do(self._apply([list(commit)]))

    async def _apply(self, found: Sequence[Sequence[Record]]) -> None:
        log = self.log
        for commit in found:
            log.bases.append(log.end_offset)
            log.batches.append(encode_batch(commit, base_offset=log.end_offset, leader_epoch=1))
            log.times.append(commit[0].time_ms)
            log.end_offset += len(commit)
            self.events += len(commit)
            self._mark()
        for view in self.views:
            for told in view.on_applied:
                told(log.end_offset)

    def _mark(self) -> None:
        """What stands after each commit."""

    def _read(self, offset: int, max_bytes: int) -> list[bytes]:
        """Whole batches from the one that holds ``offset``, or begins after it."""
        log, found = self.log, list[bytes]()
        at = max(0, bisect.bisect_right(log.bases, offset) - 1)
        for batch in itertools.islice(log.batches, at, None):
            max_bytes -= len(batch)
            if found and max_bytes < 0:
                break
            found.append(batch)
        return found


class MirrorLog(HistoryLog):
    """The same in a real Kafka: offsets begin at 5, a transaction marker after every commit."""

    first = 5

    def _mark(self) -> None:
        log = self.log
        log.bases.append(log.end_offset)
        log.batches.append(marker(log.end_offset, log.times[-1]))
        log.times.append(log.times[-1])
        log.end_offset += 1


def marker(offset: int, time_ms: int) -> bytes:
    """A control batch that commits a transaction, as a Kafka broker writes it (KIP-98)."""
    key, value = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0)
    body = bytes([0, 0, 0, len(key) * 2]) + key + bytes([len(value) * 2]) + value + b"\x00"
    framed = bytes([len(body) * 2]) + body
    checked = _MARKER_CHECKED.pack(_TRANSACTIONAL_CONTROL, 0, time_ms, time_ms, 7, 0, -1, 1) + framed
    head = struct.pack(">qiiB", offset, len(checked) + 9, 1, 2)
    checksum: int = google_crc32c.value(checked)
    return head + checksum.to_bytes(4, "big") + checked
