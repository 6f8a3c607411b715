"""The schema registry from the command line: what is asked of it, what is told, and how it says no."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cli import program
from tests.unit.cli.served import Served, serving

ORDERS, PLACE = "orders-value", "/subjects/orders-value"
TEXT = '{"type": "record",\n "name": "O", "fields": []}'
ITEM = {"subject": ORDERS, "version": 2, "id": 1000001, "schema": TEXT}
UNKNOWN = (404, b'{"error_code":40401,"message":"Subject \'orders-value\' not found."}')


@pytest.fixture
def node() -> Iterator[Served]:
    with serving() as served:
        yield served


def run(node: Served, *words: str) -> int:
    return program.main(["schemas", *words, "--node", node.address])


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """What was printed as JSON."""
    return json.loads(capsys.readouterr().out)


def test_subjects_are_listed_to_the_last_page(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """A page that is full is not the last one."""
    many = [{**ITEM, "subject": f"s{number}"} for number in range(201)]

    def page(query: dict[str, str]) -> Any:
        assert query["latestOnly"] == "true"
        return many[int(query["offset"]) :][: int(query["limit"])]

    node.answers["/schemas"] = page
    assert run(node, "list", "-o", "json") == 0
    assert told(capsys) == [{"subject": f"s{number}", "version": 2, "id": 1000001} for number in range(201)]
    assert run(node, "list", "--prefix", "s2", "--deleted") == 0
    assert "s200" in capsys.readouterr().out
    assert node.asked[-1][2] == {
        "latestOnly": "true",
        "deleted": "true",
        "subjectPrefix": "s2",
        "offset": "200",
        "limit": "200",
    }


def test_a_schema_is_shown_as_it_was_registered(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The latest, or the version that is named; its lines stay lines."""
    node.answers[f"{PLACE}/versions"] = [1, 2]
    node.answers[f"{PLACE}/versions/latest"] = node.answers[f"{PLACE}/versions/2"] = ITEM
    assert run(node, "show", ORDERS, "--version", "2", "-o", "json") == 0
    assert told(capsys) == {**ITEM, "versions": [1, 2]}
    assert run(node, "show", ORDERS, "--deleted") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "version   2 of 1, 2",
        "id        1000001",
        '{"type": "record",',
        ' "name": "O", "fields": []}',
    ]
    assert {query.get("deleted") for _, _, query, _ in node.asked[2:]} == {"true"}


def test_a_schema_is_registered_from_a_file_or_stdin(
    node: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is; the id is told."""
    node.answers[f"{PLACE}/versions"] = {"id": 1000001}
    file = tmp_path / "o.avsc"
    file.write_text(TEXT)
    assert run(node, "register", ORDERS, str(file), "-o", "json") == 0
    assert told(capsys) == {"id": 1000001}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert run(node, "register", ORDERS, "-") == 0
    assert capsys.readouterr().out == "orders-value has this schema; id 1000001\n"
    for method, _, _, body in node.asked:
        assert (method, json.loads(body)) == ("POST", {"schema": TEXT})


def test_versions_are_deleted(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them or one, softly or for good."""
    node.answers[PLACE], node.answers[f"{PLACE}/versions/2"] = [1, 2], 2
    assert run(node, "delete", ORDERS, "-o", "json") == 0
    assert told(capsys) == {"versions": [1, 2], "permanent": False}
    assert run(node, "delete", ORDERS, "--version", "2", "--permanent") == 0
    assert capsys.readouterr().out == "orders-value: deleted for good: 2\n"
    assert [asked[:3] for asked in node.asked] == [
        ("DELETE", PLACE, {}),
        ("DELETE", f"{PLACE}/versions/2", {"permanent": "true"}),
    ]


def test_a_level_is_shown_set_and_taken_away(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a subject or of all; what is then in force is told."""
    for path in ("/config", f"/config/{ORDERS}"):
        node.answers[path] = lambda _: {"compatibilityLevel" if node.asked[-1][0] == "GET" else "compatibility": "FULL"}
    assert run(node, "compatibility", "-o", "json") == 0
    assert told(capsys) == {"subject": None, "level": "FULL"}
    assert run(node, "compatibility", ORDERS, "--set", "full") == 0
    assert capsys.readouterr().out == "FULL\n"
    assert run(node, "compatibility", ORDERS, "--unset") == 0
    assert [(asked[0], asked[1]) for asked in node.asked] == [
        ("GET", "/config"),
        ("PUT", f"/config/{ORDERS}"),
        ("GET", f"/config/{ORDERS}"),
        ("DELETE", f"/config/{ORDERS}"),
        ("GET", f"/config/{ORDERS}"),
    ]
    assert json.loads(node.asked[1][3]) == {"compatibility": "FULL"}


def test_a_schema_is_judged(node: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What would not be taken exits 1 and says why."""
    file = tmp_path / "o.avsc"
    file.write_text(TEXT)
    path = f"/compatibility{PLACE}/versions"
    node.answers[path] = {"is_compatible": True, "messages": []}
    assert run(node, "compatibility", ORDERS, "--check", str(file), "-o", "json") == 0
    assert told(capsys) == {"compatible": True, "messages": []}
    node.answers[path] = {"is_compatible": False, "messages": ["a field is missing"]}
    assert run(node, "compatibility", ORDERS, "--check", str(file)) == 1
    assert capsys.readouterr().out == "it would not be taken\na field is missing\n"


def test_what_the_registry_refuses_is_told_in_its_words(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1; a schema that is incompatible, a subject that is not there."""
    node.answers[f"{PLACE}/versions/latest"] = UNKNOWN
    assert run(node, "show", ORDERS) == 1
    assert capsys.readouterr().err == "quorate: Subject 'orders-value' not found.\n"
    node.answers[f"{PLACE}/versions/latest"] = (500, b"[]")
    assert run(node, "show", ORDERS) == 1
    assert "500" in capsys.readouterr().err


def test_what_is_typed_wrongly_asks_nobody(node: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there, or is no text; a level that is none; a check of no subject."""
    assert run(node, "register", ORDERS, str(tmp_path / "none")) == 1
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert run(node, "register", ORDERS, str(tmp_path / "bytes")) == 2
    assert run(node, "compatibility", "--check", str(tmp_path / "bytes")) == 2
    assert run(node, "show", "") == 2
    with pytest.raises(SystemExit):
        run(node, "compatibility", "--set", "SOME")
    assert "not UTF-8" in capsys.readouterr().err
    assert not node.asked
