"""Java properties text, as ``java.util.Properties.load`` reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate.gateway.remoting.properties import parse, render


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb=2\n", {"a": "1", "b": "2"}),
        ("a : 1\r\nb\t2\rc", {"a": "1", "b": "2", "c": ""}),
        ("  # no\n! no\n\n a = x y  \n", {"a": "x y  "}),
        ("a=1\\\n   2\n", {"a": "12"}),
        ("a\\=b=c\\u0041\\n\\q", {"a=b": "cA\nq"}),
        ("a==b", {"a": "=b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\\\\", {"a": "\\"}),
        ("a\\", {"a": ""}),
        ("a\\\\\\:\\ b c", {"a\\: b": "c"}),
        ("\\\fa\\tb=\\:\\u00e9\\\\u0041", {"\fa\tb": ":é\\u0041"}),
        ("a=1\\", {"a": "1"}),
        ("=x", {"": "x"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, pairs: dict[str, str]) -> None:
    """Separators, comments, continued lines, escapes, the last of two equal keys."""
    assert parse(text) == pairs


@pytest.mark.parametrize("text", ["a=\\u", "a=\\u12", "a=\\u12g4", "a=\\u+123"])
def test_a_bad_unicode_escape_is_refused(text: str) -> None:
    """As Java's IllegalArgumentException."""
    with pytest.raises(UsageError):
        parse(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but the declared error."""
    try:
        parse(text)
    except UsageError:
        return


@given(st.dictionaries(st.text("abc.XYZ", min_size=1), st.text("abc;:=/ 0", max_size=8).map(str.strip)))
def test_what_is_rendered_is_read_back(pairs: dict[str, str]) -> None:
    """Settings as they occur survive."""
    assert parse(render(pairs)) == pairs
    assert [line.partition("=")[0] for line in render(pairs).splitlines()] == sorted(pairs)
