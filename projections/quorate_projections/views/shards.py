"""The view ``shards``: every shard, by name."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Shard
from quorate_projections.views.view import row_of, showing


class ShardRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A shard; its segments have a view of their own."""

    name: str = ""
    epoch: int = 0
    """The offset of its creation."""
    replication: int = 0
    min_in_sync: int = 0
    spread: str = ""
    require: dict[str, str] = {}
    deleting: bool = False
    changed_ms: int = 0


def show(shard: Shard, before: ShardRow, stamp: Stamp) -> ShardRow:
    """The shard, and when it changed."""
    return row_of(ShardRow, shard, changed_ms=stamp.time_ms)


VIEW = showing("shards", "Shards, by name.", ShardRow(), {"shard": ("", show)})
