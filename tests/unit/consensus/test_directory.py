"""The small file beside journal and store: whose directory it is, and whether it may vote."""

import shutil
from pathlib import Path

import msgspec
import pytest

from quorate.consensus.ports import NodeId
from quorate.consensus.storage.directory import COPIED, DAMAGED, MISSING, Directory, Voter, VoterFile, decode_voter
from quorate.consensus.storage.disk import FileVoterFile
from quorate.consensus.storage.store import Identity
from quorate.errors import StorageError, UsageError
from tests.stand_ins import InlineWorker, MemoryVoterFile

IDENTITY = Identity(cluster_id="c", node_id=1, dir_uuid="d1")


def opened(file: VoterFile, store: Identity | None = None, fresh: str = "fresh") -> Directory:
    """As node 1 of cluster c opens it."""
    return Directory.open(file, cluster_id="c", node_id=NodeId(1), store=store, fresh=fresh)


@pytest.fixture(params=["memory", "file"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> VoterFile:
    """Both implementations of the port."""
    return MemoryVoterFile() if request.param == "memory" else FileVoterFile(str(tmp_path))


def test_a_new_directory_gets_an_incarnation_and_keeps_it(file: VoterFile) -> None:
    """Made once, durable at once; every later start finds the same, and every life is listed."""
    first = opened(file, fresh="one")
    assert not first.voter.begun
    first.begin("life-1")
    assert (first.incarnation, first.life, first.may_not_vote) == ("one", "life-1", "")
    second = opened(file, fresh="two")
    assert second.incarnation == "one"
    second.begin("life-2")
    assert opened(file).voter.lives == ("life-1", "life-2")
    assert opened(file).voter.begun


def test_what_is_forbidden_stays_so_until_it_is_allowed(file: VoterFile) -> None:
    """The reason survives starts; what changes while running is on disk once the worker came to it."""
    opened(file).forbid_vote("the journal is missing")
    directory = opened(file)
    assert directory.may_not_vote == "the journal is missing"
    worker = InlineWorker()
    worker.held = True
    told: list[str] = []
    directory.save_later(worker, lambda: told.append("done"), may_not_vote="", admitted=True)
    assert not directory.may_not_vote
    assert opened(file).may_not_vote
    worker.run()
    assert told == ["done"]
    assert not opened(file).may_not_vote
    assert opened(file).voter.admitted


def test_a_store_to_be_rebuilt_is_remembered(file: VoterFile) -> None:
    """Until it was."""
    opened(file).want_store("a block is damaged")
    directory = opened(file)
    assert directory.rebuild_store == "a block is damaged"
    directory.save_later(InlineWorker(), rebuild_store="")
    assert not opened(file).rebuild_store


def test_the_directory_of_a_peer_is_remembered_as_it_was_named(file: VoterFile) -> None:
    """Until the new name is on disk a crash would leave the old one, and that can be asked. A first name replaces none:
    nothing is lost with it.
    """
    directory, peer, worker, told = opened(file), NodeId(2), InlineWorker(), list[str]()
    worker.held = True
    directory.name({2: "a"}, worker, lambda: told.append("a"))
    assert (directory.named(peer), directory.named_durably(peer)) == ("a", True)
    worker.run()
    directory.name({2: "b"}, worker, lambda: told.append("b"))
    assert (directory.named(peer), directory.named_durably(peer)) == ("b", False)
    assert opened(file).named(peer) == "a"
    directory.name({2: "c"}, worker, lambda: told.append("c"))
    assert not directory.named_durably(peer)
    worker.run()
    assert (told, directory.named_durably(peer), opened(file).named(peer)) == (["a", "b", "c"], True, "c")


def test_the_directory_of_each_peer_is_remembered_for_itself(file: VoterFile) -> None:
    """Of two that are named at once one is named again before the first names are on disk: the other waits for those
    alone, and in the end a crash would leave both their newest.
    """
    directory, worker = opened(file), InlineWorker()
    directory.name({2: "a", 3: "a"}, worker, lambda: None)
    worker.held = True
    directory.name({2: "b", 3: "b"}, worker, lambda: None)
    directory.name({2: "c", 3: "b"}, worker, lambda: None)
    worker.run(1)
    assert (directory.named_durably(NodeId(2)), directory.named_durably(NodeId(3))) == (False, True)
    worker.run()
    assert (directory.named_durably(NodeId(2)), directory.named_durably(NodeId(3))) == (True, True)
    assert opened(file).voter.named == {2: "c", 3: "b"}


def test_an_older_change_never_undoes_a_newer_one(file: VoterFile) -> None:
    """What a failing node says of its store is written at once, and holds what was under way; the worker comes later
    with the older file.
    """
    directory, worker, told = opened(file), InlineWorker(), list[str]()
    worker.held = True
    directory.save_later(worker, lambda: told.append("admitted"), admitted=True)
    directory.want_store("a block is damaged")
    assert opened(file).voter.admitted
    worker.run()
    assert told == ["admitted"]
    assert opened(file).rebuild_store == "a block is damaged"


@pytest.mark.parametrize(
    ("voter", "name"),
    [
        (Voter(cluster_id="other", node_id=1, incarnation="d1"), "cluster_id 'other'"),
        (Voter(cluster_id="c", node_id=2, incarnation="d1"), "node_id 2"),
    ],
)
def test_another_nodes_directory_is_refused_by_name(file: VoterFile, voter: Voter, name: str) -> None:
    """Nothing is written."""
    Directory(file, voter).save()
    with pytest.raises(UsageError, match=name):
        opened(file)
    with pytest.raises(UsageError, match=name):
        opened(file, fresh="x")


@pytest.mark.parametrize(
    ("store", "name"),
    [
        (msgspec.structs.replace(IDENTITY, dir_uuid="d2"), "store belongs to directory d2"),
        (msgspec.structs.replace(IDENTITY, node_id=2), "node_id 2"),
        (msgspec.structs.replace(IDENTITY, cluster_id="o"), "cluster_id 'o'"),
    ],
)
def test_a_store_of_another_directory_is_refused_by_name(file: VoterFile, store: Identity, name: str) -> None:
    """Whether of another node or of another directory of the same."""
    opened(file, fresh="d1")
    with pytest.raises(UsageError, match=name):
        opened(file, store=store)


def test_a_directory_of_a_version_without_the_file_keeps_its_vote(file: VoterFile) -> None:
    """Its store says who it is; it has a journal, and it votes."""
    directory = opened(file, msgspec.structs.replace(IDENTITY, format_version=1))
    assert (directory.incarnation, directory.may_not_vote) == ("d1", "")
    assert directory.voter.begun
    assert directory.voter.admitted


@pytest.mark.parametrize(("content", "reason"), [(None, MISSING), (b"", DAMAGED), (b'{"x": 1}\n00000000\n', DAMAGED)])
def test_a_file_lost_beside_a_store_that_had_one_forbids_the_vote(content: bytes | None, reason: str) -> None:
    """The lives it listed are gone, so nobody can say what was forgotten."""
    file = MemoryVoterFile(content)
    directory = opened(file, IDENTITY)
    assert (directory.incarnation, directory.may_not_vote) == ("d1", reason)
    assert opened(file, IDENTITY).may_not_vote == reason


def test_a_damaged_file_without_a_store_is_refused() -> None:
    """Nothing tells whose it was; the remedy is named."""
    with pytest.raises(StorageError, match="restore the file, or"):
        opened(MemoryVoterFile(b"{}"))


def test_every_flipped_bit_of_the_file_is_noticed(tmp_path: Path) -> None:
    """No byte of it can change and the directory go on as if nothing had been."""
    file = FileVoterFile(str(tmp_path))
    opened(file).begin("life")
    path = tmp_path / "voter.json"
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = file.read()
        assert found is not None
        assert found.copied or decode_voter(found.data) is None, at
    path.write_bytes(whole)
    found = file.read()
    assert found is not None
    assert not found.copied


@pytest.mark.parametrize("way", ["copy", "in place"])
def test_a_copied_directory_may_not_vote(tmp_path: Path, way: str) -> None:
    """A file that does not stand where it was written says so, also when it was copied over the one it came from."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    file = FileVoterFile(str(here))
    opened(file).begin("life-1")
    shutil.copytree(here, there)
    if way == "in place":
        opened(file).begin("life-2")
        shutil.copyfile(there / "voter.json", here / "voter.json")
        there = here
    copy = opened(FileVoterFile(str(there)))
    assert copy.may_not_vote == COPIED
    assert opened(FileVoterFile(str(there))).may_not_vote == COPIED  # It has its own place now, and remembers.


def test_a_directory_moved_whole_is_itself(tmp_path: Path) -> None:
    """A rename keeps the file: nothing else can have gone on."""
    (tmp_path / "here").mkdir()
    opened(FileVoterFile(str(tmp_path / "here"))).begin("life-1")
    (tmp_path / "here").rename(tmp_path / "there")
    assert not opened(FileVoterFile(str(tmp_path / "there"))).may_not_vote
