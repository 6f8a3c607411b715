"""RocketMQ's remoting protocol without I/O: bytes to frames to requests, answers and requests to bytes.

Rules: whatever a peer may send, only ``PeerError`` leaves this module; its connection is then closed, as Java does.
A header with bad *fields* is no error: Java logs an unparsable number and keeps the default, and so do we.
Two paths, one meaning: headers as stock peers write them go through one compiled decoder; everything else (numbers as
``"+1"``, ``extFields: null``, unknown codes, the binary form) through the lenient one.

Theory: a frame is ``total:int32 | type:int8 headerLen:int24 | header | body``, total counting all after itself; the
header is JSON or RocketMQ's binary form (Java ``NettyDecoder``, ``RemotingCommand``, ``RocketMQSerializable``).
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import TypeVar, get_args

import msgspec

from quorate.errors import PeerError
from quorate.wire.name_server import NameServerRequest
from quorate.wire.remoting_headers import (
    ONEWAY_FLAG,
    AlterSyncStateSetFields,
    ApplyBrokerIdFields,
    BrokerNameFields,
    CleanBrokerDataFields,
    CreateTopicFields,
    DeleteTopicFields,
    ElectMasterFields,
    Fields,
    GetTopicFields,
    Head,
    HeartbeatFields,
    Int32,
    NextBrokerIdFields,
    ReadFields,
    RegisterBrokerFields,
    RoleChangedFields,
)

JAVA_FRAME_BYTES_MAX = 16_777_216
"""Java's ``com.rocketmq.remoting.frameMaxLength``; counts the length field too."""
HEADER_BYTES_MAX = 65_536
"""Java takes a header as long as a frame; those of stock peers are a few KiB, and what is long is in the body."""

RESPONSE_FLAG = 1

_PREFIX = struct.Struct(">II")
_BINARY_HEAD = struct.Struct(">hbhii")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_LANGUAGE = "PYTHON"
_LANGUAGE_BYTE = 3

_F = TypeVar("_F", bound=Fields)
_B = TypeVar("_B")


class HeaderType(IntEnum):
    """How a header is serialised; the high byte of the second word (Java ``SerializeType``)."""

    JSON = 0
    BINARY = 1


class MalformedFrameError(PeerError):
    """Lengths that cannot be, a header type nobody knows, a header that does not parse."""


class OversizeFrameError(PeerError):
    """The length field announces more than we take; nothing of it was buffered."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame off the wire: its header still encoded, its body maybe empty."""

    header_type: HeaderType
    header: bytes
    body: bytes


_HEADER_TYPES = (HeaderType.JSON, HeaderType.BINARY)


class FrameSplitter:
    """Cuts a byte stream into frames; keeps only the one that is not yet whole.

    ``frame_bytes_max``: greatest ``total + 4`` taken, as Java counts it. ``error``: why the stream is lost, if it is.
    """

    __slots__ = ("_max", "_missing", "_parts", "error", "pending_bytes")

    def __init__(self, frame_bytes_max: int = JAVA_FRAME_BYTES_MAX) -> None:
        self._max = frame_bytes_max
        self._parts: list[bytes] = []
        self._missing = 0
        self.pending_bytes = 0
        self.error: PeerError | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Frames completed by ``data``; those before a broken one too, then ``error`` is set.

        Raises OversizeFrameError or MalformedFrameError when nothing precedes it, and whenever fed again.
        """
        if self.error is not None:
            raise self.error
        if self._parts:
            self._parts.append(data)
            self.pending_bytes += len(data)
            if self.pending_bytes < self._missing:
                return []
            data = b"".join(self._parts)
            self._parts.clear()
        frames: list[Frame] = []
        at, size = 0, len(data)
        while size - at >= 8:
            total, word = _PREFIX.unpack_from(data, at)
            end = at + 4 + total
            header = word & 0xFFFFFF
            body_at = at + 8 + header
            if total > self._max - 4 or body_at > end or word >> 24 > 1 or header > HEADER_BYTES_MAX:
                return self._lose(frames, total, word)
            if end > size:
                break
            frames.append(Frame(_HEADER_TYPES[word >> 24], data[at + 8 : body_at], data[body_at:end]))
            at = end
        self.pending_bytes = rest = size - at
        if rest:
            total = int.from_bytes(data[at : at + 4], "big") if rest >= 4 else 4
            if not 4 <= total <= self._max - 4:
                return self._lose(frames, total, 0)
            self._parts.append(data[at:])
            self._missing = max(8, 4 + total)
        return frames

    def _lose(self, frames: list[Frame], total: int, word: int) -> list[Frame]:
        """The stream cannot be cut any further: say why, after what came before."""
        self.pending_bytes = 0
        if total > 0x7FFFFFFF:
            self.error = MalformedFrameError(f"negative frame length {total - 2**32}")
        elif total > self._max - 4:
            self.error = OversizeFrameError(f"frame of {total + 4} bytes, at most {self._max} are taken")
        elif word >> 24 > 1:
            self.error = MalformedFrameError(f"unknown header type {word >> 24}")
        elif HEADER_BYTES_MAX < word & 0xFFFFFF <= total - 4:
            self.error = OversizeFrameError(f"header of {word & 0xFFFFFF} bytes, at most {HEADER_BYTES_MAX} are taken")
        else:
            self.error = MalformedFrameError(f"header of {word & 0xFFFFFF} bytes in a frame of {total}")
        if not frames:
            raise self.error
        return frames


class HeartbeatRequest(Head, frozen=True, tag=904):
    """A broker is alive, and how far its log is."""

    fields: HeartbeatFields = HeartbeatFields()


class ReplicaInfoRequest(Head, frozen=True, tag=1004):
    """Who is master of a broker set."""

    fields: BrokerNameFields = BrokerNameFields()


class AlterSyncStateSetRequest(Head, frozen=True, tag=1001):
    """A master reports who is in sync; the set is in the body."""

    fields: AlterSyncStateSetFields = AlterSyncStateSetFields()


class MetadataRequest(Head, frozen=True, tag=1005):
    """Who leads the controllers; no fields."""


class ElectMasterRequest(Head, frozen=True, tag=1002):
    """Elect a master."""

    fields: ElectMasterFields = ElectMasterFields()


class RegisterBrokerRequest(Head, frozen=True, tag=1003):
    """A broker announces its address."""

    fields: RegisterBrokerFields = RegisterBrokerFields()


class SyncStateDataRequest(Head, frozen=True, tag=1006):
    """State of the broker sets named in the body, a JSON array."""

    fields: ReadFields = ReadFields()


class RoleChangedRequest(Head, frozen=True, tag=1008):
    """What a controller tells a broker."""

    fields: RoleChangedFields = RoleChangedFields()


class UpdateConfigRequest(Head, frozen=True, tag=1009):
    """Change this node's settings; the body is a properties text."""


class GetConfigRequest(Head, frozen=True, tag=1010):
    """This node's settings."""


class CleanBrokerDataRequest(Head, frozen=True, tag=1011):
    """Forget brokers."""

    fields: CleanBrokerDataFields = CleanBrokerDataFields()


class NextBrokerIdRequest(Head, frozen=True, tag=1012):
    """Which broker id is free."""

    fields: NextBrokerIdFields = NextBrokerIdFields()


class ApplyBrokerIdRequest(Head, frozen=True, tag=1013):
    """Take a broker id."""

    fields: ApplyBrokerIdFields = ApplyBrokerIdFields()


class CreateTopicRequest(Head, frozen=True, tag=17):
    """Create or update a topic."""

    fields: CreateTopicFields = CreateTopicFields()


class AllTopicsRequest(Head, frozen=True, tag=21):
    """All topics."""

    fields: ReadFields = ReadFields()


class DeleteTopicRequest(Head, frozen=True, tag=215):
    """Forget a topic."""

    fields: DeleteTopicFields = DeleteTopicFields()


class GetTopicRequest(Head, frozen=True, tag=351):
    """One topic."""

    fields: GetTopicFields = GetTopicFields()


class OtherRequest(Head, frozen=True):
    """A code we do not serve."""

    other_code: int = 0


ServedRequest = (
    HeartbeatRequest
    | ReplicaInfoRequest
    | AlterSyncStateSetRequest
    | MetadataRequest
    | ElectMasterRequest
    | RegisterBrokerRequest
    | SyncStateDataRequest
    | RoleChangedRequest
    | UpdateConfigRequest
    | GetConfigRequest
    | CleanBrokerDataRequest
    | NextBrokerIdRequest
    | ApplyBrokerIdRequest
    | CreateTopicRequest
    | AllTopicsRequest
    | DeleteTopicRequest
    | GetTopicRequest
    | NameServerRequest
)
Request = ServedRequest | OtherRequest

_fast: msgspec.json.Decoder[ServedRequest] = msgspec.json.Decoder(ServedRequest, strict=False)
REQUEST_TYPES: dict[int, type[ServedRequest]] = {kind.__struct_config__.tag: kind for kind in get_args(ServedRequest)}


def code_of(request: Request) -> int:
    """The code a request came with."""
    if isinstance(request, OtherRequest):
        return request.other_code
    tag: int = request.__struct_config__.tag  # type: ignore[assignment]
    return tag


class Header(msgspec.Struct, frozen=True, gc=False):
    """Any header, read leniently: all custom fields as text."""

    code: int
    opaque: int
    flag: int
    version: int = 0
    remark: str | None = None
    fields: dict[str, str] = {}

    @property
    def oneway(self) -> bool:
        """Must never be answered."""
        return self.flag & ONEWAY_FLAG != 0


class Response(msgspec.Struct, frozen=True, gc=False):
    """An answer as its asker reads it."""

    code: int
    opaque: int
    remark: str | None
    fields: dict[str, str]
    body: bytes

    def read(self, kind: type[_F]) -> _F:
        """The custom header by Java's rules; a missing or unparsable field keeps its default."""
        return read_fields(self.fields, kind)


def decode_request(frame: Frame) -> Request:
    """The request in a frame. Raises MalformedFrameError when the header cannot be parsed at all."""
    if frame.header_type is HeaderType.JSON:
        try:
            return _fast.decode(frame.header)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    header = decode_header(frame)
    kind = REQUEST_TYPES.get(header.code)
    if kind is None:
        return OtherRequest(opaque=header.opaque, flag=header.flag, version=header.version, other_code=header.code)
    request = kind(opaque=header.opaque, flag=header.flag, version=header.version)
    own = getattr(request, "fields", None)
    if own is None:
        return request
    return msgspec.structs.replace(request, fields=read_fields(header.fields, type(own)))


def decode_response(frame: Frame) -> Response:
    """The answer in a frame. Raises MalformedFrameError."""
    header = decode_header(frame)
    return Response(header.code, header.opaque, header.remark, header.fields, frame.body)


def decode_header(frame: Frame) -> Header:
    """Any header, field by field, as Java would take it. Raises MalformedFrameError."""
    if frame.header_type is HeaderType.BINARY:
        return _decode_binary(frame.header)
    try:
        head = _lenient.decode(frame.header)
        return Header(
            _java_int(head.code),
            _java_int(head.opaque),
            _java_int(head.flag),
            _java_int(head.version),
            head.remark,
            {name: _java_text(value) for name, value in (head.fields or {}).items() if value is not None},
        )
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedFrameError(f"header is no remoting command: {error}") from None


class _LenientHead(msgspec.Struct, gc=False, rename={"fields": "extFields"}):
    """A JSON header with nothing taken for granted."""

    code: Int32 | str = 0
    opaque: Int32 | str = 0
    flag: Int32 | str = 0
    version: Int32 | str | None = None
    remark: str | None = None
    fields: dict[str, str | int | float | bool | None] | None = None


_lenient = msgspec.json.Decoder(_LenientHead)


def _java_int(value: int | str | None) -> int:
    """Fastjson takes numbers written as text. Raises ValueError."""
    number = 0 if value is None else int(value)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} is no 32-bit integer")
    return number


def _java_text(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def read_fields(fields: Mapping[str, str], kind: type[_F]) -> _F:
    """A custom header from text fields (Java ``RemotingCommand.decodeCommandCustomHeader``).

    What cannot be parsed keeps its default: Java only logs it.
    """
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError:
        taken: dict[str, object] = {}
        for field in msgspec.structs.fields(kind):
            text = fields.get(field.encode_name)
            if text is not None:
                try:
                    taken[field.name] = msgspec.convert(_plain_number(text), field.type, strict=False)
                except msgspec.ValidationError:
                    continue
        return kind(**taken)


def _plain_number(text: str) -> str:
    """Java's parsers take a plus sign and leading zeros; msgspec takes neither."""
    digits = text.removeprefix("+")
    if digits.isascii() and digits.isdigit():
        return str(int(digits)) if len(digits) < 20 else text
    return text


def _decode_binary(data: bytes) -> Header:
    """RocketMQ's binary header (Java ``RocketMQSerializable``); empty text is null. Raises MalformedFrameError."""
    try:
        code, _, version, opaque, flag = _BINARY_HEAD.unpack_from(data)
        remark, at = _binary_text(data, _BINARY_HEAD.size, _INT32)
        size: int = _INT32.unpack_from(data, at)[0]
        at += 4
        end = at + size
        if size < 0 or end > len(data):
            raise MalformedFrameError(f"{size} bytes of fields in {len(data)}")
        fields: dict[str, str] = {}
        while at < end:
            name, at = _binary_text(data, at, _INT16)
            value, at = _binary_text(data, at, _INT32)
            if name and value:
                fields[name] = value
        return Header(code, opaque, flag, version, remark or None, fields)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrameError(f"binary header: {error}") from None


def _binary_text(data: bytes, at: int, size_field: struct.Struct) -> tuple[str, int]:
    size: int = size_field.unpack_from(data, at)[0]
    at += size_field.size
    if size < 0 or at + size > len(data):
        raise MalformedFrameError(f"text of {size} bytes at {at} in {len(data)}")
    return data[at : at + size].decode(), at + size


def decode_body(body: bytes, decoder: msgspec.json.Decoder[_B]) -> _B:
    """A JSON body. Raises MalformedFrameError; the answer to that is code 1, the connection stays."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedFrameError(f"body: {error}") from None


def _text_fields(fields: Fields | Mapping[str, str] | None) -> dict[str, str]:
    """Java's encoding of a custom header: what is null is absent, all else is text."""
    if fields is None:
        return {}
    if not isinstance(fields, Fields):
        return dict(fields)
    texts: dict[str, str] = {}
    for name, own in _names_of(type(fields)):
        value = getattr(fields, own)
        if value is not None:
            kind = value.__class__
            texts[name] = value if kind is str else str(value) if kind is int else _java_text(value)
    return texts


@cache
def _names_of(kind: type[Fields]) -> tuple[tuple[str, str], ...]:
    """Java's name and ours of each field."""
    return tuple((field.encode_name, field.name) for field in msgspec.structs.fields(kind))


class _EncodedHead(
    msgspec.Struct,
    gc=False,
    omit_defaults=True,
    rename={"fields": "extFields", "serialized_as": "serializeTypeCurrentRPC"},
):
    """A JSON header but for its opaque; what is None is absent."""

    code: int
    flag: int
    version: int
    language: str
    serialized_as: str
    fields: dict[str, str] | None = None
    remark: str | None = None


_encode_json: Callable[[object], bytes] = msgspec.json.Encoder().encode


class Message:
    """A request or an answer encoded once, all but its opaque: ``frame`` splices that in.

    Parts of both header forms are built when first asked for. Immutable after construction.
    """

    __slots__ = ("_binary", "_json", "body", "code", "fields", "flag", "remark", "version")

    def __init__(
        self,
        code: int,
        fields: Fields | Mapping[str, str] | None = None,
        *,
        remark: str | None = None,
        body: bytes = b"",
        flag: int = RESPONSE_FLAG,
        version: int = 0,
    ) -> None:
        self.code = code
        self.fields = _text_fields(fields)
        self.remark = remark
        self.body = body
        self.flag = flag
        self.version = version
        self._json: bytes | None = None
        self._binary: bytes | None = None

    def frame(self, header_type: HeaderType, opaque: int) -> bytes:
        """The whole frame."""
        if header_type is HeaderType.JSON:
            rest = self._json
            if rest is None:
                rest = self._json = self._json_rest()
            header = b'{"opaque":%d,%b' % (opaque, rest)
        else:
            rest = self._binary
            if rest is None:
                rest = self._binary = self._binary_rest()
            header = _BINARY_HEAD.pack(self.code, _LANGUAGE_BYTE, self.version, opaque, self.flag) + rest
        size = len(header)
        return _PREFIX.pack(4 + size + len(self.body), header_type << 24 | size) + header + self.body

    def _json_rest(self) -> bytes:
        head = _EncodedHead(
            code=self.code,
            flag=self.flag,
            version=self.version,
            language=_LANGUAGE,
            serialized_as="JSON",
            fields=self.fields or None,
            remark=self.remark,
        )
        return _encode_json(head)[1:]

    def _binary_rest(self) -> bytes:
        fields = bytearray()
        for name, value in self.fields.items():
            key, text = name.encode(), value.encode()
            fields += _INT16.pack(len(key)) + key + _INT32.pack(len(text)) + text
        remark = (self.remark or "").encode()
        return _INT32.pack(len(remark)) + remark + _INT32.pack(len(fields)) + bytes(fields)


def encode_request(
    code: int,
    opaque: int,
    fields: Fields | Mapping[str, str] | None = None,
    *,
    body: bytes = b"",
    oneway: bool = False,
    header_type: HeaderType = HeaderType.JSON,
    version: int = 0,
) -> bytes:
    """A request frame, as a broker, an admin tool or a controller's push sends it."""
    message = Message(code, fields, body=body, flag=ONEWAY_FLAG if oneway else 0, version=version)
    return message.frame(header_type, opaque)
