"""A journal says whose it is, and a lone node's journal cannot be behind its store."""

from zlib import crc32

import pytest

from quorate.consensus.journal import frames as journal_frames
from quorate.consensus.journal.frames import Owner, SegmentHeader, encode_header, segment_name
from quorate.consensus.journal.journal import Journal, JournalDamagedError
from quorate.consensus.ports import NodeId
from quorate.errors import UsageError
from tests.stand_ins import InlineWorker, ManualClock
from tests.unit.consensus.raft_cluster import JOURNAL, Cluster, MemoryDisk, Node

MINE, OTHER = Owner(1, bytes([1]) * 16), Owner(2, bytes([2]) * 16)


def opened(disk: MemoryDisk, owner: Owner | None) -> Journal:
    """The journal on a disk, as its owner opens it."""
    return Journal.open(disk, InlineWorker(), JOURNAL, ManualClock(), owner=owner)


@pytest.mark.parametrize("other", [OTHER, Owner(1, OTHER.incarnation), Owner(2, MINE.incarnation)])
def test_another_owners_journal_is_refused_by_name(other: Owner) -> None:
    """Of another node, or of another directory of the same; nothing of it is touched."""
    disk = MemoryDisk()
    journal = opened(disk, other)
    journal.set_vote(3, NodeId(2))
    journal.flush()
    before = {name: bytes(content) for name, content in disk.files.items()}
    with pytest.raises(UsageError, match=f"journal of node {other.node_id}, directory {other.incarnation.hex()}"):
        opened(disk, MINE)
    assert {name: bytes(content) for name, content in disk.files.items()} == before
    assert opened(disk, other).term == 3


def test_every_later_segment_names_the_owner_too() -> None:
    """A journal put together of two owners' segments is refused."""
    disk, foreign = MemoryDisk(), MemoryDisk()
    for where, owner in ((disk, MINE), (foreign, OTHER)):
        journal = opened(where, owner)
        for index in range(2, 40):
            journal.append(index, 1, bytes(1000))
        journal.flush()
    last = segment_name(2)
    disk.files[last] = foreign.files[last]
    with pytest.raises(UsageError, match="journal of node 2"):
        opened(disk, MINE)


@pytest.mark.parametrize("damage", ["first header", "first short", "second gone"])
def test_another_owners_journal_is_refused_by_name_though_it_is_damaged(damage: str) -> None:
    """One segment that names the owner is enough: what is only found damaged would be erased, and it is another's."""
    disk = MemoryDisk()
    journal = opened(disk, OTHER)
    for index in range(2, 100):
        journal.append(index, 1, bytes(1000))
        journal.flush()
    names = sorted(disk.files)
    assert len(names) > 3
    match damage:
        case "first header":
            disk.files[names[0]][20] ^= 1
        case "first short":
            del disk.files[names[0]][82:]
        case _:
            del disk.files[names[1]]
    before = {name: bytes(content) for name, content in disk.files.items()}
    with pytest.raises(JournalDamagedError):
        opened(disk, None)
    with pytest.raises(UsageError, match="journal of node 2"):
        opened(disk, MINE)
    assert {name: bytes(content) for name, content in disk.files.items()} == before


def test_a_segment_without_an_owner_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier version wrote it, also one that holds nothing but its header; the next segment names the owner."""

    def earlier(header: SegmentHeader) -> bytes:
        body = journal_frames._HEADER_1.pack(
            journal_frames._HEADER_MAGIC, 1, header.segment, header.size, header.start_seq, header.base.index,
            header.base.term, header.last.index, header.last.term, header.term,
            journal_frames.encode_vote(header.voted_for),
        )  # fmt: skip
        return body + journal_frames._CRC.pack(crc32(body)) + journal_frames._CLOSING

    disk = MemoryDisk()
    with monkeypatch.context() as patched:
        patched.setattr("quorate.consensus.journal.journal.encode_header", earlier)
        opened(disk, MINE)
    assert disk.files[segment_name(1)][8] == 1
    journal = opened(disk, MINE)
    assert journal.state == "recovered"
    for index in range(2, 40):
        journal.append(index, 1, bytes(1000))
    journal.flush()
    assert opened(disk, MINE).last_index == 39
    with pytest.raises(UsageError, match="journal of node 1"):
        opened(disk, OTHER)


def test_a_header_comes_back_with_its_owner() -> None:
    """Encoded and decoded, with and without."""
    for owner in (None, MINE):
        header = SegmentHeader(
            segment=7, size=4096, start_seq=9, base=journal_frames.Point(1, 0), last=journal_frames.Point(5, 2),  # type: ignore[arg-type]
            term=3, voted_for=NodeId(2), owner=owner,  # type: ignore[arg-type]
        )  # fmt: skip
        assert journal_frames.decode_header(encode_header(header)) == header


def test_a_lone_node_whose_journal_is_older_than_its_store_refuses_to_start() -> None:
    """It applies nothing that its journal does not hold: the store has seen what is lost. The remedy is named."""
    cluster = Cluster(1)
    node: Node = cluster.elect()
    cluster.settle()
    node.kill()
    older = {name: bytearray(content) for name, content in node.disk.files.items()}
    node.start()
    cluster.elect()
    for number in range(5):
        assert node.propose(b"value %d" % number) is not None
    cluster.run_until(lambda: len(node.machine.values()) == 5)
    node.kill()
    node.disk.files = older
    with pytest.raises(UsageError, match=r"older one.*Put back the journal that belongs to this store"):
        node.start()
