"""A command of ``quorate``: a module, its line in the table of commands, and a test."""

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
TEST = '''"""A new command is found by its word."""

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
LINE = '    "greet": ("cli.greet:COMMAND", "Says hello."),\n    "why": ('
WRITTEN = {"services/quorate/cli/greet.py": COMMAND, "tests/unit/cli/test_greet.py": TEST}
CHANGES = {"services/quorate/cli/program.py": [('    "why": (', LINE)]}
FILES_MAX = 3
TESTS = ["tests/unit/cli/test_greet.py"]
