"""Writes that come while others are under way begin together."""

from functools import partial

from quorate.gateway.grpc.gathering import Gathering
from tests.sim.world import Loop, World

HOLD_S = 0.005


class Desk:
    """A gathering in virtual time, and which writes were begun."""

    def __init__(self) -> None:
        self.world = World(1)
        self.loop = Loop(self.world, "gathering", lambda: None)
        self.gathering = Gathering(self.loop, HOLD_S)
        self.begun: list[int] = []
        self.turns = 0

    def write(self, *numbers: int) -> None:
        for number in numbers:
            self.gathering.begin(partial(self._begin, number))

    def _begin(self, number: int) -> None:
        self.begun.append(number)
        if number % 10 == 0:
            self.loop.at_turns_end(self._end)

    def _end(self) -> None:
        self.turns += 1

    def ended(self, times: int = 1) -> None:
        for _ in range(times):
            self.gathering.ended()

    def pass_time(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)


def test_a_lone_write_begins_at_once() -> None:
    """Whoever comes when nothing is under way waits for nobody, and for no timer."""
    desk = Desk()
    for number in (1, 2, 3):
        desk.write(number)
        assert desk.begun[-1] == number
        desk.ended()


def test_writes_wait_for_those_under_way_and_then_begin_in_order_in_one_turn() -> None:
    """What one write puts off to the end of the turn comes after the last of them."""
    desk = Desk()
    desk.write(1)
    desk.write(10, 20, 3)
    assert desk.begun == [1]
    desk.ended()
    assert desk.begun == [1, 10, 20, 3]
    desk.pass_time(2 * HOLD_S)
    assert desk.begun == [1, 10, 20, 3], "nothing is begun twice"
    assert desk.turns == 2


def test_the_last_of_those_under_way_is_waited_for() -> None:
    """Not the first of them that ends."""
    desk = Desk()
    desk.write(1)
    desk.write(2, 3)
    desk.ended()
    desk.write(4)
    desk.ended()
    assert desk.begun == [1, 2, 3], "2 or 3 is under way"
    desk.ended()
    assert desk.begun == [1, 2, 3, 4]


def test_no_write_waits_longer_than_it_may() -> None:
    """Those before it may have no answer for long: without a leader, say."""
    desk = Desk()
    desk.write(1)
    desk.write(2, 3)
    desk.pass_time(0.5 * HOLD_S)
    assert desk.begun == [1]
    desk.pass_time(HOLD_S)
    assert desk.begun == [1, 2, 3]
    desk.write(4)
    desk.pass_time(0.5 * HOLD_S)
    assert desk.begun == [1, 2, 3], "each has its own time"
    desk.pass_time(HOLD_S)
    assert desk.begun == [1, 2, 3, 4]


def test_a_caller_that_gave_up_keeps_nobody_waiting() -> None:
    """Its write begins with the others: what became of it nobody asks."""
    desk = Desk()
    desk.write(1)
    desk.write(2, 3)
    desk.ended()
    assert desk.begun == [1, 2, 3]
    desk.ended(2)
    desk.write(4)
    desk.write(5, 6)
    desk.ended(2)
    assert desk.begun == [1, 2, 3, 4, 5, 6], "5 gave up before it began, and 4 has ended"
    desk.ended()
    desk.write(7)
    assert desk.begun[-1] == 7
