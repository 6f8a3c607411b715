"""A node whose store is damaged puts it aside and makes it anew, crash or no crash; where it cannot, it says why."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from quorate.cli.cluster import found
from quorate.consensus.journal.frames import Owner
from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import NodeId, StoreOp
from quorate.consensus.storage.directory import Directory, Voter, decode_voter, encode_voter
from quorate.consensus.storage.disk import FileDisk, FileVoterFile, StoreFolder
from quorate.consensus.storage.store import RocksStore, StoreDamagedError
from quorate.consensus.storage_settings import JournalSettings, StoreSettings
from quorate.controller import Answered
from quorate.errors import StorageError, UsageError
from quorate.metadata.commands import ChangeConfig
from quorate.node import Node
from quorate.node.compose import give_up_store, open_store
from quorate.node.settings import NodeSettings, read_settings
from tests.clusters import free_ports
from tests.stand_ins import InlineWorker, MemoryVoterFile
from tests.unit.consensus.raft_cluster import VirtualTime
from tests.unit.consensus.test_peers import until

TABLE_END_BYTES = 5_000
"""Behind the rows of a table: what is read when it is opened."""
DAMAGE = StoreDamagedError.at("there", "a block")
ID = "6b645de4-61cd-431d-a69a-8b2b548f430f"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeSettings:
    """Of a lone node."""
    place, *_ = found(tmp_path, 1, free_ports(10))
    return read_settings(place.config, {}, {"cluster.id": "c"})


def live(settings: NodeSettings, scenario: Callable[[Node], Awaitable[None]]) -> None:
    """One life of the node, once it decides."""

    async def run() -> None:
        node = Node(settings)
        await node.start()
        try:
            async with asyncio.timeout(20):
                await until(lambda: node.core.engine.decidable_term() and node.core.machine.offset > 0)
                await scenario(node)
        finally:
            await node.stop(handover=False)

    asyncio.run(run())


@pytest.mark.parametrize("file", ["CURRENT", "MANIFEST-*", "*.sst", "store"])
def test_a_lone_node_makes_its_store_anew_from_its_journal(settings: NodeSettings, file: str) -> None:
    """What was in the store is replayed, the damaged one is kept beside it, and the next start has nothing to mend."""
    before: list[bytes] = []

    async def remember(node: Node) -> None:
        for family in node.running.data.store._families.values():
            family.flush()
        before.extend(node.core.log.read(0, 1))

    live(settings, remember)
    data = Path(settings.node.data_dir)
    store = data / "store"
    if file == "store":
        store.rename(data / "gone")
    else:
        for path in store.glob(file):
            path.unlink()

    async def look(node: Node) -> None:
        assert node.core.log.read(0, 1) == before, "another cluster was founded"
        assert not node.running.data.directory.rebuild_store

    live(settings, look)
    kept = [path.name for path in data.glob("store.damaged-*")]
    assert len(kept) == (file != "store")
    live(settings, look)
    assert [path.name for path in data.glob("store.damaged-*")] == kept


def test_damage_met_while_running_stops_the_node_and_the_next_start_mends_it(settings: NodeSettings) -> None:
    """The failure names the store and the remedy; the remedy is a start."""

    async def hurt(node: Node) -> None:
        node.running.data.store.damaged("a block")
        error = await node.wait_failed()
        assert "start the node again" in str(error)

    async def look(node: Node) -> None:
        assert not node.running.data.directory.rebuild_store

    live(settings, hurt)
    assert b"a block" in (Path(settings.node.data_dir) / "voter.json").read_bytes()
    live(settings, look)
    assert len(list(Path(settings.node.data_dir).glob("store.damaged-*"))) == 1


def test_a_node_reads_everything_again_and_stops_at_damage(tmp_path: Path, settings: NodeSettings) -> None:
    """The scrub runs from the start on; what it meets stops the node by name, and the next start mends it."""
    place = next(tmp_path.glob("*/node.toml"))
    fast = {"cluster.id": "c", "storage.scrub.bytes_per_s": "50000000", "storage.scrub.period_s": "0.1"}
    settings = read_settings(place, {}, fast)

    async def hurt(node: Node) -> None:
        await until(lambda: node.running.scrub.passes)
        key, batch = next(node.running.data.store.scan("events"))
        node.running.data.store.write([StoreOp("events", key, batch[:-1] + b"?")])
        error = await node.wait_failed()
        assert "start the node again" in str(error)

    async def look(node: Node) -> None:
        await until(lambda: node.running.scrub.passes)

    live(settings, hurt)
    live(settings, look)
    assert len(list(Path(settings.node.data_dir).glob("store.damaged-*"))) == 1


def flip(store: str, at: float) -> None:
    """A bit of its largest table, so far from the beginning of what surely is blocks of rows to their end."""
    table = max(Path(store).glob("*.sst"), key=lambda path: path.stat().st_size)
    assert table.stat().st_size > 50_000
    with table.open("r+b", buffering=0) as file:
        place = int(at * (table.stat().st_size - TABLE_END_BYTES))
        (was,) = os.pread(file.fileno(), 1, place)
        os.pwrite(file.fileno(), bytes([was ^ 0x10]), place)


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_a_bit_that_flips_in_a_table_beneath_a_running_node_is_found(
    tmp_path: Path, settings: NodeSettings, at: float
) -> None:
    """Also where memory remembers what it read there, as it does after a pass: the next pass reads the disk, the node
    stops by name, and its next start mends the store. Until then the events are read as they were, or not at all.
    """
    fast = {"cluster.id": "c", "storage.scrub.bytes_per_s": "50000000", "storage.scrub.period_s": "0.1"}
    own = {"storage.event_log.tail_batches": "0"}  # So that reads of the log are the store's.
    settings = read_settings(next(tmp_path.glob("*/node.toml")), {}, fast | own)
    before: list[bytes] = []

    async def hurt(node: Node) -> None:
        for number in range(60):
            command = ChangeConfig(scope=f"topic/t{number}", changes={"note": os.urandom(1_000).hex()})
            outcome = await node.submit(command)
            assert isinstance(outcome, Answered), outcome
        data, scrub = node.running.data, node.running.scrub
        for family in data.store._families.values():
            family.flush()
        seen = scrub.passes
        await until(lambda: scrub.passes > seen + 1)
        before.extend(node.core.log.read(0, 1 << 20))
        flip(data.store.path, at)
        began = scrub.passes
        while not node.running.failed.done():
            assert scrub.passes <= began + 2, "a pass that began after the flip did not find it"
            with suppress(StorageError):
                assert node.core.log.read(0, 1 << 20) == before
            await asyncio.sleep(0.01)
        error = str(await node.wait_failed())
        assert f"store {data.store.path} is damaged: Corruption: block checksum mismatch" in error
        assert "start the node again" in error

    async def look(node: Node) -> None:
        assert node.core.log.read(0, 1 << 20)[: len(before)] == before
        assert not node.running.data.directory.rebuild_store

    live(settings, hurt)
    gc.collect()  # A process that ends lets go of the store; here the error's frames hold what they were reading.
    live(settings, look)
    assert len(list(Path(settings.node.data_dir).glob("store.damaged-*"))) == 1


class Place:
    """A directory without a node."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.disk = FileDisk(str(folder / "journal"))
        self.file = FileVoterFile(str(folder))
        Directory(self.file, Voter(cluster_id="c", node_id=1, incarnation=ID, begun=True)).save()
        self.place = StoreFolder(str(folder), StoreSettings())

    def open(self, *, alone: bool = False) -> RocksStore:
        """As a start does."""
        return open_store(self.place, self.file, self.disk, cluster_id="c", node_id=NodeId(1), alone=alone)

    def names(self) -> set[str]:
        """What is there of stores."""
        return {path.name for path in self.path.iterdir() if path.name.startswith("store")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """One with a store that holds a row."""
    made = Place(tmp_path)
    store = made.place.open(must_exist=False)
    store.write([StoreOp("rows", b"k", b"damaged")])
    store.close()
    return made


OPENED_IN_WANT = """
import os, resource, signal, sys
from quorate.consensus.ports import NodeId
from quorate.consensus.storage.disk import FileDisk, FileVoterFile, StoreFolder
from quorate.consensus.storage_settings import StoreSettings
from quorate.errors import StorageError
from quorate.node.compose import give_up_store, open_mending, open_store

path, wanted = sys.argv[1:]
disk, file, whose = FileDisk(path + "/journal"), FileVoterFile(path), {"cluster_id": "c", "node_id": NodeId(1)}
place = StoreFolder(path, StoreSettings())
if wanted == "descriptors":
    some = len(os.listdir("/proc/self/fd")) + 5
    resource.setrlimit(resource.RLIMIT_NOFILE, (some, some))
else:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
try:
    open_mending(
        lambda: open_store(place, file, disk, **whose, alone=False),
        lambda: None,
        lambda damage: give_up_store(file, disk, damage, **whose, alone=False),
    )
except StorageError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize(("wanted", "reason"), [("descriptors", "Too many open files"), ("room", "File too large")])
def test_a_sound_store_that_cannot_be_opened_for_want_of_something_stays(
    place: Place, wanted: str, reason: str
) -> None:
    """The start fails by name; nothing is marked, nothing moves, and the rows are there once there is enough."""
    marked = (place.path / "voter.json").read_bytes()
    start = [sys.executable, "-c", OPENED_IN_WANT, str(place.path), wanted]
    ended = subprocess.run(start, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr.startswith("StorageError: "), ended.stderr
    assert reason in ended.stderr
    assert (place.path / "voter.json").read_bytes() == marked
    assert place.names() == {"store"}
    store = place.open()
    assert store.get("rows", b"k") == b"damaged"
    store.close()


def test_a_store_that_should_be_there_is_not_begun_silently(place: Place) -> None:
    """Missing, or without its CURRENT file: damage. A node that never began has none."""
    (place.path / "store" / "CURRENT").unlink()
    with pytest.raises(StoreDamagedError):
        place.open()
    (place.path / "store").rename(place.path / "elsewhere")
    with pytest.raises(StoreDamagedError):
        place.open()
    assert not place.names()
    Directory(place.file, Voter(cluster_id="c", node_id=1, incarnation=ID)).save()
    place.open().close()


def test_every_crash_on_the_way_leaves_one_damaged_store_and_one_new(place: Place) -> None:
    """Marked; moved; begun; begun twice: the store that was damaged is kept, what was begun is not mistaken for it."""
    give_up_store(place.file, place.disk, DAMAGE, cluster_id="c", node_id=NodeId(1), alone=False)
    kept = ""
    for _ in range(3):
        store = place.open()
        assert store.get("rows", b"k") is None
        store.write([StoreOp("rows", b"k", b"begun")])
        store.close()
        (kept,) = place.names() - {"store"}
    old = RocksStore(str(place.path / kept))
    assert old.get("rows", b"k") == b"damaged"
    old.close()
    give_up_store(
        place.file,
        place.disk,
        StoreDamagedError.at("there", "another block"),
        cluster_id="c",
        node_id=NodeId(1),
        alone=False,
    )
    place.open().close()
    (second,) = place.names() - {"store"}
    assert second != kept


def test_what_a_failed_node_had_under_way_to_its_voter_file_is_kept(place: Place) -> None:
    """Its worker may come to it before or after the store is given up: the file holds both."""
    directory, worker = Directory(place.file, Voter(cluster_id="c", node_id=1, incarnation=ID)), InlineWorker()
    directory.save()
    worker.held = True
    directory.save_later(worker, may_not_vote="it forgot")
    give_up_store(place.file, place.disk, DAMAGE, cluster_id="c", node_id=NodeId(1), alone=False, directory=directory)
    worker.run()
    found = place.file.read()
    voter = None if found is None else decode_voter(found.data)
    assert voter is not None
    assert voter.may_not_vote == "it forgot"
    assert "a block" in voter.rebuild_store


def test_a_lone_node_with_a_trimmed_journal_touches_nothing(place: Place) -> None:
    """Neither marked nor moved: what is left is the operator's to save."""
    settings = JournalSettings(max_entry_bytes=4096, segment_bytes=16 * 1024)
    journal = Journal.open(place.disk, InlineWorker(), settings, VirtualTime())
    for index in range(2, 30):
        journal.append(index, 1, b"entry")
    journal.flush()
    give_up_store(place.file, place.disk, DAMAGE, cluster_id="c", node_id=NodeId(1), alone=True)
    journal.trim_to(20)
    journal.flush()
    with pytest.raises(UsageError, match=r"restore the whole data directory from a backup.*a block"):
        place.open(alone=True)
    Directory(place.file, Voter(cluster_id="c", node_id=1, incarnation=ID, begun=True)).save()
    with pytest.raises(UsageError, match="restore the whole data directory from a backup"):
        give_up_store(place.file, place.disk, DAMAGE, cluster_id="c", node_id=NodeId(1), alone=True)
    assert place.names() == {"store"}
    place.open(alone=True).close()


def test_without_voter_json_nobody_knows_whose_journal_it_is(tmp_path: Path) -> None:
    """A damaged store and no voter.json: the sentence names both and the remedy."""
    disk = FileDisk(str(tmp_path / "journal"))
    for file in (
        MemoryVoterFile(),
        MemoryVoterFile(encode_voter(Voter(cluster_id="c", node_id=1, incarnation=ID))[:-3]),
    ):
        with pytest.raises(StorageError, match=r"a block.*voter.json.*missing or damaged too.*member rebuild"):
            give_up_store(file, disk, DAMAGE, cluster_id="c", node_id=NodeId(1), alone=False)


@pytest.mark.parametrize("foreign", ["voter file", "voter file of another directory", "journal"])
def test_a_store_beside_what_is_another_s_is_neither_given_up_nor_put_aside(place: Place, foreign: str) -> None:
    """What the other's voter file says of its store is not about this one; nothing is written to it either."""
    journal = JournalSettings(max_entry_bytes=4096, segment_bytes=16 * 1024)
    of_node = NodeId(2) if foreign == "voter file" else NodeId(1)
    mine, other = UUID(ID).bytes, UUID(int=2).bytes
    owner = Owner(1, other if foreign == "journal" else mine)
    Journal.open(place.disk, InlineWorker(), journal, VirtualTime(), owner=owner)
    incarnation = ID if foreign == "journal" else str(UUID(bytes=other))
    for reason in ("", "its own store was damaged"):
        voter = Voter(cluster_id="c", node_id=of_node, incarnation=incarnation, begun=True, rebuild_store=reason)
        Directory(place.file, voter).save()
        with pytest.raises(UsageError, match=r"belongs to node_id 2|part of the journal of node 1"):
            place.open()
        with pytest.raises(UsageError, match=r"belongs to node_id 2|part of the journal of node 1"):
            give_up_store(place.file, place.disk, DAMAGE, cluster_id="c", node_id=NodeId(1), alone=False)
        found = place.file.read()
        assert found is not None
        assert decode_voter(found.data) == voter
        assert place.names() == {"store"}
