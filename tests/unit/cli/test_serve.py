"""``quorate serve``: what it accepts before a node is built."""

import argparse
import asyncio
import json
import os
import signal
import uuid
from pathlib import Path

import pytest

from quorate.cli import program, serve
from quorate.cli.cluster import found
from quorate.consensus.storage.store import Identity, RocksStore, claim_identity
from quorate.node.settings import read_settings
from tests.clusters import quorate


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(found(tmp_path / "c", 1, 9000)[0].config)


def test_settings_can_be_checked_without_starting(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--check`` says by its exit status whether a node would start with these settings."""
    assert program.main(["serve", "--check", "--config", config, "--set", "engine.tick_s=0.02"]) == 0
    assert program.main(["serve", "--check", "--config", config, "--set", "engine.tick_s=soon"]) == 2
    assert "engine.tick_s: " in capsys.readouterr().err


def test_a_flag_without_a_value_is_used_wrongly(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--set`` takes SECTION.KEY=VALUE."""
    assert program.main(["serve", "--check", "--config", config, "--set", "engine.tick_s"]) == 2
    assert "expected SECTION.KEY=VALUE" in capsys.readouterr().err


def test_the_environment_counts(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of a setting reaches the node's settings, also when it is wrong."""
    monkeypatch.setenv("QUORATE_NODE__ID", "7")
    assert program.main(["serve", "--check", "--config", config]) == 2


JAVA = """
controllerDLegerGroup = g
controllerDLegerPeers = n0-127.0.0.1:9878
controllerDLegerSelfId = n0
controllerStorePath = STORE
enableElectUncleanMastr = true
"""


def test_a_key_that_nobody_reads_is_told_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--check`` and the log of a node name file, key, and what may be meant; the node starts all the same."""
    path = tmp_path / "controller.properties"
    path.write_text(JAVA.replace("STORE", str(tmp_path / "file" / "data")) + "kvConfigPath=/x\nzzz=1\n")
    assert program.main(["serve", "--check", "--config", str(path)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"{path}: enableElectUncleanMastr: nobody reads it; did you mean enableElectUncleanMaster?",
        f"{path}: zzz: nobody reads it",
    ]
    (tmp_path / "file").write_text("")  # So that it ends soon.
    lines = quorate("serve", "--config", str(path)).stderr.splitlines()
    told = json.loads(lines[0])
    assert (told["level"], told["file"], told["key"], told["meant"], told["node"]) == (
        "warning", str(path), "enableElectUncleanMastr", "enableElectUncleanMaster", 1,
    )  # fmt: skip
    assert "meant" not in json.loads(lines[1])


def test_each_setting_knows_where_it_comes_from(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of either kind, the environment and flags; the last that said it counts."""
    monkeypatch.setenv("QUORATE_LOG__LEVEL", "debug")
    monkeypatch.setenv("QUORATE_NODE__ID", "1")
    java = tmp_path / "controller.properties"
    java.write_text(JAVA)
    for path, more in ((Path(config), "cluster.key_file"), (java, "policy.enable_elect_unclean_master")):
        if path is java:
            java.write_text(JAVA + "enableElectUncleanMaster=true\n")
        options = argparse.Namespace(config=path, set=["node.id=1"])
        found = serve.sources_of(options)
        assert found["log.level"] == "environment QUORATE_LOG__LEVEL"
        assert found["node.id"] == "flag --set"
        assert found[more] == found["cluster.voters"] == f"file {path}"
        assert "engine.tick_s" not in found


class Brief:
    """A node that is over as soon as it has started: it failed, or it was asked to stop."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self.stopped: list[bool] = []

    def __call__(self, *_: object) -> "Brief":
        return self

    async def start(self) -> None:
        if not self._fails:
            os.kill(os.getpid(), signal.SIGTERM)

    async def wait_failed(self) -> None:
        if not self._fails:
            await asyncio.Event().wait()

    async def stop(self, *, handover: bool) -> None:
        self.stopped.append(handover)


@pytest.mark.parametrize(("fails", "code"), [(True, 1), (False, 0)])
def test_the_exit_status_tells_a_failure_from_an_end(
    config: str, monkeypatch: pytest.MonkeyPatch, fails: bool, code: int
) -> None:
    """A node that had to stop exits 1, and hands nothing over; one that was asked to exits 0, and does."""
    node = Brief(fails=fails)
    monkeypatch.setattr("quorate.node.node.Node", node)
    monkeypatch.setattr("quorate.node.running.calm_collector", lambda: None)  # This process has other things to do.
    assert asyncio.run(serve._serve(read_settings(Path(config), {}, {}), {}, None)) == code
    assert node.stopped == [not fails]


@pytest.mark.parametrize("below", ["", "data"])
def test_a_data_directory_that_cannot_be_made_is_named(config: str, tmp_path: Path, below: str) -> None:
    """A plain file in its place is one sentence with the setting's name, not a traceback."""
    (tmp_path / "file").write_text("")
    ended = quorate("serve", "--config", config, "--set", f"node.data_dir={tmp_path / 'file' / below}")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"quorate: node.data_dir: {tmp_path / 'file'}")
    assert len(ended.stderr.splitlines()) == 1


def test_a_lone_node_without_its_journal_says_what_to_do(config: str) -> None:
    """Nobody else holds what it acknowledged: the remedy (a backup, or a new cluster) is in the error."""
    settings = read_settings(Path(config), {}, {})
    data = Path(settings.node.data_dir)
    data.mkdir()
    store = RocksStore(str(data / "store"))
    claim_identity(store, Identity(cluster_id=settings.cluster.id, node_id=1, dir_uuid=str(uuid.UUID(int=7))))
    store.close()
    ended = quorate("serve", "--config", config)
    assert ended.returncode == 1
    assert "restore the journal directory from a backup" in ended.stderr
    assert "(the journal is missing)" in ended.stderr
