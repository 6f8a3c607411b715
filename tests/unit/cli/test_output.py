"""Tables for eyes, JSON and YAML for programs."""

import json

import pytest

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


def test_a_value_is_shown_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON carries the whole value, a table only its lines."""
    show({"ä": 1}, "json", ["never"])
    assert json.loads(capsys.readouterr().out) == {"ä": 1}
    show({"ä": 1}, "table", ["one", "two"])
    assert capsys.readouterr().out == "one\ntwo\n"
    show([], "yaml", [])
    assert capsys.readouterr().out == "[]\n"
