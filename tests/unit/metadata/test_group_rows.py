"""Rows of consumer groups, and the entries that change them."""

import pytest

from quorate.errors import InvariantBrokenError
from quorate.metadata.group_rows import GroupRowChange, GroupRows, decode_changes, encode_changes


def test_changes_come_back_in_their_order() -> None:
    """What an entry says is what was proposed; applied, the last word on a key stands."""
    changes: tuple[GroupRowChange, ...] = ((b"a", b"1"), (b"b", b"2"), (b"a", None))
    assert decode_changes(encode_changes(changes)) == changes
    rows = GroupRows([(b"c", b"3")])
    for change in changes:
        rows.put(*change)
    assert (b"a" in rows, rows.get(b"b"), rows.get(b"c"), len(rows)) == (False, b"2", b"3", 2)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x01", encode_changes([(b"a", b"1")])[:-1]])
def test_a_payload_no_leader_wrote_stops_the_node(payload: bytes) -> None:
    """A damaged entry is never applied in part."""
    with pytest.raises(InvariantBrokenError, match="groups entry"):
        decode_changes(payload)
