from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CommitOffset(_message.Message):
    __slots__ = ("shard", "offset", "expected_offset", "expected_revision")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    shard: str
    offset: int
    expected_offset: int
    expected_revision: int
    def __init__(self, shard: _Optional[str] = ..., offset: _Optional[int] = ..., expected_offset: _Optional[int] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group", "positions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    positions: _containers.RepeatedCompositeFieldContainer[CommitOffset]
    def __init__(self, group: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[CommitOffset, _Mapping]]] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("group", "shards", "revision", "stale", "after", "limit")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    group: str
    shards: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    stale: bool
    after: str
    limit: int
    def __init__(self, group: _Optional[str] = ..., shards: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ..., stale: _Optional[bool] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class FetchOffsetsResponse(_message.Message):
    __slots__ = ("revision", "positions", "more")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    more: bool
    def __init__(self, revision: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("shard", "offset", "revision")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    shard: str
    offset: int
    revision: int
    def __init__(self, shard: _Optional[str] = ..., offset: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("after", "limit", "stale", "revision")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    after: str
    limit: int
    stale: bool
    revision: int
    def __init__(self, after: _Optional[str] = ..., limit: _Optional[int] = ..., stale: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("revision", "groups", "more")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    more: bool
    def __init__(self, revision: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("group", "keys")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    group: str
    keys: int
    def __init__(self, group: _Optional[str] = ..., keys: _Optional[int] = ...) -> None: ...

class DeleteOffsetsRequest(_message.Message):
    __slots__ = ("group", "shards", "all")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    group: str
    shards: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    def __init__(self, group: _Optional[str] = ..., shards: _Optional[_Iterable[str]] = ..., all: _Optional[bool] = ...) -> None: ...

class DeleteOffsetsResponse(_message.Message):
    __slots__ = ("revision", "deleted")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    revision: int
    deleted: int
    def __init__(self, revision: _Optional[int] = ..., deleted: _Optional[int] = ...) -> None: ...
