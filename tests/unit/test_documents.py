"""The documents name what there is: modules, files, classes, functions, commands and their flags."""

import argparse
import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest

from quorate.cli.program import commands, parser
from quorate.model.rows import _TYPES as KINDS
from quorate.node.settings import NodeSettings
from tests.findings.__main__ import NAMES
from tests.sim.mutants import MUTANTS
from tests.unit.test_house import ROOT, imported_by, name_of, nodes, ours, tree

DOCUMENTS = [
    *sorted(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "schemas/README.md",
]
"""Not ADRs, nor the changelog: they say what was so when they were written."""
FOREIGN = {
    "AdjustFetchOffsetsFn",
    "trigger(availableNow=True)",
    "quorate.commands",
    "node.toml",
    "quorate.meta.v1.Cluster",
    "quorate.meta.v1.Journal",
    "quorate.meta.v1.Members",
    "quorate.meta.v1.Mqtt",
    "quorate.meta.v1.Offsets",
}
"""Kafka's, Spark's; a group of entry points; a file that a user has; a service on the wire."""
NO_SETTINGS = {"grpc.aio", "kafka.security.protocol", "kafka.ssl.ca.location", "node.txt"}
"""What is named as settings are, and is a module of a client, an option of Spark's, a file."""
ROOMS = {
    "quorate": ROOT / "services/quorate",
    "quorate_projections": ROOT / "projections/quorate_projections",
    "quorate_spark": ROOT / "spark/quorate_spark",
    "tests": ROOT / "tests",
}
WALKS = {
    "A command, walked": [
        *(f"services/quorate/{room}" for room in ("node/node.py", "gateway/remoting", "controller", "consensus")),
        *(f"services/quorate/{room}" for room in ("metadata", "wire", "model/evolve.py")),
    ],
    "An event, walked": [
        *(f"services/quorate/{room}" for room in ("consensus/storage", "controller/machine.py", "gateway/kafka")),
        "spark/quorate_spark/dashboard",
    ],
}
"""The rooms that a walk of docs/architecture.md leads through. A name may stand for another thing in another room."""
SPAN = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOTTED = re.compile(r"(quorate|quorate_projections|quorate_spark|tests)(\.\w+)+")
CLASS = re.compile(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]+)+")
MEMBER = re.compile(r"([A-Z]\w*[a-z]\w*)\.(\w+)(\(.*\))?")
CALL = re.compile(r"([a-z_]\w*)\([^()]*\)")
FILE = re.compile(r"[\w./-]+\.(py|md|js|toml|avsc|yml|properties|jsonl)")
NAMED_TEST = re.compile(r"((?:[\w-]+/)*test_\w+\.py)?::(test_\w+)")
ALONE = re.compile(r"(?<![\w/:])test_\w+(?![\w.*/…])")
COMMIT = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7}\b")
WORDS = re.compile(r"quorate ([a-z][a-z-]*)\b([^|;&#]*)")


def prose(path: Path) -> str:
    """A document without its blocks of code."""
    return FENCE.sub("", path.read_text())


def spans(path: Path) -> Iterator[str]:
    """What stands between backticks."""
    yield from SPAN.findall(prose(path))


@cache
def sources() -> tuple[Path, ...]:
    return tuple(path for room in ROOMS.values() for path in sorted(room.rglob("*.py")))


@cache
def members() -> dict[str, set[str]]:
    """Every class of ours, and whatever is defined, assigned or declared in one of that name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sources():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= set(names_in(node))
                found[node.name] |= {f"<{base.id}" for base in node.bases if isinstance(base, ast.Name)}
    return dict(found)


def names_in(where: ast.AST) -> Iterator[str]:
    """What is defined or assigned somewhere inside."""
    for node in ast.walk(where):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def has(kind: str, member: str) -> bool:
    """The class, or one it rests on, has it."""
    names = members().get(kind, set())
    return member in names or any(has(base[1:], member) for base in names if base.startswith("<"))


@cache
def functions() -> set[str]:
    return {
        node.name
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@cache
def known() -> set[str]:
    """Every word of the code, the schemas and the page: fields of others' wires stand in them too."""
    files = [*sources(), *(ROOT / "schemas").rglob("*.avsc"), *ROOMS["quorate_spark"].rglob("*.js")]
    return {word for file in files for word in re.findall(r"\w+", file.read_text())}


def resolves(dotted: str) -> bool:
    """A package or module, or something that one defines or passes on."""
    first, *rest = dotted.split(".")
    place = ROOMS[first]
    while rest and (place / rest[0]).is_dir():
        place /= rest.pop(0)
    if not rest:
        return True
    module = place / f"{rest[0]}.py"
    if module.exists():
        rest.pop(0)
    else:
        module = place / "__init__.py"
    known = set(names_in(tree(module))) | {name.rpartition(".")[2] for name in imported_by(module)}
    return not rest or rest[0] in known


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_name_in_a_document_exists(path: Path) -> None:
    """A module by its dotted name, a member of one of our classes, a function that is called."""
    missing = []
    for span in set(spans(path)) - FOREIGN:
        dotted, member, call = DOTTED.fullmatch(span), MEMBER.fullmatch(span), CALL.fullmatch(span)
        if dotted and not re.search(r"\.(events|toml|properties|key|set|org)$", span):
            if not resolves(span):
                missing.append(span)
        elif member and member[1] in members():
            if not has(member[1], member[2]):
                missing.append(span)
        elif (call and call[1] not in functions()) or (CLASS.fullmatch(span) and span not in known()):
            missing.append(span)
    assert not missing


SETTING = re.compile(r"([a-z_]+(?:\.[a-z0-9_]+)+)(?:=\S*)?")


def unset(span: str) -> bool:
    """Does it look like a setting of a node, and is none?"""
    named = None if FILE.fullmatch(span) or resolves(f"quorate.{span}") else SETTING.fullmatch(span)
    kind: type = NodeSettings
    for place, name in enumerate(named[1].split(".") if named else ()):
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)} if is_struct(kind) else {}
        if name not in fields:
            return place > 0
        kind = fields[name]
    return False


def is_struct(kind: type) -> bool:
    """Has it settings of its own?"""
    return issubclass(kind, msgspec.Struct)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_setting_in_a_document_exists(path: Path) -> None:
    """Whatever begins as a node's settings do is one of them."""
    assert [span for span in set(spans(path)) - FOREIGN - NO_SETTINGS if unset(span)] == []


def test_a_setting_that_is_gone_is_found() -> None:
    """The test above can fail."""
    wrong = ["grpc.gather_s", "controller.nothing=1", "storage.store.nothing"]
    right = ["grpc.calls_max=1", "storage.store.open_files_max", "nobody.knows", "controller"]
    assert [span for span in (*wrong, *right) if unset(span)] == wrong


def section(title: str) -> str:
    """A part of the map of the house."""
    _, _, rest = (ROOT / "docs/architecture.md").read_text().partition(f"## {title}")
    return rest.partition("\n## ")[0]


def walked(rooms: Sequence[str]) -> Iterator[Path]:
    """The modules of these rooms."""
    for room in rooms:
        place = ROOT / room
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]


def astray(text: str, rooms: Sequence[str]) -> list[str]:
    """The names between backticks that these rooms do not have, or of which they have two."""
    classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
    modules: dict[str, set[str]] = defaultdict(set)
    for path in walked(rooms):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                modules[path.stem].add(node.name)
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(node)
    every = set[str]().union(*modules.values())
    wrong = []
    for name in sorted(set(SPAN.findall(text))):
        if DOTTED.fullmatch(name) or FILE.fullmatch(name):
            continue
        first, _, member = name.partition("(")[0].partition(".")
        if first[0].isupper():
            found = classes[first]
            right = len(found) == 1 and (not member or member in names_in(found[0]))
        else:
            right = member in modules[first] if member else first in every
        if not right:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_what_its_rooms_hold(title: str) -> None:
    """Each class, member and function of a walk is in the rooms that it leads through, once; not just anywhere."""
    text = section(title)
    assert SPAN.findall(text)
    assert astray(text, WALKS[title]) == []


def test_a_name_from_another_room_is_found() -> None:
    """The test above can fail: a class of another room, a member and a function that nobody has, and a name of two."""
    dashboard = WALKS["An event, walked"]
    wrong = ["Answerer.nothing", "Answering.answer", "Tip", "answering.nothing", "nothing"]
    assert astray("".join(f"`{name}` " for name in [*wrong, "Answerer.answer", "fact(record)"]), dashboard) == wrong
    assert astray("`Fact`", [*dashboard, "services/quorate/cli"]) == ["Fact"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_file_in_a_document_exists(path: Path) -> None:
    """By its path from the top, or by the end of it; a test in it by its name."""
    there = files()
    missing = []
    for span in set(spans(path)) - FOREIGN:
        file, _, test = span.partition("::")
        if FILE.fullmatch(file) and (
            (test and test not in functions()) or not any(one.endswith(f"/{file.removeprefix('./')}") for one in there)
        ):
            missing.append(span)
    assert not missing


@cache
def files() -> tuple[str, ...]:
    return tuple(f"/{name_of(file)}" for file in ours())


@cache
def accepted(word: str) -> frozenset[str]:
    """Every flag and every word that a command takes."""
    top = parser(word)
    found: set[str] = set()
    waiting = [argparse_choices(top)[word]]
    while waiting:
        command = waiting.pop()
        for action in command._actions:
            found |= set(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                found |= set(action.choices)
                waiting += action.choices.values()
    return frozenset(found)


def argparse_choices(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return next(dict(action.choices) for action in of._actions if isinstance(action, argparse._SubParsersAction))


def typed(path: Path) -> Iterator[tuple[str, str]]:
    """Every command line of ``quorate`` in a document: its word, and what comes after it."""
    text = path.read_text()
    blocks = [block for kind, block in FENCE.findall(text) if kind == "sh"]
    lines = [line.partition("#")[0] for block in blocks for line in block.splitlines()]
    for line in [*lines, *spans(path)]:
        if found := re.match(r"\s*(?:\S+/)?" + WORDS.pattern, line):
            yield found[1], found[2].strip()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_command_in_a_document_exists(path: Path) -> None:
    """Its word, and each of its flags."""
    wrong = []
    for word, rest in typed(path):
        if word not in commands():
            wrong.append(f"quorate {word}")
            continue
        known = accepted(word)
        wrong += [f"quorate {word} {flag}" for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", rest) if flag not in known]
    assert not wrong


def named_tests(text: str) -> Iterator[tuple[str, str]]:
    """Each test by its file and its name; a file stands for the names that follow it, until the next."""
    for line in text.splitlines():
        file = ""
        for found in NAMED_TEST.finditer(line):
            file = found[1] or file
            yield file, found[2]


def has_test(file: str, name: str) -> bool:
    """Is there such a test, in a file of which this is the path, or the end of it? (No file: in any.)"""
    if not file:
        return name in functions()
    places = [ROOT / path[1:] for path in files() if path.endswith(f"/{file}")]
    return any(re.search(rf"^(async )?def {name}\(", place.read_text(), re.MULTILINE) for place in places)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_test_in_a_document_exists(path: Path) -> None:
    """By its whole name, in the file that it stands behind, if it stands behind one."""
    text = path.read_text()
    named = set(named_tests(text)) | {("", name) for name in ALONE.findall(text)}
    assert sorted(f"{file}::{name}" for file, name in named if not has_test(file, name)) == []


def unknown_commits(names: set[str]) -> list[str]:
    """Those that the repository has not. None where there is no repository, or only a piece of one."""
    command = ["git", "rev-parse", "--is-shallow-repository"]
    try:
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return []
    if told != "false" or not (ROOT / ".git").exists():
        return []
    asked = "".join(f"{name}\n" for name in sorted(names))
    done = subprocess.run(
        ["git", "cat-file", "--batch-check"], cwd=ROOT, input=asked, capture_output=True, text=True, check=True
    )
    return [line for line in done.stdout.splitlines() if " commit " not in line]


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=name_of)
def test_every_commit_in_a_document_exists(path: Path) -> None:
    """Somebody who follows a hash gets there; commits that were never pushed have no place in a page."""
    assert unknown_commits(set(COMMIT.findall(path.read_text()))) == []


def test_the_record_of_faults_names_scripts_and_planted_bugs_that_exist() -> None:
    """Every script is in the record, and every bug it calls planted can be planted."""
    text = (ROOT / "docs/faults.md").read_text()
    assert {name for name in NAMES if f"`{name}`" not in text} == set()
    planted = {
        name
        for list_ in re.findall(r'planted: ("[^"]+"(?:, "[^"]+")*)', text)
        for name in re.findall(r'"([^"]+)"', list_)
    }
    assert planted
    assert planted - set(MUTANTS) == set()


def test_what_does_not_exist_is_found(tmp_path: Path) -> None:
    """The tests above can fail: they find a name, a file, a command and a flag that nobody has."""
    page = tmp_path / "page.md"
    page.write_text("`Controller.nothing` `quorate.node.nothing` `quorate nothing` `quorate status --nothing`\n")
    assert not has("Controller", "nothing")
    assert has("Controller", "submit")
    assert not resolves("quorate.node.nothing")
    assert resolves("quorate.node.compose.Core")
    assert "no_such_function" not in functions()
    assert "No" + "SuchClassAnywhere" not in known()
    assert sorted(typed(page)) == [("nothing", ""), ("status", "--nothing")]
    assert "--nothing" not in accepted("status")
    assert list(named_tests("tests/unit/test_a.py::test_b, ::test_c | test_d.py::test_e")) == [
        ("tests/unit/test_a.py", "test_b"),
        ("tests/unit/test_a.py", "test_c"),
        ("test_d.py", "test_e"),
    ]
    assert has_test("unit/test_documents.py", "test_what_does_not_exist_is_found")
    assert not has_test("unit/test_documents.py", "test_nothing")
    assert has_test("", "test_what_does_not_exist_is_found")
    assert not has_test("", "test_" + "nothing")
    assert ALONE.findall("test_a, `test_b` ::test_c test_d.py test_e*.py tests/test_f.py") == ["test_a", "test_b"]
    assert COMMIT.findall("469a1f7 1234567 defaced `469a1f`") == ["469a1f7"]
    assert unknown_commits({"0000a00"}) in ([], ["0000a00 missing"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_page_says_that_a_stored_value_is_public(path: Path) -> None:
    """In the same words everywhere: there is no authentication yet."""
    words = " ".join(path.read_text().replace("**", "").split())
    assert "A stored value is public: whoever reads the log reads it" in words


def test_every_kind_of_entity_is_named_where_spark_s_table_of_them_is_told() -> None:
    """A kind that is new to the model is one of its rows too."""
    (row,) = [line for line in (ROOT / "docs/spark.md").read_text().splitlines() if line.startswith("| `entities` |")]
    assert set(re.findall(r"`([a-z-]+)`", row)) == {"entities", "value", *KINDS}


def test_the_figures_of_a_run_stand_in_one_place() -> None:
    """Those of ``make bench`` are in the pages about it; a second table would soon say something else."""
    tables = [path.name for path in DOCUMENTS if re.search(r"^\|.*\brun 1\b", path.read_text(), re.MULTILINE)]
    assert tables
    assert all(name.startswith("benchmarks") for name in tables), tables
