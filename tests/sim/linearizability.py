"""A checker of linearizability for one object, with operations whose outcome nobody knows.

Rules: an operation took effect at one instant between its call and its return; an *indeterminate* one at any instant
after its call, or never. ``check`` answers False only when no order of instants explains what was seen.

Theory: Wing & Gong's search with Lowe's memory (G. Lowe, "Testing for linearizability", 2017): walk the calls in
order of time; take any operation whose call comes before the first return still open and that the model accepts;
remember (set of operations taken, state) so that no pair is explored twice; on a return whose operation was not taken,
step back to the last write (a read that could be taken is no choice). Exponential in the number of writes in flight at
once, so a budget of steps bounds it: exceeding the budget is an answer of its own (``None``), and the runner counts it
as a failure.
"""

from collections.abc import Callable, Hashable, Sequence
from math import inf

import msgspec

STEPS_MAX = 200_000


class Operation(msgspec.Struct, frozen=True, gc=False):
    """One call by one client. ``returned`` None: indeterminate. Times in virtual seconds."""

    called: float
    returned: float | None
    what: str
    """``put`` (argument written), ``get`` (result read) or ``cas`` (it saw ``expected`` and wrote; one that saw
    something else is a ``get`` of that).
    """
    value: str | None
    expected: str | None = None


Model = Callable[[Hashable, Operation], tuple[bool, Hashable]]
"""(state, operation) → (could it happen here, as seen?, state after it)."""


def register(state: Hashable, operation: Operation) -> tuple[bool, Hashable]:
    """A register of text: ``put`` always can happen; ``get`` and ``cas`` only where they saw the state."""
    if operation.what == "put":
        return True, operation.value
    if operation.what == "cas":
        return operation.expected == state, operation.value
    return operation.value == state, state


def check(
    operations: Sequence[Operation], model: Model = register, initial: Hashable = None, steps_max: int = STEPS_MAX
) -> bool | None:
    """Is there an order that explains them? None: not decided within ``steps_max`` steps."""
    known = [op for op in operations if op.returned is not None or op.what != "get"]
    order = _timeline(known)
    return _Search(known, order, model, initial, steps_max).run()


def settled(operations: Sequence[Operation]) -> list[Operation]:
    """The same question about a register without indeterminate writes, if no value was written twice.

    A write that nobody saw may as well not have happened. One that somebody saw took effect before that one returned;
    if it is a ``cas``, so did what it saw.
    """
    seen: dict[str | None, float] = {}
    for op in operations:
        if op.returned is not None and op.what != "put":
            saw = op.value if op.what == "get" else op.expected
            seen[saw] = min(op.returned, seen.get(saw, op.returned))
    unknown = {op.value: op for op in operations if op.returned is None and op.what != "get"}
    news = [value for value in unknown if value in seen]
    while news:
        write = unknown[news.pop()]
        if write.what == "cas" and seen[write.value] < seen.get(write.expected, inf):
            seen[write.expected] = seen[write.value]
            news += [write.expected] if write.expected in unknown else []
    found = []
    for op in operations:
        if op.returned is not None:
            found.append(op)
        elif op.what != "get" and op.value in seen:
            found.append(msgspec.structs.replace(op, returned=max(op.called, seen[op.value])))
    return found


def _timeline(operations: Sequence[Operation]) -> list[tuple[bool, int]]:
    """(is a return, operation) in order of time; a call goes before a return of the same instant (they overlap)."""
    events: list[tuple[float, bool, int]] = []
    for number, op in enumerate(operations):
        events.append((op.called, False, number))
        if op.returned is not None:
            events.append((op.returned, True, number))
    events.sort()
    return [(is_return, number) for _, is_return, number in events]


class _Search:
    """The walk; entries of the timeline are in a doubly linked list from which taken operations are lifted."""

    def __init__(
        self, operations: Sequence[Operation], order: list[tuple[bool, int]], model: Model, state: Hashable, steps: int
    ) -> None:
        self._ops = operations
        self._order = order
        self._model = model
        self._state: Hashable = state
        self._steps_left = steps
        count = len(order)
        self._head = count
        self._next: list[int] = [*range(1, count + 1), 0]
        self._previous: list[int] = [count, *range(count)]
        self._call_at = {number: at for at, (is_return, number) in enumerate(order) if not is_return}
        self._return_at = {number: at for at, (is_return, number) in enumerate(order) if is_return}
        self._taken = 0
        self._open = len(self._return_at)
        self._seen: set[tuple[int, Hashable]] = set()
        self._path: list[tuple[int, Hashable]] = []

    def run(self) -> bool | None:
        at = self._next[self._head]
        while self._open:
            self._steps_left -= 1
            if self._steps_left < 0:
                return None
            is_return, number = self._order[at] if at != self._head else (True, -1)
            if is_return:
                back = self._step_back()
                if back is None:
                    return False
                at = back
            elif self._take(number):
                at = self._next[self._head]
            else:
                at = self._next[at]
        return True

    def _take(self, number: int) -> bool:
        possible, state = self._model(self._state, self._ops[number])
        mark = (self._taken | (1 << number), state)
        if not possible or mark in self._seen:
            return False
        self._seen.add(mark)
        self._path.append((number, self._state))
        self._taken, self._state = mark
        self._lift(self._call_at[number])
        if number in self._return_at:
            self._open -= 1
            self._lift(self._return_at[number])
        return True

    def _step_back(self) -> int | None:
        """To the last choice there was, and past it; None: there was none.

        A ``get`` is none: it changes nothing, so where it can be taken, taking it forbids nothing that comes after.
        """
        while self._path:
            number, self._state = self._path.pop()
            self._taken &= ~(1 << number)
            if number in self._return_at:
                self._open += 1
                self._unlift(self._return_at[number])
            self._unlift(self._call_at[number])
            if self._ops[number].what != "get":
                return self._next[self._call_at[number]]
        return None

    def _lift(self, at: int) -> None:
        before, after = self._previous[at], self._next[at]
        self._next[before] = after
        self._previous[after] = before

    def _unlift(self, at: int) -> None:
        self._next[self._previous[at]] = at
        self._previous[self._next[at]] = at
