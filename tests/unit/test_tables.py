"""Tables fit the terminal, and leave nothing out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate import tables
from quorate.tables import columns, wrapped

WORDS = st.lists(st.text(alphabet="abc,:.19", min_size=1, max_size=12), min_size=1, max_size=6).map(" ".join)
QUORUM = ("node", "role", "reachable", "rpc", "raft", "kafka", "http", "version")
VOTER = (1, "leader", True, "127.0.0.1:9870", "127.0.0.1:9871", "127.0.0.1:9872", "127.0.0.1:9873", "0.1.0")
ELECTION = ("set", "offset", "why")
WHY = ("push-03", 1234, "Broker 2 was elected: it is alive, in sync, and its log is the longest of the three there.")


def test_into_a_pipe_a_row_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that read tables see what they always saw, whatever COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "20")
    assert len(list(columns(ELECTION, [WHY]))) == 2


def test_a_terminal_is_asked_how_wide_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stdout is one."""
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert tables.terminal_width() == 70
    assert max(map(len, columns(ELECTION, [WHY]))) <= 70


def test_long_sentences_are_wrapped_in_their_column() -> None:
    """The other columns stay as they are; what comes below stands under its own head."""
    assert list(columns(ELECTION, [WHY], 51)) == [
        "set      offset  why",
        "push-03  1234    Broker 2 was elected: it is alive,",
        "                 in sync, and its log is the",
        "                 longest of the three there.",
    ]


def test_what_cannot_stand_side_by_side_stands_below() -> None:
    """Eight columns of addresses are no table of 70: each voter is a block, with every name and value."""
    told = list(columns(QUORUM, [VOTER, VOTER], 70))
    assert max(map(len, told)) <= 70
    assert told[:4] == ["node       1", "role       leader", "reachable  yes", "rpc        127.0.0.1:9870"]
    assert told[8] == ""
    assert told[9:] == told[:8]


def test_what_fits_is_left_alone() -> None:
    """Exactly as wide as the terminal is not too wide."""
    whole = list(columns(QUORUM, [VOTER]))
    assert list(columns(QUORUM, [VOTER], max(map(len, whole)))) == whole


@given(WORDS, st.integers(13, 40))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    """Every word is there, in order, and no line is wider than asked."""
    lines = wrapped(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(len(line) <= width for line in lines)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4), st.integers(20, 90))
def test_a_table_of_any_width_says_all_of_it(rows: list[tuple[str, str, str]], width: int) -> None:
    """Whatever is done to make it fit, each cell's words are there, and no line is wider."""
    told = "\n".join(columns(("a", "b", "c"), rows, width))
    for row in rows:
        for text in row:
            for word in re.findall(r"[^\s,]+", text):
                assert word in told
    assert all(len(line) <= width for line in told.split("\n"))


def test_a_word_longer_than_what_is_left_is_broken() -> None:
    """A hash, or an address in a setting: the lines below stand under its beginning, and nothing is lost."""
    assert list(columns(("node", "hash"), [(1, "0123456789" * 2)], 14)) == [
        "node  1",
        "hash  01234567",
        "      89012345",
        "      6789",
    ]


@given(st.text(alphabet="ab, ", max_size=60), st.integers(2, 20), st.integers(0, 60))
def test_a_text_behind_its_head_fits_too(text: str, width: int, head: int) -> None:
    """On a terminal it is wrapped, under where it begins or below its head; into a pipe it is one line."""
    lines = list(tables.hanging("h" * min(head, width), text, width))
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "h" * min(head, width) + "".join(text.split())
    assert list(tables.hanging("7  ", text)) == ["7  " + text]


def test_a_text_stands_below_its_head_where_little_is_left() -> None:
    """Words in a column of a few letters are no sentence."""
    text = "topic orders was created with 4 queues"
    assert list(tables.hanging("       7  12:00  TopicCreated  ", text, 48)) == [
        "       7  12:00  TopicCreated",
        "          topic orders was created with 4 queues",
    ]
    assert list(tables.hanging("7  ", f"{text} {text}", 44)) == [f"7  {text}", f"   {text}"]
