"""The view ``segments``: every segment of every shard, by name, and how its last election came to be."""

import msgspec

from quorate.events import InSyncCopy, Stamp
from quorate.model.state import Segment
from quorate_projections.views.view import row_of, showing


class SegmentRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A segment. Whether its leader is there is said by the view of members."""

    name: str = ""
    start_offset: int = 0
    end_offset: int | None = None
    """None: it is not sealed."""
    copies: tuple[str, ...] = ()
    """Members, in the order of preference."""
    leader: str = ""
    member_epoch: int = 0
    leader_epoch: int = 0
    """The offset of the event that made it leader."""
    in_sync: tuple[InSyncCopy, ...] = ()
    set_epoch: int = 0
    why: str = ""
    """Of the last election; empty: who led first leads."""
    changed_ms: int = 0


def show(segment: Segment, before: SegmentRow, stamp: Stamp) -> SegmentRow:
    """The segment, and when it changed."""
    why = "" if segment.election is None else segment.election.explanation
    return row_of(SegmentRow, segment, why=why, changed_ms=stamp.time_ms)


VIEW = showing("segments", "Segments of shards, by name.", SegmentRow(), {"segment": ("", show)})
