"""A package that is there is not imported while it is called absent, and can be afterwards."""

import importlib
import subprocess
import sys

import pytest

from quorate.consensus.raft.absent import absent

LOADED = """
import quorate.consensus.raft.pysyncobj_engine, sys
print("cryptography" in sys.modules)
import cryptography
print("cryptography" in sys.modules)
"""


def test_what_is_absent_is_not_found_and_comes_back() -> None:
    """Whoever had it has the same module afterwards; whoever asks meanwhile is told that there is none."""
    before = sys.modules["json"], sys.modules["json.decoder"]
    with absent("json"), pytest.raises(ModuleNotFoundError):
        importlib.import_module("json")
    assert (sys.modules["json"], sys.modules["json.decoder"]) == before


def test_a_node_does_without_cryptography() -> None:
    """pysyncobj imports it where it is there, as beside these tests; an application around a node may still."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
