"""The rules of the house that no other tool checks."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from quorate.cli.program import OWN
from quorate.events import Event

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for room in ("services", "projections", "spark", ".ci")
    for path in (ROOT / room).rglob("*.py")
    if path.name != "_generated.py" and "_pb2" not in path.name
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
FUNCTION_LINES_MAX = 70
FILE_BYTES_MAX = 1_000_000
BLOB_BYTES_MAX = 150_000
BLOBS = {(Path("docs/gallery"), ".webp"), (Path("spark/quorate_spark/dashboard/assets/fonts"), ".woff2")}
STARTED_BY_NAME = {
    "quorate.__main__",
    "quorate.events.generate",
    "quorate.events.compat",
    "quorate.gateway.grpc.generate",
    "quorate.history.worker",
    "quorate.leaf.build",
    *(f"quorate.{place.partition(':')[0]}" for place, _ in OWN.values()),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """A path as the reader of a failure wants it."""
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All that a file is made of, outer things first."""
    return tuple(ast.walk(tree(path)))


def functions(path: Path) -> Iterator[Function]:
    yield from (node for node in nodes(path) if isinstance(node, Function))


def ours() -> list[Path]:
    """Every file that is, or is about to be, under version control; all files where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        made = (".venv", ".peers", ".run", ".git")
        return [path for path in ROOT.rglob("*") if path.is_file() and path.relative_to(ROOT).parts[0] not in made]
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_function_outgrows_a_screen() -> None:
    """A function of more than 70 lines is two functions."""
    long = [
        f"{name_of(path)}: {function.name} has {lines} lines"
        for path in (*SOURCES, *TESTS)
        for function in functions(path)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not long


def test_every_module_says_what_it_is_for() -> None:
    """A module starts with a docstring; only an empty ``__init__`` may have nothing to say."""
    silent = [path for path in (*SOURCES, *TESTS) if not ast.get_docstring(tree(path))]
    assert not [name_of(path) for path in silent if path.name != "__init__.py" or path.read_text().strip()]


def test_every_test_says_what_must_be_true() -> None:
    """A test has a docstring of at least one whole sentence."""
    silent = [
        f"{name_of(path)}: {function.name}"
        for path in TESTS
        for function in functions(path)
        if function.name.startswith("test_") and "." not in (ast.get_docstring(function) or "")
    ]
    assert not silent


def test_production_asserts_nothing_that_optimising_would_strip() -> None:
    """Invariants use ``errors.check``, because ``python -O`` removes ``assert``."""
    products = [path for path in SOURCES if ".ci" not in path.parts]
    asserts = [
        f"{name_of(path)}:{node.lineno}" for path in products for node in nodes(path) if isinstance(node, ast.Assert)
    ]
    assert not asserts


@pytest.mark.parametrize("folder", ["unit", "property", "model"])
def test_fast_tests_never_sleep(folder: str) -> None:
    """What runs in ``make check`` waits for events, not for time."""
    others = [path for path in (ROOT / "tests" / folder).rglob("*.py") if path != Path(__file__)]
    sleepers = [name_of(path) for path in others if re.search(r"\btime\.sleep\(", path.read_text())]
    assert not sleepers


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    """No committed text names a home folder, a work folder or a package index."""
    places = ("/" + "work/", "/" + "root/", "/home/" + "user", "index" + "-url", "pypi" + "." + "org")
    found = []
    for path in ours():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name_of(path)}: {place}" for place in places if place in text]
    assert not [line for line in found if not line.startswith(".ci/lock: index")]


def test_every_file_is_text_that_ends_and_hides_nothing() -> None:
    """No stray binaries (but the page's fonts and pictures), no file above 1 MB, no private key; a last line ends."""
    wrong = []
    for path in ours():
        content = path.read_bytes()
        if (path.parent.relative_to(ROOT), path.suffix) in BLOBS:
            assert len(content) < BLOB_BYTES_MAX, name_of(path)
            continue
        if b"\0" in content or len(content) > FILE_BYTES_MAX:
            wrong.append(f"{name_of(path)}: a blob")
        if b"PRIVATE " + b"KEY-----" in content:
            wrong.append(f"{name_of(path)}: a private key")
        if content and not content.endswith(b"\n"):
            wrong.append(f"{name_of(path)}: its last line does not end")
    assert not wrong


def imported_by(path: Path) -> Iterator[str]:
    """Modules a file imports, by their full names (``from a import b`` may mean a.b)."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def brought_along(path: Path) -> Iterator[str]:
    """What a module takes from the machine that the composition is to hand it: dice, and the real loop."""
    for node in nodes(path):
        match node:
            case ast.Attribute(value=ast.Name(id="random"), attr=name) if name != "Random":
                yield f"{node.lineno}: random.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="random"), attr="Random") | ast.Name(id="Random")):
                yield f"{node.lineno}: dice of its own"
            case ast.ImportFrom(module="random", names=names) if {alias.name for alias in names} != {"Random"}:
                yield f"{node.lineno}: a function of random"
            case ast.alias(name="random" | "Random", asname=str(name)):
                yield f"{node.lineno}: random as {name}"
            case ast.Name(id="LoopScheduler") | ast.Attribute(attr="LoopScheduler") | ast.alias(name="LoopScheduler"):
                yield f"{node.lineno}: LoopScheduler"
            case _:
                pass


def test_chance_and_the_loop_are_handed_down() -> None:
    """Below the composition, and in the half of it that the simulator runs too, dice are an argument and the loop is
    the one that was given: a node in virtual time replays bit for bit, and imports alone do not show who rolls.
    """
    product = ROOT / "services/quorate"
    above = {path for room in ("cli", "demo", "node") for path in (product / room).rglob("*.py")}
    above -= {product / "node/compose.py"}
    below = [path for path in SOURCES if path.is_relative_to(product) and path not in above]
    assert product / "node/compose.py" in below
    found = [f"{name_of(path)}:{what}" for path in below for what in brought_along(path)]
    assert not found


def test_the_map_names_whoever_knows_asyncio() -> None:
    """The sentence of docs/architecture.md, the exceptions of the linter, and what is imported say the same."""
    page = " ".join((ROOT / "docs/architecture.md").read_text().split())
    told = set(re.findall(r"`([\w.]+)`", page.partition("imports `asyncio` except ")[2].partition(". ")[0]))
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    excepted = {line for contract in contracts for line in contract.get("ignore_imports", ())}
    allowed = {line.split()[0].removeprefix("quorate.") for line in excepted if line.endswith("-> asyncio")}
    assert told == allowed | {"clock", "guarded_web", "listening", "gateway"}
    product = ROOT / "services/quorate"
    modules = [path for path in product.rglob("*.py") if "asyncio" in imported_by(path)]
    users = [path.relative_to(product).with_suffix("").parts for path in modules]
    below = [parts for parts in users if parts[0] not in ("cli", "demo", "node")]
    assert told == {"gateway" if parts[0] == "gateway" else ".".join(parts) for parts in below}


def test_the_simulator_needs_nothing_of_the_command_line() -> None:
    """It runs the node as the product composes it: whatever it imports, and whatever that imports of the tests, is of
    the node or below (what stands below imports nothing above, as the floors say).
    """
    waiting, seen, used = sorted((ROOT / "tests/sim").glob("*.py")), set[Path](), set[str]()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        names = set(imported_by(path))
        used |= names
        places = {ROOT / name.replace(".", "/") for name in names if name.startswith("tests.")}
        waiting += {place.with_suffix(".py") for place in places if place.with_suffix(".py").exists()} - seen
    assert "quorate.node.compose" in used
    assert not [name for name in used if name.split(".")[:2] in (["quorate", "cli"], ["quorate", "demo"])]


def test_no_module_is_an_orphan() -> None:
    """Every module of the product is imported by another one, or is started by name."""
    services = ROOT / "services"
    modules = {
        ".".join(path.relative_to(services).with_suffix("").parts): path
        for path in services.rglob("*.py")
        if path.name != "__init__.py" and not path.name.endswith("_pb2_grpc.py")  # Stubs are for clients.
    }
    rooms = (services, ROOT / "projections", ROOT / "spark")  # Readers rest on the ground floor too.
    used = {name for room in rooms for path in room.rglob("*.py") for name in imported_by(path)}
    assert not modules.keys() - used - STARTED_BY_NAME


@cache
def modules_by_name() -> dict[str, Path]:
    """The product's, by their full names; a package has the name of its folder."""
    found = {}
    for room in ("services", "projections", "spark"):
        for path in (ROOT / room).rglob("*.py"):
            parts = path.relative_to(ROOT / room).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def needs(path: Path) -> Iterator[str]:
    """What a module imports as it is loaded, and for types only; not what a function imports when it is called."""
    waiting: list[ast.AST] = [tree(path)]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                continue
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                whole = [f"{module}.{alias.name}" for alias in names]
                yield from (name if name in modules_by_name() else module for name in whole)
            case _:
                waiting += ast.iter_child_nodes(node)


def circles(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """What remains when whoever needs nobody else is taken away, again and again."""
    left = {name: needed & graph.keys() for name, needed in graph.items()}
    while done := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in done}
    return {name: needed & left.keys() for name, needed in left.items()}


def test_no_modules_need_each_other() -> None:
    """No module imports, for types either, one that needs it in turn: each can be read without what rests on it."""
    assert circles({"a": {"b"}, "b": {"a"}, "c": set()}) == {"a": {"b"}, "b": {"a"}}
    assert circles({name: set(needs(path)) - {name} for name, path in modules_by_name().items()}) == {}


EVENTS = {kind.__name__ for kind in get_args(Event)}


def events_told_apart(path: Path) -> set[str]:
    """The kinds of events that have a case in a file."""
    return EVENTS & {
        name.id
        for node in nodes(path)
        if isinstance(node, ast.MatchClass)
        for name in ast.walk(node.cls)
        if isinstance(name, ast.Name)
    }


@pytest.mark.parametrize("place", ["model/evolve.py", "model/words.py"])
def test_every_event_is_handled_by_name(place: str) -> None:
    """Each kind of event has its case where state is folded and where it is told."""
    assert events_told_apart(ROOT / "services/quorate" / place) == EVENTS


@pytest.mark.parametrize("recipe", ["CONTRIBUTING.md", "schemas/README.md"])
def test_who_adds_an_event_is_told_every_place_that_needs_a_case(recipe: str) -> None:
    """Each file that tells events apart (all but the views: each says which are its own) is named in the recipe."""
    text = (ROOT / recipe).read_text()
    views = ROOT / "projections/quorate_projections/views"
    places = [path for path in SOURCES if path.parent != views and len(events_told_apart(path)) > len(EVENTS) / 2]
    assert places
    assert not [name_of(path) for path in places if f"`{path.parent.name}/{path.name}`" not in text]


def test_every_target_of_make_is_explained() -> None:
    """``make`` alone lists every target, so every target has its ``##``."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    targets = [line for line in lines if re.match(r"[a-z-]+:", line)]
    assert targets
    assert not [line for line in targets if "## " not in line]


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=name_of)
def test_every_locked_package_has_hashes(lock: Path) -> None:
    """A lock pins each package to one version and its hashes."""
    text = lock.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert lines
    assert not [line for line in lines if "==" not in line or "--hash=sha256:" not in line]


def test_locks_agree_with_each_other() -> None:
    """A package that is in several locks has the same version in all (for the same Python)."""
    versions: dict[str, set[str]] = {}
    for lock in (ROOT / "requirements").glob("*.txt"):
        for name, version, marker in re.findall(r"^([a-z0-9.-]+)==([^ ]+) (; [^\\]+)?", lock.read_text(), re.MULTILINE):
            versions.setdefault(f"{name} {marker}".strip(), set()).add(version)
    assert {"confluent-kafka", "faust-streaming", "pysyncobj", "rocksdict", "pyspark", "fastavro", "pytest"} <= set(
        versions
    )
    assert not {name: found for name, found in versions.items() if len(found) > 1}


def test_decisions_are_numbered() -> None:
    """The pages of docs/adr have a number each, and each says context, decision and consequence."""
    pages = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    assert len({page.name[:4] for page in pages}) == len(pages) > 0
    for page in pages:
        text = page.read_text()
        assert all(f"## {part}" in text for part in ("Context", "Decision", "Consequence")), page.name


def replaced_names() -> set[str]:
    """Names of classes in the left column of ADR 70."""
    page = (ROOT / "docs/adr/0070-one-name-for-one-thing.md").read_text(encoding="utf-8")
    columns = [line.split("|")[1] for line in page.splitlines() if line.startswith("|")]
    return {name for column in columns for name in re.findall(r"`([A-Z]\w+)`", column)}


def test_no_class_has_a_name_that_was_replaced() -> None:
    """The names that ADR 70 replaced come back nowhere in the product."""
    replaced = replaced_names()
    assert {"Journalist", "Found", "Answering", "Asked", "Following"} <= replaced
    assert not [
        f"{name_of(path)}: {node.name}"
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and node.name in replaced
    ]


DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_document_is_reachable_from_the_readme() -> None:
    """Each page of docs is linked from the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCUMENTS[2:] if f"(docs/{page.name})" not in readme] == []


def test_the_changelog_speaks_of_what_is_there() -> None:
    """Nothing was released yet, so nothing was changed, fixed or removed."""
    headings = re.findall(r"^### (\w+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == ["Added"]


BEFORE = (
    r"\b(still|any more|no longer|former(?:ly)?|as before|as ever|previously|used to|sooner|instead of a reset|took)\b"
    r"|\bdiffered\b|\bless memory\b|\bwere left out\b|\(was "
)
"""Words that compare with a build of before: nobody has one."""


def test_the_changelog_compares_with_nothing() -> None:
    """It says what is so, in words that need no earlier build to be understood."""
    text = " ".join((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split())
    assert [text[max(0, found.start() - 60) : found.end()] for found in re.finditer(BEFORE, text)] == []
