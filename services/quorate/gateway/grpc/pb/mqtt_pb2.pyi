from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Will(_message.Message):
    __slots__ = ("topic", "payload", "qos", "retain", "delay_s")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    RETAIN_FIELD_NUMBER: _ClassVar[int]
    DELAY_S_FIELD_NUMBER: _ClassVar[int]
    topic: str
    payload: bytes
    qos: int
    retain: bool
    delay_s: int
    def __init__(self, topic: _Optional[str] = ..., payload: _Optional[bytes] = ..., qos: _Optional[int] = ..., retain: _Optional[bool] = ..., delay_s: _Optional[int] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("client", "clean_start", "expiry_s", "will", "member", "member_epoch", "request_id")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    CLEAN_START_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_S_FIELD_NUMBER: _ClassVar[int]
    WILL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    client: str
    clean_start: bool
    expiry_s: int
    will: Will
    member: str
    member_epoch: int
    request_id: str
    def __init__(self, client: _Optional[str] = ..., clean_start: _Optional[bool] = ..., expiry_s: _Optional[int] = ..., will: _Optional[_Union[Will, _Mapping]] = ..., member: _Optional[str] = ..., member_epoch: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class OpenSessionResponse(_message.Message):
    __slots__ = ("revision", "session_epoch", "present", "taken_over_from", "replaced_epoch")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_OVER_FROM_FIELD_NUMBER: _ClassVar[int]
    REPLACED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    revision: int
    session_epoch: int
    present: bool
    taken_over_from: str
    replaced_epoch: int
    def __init__(self, revision: _Optional[int] = ..., session_epoch: _Optional[int] = ..., present: _Optional[bool] = ..., taken_over_from: _Optional[str] = ..., replaced_epoch: _Optional[int] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("client", "session_epoch", "end", "with_will", "expiry_s", "administrator")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    WITH_WILL_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_S_FIELD_NUMBER: _ClassVar[int]
    ADMINISTRATOR_FIELD_NUMBER: _ClassVar[int]
    client: str
    session_epoch: int
    end: bool
    with_will: bool
    expiry_s: int
    administrator: bool
    def __init__(self, client: _Optional[str] = ..., session_epoch: _Optional[int] = ..., end: _Optional[bool] = ..., with_will: _Optional[bool] = ..., expiry_s: _Optional[int] = ..., administrator: _Optional[bool] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class Subscription(_message.Message):
    __slots__ = ("filter", "qos", "no_local", "retain_as_published", "retain_handling", "identifier")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    NO_LOCAL_FIELD_NUMBER: _ClassVar[int]
    RETAIN_AS_PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    RETAIN_HANDLING_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    filter: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int
    def __init__(self, filter: _Optional[str] = ..., qos: _Optional[int] = ..., no_local: _Optional[bool] = ..., retain_as_published: _Optional[bool] = ..., retain_handling: _Optional[int] = ..., identifier: _Optional[int] = ...) -> None: ...

class PutSubscriptionsRequest(_message.Message):
    __slots__ = ("client", "session_epoch", "added", "removed")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    client: str
    session_epoch: int
    added: _containers.RepeatedCompositeFieldContainer[Subscription]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, client: _Optional[str] = ..., session_epoch: _Optional[int] = ..., added: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class PutSubscriptionsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class MatchRequest(_message.Message):
    __slots__ = ("topic", "stale", "qos", "revision")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    stale: bool
    qos: int
    revision: int
    def __init__(self, topic: _Optional[str] = ..., stale: _Optional[bool] = ..., qos: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class MatchResponse(_message.Message):
    __slots__ = ("revision", "members")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    members: _containers.RepeatedCompositeFieldContainer[MemberSubscribers]
    def __init__(self, revision: _Optional[int] = ..., members: _Optional[_Iterable[_Union[MemberSubscribers, _Mapping]]] = ...) -> None: ...

class MemberSubscribers(_message.Message):
    __slots__ = ("member", "member_epoch", "addresses", "subscribers")
    class AddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    member: str
    member_epoch: int
    addresses: _containers.ScalarMap[str, str]
    subscribers: _containers.RepeatedCompositeFieldContainer[Subscriber]
    def __init__(self, member: _Optional[str] = ..., member_epoch: _Optional[int] = ..., addresses: _Optional[_Mapping[str, str]] = ..., subscribers: _Optional[_Iterable[_Union[Subscriber, _Mapping]]] = ...) -> None: ...

class Subscriber(_message.Message):
    __slots__ = ("client", "session_epoch", "connected", "subscription", "group", "qos")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    client: str
    session_epoch: int
    connected: bool
    subscription: Subscription
    group: str
    qos: int
    def __init__(self, client: _Optional[str] = ..., session_epoch: _Optional[int] = ..., connected: _Optional[bool] = ..., subscription: _Optional[_Union[Subscription, _Mapping]] = ..., group: _Optional[str] = ..., qos: _Optional[int] = ...) -> None: ...

class LocateRequest(_message.Message):
    __slots__ = ("client", "stale", "revision")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    client: str
    stale: bool
    revision: int
    def __init__(self, client: _Optional[str] = ..., stale: _Optional[bool] = ..., revision: _Optional[int] = ...) -> None: ...

class LocateResponse(_message.Message):
    __slots__ = ("revision", "session", "addresses")
    class AddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    session: Session
    addresses: _containers.ScalarMap[str, str]
    def __init__(self, revision: _Optional[int] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., addresses: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("client", "member", "member_epoch", "session_epoch", "connected", "disconnected_ms", "expiry_s", "opened_ms", "has_will", "subscriptions")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    DISCONNECTED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_S_FIELD_NUMBER: _ClassVar[int]
    OPENED_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_WILL_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    client: str
    member: str
    member_epoch: int
    session_epoch: int
    connected: bool
    disconnected_ms: int
    expiry_s: int
    opened_ms: int
    has_will: bool
    subscriptions: _containers.RepeatedCompositeFieldContainer[Subscription]
    def __init__(self, client: _Optional[str] = ..., member: _Optional[str] = ..., member_epoch: _Optional[int] = ..., session_epoch: _Optional[int] = ..., connected: _Optional[bool] = ..., disconnected_ms: _Optional[int] = ..., expiry_s: _Optional[int] = ..., opened_ms: _Optional[int] = ..., has_will: _Optional[bool] = ..., subscriptions: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("member", "after", "limit", "stale")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    member: str
    after: str
    limit: int
    stale: bool
    def __init__(self, member: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ..., stale: _Optional[bool] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("revision", "sessions", "more")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    more: bool
    def __init__(self, revision: _Optional[int] = ..., sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class HandedWill(_message.Message):
    __slots__ = ("will", "client", "message", "member", "member_epoch")
    WILL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    will: int
    client: str
    message: Will
    member: str
    member_epoch: int
    def __init__(self, will: _Optional[int] = ..., client: _Optional[str] = ..., message: _Optional[_Union[Will, _Mapping]] = ..., member: _Optional[str] = ..., member_epoch: _Optional[int] = ...) -> None: ...

class ListWillsRequest(_message.Message):
    __slots__ = ("member", "stale")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    member: str
    stale: bool
    def __init__(self, member: _Optional[str] = ..., stale: _Optional[bool] = ...) -> None: ...

class ListWillsResponse(_message.Message):
    __slots__ = ("revision", "wills", "more")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WILLS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    wills: _containers.RepeatedCompositeFieldContainer[HandedWill]
    more: bool
    def __init__(self, revision: _Optional[int] = ..., wills: _Optional[_Iterable[_Union[HandedWill, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class AcknowledgeWillRequest(_message.Message):
    __slots__ = ("will", "member", "member_epoch")
    WILL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    will: int
    member: str
    member_epoch: int
    def __init__(self, will: _Optional[int] = ..., member: _Optional[str] = ..., member_epoch: _Optional[int] = ...) -> None: ...

class AcknowledgeWillResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class WatchSessionsRequest(_message.Message):
    __slots__ = ("member", "start_revision")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    START_REVISION_FIELD_NUMBER: _ClassVar[int]
    member: str
    start_revision: int
    def __init__(self, member: _Optional[str] = ..., start_revision: _Optional[int] = ...) -> None: ...

class WatchSessionsResponse(_message.Message):
    __slots__ = ("revision", "changes")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    changes: _containers.RepeatedCompositeFieldContainer[SessionChange]
    def __init__(self, revision: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[SessionChange, _Mapping]]] = ...) -> None: ...

class SessionChange(_message.Message):
    __slots__ = ("opened", "closed", "subscriptions", "lost", "will", "will_acknowledged", "what")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    WILL_FIELD_NUMBER: _ClassVar[int]
    WILL_ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    opened: SessionOpened
    closed: SessionClosed
    subscriptions: SubscriptionsPut
    lost: SessionOwnerLost
    will: HandedWill
    will_acknowledged: int
    what: str
    def __init__(self, opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., closed: _Optional[_Union[SessionClosed, _Mapping]] = ..., subscriptions: _Optional[_Union[SubscriptionsPut, _Mapping]] = ..., lost: _Optional[_Union[SessionOwnerLost, _Mapping]] = ..., will: _Optional[_Union[HandedWill, _Mapping]] = ..., will_acknowledged: _Optional[int] = ..., what: _Optional[str] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("client", "session_epoch", "member", "member_epoch", "taken_over_from", "replaced_epoch")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TAKEN_OVER_FROM_FIELD_NUMBER: _ClassVar[int]
    REPLACED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    client: str
    session_epoch: int
    member: str
    member_epoch: int
    taken_over_from: str
    replaced_epoch: int
    def __init__(self, client: _Optional[str] = ..., session_epoch: _Optional[int] = ..., member: _Optional[str] = ..., member_epoch: _Optional[int] = ..., taken_over_from: _Optional[str] = ..., replaced_epoch: _Optional[int] = ...) -> None: ...

class SessionClosed(_message.Message):
    __slots__ = ("client", "session_epoch", "member", "ended", "reason")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    client: str
    session_epoch: int
    member: str
    ended: bool
    reason: str
    def __init__(self, client: _Optional[str] = ..., session_epoch: _Optional[int] = ..., member: _Optional[str] = ..., ended: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class SubscriptionsPut(_message.Message):
    __slots__ = ("client", "session_epoch", "added", "removed")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    client: str
    session_epoch: int
    added: _containers.RepeatedCompositeFieldContainer[Subscription]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, client: _Optional[str] = ..., session_epoch: _Optional[int] = ..., added: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class SessionOwnerLost(_message.Message):
    __slots__ = ("member", "member_epoch", "settled")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    member: str
    member_epoch: int
    settled: bool
    def __init__(self, member: _Optional[str] = ..., member_epoch: _Optional[int] = ..., settled: _Optional[bool] = ...) -> None: ...
