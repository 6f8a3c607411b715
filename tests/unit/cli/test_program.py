"""The program: its words, its exit statuses."""

import os
import pty
import subprocess
import tomllib
from contextlib import suppress
from importlib.metadata import EntryPoint, version
from pathlib import Path

import msgspec
import pytest

from quorate.cli import program
from quorate.cli.command import DONE, MISUSED, REFUSED, Command
from quorate.errors import QuorateError, StorageError, UsageError
from tests.unit.cli.served import serving
from tests.unit.cli.test_operate import a_status

ROOT = Path(__file__).resolve().parents[3]
NOBODY = "127.0.0.1:1"
"""Where nobody listens."""


def a_command(trouble: BaseException | None, status: int = DONE) -> Command:
    def run(_: object) -> int:
        if trouble is not None:
            raise trouble
        return status

    return Command(lambda _: None, run)


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        (None, DONE),
        (UsageError("bad flag"), MISUSED),
        (StorageError("disk"), REFUSED),
        (QuorateError("no"), REFUSED),
        (OSError(28, "No space left on device"), REFUSED),
        (KeyboardInterrupt(), DONE),
    ],
)
def test_trouble_becomes_an_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trouble: BaseException | None, status: int
) -> None:
    """Used wrongly is 2, everything else that goes wrong 1; the reason goes to stderr."""
    monkeypatch.setattr(EntryPoint, "load", lambda _: a_command(trouble))
    assert program.main(["status"]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    usage = "usage: quorate status [-h]\n" if isinstance(trouble, UsageError) else ""
    said = "no space left on device" if isinstance(trouble, OSError) else trouble
    assert captured.err == ("" if status == DONE else f"{usage}quorate: {said}\n")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("schemas register s", REFUSED),
        ("schemas compatibility s --check", REFUSED),
        ("serve --check --config", MISUSED),
    ],
)
def test_a_file_that_is_not_there_is_named_once(
    words: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, without the number that the operating system has for it."""
    for name in ("nofile", "nofile.toml"):
        assert program.main([*words.split(), str(tmp_path / name)]) == status
        said = capsys.readouterr().err.splitlines()[-1]
        assert said == f"quorate: {tmp_path / name}: no such file or directory"


def test_a_command_s_own_status_is_the_program_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command says is what the shell sees."""
    monkeypatch.setattr(EntryPoint, "load", lambda _: a_command(None, REFUSED))
    assert program.main(["quorum"]) == REFUSED


@pytest.mark.parametrize("word", [*program.OWN, *program.BESIDE])
def test_every_word_loads_and_has_help(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of words points at commands that exist, and their help is plain text."""
    with pytest.raises(SystemExit) as ended:
        program.main([word, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert f"usage: quorate {word}" in told
    assert "``" not in told


@pytest.mark.parametrize("typed", [[], ["no-such-word"], ["why"], ["log"], ["status", "--no-such-flag"]])
def test_what_is_typed_wrongly_is_refused(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown words and flags, and missing arguments, end with status 2."""
    with pytest.raises(SystemExit) as ended:
        program.main(typed)
    assert ended.value.code == MISUSED
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "usage"),
    [
        ("status --no-such-flag", "usage: quorate status "),
        ("log tail --no-such-flag", "usage: quorate log tail "),
        ("why broker-a --no-such-flag", "usage: quorate why "),
        ("--no-such-flag status", "usage: quorate "),
    ],
)
def test_an_unknown_flag_is_answered_with_the_usage_of_its_command(
    typed: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not with the list of all commands: what was typed wrongly stands there with what could have been typed."""
    with pytest.raises(SystemExit) as ended:
        program.main(typed.split())
    assert ended.value.code == MISUSED
    said = capsys.readouterr().err
    assert said.startswith(usage)
    assert "unrecognized arguments: --no-such-flag" in said


@pytest.mark.parametrize("typed", ["log dump --from 3 --to 2", "why broker-a --node here", "whatif"])
def test_what_the_command_itself_refuses_comes_with_its_usage(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where argparse saw nothing wrong; the sentence stands last."""
    assert program.main(typed.split()) == MISUSED
    said = capsys.readouterr().err.splitlines()
    words = " ".join(word for word in typed.split()[:2] if word in {"log", "dump", "why", "whatif"})
    assert said[0].startswith(f"usage: quorate {words} ")
    assert said[-1].startswith("quorate: ")


@pytest.mark.parametrize(
    "typed",
    [
        "topics delete \udcff",
        "members describe \udcff",
        "members drain \udcff",
        "at 7 members describe \udcff",
        "elections elect \udcff",
        "schemas list --prefix \udcff",
        "schemas register \udcff /dev/null",
        "whatif --fail broker/\udcff/1",
        "mqtt match \udcff",
        "journal describe \udcff",
        "journal create s --spread \udcff",
        "offsets get \udcff",
        "config \udcff",
    ],
)
def test_bytes_that_are_no_text_are_used_wrongly(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As Python hands over what a shell typed so: status 2, and what it was; keys alone may be any bytes."""
    with serving() as node:
        node.answers["/v1/status"] = msgspec.structs.replace(a_status(healthy=True), grpc=NOBODY)
        assert program.main([*typed.split(), "--node", node.address]) == MISUSED
        assert program.main(["kv", "get", "\udcff", "--node", node.address]) == REFUSED
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"usage: quorate {typed.split(maxsplit=1)[0]} ")
    (told,) = [line for line in said if "UTF-8" in line]
    assert told.startswith("quorate: ")
    assert told.endswith("\\udcff: not UTF-8") or "broker/\\udcff/1" in told


def test_a_fault_of_ours_is_no_fault_of_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all that was typed is text, it is told as what it is."""
    monkeypatch.setattr(EntryPoint, "load", lambda _: a_command(UnicodeEncodeError("ascii", "é", 0, 1, "no")))
    with pytest.raises(UnicodeEncodeError):
        program.main(["status"])


BIG = str(1 << 63)


@pytest.mark.parametrize(
    "typed",
    [
        f"kv get k --revision {BIG}",
        f"kv get k --at {BIG}",
        f"kv get k --limit {BIG}",
        "kv get k --limit -1",
        f"kv watch k --revision {BIG}",
        f"lease grant {BIG}",
        f"simservice --ttl {BIG}",
        f"journal create s --copies {1 << 31}",
        f"journal create s --min-in-sync {1 << 31}",
        f"journal watch --revision {BIG}",
        f"members watch --revision {BIG}",
        f"mqtt match t --revision {BIG}",
        f"offsets list --revision {BIG}",
    ],
)
def test_a_number_that_no_message_holds_is_used_wrongly(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, which argument it was and what is expected."""
    with pytest.raises(SystemExit) as ended:
        program.main(typed.split())
    assert ended.value.code == MISUSED
    said = capsys.readouterr().err.splitlines()[-1]
    assert ": error: argument " in said
    assert "expected a" in said


def test_problems_of_a_file_come_without_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No flag would help there."""
    (tmp_path / "node.toml").write_text("nonsense = 1")
    assert program.main(["serve", "--config", str(tmp_path / "node.toml")]) == MISUSED
    assert "usage:" not in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """``--version`` names the program and what is installed, on stdout, with status 0."""
    with pytest.raises(SystemExit) as ended:
        program.main(["--version"])
    assert ended.value.code == DONE
    assert capsys.readouterr().out == f"quorate {version('quorate')}\n"


@pytest.mark.parametrize("act", ["tail", "dump"])
def test_the_help_of_the_log_says_that_json_is_lines(act: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A program must not take it for one document."""
    with pytest.raises(SystemExit):
        program.main(["log", act, "--help"])
    assert "JSON lines, one document a line" in " ".join(capsys.readouterr().out.split())


def test_make_prints_colours_to_a_terminal_only() -> None:
    """Into a pipe a bare ``make`` is plain text; on a terminal the words to type stand out."""
    plain = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, check=True).stdout
    assert b"\x1b" not in plain
    assert b"  setup          .venv" in plain
    seen, shown = pty.openpty()
    with os.fdopen(seen, "rb"):
        subprocess.run(["make", "help"], cwd=ROOT, stdout=shown, check=True)
        os.close(shown)
        told = b""
        with suppress(OSError):  # EIO: nobody writes any more.
            while more := os.read(seen, 4096):
                told += more
        assert b"\x1b[1m" in told


def test_the_help_says_what_our_other_packages_bring() -> None:
    """Every command this project registers has its line in the help, and no line is of a command that is gone."""
    registered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][program.GROUP]
    assert registered.keys() == program.BESIDE.keys()


def test_another_package_may_bring_a_word_but_not_take_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points add commands; they cannot replace one of ours."""
    theirs = [EntryPoint(name, "elsewhere:COMMAND", program.GROUP) for name in ("views", "status")]
    monkeypatch.setattr(program, "entry_points", lambda group: theirs if group == program.GROUP else [])
    known = program.commands()
    assert known["views"][0].value == "elsewhere:COMMAND"
    assert known["status"][0].value == "quorate.cli.operate:STATUS"
