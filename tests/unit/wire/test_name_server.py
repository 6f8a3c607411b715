"""Bodies that brokers send a name server: read as fastjson writes them, bounded, refused by name."""

import json
import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import PeerError
from quorate.gateway.remoting.registration import decode_body
from quorate.wire import name_server
from quorate.wire.name_server import decode_announcement, decode_queues, decode_topics, decode_version, whose

VERSION = b'{"counter":3,"stateVersion":2,"timestamp":7}'
MAX = 1 << 16


def deflated(*topics: bytes, filters: bytes = b"[]", mappings: tuple[bytes, ...] | None = ()) -> bytes:
    """Java ``RegisterBrokerBody.encode(true)``; no mappings at all: a broker from before 5."""
    parts = [VERSION, *topics, filters, *(mappings or ())]
    lengths = [struct.pack(">i", len(one)) + one for one in parts]
    lengths.insert(1, struct.pack(">i", len(topics)))
    if mappings is not None:
        lengths.insert(3 + len(topics), struct.pack(">i", len(mappings)))
    return zlib.compress(b"".join(lengths))


def test_a_registration_is_read() -> None:
    """Topics, version, filter servers; what is unknown is passed over, what is missing is Java's default."""
    body = (
        b'{"filterServerList":["f"],"topicConfigSerializeWrapper":{"dataVersion":' + VERSION + b',"new":1,'
        b'"topicConfigTable":{"t":{"topicName":"t","perm":4,"order":true}}}}'
    )
    read = decode_announcement(body, compressed=False, bytes_max=MAX)
    table = read.topic_config_serialize_wrapper
    assert (table.data_version.counter, table.data_version.state_version, table.data_version.timestamp) == (3, 2, 7)
    topic = table.topic_config_table["t"]
    assert (topic.topic_name, topic.perm, topic.order, topic.read_queue_nums) == ("t", 4, True, 16)
    assert read.filter_server_list == ("f",)


def test_no_body_announces_nothing() -> None:
    """As in Java."""
    assert not decode_announcement(
        b"", compressed=True, bytes_max=MAX
    ).topic_config_serialize_wrapper.topic_config_table


def test_bare_numbers_as_keys_are_read_and_texts_are_left_alone() -> None:
    """Fastjson writes them so in maps of numbers; the same letters inside a text are text."""
    body = (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"topicName":"t","attributes":{"a":"{1:2,3:4}\\\\\\""}}},'
        b'"topicQueueMappingInfoMap":{"t":{"topic":"t","bname":"b","currIdMap":{0:0,-1:1}}}}}'
    )
    table = decode_announcement(body, compressed=False, bytes_max=MAX).topic_config_serialize_wrapper
    assert table.topic_config_table["t"].attributes == {"a": '{1:2,3:4}\\"'}
    mapping = table.topic_queue_mapping_info_map["t"]
    assert json.loads(bytes(mapping))["currIdMap"] == {"0": 0, "-1": 1}
    assert (whose(mapping).topic, whose(mapping).bname) == ("t", "b")


@pytest.mark.parametrize("end", [b"", b"\\", b'"', b"\n", b'\\\n\\"', b",1:"])
def test_a_text_is_looked_at_once_closed_or_not(end: bytes) -> None:
    """No byte of a text that goes on to the end of a body begins another: a MiB of them took hours."""
    text = b'"' + b'\\"' * 100 + end
    body = b'{7:"b",8:' + text
    found = [match[0] for match in name_server._BARE_KEY.finditer(body)]
    assert found == [b"{7:", b'"b"', b",8:", text[:-1] if end == b"\\" else text]


@pytest.mark.parametrize(
    "read",
    [
        decode_version,
        decode_queues,
        decode_body,
        decode_topics,
        lambda body: decode_announcement(body, compressed=False, bytes_max=MAX),
        lambda body: decode_announcement(deflated(mappings=(body,)), compressed=True, bytes_max=1 << 21),
    ],
)
def test_a_body_of_quotes_that_is_never_closed_is_refused(read: Callable[[bytes], object]) -> None:
    """As large as a frame may be; it would never end if each of them were the beginning of a text."""
    with pytest.raises(PeerError):
        read(b'{"a":"' + b'\\"' * (1 << 19))


def test_a_deflated_registration_is_read() -> None:
    """Java's form of words; attributes with a space in them are lost, as there."""
    body = deflated(
        b't 3 2 6 MULTI_TAG {"a":"b"}',
        b'u 1 1 4 SINGLE_TAG {"a":"b c"}',
        b"v 1 1 4 SINGLE_TAG",
        filters=b'["f"]',
        mappings=(b'{"topic":"t","bname":"b","currIdMap":{0:0}}',),
    )
    read = decode_announcement(body, compressed=True, bytes_max=MAX)
    table = read.topic_config_serialize_wrapper
    first = table.topic_config_table["t"]
    assert (first.read_queue_nums, first.write_queue_nums, first.perm, first.topic_filter_type) == (
        3,
        2,
        6,
        "MULTI_TAG",
    )
    assert [one.attributes for one in table.topic_config_table.values()] == [{"a": "b"}, None, None]
    assert list(table.topic_queue_mapping_info_map) == ["t"]
    assert read.filter_server_list == ("f",)
    before_5 = decode_announcement(deflated(mappings=None), compressed=True, bytes_max=MAX)
    assert before_5.topic_config_serialize_wrapper.topic_queue_mapping_info_map == {}


def test_what_comes_out_of_a_deflated_registration_is_bounded() -> None:
    """A few bytes that become many are refused before they are there."""
    body = deflated(b"t 1 1 1 SINGLE_TAG" + b" " * (1 << 20))
    assert len(body) < 2000
    with pytest.raises(PeerError, match="more than 65536 bytes come out of it"):
        decode_announcement(body, compressed=True, bytes_max=MAX)


def number(value: int) -> bytes:
    """As a list's length is written in the deflated form."""
    return struct.pack(">i", value)


def listed(topics: bytes, filters: bytes = b"[]", mappings: bytes = b"") -> bytes:
    """A deflated registration whose lists are as they are written here."""
    return zlib.compress(number(len(VERSION)) + VERSION + topics + number(len(filters)) + filters + mappings)


def test_the_first_mapping_that_is_none_ends_a_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count is four bytes, and mappings of no bytes are four each: a small frame may list two million of them."""
    parts: list[bytes] = []
    part = name_server._Inflated.part

    def counted(data: name_server._Inflated) -> bytes:
        parts.append(part(data))
        return parts[-1]

    monkeypatch.setattr(name_server._Inflated, "part", counted)
    with pytest.raises(PeerError, match="mapping: "):
        decode_announcement(
            listed(number(0), mappings=number(100) + number(0) * 100), compressed=True, bytes_max=MAX, items_max=100
        )
    assert parts == [VERSION, b"[]", b""]


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (listed(number(4) + (number(9) + b"a 1 1 6 x") * 4), "4 topics, at most 3"),
        (listed(number(-1)), "-1 topics, at most 3"),
        (listed(number(0), mappings=number(4) + number(2) + b"{}"), "4 mappings, at most 3"),
        (listed(number(0), mappings=number(-1)), "-1 mappings, at most 3"),
        (listed(number(0), json.dumps(["aa"] * 65).encode()), "65 filter servers, at most 64"),
        (listed(number(0), json.dumps(["a" * 2049] * 2).encode()), "4098 characters of filter servers, at most 4096"),
        (listed(number(0), b"[" + b" " * 8192 + b"]"), "8194 bytes of filter servers, at most 8192"),
    ],
)
def test_lists_of_a_deflated_registration_are_counted(body: bytes, remark: str) -> None:
    """Before they are read, one topic that is listed often as well."""
    with pytest.raises(PeerError, match=f"registration: {remark} are taken"):
        decode_announcement(body, compressed=True, bytes_max=MAX, items_max=3)


@pytest.mark.parametrize(
    ("content", "remark"),
    [
        ({"filterServerList": ["aa"] * 65}, "65 filter servers"),
        ({"filterServerList": ["a" * 2049] * 2}, "4098 characters of filter servers"),
        (
            {"topicConfigSerializeWrapper": {"topicQueueMappingInfoMap": {str(one): 0 for one in range(4)}}},
            "4 mappings",
        ),
    ],
)
def test_lists_of_a_plain_registration_are_counted(content: dict[str, object], remark: str) -> None:
    """In JSON there is as much as in the deflated form, and no more."""
    with pytest.raises(PeerError, match=f"registration: {remark}, at most"):
        decode_announcement(json.dumps(content).encode(), compressed=False, bytes_max=MAX, items_max=3)


@pytest.mark.parametrize(
    "body", [deflated(b"t 1 1"), deflated(b"t x 1 6 SINGLE_TAG"), zlib.compress(b"\x7f\xff\xff\xff")]
)
def test_a_broken_deflated_registration_is_refused_by_name(body: bytes) -> None:
    """Not enough words, no number, a part longer than all."""
    with pytest.raises(PeerError, match="registration: "):
        decode_announcement(body, compressed=True, bytes_max=MAX)


@pytest.mark.parametrize("number", ["x", "", "1_0", "\N{ARABIC-INDIC DIGIT FOUR}", "2147483648", "1" + "0" * 30])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_number_that_java_cannot_read_is_in_no_route(place: int, number: str) -> None:
    """Queues and permission have 32 bits and plain digits in the deflated form, too."""
    words = ["t", "4", "4", "6", "SINGLE_TAG"]
    words[place] = number
    with pytest.raises(PeerError, match="is no topic"):
        decode_announcement(deflated(" ".join(words).encode()), compressed=True, bytes_max=MAX)


@given(st.binary(max_size=200), st.booleans())
def test_whatever_comes_only_a_peer_error_leaves(body: bytes, squeezed: bool) -> None:
    """Bytes of any kind, in each place where a body is read."""
    inputs = zlib.compress(body) if squeezed else body
    for read in (
        lambda: decode_announcement(inputs, compressed=squeezed, bytes_max=MAX),
        lambda: decode_topics(body),
        lambda: decode_version(body),
        lambda: decode_queues(body),
    ):
        try:
            read()
        except PeerError:
            continue


def test_a_route_of_nothing_has_no_queues() -> None:
    """217 without a body, or with a null in it."""
    assert decode_queues(b"") == decode_queues(b'{"queueDatas":null}') == ()
