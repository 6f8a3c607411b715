from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StorageLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STORAGE_LEVEL_UNSPECIFIED: _ClassVar[StorageLevel]
    STORAGE_LEVEL_GREEN: _ClassVar[StorageLevel]
    STORAGE_LEVEL_YELLOW: _ClassVar[StorageLevel]
    STORAGE_LEVEL_RED: _ClassVar[StorageLevel]
STORAGE_LEVEL_UNSPECIFIED: StorageLevel
STORAGE_LEVEL_GREEN: StorageLevel
STORAGE_LEVEL_YELLOW: StorageLevel
STORAGE_LEVEL_RED: StorageLevel

class SegmentLeader(_message.Message):
    __slots__ = ("member", "leader_epoch", "member_epoch")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    member: str
    leader_epoch: int
    member_epoch: int
    def __init__(self, member: _Optional[str] = ..., leader_epoch: _Optional[int] = ..., member_epoch: _Optional[int] = ...) -> None: ...

class InSyncCopy(_message.Message):
    __slots__ = ("member", "member_epoch")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    member: str
    member_epoch: int
    def __init__(self, member: _Optional[str] = ..., member_epoch: _Optional[int] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("name", "epoch", "replication", "min_in_sync", "spread", "require", "deleting", "segments")
    class RequireEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    replication: int
    min_in_sync: int
    spread: str
    require: _containers.ScalarMap[str, str]
    deleting: bool
    segments: int
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., replication: _Optional[int] = ..., min_in_sync: _Optional[int] = ..., spread: _Optional[str] = ..., require: _Optional[_Mapping[str, str]] = ..., deleting: _Optional[bool] = ..., segments: _Optional[int] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("name", "start_offset", "sealed", "end_offset", "copies", "leader", "in_sync", "set_epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    SET_EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_offset: int
    sealed: bool
    end_offset: int
    copies: _containers.RepeatedScalarFieldContainer[str]
    leader: SegmentLeader
    in_sync: _containers.RepeatedCompositeFieldContainer[InSyncCopy]
    set_epoch: int
    def __init__(self, name: _Optional[str] = ..., start_offset: _Optional[int] = ..., sealed: _Optional[bool] = ..., end_offset: _Optional[int] = ..., copies: _Optional[_Iterable[str]] = ..., leader: _Optional[_Union[SegmentLeader, _Mapping]] = ..., in_sync: _Optional[_Iterable[_Union[InSyncCopy, _Mapping]]] = ..., set_epoch: _Optional[int] = ...) -> None: ...

class CreateShardRequest(_message.Message):
    __slots__ = ("shard", "replication", "min_in_sync", "spread", "require")
    class RequireEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SHARD_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_FIELD_NUMBER: _ClassVar[int]
    shard: str
    replication: int
    min_in_sync: int
    spread: str
    require: _containers.ScalarMap[str, str]
    def __init__(self, shard: _Optional[str] = ..., replication: _Optional[int] = ..., min_in_sync: _Optional[int] = ..., spread: _Optional[str] = ..., require: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SegmentResponse(_message.Message):
    __slots__ = ("segment", "revision")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    segment: Segment
    revision: int
    def __init__(self, segment: _Optional[_Union[Segment, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class NextSegmentRequest(_message.Message):
    __slots__ = ("shard", "current", "end_offset", "leader")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    shard: str
    current: int
    end_offset: int
    leader: SegmentLeader
    def __init__(self, shard: _Optional[str] = ..., current: _Optional[int] = ..., end_offset: _Optional[int] = ..., leader: _Optional[_Union[SegmentLeader, _Mapping]] = ...) -> None: ...

class SealRequest(_message.Message):
    __slots__ = ("segment", "end_offset", "leader")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    segment: str
    end_offset: int
    leader: SegmentLeader
    def __init__(self, segment: _Optional[str] = ..., end_offset: _Optional[int] = ..., leader: _Optional[_Union[SegmentLeader, _Mapping]] = ...) -> None: ...

class AlterInSyncRequest(_message.Message):
    __slots__ = ("segment", "leader", "set_epoch", "in_sync")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    SET_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    segment: str
    leader: SegmentLeader
    set_epoch: int
    in_sync: _containers.RepeatedCompositeFieldContainer[InSyncCopy]
    def __init__(self, segment: _Optional[str] = ..., leader: _Optional[_Union[SegmentLeader, _Mapping]] = ..., set_epoch: _Optional[int] = ..., in_sync: _Optional[_Iterable[_Union[InSyncCopy, _Mapping]]] = ...) -> None: ...

class AlterInSyncResponse(_message.Message):
    __slots__ = ("in_sync", "set_epoch", "revision")
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    SET_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    in_sync: _containers.RepeatedCompositeFieldContainer[InSyncCopy]
    set_epoch: int
    revision: int
    def __init__(self, in_sync: _Optional[_Iterable[_Union[InSyncCopy, _Mapping]]] = ..., set_epoch: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class ElectLeaderRequest(_message.Message):
    __slots__ = ("segment", "member")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    segment: str
    member: str
    def __init__(self, segment: _Optional[str] = ..., member: _Optional[str] = ...) -> None: ...

class DeleteShardRequest(_message.Message):
    __slots__ = ("shard", "epoch")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    shard: str
    epoch: int
    def __init__(self, shard: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class DeleteShardResponse(_message.Message):
    __slots__ = ("epoch", "revision")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    revision: int
    def __init__(self, epoch: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class AckDeletedRequest(_message.Message):
    __slots__ = ("segment", "shard_epoch", "member", "member_epoch")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    segment: str
    shard_epoch: int
    member: str
    member_epoch: int
    def __init__(self, segment: _Optional[str] = ..., shard_epoch: _Optional[int] = ..., member: _Optional[str] = ..., member_epoch: _Optional[int] = ...) -> None: ...

class AckDeletedResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class DescribeShardRequest(_message.Message):
    __slots__ = ("shard", "after", "limit", "stale")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    shard: str
    after: int
    limit: int
    stale: bool
    def __init__(self, shard: _Optional[str] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ..., stale: _Optional[bool] = ...) -> None: ...

class DescribeShardResponse(_message.Message):
    __slots__ = ("shard", "segments", "more", "revision")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    shard: Shard
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    more: bool
    revision: int
    def __init__(self, shard: _Optional[_Union[Shard, _Mapping]] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., more: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class ListShardsRequest(_message.Message):
    __slots__ = ("after", "limit", "stale")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    after: str
    limit: int
    stale: bool
    def __init__(self, after: _Optional[str] = ..., limit: _Optional[int] = ..., stale: _Optional[bool] = ...) -> None: ...

class ListShardsResponse(_message.Message):
    __slots__ = ("shards", "more", "revision")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    more: bool
    revision: int
    def __init__(self, shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., more: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class StorageHealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StorageHealthResponse(_message.Message):
    __slots__ = ("level", "segments", "leaderless", "below_min_in_sync", "under_replicated", "deleting", "at_risk", "revision")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    LEADERLESS_FIELD_NUMBER: _ClassVar[int]
    BELOW_MIN_IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    UNDER_REPLICATED_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    AT_RISK_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    level: StorageLevel
    segments: int
    leaderless: int
    below_min_in_sync: int
    under_replicated: int
    deleting: int
    at_risk: _containers.RepeatedCompositeFieldContainer[SegmentAtRisk]
    revision: int
    def __init__(self, level: _Optional[_Union[StorageLevel, str]] = ..., segments: _Optional[int] = ..., leaderless: _Optional[int] = ..., below_min_in_sync: _Optional[int] = ..., under_replicated: _Optional[int] = ..., deleting: _Optional[int] = ..., at_risk: _Optional[_Iterable[_Union[SegmentAtRisk, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class SegmentAtRisk(_message.Message):
    __slots__ = ("segment", "level", "reasons")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    segment: str
    level: StorageLevel
    reasons: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, segment: _Optional[str] = ..., level: _Optional[_Union[StorageLevel, str]] = ..., reasons: _Optional[_Iterable[str]] = ...) -> None: ...

class JournalWhatIfRequest(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, members: _Optional[_Iterable[str]] = ...) -> None: ...

class JournalWhatIfResponse(_message.Message):
    __slots__ = ("segments", "revision")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[SegmentAfter]
    revision: int
    def __init__(self, segments: _Optional[_Iterable[_Union[SegmentAfter, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class SegmentAfter(_message.Message):
    __slots__ = ("segment", "leader", "would_lead", "unclean", "explanation")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    WOULD_LEAD_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    segment: str
    leader: str
    would_lead: str
    unclean: bool
    explanation: str
    def __init__(self, segment: _Optional[str] = ..., leader: _Optional[str] = ..., would_lead: _Optional[str] = ..., unclean: _Optional[bool] = ..., explanation: _Optional[str] = ...) -> None: ...

class WatchJournalRequest(_message.Message):
    __slots__ = ("shard", "member", "start_revision")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    START_REVISION_FIELD_NUMBER: _ClassVar[int]
    shard: str
    member: str
    start_revision: int
    def __init__(self, shard: _Optional[str] = ..., member: _Optional[str] = ..., start_revision: _Optional[int] = ...) -> None: ...

class WatchJournalResponse(_message.Message):
    __slots__ = ("revision", "changes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    changes: _containers.RepeatedCompositeFieldContainer[JournalChange]
    def __init__(self, revision: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[JournalChange, _Mapping]]] = ...) -> None: ...

class JournalChange(_message.Message):
    __slots__ = ("name", "shard", "segment", "what")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    name: str
    shard: Shard
    segment: Segment
    what: str
    def __init__(self, name: _Optional[str] = ..., shard: _Optional[_Union[Shard, _Mapping]] = ..., segment: _Optional[_Union[Segment, _Mapping]] = ..., what: _Optional[str] = ...) -> None: ...
