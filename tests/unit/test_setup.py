"""Set-up finds its Python by itself, and an optimised one before another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.node.build import _OPTIMISED, interpreter
from tests.unit.test_house import ROOT


def chosen(folder: Path, **environment: str) -> str:
    """What is named where only the programs of that folder, and the system's, are found."""
    known = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHON": ""} | environment
    command = ["sh", ".ci/python"]
    return subprocess.run(command, cwd=ROOT, env=os.environ | known, capture_output=True, text=True, check=True).stdout


def program(path: Path, text: str) -> None:
    """A Python that answers every question so."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("optimised", ["python3", "python3.11", "python3.13"])
def test_the_first_optimised_python_is_taken(optimised: str, tmp_path: Path) -> None:
    """The usual name before others; one that is not optimised, or does not run, is passed over."""
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        program(tmp_path / name, "exit 0" if name >= optimised else "echo not installed >&2; exit 127")
    assert chosen(tmp_path) == f"{optimised}\n"


def test_the_python_that_is_named_is_taken(tmp_path: Path) -> None:
    """Whatever it is: who names one knows why."""
    program(tmp_path / "python3", "exit 0")
    assert chosen(tmp_path, PYTHON="/opt/own/python") == "/opt/own/python\n"


def test_optimised_means_the_same_at_set_up_as_in_status() -> None:
    """This very Python, asked by set-up, says what ``quorate status`` says of it."""
    text = (ROOT / ".ci/optimised.py").read_text()
    assert all(f'"{mark}"' in text for mark in _OPTIMISED)
    done = subprocess.run([sys.executable, ROOT / ".ci/optimised.py"], check=False)
    assert (done.returncode == 0) == (not interpreter().endswith("not optimised") and sys.version_info < (3, 14))
