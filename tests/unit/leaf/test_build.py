"""Building the native leaf and choosing it: never a failure, always said in one line."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from quorate import leaf
from quorate.leaf import SOURCE
from quorate.leaf import build as building
from tests.native import CACHE
from tests.unit.leaf.kit import library, loaded


def said(**environment: str) -> str:
    """What a process with this environment uses."""
    command = [sys.executable, "-c", "from quorate.leaf import BUILD; print(BUILD)"]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True).stdout


def test_an_operator_can_have_the_python_functions() -> None:
    """``QUORATE_PURE=1`` is heeded, whatever was built, and said."""
    assert said(QUORATE_PURE="1") == "pure: QUORATE_PURE=1\n"


@pytest.mark.parametrize("code", ["", "SOURCE = 1"], ids=["no library", "of another source"])
def test_only_a_build_of_this_source_is_used(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is missing, or was built before the source changed: the Python functions, and the reason."""
    monkeypatch.delenv(leaf.PURE, raising=False)
    other = ModuleType("quorate.leaf._native")
    exec(code, other.__dict__)
    monkeypatch.setattr(leaf, "_native", other, raising=False)
    monkeypatch.setitem(sys.modules, "quorate.leaf._native", other if code else None)
    if not code:
        monkeypatch.delattr(leaf, "_native")
    library, told = leaf._chosen()
    assert library is None
    assert told == ("pure: the native leaf was built of another source" if code else "pure: no native leaf was built")


def test_without_a_library_a_function_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrapped: the fallback costs nothing."""
    monkeypatch.setattr(leaf, "_library", None)
    assert leaf.native(said) is said


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No headers; a compiler that refuses, is not there, or makes nothing of use; none at all; nowhere to put it."""
    target, headers = tmp_path / "_native.so", tmp_path / "Python.h"
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert building.build(target) == f"pure, for there is no {headers}"
    headers.touch()
    monkeypatch.setattr(building, "compilers", lambda: iter([("false",), ("no-such-compiler",), ("true",)]))
    told = building.build(target)
    assert told.startswith("pure, for false: exit status 1; no-such-compiler: ")
    assert "true: " in told
    assert "\n" not in told
    monkeypatch.setattr(building, "compilers", lambda: iter(()))
    assert building.build(target) == "pure, for there is no C compiler"
    assert building.build(tmp_path / "no" / "where.so").startswith("pure, for ")
    assert [path.name for path in tmp_path.iterdir()] == ["Python.h"]


def test_a_library_of_another_source_is_not_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled is tried first: a compiler that leaves something else behind is passed over."""
    first = next(building.compilers())
    monkeypatch.setattr(building, "compilers", lambda: iter([first]))
    monkeypatch.setattr(building, "TRY", "import sys; sys.exit('not this one')")
    target = tmp_path / "_native.so"
    told = building.build(target)
    assert "not this one" in told or "Python.h" in told
    assert not target.exists()


def test_the_locked_compiler_builds_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a compiler has that one, once the test set is installed."""
    zig = (sys.executable, "-m", "ziglang", "cc")
    monkeypatch.setattr(building, "compilers", lambda: iter([zig]))
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.setenv(name, str(CACHE))
    target = tmp_path / "_native.so"
    told = building.build(target)
    if "Python.h" in told:
        pytest.skip(f"no native leaf: {told}")
    assert told == f"native, by {shlex.join(zig)}"
    assert loaded(target).checksums(b"123456789") == library().checksums(b"123456789")


def test_compilers_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the environment names, the machine's, then the locked one."""
    monkeypatch.setenv("CC", "ccache cc -m64")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "gcc" else None)
    assert list(building.compilers()) == [
        ("ccache", "cc", "-m64"),
        ("/bin/gcc",),
        (sys.executable, "-m", "ziglang", "cc"),
    ]
    monkeypatch.delenv("CC")
    monkeypatch.setattr(building, "find_spec", lambda _: None)
    assert list(building.compilers()) == [("/bin/gcc",)]


def test_the_source_travels_with_the_package() -> None:
    """It lies beside the module, so that an installed Quorate can build it too."""
    assert SOURCE.parent == Path(leaf.__file__).parent
    assert SOURCE.exists()
