"""Many things to do at once are done one after the other, a lone one at once, and what has a time at that time."""

from itertools import pairwise

import pytest

from quorate.controller.paced import LOOKS_PER_TURN, Agenda, PacedQueue, UntilDone
from quorate.controller.settings import ControllerSettings
from tests.unit.controller.bench import Bench

REST_S = 0.01


class Worker:
    """Notes what it did and when; what is odd needs nothing done."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.done: list[tuple[int, float]] = []
        self.paced = PacedQueue(self.bench.loop, REST_S, self.do)

    def do(self, item: int) -> bool:
        """One item."""
        self.done.append((item, round(self.bench.world.now, 3)))
        return item % 2 == 0

    @property
    def items(self) -> list[int]:
        """What was done, in order."""
        return [item for item, _ in self.done]


def test_a_lone_item_is_done_at_once_and_others_after_a_rest_each() -> None:
    """In order; between any two there is a rest, and the queue tells how many wait."""
    worker = Worker()
    worker.paced.add([2, 4, 6])
    assert len(worker.paced) == 3
    worker.bench.after(REST_S / 2)
    assert worker.items == [2]
    worker.bench.after(REST_S)
    assert worker.items == [2, 4]
    worker.bench.after(REST_S)
    assert worker.items == [2, 4, 6]
    assert len(worker.paced) == 0


def test_an_item_that_needs_nothing_costs_no_rest() -> None:
    """All such items up to the next real one are gone through in one turn, if they are few."""
    worker = Worker()
    worker.paced.add([1, 3, 2, 5, 4])
    worker.bench.after(REST_S / 2)
    assert worker.items == [1, 3, 2]
    worker.bench.after(REST_S)
    assert worker.items == [1, 3, 2, 5, 4]


def test_of_very_many_items_that_need_nothing_few_are_gone_through_in_one_turn() -> None:
    """Each is soon done, and all of them together are not: others have their turns between."""
    worker, seen = Worker(), list[int]()

    def noting() -> None:
        seen.append(len(worker.done))
        if worker.paced:
            worker.bench.loop.call_soon(noting)

    worker.paced.add(range(1, 2_001, 2))
    worker.bench.loop.call_soon(noting)
    worker.bench.after(REST_S)
    assert worker.items == list(range(1, 2_001, 2))
    assert {after - before for before, after in pairwise(seen)} == {LOOKS_PER_TURN, 1_000 % LOOKS_PER_TURN}


def test_an_item_that_fails_holds_up_no_other() -> None:
    """The trouble is the loop's to tell; those behind it are done in the turns that follow."""
    worker = Worker()

    def do(item: int) -> bool:
        worker.do(item)
        if item == 3:
            raise ValueError("for a test")
        return True

    worker.paced = PacedQueue(worker.bench.loop, REST_S, do)
    worker.paced.add([3, 2, 4])
    with pytest.raises(ValueError, match="for a test"):
        worker.bench.after(REST_S)
    worker.bench.after(REST_S * 3)
    assert worker.items == [3, 2, 4]


def test_an_item_that_comes_during_the_rest_waits_for_its_end() -> None:
    """The rest holds after the last item too; when it is over the next one is done at once again."""
    worker = Worker()
    worker.paced.add([2])
    worker.bench.after(REST_S / 2)
    worker.paced.add([4])
    worker.bench.after(REST_S / 4)
    assert worker.items == [2]
    worker.bench.after(REST_S * 3)
    worker.paced.add([6])
    worker.bench.after(REST_S / 4)
    assert worker.items == [2, 4, 6]


def test_an_item_waits_once_however_often_it_is_added() -> None:
    """So the queue is never longer than there are things; what was done may be added again."""
    worker = Worker()
    worker.paced.add([2, 4])
    worker.paced.add([4, 2, 6])
    assert len(worker.paced) == 3
    worker.bench.after(REST_S * 4)
    assert worker.items == [2, 4, 6]
    worker.paced.add([4])
    worker.bench.after(REST_S / 2)
    assert worker.items == [2, 4, 6, 4]


def test_what_is_cleared_is_not_done() -> None:
    """Nor does the queue stand still afterwards."""
    worker = Worker()
    worker.paced.add([2, 4])
    worker.bench.after(REST_S / 2)
    worker.paced.clear()
    worker.bench.after(REST_S * 2)
    assert worker.items == [2]
    worker.paced.add([6])
    worker.bench.after(REST_S / 2)
    assert worker.items == [2, 6]


def test_what_has_a_time_is_done_then_in_the_order_of_the_times() -> None:
    """Never before its time, at most a period after it; also when one is added that is due before those waiting."""
    bench, done = Bench(), list[str]()
    agenda = Agenda(bench.loop, REST_S, done.append)
    agenda.add(5 * REST_S, "late")
    agenda.add(2 * REST_S, "soon")
    bench.after(1.9 * REST_S)
    assert done == []
    bench.after(1.3 * REST_S)
    assert done == ["soon"]
    bench.after(1.5 * REST_S)
    assert done == ["soon"]
    bench.after(1.6 * REST_S)
    assert done == ["soon", "late"]
    agenda.add(REST_S, "after it stood still")
    bench.after(2.5 * REST_S)
    assert done[2:] == ["after it stood still"]


def test_of_many_that_are_due_together_each_has_its_own_turn() -> None:
    """What came in meanwhile is done between any two of them."""
    bench, done = Bench(), list[str]()

    def do(item: str) -> None:
        done.append(item)
        bench.loop.call_soon(lambda: done.append("other work"))

    agenda = Agenda(bench.loop, REST_S, do)
    agenda.add(REST_S, "a")
    agenda.add(REST_S, "b")
    bench.after(3 * REST_S)
    assert done == ["a", "other work", "b", "other work"]


def test_an_agenda_rings_again_after_one_that_failed() -> None:
    """What it raises is for the log; what waits, and what is added later, is done at its time."""
    bench, done = Bench(), list[str]()

    def do(item: str) -> None:
        if item == "bad":
            raise ValueError(item)
        done.append(item)

    agenda = Agenda(bench.loop, REST_S, do)
    agenda.add(REST_S, "bad")
    agenda.add(REST_S, "due with it")
    with pytest.raises(ValueError, match="bad"):
        bench.after(3 * REST_S)
    bench.after(3 * REST_S)
    assert done == ["due with it"]
    agenda.add(REST_S, "bad")
    with pytest.raises(ValueError, match="bad"):
        bench.after(3 * REST_S)
    agenda.add(REST_S, "after it stood still")
    bench.after(3 * REST_S)
    assert done == ["due with it", "after it stood still"]


def test_an_agenda_that_is_cleared_does_nothing_and_goes_on() -> None:
    """What waited is forgotten; what is added later is done."""
    bench, done = Bench(), list[str]()
    agenda = Agenda(bench.loop, REST_S, done.append)
    agenda.add(REST_S, "a")
    agenda.clear()
    bench.after(3 * REST_S)
    agenda.add(REST_S, "b")
    bench.after(3 * REST_S)
    assert done == ["b"]


def test_what_ends_while_it_stands_in_the_queue_is_not_tried() -> None:
    """Added once more while it was under way, and then acknowledged: nobody needs it."""
    bench, done = Bench(), list[int]()

    def do(item: int) -> bool:
        done.append(item)
        return True

    until_done: UntilDone[int] = UntilDone(bench.loop, ControllerSettings(), do)
    until_done.add([1, 2])
    until_done.end(1)
    bench.after(1.0)
    assert done == [2]
