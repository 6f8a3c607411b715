"""Local clusters: where nodes go, and what is never overwritten."""

import asyncio
import re
import socket
import stat
from pathlib import Path

import pytest

from quorate.cli import program
from quorate.cli.cluster import LocalCluster, found, places, resume
from quorate.cli.processes import ChildError
from quorate.errors import UsageError
from quorate.node.settings import SettingsError
from tests.clusters import free_ports
from tests.unit.cli.served import serving


def test_nodes_have_ports_by_rule(tmp_path: Path) -> None:
    """Node i has id i+1 and ports P+10i to P+10i+4."""
    last = places(tmp_path, 5, 9870)[4]
    assert (last.id, last.folder.name) == (5, "n5")
    assert last.addresses() == {
        "rpc": "127.0.0.1:9910", "raft": "127.0.0.1:9911", "kafka": "127.0.0.1:9912", "http": "127.0.0.1:9913",
        "grpc": "127.0.0.1:9914",
    }  # fmt: skip


@pytest.mark.parametrize(("nodes", "base"), [(2, 9000), (0, 9000), (4, 9000), (3, 0), (3, 65_510), (3, -5)])
def test_impossible_clusters_are_refused(tmp_path: Path, nodes: int, base: int) -> None:
    """A cluster has 1, 3 or 5 nodes, and its ports exist."""
    with pytest.raises(UsageError):
        places(tmp_path, nodes, base)


def test_a_founded_cluster_can_be_resumed_but_not_founded_again(tmp_path: Path) -> None:
    """``found`` refuses a folder that holds a cluster; ``resume`` finds it as it was."""
    founded = found(tmp_path / "c", 3, 9000)
    assert resume(tmp_path / "c", None, None) == founded
    assert resume(tmp_path / "c", 3, 9000) == founded
    before = {path: path.read_text() for path in tmp_path.rglob("*.toml")}
    with pytest.raises(UsageError, match="--resume"):
        found(tmp_path / "c", 3, 9000)
    assert {path: path.read_text() for path in tmp_path.rglob("*.toml")} == before


def test_a_key_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """It may be the only one of a cluster whose folders are elsewhere: nothing is changed."""
    key = tmp_path / "cluster.key"
    key.write_text("theirs")
    with pytest.raises(UsageError, match=r"cluster\.key is there"):
        found(tmp_path, 3, 9000)
    assert key.read_text() == "theirs"
    assert not list(tmp_path.glob("n*"))


def test_a_cluster_other_than_the_one_meant_is_not_resumed(tmp_path: Path) -> None:
    """Contradicting arguments, or an empty folder, are errors."""
    found(tmp_path / "c", 1, 9000)
    for nodes, base in ((3, None), (None, 9100)):
        with pytest.raises(UsageError):
            resume(tmp_path / "c", nodes, base)
    with pytest.raises(UsageError, match="holds no cluster"):
        resume(tmp_path, None, None)


def test_what_only_looks_like_a_node_is_none(tmp_path: Path) -> None:
    """Another folder with settings in it, beside those of the nodes, is neither resumed nor in the way of new ones."""
    for name in ("nodes", "n1a", "n"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "node.toml").write_text("")
    founded = found(tmp_path, 3, 9000)
    assert resume(tmp_path, None, None) == founded


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[node]\nid = 1\n[clu", "Expected ']'"),
        ("", "missing required field `node`"),
        ("[node]\nid = 1\n", "missing required field `cluster`"),
        ("node = 1\n", "Expected `object`, got `int` - at `$.node`"),
        ("[node]\nid = 1\n[cluster]\nvoters = [{id = 1, rpc = 1}]\n", "Expected `str`, got `int`"),
        ("[node]\nid = 4\n[cluster]\nvoters = []\n", "node 4 is none of its cluster.voters"),
        ("\udcff", "invalid start byte"),
    ],
)
def test_damaged_settings_are_named(tmp_path: Path, text: str, told: str) -> None:
    """A file that was cut, is another's or was edited: which one it is, and what is wrong in it."""
    place = found(tmp_path, 3, 9000)[1]
    place.config.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SettingsError, match=re.escape(f"{place.config}: ")) as raised:
        resume(tmp_path, None, None)
    assert told in str(raised.value)


@pytest.mark.parametrize("below", ["", "c"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, below: str) -> None:
    """A plain file where the cluster should live is said in a sentence, by the flag."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--data-dir .*file"):
        found(tmp_path / "file" / below, 1, 9000)


@pytest.mark.parametrize(
    ("words", "port", "whose"),
    [
        (["up"], 3, "listeners.http of node 1"),
        (["up", "--resume"], 2, "listeners.kafka of node 1"),
        (["demo", "--with", "none"], 0, "listeners.rpc of node 1"),
        (["demo", "--with", "none"], 101, "broker-a-2"),
        (["demo", "--with", "page"], 80, "page"),
    ],
)
def test_nothing_is_started_where_somebody_listens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], port: int, whose: str
) -> None:
    """Another cluster on one of the ports would answer in the place of ours: whose port it is is named in one sentence,
    without a usage, for nothing was typed wrongly; and no folder is made.
    """
    base, folder = free_ports(120), tmp_path / "c"
    resumed = "--resume" in words
    if resumed:
        found(folder, 1, base)
    with socket.create_server(("127.0.0.1", base + port)):
        where = ["--nodes", "1", "--data-dir", str(folder), "--base-port", str(base)]
        assert program.main([*words, *where]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"quorate: {whose}: 127.0.0.1:{base + port} is in use, and nothing was started: ")
    assert told.out == ""
    assert folder.exists() == resumed
    assert not list(tmp_path.rglob("node.log"))


def test_a_dead_node_does_not_serve_whoever_answers_in_its_place(tmp_path: Path) -> None:
    """A yes on its port counts only while its process lives."""

    async def dead(address: str) -> None:
        [place] = places(tmp_path, 1, 9000)
        where = type(place)(place.id, place.folder, place.rpc, place.raft, place.kafka, address, "")
        place.folder.mkdir()
        died = asyncio.Event()
        cluster = LocalCluster((where,), lambda _: died.set())
        await cluster.start_node(1)  # It has no settings file, so it ends at once.
        await died.wait()
        with pytest.raises(ChildError, match="died before it served"):
            await cluster.serving(1)
        await cluster.stop()

    with serving() as another:
        another.answers["/readyz"] = {"ok": True}
        asyncio.run(dead(another.address))


def test_the_key_is_for_its_owner_only_and_never_the_same(tmp_path: Path) -> None:
    """Two clusters have different keys, which nobody else may read."""
    found(tmp_path / "a", 1, 9000)
    found(tmp_path / "b", 1, 9100)
    keys = [tmp_path / name / "cluster.key" for name in "ab"]
    assert keys[0].read_text() != keys[1].read_text()
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)
