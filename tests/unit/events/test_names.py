"""Names of any bytes as text: nothing is lost, and the order stays."""

from urllib.parse import unquote

import hypothesis.strategies as st
import pytest
from hypothesis import given

from quorate.events import DecodeError, ordered_name, raw_name

NAMES = st.binary(max_size=8) | st.lists(st.sampled_from(b"\x00%&/09AZaz}~\xff"), max_size=6).map(bytes)


@given(NAMES, NAMES)
def test_texts_are_in_the_order_of_their_names(one: bytes, other: bytes) -> None:
    """One comes before the other exactly if its text does, as text and as bytes; so different names differ."""
    first, second = ordered_name(one), ordered_name(other)
    assert (one < other) == (first < second) == (first.encode() < second.encode())
    assert (one == other) == (first == second)


@given(NAMES, NAMES)
def test_the_text_of_a_prefix_is_a_prefix(one: bytes, other: bytes) -> None:
    """And the text of nothing else is."""
    assert ordered_name(one + other) == ordered_name(one) + ordered_name(other)
    assert ordered_name(other).startswith(ordered_name(one)) == other.startswith(one)


@given(NAMES)
def test_a_text_is_read_back(name: bytes) -> None:
    """Every name comes back, and its text is letters that any reader of keys can show."""
    text = ordered_name(name)
    assert raw_name(text) == name
    assert text.isascii()
    assert text.isprintable()
    assert " " not in text


@given(st.text(max_size=6) | st.text("%~0123456789ABCDEFaf&}", max_size=6))
def test_a_name_has_one_text(text: str) -> None:
    """A text is read only if it is the one of its name: any other is an error and no second key for one row."""
    try:
        name = raw_name(text)
    except DecodeError:
        return
    assert ordered_name(name) == text


@pytest.mark.parametrize("text", ["%", "%4", "%41", "%2f", "~41", "~ff", "~7", "%7E", "~25", " ", '"', "ü", "\ud800"])
def test_what_is_no_text_of_ours_is_refused(text: str) -> None:
    """Half an escape, small letters, an escape of what stands for itself or has the other sign, a bare odd letter."""
    with pytest.raises(DecodeError):
        raw_name(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"", ""),
        (b"/registry/pods/default/web-0", "/registry/pods/default/web-0"),
        (b"a b%c", "a%20b%25c"),
        ("größe~".encode(), "gr~C3~B6~C3~9Fe~7E"),
        (b"\x00\x25\x26\x7d\x7e\xff", "%00%25&}~7E~FF"),
    ],
)
def test_a_text_is_readable(name: bytes, text: str) -> None:
    """What people write in keys stands for itself."""
    assert ordered_name(name) == text


@given(NAMES, NAMES)
def test_readers_of_percents_take_no_two_names_for_one(one: bytes, other: bytes) -> None:
    """Who knows only the percent-encoding of other keys shows another text, but still one for each name."""
    assert (unquote(ordered_name(one)) == unquote(ordered_name(other))) == (one == other)


@given(NAMES)
def test_a_slash_in_a_name_makes_no_other_entity(name: bytes) -> None:
    """Whoever takes a key apart cuts it twice; all that is behind the second cut is the name."""
    kind, tenant, text = f"key/default/{ordered_name(name)}".split("/", 2)
    assert (kind, tenant, raw_name(text)) == ("key", "default", name)
