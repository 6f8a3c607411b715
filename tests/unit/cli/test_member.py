"""``quorate member``: a voter's new directory is named, and a moved directory is taken for itself."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from quorate.cli import program
from quorate.consensus.ports import NodeId
from quorate.consensus.storage.directory import COPIED, Directory
from quorate.consensus.storage.disk import DirectoryLock, FileVoterFile
from tests.unit.cli.served import serving

NEW = "00000000-0000-4000-8000-000000000001"
DONE: dict[str, Any] = {"offset": 9, "time_ms": 5, "node": 1, "repeated": False, "reply": {"type": "Accepted"}}


def opened(folder: Path) -> Directory:
    """As node 1 of cluster c opens it."""
    file = FileVoterFile(str(folder))
    return Directory.open(file, cluster_id="c", node_id=NodeId(1), store=None, fresh="one")


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """A copy of a directory that has lived; the original is gone."""
    original = tmp_path / "original"
    original.mkdir()
    opened(original).begin("a life")
    shutil.copytree(original, tmp_path / "moved")
    shutil.rmtree(original)
    return tmp_path / "moved"


def test_rebuild_names_the_directory_and_says_what_happens_next(capsys: pytest.CaptureFixture[str]) -> None:
    """What the waiting node says can be typed as it stands; without a directory nothing is asked."""
    with serving() as node:
        node.answers["/v1/members/3/rebuild"] = DONE
        assert program.main(["member", "rebuild", "3", "--directory", NEW, "--node", node.address]) == 0
        told = capsys.readouterr().err
        assert "node 3 has directory" in told
        assert "takes the leader's state" in told
        method, _, _, body = node.asked[0]
        assert (method, json.loads(body)) == ("POST", {"dir_uuid": NEW})
        with pytest.raises(SystemExit):
            program.main(["member", "rebuild", "3", "--node", node.address])
        assert len(node.asked) == 1


def test_a_moved_directory_is_taken_for_itself(moved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It keeps its id, its lives and its vote, and what that rests on is said; without it the copy may not vote."""
    shutil.copytree(moved, moved.parent / "not adopted")
    assert opened(moved.parent / "not adopted").may_not_vote == COPIED
    assert program.main(["member", "adopt", "--data-dir", str(moved)]) == 0
    assert "only if every voter was stopped" in " ".join(capsys.readouterr().err.split())
    found = opened(moved)
    assert (found.may_not_vote, found.incarnation, found.voter.lives) == ("", "one", ("a life",))


def test_a_copy_that_was_started_already_can_be_adopted(moved: Path) -> None:
    """It was told that it may not vote because it is a copy; another reason stays."""
    opened(moved).begin("another")
    assert program.main(["member", "adopt", "--data-dir", str(moved)]) == 0
    assert opened(moved).may_not_vote == ""
    opened(moved).forbid_vote("the journal is missing")
    assert program.main(["member", "adopt", "--data-dir", str(moved)]) == 0
    assert opened(moved).may_not_vote == "the journal is missing"


def test_a_directory_in_use_is_not_adopted(moved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its node runs: nothing is written."""
    before = (moved / "voter.json").read_bytes()
    lock = DirectoryLock(str(moved))
    assert program.main(["member", "adopt", "--data-dir", str(moved)]) == 2
    lock.release()
    assert "in use by another node" in capsys.readouterr().err
    assert (moved / "voter.json").read_bytes() == before
    assert opened(moved).may_not_vote == COPIED


def test_a_damaged_or_missing_file_is_not_adopted(moved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody can say whose it is; nothing is written, and the remedy is named."""
    file = moved / "voter.json"
    damaged = file.read_bytes().replace(b'"one"', b'"two"')
    file.write_bytes(damaged)
    assert program.main(["member", "adopt", "--data-dir", str(moved)]) == 1
    assert "quorate member rebuild" in " ".join(capsys.readouterr().err.split())
    assert file.read_bytes() == damaged
    file.unlink()
    assert program.main(["member", "adopt", "--data-dir", str(moved)]) == 2
    assert not (moved / "lock").exists() or not file.exists()
