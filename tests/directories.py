"""Data directories of real nodes that are stopped: copied, and put back."""

import shutil
import subprocess
from pathlib import Path

from quorate.consensus.storage.directory import decode_voter
from quorate.consensus.storage.disk import FileVoterFile


def copy(data: Path, to: Path) -> None:
    """By ``cp``, also of a node that runs: a file of its store may go meanwhile."""
    subprocess.run(["cp", "-r", data, to], check=False, stderr=subprocess.DEVNULL)


def put_back(data: Path, copied: Path) -> None:
    """The copy in the place of the directory, with a ``voter.json`` that stands where it says it was written: as the
    image of a disk would have it.
    """
    shutil.rmtree(data)
    shutil.copytree(copied, data)
    file = FileVoterFile(str(data))
    found = file.read()
    assert found is not None
    assert found.copied
    file.replace(found.data)
    again = file.read()
    assert again is not None
    assert (again.copied, again.data) == (False, found.data)


def may_not_vote(data: Path) -> str:
    """What the node's file says."""
    found = FileVoterFile(str(data)).read()
    voter = None if found is None else decode_voter(found.data)
    return "" if voter is None else voter.may_not_vote


def kept(data: Path) -> dict[str, bytes]:
    """What says who it is and what it holds: the voter file, if there is one, and the journal."""
    files = [data / "voter.json", *(data / "journal").iterdir()]
    return {file.name: file.read_bytes() for file in files if file.exists()}
