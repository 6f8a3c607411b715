"""Fields of heads are what hpack says they are, whoever reads them."""

from collections.abc import Sequence
from typing import cast

import pytest
from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError, OversizedHeaderListError
from hypothesis import given
from hypothesis import strategies as st

from quorate.gateway.grpc.fields import FIELDS_MAX, FieldReader
from quorate.gateway.grpc.heads import Fields
from quorate.wire.http2 import Http2Code, Http2Error, literals, table_sizes

CALL = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/etcdserverpb.KV/Put"),
    (b":authority", b"127.0.0.1:9800"),
    (b"content-type", b"application/grpc"),
    (b"user-agent", b"grpc-go/1.65.0"),
    (b"te", b"trailers"),
]
NAMES = st.sampled_from([b":path", b"te", b"grpc-timeout", b"hasleader", b"user-agent", b"x" * 200])
VALUES = st.one_of(st.sampled_from([b"", b"trailers", b"4999876u", b"v" * 127, b"w" * 300]), st.binary(max_size=20))
HEADS = st.lists(st.tuples(NAMES, VALUES), max_size=6)


def plain(decoder: Decoder, piece: bytes) -> Fields | Http2Code:
    """What hpack alone makes of it."""
    try:
        return cast(Fields, decoder.decode(piece, raw=True))
    except OversizedHeaderListError:
        return Http2Code.ENHANCE_YOUR_CALM
    except (HPACKError, ValueError, IndexError):
        return Http2Code.COMPRESSION_ERROR


def agree(reader: FieldReader, decoder: Decoder, pieces: Sequence[bytes]) -> None:
    """Both read all of them alike, up to one that cannot be read; their tables are the same."""
    for piece in pieces:
        wanted = plain(decoder, piece)
        if isinstance(wanted, Http2Code):
            with pytest.raises(Http2Error) as refused:
                reader.read(piece)
            assert refused.value.code is wanted
            return
        assert list(reader.read(piece)) == [tuple(field) for field in wanted]
        ours, theirs = reader._decoder.header_table, decoder.header_table
        assert (ours.dynamic_entries, ours.maxsize) == (theirs.dynamic_entries, theirs.maxsize)


@given(st.lists(st.tuples(HEADS, st.booleans(), st.sampled_from([None, 0, 100, 4096])), max_size=8))
def test_heads_of_an_encoder_are_read_as_hpack_reads_them(heads: list[tuple[Fields, bool, int | None]]) -> None:
    """Whatever its table holds, is told to take, or loses."""
    encoder, pieces = Encoder(), []
    for fields, huffman, size in heads:
        if size is not None:
            encoder.header_table_size = size
        pieces.append(encoder.encode(fields, huffman=huffman))
    agree(FieldReader(), Decoder(max_header_list_size=FIELDS_MAX), pieces)


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_are_read_as_hpack_reads_them(pieces: list[bytes]) -> None:
    """Or refused as it refuses them."""
    agree(FieldReader(), Decoder(max_header_list_size=FIELDS_MAX), [one for one in pieces if table_sizes(one) <= 2])


def test_a_head_that_tells_another_deadline_each_time_is_looked_up() -> None:
    """hpack reads the first, which fills the table, and little of those that follow: names that fell out of it."""
    reader, encoder = FieldReader(), Encoder()
    calls = [[*CALL, (b"grpc-timeout", b"%du" % (4999876 - number)), (b"hasleader", b"true")] for number in range(300)]
    pieces = [encoder.encode(call) for call in calls]
    assert list(reader.read(pieces[0])) == calls[0]
    decode, asked = reader._decoder.decode, list[bytes]()

    def counting(data: bytes, raw: bool = False) -> object:
        asked.append(data)
        return decode(data, raw)

    reader._decoder.decode = counting  # type: ignore[method-assign,assignment]
    for call, piece in zip(calls[1:], pieces[1:], strict=True):
        assert list(reader.read(piece)) == call
    assert len(asked) < 10


@pytest.mark.parametrize("fields", [200, 8000])
def test_a_head_that_is_too_large_once_it_is_read_is_refused(fields: int) -> None:
    """A byte can stand for a long field: what it stands for counts."""
    reader = FieldReader()
    reader.read(b"\x40" + literals([(b"long", b"v" * 100)])[1:])
    with pytest.raises(Http2Error) as refused:
        reader.read(b"\xbe" * fields)
    assert refused.value.code is Http2Code.ENHANCE_YOUR_CALM


def test_a_table_changes_its_size_before_a_head_alone() -> None:
    """Between fields it may not (RFC 7541, section 4.2)."""
    reader = FieldReader()
    with pytest.raises(Http2Error) as refused:
        reader.read(b"\x82\x20\x84")
    assert refused.value.code is Http2Code.COMPRESSION_ERROR
