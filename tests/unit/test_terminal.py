"""What a terminal is shown obeys nobody but us."""

import json
import unicodedata

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.facts import Fact
from quorate.cli.log import print_fact
from quorate.cli.output import columns, complain, show
from quorate.cli.program import main
from quorate.demo.screen import LineTeller
from quorate.events import BrokerIdApplied, Stamp
from quorate.terminal import visible, visible_bytes, visible_lines

HOSTILE = "a\x1b]0;title\x07b\r\nc\x00d\u202ee\x9bf\x7f"
SHOWN = "a\\x1b]0;title\\x07b\\r\\nc\\x00d\\u202ee\\x9bf\\x7f"


@given(st.text() | st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Lo"])))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    """No control character, no line or paragraph separator, no change of direction, nothing that cannot be encoded."""
    shown = visible(text)
    shown.encode()
    for character in shown:
        assert unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }


@pytest.mark.parametrize(
    "unseen", ["\u034f", "\u115f", "\u17b4", "\u180b", "\u3164", "\ufe0f", "\uffa0", "\U000e0041", "\U0001d173"]
)
def test_no_two_names_differ_by_what_is_not_seen(unseen: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is shown as nothing is written as its escape, in YAML by its own."""
    assert visible(f"a{unseen}b") == f"a{unseen.encode('unicode_escape').decode()}b"
    show({"name": f"a{unseen}b"}, "yaml", [])
    shown = capsys.readouterr().out
    assert unseen not in shown
    assert yaml.safe_load(shown) == {"name": f"a{unseen}b"}


def test_what_people_write_is_printed_as_it_is() -> None:
    """Letters of any script, arrows and marks stay."""
    assert visible("broker-ä → 東京 ◆ عربي") == "broker-ä → 東京 ◆ عربي"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", ""),
        ("schlüssel/1".encode(), "schlüssel/1"),
        (HOSTILE.encode(), SHOWN),
        (b"\x00\x01", "\\x00\\x01"),
        (b"\xff\xfe", "base64://4="),
        ("\ud800".encode("utf-8", "surrogatepass"), "base64:7aCA"),
    ],
)
def test_bytes_are_shown_as_text_or_as_base64(data: bytes, told: str) -> None:
    """UTF-8 as text, with escapes; what is none, in base64 and said to be; never as Python writes bytes."""
    assert visible_bytes(data) == told


def test_a_message_keeps_its_lines() -> None:
    """Ours may have several; nothing else of a line is obeyed."""
    assert visible_lines("one\ntwo\x1b[2J") == "one\ntwo\\x1b[2J"


def test_tables_show_hostile_names_in_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Cells are as wide as what is shown, and a name makes no line of its own."""
    show([], "table", columns(("set", "id"), [(HOSTILE, 1), ([HOSTILE], 2)]))
    width = len(SHOWN)
    assert capsys.readouterr().out == f"{'set':<{width}}  id\n{SHOWN}  1\n{SHOWN}  2\n"


def test_tables_show_bytes_as_text_or_base64(capsys: pytest.CaptureFixture[str]) -> None:
    """A cell of bytes, or a list of them, is for eyes too."""
    show([], "table", columns(("key", "id"), [(b"k\xc3\xa4\n", 1), ((b"a", b"\xff"), 2)]))
    assert capsys.readouterr().out.split() == ["key", "id", "kä\\n", "1", "a,base64:/w==", "2"]


def test_json_is_not_touched(capsys: pytest.CaptureFixture[str]) -> None:
    """A program gets the very text."""
    show({"name": HOSTILE}, "json", [])
    assert json.loads(capsys.readouterr().out) == {"name": HOSTILE}


def test_the_log_shows_hostile_names_in_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """``log tail`` is one line an event, whatever its names."""
    event = BrokerIdApplied(cluster="c", broker_set=HOSTILE, broker_id=1, address=HOSTILE, register_check_code=HOSTILE)
    print_fact(Fact(Stamp(offset=3, term=1, time_ms=0), event), "table")
    out = capsys.readouterr().out
    assert out.endswith(f"{SHOWN}: id 1 is taken by {SHOWN}\n")
    assert out.count("\n") == 1
    print_fact(Fact(Stamp(offset=3, term=1, time_ms=0), event), "json")
    assert json.loads(capsys.readouterr().out)["event"] == msgspec.to_builtins(event)


def test_the_demonstration_and_talk_show_them_in_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of the demonstration, and what is said on stderr."""
    LineTeller().tell("fact", HOSTILE)
    complain(HOSTILE)
    out, err = capsys.readouterr()
    assert out.endswith(f"{SHOWN}\n")
    assert err == f"{SHOWN}\n"


def test_an_error_shows_them_in_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """What a refusal repeats of a name is escaped too."""
    assert main(["config", "cluster", "\x1b[2Jnot a change"]) == 2
    assert "\x1b" not in capsys.readouterr().err
