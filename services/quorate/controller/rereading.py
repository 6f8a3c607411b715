"""What is in no event, by the entries that said it: consumer groups' rows and remembered requests, against the journal.

Rules: each executed entry from where nodes last agreed is read again, its checksum verified; the last word on a group's
row must be the row in memory, and a request must be remembered as its entry says, or be older than everything that is.
Entries that are trimmed say nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from quorate.consensus.entry import Entry, decode_entry
from quorate.consensus.ports import Index, Term
from quorate.controller.machine import ReplicatedState
from quorate.metadata.group_rows import decode_changes
from quorate.metadata.requests import REPLY_BYTES_MAX, RequestTable
from quorate.slices import Steps

ENTRIES_PER_STEP = 32
BYTES_PER_STEP = 64 * 1024


class Entries(Protocol):
    """As much of a journal as this reads."""

    @property
    def base_index(self) -> Index:
        """Entries up to here are not kept."""

    def entries(self, start: int, max_bytes: int, max_count: int) -> Sequence[tuple[Index, Term, bytes]]:
        """Entries from ``start`` on."""


class Reread:
    """``controller.comparing.Reread``."""

    def __init__(self, machine: ReplicatedState, journal: Entries, entries_max: int) -> None:
        self._machine = machine
        self._journal = journal
        self._entries_max = entries_max

    def __call__(self, agreed: int) -> Steps[str | None]:
        """What is wrong with rows that entries after index ``agreed`` wrote; ``""``: nothing, and all of those entries
        were read; None: nothing, by those that are still here.
        """
        machine = self._machine
        requests, upto = machine.requests, machine.applied_index()
        kept = dict(machine.groups.starting_with(b""))
        start = max(int(self._journal.base_index), agreed, upto - self._entries_max)
        groups: dict[bytes, bytes | None] = {}
        asked: list[Entry] = []
        at, offset = start + 1, None
        while at <= upto:
            if at <= self._journal.base_index:
                return None  # Trimmed meanwhile.
            for index, term, data in self._journal.entries(at, BYTES_PER_STEP, min(ENTRIES_PER_STEP, upto - at + 1)):
                at = index + 1
                entry = decode_entry(data) if data else None
                if entry is None or entry.decided_term != term or entry.base_offset != (offset or entry.base_offset):
                    continue
                offset = entry.base_offset + entry.count
                if entry.kind == "groups":
                    groups.update(decode_changes(entry.batch))
                elif entry.request_id:
                    asked.append(entry)
            yield
        wrong = _groups_wrong(groups, kept) or _requests_wrong(asked, requests)
        return wrong or ("" if start == agreed else None)


def _groups_wrong(changes: Mapping[bytes, bytes | None], kept: Mapping[bytes, bytes]) -> str:
    for key, row in changes.items():
        if kept.get(key) != row:
            return f"what its journal says of {key!r}, kept for a consumer group, is not what it keeps"
    return ""


def _requests_wrong(asked: Sequence[Entry], table: RequestTable) -> str:
    """The oldest are forgotten first: what is newer than the oldest that is remembered must be remembered too."""
    oldest = table.sequence.get(table.oldest)
    if oldest is None:
        return ""
    for entry in asked:
        memory = table.replies.get((entry.principal, entry.request_id))
        if memory is None or memory.first_offset < entry.base_offset:
            if entry.base_offset >= oldest.first_offset:
                return f"a request its journal says was run at offset {entry.base_offset} is not remembered"
        elif memory.first_offset == entry.base_offset:
            reply = entry.reply if len(entry.reply) <= REPLY_BYTES_MAX else None
            if (memory.count, memory.time_ms, memory.reply) != (entry.count, entry.time_ms, reply):
                return f"a request is not remembered as its journal says it was run at offset {entry.base_offset}"
    return ""
