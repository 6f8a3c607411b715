"""Peers are fetched once, and made anew from what changed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.test_house import ROOT


@pytest.fixture
def fetching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``.ci/peers.py``, for a tree and a folder of peers of the test's own."""
    spec = importlib.util.spec_from_file_location("fetching_peers", ROOT / ".ci/peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PEERS", tmp_path / "peers")
    return module


def test_a_driver_is_built_anew_when_its_source_changed(
    fetching: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, else; and of what was made before nothing is left."""
    source = tmp_path / "driver" / "main.go"
    source.parent.mkdir()
    source.write_text("one")
    built: list[str] = []

    def fetch(home: Path) -> None:
        built.append(source.read_text())
        (home / built[-1]).touch()

    wanted = {"driver": fetching.Peer(fetch, "driver"), "theirs": fetching.Peer(lambda _: None)}
    monkeypatch.setattr(fetching, "PEERS_WANTED", wanted)
    assert [fetching.main([]), fetching.main([])] == [0, 0]
    assert built == ["one"]
    source.write_text("two")
    assert fetching.main([]) == 0
    assert built == ["one", "two"]
    assert sorted(path.name for path in (tmp_path / "peers/driver").iterdir()) == [".complete", "two"]


def test_who_cannot_be_had_is_named_and_the_others_come(
    fetching: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status says so; the next run tries again."""

    def fetch(_: Path) -> None:
        raise RuntimeError("nobody there")

    wanted = {"far": fetching.Peer(fetch), "near": fetching.Peer(lambda _: None)}
    monkeypatch.setattr(fetching, "PEERS_WANTED", wanted)
    assert fetching.main([]) == 1
    told = capsys.readouterr()
    assert "far is absent: nobody there" in told.err
    assert told.out == "peers: near present\n"
    wanted["far"] = fetching.Peer(lambda _: None)
    assert fetching.main(["far"]) == 0
    assert (tmp_path / "peers/far/.complete").exists()


@pytest.mark.parametrize(("found", "taken"), [("go1.19.8", "wheel"), ("go1.26.0", "machine"), ("", "wheel")])
def test_what_builds_others_is_the_machine_s_if_it_is_new_enough(
    found: str, taken: str, fetching: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older one, as Debian has, or none: the one of the wheel."""
    home, machine, wheel = tmp_path / "home", tmp_path / "machine/go", tmp_path / "home/go/bin/go"
    for program, version in ((machine, found), (wheel, "go1.26.2")):
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho go version {version}\n")
        program.chmod(0o755)
    monkeypatch.setattr(fetching.shutil, "which", lambda _: str(machine) if found else None)
    monkeypatch.setattr(fetching, "pip", lambda _: fetching.Peer(lambda _: None))
    fetching.runtime("tests/clients/go", ("go/bin/go",), "version", fetching.GO).fetch(home)
    assert (home / "programs/go").resolve() == (machine if taken == "machine" else wheel)
