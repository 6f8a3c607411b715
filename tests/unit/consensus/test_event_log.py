"""Readers of the event log see whole batches, in order, to the high watermark and no further."""

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.consensus.ports import Family, StoreOp, Term
from quorate.consensus.storage.cold_reads import SWEEP_FROM, TOLD_MAX
from quorate.consensus.storage.event_log import EventLog, parse_batch
from quorate.consensus.storage.store import RocksStore, applied_ops, offset_key
from quorate.consensus.storage_settings import EventLogSettings
from quorate.errors import InvariantBrokenError, PeerError, StorageError, UsageError
from quorate.wire.records import HEADER_BYTES, assemble
from tests.stand_ins import InlineWorker, MemoryStore

EVERYTHING = 1 << 40


def batch(base: int, count: int, term: int, time_ms: int, size: int = 100) -> bytes:
    """A record batch v2 of so many bytes; what its records say nobody reads here."""
    bodies = [b"x" * (size - HEADER_BYTES), *[b""] * (count - 1)] if count else []
    return assemble(bodies, time_ms - 5, time_ms, base_offset=base, leader_epoch=term)


class Writer:
    """Does what the machine does: one store write, then publish."""

    def __init__(self, settings: EventLogSettings | None = None, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.settings = settings
        self.log = EventLog(self.store, settings)
        self.index = 1
        self.batches: list[tuple[int, int, Term, bytes]] = []

    def slice(self, *batches: tuple[int, int, int]) -> None:
        """Write batches of (count, term, time_ms) as one slice."""
        ops: list[StoreOp] = []
        published = []
        base = self.log.end_offset
        for count, term, time_ms in batches:
            data = batch(base, count, term, time_ms)
            ops += self.log.ops_for(base, count, term, data)
            published.append((base, count, Term(term), data))
            base += count
            self.index += 1
        self.store.write([*ops, *applied_ops(self.index, 1, base, 0)])
        self.log.publish(published)
        self.batches += [b for b in published if b[1]]

    def reopened(self) -> EventLog:
        return EventLog(self.store, self.settings)


@pytest.fixture(params=[EventLogSettings(), EventLogSettings(tail_batches=3), EventLogSettings(tail_bytes=0)])
def writer(request: pytest.FixtureRequest) -> Writer:
    """A log of 60 batches of 1 to 3 events in terms 1, 2, 5, with any share of it in memory."""
    writer = Writer(request.param)
    for number in range(0, 60, 2):
        term = (1, 2, 5)[number // 20]
        writer.slice((1 + number % 3, term, 1000 + number), (1 + (number + 1) % 3, term, 1001 + number))
    return writer


def both(writer: Writer) -> tuple[EventLog, EventLog]:
    """The running log, and the log after a restart."""
    return writer.log, writer.reopened()


def test_a_fresh_log_is_empty() -> None:
    """End 0, nothing to read, no term, no time."""
    log = EventLog(MemoryStore())
    assert (log.start_offset, log.end_offset, log.read(0, 1000), log.term_starts) == (0, 0, [], [])
    assert (log.first_since(0), list(log.batches_from(0))) == (None, [])


def no_one() -> None:
    """It is not called."""
    raise AssertionError("nobody waits")


def always() -> bool:
    """Somebody waits."""
    return True


def old_log(events: int) -> tuple[Writer, EventLog, InlineWorker]:
    """A log of so many batches, none of them in memory, and its reader's thread, which waits to be told."""
    writer = Writer(EventLogSettings(tail_batches=3))
    writer.slice(*[(1, 1, 1000 + number) for number in range(events)])
    worker = InlineWorker()
    worker.held = True
    return writer, EventLog(writer.store, EventLogSettings(tail_batches=0), worker), worker


def test_what_left_memory_is_read_beside_the_loop_for_who_waits() -> None:
    """What is in memory is ready; older batches are when ``done`` is called: in that call nothing reads the store. Who
    asks for the same waits with the others; afterwards nothing is kept.
    """
    writer, log, worker = old_log(20)
    seen: list[list[bytes]] = []

    def look() -> None:
        assert log.ready(2, 350, look, always)
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(MemoryStore, "scan")
            seen.append(log.read(2, 350))

    assert log.ready(20, 100, look, always)
    assert log.ready(21, 100, look, always)
    assert not log.ready(2, 350, look, always)
    assert not log.ready(2, 350, look, always)
    assert not log.ready(5, 100, lambda: seen.append(log.read(5, 100)), always)
    worker.run()
    expected = [data for *_, data in writer.batches]
    assert seen == [expected[2:5], expected[2:5], expected[5:6]]
    assert not log.ready(2, 350, lambda: None, always)
    assert writer.log.ready(19, 100, look, always)


def test_many_who_read_the_same_are_told_some_at_a_time() -> None:
    """Each makes an answer of it, so no turn tells more than ``TOLD_MAX``; the next are told after another read, behind
    whoever waits for something else.
    """
    _, log, worker = old_log(20)
    told: list[str] = []
    for _ in range(TOLD_MAX + 5):
        log.ready(2, 100, lambda: told.append("many"), always)
    log.ready(9, 100, lambda: told.append("one"), always)
    worker.run(1)
    assert told == ["many"] * TOLD_MAX
    worker.run()
    assert told == ["many"] * TOLD_MAX + ["one"] + ["many"] * 5


def test_nothing_is_read_for_who_has_gone() -> None:
    """They are not told, and do not stay: not even while a disk that does not answer holds up the one read."""
    writer, log, worker = old_log(20)
    gone: list[int] = []
    told: list[int] = []
    reads = list(range(2, 12))
    for offset in reads:
        log.ready(offset, 100, lambda at=offset: told.append(at), lambda at=offset: at not in gone)  # type: ignore[misc]
    gone += reads[:-1]
    for _ in range(3 * SWEEP_FROM):
        log.ready(15, 100, lambda: told.append(15), lambda: False)
    assert log._cold is not None
    assert sum(map(len, log._cold._waiting.values())) <= SWEEP_FROM
    with pytest.MonkeyPatch.context() as patch:
        scans: list[bytes] = []
        scan = writer.store.scan

        def counted(_store: MemoryStore, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
            scans.append(start)
            return scan(family, start, stop)

        patch.setattr(MemoryStore, "scan", counted)
        worker.run()
    assert told == reads[-1:]
    assert scans == [offset_key(reads[0]), offset_key(reads[-1])]


def test_a_time_that_left_memory_is_searched_beside_the_loop() -> None:
    """In the call of ``done`` nothing reads the store; what memory can tell, or that there is nothing, is told at once.
    Who has gone is told nothing; afterwards nothing is kept.
    """
    writer, log, worker = old_log(20)
    assert log.times_ready([log.newest_ms + 1], no_one, always)
    assert writer.log.times_ready([0, writer.log.newest_ms], no_one, always)
    times = [struct.unpack_from(">q", data, 35)[0] for *_, data in writer.batches]
    told: list[object] = []

    def look() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(MemoryStore, "scan")
            told.extend(map(log.first_since, (0, times[7], log.newest_ms)))

    assert not log.times_ready([0, times[7], log.newest_ms], look, always)
    assert not log.times_ready([0], no_one, lambda: False)
    worker.run()
    bases = [base for base, *_ in writer.batches]
    assert told == [(bases[0], times[0]), (bases[7], times[7]), (bases[-1], times[-1])]
    assert not log.times_ready([0], no_one, lambda: False)


def test_searches_wait_for_each_other_and_are_not_made_for_who_has_gone() -> None:
    """Whatever many ask, one job waits for the disk; who asks for the same time waits with the others."""
    _, log, worker = old_log(20)
    told: list[object] = []
    gone: list[int] = []
    for number in range(3 * SWEEP_FROM):
        time = 1000 + number % 7
        log.times_ready([time], lambda: told.append(0), lambda at=number: at not in gone)  # type: ignore[misc]
        log.times_ready([1010], no_one, lambda: False)
    log.times_ready([1010], lambda: told.append(log.first_since(1010)), always)
    assert worker.pending() == 1
    gone += range(7, 3 * SWEEP_FROM)
    searched: list[int] = []
    search = EventLog._search

    def counted(log: EventLog, time_ms: int, high: int) -> tuple[int, int] | None:
        searched.append(time_ms)
        return search(log, time_ms, high)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventLog, "_search", counted)
        worker.run()
    assert told.pop() == (10, 1010)
    assert told == [0] * 7
    assert searched == [*range(1000, 1007), 1010]
    assert log._cold is not None
    assert (log._cold._waiting, log._cold._count) == ({}, 0)


def test_a_reader_that_refuses_work_is_asked_again_by_the_next() -> None:
    """Nobody's request fails of it, or ends the reading of old batches; who was refused waits with the next."""
    _, log, worker = old_log(20)
    told: list[int] = []
    with pytest.MonkeyPatch.context() as patch:

        def refused(job: object, done: object) -> None:
            raise StorageError("1024 jobs wait for the disk")

        patch.setattr(worker, "submit", refused)
        assert not log.ready(2, 100, lambda: told.append(2), always)
        assert not log.times_ready([1003], lambda: told.append(3), always)
    worker.run()
    assert told == []
    assert not log.ready(5, 100, lambda: told.append(5), always)
    worker.run()
    assert told == [2, 3, 5]


def test_a_search_that_fails_is_told_where_it_is_wanted() -> None:
    """As a read of batches: who asked searches again, and meets the damage."""
    writer, log, worker = old_log(1)
    writer.store.write([StoreOp("events", offset_key(0), b"rot" * 30)])
    told: list[str] = []

    def look() -> None:
        with pytest.raises(StorageError) as caught:
            log.first_since(0)
        told.append(str(caught.value))

    assert not log.times_ready([0], look, always)
    worker.run()
    assert "offset 0" in told[0]


def test_a_cold_read_that_fails_is_told_where_it_is_wanted() -> None:
    """The reader's thread keeps the node alive; who asked reads again, and meets the damage."""
    writer, log, worker = old_log(2)
    writer.store.write([StoreOp("events", offset_key(0), b"rot" * 30)])
    told: list[str] = []

    def look() -> None:
        with pytest.raises(StorageError) as caught:
            log.read(0, 100)
        told.append(str(caught.value))

    assert not log.ready(0, 100, look, always)
    worker.run()
    assert "offset 0" in told[0]


def test_every_offset_is_read_with_its_whole_batch(writer: Writer) -> None:
    """From any offset: the batch that holds it and all after it, byte for byte, before and after a restart."""
    for log in both(writer):
        assert log.end_offset == sum(count for _, count, _, _ in writer.batches)
        for base, count, _, data in writer.batches:
            expected = [b[3] for b in writer.batches if b[0] >= base]
            for offset in range(base, base + count):
                assert log.read(offset, EVERYTHING) == expected
                assert log.read(offset, 1) == [data]
        assert log.read(log.end_offset, EVERYTHING) == []


def test_a_read_stops_before_its_budget_is_exceeded(writer: Writer) -> None:
    """Batches come while all fit; the first comes anyway."""
    for log in both(writer):
        assert [len(log.read(0, budget)) for budget in (0, 99, 100, 199, 200, 550)] == [1, 1, 1, 1, 2, 5]


def test_what_is_written_but_not_published_is_not_seen(writer: Writer) -> None:
    """Between the store write and ``publish`` readers see the old end."""
    log, end = writer.log, writer.log.end_offset
    writer.store.write(log.ops_for(end, 1, 9, batch(end, 1, 9, 5000)))
    assert log.end_offset == end
    assert log.read(end, EVERYTHING) == []
    assert log.read(0, EVERYTHING) == [data for *_, data in writer.batches]
    assert writer.reopened().end_offset == end
    assert writer.reopened().term_starts[-1][0] == 5
    assert writer.reopened().read(end, EVERYTHING) == []


def test_a_batch_that_does_not_follow_is_refused(writer: Writer) -> None:
    """A gap or an overlap is a broken invariant and changes nothing."""
    end = writer.log.end_offset
    for base in (end - 1, end + 1):
        with pytest.raises(InvariantBrokenError):
            writer.log.publish([(base, 1, Term(5), batch(base, 1, 5, 1))])
    assert writer.log.end_offset == end


@pytest.mark.parametrize("offset", [-1, 10_000])
def test_reading_outside_is_refused(writer: Writer, offset: int) -> None:
    """Below 0 and above the end there is nothing to read."""
    with pytest.raises(UsageError):
        writer.log.read(offset, 100)
    with pytest.raises(UsageError):
        writer.log.batches_from(offset)


def test_entries_without_events_take_no_place() -> None:
    """A batch of no events stores and publishes nothing."""
    writer = Writer()
    writer.slice((0, 1, 1000), (2, 1, 1000), (0, 2, 1000))
    assert (writer.log.end_offset, writer.log.term_starts) == (2, [(1, 0)])
    assert len(writer.log.read(0, EVERYTHING)) == 1
    assert len(list(writer.store.scan("events"))) == 1


def test_batches_travel_with_what_a_receiver_needs(writer: Writer) -> None:
    """``batches_from`` gives base offset, count, term and bytes, from the batch that holds the offset to the end."""
    for log in both(writer):
        assert list(log.batches_from(0)) == writer.batches
        assert list(log.batches_from(writer.batches[7][0])) == writer.batches[7:]
        assert next(log.batches_from(writer.batches[8][0] - 1)) == writer.batches[7]


def test_a_transfer_is_not_disturbed_by_what_happens_meanwhile(writer: Writer) -> None:
    """An iterator taken before more is published and memory is given up ends where the log ended."""
    travelling, expected = writer.log.batches_from(0), list(writer.batches)
    first = next(travelling)
    for number in range(50):
        writer.slice((1, 6, 2000 + number))
    assert [first, *travelling] == expected


def test_terms_begin_where_their_first_event_is(writer: Writer) -> None:
    """``term_starts`` lists each term with events once, in memory and after a restart."""
    first = {term: base for base, _, term, _ in reversed(writer.batches)}
    for log in both(writer):
        assert log.term_starts == sorted(first.items())


def test_a_slice_may_hold_several_terms() -> None:
    """Each term's row is written once, with its first offset, even if one slice brings more of the same term."""
    writer = Writer()
    writer.slice((1, 1, 1), (1, 3, 1), (2, 3, 1), (1, 4, 1))
    writer.slice((1, 4, 1))
    for log in both(writer):
        assert log.term_starts == [(1, 0), (3, 1), (4, 4)]


def test_a_time_finds_the_first_offset_at_or_after_it(writer: Writer) -> None:
    """Binary search agrees with looking at every batch."""
    for log in both(writer):
        for time_ms in range(995, 1065):
            later = [base for base, _, _, data in writer.batches if struct.unpack_from(">q", data, 35)[0] >= time_ms]
            found = log.first_since(time_ms)
            assert (found and found[0]) == (later[0] if later else None), time_ms


def test_equal_times_find_the_first_of_them() -> None:
    """Many batches of one millisecond: the first of them is found."""
    writer = Writer()
    for number in range(40):
        writer.slice((2, 1, 100 + number // 10))
    expected = [(0, 100), (0, 100), (20, 101), (60, 103), None]
    assert [writer.log.first_since(time) for time in (99, 100, 101, 103, 104)] == expected


def test_memory_is_bounded(writer: Writer) -> None:
    """The tail never holds more than its limits allow."""
    settings = writer.settings or EventLogSettings()
    for number in range(200):
        writer.slice((1, 7, 3000 + number))
        assert len(writer.log._batches) <= settings.tail_batches
        assert sum(map(len, writer.log._batches)) == writer.log._tail_bytes <= settings.tail_bytes


def test_a_missing_batch_is_a_storage_error(writer: Writer) -> None:
    """A hole in the store is never skipped: the reader gets what is before it, then an error."""
    base, count, _, _ = writer.batches[5]
    writer.store.write([StoreOp("events", offset_key(base + count - 1), None)])
    log = writer.reopened()
    assert log.read(0, 400) == [data for *_, data in writer.batches[:4]]
    with pytest.raises(StorageError, match=str(base)):
        log.read(0, EVERYTHING)
    with pytest.raises(StorageError):
        log.read(base, 1)


def test_a_missing_end_is_a_storage_error(writer: Writer) -> None:
    """The applied offset says there are more events than the store holds."""
    base, count, _, _ = writer.batches[-1]
    writer.store.write([StoreOp("events", offset_key(base + count - 1), None)])
    with pytest.raises(StorageError):
        writer.reopened().read(0, EVERYTHING)


def test_reload_follows_an_installed_snapshot(writer: Writer) -> None:
    """After batches and applied index were replaced behind its back, ``reload`` sees the new log, terms included."""
    longer = Writer()
    for number in range(100):
        longer.slice((2, 1 + number // 30, 1000 + number))
    other = Writer()
    other.slice((2, 1, 1000))
    parsed = [parse_batch(data) for *_, data in longer.log.batches_from(2)]
    for described in parsed:
        other.store.write(other.log.ops_for(*described))
    assert other.log.end_offset == 2
    other.store.write(applied_ops(500, 4, longer.log.end_offset, 0))
    other.log.reload()
    assert other.log.read(0, EVERYTHING) == longer.log.read(0, EVERYTHING)
    assert other.log.term_starts == longer.log.term_starts == other.reopened().term_starts


def test_an_installation_cut_short_leaves_no_trace() -> None:
    """Batches beyond the applied offset, and their terms, are not there; the same batches can be written again."""
    longer, other = Writer(), Writer()
    for number in range(40):
        longer.slice((1, 1 + number // 10, 1000 + number))
    for described in longer.log.batches_from(0):
        other.store.write(other.log.ops_for(*described))
    log = other.reopened()
    assert (log.end_offset, log.term_starts) == (0, [])
    other.log = log
    for number in range(40):
        other.slice((1, 1 + number // 10, 1000 + number))
    assert other.reopened().term_starts == longer.log.term_starts


def test_a_batch_header_is_read_or_refused() -> None:
    """``parse_batch`` reads base offset, count and term; short or negative headers are the peer's fault."""
    data = batch(77, 3, 9, 1234)
    assert parse_batch(data) == (77, 3, 9, data)
    for wrong in (b"", data[:42], batch(-1, 3, 9, 1), batch(1, 0, 9, 1), batch(1, 1, -1, 1)):
        with pytest.raises(PeerError):
            parse_batch(wrong)


def test_the_log_reads_the_same_from_rocksdb(tmp_path: Path) -> None:
    """The order of keys in RocksDB is the order of offsets, far beyond one byte."""
    store = RocksStore(str(tmp_path / "store"))
    log = EventLog(store, EventLogSettings(tail_batches=10))
    chance = random.Random(3)
    written = []
    for number in range(700):
        base, count = log.end_offset, chance.randint(1, 3)
        described = (base, count, Term(1), batch(base, count, 1, number))
        store.write([*log.ops_for(*described), *applied_ops(number + 2, 1, base + count, 0)])
        log.publish([described])
        written.append(described)
    assert list(log.batches_from(0)) == written
    assert log.first_since(400) == (written[400][0], 400)
    store.close()
