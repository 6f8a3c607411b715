"""The name server's part of RocketMQ 5.3 remoting: what brokers, clients and tools ask of one, under Java's names.

Rules: as in ``remoting_headers``. A registration's body may be JSON, with the bare numeric keys that fastjson writes,
or deflated in a form of its own; how much comes out of it is bounded.
Source: ``org.apache.rocketmq.remoting.protocol`` of 5.3.3 (``header.namesrv``, ``route``, ``body.RegisterBrokerBody``,
``common.TopicConfig``).
"""

import re
import struct
import zlib
from typing import Final, TypeVar

import msgspec

from quorate.errors import PeerError
from quorate.wire.remoting_headers import Body, DataVersionBody, Fields, Head, Int32, Int64

_T = TypeVar("_T")
_SIZE = struct.Struct(">i")
_BARE_KEY = re.compile(rb'"(?:[^"\\]|\\.)*+"?|([{,])(-?\d+):', re.DOTALL)
"""A text, left alone, or a key that is a bare number. A text that nobody closes is one too, to the end: else each quote
in it were looked at as the beginning of another.
"""
CRC_MASK: Final = 0x7FFFFFFF
"""Java ``UtilAll.crc32`` drops the sign."""
ITEMS_MAX: Final = 100_000
"""Topics, and mappings, that one registration may list."""
FILTERS_MAX: Final = 64
FILTER_TEXT_MAX: Final = 4096
"""Filter servers of a broker, and the characters of their addresses together."""


class PutKvFields(Fields, gc=False, frozen=True):
    """100, Java ``PutKVConfigRequestHeader``; 101 and 102 ask by the first two."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class NamespaceFields(Fields, gc=False, frozen=True):
    """219, Java ``GetKVListByNamespaceRequestHeader``."""

    namespace: str | None = None


class AnnounceFields(Fields, gc=False, frozen=True):
    """103, Java ``RegisterBrokerRequestHeader``; id 0 is a master's. 104 and 322 have the first four."""

    cluster_name: str = ""
    broker_name: str | None = None
    broker_addr: str | None = None
    broker_id: Int64 | None = None
    ha_server_addr: str | None = None
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: str | None = None
    compressed: str = "false"
    body_crc32: Int32 = 0
    zone_name: str | None = msgspec.field(default=None, name="__ZONE_NAME")


class RouteFields(Fields, gc=False, frozen=True):
    """105, Java ``GetRouteInfoRequestHeader``."""

    topic: str | None = None


class SetNameFields(Fields, gc=False, frozen=True):
    """205 and 327 name a set; 901 (Java ``GetBrokerMemberGroupRequestHeader``) its cluster too."""

    cluster_name: str = ""
    broker_name: str | None = None


class ClusterFields(Fields, gc=False, frozen=True):
    """224, Java ``GetTopicsByClusterRequestHeader``."""

    cluster: str = ""


class TopicFields(Fields, gc=False, frozen=True):
    """216 and 217, Java ``DeleteTopicFromNamesrvRequestHeader`` and ``RegisterTopicRequestHeader``."""

    topic: str | None = None
    cluster_name: str | None = None


class PutKvRequest(Head, frozen=True, tag=100):
    """Keep a text."""

    fields: PutKvFields = PutKvFields()


class GetKvRequest(Head, frozen=True, tag=101):
    """A text that was kept."""

    fields: PutKvFields = PutKvFields()


class DeleteKvRequest(Head, frozen=True, tag=102):
    """Forget a text."""

    fields: PutKvFields = PutKvFields()


class AnnounceRequest(Head, frozen=True, tag=103):
    """A broker tells where it serves, and which topics it has."""

    fields: AnnounceFields = AnnounceFields()


class WithdrawRequest(Head, frozen=True, tag=104):
    """A broker goes."""

    fields: AnnounceFields = AnnounceFields()


class RouteRequest(Head, frozen=True, tag=105):
    """Where a topic is."""

    fields: RouteFields = RouteFields()


class ClusterInfoRequest(Head, frozen=True, tag=106):
    """All sets and clusters."""


class WipeWriteRequest(Head, frozen=True, tag=205):
    """Let nobody write to a set."""

    fields: SetNameFields = SetNameFields()


class TopicNamesRequest(Head, frozen=True, tag=206):
    """Names of all topics."""


class ForgetTopicRequest(Head, frozen=True, tag=216):
    """A topic is in no route any more."""

    fields: TopicFields = TopicFields()


class AnnounceTopicRequest(Head, frozen=True, tag=217):
    """One topic of some sets, whose queues are in the body."""

    fields: TopicFields = TopicFields()


class KvListRequest(Head, frozen=True, tag=219):
    """All texts of a namespace."""

    fields: NamespaceFields = NamespaceFields()


class ClusterTopicsRequest(Head, frozen=True, tag=224):
    """Names of a cluster's topics."""

    fields: ClusterFields = ClusterFields()


class SystemTopicsRequest(Head, frozen=True, tag=304):
    """Names that are no user's topics: clusters and sets."""


class UnitTopicsRequest(Head, frozen=True, tag=311):
    """Topics with the flag of a unit."""


class UnitSubTopicsRequest(Head, frozen=True, tag=312):
    """Topics with the flag of a unit's subscription."""


class UnitSubUnunitTopicsRequest(Head, frozen=True, tag=313):
    """Topics with the second flag and without the first."""


class UpdateNameServerConfigRequest(Head, frozen=True, tag=318):
    """Change this node's settings, as 1009 does."""


class GetNameServerConfigRequest(Head, frozen=True, tag=319):
    """This node's settings, as 1010 tells them."""


class DataVersionRequest(Head, frozen=True, tag=322):
    """Does the broker have to announce its topics? Its data version is the body."""

    fields: AnnounceFields = AnnounceFields()


class AddWriteRequest(Head, frozen=True, tag=327):
    """Let everybody write to a set."""

    fields: SetNameFields = SetNameFields()


class MemberGroupRequest(Head, frozen=True, tag=901):
    """The brokers of a set."""

    fields: SetNameFields = SetNameFields()


NameServerRequest = (
    PutKvRequest
    | GetKvRequest
    | DeleteKvRequest
    | AnnounceRequest
    | WithdrawRequest
    | RouteRequest
    | ClusterInfoRequest
    | WipeWriteRequest
    | TopicNamesRequest
    | ForgetTopicRequest
    | AnnounceTopicRequest
    | KvListRequest
    | ClusterTopicsRequest
    | SystemTopicsRequest
    | UnitTopicsRequest
    | UnitSubTopicsRequest
    | UnitSubUnunitTopicsRequest
    | UpdateNameServerConfigRequest
    | GetNameServerConfigRequest
    | DataVersionRequest
    | AddWriteRequest
    | MemberGroupRequest
)


class KvReplyFields(Fields, gc=False, frozen=True):
    """Answer to 101, Java ``GetKVConfigResponseHeader``."""

    value: str | None = None


class AnnounceReplyFields(Fields, gc=False, frozen=True):
    """Answer to 103, Java ``RegisterBrokerResponseHeader``: the master, to its slaves."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class DataVersionReplyFields(Fields, gc=False, frozen=True):
    """Answer to 322, Java ``QueryDataVersionResponseHeader``."""

    changed: bool = True


class WipeWriteReplyFields(Fields, gc=False, frozen=True):
    """Answer to 205."""

    wipe_topic_count: Int32 = 0


class AddWriteReplyFields(Fields, gc=False, frozen=True):
    """Answer to 327."""

    add_topic_count: Int32 = 0


class AnnouncedTopic(Body, gc=False, frozen=True):
    """A topic as a broker has it (Java ``TopicConfig``)."""

    topic_name: str = ""
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: str | None = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] | None = None


class AnnouncedVersion(DataVersionBody, gc=False, frozen=True, rename="camel"):
    """Java ``DataVersion``; the state version is the master epoch. Two are the same if all three are."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


class AnnouncedTopics(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """Java ``TopicConfigAndMappingSerializeWrapper``; of static topics, in which part of a queue stands where."""

    data_version: AnnouncedVersion = AnnouncedVersion()
    topic_config_table: dict[str, AnnouncedTopic] = {}
    topic_queue_mapping_info_map: dict[str, msgspec.Raw] = {}


class AnnounceBody(Body, gc=False, frozen=True):
    """Java ``RegisterBrokerBody``."""

    topic_config_serialize_wrapper: AnnouncedTopics = AnnouncedTopics()
    filter_server_list: tuple[str, ...] | None = ()


class MappingHead(Body, gc=False, frozen=True):
    """Of a Java ``TopicQueueMappingInfo``, whose it is."""

    topic: str = ""
    bname: str = ""


class TopicQueues(Body, gc=False, frozen=True):
    """Java ``QueueData``."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class QueuesBody(Body, gc=False, frozen=True):
    """Body of 217, a Java ``TopicRouteData``; nothing else of it is read."""

    queue_datas: tuple[TopicQueues, ...] | None = ()


class KvTableBody(msgspec.Struct, gc=False, frozen=True):
    """Java ``KVTable``."""

    table: dict[str, str]


class NamesBody(Body, gc=False, frozen=True):
    """Java ``TopicList``."""

    topic_list: tuple[str, ...]
    broker_addr: str | None = None


_body = msgspec.json.Decoder(AnnounceBody, strict=False)
_table = msgspec.json.Decoder(AnnouncedTopics, strict=False)
_one = msgspec.json.Decoder(AnnouncedTopic, strict=False)
_version = msgspec.json.Decoder(AnnouncedVersion, strict=False)
_filters = msgspec.json.Decoder(tuple[str, ...])
_attributes = msgspec.json.Decoder(dict[str, str])
_mapping = msgspec.json.Decoder(MappingHead)
_queues = msgspec.json.Decoder(QueuesBody, strict=False)


def decode_announcement(body: bytes, *, compressed: bool, bytes_max: int, items_max: int = ITEMS_MAX) -> AnnounceBody:
    """Body of 103; an empty one announces nothing. Raises PeerError."""
    if not body:
        return AnnounceBody()
    if compressed:
        return _inflated(body, bytes_max, items_max)
    content = read_json(_body, body, "registration")
    table = content.topic_config_serialize_wrapper
    _counted(len(table.topic_queue_mapping_info_map), items_max, "mappings")
    check_mappings(table)
    _check_filters(content.filter_server_list or ())
    return content


def _counted(count: int, most: int, what: str) -> int:
    """Raises PeerError for a count that cannot be, or is of more than is taken."""
    if not 0 <= count <= most:
        raise PeerError(f"registration: {count} {what}, at most {most} are taken")
    return count


def _check_filters(servers: tuple[str, ...]) -> None:
    _counted(len(servers), FILTERS_MAX, "filter servers")
    _counted(sum(map(len, servers)), FILTER_TEXT_MAX, "characters of filter servers")


def decode_topics(body: bytes) -> AnnouncedTopics:
    """A broker's answer to 21. Raises PeerError."""
    return read_json(_table, body, "list of topics")


def decode_topic(body: bytes) -> AnnouncedTopic:
    """A broker's answer to 351. Raises PeerError."""
    return read_json(_one, body, "topic")


def decode_version(body: bytes) -> AnnouncedVersion:
    """Body of 322. Raises PeerError."""
    return read_json(_version, body, "data version")


def decode_queues(body: bytes) -> tuple[TopicQueues, ...]:
    """Body of 217. Raises PeerError."""
    return read_json(_queues, body, "route").queue_datas or () if body else ()


def whose(mapping: msgspec.Raw) -> MappingHead:
    """Whose a mapping is. Raises PeerError."""
    return read_json(_mapping, bytes(mapping), "mapping")


def check_mappings(table: AnnouncedTopics) -> None:
    """Raises PeerError where one is none."""
    for mapping in table.topic_queue_mapping_info_map.values():
        whose(mapping)


def read_json(decoder: msgspec.json.Decoder[_T], body: bytes, what: str) -> _T:
    """Fastjson reads and writes numbers as keys; JSON does not, so they are quoted where there are any."""
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return decoder.decode(_BARE_KEY.sub(_quoted, body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"{what}: {error}") from None


def _quoted(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else b'%b"%b":' % (found[1], found[2])


class _Inflated:
    """What comes out of a compressed registration, field by field (Java ``RegisterBrokerBody.decode``)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        """Four bytes. Raises struct.error."""
        number: int = _SIZE.unpack_from(self._data, self._at)[0]
        self._at += 4
        return number

    def part(self) -> bytes:
        """Bytes with their number before them. Raises PeerError, struct.error."""
        size = self.number()
        if not 0 <= size <= len(self._data) - self._at:
            raise PeerError(f"registration: a part of {size} bytes in {len(self._data) - self._at}")
        self._at += size
        return self._data[self._at - size : self._at]

    @property
    def over(self) -> bool:
        """Is there no more?"""
        return self._at >= len(self._data)


def _inflated(body: bytes, bytes_max: int, items_max: int) -> AnnounceBody:
    """Each list is counted before it is read, for a few bytes may become a long one."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(body, bytes_max)
        if stream.unconsumed_tail:
            raise PeerError(f"registration: more than {bytes_max} bytes come out of it")
        parts = _Inflated(data)
        version = read_json(_version, parts.part(), "data version")
        topics = [_topic(parts.part().decode()) for _ in range(_counted(parts.number(), items_max, "topics"))]
        listed = parts.part()
        _counted(len(listed), 2 * FILTER_TEXT_MAX, "bytes of filter servers")
        filters = read_json(_filters, listed, "filter servers")
        _check_filters(filters)
        mappings: dict[str, msgspec.Raw] = {}
        for _ in range(0 if parts.over else _counted(parts.number(), items_max, "mappings")):
            mapping = msgspec.Raw(_plain(parts.part()))
            mappings[whose(mapping).topic] = mapping
        return AnnounceBody(AnnouncedTopics(version, {topic.topic_name: topic for topic in topics}, mappings), filters)
    except (zlib.error, struct.error, ValueError) as error:
        raise PeerError(f"registration: {error}") from None


def _plain(text: bytes) -> bytes:
    """Bare numeric keys quoted."""
    return _BARE_KEY.sub(_quoted, text)


def _topic(text: str) -> AnnouncedTopic:
    """Java ``TopicConfig.encode``: words between spaces; whether it is ordered and its flags are not told so."""
    words = text.split(" ")
    if len(words) < 5:
        raise PeerError(f"registration: {text[:80]!r} is no topic")
    attributes: dict[str, str] | None = None
    if len(words) > 5:
        try:
            attributes = _attributes.decode(words[5])
        except msgspec.DecodeError:
            attributes = None  # As in Java: a value may have spaces.
    try:
        reads, writes, perm = msgspec.convert(words[1:4], tuple[Int32, Int32, Int32], strict=False)
    except msgspec.ValidationError as error:
        raise PeerError(f"registration: {text[:80]!r} is no topic: {error}") from None
    return AnnouncedTopic(words[0], reads, writes, perm, words[4], attributes=attributes)
