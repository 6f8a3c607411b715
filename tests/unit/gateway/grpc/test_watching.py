"""Watches: every change of a range once, in order, whole revisions, however slow the client and wherever it begins."""

from types import SimpleNamespace
from typing import Any

import pytest

from quorate.gateway.fresh import Freshness, NotFresh
from quorate.gateway.grpc import messages
from quorate.gateway.grpc.pb import kv_pb2, rpc_pb2
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.grpc.watching import LOOK, NOT_TAKEN_S
from quorate.metadata.commands import DeleteKeys, PutKey, PutTopic, Transact
from tests.unit.gateway.grpc.house import House, Reader

ALL = (b"\x00", b"\x00")


def put(house: House, key: bytes, value: bytes = b"v") -> int:
    """The revision."""
    house.bench.done(PutKey(key=key, value=value))
    return house.revision


def txn(house: House, *keys: bytes) -> int:
    house.bench.done(Transact(success=tuple(PutKey(key=key, value=b"t") for key in keys)))
    return house.revision


def test_a_watch_hears_what_comes() -> None:
    """Created first, then each change of its keys with its revision, and nothing of others."""
    house = House()
    reader = Reader(house)
    reader.watch(b"a")
    (created,) = reader.next()
    assert (created.created, created.watch_id, created.header.revision) == (True, 0, house.revision)
    first = put(house, b"a", b"1")
    put(house, b"b")
    house.bench.done(DeleteKeys(key=b"a", range_end=b"z"))
    gone = house.revision
    assert reader.events(2) == [(first, "PUT", b"a", b"1"), (gone, "DELETE", b"a", b"")]


def test_a_revision_comes_whole() -> None:
    """What one transaction wrote is in one answer, under one revision, in its order."""
    house = House()
    reader = Reader(house)
    reader.watch(b"k", b"l")
    revision = txn(house, b"k2", b"other", b"k1")
    _, response = reader.next(2)
    assert [event.kv.key for event in response.events] == [b"k2", b"k1"]
    assert {event.kv.mod_revision for event in response.events} == {response.header.revision} == {revision}


def test_filters_and_what_was_there() -> None:
    """Without puts only deletions come, without deletions only puts; what was there comes to whoever wants it."""
    house = House()
    put(house, b"a", b"0")
    reader = Reader(house)
    create = rpc_pb2.WatchCreateRequest
    reader.watch(b"a", filters=[create.NOPUT], prev_kv=True)
    reader.watch(b"a", filters=[create.NODELETE])
    reader.next(2)
    put(house, b"a", b"1")
    house.bench.done(DeleteKeys(key=b"a"))
    told, gone = reader.next(2)
    assert (told.watch_id, told.events[0].type, told.events[0].HasField("prev_kv")) == (1, kv_pb2.Event.PUT, False)
    assert (gone.watch_id, gone.events[0].type, gone.events[0].prev_kv.value) == (0, kv_pb2.Event.DELETE, b"1")


def expected(house: House) -> list[tuple[int, str, bytes, bytes]]:
    """Some history; what a watch of all of it must tell."""
    told = [(put(house, b"a", b"1"), "PUT", b"a", b"1")]
    house.bench.done(PutTopic(topic="t", read_queues=1, write_queues=1, permission=6))
    told.append((put(house, b"a", b"2"), "PUT", b"a", b"2"))
    revision = txn(house, b"b", b"c")
    told += [(revision, "PUT", b"b", b"t"), (revision, "PUT", b"c", b"t")]
    house.bench.done(DeleteKeys(key=b"a", range_end=b"c"))
    return [*told, (house.revision, "DELETE", b"a", b""), (house.revision, "DELETE", b"b", b"")]


def test_a_watch_begins_at_any_revision() -> None:
    """From memory and from the log the same, from the first revision of it on and from each within; and then what is
    new.
    """
    house = House()
    told = expected(house)
    for forgotten in (False, True):
        if forgotten:
            house.forget_history()
        for start in range(1, house.revision + 2):
            reader = Reader(house)
            reader.watch(*ALL, start=start)
            assert reader.next()[0].created
            later = [one for one in told if one[0] >= start]
            assert not later or reader.events(len(later)) == later
            told.append((put(house, b"new", b"%d" % start), "PUT", b"new", b"%d" % start))
            assert reader.events(1) == told[-1:]
            reader.stream.close()
    assert (len(house.hub.replaying), len(house.hub), len(house.hub.live)) == (0, 0, 0)


def test_from_the_log_an_event_is_whole() -> None:
    """Version, creation and what was there are those of then, though no event says them."""
    house = House()
    first = put(house, b"a", b"1")
    second = put(house, b"a", b"2")
    house.forget_history()
    reader = Reader(house)
    reader.watch(b"a", start=second, prev_kv=True)
    event = reader.next(2)[1].events[0]
    assert (event.kv.version, event.kv.create_revision, event.kv.mod_revision) == (2, first, second)
    assert event.prev_kv.value == b"1"


def test_a_future_revision_is_waited_for() -> None:
    """Nothing before it is told."""
    house = House()
    reader = Reader(house)
    reader.watch(b"a", start=house.revision + 2)
    put(house, b"a", b"1")
    second = put(house, b"a", b"2")
    assert reader.events(1) == [(second, "PUT", b"a", b"2")]


def test_a_slow_client_loses_nothing() -> None:
    """More than the buffer holds is read again, when it takes: each change once, in order; memory stays bounded."""
    house = House(settings=GrpcSettings(watch_buffer_bytes=500))
    reader = Reader(house)
    reader.watch(*ALL)
    revisions = []
    for number in range(200):
        revisions.append(put(house, b"k%d" % (number % 7), b"x" * 50))
        house.bench.after(0.01)
        assert reader.stream._bytes < 1000
    assert not len(house.hub.live)
    assert [event[0] for event in reader.events(200)] == revisions
    revisions.append(put(house, b"last"))
    assert [event[0] for event in reader.events(1)] == revisions[-1:]
    reader.stream.ask_progress()
    assert reader.next()[0].watch_id == -1
    assert len(house.hub.live) == 1


def test_one_change_is_told_to_many_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn tells more events than it may, and one watcher's; each watcher hears the change once, whole, and what
    comes meanwhile behind it.
    """
    house = House()
    turn, names = house.context.settings.watch_turn, 1_000
    for start in range(0, names, 100):
        txn(house, *(b"k%04d" % number for number in range(start, start + 100)))
    readers = [Reader(house) for _ in range(50)]
    for reader in readers:
        reader.watch(b"k", b"l" if reader is not readers[7] else b"m")
        reader.next()
    made, turns = 0, list[int]()

    def happened(*one: Any) -> kv_pb2.Event:
        nonlocal made
        made += 1
        return messages.happened(*one)

    def passing() -> None:
        nonlocal made
        made = 0
        tell()
        turns.append(made)

    monkeypatch.setattr("quorate.gateway.grpc.watching.messages", SimpleNamespace(happened=happened))
    tell = house.hub._pass
    monkeypatch.setattr(house.hub, "_pass", passing)
    house.bench.done(DeleteKeys(key=b"k", range_end=b"l"))
    gone, last = house.revision, put(house, b"k")
    readers[3].stream.close()
    house.bench.after(1)
    assert sum(turns) >= 49 * names
    assert max(turns) < turn + names
    assert house.hub.seen == last
    for reader in readers[:3] + readers[4:]:
        told = reader.events(names + 1)
        assert [event[2] for event in told] == [*(b"k%04d" % number for number in range(names)), b"k"]
        assert [event[0] for event in told] == [gone] * names + [last]
        assert not reader.stream._queue


def test_who_watches_the_keys_of_a_change_is_found_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With prefixes of many lengths a key takes as many looks."""
    house = House()
    for start in range(0, 1_000, 100):
        txn(house, *(b"k" * 60 + b"%04d" % number for number in range(start, start + 100)))
    reader = Reader(house)
    for length in range(1, 51):
        reader.watch(b"k" * length, b"k" * (length - 1) + b"l")
        reader.next()
    looks, turns = 0, list[int]()
    find, tell = house.hub.live.find, house.hub._pass

    def finding(names: Any, found: Any) -> None:
        nonlocal looks
        looks += len(names) * house.hub.live.looks
        find(names, found)

    def passing() -> None:
        nonlocal looks
        looks = 0
        tell()
        turns.append(looks)

    monkeypatch.setattr(house.hub.live, "find", finding)
    monkeypatch.setattr(house.hub, "_pass", passing)
    house.bench.done(DeleteKeys(key=b"k", range_end=b"l"))
    house.bench.after(1)
    assert sum(turns) == 1_000 * 51
    assert max(turns) <= 2 * house.context.settings.watch_turn / LOOK


def test_a_watcher_that_catches_up_reads_few_keys_at_a_time() -> None:
    """However many changes are in memory: others' work comes in between."""
    house = House(settings=GrpcSettings(watch_turn=10))
    reader = Reader(house)
    *_, last = [txn(house, *(b"k%d" % number for number in range(6))) for _ in range(4)]
    reader.watch(b"k", b"l", start=1)
    ((watcher, _),) = reader.stream._behind.items()
    first = [len(response.events) for response in reader.stream._read_for(watcher)]
    assert (first, watcher.next < last) == ([12], True)
    assert len(reader.events(12)) == 12


def test_what_memory_forgot_puts_the_living_behind() -> None:
    """As after a snapshot: the stream goes on from its own next revision, by the log."""
    house = House()
    reader = Reader(house)
    reader.watch(b"a")
    reader.next()
    first = put(house, b"a", b"1")
    second = put(house, b"a", b"2")
    house.forget_history()
    assert reader.events(2) == [(first, "PUT", b"a", b"1"), (second, "PUT", b"a", b"2")]
    third = put(house, b"a", b"3")
    assert reader.events(1) == [(third, "PUT", b"a", b"3")]


def test_what_cannot_be_watched_is_told() -> None:
    """A negative revision, an empty range, a number in use, one too many: created and cancelled at once, as by etcd."""
    house = House(settings=GrpcSettings(watches_per_stream_max=1))
    reader = Reader(house)
    reader.watch(b"a", start=-1)
    reader.watch(b"b", b"a")
    reader.watch(b"a", watch_id=7)
    reader.watch(b"a", watch_id=7)
    reader.watch(b"a")
    answers = reader.next(5)
    assert [(one.watch_id, one.created, one.canceled) for one in answers] == [
        (-1, True, True),
        (-1, True, True),
        (7, True, False),
        (-1, True, True),
        (-1, True, True),
    ]
    reasons = [one.cancel_reason for one in answers if one.canceled]
    assert [reason.rpartition(" ")[2] for reason in reasons] == ["compacted", "empty", "WatchStream", "requests"]
    reader.stream.cancel(99)
    reader.stream.cancel(7)
    (ended,) = reader.next()
    assert (ended.watch_id, ended.canceled, ended.created) == (7, True, False)
    assert not len(house.hub)


def test_what_watches_hold_is_bounded() -> None:
    """By the bytes of their ranges, on all streams together; whoever ends makes room for others, and nobody twice."""
    house = House(settings=GrpcSettings(watches_bytes_max=5_000))
    readers = [Reader(house), Reader(house)]
    for number in range(3):
        readers[0].watch(b"%d" % number * 1_000)
    readers[1].watch(b"3" * 1_000)
    assert [one.canceled for one in readers[0].next(3)] == [False, False, True]
    (refused,) = readers[1].next()
    assert (refused.watch_id, refused.cancel_reason) == (-1, "etcdserver: too many requests")
    readers[1].watch(b"3", b"4")
    readers[0].stream.cancel(0)
    readers[0].stream.cancel(0)
    readers[1].watch(b"3" * 1_000)
    assert [one.canceled for one in readers[1].next(2)] == [False, False]
    for reader in readers:
        reader.stream.close()
    assert (house.hub.held, house.hub.count) == (0, 0)


def test_numbers_are_given_and_not_twice() -> None:
    """From 0 on, past those that clients chose."""
    house = House()
    reader = Reader(house)
    reader.watch(b"a")
    reader.watch(b"a", watch_id=1)
    reader.watch(b"a")
    assert [one.watch_id for one in reader.next(3)] == [0, 1, 2]


def test_progress_is_told_when_all_is_told() -> None:
    """Asked for, it comes behind everything up to its revision; a watcher that is behind is waited for."""
    house = House()
    for number in range(3):
        put(house, b"a", b"%d" % number)
    reader = Reader(house)
    reader.watch(b"a", start=1)
    reader.stream.ask_progress()
    created, told, progress = reader.next(3)
    assert (created.created, len(told.events), progress.watch_id) == (True, 3, -1)
    assert progress.header.revision == house.revision
    reader.stream.ask_progress()
    assert reader.next()[0].watch_id == -1


def test_progress_is_told_by_the_clock_when_nothing_happens() -> None:
    """To who wants it, and heard of nothing for the whole period."""
    house = House(settings=GrpcSettings(progress_period_s=60))
    reader = Reader(house)
    reader.watch(b"a", progress_notify=True)
    reader.watch(b"b")
    reader.next(2)
    put(house, b"a")
    house.bench.after(61)
    put(house, b"other")
    house.bench.after(60)
    told, progress = reader.next(2)
    assert (len(told.events), len(progress.events), progress.watch_id) == (1, 0, 0)
    assert progress.header.revision == house.revision
    assert not reader.stream._queue
    house.hub.stop()
    house.bench.after(120)
    assert not reader.stream._queue


def test_progress_is_told_to_many_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them once a period, and who is gone meanwhile is told nothing."""
    house = House(settings=GrpcSettings(progress_period_s=60, watch_turn=10))
    reader, other = Reader(house), Reader(house)
    for number in range(45):
        reader.watch(b"k%d" % number, progress_notify=True)
    other.watch(b"k", progress_notify=True)
    reader.next(45)
    other.next()
    tell, turns = house.hub._tell_progress, list[int]()

    def telling(progress: Any) -> None:
        before = len(reader.stream._queue)
        tell(progress)
        turns.append(len(reader.stream._queue) - before)
        other.stream.close()

    monkeypatch.setattr(house.hub, "_tell_progress", telling)
    house.bench.after(61)
    assert turns == [10, 10, 10, 10, 5, 0]
    assert len(other.stream._queue) == 0
    assert {one.watch_id for one in reader.next(45)} == set(range(45))
    house.bench.after(60)
    assert sum(turns) == 90


def test_all_fall_behind_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a snapshot, with many: who begins, ends or has caught up meanwhile has its own place."""
    house = House(settings=GrpcSettings(watch_turn=2))
    reader, late = Reader(house), Reader(house)
    for number in range(9):
        reader.watch(b"k%d" % number)
    reader.next(9)
    tell, turns = house.hub._pass, list[int]()

    def passing() -> None:
        before = len(house.hub.live)
        tell()
        turns.append(before - len(house.hub.live))
        if len(turns) == 1:
            reader.stream.cancel(8)
            late.watch(b"k")

    monkeypatch.setattr(house.hub, "_pass", passing)
    house.hub._due = True  # Its turn does not come before memory has forgotten what it is to tell.
    first = put(house, b"k3")
    house.forget_history()
    house.hub._due = False
    house.hub.applied(house.revision + 1)
    house.bench.after(0.2)
    assert sum(turns) == 8
    assert max(turns) == 2
    assert len(house.hub.live) == 1
    assert house.hub.seen == first
    last = put(house, b"k")
    assert reader.events(1) == [(first, "PUT", b"k3", b"v")]
    assert late.events(1) == [(last, "PUT", b"k", b"v")]


def test_a_large_revision_comes_in_fragments_to_who_takes_them() -> None:
    """All but the last say that there is more, and all have one revision."""
    house = House(settings=GrpcSettings(request_bytes_max=200))
    reader = Reader(house)
    reader.watch(b"k", b"l", fragment=True)
    reader.watch(b"k", b"l")
    reader.next(2)
    revision = txn(house, *(b"k%02d" % number for number in range(20)))
    parts = reader.next(2)
    while sum(len(part.events) for part in parts) < 40:
        parts += reader.next()
    mine = [part for part in parts if part.watch_id == 0]
    assert [part.fragment for part in mine] == [True] * (len(mine) - 1) + [False]
    assert len(mine) > 1
    assert {part.header.revision for part in parts} == {revision}
    (whole,) = [part for part in parts if part.watch_id == 1]
    assert len(whole.events) == 20


def test_a_revision_that_no_buffer_holds_is_made_as_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it waits in memory, for however many watchers; a fragment more is made when one was taken."""
    house = House(settings=GrpcSettings(watch_buffer_bytes=10_000, request_bytes_max=20_000))
    for number in range(20):
        put(house, b"k%02d" % number, bytes(8_000))
    readers = [Reader(house) for _ in range(3)]
    for reader in readers:
        reader.watch(b"k", b"l", prev_kv=True, fragment=True)
        reader.next()
    made = []

    def happened(*one: Any) -> kv_pb2.Event:
        made.append(one)
        return messages.happened(*one)

    monkeypatch.setattr("quorate.gateway.grpc.watching.messages", SimpleNamespace(happened=happened))
    house.bench.done(DeleteKeys(key=b"k", range_end=b"l"))
    gone = house.revision
    house.bench.after(0.1)
    assert not any(reader.stream._queue for reader in readers)
    assert not made
    first = readers[0].next(2)
    assert [len(part.events) for part in first] == [2, 2]
    assert len(made) <= 6
    parts = first + readers[0].next(8)
    assert [part.fragment for part in parts] == [True] * 9 + [False]
    assert {part.header.revision for part in parts} == {gone}
    assert [event.kv.key for part in parts for event in part.events] == [b"k%02d" % number for number in range(20)]
    last = put(house, b"k")
    assert [reader.events(21)[-1][0] for reader in readers[1:]] == [last, last]
    assert readers[0].events(1) == [(last, "PUT", b"k", b"v")]


def test_what_is_larger_than_an_answer_comes_in_fragments_to_all() -> None:
    """It could not be sent in one, however often its watch was begun again."""
    house = House(settings=GrpcSettings(answer_bytes_max=20_000))
    reader = Reader(house)
    reader.watch(b"k", b"l")
    house.bench.done(Transact(success=tuple(PutKey(key=b"k%d" % number, value=bytes(8_000)) for number in range(5))))
    parts = reader.next(4)[1:]
    assert [(len(part.events), part.fragment) for part in parts] == [(2, True), (2, True), (1, False)]


def test_a_watch_that_ends_while_it_is_told_is_told_the_answer_it_began_and_no_other() -> None:
    """So whoever puts fragments together is never left with some of them."""
    house = House(settings=GrpcSettings(request_bytes_max=200, watch_answer_bytes=200))
    txn(house, *(b"k%02d" % number for number in range(10)))
    txn(house, *(b"k%02d" % number for number in range(10)))
    reader = Reader(house)
    reader.watch(b"k", b"l", start=1, fragment=True)
    first = reader.next(2)[1:]
    reader.stream.cancel(0)
    while not first[-1].canceled:
        first += reader.next()
    assert sum(len(part.events) for part in first) == 10
    assert [part.fragment for part in first[-2:]] == [False, False]


def test_many_replays_wait_for_each_other() -> None:
    """No more at a time than the setting says, and each comes to its end."""
    house = House(settings=GrpcSettings(replays_max=1))
    told = expected(house)
    house.forget_history()
    readers = [Reader(house) for _ in range(3)]
    for reader in readers:
        reader.watch(*ALL, start=1)
    for reader in readers:
        assert reader.events(len(told)) == told
        assert len(house.hub.replaying) <= 1
        told.append((put(house, b"z"), "PUT", b"z", b"v"))
        assert reader.events(1) == told[-1:]
        reader.stream.close()
    assert not house.hub.replaying


def test_whose_past_cannot_be_had_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watches whose beginning is nowhere to be had just now wait; others, whose own is, are told all."""
    house = House(settings=GrpcSettings(replays_max=1))
    told = expected(house)
    house.forget_history()
    fresh, read = house.context.fresh, house.context.fresh.read
    refused = list[int]()

    def refusing(freshness: Freshness, seen: Any, **more: Any) -> None:
        if freshness.at is not None and not refused:
            refused.append(freshness.at)
            seen(NotFresh("unavailable", "no process replays", past=True))
        else:
            read(freshness, seen, **more)

    monkeypatch.setattr(fresh, "read", refusing)
    stuck, other = Reader(house), Reader(house)
    stuck.watch(*ALL, start=told[1][0])
    (watcher,) = stuck.stream._behind
    assert list(stuck.stream._read_for(watcher)) == []
    assert len(refused) == 1
    assert not house.hub.replaying
    other.watch(*ALL, start=1)
    assert other.events(len(told)) == told
    other.stream.close()
    assert stuck.events(len(told) - 1) == told[1:]


def test_who_takes_nothing_keeps_no_other_from_the_past() -> None:
    """A replay whose client does not take what it is told is given up to one that waits, and begins again from its
    place once its client goes on: nothing is told twice, and nothing left out.
    """
    house = House(settings=GrpcSettings(replays_max=1, watch_answer_bytes=1))
    told = expected(house)
    house.forget_history()
    slow, other = Reader(house), Reader(house)
    for reader in (slow, other):
        reader.watch(*ALL, start=1)
        assert reader.next()[0].created
    taken = slow.events(1)
    house.bench.after(NOT_TAKEN_S + 0.1)
    assert other.events(len(told)) == told
    taken += slow.events(len(told) - len(taken))
    assert taken == told
    told.append((put(house, b"z"), "PUT", b"z", b"v"))
    assert [reader.events(1) for reader in (slow, other)] == [told[-1:]] * 2
    assert not house.hub.replaying
