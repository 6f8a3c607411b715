"""What a state adds up to, worked out anew each time, without hashing again what cannot have changed.

Rules: every row that is there is counted, and nothing of what the node carries along is believed. A digest is that of
the same bytes for ever, so it is remembered by them; a remembered request is an immutable value without parts, so its
digest is remembered by its identity.
"""

from collections.abc import Iterable
from functools import lru_cache

from immutables import Map
from msgspec.structs import replace

from quorate.metadata.requests import RememberedReply, RequestTable
from quorate.metadata.sums import digest, joined
from quorate.model.rows import count, rows
from quorate.model.state import State

_digest = lru_cache(maxsize=1 << 14)(digest)


class FreshSums:
    """Of one node."""

    def __init__(self) -> None:
        self._requests: dict[int, tuple[RememberedReply, int]] = {}

    def of(self, state: State, requests: RequestTable, groups: Iterable[tuple[bytes, bytes]]) -> tuple[int, int]:
        """``tests.plain_sums``."""
        digests = [_digest("rows", key, value) for key, value in rows(state)]
        assert count(state) == len(digests)
        entities = joined(*digests)
        rest = [_digest("groups", key, value) for key, value in groups]
        rest += [_digest("requests", key, value) for key, value in replace(requests, sequence=Map()).rows()]
        return entities, joined(entities, *rest, self._remembered(requests))

    def _remembered(self, requests: RequestTable) -> int:
        before, total = self._requests, 0
        self._requests = now = dict[int, tuple[RememberedReply, int]]()
        for number, entry in requests.sequence.items():
            known = before.get(number)
            if known is None or known[0] is not entry:
                known = entry, _alone(entry)
            now[number] = known
            total += known[1]
        return total


def _alone(entry: RememberedReply) -> int:
    """What it adds."""
    ((key, value),) = RequestTable(sequence=Map({0: entry})).rows()
    return digest("requests", key, value)
