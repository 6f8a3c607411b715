"""``quorate.meta.v1.Journal``: shards and segments.

Rules: whatever changes something is a command: any node takes it, the leader decides it. What is read is read as
anywhere, in pages and in turns. A refusal's text begins with its name.
"""

from collections.abc import Callable
from typing import Final

from google.protobuf.message import Message

from quorate.events import InSyncCopy
from quorate.gateway.grpc.asking import Asking, Call, in_turns, page, page_of
from quorate.gateway.grpc.codes import CallError, StatusCode, at_most, refused
from quorate.gateway.grpc.pb import journal_pb2
from quorate.gateway.grpc.pieces import KEY_BYTES
from quorate.metadata.commands import (
    Accepted,
    AckDeleted,
    AlterInSync,
    ByLeader,
    Command,
    CreateShard,
    DeleteShard,
    ElectSegmentLeader,
    InSyncIs,
    NextSegment,
    SealSegment,
    SegmentIs,
    ShardIs,
)
from quorate.metadata.journal import COPIES_MAX, REQUIRED_MAX
from quorate.metadata.refusals import refuse
from quorate.metadata.segment_whatif import SegmentAfter, segments_whatif
from quorate.model.names import following
from quorate.model.segments import numbers
from quorate.model.state import Segment, Shard, State
from quorate.model.storage_health import Level, storage_health
from quorate.slices import Steps

LEVELS: Final[dict[Level, journal_pb2.StorageLevel]] = {
    "green": journal_pb2.STORAGE_LEVEL_GREEN,
    "yellow": journal_pb2.STORAGE_LEVEL_YELLOW,
    "red": journal_pb2.STORAGE_LEVEL_RED,
}
_TOO_MANY_COPIES: Final = refuse("NotACopy", f"A segment has at most {COPIES_MAX} copies")
_TOO_MANY_LABELS: Final = refuse("BadShardLabel", f"At most {REQUIRED_MAX} labels")
FAIL_MAX: Final = 1_000
"""Members of one question."""
AFTER_PER_STEP: Final = 64
"""Segments of an answer that are made before other work gets its turn."""


def shard_told(state: State, shard: Shard) -> journal_pb2.Shard:
    """A shard as a message."""
    return journal_pb2.Shard(
        name=shard.name,
        epoch=shard.epoch,
        replication=shard.replication,
        min_in_sync=shard.min_in_sync,
        spread=shard.spread,
        require=shard.require,
        deleting=shard.deleting,
        segments=len(state.segments.get(shard.name, ())),
    )


def segment_told(found: Segment) -> journal_pb2.Segment:
    """A segment as a message."""
    return journal_pb2.Segment(
        name=found.name,
        start_offset=found.start_offset,
        sealed=found.end_offset is not None,
        end_offset=found.end_offset or 0,
        copies=found.copies,
        leader=journal_pb2.SegmentLeader(
            member=found.leader, leader_epoch=found.leader_epoch, member_epoch=found.member_epoch
        ),
        in_sync=_in_sync(found.in_sync),
        set_epoch=found.set_epoch,
    )


class JournalService:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def create_shard(self, request: journal_pb2.CreateShardRequest, call: Call) -> journal_pb2.SegmentResponse:
        """A shard begins."""
        at_most(REQUIRED_MAX, len(request.require), _TOO_MANY_LABELS)
        command = CreateShard(
            shard=request.shard,
            replication=request.replication,
            min_in_sync=request.min_in_sync or 1,
            spread=request.spread,
            require=dict(request.require),
        )
        return await self._segment(request, command, call, f"shard/{request.shard}")

    async def next_segment(self, request: journal_pb2.NextSegmentRequest, call: Call) -> journal_pb2.SegmentResponse:
        """The last segment ends, the next one begins."""
        command = NextSegment(
            shard=request.shard, current=request.current, end_offset=request.end_offset, by=_by(request.leader)
        )
        return await self._segment(request, command, call, f"shard/{request.shard}")

    async def seal(self, request: journal_pb2.SealRequest, call: Call) -> journal_pb2.SegmentResponse:
        """A segment ends."""
        command = SealSegment(segment=request.segment, end_offset=request.end_offset, by=_by(request.leader))
        return await self._segment(request, command, call, f"segment/{request.segment}")

    async def elect_leader(self, request: journal_pb2.ElectLeaderRequest, call: Call) -> journal_pb2.SegmentResponse:
        """Another copy leads."""
        command = ElectSegmentLeader(segment=request.segment, trigger="operator", wanted=request.member)
        return await self._segment(request, command, call, f"segment/{request.segment}")

    async def _segment(
        self, request: Message, command: Command, call: Call, resource: str
    ) -> journal_pb2.SegmentResponse:
        reply, revision = await self._asking.submit(command, call, resource, SegmentIs)
        found = Segment(
            name=reply.segment,
            start_offset=reply.start_offset,
            copies=reply.copies,
            leader=reply.leader,
            member_epoch=reply.member_epoch,
            leader_epoch=reply.led_since(revision + 1),
            in_sync=reply.in_sync,
            set_epoch=reply.set_epoch,
            end_offset=reply.end_offset,
        )
        return journal_pb2.SegmentResponse(segment=segment_told(found), revision=revision)

    async def alter_in_sync(
        self, request: journal_pb2.AlterInSyncRequest, call: Call
    ) -> journal_pb2.AlterInSyncResponse:
        """Who is in sync from now on."""
        at_most(COPIES_MAX, len(request.in_sync), _TOO_MANY_COPIES)
        command = AlterInSync(
            segment=request.segment,
            by=_by(request.leader),
            set_epoch=request.set_epoch,
            new=tuple(InSyncCopy(member=one.member, member_epoch=one.member_epoch) for one in request.in_sync),
        )
        reply, revision = await self._asking.submit(command, call, f"segment/{request.segment}", InSyncIs)
        return journal_pb2.AlterInSyncResponse(
            in_sync=_in_sync(reply.in_sync), set_epoch=reply.set_epoch, revision=revision
        )

    async def delete_shard(
        self, request: journal_pb2.DeleteShardRequest, call: Call
    ) -> journal_pb2.DeleteShardResponse:
        """A shard is to go."""
        command = DeleteShard(shard=request.shard, epoch=request.epoch or None)
        reply, revision = await self._asking.submit(command, call, f"shard/{request.shard}", ShardIs)
        return journal_pb2.DeleteShardResponse(epoch=reply.epoch, revision=revision)

    async def ack_deleted(self, request: journal_pb2.AckDeletedRequest, call: Call) -> journal_pb2.AckDeletedResponse:
        """A copy is deleted."""
        command = AckDeleted(
            segment=request.segment,
            shard_epoch=request.shard_epoch,
            member=request.member,
            member_epoch=request.member_epoch,
        )
        _, revision = await self._asking.submit(command, call, f"segment/{request.segment}", Accepted)
        return journal_pb2.AckDeletedResponse(revision=revision)

    # -- what is read

    async def describe(
        self, request: journal_pb2.DescribeShardRequest, call: Call
    ) -> journal_pb2.DescribeShardResponse:
        """A shard and a page of its segments."""
        self._asking.allowed("ReadShard", f"shard/{request.shard}")
        view = await self._asking.view(call, stale=request.stale)
        shard = view.state.shards.get(request.shard)
        if shard is None:
            raise refused(refuse("UnknownShard", f"There is no shard {request.shard[:80]!r}"))
        after, limit = (request.after if request.HasField("after") else -1), page_of(request.limit)
        of_shard = numbers(view.state, shard, after)
        told = (segment_told(view.state.segments[shard.name][number]) for number in of_shard)
        segments, more = await in_turns(page(told, limit))
        return journal_pb2.DescribeShardResponse(
            shard=shard_told(view.state, shard),
            segments=segments,
            more=more,
            revision=max(view.offset - 1, 0),
        )

    async def listing(self, request: journal_pb2.ListShardsRequest, call: Call) -> journal_pb2.ListShardsResponse:
        """A page of shards."""
        self._asking.allowed("ReadShards", "shard")
        view = await self._asking.view(call, stale=request.stale)
        names = following(view.state.shard_names, request.after)
        told = (shard_told(view.state, view.state.shards[name]) for name in names)
        shards, more = await in_turns(page(told, page_of(request.limit)))
        return journal_pb2.ListShardsResponse(shards=shards, more=more, revision=max(view.offset - 1, 0))

    async def health(self, request: journal_pb2.StorageHealthRequest, call: Call) -> journal_pb2.StorageHealthResponse:
        """How storage is."""
        self._asking.allowed("ReadStorageHealth", "shard")
        view = await self._asking.view(call)
        found = await in_turns(storage_health(view.state))
        return journal_pb2.StorageHealthResponse(
            level=LEVELS[found.level],
            segments=found.segments,
            leaderless=found.leaderless,
            below_min_in_sync=found.below_min_in_sync,
            under_replicated=found.under_replicated,
            deleting=found.deleting,
            at_risk=[
                journal_pb2.SegmentAtRisk(segment=risk.segment, level=LEVELS[risk.level], reasons=risk.reasons)
                for risk in found.at_risk
            ],
            revision=max(view.offset - 1, 0),
        )

    async def whatif(self, request: journal_pb2.JournalWhatIfRequest, call: Call) -> journal_pb2.JournalWhatIfResponse:
        """Who would lead, if these failed."""
        self._asking.allowed("AskWhatIf", "segment")
        if len(request.members) > FAIL_MAX:
            raise CallError(StatusCode.INVALID_ARGUMENT, f"quorate: at most {FAIL_MAX} members fail at once")
        view = await self._asking.view(call)
        controller = self._asking.context.controller
        failed = frozenset(request.members)
        unknown = sorted(name for name in failed if name not in view.state.members)
        if unknown:
            raise refused(refuse("UnknownMember", f"There is no member {unknown[0][:80]!r}"))
        rows = await in_turns(segments_whatif(view.state, failed, controller.policy, view.time_ms))
        response = journal_pb2.JournalWhatIfResponse(revision=max(view.offset - 1, 0))
        await in_turns(_tell(rows, response, call.hold))
        return response


def _tell(
    rows: list[SegmentAfter], response: journal_pb2.JournalWhatIfResponse, hold: Callable[[int], None]
) -> Steps[None]:
    """Put what would be into the answer; ``hold`` is told what it takes in memory, and may raise CallError."""
    for at in range(0, len(rows), AFTER_PER_STEP):
        some = [
            journal_pb2.SegmentAfter(
                segment=row.segment,
                leader=row.leader,
                would_lead=row.would_lead,
                unclean=row.unclean,
                explanation=row.explanation,
            )
            for row in rows[at : at + AFTER_PER_STEP]
        ]
        hold(sum(one.ByteSize() + KEY_BYTES for one in some))
        response.segments.extend(some)
        yield


def _by(message: journal_pb2.SegmentLeader) -> ByLeader:
    return ByLeader(leader=message.member, leader_epoch=message.leader_epoch, member_epoch=message.member_epoch)


def _in_sync(copies: tuple[InSyncCopy, ...]) -> list[journal_pb2.InSyncCopy]:
    return [journal_pb2.InSyncCopy(member=one.member, member_epoch=one.member_epoch) for one in copies]
