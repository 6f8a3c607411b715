"""A store whose bytes were changed says so: nothing is served as if it were all there is."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.consensus.ports import StoreOp, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import (
    RocksStore,
    StoreDamagedError,
    applied_ops,
    forget_pages,
    offset_key,
    read_applied,
)
from quorate.consensus.storage_settings import EventLogSettings
from quorate.errors import StorageError
from tests.stand_ins import MemoryStore
from tests.unit.consensus.test_event_log import batch

ROWS = 3000
REMEDY = "start the node again"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A store of 3,000 rows that has closed: its one table file."""
    store = RocksStore(str(tmp_path / "store"))
    chance = random.Random(1)
    store.write([StoreOp("rows", b"%06d" % number, chance.randbytes(100)) for number in range(ROWS)])
    for family in store._families.values():
        family.flush()
    store.close()
    (found,) = (path for path in (tmp_path / "store").glob("*.sst") if path.stat().st_size > ROWS * 100)
    return found


def flip(path: Path, at: int) -> None:
    """One bit of one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_every_flipped_bit_of_a_table_is_met_or_changes_nothing(table: Path) -> None:
    """Wherever it lies: a scan gives every row as written, or an error that names store and remedy."""
    sound = table.read_bytes()
    chance = random.Random(2)
    met: list[str] = []
    for _ in range(25):
        flip(table, chance.randrange(len(sound)))
        try:
            store = RocksStore(str(table.parent))
            try:
                assert len(list(store.scan("rows"))) == ROWS
                assert store.last("rows") is not None
            finally:
                store.close()
        except StoreDamagedError as error:
            met.append(str(error))
        table.write_bytes(sound)
    assert len(met) > 18
    assert all(str(table.parent) in sentence and REMEDY in sentence for sentence in met)


def test_a_block_that_cannot_be_read_does_not_end_a_scan(table: Path) -> None:
    """Aimed at the middle: rows before it come, then the error; ``on_damage`` hears of it once for each read."""
    flip(table, table.stat().st_size // 2)
    store = RocksStore(str(table.parent))
    heard: list[StorageError] = []
    store.on_damage = heard.append
    found: list[bytes] = []
    with pytest.raises(StoreDamagedError):
        found.extend(key for key, _ in store.scan("rows"))
    assert 0 < len(found) < ROWS
    assert len(heard) == 1
    store.close()


def test_the_last_row_is_not_another_because_its_block_is_bad(table: Path) -> None:
    """``last`` looks at the status too, and ``get`` names the store."""
    size = table.stat().st_size
    for at in range(size - 3400, size - 2300, 50):
        flip(table, at)
    store = RocksStore(str(table.parent))
    with pytest.raises(StoreDamagedError):
        store.last("rows")
    with pytest.raises(StoreDamagedError, match=REMEDY):
        store.get("rows", b"%06d" % (ROWS - 1))
    store.close()


WANTS = [
    "IO error: No space left on device: While appending to file: /s/000013.log: No space left on device",
    "IO error: While appending to file: /s/000013.log: Disk quota exceeded",
    "IO error: DB::Open() failed --- Unable to persist Options file: IO error: /s/OPTIONS-14.dbtmp: File too large",
    "IO error: While open a file for random read: /s/000012.sst: Too many open files",
    "IO error: While open a file for random read: /s/000012.sst: Too many open files in system",
    "Corruption: Can't access /000012.sst: IO error: While open a file: /s/000012.sst: Permission denied",
    "Permission denied (os error 13)",
    "IO error: While open a file for lock: /s/LOCK: Read-only file system",
    "IO error: While lock file: /s/LOCK: Resource temporarily unavailable",
]
DAMAGES = [
    "Corruption: block checksum mismatch: stored = 1, computed = 2 in /s/000012.sst",
    "IO error: While pread offset 0 len 4096: /s/000012.sst: Input/output error",
    "IO error: No such file or directory: While open a file for random read: /s/000012.sst",
    "Invalid argument: /s: does not exist (create_if_missing is false)",
]


class Saying:
    """What of RocksDB fails with a sentence: it, a family, or a cursor."""

    def __init__(self, sentence: str, at: str) -> None:
        self._sentence, self._at = sentence, at

    def _say(self, call: str) -> None:
        if self._at == call:
            raise Exception(self._sentence)  # noqa: TRY002 - as RocksDB's binding does

    def open(self, *_: object) -> None:
        self._say("open")

    def get(self, _: bytes) -> None:
        self._say("get")

    def iter(self) -> "Saying":
        self._say("iter")
        return self

    def seek(self, _: bytes) -> None:
        pass

    def seek_to_last(self) -> None:
        pass

    def valid(self) -> bool:
        return False

    def status(self) -> None:
        self._say("status")

    key = value = next = valid


@pytest.mark.parametrize("sentence", WANTS + DAMAGES)
def test_want_of_room_descriptors_or_rights_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentence: str
) -> None:
    """Whatever opens or reads says which of the two it is, by RocksDB's sentence; ``on_damage`` hears either way."""
    kind = StorageError if sentence in WANTS else StoreDamagedError
    heard: list[StorageError] = []
    store = RocksStore(str(tmp_path / "store"))
    store.on_damage = heard.append
    reads: list[tuple[str, Callable[[], object]]] = [
        ("get", lambda: store.get("rows", b"k")),
        ("iter", lambda: store.scan("rows")),
        ("iter", lambda: store.last("rows")),
        ("status", lambda: list(store.scan("rows"))),
        ("status", lambda: store.last("rows")),
    ]
    for at, read in reads:
        with monkeypatch.context() as patched:
            patched.setitem(store._families, "rows", Saying(sentence, at))
            with pytest.raises(StorageError) as met:
                read()
        assert type(met.value) is kind
        assert sentence in str(met.value)
        assert heard.pop() is met.value
    store.close()
    monkeypatch.setattr("quorate.consensus.storage.store.Rdict", Saying(sentence, "open").open)
    with pytest.raises(StorageError) as met:
        RocksStore(str(tmp_path / "store"))
    assert type(met.value) is kind
    assert not heard


def test_a_block_that_is_remembered_hides_the_disk_only_until_it_is_forgotten(table: Path) -> None:
    """A row that was read is served from memory, whatever the disk has now; once reads are forgotten it is read again,
    by this store and of the kernel, which is told to forget the table.
    """
    store = RocksStore(str(table.parent))
    assert len(list(store.scan("rows"))) == ROWS
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        was = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([was[0] ^ 0x10]))
    assert len(list(store.scan("rows"))) == ROWS
    store.forget_reads()
    with pytest.raises(StoreDamagedError, match=REMEDY):
        list(store.scan("rows"))
    store.close()


def test_the_kernel_is_told_to_forget_every_table(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file of the store's rows, whole; one that was merged away meanwhile is nobody's trouble."""
    told: list[tuple[Path, int, int, int]] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda fd, *how: told.append((Path(f"/proc/self/fd/{fd}").readlink(), *how))
    )
    store = RocksStore(str(table.parent))
    store.forget_reads()
    tables = [(path, 0, 0, os.POSIX_FADV_DONTNEED) for path in table.parent.glob("*.sst")]
    assert sorted(told) == sorted(tables)
    assert table in {path for path, *_ in told}
    forget_pages(table.parent / "gone.sst")
    assert len(told) == len(tables)
    store.close()


@pytest.fixture
def events() -> MemoryStore:
    """A store with thirty batches of two events, of terms 1 to 3."""
    store = MemoryStore()
    log = EventLog(store)
    for number in range(30):
        described = (2 * number, 2, Term(1 + number // 10), batch(2 * number, 2, 1 + number // 10, number))
        store.write([*log.ops_for(*described), *applied_ops(number + 2, 3, 2 * number + 2, 0)])
        log.publish([described])
    return store


def changed(store: MemoryStore, offset: int, change: Callable[[bytes], bytes | None]) -> None:
    """Something happened to the batch that ends at ``offset``."""
    found = store.get("events", offset_key(offset))
    assert found is not None
    store.write([StoreOp("events", offset_key(offset), change(found))])


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None,
        lambda data: data[:-1] + b"y",
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: (5).to_bytes(8, "big") + data[8:],
        lambda _: b"",
    ],
    ids=["missing", "a byte", "cut", "longer", "moved", "empty"],
)
def test_a_damaged_batch_is_an_error_for_every_reader(
    events: MemoryStore, change: Callable[[bytes], bytes | None]
) -> None:
    """Reads at it and through it, its time, its stamp; those beside it are as ever."""
    changed(events, 21, change)
    log = EventLog(events, EventLogSettings(tail_batches=0))
    heard: list[StorageError] = []
    events.on_damage = heard.append
    for read in (
        lambda: log.read(20, 1),
        lambda: log.read(21, 1),
        lambda: log.read(0, 1 << 20),
        lambda: list(log.batches_from(4)),
        lambda: log.stamp_before(21),
        lambda: log.stamp_before(22),
    ):
        with pytest.raises(StoreDamagedError, match=REMEDY):
            read()
    assert len(heard) == 6
    assert len(log.read(0, 700)) == 7
    assert len(log.read(22, 1 << 20)) == 19


def test_the_newest_batch_is_looked_at_when_the_log_opens(events: MemoryStore) -> None:
    """It speaks for what was applied; so does the row of its term."""
    sound = events.get("events", offset_key(59))
    for change in (lambda _: None, lambda data: data[:-1] + b"y"):
        changed(events, 59, change)
        with pytest.raises(StoreDamagedError):
            EventLog(events)
        events.write([StoreOp("events", offset_key(59), sound)])
    EventLog(events)
    events.write([StoreOp("meta", b"term/" + offset_key(3), None)])
    with pytest.raises(StoreDamagedError, match="term 3"):
        EventLog(events)


def test_a_damaged_applied_index_names_the_remedy(events: MemoryStore) -> None:
    """It is of its size, or not believed."""
    events.write([StoreOp("meta", b"applied", b"short")])
    with pytest.raises(StoreDamagedError, match=REMEDY):
        read_applied(events)
