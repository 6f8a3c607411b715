"""The recipes of CONTRIBUTING.md, followed in a copy of this tree: how many files a change takes, and that all is well.

What is generated, and golden files, are no files written by hand.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("services", "projections", "spark")
GENERATED = {"schemas/registry.json", "services/quorate/events/_generated.py"}
FILES_MAX = 6
"""A new fact: a schema, a case, a sentence, a test; and room for two more."""

SCHEMA = """{
  "type": "record",
  "name": "TopicFrozen",
  "namespace": "quorate.events",
  "doc": "A topic may be read and not be written any more.",
  "quorate.key": "topic/{topic}",
  "fields": [
    {"name": "topic", "type": "string", "doc": "Name of the topic."},
    {"name": "reason", "type": "string", "default": "", "doc": "Why; empty = nobody said."}
  ]
}
"""
CASE = """        case TopicFrozen():
            frozen = _replace(state.topics[event.topic], permission=4)
            return _replace(state, topics=state.topics.set(event.topic, frozen))
        case TopicDeleted():
"""
SENTENCE = """        case TopicFrozen():
            return f"topic {event.topic} was frozen: {event.reason}"
        case TopicDeleted():
"""
TEST = '''"""A frozen topic is read only, wherever topics are shown, and is told in one sentence."""

import json
from pathlib import Path

from pyspark.sql import Row

from quorate.events import Event, Stamp, TopicCreated, TopicFrozen, key
from quorate.model.evolve import evolve
from quorate.model.state import EMPTY, Topic
from quorate.model.words import sentence
from quorate_projections.folding import Folding, TakeResult
from quorate_projections.store import RowStore
from quorate_spark.dashboard import fold
from quorate_spark.dashboard import model as page
from quorate_spark.pipelines.catalogue import folds
from quorate_spark.pipelines.facts import fact
from quorate_spark.pipelines.keyed import KeyState, advance
from quorate_spark.serving import Entity
from tests.projections.history import record, records
from tests.spark.story import row

FROZEN = TopicFrozen(topic="quiet", reason="moved away")
CREATED = TopicCreated(
    topic="quiet",
    read_queues=4,
    write_queues=4,
    permission=6,
    filter_type="",
    system_flags=0,
    order=False,
    attributes={},
)
BOTH: tuple[Event, ...] = (CREATED, FROZEN)


def stamped(offset: int, event: Event) -> tuple[Event, Stamp]:
    """At a time that no record before has passed."""
    stamp = Stamp(offset=offset, term=99, time_ms=2_000_000_000_000, principal="", cause="", request_id="")
    return event, stamp


def frozen(topic: Topic | None) -> bool:
    """May it only be read?"""
    return topic is not None and topic.permission == 4


def test_it_is_in_the_state_and_in_words() -> None:
    """The state has the topic read only; one sentence says why."""
    state = EMPTY
    for offset, event in enumerate(BOTH):
        state = evolve(state, *stamped(offset, event))
    assert frozen(state.topics["quiet"])
    assert sentence(FROZEN) == "topic quiet was frozen: moved away"


def test_it_is_in_every_view_of_state(tmp_path: Path) -> None:
    """Views of topics and routes show it, the audit has it, and no fold stands still."""
    store = RowStore(tmp_path / "rows")
    folding, log = Folding(store), [*records(1, 9)]
    log += [record(*stamped(9 + more, event)) for more, event in enumerate(BOTH)]
    assert [folding.take(one.offset, one.headers, one.value) for one in log] == [TakeResult.APPLIED] * 11
    found = store.raw("topics", "quiet")
    assert found is not None
    assert (json.loads(found)["permission"], json.loads(found)["changed_offset"]) == (4, 10)
    assert b'"permission":4' in (store.raw("routes", "topic/quiet") or b"")
    assert b"TopicFrozen" in (store.raw("audit", f"at/{10:020d}") or b"")
    store.close()


def test_it_is_on_the_page() -> None:
    """The page's state is the model's."""
    state = page.EMPTY
    for offset, event in enumerate(BOTH):
        state = fold.evolve(state, *stamped(offset, event))
    assert frozen(state.model.topics["quiet"])


def test_it_is_in_spark_s_entities() -> None:
    """The serving table has the topic as the model has it."""
    told = [stamped(offset, event) for offset, event in enumerate(BOTH)]
    _, put = advance(folds(), KeyState("", 0, {}), [fact(Row(**row(stamp, event))) for event, stamp in told])
    (entity,) = [one for one in put if isinstance(one, Entity)]
    assert entity.key == key(FROZEN).decode()
    assert json.loads(entity.value or "{}")["permission"] == 4
'''
CHANGES = {
    "services/quorate/model/evolve.py": [
        ("    TopicDeleted,\n", "    TopicDeleted,\n    TopicFrozen,\n"),
        ("        case TopicDeleted():\n", CASE),
    ],
    "services/quorate/model/words.py": [
        ("    TopicDeleted,\n", "    TopicDeleted,\n    TopicFrozen,\n"),
        ("    | TopicDeleted,\n", "    | TopicDeleted\n    | TopicFrozen,\n"),
        ("        case TopicDeleted():\n", SENTENCE),
    ],
}
WRITTEN = {"schemas/TopicFrozen.avsc": SCHEMA, "tests/unit/model/test_topic_frozen.py": TEST}
TESTS = ["tests/unit/model", "tests/unit/events", "tests/unit/metadata", "tests/unit/test_house.py"]
READERS = [
    "tests/unit/projections/test_folding.py",
    "tests/unit/dashboard/test_fold.py",
    "tests/unit/spark/test_folds.py",
]


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
    git(tree, "add", "-A")
    git(tree, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "as it is")
    return tree


@pytest.fixture
def tree(copied: Path) -> Iterator[Path]:
    """The copy as it was made."""
    yield copied
    git(copied, "checkout", "-q", ".")
    git(copied, "clean", "-fdq")


def follow(tree: Path, written: Mapping[str, str], changes: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write files, and replace what stands once in others."""
    for name, text in written.items():
        (tree / name).write_text(text)
    for name, edits in changes.items():
        file = tree / name
        text = file.read_text()
        for old, new in edits:
            assert text.count(old) == 1, f"{name} has changed: {old}"
            text = text.replace(old, new)
        file.write_text(text)


def git(tree: Path, *words: str) -> str:
    """What git says."""
    return subprocess.run(["git", *words], cwd=tree, capture_output=True, check=True, text=True).stdout


def run(tree: Path, *words: str) -> None:
    """A tool of the house, in the copy; it must be content."""
    path = os.pathsep.join(str(tree / room) for room in ROOMS)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def by_hand(tree: Path) -> list[str]:
    """What differs from the commit, without what is generated."""
    changed = git(tree, "status", "--porcelain", "--untracked-files=all").splitlines()
    return sorted(name for name in (line[3:] for line in changed) if name not in GENERATED)


@pytest.mark.timeout(900)
def test_a_new_fact_takes_six_files_at_the_most(tree: Path) -> None:
    """A schema, a ``case``, a sentence and a test: the state, every view, the page and Spark have the new fact, every
    check and every test about events, state and readers is content, and no other file was touched.
    """
    follow(tree, WRITTEN, CHANGES)
    run(tree, "-m", "quorate.events.generate")
    files = by_hand(tree)
    assert set(files) == {*WRITTEN, *CHANGES}
    assert len(files) <= FILES_MAX
    run(tree, "-m", "quorate.events.generate", "--check")
    run(tree, "-m", "ruff", "check", "--no-cache", ".")
    run(tree, "-m", "ruff", "format", "--no-cache", "--check", ".")
    run(tree, "-c", "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())")
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", tree / ".mypy_cache")
    run(tree, "-m", "mypy")
    run(tree, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS, *READERS)


SETTINGS = {
    "services/quorate/controller/settings.py": [
        (
            "    heartbeat_timeout_s: float = 10.0\n",
            '    example_s: float = 1.5\n    """An example."""\n    heartbeat_timeout_s: float = 10.0\n',
        )
    ],
    "projections/quorate_projections/settings.py": [
        (
            "    audit_period_s: Annotated[\n",
            '    example_s: Annotated[Seconds, Meta(description="an example")] = 1.5\n    audit_period_s: Annotated[\n',
        )
    ],
}
SETTINGS_TEST = '''"""A new setting is there wherever settings are."""

from pathlib import Path

import pytest

from quorate.cli.program import main
from quorate.node.settings import SettingsError, build
from quorate_projections.settings import read_settings

NODE = {"node": {"id": 1, "data_dir": "d"}, "cluster": {"id": "c"}}


def problems(environ: dict[str, str], flags: dict[str, str]) -> str:
    """What is wrong with these settings of a node."""
    with pytest.raises(SettingsError) as raised:
        build(NODE | {"nonsense": {}}, environ, flags, Path())
    return str(raised.value)


def test_a_node_takes_it_from_the_environment_and_from_a_flag() -> None:
    """A number is taken, a word is not, and a typing error is told the right name."""
    assert "example_s" not in problems({"QUORATE_CONTROLLER__EXAMPLE_S": "2.5"}, {})
    assert "controller.example_s" in problems({"QUORATE_CONTROLLER__EXAMPLE_S": "soon"}, {})
    assert "example_s" not in problems({}, {"controller.example_s": "2.5"})
    assert "example_s" in problems({}, {"controller.exampel_s": "2.5"})


def test_a_worker_of_projections_takes_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    """From the environment and from a flag, which the help names."""
    assert read_settings({"QUORATE_PROJECTIONS_EXAMPLE_S": "2.5"}).example_s == 2.5
    assert read_settings({}, {"example_s": "3.5"}).example_s == 3.5
    with pytest.raises(SystemExit):
        main(["projections", "serve", "--help"])
    assert "--example-s" in capsys.readouterr().out
'''


@pytest.mark.timeout(300)
def test_a_setting_takes_one_file_and_its_test(tree: Path) -> None:
    """A field is all: the environment, the flag, the help and the message about a typing error follow from it."""
    follow(tree, {"tests/unit/test_example.py": SETTINGS_TEST}, SETTINGS)
    assert set(by_hand(tree)) == {"tests/unit/test_example.py", *SETTINGS}
    run(tree, "-m", "ruff", "check", "--no-cache", ".")
    run(
        tree,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "tests/unit/test_example.py",
        "tests/unit/test_house.py",
    )


COMMAND = '''"""``quorate greet``: says whom it greets."""

from argparse import ArgumentParser, Namespace

from quorate.cli.command import DONE, Command


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name")


def _run(options: Namespace) -> int:
    print(f"hello {options.name}")
    return DONE


COMMAND = Command(_arguments, _run)
'''
COMMAND_TEST = '''"""A new command is found by its word."""

import pytest

from quorate.cli.program import main


def test_it_runs_and_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """By its word, with its arguments."""
    assert main(["greet", "you"]) == 0
    assert capsys.readouterr().out == "hello you\\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "greet" in capsys.readouterr().out
'''


@pytest.mark.timeout(300)
def test_a_command_takes_a_module_a_line_and_its_test(tree: Path) -> None:
    """The program finds it, and the help has it."""
    written = {"services/quorate/cli/greet.py": COMMAND, "tests/unit/cli/test_greet.py": COMMAND_TEST}
    line = '    "greet": ("cli.greet:COMMAND", "Says hello."),\n    "why": ('
    changes = {"services/quorate/cli/program.py": [('    "why": (', line)]}
    follow(tree, written, changes)
    assert set(by_hand(tree)) == {*written, *changes}
    run(tree, "-m", "ruff", "check", "--no-cache", ".")
    run(
        tree,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "tests/unit/cli/test_greet.py",
        "tests/unit/test_house.py",
    )
