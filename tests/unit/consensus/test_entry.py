"""The bytes of an entry: what goes in comes out, and nothing else is taken for one."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.entry import (
    MAX_REPLY_BYTES,
    Entry,
    EntryFormatError,
    decode_entry,
    encode_entry,
)
from quorate.consensus.ports import MAX_ENTRY_BYTES, Term
from quorate.errors import UsageError

numbers = st.integers(0, 2**64 - 1)
texts = st.text(max_size=60)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    request_id = draw(texts)
    digest = draw(st.sampled_from([b"", bytes(range(16))])) if request_id else b""
    return Entry(
        kind=draw(st.sampled_from(["events", "groups", "membership"])),
        decided_term=Term(draw(numbers)),
        base_offset=draw(numbers),
        count=draw(st.integers(0, 2**32 - 1)),
        time_ms=draw(numbers),
        principal=draw(texts),
        cause=draw(texts),
        request_id=request_id,
        reply=draw(st.binary(max_size=MAX_REPLY_BYTES)) if request_id else b"",
        batch=draw(st.binary(max_size=500)),
        digest=digest,
        stepped=True if digest else draw(st.booleans()),
    )


SAMPLE = Entry(
    kind="events", decided_term=Term(7), base_offset=41, count=1, time_ms=1_700_000_000_000, principal="admin",
    cause="updateTopic", request_id="r-1", reply=b"\x80", batch=b"batch",
)  # fmt: skip


@given(entries())
def test_an_entry_survives_its_bytes(entry: Entry) -> None:
    """Decoding what was encoded gives the same entry."""
    assert decode_entry(encode_entry(entry)) == entry


@given(st.binary(max_size=300))
def test_noise_is_no_entry(data: bytes) -> None:
    """Any bytes decode or raise EntryFormatError, nothing else; what decodes encodes to the same bytes."""
    try:
        entry = decode_entry(data)
    except EntryFormatError:
        return
    assert encode_entry(entry) == data


def test_every_cut_and_every_extra_byte_is_noticed() -> None:
    """A shorter or longer string of bytes is not the entry."""
    data = encode_entry(SAMPLE)
    for length in range(len(data)):
        with pytest.raises(EntryFormatError):
            decode_entry(data[:length])
    with pytest.raises(EntryFormatError):
        decode_entry(data + b"\0")


def test_only_an_entry_with_a_digest_is_written_in_the_newer_format() -> None:
    """All others have the bytes they always had, but for the number; every cut and every extra byte is noticed."""
    digested = msgspec.structs.replace(SAMPLE, digest=bytes(range(16)))
    data = encode_entry(digested)
    assert (encode_entry(SAMPLE)[0], data[0]) == (3, 2)
    assert data[1:] == encode_entry(SAMPLE)[1:] + bytes(range(16))
    for wrong in (*(data[:length] for length in range(len(data))), data + b"\0"):
        with pytest.raises(EntryFormatError):
            decode_entry(wrong)


@given(st.integers(0, 43), st.integers(1, 255))
def test_a_changed_header_never_raises_anything_else(position: int, change: int) -> None:
    """A flipped byte in the header gives another entry or an EntryFormatError."""
    data = bytearray(encode_entry(SAMPLE))
    data[position] ^= change
    with contextlib.suppress(EntryFormatError):
        assert decode_entry(bytes(data)) != SAMPLE


@pytest.mark.parametrize(
    "wrong",
    [
        {"reply": b"x" * (MAX_REPLY_BYTES + 1)},
        {"request_id": "", "reply": b"x"},
        {"request_id": "", "reply": b"", "digest": bytes(16)},
        {"digest": bytes(15)},
        {"digest": bytes(16), "stepped": False},
        {"principal": "p" * 70_000},
        {"base_offset": -1},
        {"count": 2**32},
        {"decided_term": 2**64},
        {"batch": bytes(MAX_ENTRY_BYTES)},
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, object]) -> None:
    """Replies without an id, long texts, numbers out of range and entries above the limit are UsageErrors."""
    fields = {name: getattr(SAMPLE, name) for name in Entry.__struct_fields__} | wrong
    with pytest.raises(UsageError):
        encode_entry(Entry(**fields))


def test_the_limit_is_the_callers() -> None:
    """Both directions refuse more than ``max_bytes``."""
    data = encode_entry(SAMPLE)
    assert decode_entry(data, len(data)) == SAMPLE
    with pytest.raises(EntryFormatError):
        decode_entry(data, len(data) - 1)
    with pytest.raises(UsageError):
        encode_entry(SAMPLE, len(data) - 1)


def test_an_unknown_version_or_kind_is_refused() -> None:
    """A later format is an error, not a guess."""
    data = bytearray(encode_entry(SAMPLE))
    for position, value in ((0, 0), (0, 2), (0, 4), (1, 0), (1, 9)):
        changed = data.copy()
        changed[position] = value
        with pytest.raises(EntryFormatError):
            decode_entry(bytes(changed))


def test_text_that_is_not_utf8_is_refused() -> None:
    """Bytes that are no text in a text field are a format error."""
    data = bytearray(encode_entry(SAMPLE))
    data[data.index(b"admin")] = 0xFF
    with pytest.raises(EntryFormatError):
        decode_entry(bytes(data))
