"""The checker's reading of a disk agrees with the production journal's recovery, through crashes of every kind."""

from collections import Counter

import pytest

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Index, NodeId
from quorate.consensus.storage_settings import JournalSettings
from tests.sim.cluster import Host
from tests.sim.disk import SimWorker
from tests.sim.disk_image import DiskImageReader, Image
from tests.sim.world import Loop, World

SETTINGS = JournalSettings(segment_bytes=4096, max_entry_bytes=1024, tail_bytes=500, tail_entries=5, read_bytes=4096)


def reopen(world: World, host: Host) -> tuple[Loop, Journal]:
    """A new process on the host."""
    loop = Loop(world, "n1", lambda: None)

    def fail(error: Exception) -> None:
        raise error

    worker = SimWorker(world, loop, host.slowness, host.disk, fail)
    return loop, Journal.open(host.disk, worker, SETTINGS, loop)


def act(world: World, journal: Journal, flushes: float) -> str:
    """One random legal operation."""
    random = world.random
    kind = random.choice(["append"] * 8 + ["truncate", "vote", "trim", "reset", "flush", "flush", "wait", "wait"])
    if kind == "append":
        term = journal.last_term + (random.random() < 0.1)
        if random.random() < flushes:
            journal.flush()
        journal.append(Index(journal.last_index + 1), term, bytes([random.randrange(256)]) * random.randrange(200))
    elif kind == "truncate" and journal.last_index > journal.base_index:
        journal.truncate_from(Index(random.randrange(journal.base_index + 1, journal.last_index + 1)))
    elif kind == "vote":
        journal.set_vote(journal.term + 1, random.choice([None, NodeId(1), NodeId(2)]))
    elif kind == "trim":
        journal.trim_to(Index(random.randrange(journal.base_index, max(journal.base_index, journal.durable_index) + 1)))
    elif kind == "reset" and random.random() < 0.2:
        journal.reset(Index(journal.last_index + random.randrange(5)), journal.last_term)
    elif kind == "flush":
        journal.flush()
    elif kind == "wait":
        world.run_until(world.now + random.random() * 0.01)
    return kind


def same(image: Image, journal: Journal) -> bool:
    """Do they say the same of every index?"""
    entries = all(
        image.term_at(Index(i)) == journal.term_at(i) for i in range(journal.base_index, journal.last_index + 2)
    )
    votes = (image.term, image.voted_for) == (journal.term, journal.voted_for)
    return entries and votes and (image.base_index, image.last_index) == (journal.base_index, journal.last_index)


@pytest.mark.parametrize("seed", range(30))
def test_what_the_reader_sees_is_what_recovery_finds(seed: int) -> None:
    """After each crash the recovered journal equals the disk image, and holds all that was durable before."""
    world = World(seed)
    host = Host(world, NodeId(1))
    reader = DiskImageReader()
    done: Counter[str] = Counter()
    for _ in range(30):
        host.disk.on_synced = lambda: None
        loop, journal = reopen(world, host)
        assert same(reader.reset(host), journal)
        host.disk.on_synced = lambda: reader.refresh(host)  # type: ignore[assignment]
        for _ in range(world.random.randrange(60)):
            done[act(world, journal, flushes=seed % 2)] += 1
            image = reader.refresh(host)
            claimed = Index(journal.durable_index)
            if claimed > max(journal.base_index, image.base_index):
                assert image.term_at(claimed) == journal.term_at(claimed)
        term = reader.refresh(host).term
        loop.die()
        host.disk.crash(world.random.choice(("kill", "power")))
        assert reader.reset(host).term >= term
    assert done["append"] > 50 and done["truncate"] > 5
    assert host.disk.torn_writes > 0
