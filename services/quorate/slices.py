"""Long work in short turns: what an operator asks for must not hold up a heartbeat or a vote.

Rules: work is a generator that yields between small steps; as many steps as fit ``TURN_S`` run in one turn of the loop,
then everybody else gets theirs. What is read meanwhile is an immutable state, so the answer is still of one moment.
Work that needs what a thread reads yields a ``Waits``, and goes on in the very call that says it is there; its end is
told in a turn of its own then.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

from quorate.clock import Scheduler

TURN_S = 0.0005
"""How long a turn may take, seconds; a step begun is finished."""
SORTED_PER_STEP = 256
"""Of many that are brought into order."""

T = TypeVar("T")
Waits = Callable[[Callable[[], None]], bool]
"""Is it there? If not, what this is given is called later, when it is."""
Steps = Generator[Any, None, T]
"""Yields None, or a ``Waits``."""


def in_slices(
    steps: Steps[T], scheduler: Scheduler, done: Callable[[Callable[[], T]], None], *, rest_s: float = 0.0
) -> None:
    """Run to the end, over as many turns as it takes; ``done`` gets a function that returns the result, or raises.
    ``rest_s``: between two turns, for what nobody waits for.
    """

    def later(result: Callable[[], T]) -> None:
        # Whoever read for it must not suffer from what becomes of it: an answer that cannot be made raises.
        scheduler.call_soon(lambda: done(result))

    until = scheduler.monotonic() + TURN_S
    try:
        while scheduler.monotonic() < until:
            waits: Waits | None = next(steps)
            if waits is not None and not waits(lambda: in_slices(steps, scheduler, later, rest_s=rest_s)):
                return
    except StopIteration as end:
        result: T = end.value
        done(lambda: result)
        return
    except Exception as error:  # noqa: BLE001  It is raised again where the answer is made.
        trouble = error
        done(lambda: raises(trouble))
        return
    if rest_s:
        scheduler.call_later(rest_s, lambda: in_slices(steps, scheduler, done, rest_s=rest_s))
    else:
        scheduler.call_soon(lambda: in_slices(steps, scheduler, done))


def finished(steps: Steps[T]) -> T:
    """All steps at once, and the result; what is not there is read by the step itself."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def sorting(items: Iterable[T]) -> Steps[Iterator[T]]:
    """All of them in their order, to be read a few a step: each step sorts some, which are merged as they are read."""
    waiting, runs = iter(items), list[list[T]]()
    while run := list(islice(waiting, SORTED_PER_STEP)):
        run.sort()
        runs.append(run)
        yield
    return merge(*runs)  # type: ignore[type-var]


def raises(error: Exception) -> T:  # type: ignore[type-var]
    """Raise it, as an expression."""
    raise error
