"""HTTP/2's frames as bytes: what is written is what hpack and the RFC read, and nothing wrong passes."""

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from quorate.wire import http2
from quorate.wire.http2 import Http2Code, Http2Error


@given(st.integers(0, 9), st.integers(0, 255), st.integers(0, http2.STREAM_MAX), st.binary(max_size=300))
def test_a_frame_is_read_as_it_was_written(kind: int, flags: int, stream: int, payload: bytes) -> None:
    """Length, kind, flags and stream; a length that the kind does not have is refused."""
    said = b"??" + http2.frame(kind, flags, stream, payload)
    sizes = {http2.PRIORITY: 5, http2.RST_STREAM: 4, http2.PING: 8, http2.WINDOW_UPDATE: 4}
    if len(payload) != sizes.get(kind, len(payload)):
        with pytest.raises(Http2Error) as error:
            http2.frame_head(said, 2)
        assert error.value.code == Http2Code.FRAME_SIZE_ERROR
    else:
        assert http2.frame_head(said, 2) == (len(payload), kind, flags, stream)
        assert said[2 + http2.HEAD_SIZE :] == payload


def test_the_bit_before_a_stream_s_number_is_not_looked_at() -> None:
    """Section 4.1: it is reserved."""
    assert http2.frame_head(b"\x00\x00\x00\x00\x00\xff\xff\xff\xff", 0)[3] == http2.STREAM_MAX


def test_a_long_frame_is_refused() -> None:
    """One byte more than both ends must take."""
    assert http2.frame_head(http2.frame(0, 0, 1, bytes(http2.FRAME_MAX)), 0)[0] == http2.FRAME_MAX
    with pytest.raises(Http2Error):
        http2.frame_head(http2.frame(0, 0, 1, bytes(http2.FRAME_MAX + 1)), 0)


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=400), st.binary(max_size=20_000)), max_size=4))
def test_literals_are_read_by_hpack(fields: list[tuple[bytes, bytes]]) -> None:
    """Of any length, and its table stays empty."""
    decoder = Decoder(max_header_list_size=1 << 20)
    assert list(decoder.decode(http2.literals(fields), raw=True)) == fields
    assert not decoder.header_table.dynamic_entries


@given(st.dictionaries(st.integers(7, 0xFFFF), st.integers(0, 0xFFFFFFFF)))
def test_settings_are_read_as_they_were_written(values: dict[int, int]) -> None:
    """Those that nobody knows too."""
    assert http2.read_settings(http2.settings(values)[http2.HEAD_SIZE :]) == values


def test_of_a_setting_that_comes_twice_the_last_holds() -> None:
    """Section 6.5.3: in their order."""
    twice = http2.settings({3: 1})[http2.HEAD_SIZE :] + http2.settings({3: 2})[http2.HEAD_SIZE :]
    assert http2.read_settings(twice) == {3: 2}


@given(st.binary(max_size=50), st.integers(0, 255))
def test_padding_is_taken_off(payload: bytes, padding: int) -> None:
    """Or there is more of it than there may be."""
    said = bytes((padding,)) + payload + bytes(padding)
    assert http2.unpadded(said, http2.PADDED) == payload
    assert http2.unpadded(said, 0) == said
    with pytest.raises(Http2Error):
        http2.unpadded(bytes((padding,)) + bytes(max(padding - 1, 0)), http2.PADDED) if padding else http2.unpadded(
            b"", http2.PADDED
        )


def test_fields_come_behind_a_priority() -> None:
    """Which is passed over, unless the stream depends on itself or it breaks off."""
    flags = http2.WITH_PRIORITY
    assert http2.fields_of(bytes((0, 0, 0, 3, 9)) + b"xyz", flags, 1) == b"xyz"
    for payload in (bytes((0x80, 0, 0, 1, 9)), bytes(4)):
        with pytest.raises(Http2Error):
            http2.fields_of(payload, flags, 1)


@pytest.mark.parametrize(
    ("fields", "changes"),
    [(b"", 0), (b"\x88\x20", 0), (b"\x20\x88", 1), (b"\x3f\xe1\x1f\x20\x3f\x80", 3), (b"\x3f", 1)],
)
def test_changes_of_the_table_are_counted(fields: bytes, changes: int) -> None:
    """Only those at the beginning, whatever their length."""
    assert http2.table_sizes(fields) == changes
