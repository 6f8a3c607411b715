"""The rows of consumer groups, by key: the same on every node, beside the event log.

Rules: changed only at apply, by the row changes a ``groups`` entry carries, so equal on all nodes at equal index. What
is in a row, when it lapses and how many there may be was decided by the leader before it proposed: applying asks
nothing. Not part of the state or the log; no change has an offset. The second sum (sums.py) covers them.
Theory: a change says the whole new row, so applying an entry twice is applying it once.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from quorate.errors import InvariantBrokenError

GroupRowChange = tuple[bytes, bytes | None]
"""A key of the store's ``groups`` family, with its new row, or None: gone."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[tuple[GroupRowChange, ...]] = msgspec.msgpack.Decoder(tuple[GroupRowChange, ...])


def encode_changes(changes: Sequence[GroupRowChange]) -> bytes:
    """The payload of a ``groups`` entry."""
    return _ENCODER.encode(changes)


def decode_changes(payload: bytes) -> tuple[GroupRowChange, ...]:
    """The changes in a payload. Raises InvariantBrokenError: no leader of ours wrote that."""
    try:
        return _DECODER.decode(payload)
    except msgspec.MsgspecError as error:
        raise InvariantBrokenError(f"the payload of a groups entry is damaged: {error}") from error


class GroupRows:
    """All rows, as applied here."""

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._rows = dict(pairs)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def get(self, key: bytes) -> bytes | None:
        """The row, if there is one."""
        return self._rows.get(key)

    def starting_with(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose keys begin so, as of now."""
        return iter([(key, row) for key, row in self._rows.items() if key.startswith(prefix)])

    def put(self, key: bytes, row: bytes | None) -> None:
        """Apply one change of an entry; they are applied in their order."""
        if row is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row
