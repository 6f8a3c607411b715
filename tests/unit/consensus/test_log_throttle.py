"""What repeats itself is said once, and counted."""

from collections.abc import Callable
from typing import Any

from quorate.clock import Timer
from quorate.consensus.transport.log_throttle import LogThrottle
from tests.stand_ins import ManualClock


class Later(ManualClock):
    """A clock with timers."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self.due.append(item := (self.now_s + delay_s, callback))
        later = self

        class Off:
            def cancel(self) -> None:
                later.due.remove(item)

        return Off()

    def pass_(self, seconds: float) -> None:
        """Let time pass, and run what is due."""
        self.advance(seconds)
        for item in [item for item in self.due if item[0] <= self.now_s]:
            self.due.remove(item)
            item[1]()


def test_a_thousand_refusals_are_two_lines() -> None:
    """The first is told at once, the others at the end of the period with their count; then it is quiet."""
    clock, said = Later(), list[dict[str, Any]]()
    throttle = LogThrottle(60.0, clock.call_later, lambda **fields: said.append(fields))
    for number in range(1000):
        throttle.tell("a", reason="a", number=number)
        clock.pass_(0.01)
    assert said == [{"reason": "a", "number": 0}]
    clock.pass_(60)
    assert said[1:] == [{"reason": "a", "number": 999, "more": 999, "within_s": 60.0}]
    clock.pass_(60)
    assert len(said) == 2
    assert clock.due == []
    throttle.tell("a", reason="a", number=7)
    assert said[2:] == [{"reason": "a", "number": 7}]


def test_each_kind_is_told_of_by_itself() -> None:
    """What is new is not lost among what repeats itself; one that goes on is one line a period."""
    clock, said = Later(), list[dict[str, Any]]()
    throttle = LogThrottle(60.0, clock.call_later, lambda **fields: said.append(fields))
    for _ in range(3):
        throttle.tell("a", kind="a")
    throttle.tell("b", kind="b")
    assert said == [{"kind": "a"}, {"kind": "b"}]
    for _ in range(3):
        clock.pass_(60)
        throttle.tell("a", kind="a")
    assert said[2:] == [{"kind": "a", "more": count, "within_s": 60.0} for count in (2, 1, 1)]
    throttle.stop()
    assert clock.due == []
