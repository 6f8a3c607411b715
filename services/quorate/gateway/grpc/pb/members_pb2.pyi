from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MemberState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_STATE_UNSPECIFIED: _ClassVar[MemberState]
    MEMBER_STATE_ACTIVE: _ClassVar[MemberState]
    MEMBER_STATE_FENCED: _ClassVar[MemberState]
    MEMBER_STATE_DRAINING: _ClassVar[MemberState]
MEMBER_STATE_UNSPECIFIED: MemberState
MEMBER_STATE_ACTIVE: MemberState
MEMBER_STATE_FENCED: MemberState
MEMBER_STATE_DRAINING: MemberState

class Member(_message.Message):
    __slots__ = ("name", "incarnation", "epoch", "roles", "addresses", "labels", "timeout_ms", "state", "draining", "changed_ms")
    class AddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    epoch: int
    roles: _containers.RepeatedScalarFieldContainer[str]
    addresses: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    timeout_ms: int
    state: MemberState
    draining: bool
    changed_ms: int
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., epoch: _Optional[int] = ..., roles: _Optional[_Iterable[str]] = ..., addresses: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., timeout_ms: _Optional[int] = ..., state: _Optional[_Union[MemberState, str]] = ..., draining: _Optional[bool] = ..., changed_ms: _Optional[int] = ...) -> None: ...

class MemberHealth(_message.Message):
    __slots__ = ("disk_used_bytes", "disk_total_bytes", "cpu_percent", "memory_percent", "io_errors")
    DISK_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    IO_ERRORS_FIELD_NUMBER: _ClassVar[int]
    disk_used_bytes: int
    disk_total_bytes: int
    cpu_percent: int
    memory_percent: int
    io_errors: int
    def __init__(self, disk_used_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ..., cpu_percent: _Optional[int] = ..., memory_percent: _Optional[int] = ..., io_errors: _Optional[int] = ...) -> None: ...

class RegisterMemberRequest(_message.Message):
    __slots__ = ("name", "incarnation", "roles", "addresses", "labels", "timeout_ms")
    class AddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    addresses: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    timeout_ms: int
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., addresses: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class RegisterMemberResponse(_message.Message):
    __slots__ = ("epoch", "fenced", "draining", "revision")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    fenced: bool
    draining: bool
    revision: int
    def __init__(self, epoch: _Optional[int] = ..., fenced: _Optional[bool] = ..., draining: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class MemberHeartbeatRequest(_message.Message):
    __slots__ = ("name", "epoch", "applied_revision", "health", "want_drain")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    APPLIED_REVISION_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    WANT_DRAIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    applied_revision: int
    health: MemberHealth
    want_drain: bool
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., applied_revision: _Optional[int] = ..., health: _Optional[_Union[MemberHealth, _Mapping]] = ..., want_drain: _Optional[bool] = ...) -> None: ...

class MemberHeartbeatResponse(_message.Message):
    __slots__ = ("fenced", "draining", "may_leave", "revision", "leader_id", "leader")
    FENCED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    MAY_LEAVE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    fenced: bool
    draining: bool
    may_leave: bool
    revision: int
    leader_id: int
    leader: str
    def __init__(self, fenced: _Optional[bool] = ..., draining: _Optional[bool] = ..., may_leave: _Optional[bool] = ..., revision: _Optional[int] = ..., leader_id: _Optional[int] = ..., leader: _Optional[str] = ...) -> None: ...

class DrainMemberRequest(_message.Message):
    __slots__ = ("name", "epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class DrainMemberResponse(_message.Message):
    __slots__ = ("epoch", "may_leave", "revision")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MAY_LEAVE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    may_leave: bool
    revision: int
    def __init__(self, epoch: _Optional[int] = ..., may_leave: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class UnregisterMemberRequest(_message.Message):
    __slots__ = ("name", "epoch", "force")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    epoch: int
    force: bool
    def __init__(self, name: _Optional[str] = ..., epoch: _Optional[int] = ..., force: _Optional[bool] = ...) -> None: ...

class UnregisterMemberResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class MemberSelector(_message.Message):
    __slots__ = ("roles", "labels", "states")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ROLES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    roles: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    states: _containers.RepeatedScalarFieldContainer[MemberState]
    def __init__(self, roles: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., states: _Optional[_Iterable[_Union[MemberState, str]]] = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ("selector", "stale", "after", "limit")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    selector: MemberSelector
    stale: bool
    after: str
    limit: int
    def __init__(self, selector: _Optional[_Union[MemberSelector, _Mapping]] = ..., stale: _Optional[bool] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("members", "revision", "more")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    revision: int
    more: bool
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., revision: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class DescribeMemberRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeMemberResponse(_message.Message):
    __slots__ = ("member", "last_heard_ms", "health", "may_leave", "revision")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_MS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    MAY_LEAVE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    member: Member
    last_heard_ms: int
    health: MemberHealth
    may_leave: bool
    revision: int
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., last_heard_ms: _Optional[int] = ..., health: _Optional[_Union[MemberHealth, _Mapping]] = ..., may_leave: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class WatchMembersRequest(_message.Message):
    __slots__ = ("selector", "start_revision")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    START_REVISION_FIELD_NUMBER: _ClassVar[int]
    selector: MemberSelector
    start_revision: int
    def __init__(self, selector: _Optional[_Union[MemberSelector, _Mapping]] = ..., start_revision: _Optional[int] = ...) -> None: ...

class WatchMembersResponse(_message.Message):
    __slots__ = ("revision", "changes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    changes: _containers.RepeatedCompositeFieldContainer[MemberChange]
    def __init__(self, revision: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[MemberChange, _Mapping]]] = ...) -> None: ...

class MemberChange(_message.Message):
    __slots__ = ("member", "name", "left", "what")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    member: Member
    name: str
    left: bool
    what: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., name: _Optional[str] = ..., left: _Optional[bool] = ..., what: _Optional[str] = ...) -> None: ...
