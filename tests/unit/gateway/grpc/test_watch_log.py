"""What the log tells of some kinds, where memory does not have it any more: read beside the loop, once at a time."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.errors import StorageError
from quorate.gateway.grpc.log_watches import LogWatches
from quorate.gateway.grpc.member_watch import WITH_BROKERS
from quorate.gateway.grpc.watch_log import KEYS, LogFold
from quorate.metadata.commands import PutKey
from tests.unit.gateway.grpc.house import House


class Cold:
    """Three puts that only the store has, and who folds them."""

    def __init__(self) -> None:
        self.house = House()
        self.revisions = [self.put() for _ in range(3)]
        self.house.forget_history()
        self.disk = self.house.bench.reader
        self.woken: list[bool] = []
        self.fold = LogFold(self.house.context, KEYS, 0, lambda: self.woken.append(True))

    def put(self) -> int:
        self.house.bench.done(PutKey(key=b"k", value=b"v"))
        return self.house.revision

    def read(self) -> list[int]:
        return [change.revision for change in self.fold.read()]


def test_what_is_read_beside_the_loop_is_told_when_it_is_here() -> None:
    """It is kept from the moment in which it is at hand to the next look; until then nothing is asked twice."""
    cold = Cold()
    cold.disk.held = True
    for _ in range(3):
        assert (cold.read(), cold.woken) == ([], [])
        cold.revisions.append(cold.put())
    assert cold.disk.pending() == 1
    cold.disk.run()
    assert cold.woken == [True]
    found = cold.read()
    while len(found) < len(cold.revisions):
        cold.disk.run()
        found += cold.read()
    assert found == cold.revisions
    assert cold.read() == []
    assert cold.disk.pending() == 0


def test_what_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is woken and told; nothing of it is passed over."""
    cold = Cold()

    def broken(*_: object) -> Iterator[tuple[bytes, bytes]]:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(cold.house.bench.store, "scan", broken)
    cold.disk.held = True
    assert cold.read() == []
    cold.disk.run()
    assert cold.woken == [True]
    with pytest.raises(StorageError, match="the disk is gone"):
        cold.fold.read()


def test_who_left_is_not_read_for() -> None:
    """The disk is left alone."""
    cold = Cold()
    cold.disk.held = True
    assert cold.read() == []
    cold.fold.close()
    cold.disk.run()
    assert cold.woken == []


def test_what_is_applied_is_looked_at_once_for_all_who_want_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are; and it wakes those whom it concerns, and no others."""
    searches: list[tuple[bytes, ...]] = []

    class Marks(tuple[bytes, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[bytes]:
            searches.append(self)
            return super().__iter__()

    house = House()
    watches: LogWatches = LogWatches(house.asking)
    watches.start()
    following: list[Any] = [watches.follow(kinds, 0) for kinds in (KEYS, WITH_BROKERS) for _ in range(50)]
    monkeypatch.setattr(watches, "_waiting", {one: Marks(marks) for one, marks in watches._waiting.items()})
    house.bench.done(PutKey(key=b"k", value=b"v"))
    house.bench.after(0.1)
    assert sorted(searches) == sorted([KEYS.marks, WITH_BROKERS.marks])
    assert [one.wake.is_set() for one in following] == [True] * 50 + [False] * 50
