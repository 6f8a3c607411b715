"""Both stores keep the same promises; the one on disk also keeps what it synced through a power failure."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from msgspec import structs

from quorate.consensus.ports import Family, Store, StoreOp
from quorate.consensus.storage.store import (
    FAMILIES,
    Applied,
    Identity,
    RocksStore,
    applied_ops,
    claim_identity,
    key_offset,
    offset_key,
    read_applied,
    read_identity,
)
from quorate.consensus.storage_settings import StoreSettings
from quorate.errors import InvariantBrokenError, StorageError, UsageError
from tests.kills import power
from tests.stand_ins import MemoryStore

Open = Callable[[], Store]


@pytest.fixture(params=["memory", "rocks"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open the store; called again: close and open it again, as after a clean stop."""
    memory = MemoryStore()
    opened: list[Store] = []

    def again() -> Store:
        for store in opened:
            store.close()
        opened.append(memory if request.param == "memory" else RocksStore(str(tmp_path / "store")))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


def put(family: Family, key: bytes, value: bytes | None) -> StoreOp:
    return StoreOp(family, key, value)


def test_a_fresh_store_is_empty(reopen: Open) -> None:
    """Nothing is there, in any family."""
    store = reopen()
    for family in FAMILIES:
        assert store.get(family, b"k") is None
        assert list(store.scan(family)) == []
        assert store.last(family) is None


def test_families_are_apart(reopen: Open) -> None:
    """The same key in two families is two rows."""
    store = reopen()
    store.write([put("rows", b"k", b"1"), put("meta", b"k", b"2")])
    store.write([put("meta", b"k", None)])
    assert (store.get("rows", b"k"), store.get("meta", b"k")) == (b"1", None)


def test_a_write_is_seen_at_once_and_in_its_order(reopen: Open) -> None:
    """Later operations of one write win; deleting what is not there is allowed; empty values and zero bytes live."""
    store = reopen()
    store.write(
        [put("rows", b"a", b"1"), put("rows", b"a", b"2"), put("rows", b"b", None), put("rows", b"\0\xff", b"")]
    )
    store.write([put("rows", b"c", b"3"), put("rows", b"c", None)])
    store.write([])
    assert list(store.scan("rows")) == [(b"\0\xff", b""), (b"a", b"2")]
    assert store.get("rows", b"\0\xff") == b""


def test_scans_are_in_key_order_and_half_open(reopen: Open) -> None:
    """``start`` is in, ``stop`` is out, order is byte order, ``last`` is the greatest key."""
    store = reopen()
    keys = [offset_key(number) for number in (0, 1, 255, 256, 65_536, 2**40)]
    for key in random.Random(1).sample(keys, len(keys)):
        store.write([put("events", key, key)])
    assert [key for key, _ in store.scan("events")] == keys
    assert [key for key, _ in store.scan("events", keys[1], keys[4])] == keys[1:4]
    assert [key for key, _ in store.scan("events", offset_key(2))] == keys[2:]
    assert list(store.scan("events", keys[3], keys[3])) == []
    assert store.last("events") == (keys[-1], keys[-1])


def test_a_scan_is_as_of_the_call(reopen: Open) -> None:
    """Writes after the call are not seen, even if nothing was taken from the scan yet."""
    store = reopen()
    store.write([put("rows", bytes([n]), b"old") for n in range(5)])
    scan = store.scan("rows")
    store.write([put("rows", b"\1", b"new"), put("rows", b"\2", None), put("rows", b"\x09", b"new")])
    assert list(scan) == [(bytes([n]), b"old") for n in range(5)]


def test_everything_is_there_after_a_clean_stop(reopen: Open) -> None:
    """Close and open: the same rows."""
    store = reopen()
    store.write([put(family, b"k", family.encode()) for family in FAMILIES])
    store = reopen()
    assert {family: store.get(family, b"k") for family in FAMILIES} == {family: family.encode() for family in FAMILIES}


def test_random_writes_agree_with_a_dict(reopen: Open) -> None:
    """Against the simplest model: writes, reads, scans, restarts."""
    chance = random.Random(7)
    store, model = reopen(), dict[bytes, bytes]()
    for step in range(300):
        ops = [put("rows", bytes([chance.randrange(40)]), chance.choice([None, chance.randbytes(5)])) for _ in range(5)]
        store.write(ops)
        for op in ops:
            if op.value is None:
                model.pop(op.key, None)
            else:
                model[op.key] = op.value
        low, high = sorted((bytes([chance.randrange(40)]), bytes([chance.randrange(40)])))
        assert list(store.scan("rows", low, high)) == sorted((k, v) for k, v in model.items() if low <= k < high)
        assert store.last("rows") == max(model.items(), default=None)
        if step % 100 == 50:
            store = reopen()


def test_a_store_can_be_synced_from_another_thread(reopen: Open) -> None:
    """The worker's thread syncs while the loop's writes: both go on."""
    store = reopen()
    stop, failed = threading.Event(), list[BaseException]()

    def syncing() -> None:
        try:
            while not stop.is_set():
                store.sync()
        except StorageError as error:
            failed.append(error)

    thread = threading.Thread(target=syncing)
    thread.start()
    for number in range(500):
        store.write([put("rows", offset_key(number), bytes(100))])
    stop.set()
    thread.join(30)
    assert (failed, len(list(store.scan("rows")))) == ([], 500)


def test_the_applied_index_survives(reopen: Open) -> None:
    """``applied_ops`` then ``read_applied``: the same numbers; before, there is none."""
    store = reopen()
    assert read_applied(store) is None
    store.write(applied_ops(9, 4, 17, 1_700_000_000_000))
    assert read_applied(reopen()) == Applied(9, 4, 17, 1_700_000_000_000)  # type: ignore[arg-type]


def test_a_damaged_applied_index_is_not_believed(reopen: Open) -> None:
    """A value of another size is a StorageError."""
    store = reopen()
    store.write([put("meta", b"applied", b"x")])
    with pytest.raises(StorageError):
        read_applied(store)


IDENTITY = Identity(cluster_id="c", node_id=2, dir_uuid="d")


def test_an_identity_is_claimed_once(reopen: Open) -> None:
    """The first claim is kept, and the same claim again is fine."""
    store = reopen()
    assert read_identity(store) is None
    claim_identity(store, IDENTITY)
    store = reopen()
    claim_identity(store, IDENTITY)
    assert read_identity(store) == IDENTITY


@pytest.mark.parametrize(
    ("field", "value"), [("cluster_id", "other"), ("node_id", 3), ("dir_uuid", "other"), ("format_version", 1)]
)
def test_somebody_elses_data_is_refused_by_name(reopen: Open, field: str, value: object) -> None:
    """Another cluster, node, directory or format: a UsageError that names it, and nothing changes."""
    store = reopen()
    claim_identity(store, IDENTITY)
    other = {name: getattr(IDENTITY, name) for name in Identity.__struct_fields__} | {field: value}
    with pytest.raises(UsageError, match=field):
        claim_identity(store, Identity(**other))
    assert read_identity(store) == IDENTITY


def test_an_identity_of_the_format_before_is_read_and_raised(reopen: Open) -> None:
    """A store without a voter file beside it becomes one with; whose it is stays."""
    store = reopen()
    claim_identity(store, structs.replace(IDENTITY, format_version=1))
    with pytest.raises(UsageError, match="node_id"):
        claim_identity(store, structs.replace(IDENTITY, node_id=3))
    claim_identity(store, IDENTITY)
    assert read_identity(reopen()) == IDENTITY


def test_a_damaged_identity_is_not_believed(reopen: Open) -> None:
    """Bytes that are no identity are a StorageError."""
    store = reopen()
    store.write([put("meta", b"identity", b"\xc1")])
    with pytest.raises(StorageError):
        read_identity(store)


def test_keys_of_numbers_are_ordered_as_the_numbers() -> None:
    """``offset_key`` keeps order, ``key_offset`` reads it back, also behind a prefix."""
    numbers = [0, 1, 255, 256, 2**63, 2**64 - 1]
    assert sorted(map(offset_key, numbers)) == [offset_key(number) for number in numbers]
    assert [key_offset(b"term/" + offset_key(number)) for number in numbers] == numbers


def test_a_memory_store_forgets_unsynced_writes_in_a_crash() -> None:
    """``crash(n)`` goes back to the first ``n`` writes since the last sync, with deletions and overwrites undone."""
    for keep in range(4):
        store = MemoryStore()
        store.write([put("rows", b"a", b"0"), put("rows", b"b", b"0")])
        store.sync()
        seen = [list(store.scan("rows"))]
        for ops in (
            [put("rows", b"a", b"1"), put("rows", b"a", b"2"), put("rows", b"c", b"1")],
            [put("rows", b"b", None)],
            [put("rows", b"b", b"3"), put("rows", b"c", None)],
        ):
            store.write(ops)
            seen.append(list(store.scan("rows")))
        assert store.unsynced == 3
        store.crash(keep)
        assert (list(store.scan("rows")), store.unsynced) == (seen[keep], 0)
        store.crash()
        assert list(store.scan("rows")) == seen[keep]


def test_a_memory_store_cannot_crash_into_the_future() -> None:
    """More writes than there are unsynced ones cannot be kept."""
    with pytest.raises(InvariantBrokenError):
        MemoryStore().crash(1)


# ── RocksDB only ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_directory_in_use_or_impossible_is_a_storage_error(tmp_path: Path) -> None:
    """A second open of the same store, and a path that cannot be one, are StorageErrors."""
    store = RocksStore(str(tmp_path / "store"))
    with pytest.raises(StorageError):
        RocksStore(str(tmp_path / "store"))
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        RocksStore(str(tmp_path / "file" / "store"))
    store.close()


def test_a_closed_store_answers_nothing(tmp_path: Path) -> None:
    """After ``close`` every call is a StorageError, closing again is none."""
    store = RocksStore(str(tmp_path / "store"))
    store.close()
    store.close()
    for call in (
        lambda: store.get("rows", b"k"),
        lambda: store.scan("rows"),
        lambda: store.last("rows"),
        lambda: store.write([put("rows", b"k", b"v")]),
        store.sync,
    ):
        with pytest.raises(StorageError):
            call()


@pytest.mark.parametrize("read", [0, 1, 100])
def test_a_scan_under_way_keeps_no_store_open(tmp_path: Path, read: int) -> None:
    """Whoever holds one when the store closes (a snapshot that was being sent) cannot read on, and is told so: an end
    would say that this was all. The store can be opened again at once, and is not called damaged.
    """
    store = RocksStore(str(tmp_path / "store"))
    store.write([put("rows", b"%03d" % number, b"v") for number in range(100)])
    told: list[StorageError] = []
    store.on_damage = told.append
    scan, ended = store.scan("rows"), store.scan("rows", b"099")
    assert len(list(islice(scan, read))) == read
    assert len(list(ended)) == 1
    store.close()
    again = RocksStore(str(tmp_path / "store"), must_exist=True)
    with pytest.raises(StorageError, match="was closed"):
        next(scan)
    assert next(ended, None) is None
    assert told == []
    assert again.get("rows", b"099") == b"v"
    again.close()


CHILD = """
import os, sys
from quorate.consensus.ports import StoreOp
from quorate.consensus.storage_settings import StoreSettings
from quorate.consensus.storage.store import RocksStore, applied_ops, offset_key
store = RocksStore(sys.argv[1], StoreSettings(write_buffer_bytes=65536, write_buffers_total_bytes=262144))
index, synced = int(sys.argv[2]), 0
while True:
    for _ in range(40):
        index += 1
        row = StoreOp("rows", b"row%d" % (index % 50), b"%d" % index)
        store.write([StoreOp("events", offset_key(index), os.urandom(400)), row, *applied_ops(index, 1, index + 1, 0)])
    store.sync()
    print(index, flush=True)
    for _ in range(index % 30):
        index += 1
        store.write([StoreOp("events", offset_key(index), b"unsynced"), *applied_ops(index, 1, index + 1, 0)])
"""


def live_and_die(tmp_path: Path, library: Path, start: int, *, lie: bool) -> int:
    """One life of a process that writes and syncs until it is killed and its machine loses power; what was synced."""
    data, logs = tmp_path / "store", tmp_path / "logs"
    environment = {**os.environ, **power.environment(library, logs, data, tmp_path if lie else None)}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(data), str(start)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    synced = 0
    for _ in range(12):
        synced = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split("\n")  # What it still said before it died counts too; a torn line does not.
    synced = max([synced, *map(int, filter(None, rest[:-1]))])
    child.wait(30)
    child.stdout.close()
    power.lose_power(logs)
    return synced


def check_prefix(path: Path) -> int:
    """The store must be the exact state after some write; which one."""
    store = RocksStore(str(path))
    applied = read_applied(store)
    last = applied.index if applied else 0
    assert [key_offset(key) for key, _ in store.scan("events")] == list(range(1, last + 1)), "a hole, or too much"
    store.close()
    return last


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Preloaded into a process it makes power failures possible."""
    return power.build(tmp_path_factory.mktemp("undo"))


def test_what_was_synced_survives_a_power_failure(tmp_path: Path, library: Path) -> None:
    """Life after life is cut off with every unsynced byte dropped: a prefix with all that ``sync`` had returned for."""
    last = 0
    for _ in range(3):
        synced = live_and_die(tmp_path, library, last, lie=False)
        last = check_prefix(tmp_path / "store")
        assert last >= synced > 0


def test_the_power_failure_test_notices_a_disk_that_lies(tmp_path: Path, library: Path) -> None:
    """With syncs that do nothing the same life loses what it believed synced: the test above can fail."""
    synced = live_and_die(tmp_path, library, 0, lie=True)
    try:
        last = check_prefix(tmp_path / "store")
    except (StorageError, AssertionError):
        return
    assert last < synced


TORN = """
import os, sys
from pathlib import Path
from quorate.consensus.ports import StoreOp
from quorate.consensus.storage_settings import StoreSettings
from quorate.consensus.storage.store import RocksStore, applied_ops, offset_key
path = Path(sys.argv[1])
store = RocksStore(str(path), StoreSettings(write_buffer_bytes=65536, write_buffers_total_bytes=262144))
index, last = 0, None
while index != last:
    index += 1
    store.write([StoreOp("events", offset_key(index), os.urandom(400)), *applied_ops(index, 1, index + 1, 0)])
    if last is None and len(list(path.glob("*.log"))) > 1:
        last = index + 3
print(index, flush=True)
os._exit(9)
"""


def test_a_torn_older_log_leaves_no_hole(tmp_path: Path) -> None:
    """Two logs of RocksDB are alive and the older lost its end: the newer must not be believed beyond it.

    A life ends as soon as the newer log has three writes. Now and then the older one is in a table by then: a loss that
    does no harm. So there are several lives, and one of them has to have lost something.
    """
    lost = 0
    for life in range(8):
        path = tmp_path / str(life)
        command = [sys.executable, "-c", TORN, str(path)]
        written = int(subprocess.run(command, check=False, timeout=60, capture_output=True, text=True).stdout)
        logs = sorted(path.glob("*.log"))
        assert len(logs) >= 2
        os.truncate(logs[-2], logs[-2].stat().st_size - 3000)
        try:
            lost += check_prefix(path) < written
        except StorageError:
            lost += 1
    assert lost, "every older log was in a table when its end was cut off"


def test_a_slow_disk_has_room_to_fall_behind_before_a_write_waits(tmp_path: Path) -> None:
    """RocksDB was told so, for every family: with two memtables a flush of a second made the loop wait for seconds."""
    store = RocksStore(str(tmp_path / "store"), StoreSettings(write_buffers_max=7, unmerged_files_max=50))
    store.close()
    text = max((tmp_path / "store").glob("OPTIONS-*")).read_text()
    for name, value in {
        "max_write_buffer_number": 7,
        "level0_slowdown_writes_trigger": 25,
        "level0_stop_writes_trigger": 50,
    }.items():
        assert text.count(f"  {name}={value}\n") == len(FAMILIES) + 1  # And the family that nobody uses.
    assert StoreSettings().write_buffers_max >= 8
