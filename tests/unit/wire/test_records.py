"""Record batches: what aiokafka would build, readable by stock readers, and nothing damaged is read."""

import struct
import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate.events import DecodeError
from quorate.wire.records import BatchError, BatchInfo, read_field, scan
from tests.batches import Record, decode_batch, encode_batch, patch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own resources the old way.
    from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

BYTES = st.binary(max_size=40) | st.binary(min_size=64, max_size=70) | st.just(b"x" * 9000)
TIMES = st.integers(1_600_000_000_000, 1_900_000_000_000) | st.integers(0, 10)
HEADERS = st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=4).map(tuple)
RECORDS = st.lists(st.builds(Record, st.none() | BYTES, st.none() | BYTES, HEADERS, TIMES), min_size=1, max_size=4)
OFFSETS = st.integers(0, 2**62)
EPOCHS = st.integers(-1, 2**31 - 1)

ONE = Record(b"key", b"value", (("type", b"T"),), 1_700_000_000_000)
BATCH = encode_batch((ONE, ONE), base_offset=10, leader_epoch=3)


def oracle(records: list[Record]) -> bytes:
    """The batch as aiokafka builds it: base offset 0, no leader epoch."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    for delta, record in enumerate(records):
        assert builder.append(delta, record.time_ms, record.key, record.value, list(record.headers)) is not None
    return bytes(builder.build())


@given(RECORDS)
def test_a_batch_is_aiokafkas_byte_for_byte(records: list[Record]) -> None:
    """Whatever the records hold, the batch is what aiokafka's builder makes of them."""
    assert encode_batch(records) == oracle(records)


@given(RECORDS, OFFSETS, EPOCHS)
def test_decoding_undoes_encoding(records: list[Record], base: int, epoch: int) -> None:
    """The records come back equal, numbered from the base offset."""
    batch = encode_batch(records, base_offset=base, leader_epoch=epoch)
    expected = tuple(
        Record(record.key, record.value, record.headers, record.time_ms, base + delta)
        for delta, record in enumerate(records)
    )
    assert decode_batch(batch) == expected


@given(RECORDS, OFFSETS)
def test_stock_readers_read_our_batches(records: list[Record], base: int) -> None:
    """Both aiokafka's and kafka-python's readers accept the CRC and find the same records."""
    batch = encode_batch(records, base_offset=base, leader_epoch=7)
    for reader in (DefaultRecordBatch(bytearray(batch)), KafkaPythonBatch(batch)):
        assert reader.validate_crc()
        found = [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in reader]
        assert found == [(base + i, r.time_ms, r.key, r.value, r.headers) for i, r in enumerate(records)]


@given(RECORDS, OFFSETS, EPOCHS)
def test_patching_is_encoding_at_that_place(records: list[Record], base: int, epoch: int) -> None:
    """Base offset and leader epoch lie outside the CRC: patched bytes equal bytes encoded there."""
    assert patch(encode_batch(records), base, epoch) == encode_batch(records, base_offset=base, leader_epoch=epoch)


@given(st.lists(st.tuples(RECORDS, OFFSETS, EPOCHS), max_size=4))
def test_scanning_finds_each_batch_without_its_records(batches: list[tuple[list[Record], int, int]]) -> None:
    """Batches one after the other are told apart by their headers alone."""
    blobs = [encode_batch(records, base_offset=base, leader_epoch=epoch) for records, base, epoch in batches]
    expected = [
        BatchInfo(base, base + len(records) - 1, len(blob), epoch, max(r.time_ms for r in records), len(records))
        for blob, (records, base, epoch) in zip(blobs, batches, strict=True)
    ]
    assert list(scan(b"".join(blobs))) == expected


@given(RECORDS, st.data())
def test_a_cut_batch_is_refused(records: list[Record], data: st.DataObject) -> None:
    """A batch cut anywhere is a BatchError, for the reader and for the scan."""
    batch = encode_batch(records)
    cut = batch[: data.draw(st.integers(1, len(batch) - 1))]
    with pytest.raises(BatchError):
        decode_batch(cut)
    with pytest.raises(BatchError):
        list(scan(cut))


@given(RECORDS, st.data())
def test_a_flipped_bit_under_the_crc_is_noticed(records: list[Record], data: st.DataObject) -> None:
    """No single flipped bit from the magic byte on goes unnoticed."""
    batch = bytearray(encode_batch(records))
    at = data.draw(st.integers(16, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BatchError):
        decode_batch(bytes(batch))


@given(st.binary(max_size=120))
def test_noise_behind_a_sound_header_raises_nothing_else(noise: bytes) -> None:
    """Random records under a right CRC are records or a BatchError."""
    try:
        decode_batch(forged(noise))
    except BatchError:
        return


def forged(body: bytes, *, attributes: int = 0, delta: int = 0, count: int = 1, magic: int = 2, more: int = 0) -> bytes:
    """A batch whose CRC is right whatever else is wrong."""
    import google_crc32c

    checked = struct.pack(">hiqqqhii", attributes, delta, 0, 0, -1, -1, -1, count) + body
    head = struct.pack(">qiib", 0, len(checked) + 9 + more, -1, magic)
    return head + int(google_crc32c.value(checked)).to_bytes(4, "big") + checked


SOUND = b"\x0c\x00\x00\x00\x01\x01\x00"  # Length 6: attributes, time, offset, null, null, no headers.


def test_the_forger_can_make_a_sound_batch() -> None:
    """The refusals below are due to what each changes, not to the forger."""
    assert decode_batch(forged(SOUND)) == (Record(None, None, (), 0, 0),)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(b"", id="empty"),
        pytest.param(forged(SOUND, attributes=1), id="compressed"),
        pytest.param(forged(SOUND, attributes=0x10), id="transactional"),
        pytest.param(forged(SOUND, attributes=0x20), id="control"),
        pytest.param(forged(SOUND, magic=1), id="older magic"),
        pytest.param(forged(SOUND, delta=1), id="a gap at the end"),
        pytest.param(forged(SOUND * 2, delta=1, count=2), id="two records of one offset"),
        pytest.param(forged(b"", count=0, delta=-1), id="no records"),
        pytest.param(forged(SOUND, more=-62), id="length below the header"),
        pytest.param(forged(SOUND, more=1), id="length beyond the end"),
        pytest.param(forged(SOUND) + b"x", id="bytes after the batch"),
        pytest.param(forged(SOUND + b"x"), id="bytes after the last record"),
        pytest.param(forged(b"\x0e\x00\x00\x00\x01\x01\x00\x00"), id="a record longer than its parts"),
        pytest.param(forged(b"\x0c\x00\x00\x00\x03\x01\x00"), id="a length of -2"),
        pytest.param(forged(b"\x0c\x00\x00\x00\x01\x01\x7e"), id="more headers than bytes"),
        pytest.param(forged(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01"), id="a header without a name"),
        pytest.param(forged(b"\x14\x00\x00\x00\x01\x01\x02\x02\xff\x02x"), id="a name that is not UTF-8"),
    ],
)
def test_what_we_would_not_write_is_refused(batch: bytes) -> None:
    """Each kind of batch that is not ours is a BatchError, its CRC right or not."""
    with pytest.raises(BatchError):
        decode_batch(batch)


def test_a_batch_that_cannot_be_is_not_written() -> None:
    """No records, and numbers beyond their fields, are the caller's mistake."""
    with pytest.raises(UsageError):
        encode_batch(())
    with pytest.raises(UsageError):
        encode_batch((ONE,), base_offset=2**63)
    with pytest.raises(UsageError):
        patch(BATCH, -(2**63) - 1, 0)
    with pytest.raises(UsageError):
        patch(BATCH, 0, 2**31)
    with pytest.raises(BatchError):
        patch(BATCH[:60], 0, 0)


@pytest.mark.parametrize("data", [b"\x03", b"\x04a", b"\x80\x02a"], ids=["-2", "2 of 1", "128 of 1"])
def test_a_field_that_cannot_be_is_refused(data: bytes) -> None:
    """A negative length other than null's, and one beyond the end, in one byte or several."""
    with pytest.raises(DecodeError):
        read_field(data, 0)
