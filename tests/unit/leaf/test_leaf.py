"""The native leaf does what the Python functions do: to the byte, to the type, and to the letter of an error."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.journal.frames import encode_frame
from quorate.consensus.ports import TERM_MAX
from quorate.consensus.transport.codec import ENTRY_BYTES_MAX, encode_entries, split_entries
from quorate.leaf import SOURCE
from tests.unit.leaf.kit import Call, DeclinedError, alone, both, compiled, library, outcome, pure, references

U32, U64 = 2**32 - 1, 2**64 - 1
BYTES = st.binary(max_size=300) | st.builds(
    bytes.__mul__, st.binary(min_size=1, max_size=3), st.sampled_from([99, 9999])
)


def numbers(most: int) -> st.SearchStrategy[int]:
    """Up to there, its edges often."""
    return st.sampled_from([0, 1, 127, 128, most - 1, most]).filter(lambda value: value <= most) | st.integers(0, most)


def entries(term_max: int = U64) -> st.SearchStrategy[list[tuple[int, int, bytes]]]:
    """As a leader sends them: of one byte there is none."""
    entry = BYTES.filter(lambda data: len(data) != 1)
    return st.lists(st.tuples(numbers(U64), numbers(term_max), entry), max_size=4)


def split(sent: list[tuple[int, int, bytes]], ahead: bytes, index: int) -> Call:
    """The call that takes them apart again."""
    frame = ahead + pure(encode_entries)(sent)
    return frame, len(ahead), len(sent), index, ENTRY_BYTES_MAX, TERM_MAX


CASES: dict[Callable[..., Any], st.SearchStrategy[Call]] = {
    encode_frame: st.tuples(
        numbers(U32), numbers(255), numbers(U64), numbers(65_535), numbers(U64), numbers(U64), BYTES
    ),
    encode_entries: st.tuples(entries() | entries().map(tuple)),
    split_entries: st.builds(split, entries(TERM_MAX), st.binary(max_size=50), numbers(2**62)),
}
"""Each function, and calls that it takes as they stand."""
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
        "text",
        "\ud800",
        b"",
        b"x",
        bytearray(b"x"),
        (),
        [()],
        [(1, 1)],
    ]
)
each = pytest.mark.parametrize("function", CASES, ids=lambda function: pure(function).__name__)


@each
@given(st.data())
def test_what_is_taken_is_made_as_python_makes_it(function: Callable[..., Any], data: st.DataObject) -> None:
    """An ordinary call is not handed on, and its answer is the reference's to the byte and the type."""
    call = data.draw(CASES[function])
    assert outcome(alone(function), call) == outcome(pure(function), call)


@each
@given(st.data())
def test_what_is_not_taken_is_python_s(function: Callable[..., Any], data: st.DataObject) -> None:
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


@each
@given(st.data())
def test_hostile_bytes_are_refused_as_python_refuses_them(function: Callable[..., Any], data: st.DataObject) -> None:
    """Whatever is done to the bytes that it reads, both answer the same or raise the same."""
    call, dice = list(data.draw(CASES[function])), random.Random(data.draw(st.integers(0, 2**32)))
    for place, value in enumerate(call):
        if isinstance(value, bytes):
            for _ in range(20):
                other = (*call[:place], hurt(value, dice), *call[place + 1 :])
                assert outcome(both(function), other) == outcome(pure(function), other)


@each
def test_nothing_is_kept_of_a_call(function: Callable[..., Any]) -> None:
    """A thousand calls, taken and handed on, leave as many references to what they were given as there were."""
    payload = b"payload" * 9
    calls: dict[str, Call] = {
        "encode_frame": (1, 2, 3, 4, 5, 6, payload),
        "encode_entries": ([(1, 1, payload)],),
        "split_entries": split([(0, 1, payload)], payload, 0),
    }
    call = calls[pure(function).__name__]
    ours = [value for value in (*call, payload) if not isinstance(value, int)]
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


def test_checksums_are_the_known_ones() -> None:
    """CRC-32 and CRC-32C of the digits 1 to 9, as their catalogues have them."""
    assert library().checksums(b"123456789") == (0xCBF43926, 0xE3069283)
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
        ("size > bytes_max || size == 1", "size > bytes_max", split_entries),
        ("if (at == end)", "if (at <= end)", split_entries),
        ("-(FRAME_HEADER + 1 + payload.size) & 7", "-(FRAME_HEADER + payload.size) & 7", encode_frame),
    ],
)
def test_a_planted_fault_is_found(right: str, wrong: str, function: Callable[..., Any], tmp_path: Any) -> None:
    """A build of a source with one check less, or one byte elsewhere, answers some call otherwise than Python."""
    text, source = SOURCE.read_text(), tmp_path / "leaf.c"
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))
    faulty = compiled(source).made(pure(function))
    sent = [(0, 3, b"two"), (0, 3, b"x"), (0, 4, b"more")]
    calls: list[Call] = [(9, 1, 2, 3, 4, 5, b"odd")]
    if function is split_entries:
        frame, *rest = split(sent, b"", 7)
        calls = [(frame, *rest), (frame + b"x", *rest), (hurt(frame, random.Random(1)), *rest)]
        frame, *rest = split(sent[::2], b"", 7)
        calls += [(frame + b"x", *rest), *((frame[:at] + b"~" + frame[at + 1 :], *rest) for at in range(len(frame)))]
    assert [call for call in calls if outcome(faulty, call) != outcome(pure(function), call)]
