"""The recipes of CONTRIBUTING.md, followed in a copy of this tree: how many files a change takes, and that all is well.

Generated code and golden files are not written by hand. What a recipe writes is in ``recipes/``; each ends with the
tests that judge it. A step that nothing else would miss is left out once: a test must then fail.
"""

import importlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("services", "projections", "spark")
GENERATED = {
    "schemas/registry.json",
    "services/quorate/events/_generated.py",
    "tests/contract/golden/java-dledger.json",
    "tests/contract/golden/java-jraft.json",
}
EVERY_FAST_TEST_S = 420
"""Twice what they take at rest."""
RECIPES = ("event", "request", "view", "panel", "pipeline", "setting", "command")


class Recipe(Protocol):
    """What a module of ``recipes`` holds."""

    WRITTEN: Mapping[str, str]
    CHANGES: Mapping[str, Sequence[tuple[str, str]]]
    """File → what stands once in it, and what takes its place."""
    FILES_MAX: int
    TESTS: list[str]


def recipe(name: str) -> Recipe:
    """One of them."""
    return cast("Recipe", importlib.import_module(f"tests.integration.recipes.{name}"))


@pytest.fixture(name="copied", scope="module")
def _copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git knows of this tree, and is there, with a commit of its own."""
    tree = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    git(tree, "init", "-q")
    objects = git(ROOT, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    (tree / ".git/objects/info/alternates").write_text(objects)  # The commits that documents name.
    git(tree, "add", "-A")
    git(tree, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "as it is")
    return tree


@pytest.fixture
def tree(copied: Path) -> Iterator[Path]:
    """The copy as it was made."""
    yield copied
    git(copied, "checkout", "-q", ".")
    git(copied, "clean", "-fdq")


def follow(tree: Path, name: str, *, without: str = "") -> None:
    """Follow a recipe, all of it or all but one file; what is generated and recorded is made anew."""
    followed = recipe(name)
    for place, text in followed.WRITTEN.items():
        if place != without:
            (tree / place).write_text(text)
    for place, edits in followed.CHANGES.items():
        if place == without:
            continue
        text = (tree / place).read_text()
        for old, new in edits:
            assert text.count(old) == 1, f"{place} has changed: {old}"
            text = text.replace(old, new)
        (tree / place).write_text(text)
    if name == "event":
        run(tree, "-m", "quorate.events.generate")
    if name == "request":
        record(tree)


def record(tree: Path) -> None:
    """What both Java controllers answer to the step that the recipe adds; ``tests/contract/record.py`` asks them."""
    from tests.integration.recipes import request

    for kind in ("dledger", "jraft"):
        golden = tree / f"tests/contract/golden/java-{kind}.json"
        stories = json.loads(golden.read_text())
        stories["topics"]["names"] = request.GOLDEN
        golden.write_text(json.dumps(stories, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def git(tree: Path, *words: str) -> str:
    """What git says."""
    return subprocess.run(["git", *words], cwd=tree, capture_output=True, check=True, text=True).stdout


def ran(tree: Path, *words: str, timeout_s: float = 400) -> subprocess.CompletedProcess[str]:
    """A tool of the house, in the copy."""
    path = os.pathsep.join(str(tree / room) for room in ROOMS)
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run(tree: Path, *words: str, timeout_s: float = 400) -> None:
    """A tool of the house, in the copy; it must be content."""
    done = ran(tree, *words, timeout_s=timeout_s)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def by_hand(tree: Path) -> list[str]:
    """What differs from the commit, without what is generated."""
    changed = git(tree, "status", "--porcelain", "--untracked-files=all").splitlines()
    return sorted(name for name in (line[3:] for line in changed) if name not in GENERATED)


PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_takes_few_files(tree: Path, name: str) -> None:
    """It writes what it says, in no more files than it says; the two tests below judge whether that is enough."""
    follow(tree, name)
    files = by_hand(tree)
    assert set(files) == {*recipe(name).WRITTEN, *recipe(name).CHANGES}
    assert len(files) <= recipe(name).FILES_MAX


@pytest.mark.timeout(900)
def test_what_the_recipes_write_passes_every_check(tree: Path) -> None:
    """Lint, format, floors, generated code and types, with all recipes followed."""
    for name in RECIPES:
        follow(tree, name)
    run(tree, "-m", "quorate.events.generate", "--check")
    run(tree, "-m", "ruff", "check", "--no-cache", ".")
    run(tree, "-m", "ruff", "format", "--no-cache", "--check", ".")
    run(tree, "-c", "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())")
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", tree / ".mypy_cache", dirs_exist_ok=True)
    run(tree, "-m", "mypy")


@pytest.mark.timeout(900)
def test_what_the_recipes_write_passes_every_test_about_it(tree: Path) -> None:
    """The tests of each recipe, and the rules of the house, with all recipes followed."""
    for name in RECIPES:
        follow(tree, name)
    run(
        tree,
        *PYTEST,
        *dict.fromkeys(test for name in RECIPES for test in recipe(name).TESTS),
        "tests/unit/test_house.py",
    )


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_what_the_recipes_write_leaves_every_fast_test_green(tree: Path) -> None:
    """Whoever follows the recipes, and does nothing else, sees no other test fail: not only those about what is new."""
    for name in RECIPES:
        follow(tree, name)
    names = runpy.run_path(str(ROOT / ".ci/tiers.py"), run_name="tiers")
    run(tree, "-m", "pytest", "-q", "-n", "2", "-m", names["FAST"], *names["UNIT"], timeout_s=EVERY_FAST_TEST_S)


FOLDING = "tests/unit/projections/test_folding.py"
FOLDS = "tests/unit/spark/test_folds.py"
REMOTING = "tests/unit/gateway/remoting/test_service.py"
SERVICE = "tests/unit/dashboard/test_service.py"
SITE = "tests/unit/dashboard/test_site.py"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "forgotten", "guard"),
    [
        (
            "request",
            "tests/contract/cases.py",
            f"{REMOTING}::test_every_request_is_served_compared_with_java_and_documented",
        ),
        ("request", "docs/remoting.md", f"{REMOTING}::test_every_request_is_served_compared_with_java_and_documented"),
        ("view", "tests/projections/replay.py", f"{FOLDING}::test_the_history_of_the_tests_has_everything"),
        ("view", "docs/projections.md", f"{FOLDING}::test_every_view_is_in_the_documentation"),
        ("panel", "spark/quorate_spark/dashboard/assets/js/app.js", SITE),
        ("panel", "spark/quorate_spark/dashboard/assets/js/pages/topics.js", SITE),
        ("panel", "tests/unit/dashboard/test_topics.py", SITE),
        ("panel", "docs/dashboard.md", f"{SERVICE}::test_the_documented_answers_are_the_real_ones"),
        ("pipeline", "tests/spark/replay.py", f"{FOLDS}::test_every_table_equals_a_plain_replay"),
        ("pipeline", "docs/spark.md", f"{FOLDS}::test_every_table_is_in_the_documentation"),
    ],
)
def test_a_forgotten_step_is_noticed(tree: Path, name: str, forgotten: str, guard: str) -> None:
    """A step that no compiler asks for has a test that does: without it, that test fails."""
    follow(tree, name, without=forgotten)
    assert ran(tree, *PYTEST, guard).returncode == 1
