"""kafka-python's codec, both directions, as the oracle of ours: messages from plain dicts, dicts from messages."""

import warnings
from typing import Any

from quorate.wire.kafka import FLEXIBLE, Api
from quorate.wire.kafka_primitives import int16, int32, nullable_string

with warnings.catch_warnings():  # It reads its schemas by a deprecated call.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin as _admin
    import kafka.protocol.consumer as _consumer
    import kafka.protocol.metadata as _metadata
    import kafka.protocol.producer as _producer
    import kafka.protocol.sasl as _sasl

MODULES = (_consumer, _metadata, _producer, _admin, _sasl)
NAMES = {
    Api.PRODUCE: "Produce",
    Api.FETCH: "Fetch",
    Api.LIST_OFFSETS: "ListOffsets",
    Api.METADATA: "Metadata",
    Api.OFFSET_COMMIT: "OffsetCommit",
    Api.OFFSET_FETCH: "OffsetFetch",
    Api.FIND_COORDINATOR: "FindCoordinator",
    Api.JOIN_GROUP: "JoinGroup",
    Api.HEARTBEAT: "Heartbeat",
    Api.LEAVE_GROUP: "LeaveGroup",
    Api.SYNC_GROUP: "SyncGroup",
    Api.DESCRIBE_GROUPS: "DescribeGroups",
    Api.LIST_GROUPS: "ListGroups",
    Api.SASL_HANDSHAKE: "SaslHandshake",
    Api.API_VERSIONS: "ApiVersions",
    Api.OFFSET_FOR_LEADER_EPOCH: "OffsetForLeaderEpoch",
    Api.SASL_AUTHENTICATE: "SaslAuthenticate",
    Api.DESCRIBE_CONFIGS: "DescribeConfigs",
    Api.DELETE_GROUPS: "DeleteGroups",
    Api.DESCRIBE_QUORUM: "DescribeQuorum",
    Api.DESCRIBE_CLUSTER: "DescribeCluster",
}


def message(api: Api, kind: str) -> Any:
    """The class of a request or response."""
    name = NAMES[api] + kind
    return next(vars(module)[name] for module in MODULES if name in vars(module))


def build(cls: Any, value: Any) -> Any:
    """A message, or a part of one, from plain values."""
    arguments = {}
    for name, part in value.items():
        field = cls._struct.fields[name]
        nested = field.is_struct_array() and part is not None
        arguments[name] = [build(field.data_class, item) for item in part] if nested else part
    return cls(**arguments)


def request_frame(api: Api, version: int, value: dict[str, Any], client_id: str | None = "test") -> bytes:
    """A request with its header, as a client sends it, without the length."""
    header = int16(api) + int16(version) + int32(77) + nullable_string(client_id)
    if version >= FLEXIBLE.get(api, version + 1):
        header += b"\x00"
    body: bytes = build(message(api, "Request"), value).encode(version=version)
    return header + body


def plain(value: Any, version: int) -> Any:
    """A message as dicts and lists, with the fields of this version only."""
    if isinstance(value, list | tuple):
        return [plain(item, version) for item in value]
    if hasattr(value, "_struct"):
        return {
            f.name: plain(getattr(value, f.name), version) for f in value._struct._fields if f.for_version_q(version)
        }
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def decoded(api: Api, version: int, body: bytes) -> dict[str, Any]:
    """Our response body as kafka-python reads it; nothing may be left over."""
    cls = message(api, "Response")
    found = cls.decode(memoryview(body), version=version)
    found._header = None  # decode() forgets to set what encode() looks at
    assert found.encode(version=version) == body
    result: dict[str, Any] = plain(found, version)
    return result
