from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("cluster_id", "node_id", "leader_id", "term", "revision", "feature_level", "ready", "reason", "version", "voters")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    node_id: int
    leader_id: int
    term: int
    revision: int
    feature_level: int
    ready: bool
    reason: str
    version: str
    voters: _containers.RepeatedCompositeFieldContainer[Voter]
    def __init__(self, cluster_id: _Optional[str] = ..., node_id: _Optional[int] = ..., leader_id: _Optional[int] = ..., term: _Optional[int] = ..., revision: _Optional[int] = ..., feature_level: _Optional[int] = ..., ready: _Optional[bool] = ..., reason: _Optional[str] = ..., version: _Optional[str] = ..., voters: _Optional[_Iterable[_Union[Voter, _Mapping]]] = ...) -> None: ...

class Voter(_message.Message):
    __slots__ = ("node_id", "zone", "connected", "grpc", "http", "kafka", "rpc")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    GRPC_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    RPC_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    zone: str
    connected: bool
    grpc: str
    http: str
    kafka: str
    rpc: str
    def __init__(self, node_id: _Optional[int] = ..., zone: _Optional[str] = ..., connected: _Optional[bool] = ..., grpc: _Optional[str] = ..., http: _Optional[str] = ..., kafka: _Optional[str] = ..., rpc: _Optional[str] = ...) -> None: ...
