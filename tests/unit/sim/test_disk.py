"""The simulated storage: what was synced survives, what was not may not, and what is torn is torn in the middle."""

from random import Random

import pytest

from quorate.consensus.ports import StoreOp
from quorate.errors import StorageError
from tests.sim.disk import SECTOR, InjectedError, SimDisk, SimStore, SimWorker, Slowness
from tests.sim.world import Loop, World


def machine(seed: int = 1) -> tuple[World, Loop, SimDisk, SimWorker]:
    """A disk and its worker on a loop."""
    world = World(seed)
    loop = Loop(world, "n1", lambda: None)
    disk = SimDisk(world.random)

    def fail(error: Exception) -> None:
        raise error

    return world, loop, disk, SimWorker(world, loop, Slowness(world.random), disk, fail)


def test_what_was_synced_survives_a_power_loss() -> None:
    """A finished job's synced bytes are on the disk whatever the crash."""
    for seed in range(20):
        world, _, disk, worker = machine(seed)
        done: list[int] = []
        disk.create("a", 8)

        def job(disk: SimDisk = disk) -> None:
            disk.write("a", 0, b"12345678")
            disk.sync("a")

        worker.submit(job, lambda done=done: done.append(1))  # type: ignore[misc]
        world.run_until(world.now + 1)
        disk.crash("power")
        assert done == [1] and disk.read("a") == b"12345678"


def test_unsynced_writes_are_lost_as_a_suffix_and_torn_at_its_edge() -> None:
    """After power losses every outcome is a prefix of the bytes in the order written, and tears do occur."""
    seen = set()
    for seed in range(300):
        disk = SimDisk(Random(seed))
        disk.create("a", 8)
        disk.write("a", 0, b"1234")
        disk.write("a", 4, b"5678")
        disk.crash("power")
        seen.add(disk.read("a").rstrip(b"\0"))
    assert seen <= {b"12345678"[:n] for n in range(9)}
    assert {b"", b"12", b"1234", b"123456", b"12345678"} <= seen


def test_a_kill_spares_what_was_written_and_a_later_power_loss_may_take_it() -> None:
    """The page cache outlives the process, not the machine."""
    lost = 0
    for seed in range(40):
        disk = SimDisk(Random(seed))
        disk.create("a", 4)
        disk.write("a", 0, b"1234")
        disk.crash("kill")
        assert disk.read("a") == b"1234"
        disk.crash("power")
        lost += disk.read("a") != b"1234"
    assert lost > 5


def test_a_job_in_flight_may_happen_up_to_any_byte() -> None:
    """A crash in the middle of a job leaves a prefix of its operations, even after its own sync."""
    seen = set()
    for seed in range(300):
        _, _, disk, worker = machine(seed)
        disk.create("a", 6)

        def job(disk: SimDisk = disk) -> None:
            disk.write("a", 0, b"123")
            disk.sync("a")
            disk.write("a", 3, b"456")

        worker.submit(job, lambda: None)
        disk.crash("power")
        seen.add(disk.read("a").rstrip(b"\0"))
    assert seen == {b"123456"[:n] for n in range(7)}


def test_jobs_are_reported_in_order_and_one_at_a_time() -> None:
    """The second job starts after the first is done; reports keep the order."""
    world, loop, _, worker = machine()
    order: list[str] = []
    worker.submit(lambda: order.append("job 1"), lambda: order.append("done 1"))
    worker.submit(lambda: order.append("job 2"), lambda: order.append("done 2"))
    assert order == ["job 1"] and worker.pending() == 2
    world.run_until(world.now + 1)
    assert [entry for entry in order if entry.startswith("done")] == ["done 1", "done 2"]
    assert order.index("job 2") > 0 and worker.pending() == 0
    loop.die()


def test_a_failing_disk_kills_by_its_error() -> None:
    """A sync that fails reaches the worker's error handler and the job is never reported."""
    _, _, disk, worker = machine()
    disk.create("a", 4)
    disk.failing = True
    with pytest.raises(StorageError):
        worker.submit(lambda: disk.sync("a"), lambda: pytest.fail("reported"))


def test_the_store_goes_back_no_further_than_its_last_sync() -> None:
    """A power loss undoes only unsynced writes, latest first; a kill undoes none."""
    seen = set()
    for seed in range(60):
        disk = SimDisk(Random(seed))
        store = SimStore(disk, Random(seed))
        for value in (b"1", b"2"):
            store.write([StoreOp("rows", b"k", value)])
        store.sync()
        store.write([StoreOp("rows", b"k", b"3"), StoreOp("rows", b"new", b"x")])
        store.write([StoreOp("rows", b"k", None)])
        store.crash("kill")
        assert store.get("rows", b"k") is None
        store.crash("power")
        left = store.get("rows", b"k")
        assert (store.get("rows", b"new") is None) == (left == b"2")
        seen.add(left)
    assert seen == {b"2", b"3", None}


def test_the_store_scans_in_order() -> None:
    """Keys come sorted, within bounds, and the last is the greatest."""
    store = SimStore(SimDisk(Random(1)), Random(1))
    store.write([StoreOp("rows", key, key) for key in (b"b", b"a", b"d", b"c")])
    assert [key for key, _ in store.scan("rows", b"b", b"d")] == [b"b", b"c"]
    assert store.last("rows") == (b"d", b"d")
    assert store.last("meta") is None


def test_a_failed_sync_leaves_pages_that_only_writing_again_saves() -> None:
    """What a sync failed to write is still read after a kill, is synced by nobody, and is gone after a power loss."""
    for again in (False, True):
        disk = SimDisk(Random(1))
        disk.create("a", 4)
        disk.write("a", 0, b"1234")
        disk.failing = True
        with pytest.raises(InjectedError):
            disk.sync("a")
        disk.crash("kill")
        assert disk.read("a") == b"1234"
        if again:
            disk.write("a", 0, b"1234")
        disk.sync("a")
        disk.crash("power")
        assert disk.read("a") == (b"1234" if again else bytes(4))


def test_a_power_loss_spares_any_sectors_of_a_write() -> None:
    """Sectors of one unsynced write survive one without the other, the second without the first too."""
    seen = set()
    for seed in range(200):
        disk = SimDisk(Random(seed))
        disk.create("a", 2 * SECTOR)
        disk.write("a", 0, b"x" * 2 * SECTOR)
        disk.crash("power")
        left = disk.read("a")
        seen.add((left[:SECTOR] == b"x" * SECTOR, left[SECTOR:] == b"x" * SECTOR))
    assert seen == {(False, False), (False, True), (True, False), (True, True)}


def test_a_sector_gone_bad_is_met_by_who_reads_it_and_goes_with_its_file() -> None:
    """A read beside it goes well, a crash does not mend it, and a new file of that name is sound."""
    disk = SimDisk(Random(1))
    disk.create("a", 3 * SECTOR)
    disk.bad.add(("a", 1))
    disk.crash("power")
    for offset, size in ((0, -1), (SECTOR - 1, 2), (2 * SECTOR - 1, 1)):
        with pytest.raises(InjectedError):
            disk.read("a", offset, size)
    assert disk.read("a", 0, SECTOR) == disk.read("a", 2 * SECTOR) == bytes(SECTOR)
    with disk.readable():
        assert disk.read("a") == bytes(3 * SECTOR)
    disk.remove("a")
    disk.create("a", 3 * SECTOR)
    assert disk.read("a") == bytes(3 * SECTOR)


def test_a_full_disk_takes_no_new_file_and_an_unreadable_one_gives_nothing() -> None:
    """Both end with the trouble."""
    disk = SimDisk(Random(1))
    store = SimStore(disk, Random(1))
    disk.create("a", 4)
    disk.full = disk.unreadable = True
    for refused in (
        lambda: disk.create("b", 4),
        lambda: disk.read("a"),
        lambda: store.write([StoreOp("rows", b"k", b"v")]),
    ):
        with pytest.raises(InjectedError):
            refused()
    disk.full = disk.unreadable = False
    disk.create("b", 4)
    assert disk.read("a") == bytes(4)
