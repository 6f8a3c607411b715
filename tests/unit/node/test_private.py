"""Data, secrets and logs: nobody else reads them, and none grows without end."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from quorate.cli import processes
from quorate.cli.processes import shortened
from quorate.node.private import tightened
from quorate.node.properties import read_properties
from quorate.node.settings import SettingsError, read_settings
from tests.unit.node.test_settings import voter

KEY = "0123456789abcdef"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def node_file(folder: Path) -> Path:
    """Settings that name a key file."""
    one = ", ".join(f'{name} = "{value}"' if name != "id" else "id = 1" for name, value in voter(1).items())
    config = folder / "node.toml"
    config.write_text(f'[node]\nid = 1\ndata_dir = "d"\n[cluster]\nid = "c"\nkey_file = "k"\nvoters = [{{ {one} }}]\n')
    (folder / "k").write_text(KEY)
    return config


@pytest.mark.parametrize("open_to", [0o640, 0o604, 0o620, 0o602, 0o666, 0o644, 0o610])
def test_a_key_that_others_can_reach_is_refused_with_the_remedy(open_to: int, tmp_path: Path) -> None:
    """Whatever the others may do with it."""
    config = node_file(tmp_path)
    (tmp_path / "k").chmod(open_to)
    with pytest.raises(SettingsError, match=f"mode {open_to:04o}.*: chmod 600 {tmp_path / 'k'}"):
        read_settings(config, {}, {})


@pytest.mark.parametrize("ours", [0o600, 0o400, 0o700])
def test_a_key_of_our_own_is_taken(ours: int, tmp_path: Path) -> None:
    """Its owner may do as he likes."""
    config = node_file(tmp_path)
    (tmp_path / "k").chmod(ours)
    assert read_settings(config, {}, {}).cluster_key() == KEY.encode()


def of_root(path: Path) -> os.stat_result:
    """What a file of root's says of itself."""
    told = os.stat(path)  # noqa: PTH116  # Path.stat is what it stands in for.
    return os.stat_result((*told[:4], 0, *told[5:]))


@pytest.mark.parametrize(("lent", "refused"), [(0o640, False), (0o440, False), (0o644, True), (0o660, True)])
def test_root_may_lend_a_key_to_our_group(
    lent: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As secrets are mounted: to be read, by our group alone."""
    config = node_file(tmp_path)
    (tmp_path / "k").chmod(lent)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    monkeypatch.setattr(Path, "stat", of_root)
    if refused:
        with pytest.raises(SettingsError, match="chmod 600"):
            read_settings(config, {}, {})
    else:
        assert read_settings(config, {}, {}).cluster_key() == KEY.encode()


@pytest.mark.parametrize("form", ["toml", "properties"])
@pytest.mark.parametrize(("open_to", "refused"), [(0o640, True), (0o604, True), (0o600, False), (0o400, False)])
def test_a_file_of_settings_that_says_the_key_is_judged_as_a_key_file(
    form: str, open_to: int, *, refused: bool, tmp_path: Path
) -> None:
    """Whoever can read the settings has the secret: the file and the remedy are named."""
    if form == "toml":
        config, read = node_file(tmp_path), read_settings
        config.write_text(config.read_text().replace('key_file = "k"', f'key = "{KEY}"'))
    else:
        config, read = tmp_path / "controller.properties", read_properties
        config.write_text(
            "controllerDLegerGroup=c\ncontrollerDLegerPeers=n0-127.0.0.1:9870\ncontrollerDLegerSelfId=n0\n"
            f"controllerStorePath={tmp_path}\nquorate.cluster.key={KEY}\n"
        )
    config.chmod(open_to)
    if refused:
        with pytest.raises(SettingsError, match=rf"cluster.key: .*{config} is open to .*: chmod 600 {config}"):
            read(config, {}, {})
    else:
        assert read(config, {}, {}).cluster_key() == KEY.encode()


def test_an_open_data_directory_becomes_its_owner_s_alone(tmp_path: Path) -> None:
    """The folder and what is ours in it; what is not ours, and where a link leads, is left as it is."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    (data / "journal").mkdir(parents=True)
    (data / "store").mkdir()
    elsewhere.write_text("x")
    for name in ("journal/1.wal", "store/1.sst", "lock", "voter", "notes.txt"):
        (data / name).write_text("x")
        (data / name).chmod(0o644)
    (data / "store/link").symlink_to(elsewhere)
    elsewhere.chmod(0o644)
    for folder in (data, data / "journal", data / "store"):
        folder.chmod(0o755)
    assert tightened(data) == (7, [])
    assert {mode(folder) for folder in (data, data / "journal", data / "store")} == {0o700}
    assert {mode(data / name) for name in ("journal/1.wal", "store/1.sst", "lock", "voter")} == {0o600}
    assert (mode(data / "notes.txt"), mode(elsewhere)) == (0o644, 0o644)
    assert tightened(data) == (0, [])


def test_a_folder_that_everybody_shares_is_named_and_left_alone(tmp_path: Path) -> None:
    """Whoever keeps data in one like /tmp is told so; closing it would harm others."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert tightened(shared) == (0, [shared])
    assert mode(shared) == 0o1777


def test_a_long_log_begins_anew_while_it_is_written(tmp_path: Path) -> None:
    """Older ones are kept, so many and no more; every line is in one of them; the writer need not know."""
    log = tmp_path / "node.log"
    with log.open("ab", buffering=0) as writer:
        for number in range(60):
            writer.write(b"%03d\n" % number)
            assert shortened(log, bytes_max=39, files=3) == (number % 10 == 9)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["node.log", "node.log.1", "node.log.2", "node.log.3"]
    text = b"".join((tmp_path / f"node.log.{number}").read_bytes() for number in (3, 2, 1)) + log.read_bytes()
    assert text.split() == [b"%03d" % number for number in range(30, 60)]


def test_the_log_of_a_process_of_ours_is_looked_at_while_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is too long already when its process starts begins anew before that ends."""
    monkeypatch.setattr(processes, "LOG_LOOK_S", 0.01)
    log = tmp_path / "node.log"
    with log.open("wb") as file:
        file.truncate(processes.LOG_BYTES_MAX + 1)

    async def run() -> None:
        child = processes.Child("node", ["no-such-command"], log)
        await child.start()
        await child.ended()

    asyncio.run(run())
    assert log.with_name("node.log.1").stat().st_size > processes.LOG_BYTES_MAX
