"""``quorate.meta.v1.Journal.Watch``: every change of shards and segments, from any revision of the log.

Rules: those of ``log_watches``. A member that watches its own segments is also told of one that it has just lost its
copy of.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from quorate.events import Event
from quorate.events.codec import about
from quorate.gateway.grpc.asking import Call
from quorate.gateway.grpc.journal import segment_told, shard_told
from quorate.gateway.grpc.log_watches import LogWatches
from quorate.gateway.grpc.pb import journal_pb2
from quorate.gateway.grpc.watch_log import WatchKinds
from quorate.model.segments import parsed, segment
from quorate.model.state import Segment, State
from quorate.model.words import sentence


class Changes(msgspec.Struct, frozen=True):
    """What an entry changed: of each name the last thing that happened."""

    revision: int
    before: State
    after: State
    names: dict[tuple[str, str], str]
    """Kind and name, and what happened."""


def _changes(revision: int, before: State, after: State, events: Sequence[Event], size: int) -> Changes:
    return Changes(revision, before, after, {about(event): sentence(event) for event in events})


JOURNAL: Final = WatchKinds(
    ("shard", "segment"),
    lambda state: State(shards=state.shards, segments=state.segments, holding=state.holding, leading=state.leading),
    _changes,
)


class JournalWatches(LogWatches):
    """All watches of shards and segments of a node, and their handler."""

    async def watch(
        self, request: journal_pb2.WatchJournalRequest, call: Call
    ) -> AsyncIterator[journal_pb2.WatchJournalResponse]:
        """The first answer says from where on; then one for each revision that concerns what is meant."""
        self._asking.allowed("WatchShards", f"shard/{request.shard}" if request.shard else "shard")
        following = self.follow(JOURNAL, request.start_revision)
        try:
            yield journal_pb2.WatchJournalResponse(revision=following.begins)
            async for changes in following.changes():
                answer = [
                    one
                    for (kind, name), what in changes.names.items()
                    if (one := _told_of(request, changes, kind, name, what)) is not None
                ]
                if answer and changes.revision >= request.start_revision:
                    yield journal_pb2.WatchJournalResponse(revision=changes.revision, changes=answer)
        finally:
            self.leave(following)


def _told_of(
    request: journal_pb2.WatchJournalRequest, changes: Changes, kind: str, name: str, what: str
) -> journal_pb2.JournalChange | None:
    """What a watcher of these is told; None: nothing of them. A shard that comes or goes concerns every member."""
    shard, _ = (parsed(name) or ("", 0)) if kind == "segment" else (name, 0)
    if request.shard not in ("", shard):
        return None
    change = journal_pb2.JournalChange(name=name, what=what)
    if kind == "shard":
        found = changes.after.shards.get(name)
        if found is not None:
            change.shard.CopyFrom(shard_told(changes.after, found))
        return change
    before, after = segment(changes.before, name), segment(changes.after, name)
    if request.member and not (_has(before, request.member) or _has(after, request.member)):
        return None
    if after is not None:
        change.segment.CopyFrom(segment_told(after))
    return change


def _has(found: Segment | None, member: str) -> bool:
    return found is not None and member in found.copies
