"""What the journal promises after a crash: a prefix holding all that was durable, or a loud error. Never anything else.

The model is a list: the state after each operation. A recovered journal says how many operations it holds (``seq``) and
must equal the state after that many. The disk of the random tests forgets what was not synced, by sector or by byte.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from quorate.consensus.journal import frames
from quorate.consensus.journal import journal as journal_module
from quorate.consensus.journal import recovery as journal_recovery
from quorate.consensus.journal.journal import FIRST, Journal, JournalDamagedError
from quorate.consensus.ports import NodeId
from quorate.consensus.storage_settings import JournalSettings
from quorate.errors import StorageError
from tests.sim.disk import InjectedError, SimDisk
from tests.stand_ins import InlineWorker, ManualClock

TINY = JournalSettings(segment_bytes=2048, max_entry_bytes=900, read_bytes=4096)
SECTOR = 512


class PowerLossError(Exception):
    """The machine is gone in the middle of a call."""


class CrashDisk:
    """A ``Disk`` that can lose what was not synced: any sectors of it, or all but a prefix of bytes."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.files: dict[str, bytearray] = {}
        self._unsynced: list[tuple[str, int, bytes]] = []
        self.calls_left = 1 << 60

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        if name not in self.files:
            raise StorageError(f"no file {name}")
        content = bytearray(self.files[name])
        for other, at, data in self._unsynced:
            if other == name:
                content[at : at + len(data)] = data
        return bytes(content[offset:] if size < 0 else content[offset : offset + size])

    def peek(self, name: str, offset: int, size: int) -> bytes | None:
        return self.read(name, offset, size) if name in self.files else None

    def create(self, name: str, size: int) -> None:
        assert name not in self.files
        if self._dies():
            if self._chance.random() < 0.7:
                self.files[name] = bytearray(self._chance.choice([0, 512, size]))
            raise PowerLossError
        self.files[name] = bytearray(size)

    def write(self, name: str, offset: int, data: bytes) -> None:
        if name not in self.files or offset + len(data) > len(self.files[name]):
            raise StorageError(f"no such place: {name} at {offset}")
        self._unsynced.append((name, offset, data))
        if self._dies():
            raise PowerLossError

    def sync(self, name: str) -> None:
        if self._dies():
            raise PowerLossError
        self._settle([write for write in self._unsynced if write[0] == name])
        self._unsynced = [write for write in self._unsynced if write[0] != name]

    def remove(self, name: str) -> None:
        if self._dies():
            if self._chance.random() < 0.5:
                del self.files[name]
                self._unsynced = [write for write in self._unsynced if write[0] != name]
            raise PowerLossError
        del self.files[name]
        self._unsynced = [write for write in self._unsynced if write[0] != name]

    def lose_power(self) -> None:
        """What was not synced survives in part."""
        by_byte = self._chance.random() < 0.5
        for name, offset, data in self._unsynced:
            if by_byte:
                self._settle([(name, offset, data[: self._chance.randrange(len(data) + 1)])])
                break
            at = offset
            while at < offset + len(data):
                stop = min(offset + len(data), (at // SECTOR + 1) * SECTOR)
                if self._chance.random() < 0.5:
                    self._settle([(name, at, data[at - offset : stop - offset])])
                at = stop
        self._unsynced = []
        self.calls_left = 1 << 60

    def _settle(self, writes: list[tuple[str, int, bytes]]) -> None:
        for name, offset, data in writes:
            self.files[name][offset : offset + len(data)] = data

    def _dies(self) -> bool:
        self.calls_left -= 1
        return self.calls_left < 0


class Files:
    """A ``Disk`` over real files that never syncs: thousands of starts in a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(exist_ok=True)

    def names(self) -> list[str]:
        return sorted(file.name for file in self._path.iterdir())

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        content = (self._path / name).read_bytes()
        return content[offset:] if size < 0 else content[offset : offset + size]

    def peek(self, name: str, offset: int, size: int) -> bytes | None:
        return self.read(name, offset, size) if name in self.names() else None

    def create(self, name: str, size: int) -> None:
        (self._path / name).write_bytes(bytes(size))

    def write(self, name: str, offset: int, data: bytes) -> None:
        with (self._path / name).open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def sync(self, name: str) -> None:
        pass

    def remove(self, name: str) -> None:
        (self._path / name).unlink()


State = tuple[int, int | None, tuple[int, int], tuple[tuple[int, int, bytes], ...]]
"""Term, vote, base, entries."""


def state_of(journal: Journal) -> State:
    entries = tuple(journal.entries(journal.first_index, 1 << 40, 1 << 40))
    return (journal.term, journal.voted_for, (journal.base_index, journal.base_term), entries)


class Driver:
    """Does random operations and remembers the state after each."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.states: list[State] = [(0, None, (FIRST.index, FIRST.term), ())]
        self.made = 0

    def step(self, journal: Journal, worker: InlineWorker) -> None:
        """One operation, a flush, or some of the worker's jobs."""
        before = journal.seq
        self._choose(journal, worker)
        if journal.seq > before:
            assert journal.seq == before + 1
            del self.states[before + 1 :]
            self.states.append(state_of(journal))

    def _choose(self, journal: Journal, worker: InlineWorker) -> None:
        chance, draw = self.chance, self.chance.random()
        if draw < 0.45:
            self.made += 1
            entry = self.made.to_bytes(4, "big") * chance.choice([0, 1, 10, 60, 200])
            journal.append(journal.last_index + 1, max(journal.term, journal.last_term), entry)
        elif draw < 0.55:
            journal.set_vote(journal.term + 1, chance.choice([None, NodeId(0), NodeId(1)]))
        elif draw < 0.60 and journal.last_index > journal.base_index:
            journal.truncate_from(chance.randint(journal.base_index + 1, journal.last_index))
        elif draw < 0.65:
            journal.trim_to(
                chance.randint(
                    journal.base_index, max(journal.base_index, min(journal.durable_index, journal.last_index))
                )
            )
        elif draw < 0.66:
            journal.reset(journal.last_index + chance.randrange(3), max(journal.term, journal.last_term))
        elif draw < 0.85:
            journal.flush()
        else:
            worker.run(chance.randrange(4))


@pytest.mark.parametrize("seed", range(100))
def test_after_power_loss_the_journal_is_a_prefix_with_all_that_was_durable(seed: int) -> None:
    """Crash after crash, in any call, with torn and reordered sectors: never less than durable, never made up."""
    crash_again_and_again(seed)


def forget_to_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CrashDisk, "sync", lambda *_: None)


def write_on_behind_a_torn_write(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "_rotate_if_torn", lambda *_: None)


def seal_before_the_next_header(patch: pytest.MonkeyPatch) -> None:
    def begin(self: Journal, begin: journal_module._Begin) -> None:
        self._disk.write(begin.sealed_name, frames.SEAL_AT, begin.seal)
        self._disk.sync(begin.sealed_name)
        if begin.name in self._spares:
            self._spares.remove(begin.name)
        else:
            self._disk.create(begin.name, self._settings.segment_bytes)
        self._disk.write(begin.name, 0, begin.header)
        self._disk.sync(begin.name)

    patch.setattr(Journal, "_begin", begin)


def delete_segments_too_early(patch: pytest.MonkeyPatch) -> None:
    drop = Journal._drop_segments

    def too_early(self: Journal, current: int) -> None:
        self._cuts = type(self._cuts)(journal_module._Cut(0, cut.index, cut.segment) for cut in self._cuts)
        drop(self, self._segments[-1].segment)

    patch.setattr(Journal, "_drop_segments", too_early)


def believe_every_frame(patch: pytest.MonkeyPatch) -> None:
    decode = frames.decode_frame

    def gullible(data: bytes, offset: int, seed: int) -> frames.Frame | None:
        frame = decode(data, offset, seed)
        return frame and msgspec.structs.replace(frame, intact=frame.end <= len(data))

    patch.setattr(journal_recovery, "decode_frame", gullible)


@pytest.mark.parametrize(
    "mutant",
    [
        forget_to_sync,
        write_on_behind_a_torn_write,
        seal_before_the_next_header,
        delete_segments_too_early,
        believe_every_frame,
    ],
)
def test_the_crash_test_notices(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these mistakes is caught by some seed: the test above can fail."""
    mutant(monkeypatch)

    def all_seeds() -> None:
        for seed in range(100):
            crash_again_and_again(seed)

    with pytest.raises((AssertionError, StorageError)):
        all_seeds()


def crash_again_and_again(seed: int) -> None:
    chance = random.Random(seed)
    disk, driver = CrashDisk(chance), Driver(chance)
    durable = 0
    for _life in range(8):
        worker = InlineWorker()
        disk.calls_left = chance.choice([3, 10, 40, 200])
        try:
            journal = Journal.open(disk, worker, TINY, ManualClock())
            assert durable <= journal.seq < len(driver.states), "lost what was durable"
            assert state_of(journal) == driver.states[journal.seq], "not a prefix"
            durable = journal.durable_seq
            worker.held = True
            for _step in range(chance.randrange(400)):
                driver.step(journal, worker)
                durable = journal.durable_seq
        except PowerLossError:
            pass
        disk.lose_power()


@pytest.fixture
def written(tmp_path: Path) -> "Written":
    return Written(tmp_path / "journal")


class Written:
    """A small journal on real files: several segments, every kind of operation, everything durable, vote cast last."""

    def __init__(self, path: Path, base: int = 0) -> None:
        self.path = path
        journal = self.open()
        journal.set_vote(1, NodeId(1))
        journal.flush()
        for index in range(2, 30):
            journal.append(index, 1, bytes([index]) * 40)
            journal.flush()
        journal.truncate_from(28)
        journal.set_vote(2, None)
        journal.flush()
        journal.append(28, 2, b"tail")
        journal.trim_to(2)
        journal.flush()
        journal.set_vote(3, NodeId(2))
        journal.flush()
        self.state, self.seq = state_of(journal), journal.seq
        self.files = {file.name: file.read_bytes() for file in sorted(path.iterdir())}
        assert len(self.files) >= 2

    def open(self) -> Journal:
        return Journal.open(Files(self.path), InlineWorker(), TINY, ManualClock())

    def poke(self, name: str, offset: int, data: bytes) -> None:
        """Overwrite in place (rewriting whole files costs a flush each)."""
        with (self.path / name).open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def restore(self) -> None:
        """The files as they were."""
        for file in self.path.iterdir():
            if file.name not in self.files:
                file.unlink()
        for name, content in self.files.items():
            if not (self.path / name).exists() or (self.path / name).read_bytes() != content:
                (self.path / name).touch()
                self.poke(name, 0, content)

    def outcome(self) -> str | tuple[State, int]:
        """What a start makes of the files: ``damaged``, ``new``, or the state and how many operations it holds."""
        try:
            journal = self.open()
            return "new" if journal.state == "new" else (state_of(journal), journal.seq)
        except JournalDamagedError:
            return "damaged"

    @property
    def last_segment(self) -> str:
        """The segment that holds the vote."""
        return max(name for name, content in self.files.items() if any(content[frames.FRAMES_AT :]))

    @property
    def used(self) -> int:
        """Where the zeros of the last segment begin."""
        return len(self.files[self.last_segment].rstrip(b"\0"))


def every_byte(written: Written) -> Iterator[tuple[str, int]]:
    """Every byte that says something and some of those around it; of the zeros elsewhere every sixteenth."""
    for name, content in written.files.items():
        for offset in range(len(content)):
            if offset % 16 == 0 or any(content[max(0, offset - 8) : offset + 8]):
                yield name, offset


@pytest.mark.parametrize("flip", [0xFF, 0x01])
def test_no_flipped_byte_is_overlooked(written: Written, flip: int) -> None:
    """Byte after byte of every file: the state is the same (nobody reads that byte), or the journal is damaged."""
    seen = {"damaged": 0, "same": 0}
    for name, offset in every_byte(written):
        written.poke(name, offset, bytes([written.files[name][offset] ^ flip]))
        outcome = written.outcome()
        assert outcome in ("damaged", (written.state, written.seq)), (name, offset, outcome)
        seen["damaged" if outcome == "damaged" else "same"] += 1
        written.restore()
    in_use = sum(
        len(content.rstrip(b"\0")) - frames.FRAMES_AT
        for content in written.files.values()
        if any(content[frames.FRAMES_AT :])
    )
    assert seen["damaged"] >= in_use, "bytes of frames must matter"


def test_no_cut_file_is_overlooked(written: Written) -> None:
    """Every file cut at length after length: a segment has its size from birth, so a shorter one is damage.

    Only the empty spare file may have any size: nothing was ever in it.
    """
    for name, offset in every_byte(written):
        os.truncate(written.path / name, offset)
        expected = (written.state, written.seq) if name > written.last_segment else "damaged"
        assert written.outcome() == expected, (name, offset)
        written.restore()


def test_no_missing_file_is_overlooked(written: Written) -> None:
    """Every segment removed in turn is damage; without any the journal is new, which its caller must not believe."""
    for name in written.files:
        if name <= written.last_segment:
            (written.path / name).unlink()
            assert written.outcome() == "damaged", name
            written.restore()
    for name in written.files:
        (written.path / name).unlink()
    assert written.outcome() == "new"


@pytest.mark.parametrize("sector", [512, 4096])
def test_a_lost_sector_costs_at_most_what_no_later_write_proves(written: Written, sector: int) -> None:
    """A sector that reads as zeros is damage, unless only the very last write is gone, as after a lost write."""
    for name, content in written.files.items():
        for at in range(0, len(content), sector):
            if not any(content[at : at + sector]):
                continue
            written.poke(name, at, bytes(min(sector, len(content) - at)))
            outcome = written.outcome()
            if outcome not in ("damaged", (written.state, written.seq)):
                assert name == written.last_segment
                assert at + sector >= written.used, (name, at, outcome)
            written.restore()


class Torn:
    """A journal with everything durable but its last write: three operations, of which one has three sectors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        journal = self.open(path)
        journal.set_vote(1, NodeId(1))
        journal.append(2, 1, b"kept")
        journal.flush()
        self.name = frames.segment_name(1)
        self.before = (path / self.name).read_bytes()
        self.states = [state_of(journal)]
        for index, size in ((3, 5), (4, 850)):
            journal.append(index, 1, bytes([index]) * size)
            self.states.append(state_of(journal))
        journal.set_vote(2, NodeId(2))
        self.states.append(state_of(journal))
        journal.flush()
        self.after = (path / self.name).read_bytes()
        self.start = len(self.before.rstrip(b"\0"))
        self.end = len(self.after.rstrip(b"\0"))

    def open(self, path: Path) -> Journal:
        settings = JournalSettings(segment_bytes=4096, max_entry_bytes=900, read_bytes=4096)
        return Journal.open(Files(path), InlineWorker(), settings, ManualClock())

    def recover(self, content: bytes, check: Callable[[Journal], None]) -> None:
        """Start on ``content``, look, write on, start again and look at that."""
        for file in self.path.iterdir():
            file.unlink()
        (self.path / self.name).write_bytes(content)
        journal = self.open(self.path)
        check(journal)
        journal.set_vote(9, None)
        journal.append(journal.last_index + 1, 9, b"new")
        journal.flush()
        state = state_of(journal)
        assert state_of(self.open(self.path)) == state, "what was torn came back"


def test_a_write_cut_at_any_byte_is_a_shorter_log(tmp_path: Path) -> None:
    """A prefix of the last write survives: exactly the operations that are whole, and no stale frame comes back."""
    torn = Torn(tmp_path / "journal")
    seen = set()
    for cut in range(torn.start, torn.end + 1):

        def check(journal: Journal) -> None:
            whole = torn.states.index(state_of(journal))
            seen.add(whole)
            assert journal.seq == 2 + whole

        torn.recover(torn.after[:cut] + torn.before[cut:], check)
    assert seen == {0, 1, 2, 3}


def test_a_write_that_lost_any_sectors_is_a_shorter_log(tmp_path: Path) -> None:
    """Any subset of the sectors of the last write survives: a prefix of its operations, never damage."""
    torn = Torn(tmp_path / "journal")
    sectors = range(torn.start // SECTOR, torn.end // SECTOR + 1)
    assert len(sectors) >= 3
    for lost in range(1 << len(sectors)):
        content = bytearray(torn.after)
        for bit, sector in enumerate(sectors):
            if lost >> bit & 1:
                content[sector * SECTOR : (sector + 1) * SECTOR] = torn.before[sector * SECTOR : (sector + 1) * SECTOR]
        torn.recover(
            bytes(content), lambda journal: None if state_of(journal) in torn.states else pytest.fail("made up")
        )


def test_a_torn_segment_is_closed_and_never_written_again(tmp_path: Path) -> None:
    """After a torn write the log goes on in a new segment; the old one gets its seal and keeps its bytes."""
    torn = Torn(tmp_path / "journal")
    cut = torn.end - 30
    torn.recover(torn.after[:cut] + torn.before[cut:], lambda _: None)
    content = (torn.path / torn.name).read_bytes()
    assert content[frames.FRAMES_AT :] == (torn.after[:cut] + torn.before[cut:])[frames.FRAMES_AT :]
    seal = frames.decode_seal(content)
    assert seal is not None
    assert seal.end_seq == 4


def test_frames_of_another_segment_do_not_pass(tmp_path: Path) -> None:
    """A segment's bytes under another segment's name have no valid frame."""
    written = Written(tmp_path / "journal")
    first, second = sorted(written.files)[:2]
    content = written.files[first]
    assert frames.decode_frame(content, frames.FRAMES_AT, frames.seed_of(1)) is not None
    assert frames.decode_frame(content, frames.FRAMES_AT, frames.seed_of(2)) is None
    (written.path / second).write_bytes(content)
    assert written.outcome() == "damaged"


def test_what_is_only_in_the_page_cache_is_written_and_synced_again(tmp_path: Path) -> None:
    """A kill leaves unsynced frames that read well; a start makes them durable before it calls them so."""
    chance = random.Random(1)
    disk, worker = CrashDisk(chance), InlineWorker()
    journal = Journal.open(disk, worker, TINY, ManualClock())
    journal.append(2, 1, b"a")
    journal.flush()
    disk.calls_left = 1
    journal.append(3, 1, b"b")
    with pytest.raises(PowerLossError):
        journal.flush()
    assert b"b" not in bytes(disk.files[frames.segment_name(1)])
    disk.calls_left = 1 << 60
    again = Journal.open(disk, InlineWorker(), TINY, ManualClock())
    assert (again.last_index, again.durable_index) == (3, 3)
    disk._unsynced.clear()
    assert Journal.open(disk, InlineWorker(), TINY, ManualClock()).entry(3) == b"b"


class FailingOnce(SimDisk):
    """One sync fails: that of the second segment's header."""

    def sync(self, name: str) -> None:
        self.failing = name == frames.segment_name(2) and not self.pages_dropped
        super().sync(name)


def test_a_segment_whose_first_sync_failed_is_there_after_a_power_loss() -> None:
    """The next start reads its header out of pages that the kernel calls clean: it is written again first."""
    disk = FailingOnce(random.Random(1))
    journal = Journal.open(disk, InlineWorker(), TINY, ManualClock())
    for index in range(2, 8):
        journal.append(index, 1, b"x" * 200)
    with pytest.raises(InjectedError):
        journal.flush()
    disk.crash("kill")
    last = Journal.open(disk, InlineWorker(), TINY, ManualClock()).last_index
    disk.crash("power")
    assert frames.segment_name(2) in disk.names()
    assert Journal.open(disk, InlineWorker(), TINY, ManualClock()).last_index == last > 2


def test_a_rotten_entry_in_the_middle_names_the_place(written: Written) -> None:
    """The error of a damaged journal says which file and byte, for the operator."""
    name = min(written.files)
    at = frames.FRAMES_AT + 60
    written.poke(name, at, bytes([written.files[name][at] ^ 1]))
    with pytest.raises(JournalDamagedError, match=rf"{name} is bad at byte {frames.FRAMES_AT + 48}"):
        written.open()
