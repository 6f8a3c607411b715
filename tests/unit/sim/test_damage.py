"""What the simulator does to a journal can be seen from what is left of it."""

from random import Random

import pytest

from quorate.consensus.journal.journal import Journal, JournalDamagedError
from quorate.consensus.journal.recovery import recover
from quorate.consensus.ports import NodeId
from quorate.consensus.storage_settings import JournalSettings
from tests.sim.disk import SimDisk
from tests.sim.faults import damage_journal, damage_sealed
from tests.stand_ins import InlineWorker, ManualClock

SMALL = JournalSettings(segment_bytes=8192, max_entry_bytes=2048, read_bytes=4096)


def written(sizes: list[int], *, at_once: bool) -> SimDisk:
    """A journal of a vote and of entries of these sizes."""
    disk = SimDisk(Random(1))
    journal = Journal.open(disk, InlineWorker(), SMALL, ManualClock())
    journal.set_vote(3, NodeId(2))
    journal.flush()
    for size in sizes:
        journal.append(journal.last_index + 1, 3, b"x" * size)
        if not at_once:
            journal.flush()
    journal.flush()
    return disk


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("sizes", [[400, 400], [400, 60, 500], [30] * 6 + [900], [700, 700, 700], [100] * 30])
def test_damage_is_done_only_where_something_durable_shows_it(sizes: list[int], at_once: bool) -> None:
    """The last write may lie in several sectors, and with one of them goes all that speaks for what was in it: recovery
    rightly takes that for a write under way. Whatever is damaged else is found, or takes nothing.
    """
    found = 0
    for seed in range(200):
        disk = written(sizes, at_once=at_once)
        whole, _ = recover(disk)
        assert whole is not None
        kind = damage_journal(disk, Random(seed), 0)
        assert kind != "nothing"
        try:
            left, _ = recover(disk)
        except JournalDamagedError:
            found += 1
        else:
            assert left is None or left.seq == whole.seq, (seed, kind)
    assert found > 50


def test_what_is_hurt_beneath_a_running_node_is_sealed_and_is_found() -> None:
    """A bit or a sector of a segment in which nothing changes any more: whoever reads it again, or starts, sees that.
    A journal is hurt once; one that has sealed nothing, or writes to what it sealed, is not hurt.
    """
    assert damage_sealed(written([400], at_once=False), Random(1)) is None
    kinds = set()
    for seed in range(100):
        disk = written([900] * 30, at_once=False)
        kind = damage_sealed(disk, Random(seed))
        if kind is None:  # What was to be written there is what was there.
            continue
        kinds.add(kind)
        assert disk.hurt and len(disk.rotten) == 1 and disk.view == disk.image
        assert damage_sealed(disk, Random(seed)) is None
        with pytest.raises(JournalDamagedError):
            recover(disk)
    assert kinds == {"bit", "lost sector", "misdirected sector"}


def test_what_rotted_is_gone_with_its_file() -> None:
    """A segment that rotted and is then deleted as a whole is no longer one that somebody has to find."""
    disk = written([900] * 30, at_once=False)
    assert damage_sealed(disk, Random(1))
    name = next(iter(disk.rotten))
    left = [disk.rotten for seed in range(100) if damage_journal(disk, Random(seed), 0) and name not in disk.view][:1]
    assert left == [set()]
