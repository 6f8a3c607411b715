"""The remoting codec: frames, both header forms, Java's lenient rules, and only declared errors."""

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.errors import PeerError
from quorate.wire import remoting
from quorate.wire.remoting import (
    HEADER_BYTES_MAX,
    JAVA_FRAME_BYTES_MAX,
    REQUEST_TYPES,
    ApplyBrokerIdRequest,
    ElectMasterRequest,
    Frame,
    FrameSplitter,
    HeaderType,
    HeartbeatRequest,
    MalformedFrameError,
    Message,
    MetadataRequest,
    OtherRequest,
    OversizeFrameError,
    RegisterBrokerRequest,
    ReplicaInfoRequest,
    code_of,
    decode_body,
    decode_header,
    decode_request,
    decode_response,
    encode_request,
    read_fields,
)
from quorate.wire.remoting_headers import (
    ApplyBrokerIdFields,
    BrokerNameFields,
    ElectMasterFields,
    HeartbeatFields,
    MetadataReplyFields,
    NextBrokerIdReplyFields,
    RegisterBrokerFields,
    ReplicaInfoReplyFields,
    RequestCode,
    SyncStateSetBody,
    is_true,
)

GOLDEN = Path(__file__).resolve().parents[2] / "contract" / "golden" / "controller-traffic.jsonl"
BOTH = (HeaderType.JSON, HeaderType.BINARY)


def golden() -> list[dict[str, Any]]:
    """The recorded traffic, a line each."""
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def framed(header: bytes, body: bytes = b"", header_type: int = 0) -> bytes:
    """A frame by hand, with none of the code under test."""
    return struct.pack(">II", 4 + len(header) + len(body), header_type << 24 | len(header)) + header + body


def one(data: bytes) -> Frame:
    """The only frame in some bytes."""
    frames = FrameSplitter().feed(data)
    assert len(frames) == 1
    return frames[0]


def json_frame(**header: object) -> Frame:
    """A frame with this JSON header."""
    return Frame(HeaderType.JSON, json.dumps(header).encode(), b"")


def test_every_recorded_header_is_understood() -> None:
    """What stock brokers and Java controllers said is read as meant, and the same in both of our encodings."""
    records = golden()
    assert len(records) == 134
    for record in records:
        said = json.loads(record["header"])
        body = record["body"].encode()
        frame = one(framed(record["header"].encode(), body))
        assert frame.body == body
        header = decode_header(frame)
        assert (header.code, header.opaque, header.flag) == (said["code"], said["opaque"], said["flag"])
        assert header.fields == said.get("extFields", {})
        assert header.remark == said.get("remark")
        if record["kind"] != "response":
            ours = Message(said["code"], header.fields, flag=said["flag"], version=said["version"], body=body)
            decoded = decode_request(frame)
            assert type(decoded) is REQUEST_TYPES[record["request_code"]]
            for header_type in BOTH:
                assert decode_request(one(ours.frame(header_type, said["opaque"]))) == decoded


def test_recorded_headers_take_the_fast_path() -> None:
    """Requests of stock peers never need the lenient decoder."""
    for record in golden():
        if record["kind"] != "response":
            assert remoting._fast.decode(record["header"].encode()) == decode_request(
                Frame(HeaderType.JSON, record["header"].encode(), b"")
            )


def test_binary_example_of_the_reference() -> None:
    """The documented binary GET_REPLICA_INFO frame, byte for byte."""
    data = bytes.fromhex(
        "00000031 0100002d 03ec 00 01df 00000007 00000000 00000000 00000018"
        "000a 62726f6b65724e616d65 00000008 62726f6b65722d61"
    )
    request = decode_request(one(data))
    assert request == ReplicaInfoRequest(opaque=7, version=479, fields=BrokerNameFields("broker-a"))
    ours = encode_request(1004, 7, BrokerNameFields("broker-a"), header_type=HeaderType.BINARY, version=479)
    assert ours == data[:10] + b"\x03" + data[11:], "only the language differs: PYTHON"


@pytest.mark.parametrize("header_type", BOTH)
def test_a_response_keeps_code_remark_fields_and_body(header_type: HeaderType) -> None:
    """What the asker reads is what was answered; bit 0 of the flag says it is an answer."""
    message = Message(2007, {"a": 'ä"\\'}, remark="nein\n", body=b"{}")
    frame = one(message.frame(header_type, -5))
    response = decode_response(frame)
    assert (response.code, response.opaque, response.remark) == (2007, -5, "nein\n")
    assert (response.fields, response.body) == ({"a": 'ä"\\'}, b"{}")
    assert decode_header(frame).flag == 1


def test_a_response_without_fields_has_no_ext_fields_key() -> None:
    """Java omits what is null; so do we."""
    header = json.loads(one(Message(0).frame(HeaderType.JSON, 3)).header)
    assert header == {
        "opaque": 3, "code": 0, "flag": 1, "version": 0, "language": "PYTHON", "serializeTypeCurrentRPC": "JSON",
    }  # fmt: skip


def test_field_values_are_always_text() -> None:
    """Numbers and booleans of a custom header travel as text; None is absent."""
    message = Message(0, MetadataReplyFields(group="g", is_leader=False, peers="p"))
    assert message.fields == {"group": "g", "isLeader": "false", "peers": "p"}
    assert Message(0, ReplicaInfoReplyFields(None, None, 0)).fields == {"masterEpoch": "0"}


def test_request_code_names_match_the_request_types() -> None:
    """Every typed request has a name among Java's, and code_of gives its number back."""
    for code, kind in REQUEST_TYPES.items():
        assert RequestCode(code).name
        assert code_of(kind()) == code
    assert code_of(decode_request(json_frame(code=4711))) == 4711


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("", None), (" 7", None), ("7 ", None), ("x", None), ("7.5", None),
        ("0x7", None), (str(2**63 - 1), 2**63 - 1), (str(2**63), None), (str(-(2**63)), -(2**63)), ("9" * 5000, None),
        (7, 7), (True, None), (None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("header_type", BOTH)
def test_numbers_are_read_as_java_does(written: object, read: int | None, header_type: HeaderType) -> None:
    """A number that cannot be parsed keeps the field's default; nothing is rejected."""
    fields = {"appliedBrokerId": written, "clusterName": "c"}
    if header_type is HeaderType.JSON:
        request = decode_request(json_frame(code=1013, opaque=1, extFields=fields))
    elif not isinstance(written, str):
        return
    else:
        request = decode_request(one(encode_request(1013, 1, fields, header_type=header_type)))  # type: ignore[arg-type]
    assert request == ApplyBrokerIdRequest(opaque=1, fields=ApplyBrokerIdFields("c", None, read))


def test_32_bit_fields_do_not_take_64_bits() -> None:
    """An ``int`` of Java beyond 32 bits is unparsable, so it keeps its default."""
    request = decode_request(json_frame(code=904, extFields={"epoch": str(2**31), "brokerId": "1"}))
    assert isinstance(request, HeartbeatRequest)
    assert request.fields == HeartbeatFields(broker_id=1)


@pytest.mark.parametrize("text", ["true", "TRUE", "True"])
def test_true_is_true_in_any_case(text: str) -> None:
    """Java Boolean.parseBoolean."""
    request = decode_request(json_frame(code=1002, extFields={"designateElect": text}))
    assert isinstance(request, ElectMasterRequest)
    assert is_true(request.fields.designate_elect)


@pytest.mark.parametrize("text", ["1", "yes", "", "truex", None])
def test_anything_else_is_false(text: str | None) -> None:
    """Java Boolean.parseBoolean; a missing key is false too."""
    request = decode_request(json_frame(code=1002, extFields={"designateElect": text}))
    assert isinstance(request, ElectMasterRequest)
    assert not is_true(request.fields.designate_elect)


@pytest.mark.parametrize(
    "header", [{"code": 1005}, {"code": "1005"}, {"code": 1005, "extFields": None}, {"code": 1005, "zzz": []}]
)
def test_keys_may_be_missing_unknown_or_null(header: dict[str, object]) -> None:
    """Any order, unknown keys, missing keys, numbers written as text."""
    assert decode_request(json_frame(**header)) == MetadataRequest()


def test_missing_ext_fields_mean_defaults() -> None:
    """Java uses the default header object."""
    assert decode_request(json_frame(code=1002)) == ElectMasterRequest(fields=ElectMasterFields())
    assert decode_request(json_frame(code=1003, extFields=None)) == RegisterBrokerRequest(fields=RegisterBrokerFields())


def test_unknown_codes_are_kept_for_the_answer() -> None:
    """An unsupported request is no error of the codec."""
    request = decode_request(json_frame(code=51001, opaque=9, flag=2))
    assert isinstance(request, OtherRequest)
    assert (request.other_code, request.opaque, request.oneway) == (51001, 9, True)


@pytest.mark.parametrize(
    "header",
    [
        b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"code":"x"}', b'{"code":1e400}', b'{"code":99999999999}',
        b'{"code":1005}x', b'{"code":1004,"extFields":[]}', b'{"code":1004,"extFields":{"brokerName":{}}}',
        b'{"a":' + b"[" * 100_000, b'{"code":1004,"extFields":{"brokerName":"\xff"}}',
        b'{"opaque":"' + b"9" * 5000 + b'"}',
    ],
)  # fmt: skip
def test_a_header_that_is_no_command_is_malformed(header: bytes) -> None:
    """The one declared error, whatever the bytes are."""
    with pytest.raises(MalformedFrameError):
        decode_request(Frame(HeaderType.JSON, header, b""))


@pytest.mark.parametrize(
    "change",
    [
        slice(0, 0), slice(0, 12), slice(0, 16), slice(0, 20), slice(0, 30), slice(0, -1),
    ],
)  # fmt: skip
def test_a_truncated_binary_header_is_malformed(change: slice) -> None:
    """Every cut is noticed."""
    header = one(encode_request(1004, 7, BrokerNameFields("b"), header_type=HeaderType.BINARY)).header
    with pytest.raises(MalformedFrameError):
        decode_request(Frame(HeaderType.BINARY, header[change], b""))


@pytest.mark.parametrize("at", [13, 17])
def test_negative_lengths_in_a_binary_header_are_malformed(at: int) -> None:
    """Remark and fields cannot have a negative size."""
    header = bytearray(one(encode_request(1004, 7, BrokerNameFields("b"), header_type=HeaderType.BINARY)).header)
    header[at] = 0xFF
    with pytest.raises(MalformedFrameError):
        decode_request(Frame(HeaderType.BINARY, bytes(header), b""))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (struct.pack(">II", JAVA_FRAME_BYTES_MAX - 3, 0), OversizeFrameError),
        (struct.pack(">II", 0x7FFFFFFF, 0), OversizeFrameError),
        (struct.pack(">II", 0xFFFFFFFF, 0), MalformedFrameError),
        (struct.pack(">II", 3, 0), MalformedFrameError),
        (struct.pack(">II", 10, 7), MalformedFrameError),
        (struct.pack(">II", 10, 0x02000002), MalformedFrameError),
        (struct.pack(">II", 70_000, HEADER_BYTES_MAX + 1), OversizeFrameError),
        (struct.pack(">II", 70_000, 1 << 24 | HEADER_BYTES_MAX + 1), OversizeFrameError),
        (struct.pack(">II", 70_000, 70_000), MalformedFrameError),
        (b"GET / HTTP/1.1\r\n", OversizeFrameError),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", OversizeFrameError),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", OversizeFrameError),
        (struct.pack(">I", 0x7FFFFFFF), OversizeFrameError),
        (struct.pack(">I", 0), MalformedFrameError),
    ],
)
def test_impossible_prefixes_are_refused_before_anything_is_buffered(data: bytes, error: type[PeerError]) -> None:
    """Oversize, negative, too short for its header, a header too long, unknown type, other protocols."""
    with pytest.raises(error):
        FrameSplitter().feed(data)


def test_the_longest_header_is_taken() -> None:
    """Behind it the body may be as long as the frame is."""
    data = struct.pack(">II", 4 + HEADER_BYTES_MAX + 9, HEADER_BYTES_MAX) + bytes(HEADER_BYTES_MAX + 9)
    (frame,) = FrameSplitter().feed(data)
    assert (len(frame.header), len(frame.body)) == (HEADER_BYTES_MAX, 9)


def test_frames_before_a_broken_one_are_kept() -> None:
    """What was whole is handed over; the stream is lost after it."""
    splitter = FrameSplitter()
    assert len(splitter.feed(framed(b"{}") + struct.pack(">II", 3, 0))) == 1
    assert isinstance(splitter.error, MalformedFrameError)
    with pytest.raises(MalformedFrameError):
        splitter.feed(framed(b"{}"))


def test_the_greatest_frame_is_taken() -> None:
    """Java's limit counts the length field: total + 4 == 16 MiB passes."""
    splitter = FrameSplitter()
    assert splitter.feed(struct.pack(">II", JAVA_FRAME_BYTES_MAX - 4, 2)) == []
    (frame,) = splitter.feed(b"{}" + bytes(JAVA_FRAME_BYTES_MAX - 10))
    assert (frame.header, len(frame.body)) == (b"{}", JAVA_FRAME_BYTES_MAX - 10)


def test_a_large_frame_is_not_copied_for_every_read() -> None:
    """Chunks are kept as they come and joined once, when the frame is whole."""
    splitter = FrameSplitter()
    splitter.feed(struct.pack(">II", 4 + 1_000_000, 0))
    for _ in range(99):
        assert splitter.feed(bytes(10_000)) == []
    assert len(splitter._parts) == 100
    assert splitter.pending_bytes == 8 + 990_000
    (frame,) = splitter.feed(bytes(10_000))
    assert len(frame.body) == 1_000_000
    assert splitter.pending_bytes == 0


FRAMES = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.binary(max_size=40), st.binary(max_size=40)), min_size=1, max_size=6
)


@given(FRAMES, st.data())
def test_any_cut_of_the_stream_gives_the_same_frames(
    frames: list[tuple[int, bytes, bytes]], data: st.DataObject
) -> None:
    """Whole, byte by byte, or cut anywhere: the frames are the same, and nothing stays behind."""
    stream = b"".join(framed(header, body, kind) for kind, header, body in frames)
    expected = [Frame(HeaderType(kind), header, body) for kind, header, body in frames]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter = FrameSplitter()
    got: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += splitter.feed(stream[start:end])
    assert got == expected
    assert splitter.pending_bytes == 0


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
LONGS = st.none() | st.integers(-(2**63), 2**63 - 1)
INTS = st.none() | st.integers(-(2**31), 2**31 - 1)
LONG, INT = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
BEATS = st.builds(HeartbeatFields, TEXT, TEXT, TEXT, LONGS, INT, LONG, LONG, LONG, INT)


@given(BEATS, st.integers(-(2**31), 2**31 - 1), st.booleans(), st.sampled_from(BOTH))
def test_decode_after_encode_is_identity(
    fields: HeartbeatFields, opaque: int, oneway: bool, header_type: HeaderType
) -> None:
    """Both header forms carry every field; only the binary form cannot tell empty text from none."""
    request = decode_request(one(encode_request(904, opaque, fields, oneway=oneway, header_type=header_type)))
    assert request == HeartbeatRequest(opaque=opaque, flag=2 if oneway else 0, fields=fields)


@given(st.dictionaries(TEXT, TEXT, max_size=5), TEXT, st.binary(max_size=50), st.sampled_from(BOTH))
def test_responses_survive_both_forms(
    fields: dict[str, str], remark: str, body: bytes, header_type: HeaderType
) -> None:
    """Any text in remark and fields; empty ones vanish in the binary form, as on the Java side."""
    response = decode_response(one(Message(3, fields, remark=remark or None, body=body).frame(header_type, 1)))
    if header_type is HeaderType.BINARY:
        fields = {name: value for name, value in fields.items() if name and value}
    assert (response.fields, response.remark, response.body) == (fields, remark or None, body)


@given(st.sampled_from([0, 1]), st.binary(max_size=200))
@example(0, b'{"code":904,"extFields":{"brokerId":"1.0"}}')
def test_only_the_declared_error_leaves_the_decoder(kind: int, header: bytes) -> None:
    """Hostile headers: a request, or MalformedFrameError."""
    frame = Frame(HeaderType(kind), header, b"")
    try:
        decode_request(frame)
    except MalformedFrameError:
        return
    decode_header(frame)


@given(st.dictionaries(st.sampled_from(["brokerId", "epoch", "brokerName", "maxOffset"]), st.text(max_size=6)))
def test_both_paths_read_fields_alike(fields: dict[str, str]) -> None:
    """What the compiled decoder accepts, the lenient one reads as the same."""
    header = json.dumps({"code": 904, "extFields": fields}).encode()
    try:
        fast = remoting._fast.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    try:
        slow = read_fields(decode_header(Frame(HeaderType.JSON, header, b"")).fields, HeartbeatFields)
    except MalformedFrameError:
        pytest.fail("only one path took it")
    assert isinstance(fast, HeartbeatRequest)
    assert fast.fields == slow


def test_a_bad_body_is_malformed() -> None:
    """A sync state set without its set is refused as in Java's constructor."""
    decoder = msgspec.json.Decoder(SyncStateSetBody)
    assert decode_body(b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}', decoder) == SyncStateSetBody((1, 2), 3)
    for body in (b"", b"{}", b'{"syncStateSet":null}', b'{"syncStateSet":["x"]}', b"\xff", b"[" * 100_000):
        with pytest.raises(MalformedFrameError):
            decode_body(body, decoder)


@pytest.mark.parametrize("header_type", list(HeaderType))
def test_a_message_framed_again_is_the_same(header_type: HeaderType) -> None:
    """A message sent to many is encoded once; each frame differs in its opaque only."""
    message = Message(0, remark="done")
    first, second = one(message.frame(header_type, 7)), one(message.frame(header_type, 8))
    assert decode_response(first).opaque == 7
    assert msgspec.structs.replace(decode_response(second), opaque=7) == decode_response(first)


def test_what_is_said_of_a_header_is_in_its_flag() -> None:
    """Bit 0 marks an answer, bit 1 a request nobody answers (Java ``RemotingCommand``)."""
    kinds = [decode_header(json_frame(code=904, opaque=1, flag=flag)) for flag in (0, 1, 2)]
    assert [header.oneway for header in kinds] == [False, False, True]


def test_numbers_beyond_32_bits_are_malformed() -> None:
    """A code, opaque, flag or version that no Java int holds is refused, written as text too."""
    with pytest.raises(MalformedFrameError):
        decode_header(json_frame(code="3000000000", opaque=1))


def test_ext_fields_of_other_kinds_become_javas_text() -> None:
    """Fastjson turns truth values and numbers into text; so does the lenient path."""
    header = decode_header(json_frame(code=904, opaque=1, extFields={"a": True, "b": False, "c": 7}))
    assert header.fields == {"a": "true", "b": "false", "c": "7"}


def test_an_answer_reads_its_own_header() -> None:
    """``Response.read`` gives the custom header with Java's defaults for what is missing."""
    response = decode_response(json_frame(code=0, opaque=1, flag=1, extFields={"nextBrokerId": "3"}))
    assert response.read(NextBrokerIdReplyFields).next_broker_id == 3
