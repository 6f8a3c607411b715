"""The program: its words, its exit statuses."""

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from quorate.cli import program
from quorate.cli.command import DONE, MISUSED, REFUSED, Command
from quorate.errors import QuorateError, StorageError, UsageError

ROOT = Path(__file__).resolve().parents[3]


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
    assert captured.err == ("" if status == DONE else f"quorate: {trouble}\n")


def test_a_command_s_own_status_is_the_program_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command says is what the shell sees."""
    monkeypatch.setattr(EntryPoint, "load", lambda _: a_command(None, REFUSED))
    assert program.main(["quorum"]) == REFUSED


@pytest.mark.parametrize("word", program.OWN)
def test_every_word_loads_and_has_help(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of words points at commands that exist."""
    with pytest.raises(SystemExit) as ended:
        program.main([word, "--help"])
    assert ended.value.code == 0
    assert f"usage: quorate {word}" in capsys.readouterr().out


@pytest.mark.parametrize("typed", [[], ["no-such-word"], ["why"], ["log"], ["status", "--no-such-flag"]])
def test_what_is_typed_wrongly_is_refused(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown words and flags, and missing arguments, end with status 2."""
    with pytest.raises(SystemExit) as ended:
        program.main(typed)
    assert ended.value.code == MISUSED
    assert "usage:" in capsys.readouterr().err


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
