"""Long work leaves room for others, and ends with its result or its error."""

from collections import deque
from collections.abc import Callable, Iterator

import pytest

from quorate.slices import SORTED_PER_STEP, TURN_S, Steps, in_slices, sorting


class Ticking:
    """A scheduler whose clock moves a little with every look at it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: deque[Callable[[], None]] = deque()

    def monotonic(self) -> float:
        self.now += TURN_S / 10
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)


def count(to: int) -> Steps[int]:
    """Work of so many steps."""
    for _ in range(to):
        yield
    return to


def test_work_takes_turns_with_others() -> None:
    """No turn has more steps than its time allows, and what others asked for in between runs in between."""
    scheduler, others = Ticking(), 0
    results: list[int] = []
    in_slices(count(100), scheduler, lambda made: results.append(made()))  # type: ignore[arg-type]
    turns = 1
    while scheduler.soon:
        assert results == []
        others += 1
        scheduler.soon.popleft()()
        turns += 1
    assert results == [100]
    assert others == turns - 1
    assert turns > 5


def test_short_work_is_done_at_once() -> None:
    """Nothing is put off that fits the turn."""
    scheduler = Ticking()
    results: list[int] = []
    in_slices(count(2), scheduler, lambda made: results.append(made()))  # type: ignore[arg-type]
    assert results == [2]
    assert not scheduler.soon


def test_work_goes_on_in_the_call_that_says_it_is_there() -> None:
    """What is there already costs no turn; what is not is waited for, and nothing runs meanwhile."""
    scheduler, asked, results = Ticking(), list[Callable[[], None]](), list[str]()

    def comes_later(resume: Callable[[], None]) -> bool:
        asked.append(resume)
        return False

    def work() -> Steps[str]:
        yield lambda _: True
        yield comes_later
        return "made"

    in_slices(work(), scheduler, lambda made: results.append(made()))  # type: ignore[arg-type]
    assert (results, len(asked), len(scheduler.soon)) == ([], 1, 0)
    asked[0]()
    scheduler.soon.pop()()
    assert results == ["made"]


def test_an_answer_that_cannot_be_made_harms_nobody_who_read_for_it() -> None:
    """It is made in a turn of its own: whoever says that something is there goes on."""
    scheduler, asked = Ticking(), list[Callable[[], None]]()

    def comes_later(resume: Callable[[], None]) -> bool:
        asked.append(resume)
        return False

    def work() -> Steps[str]:
        yield comes_later
        raise ValueError("broken")

    in_slices(work(), scheduler, lambda made: made())  # type: ignore[arg-type]
    asked[0]()
    with pytest.raises(ValueError, match="broken"):
        scheduler.soon.pop()()


def test_an_error_in_the_work_is_raised_where_the_answer_is_made() -> None:
    """The turn itself survives it."""

    def failing() -> Steps[int]:
        yield
        raise ValueError("broken")

    scheduler = Ticking()
    makes: list[Callable[[], int]] = []
    in_slices(failing(), scheduler, makes.append)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="broken"):
        makes[0]()


class Counted:
    """A number that counts how often any was compared."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: "Counted") -> bool:
        Counted.compared += 1
        return self.number < other.number


def compared(work: Callable[[], object]) -> int:
    """How often numbers are compared meanwhile."""
    Counted.compared = 0
    work()
    return Counted.compared


def test_many_are_sorted_a_few_at_a_time() -> None:
    """No step compares more than its own takes, nor does reading what follows; the order is as if all were sorted."""
    size, runs = 16 * SORTED_PER_STEP, 16
    steps, done = sorting(Counted(number * 7_919 % size) for number in range(size)), list[Iterator[Counted]]()

    def step() -> None:
        try:
            next(steps)
        except StopIteration as end:
            done.append(end.value)

    per_step = list[int]()
    while not done:
        per_step.append(compared(step))
    assert len(per_step) == runs + 1
    assert 0 < max(per_step) < SORTED_PER_STEP * SORTED_PER_STEP.bit_length()
    found = list[Counted]()
    reading = [compared(lambda: found.append(next(done[0]))) for _ in range(size)]
    assert max(reading) < 4 * runs
    assert [one.number for one in found] == list(range(size))
