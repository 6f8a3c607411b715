"""Tables for eyes, JSON and YAML for programs."""

import json
from typing import Any

import pytest
import yaml as reader
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.output import Plain, columns, show, yaml


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """Cells are aligned, and values are written for people."""
    assert list(columns(("set", "alive", "in sync"), [("broker-a", True, [1, 2]), ("b", None, [])])) == [
        "set       alive  in sync",
        "broker-a  yes    1,2",
        "b         -      -",
    ]


def test_yaml_is_block_style_with_json_scalars() -> None:
    """Nested values are indented, empty ones are written in place, odd names are quoted."""
    value: Plain = {"a": [1, {"b": "x: y", "c": []}], "two words": None, "d": {"e": True}, "7": 1.5}
    assert list(yaml(value)) == [
        "a:", "  - 1", "  -", '    b: "x: y"', "    c: []", '"two words": null', "d:", "  e: true", '"7": 1.5',
    ]  # fmt: skip


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
NAMES = st.text(max_size=50) | st.sampled_from(["yes", "No", "NULL", "0x10", "1e5", "y", "~", "on", "<<", "=", "1_0"])


@given(st.recursive(SCALARS, lambda part: st.lists(part) | st.dictionaries(NAMES, part), max_leaves=10))
def test_yaml_is_read_back_as_what_was_shown(value: Any) -> None:
    """Names and values come out of a YAML reader as they went in, whatever YAML would take them for."""
    assert reader.safe_load("\n".join(yaml(value))) == value


def test_a_value_is_shown_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON carries the whole value, a table only its lines."""
    show({"ä": 1}, "json", ["never"])
    assert json.loads(capsys.readouterr().out) == {"ä": 1}
    show({"ä": 1}, "table", ["one", "two"])
    assert capsys.readouterr().out == "one\ntwo\n"
    show([], "yaml", [])
    assert capsys.readouterr().out == "[]\n"
