"""The native leaf does what the Python functions do: to the byte, to the type, and to the letter of an error."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.entry import _KINDS, MAX_REPLY_BYTES, entry_bytes, entry_parts
from quorate.consensus.journal.frames import encode_frame
from quorate.consensus.ports import TERM_MAX
from quorate.consensus.transport.codec import ENTRY_BYTES_MAX, encode_entries, split_entries
from quorate.leaf import SOURCE
from quorate.wire.avro import stamped_batch, stamped_records
from tests.unit.leaf.kit import Call, DeclinedError, alone, both, compiled, library, outcome, pure, references

Function = Callable[..., Any]
U32, I64, U64 = 2**32 - 1, 2**63 - 1, 2**64 - 1
BYTES = st.binary(max_size=300) | st.builds(
    bytes.__mul__, st.binary(min_size=1, max_size=3), st.sampled_from([99, 9999])
)
TEXT = st.text(max_size=20) | st.builds(str.__mul__, st.text(max_size=2), st.sampled_from([70, 900]))


def numbers(most: int) -> st.SearchStrategy[int]:
    """Up to there, its edges often."""
    return st.sampled_from([0, 1, 127, 128, most - 1, most]).filter(lambda value: value <= most) | st.integers(0, most)


def entries(term_max: int = U64) -> st.SearchStrategy[list[tuple[int, int, bytes]]]:
    """As a leader sends them: of one byte there is none."""
    entry = BYTES.filter(lambda data: len(data) != 1)
    return st.lists(st.tuples(numbers(U64), numbers(term_max), entry), max_size=4)


def split(sent: list[tuple[int, int, bytes]], ahead: bytes = b"", index: int = 7) -> Call:
    """The call that takes them apart again."""
    frame = ahead + pure(encode_entries)(sent)
    return frame, len(ahead), len(sent), index, ENTRY_BYTES_MAX, TERM_MAX


def entry(*call: Any) -> Call:
    """A call of ``entry_bytes`` that could be an entry's: a reply and a digest are kept with a request id only."""
    numbered, (who, why, which, reply, batch, digest) = call[:6], call[6:]
    digest = digest.ljust(16, b"d") if numbered[0] == 2 and which else b""
    return (
        numbered[0] if digest or numbered[0] != 2 else 3,
        *numbered[1:],
        who,
        why,
        which,
        which and reply,
        batch,
        digest,
    )


def parts_of(call: Call) -> Call:
    """The call that reads it."""
    return (
        pure(entry_bytes)(*(part or b"" if place in {9, 11} else part for place, part in enumerate(call))),
        U32,
        MAX_REPLY_BYTES,
        _KINDS,
    )


def batched(stamp: Call, events: list[tuple[str, bytes, bytes]]) -> Call:
    """A call of ``stamped_batch``."""
    return (*stamp, *(list(column) for column in zip(*events, strict=True)))


def records(call: Call) -> Call:
    """The call that reads it."""
    return pure(stamped_batch)(*call), *call[:6]


ENTRIES = st.builds(
    entry,
    *(st.integers(1, 3), st.integers(1, 3), numbers(U32), numbers(U64), numbers(U64), numbers(U64)),
    *(TEXT, TEXT, TEXT, st.binary(max_size=MAX_REPLY_BYTES), BYTES, st.binary(max_size=16)),
).map(lambda call: tuple(b"" if place == 9 and not part else part for place, part in enumerate(call)))
BATCHES = st.builds(
    batched,
    st.tuples(numbers(I64 - 5), numbers(2**31 - 1), numbers(I64), TEXT, TEXT, TEXT),
    st.lists(st.tuples(TEXT, BYTES, BYTES), min_size=1, max_size=3),
)
CASES: dict[Function, st.SearchStrategy[Call]] = {
    encode_frame: st.tuples(
        numbers(U32), numbers(255), numbers(U64), numbers(65_535), numbers(U64), numbers(U64), BYTES
    ),
    encode_entries: st.tuples(entries() | entries().map(tuple)),
    split_entries: st.builds(split, entries(TERM_MAX), st.binary(max_size=50), numbers(2**62)),
    entry_bytes: ENTRIES,
    entry_parts: ENTRIES.map(parts_of),
    stamped_batch: BATCHES,
    stamped_records: BATCHES.map(records),
}
"""Each function, and calls that it takes as they stand."""
PAYLOAD = b"payload" * 9
WRITTEN = entry(2, 1, 1, 7, 8, 9, "principal", "cause", "id", b"reply", PAYLOAD, b"digest")
BATCH = batched((5, 6, 1_700_000_000_000, "principal", "cause", ""), [("Type", b"key", PAYLOAD), ("Other", b"k", b"v")])
ONE: dict[Function, Call] = {
    encode_frame: (1, 2, 3, 4, 5, 6, PAYLOAD),
    encode_entries: ([(1, 1, PAYLOAD)],),
    split_entries: split([(0, 3, PAYLOAD), (0, 4, b"more")]),
    entry_bytes: WRITTEN,
    entry_parts: parts_of(WRITTEN),
    stamped_batch: BATCH,
    stamped_records: records(BATCH),
}
"""One of them."""
ODD = st.sampled_from(
    [
        None,
        True,
        -1,
        2**31,
        2**32,
        2**63,
        2**64,
        1.0,
        "",
        "t" * 65_536,
        "\ud800",
        b"",
        b"x",
        bytearray(b"x"),
        [()],
        [(1, 1)],
        ["\ud800"],
    ]
)
each = pytest.mark.parametrize("function", CASES, ids=lambda function: pure(function).__name__)


@each
@given(st.data())
def test_what_is_taken_is_made_as_python_makes_it(function: Function, data: st.DataObject) -> None:
    """An ordinary call is not handed on, and its answer is the reference's to the byte and the type."""
    call = data.draw(CASES[function])
    assert outcome(alone(function), call) == outcome(pure(function), call)


@each
@given(st.data())
def test_what_is_not_taken_is_python_s(function: Function, data: st.DataObject) -> None:
    """Other types, numbers out of range, too many or too few of them: the reference's answer, or its very error."""
    call = list(data.draw(CASES[function]))
    call[data.draw(st.integers(0, len(call) - 1))] = data.draw(ODD)
    for odd in (tuple(call), tuple(call[:-1]), (*call, None)):
        assert outcome(both(function), odd) == outcome(pure(function), odd)


def hurt(data: bytes, dice: random.Random) -> bytes:
    """Flipped, cut, lengthened, or with a piece of it elsewhere."""
    found = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(found) + 1)
        match dice.randrange(5):
            case 0 if at < len(found):
                found[at] ^= 1 << dice.randrange(8)
            case 1 if at < len(found):
                found[at] = dice.choice([0, 1, 127, 128, 255])
            case 2:
                del found[at : at + dice.randint(1, 9)]
            case 3:
                found[at:at] = dice.randbytes(dice.randint(1, 9))
            case _:
                other = dice.randrange(len(found) + 1)
                found[at : at + 4] = found[other : other + 4]
    return bytes(found)


def mended(batch: bytes) -> bytes:
    """With the length and the CRC that its bytes have: what lies behind them is looked at."""
    length, crc = len(batch) - 12, int(google_crc32c.value(batch[21:]))
    return batch[:8] + (length & U32).to_bytes(4, "big") + batch[12:17] + crc.to_bytes(4, "big") + batch[21:]


def hostile(call: Call, dice: random.Random, tries: int) -> list[Call]:
    """The call with whatever is done to the bytes that it reads."""
    found: list[Call] = []
    for place in [place for place, value in enumerate(call) if isinstance(value, bytes)] * tries:
        bad = hurt(call[place], dice)
        found += [(*call[:place], data, *call[place + 1 :]) for data in (bad, mended(bad))]
    return found


@each
@given(st.data())
def test_hostile_bytes_are_refused_as_python_refuses_them(function: Function, data: st.DataObject) -> None:
    """Whatever is done to the bytes that it reads, both answer the same or raise the same."""
    dice = random.Random(data.draw(st.integers(0, 2**32)))
    for call in hostile(data.draw(CASES[function]), dice, 20):
        assert outcome(both(function), call) == outcome(pure(function), call)


@each
def test_nothing_is_kept_of_a_call(function: Function) -> None:
    """A thousand calls, taken and handed on, leave as many references to what they were given as there were."""
    call = ONE[function]
    ours = [value for value in (*call, PAYLOAD) if isinstance(value, bytes | list | tuple)]
    before = [references(value) for value in ours]
    for _ in range(1000):
        both(function)(*call)
        with pytest.raises(DeclinedError):
            alone(function)(*call, None)
    assert [references(value) for value in ours] == before


def test_a_named_argument_is_python_s() -> None:
    """The native function knows places only: whoever names an argument is answered by the reference."""
    assert both(encode_entries)(entries=[(1, 1, b"ab")]) == pure(encode_entries)([(1, 1, b"ab")])
    with pytest.raises(DeclinedError):
        alone(encode_frame)(1, 2, 3, 4, 5, 6, payload=b"")


@given(st.binary(max_size=99))
def test_checksums_are_the_known_ones(data: bytes) -> None:
    """CRC-32 and CRC-32C of the digits 1 to 9 as their catalogues have them, of other bytes as others make them; by the
    processor as by the table.
    """
    assert library().checksums(b"123456789") == (0xCBF43926, 0xE3069283)
    assert library().checksums(data)[1] == google_crc32c.value(data)
    with pytest.raises(TypeError):
        library().checksums("123456789")


def test_a_function_that_is_not_in_c_is_an_error() -> None:
    """A name that was mistyped does not silently stay slow."""
    with pytest.raises(LookupError, match="no hurt"):
        library().made(hurt)


@pytest.mark.parametrize(
    ("right", "wrong", "function"),
    [
        ("|| entry_crc(term, at, size) != crc", "", split_entries),
        ("if (at == end) /* All of it was entries. */", "", split_entries),
        ("-(FRAME_HEADER + 1 + payload.size) & 7", "-(FRAME_HEADER + payload.size) & 7", encode_frame),
        (" || ((size[3] || size[5]) && !size[2])", "", entry_parts),
        ("total != entry.size", "total > entry.size", entry_parts),
        ("at = put(at, said.term, 4);", "at = put(at, said.term + 1, 4);", stamped_batch),
        ("else if (!same(header, all.parts[i]))", "else if (0)", stamped_records),
        ("number != 0 || ", "", stamped_records),
        (" || number != delta", "", stamped_records),
        ("if (at == end) /* All of it was records. */", "", stamped_records),
        ("|| get(head + 8, 4) != batch.size - BATCH_SIZE_FROM", "", stamped_records),
    ],
)
def test_a_planted_fault_is_found(right: str, wrong: str, function: Function, tmp_path: Path) -> None:
    """A build of a source with one check less, or one number else, answers some call otherwise than Python."""
    text, source = SOURCE.read_text(), tmp_path / "leaf.c"
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))
    faulty = compiled(source).made(pure(function))
    nameless = parts_of((*WRITTEN[:8], "", *WRITTEN[9:])) if function is entry_parts else ONE[function]
    calls = [ONE[function], nameless, *hostile(ONE[function], random.Random(1), 3000)]
    assert any(outcome(faulty, call) != outcome(pure(function), call) for call in calls)
