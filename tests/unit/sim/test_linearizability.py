"""The linearizability checker: it accepts what can be explained, refuses what cannot, and agrees with brute force."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.linearizability import Operation, check, settled


def put(value: str, called: float, returned: float | None) -> Operation:
    """A write."""
    return Operation(called, returned, "put", value)


def get(value: str | None, called: float, returned: float) -> Operation:
    """A read and what it saw."""
    return Operation(called, returned, "get", value)


def cas(expected: str | None, value: str, called: float, returned: float | None) -> Operation:
    """A write on the condition of what it finds, which it found if it returned."""
    return Operation(called, returned, "cas", value, expected)


def test_reads_after_a_write_see_it() -> None:
    """A plain sequential history is accepted."""
    assert check([get(None, 0, 1), put("a", 2, 3), get("a", 4, 5), put("b", 6, 7), get("b", 8, 9)]) is True


def test_a_stale_read_is_refused() -> None:
    """A read that begins after a write returned must not see what was before it."""
    assert check([put("a", 0, 1), put("b", 2, 3), get("a", 4, 5)]) is False


def test_two_readers_must_not_disagree_on_the_order() -> None:
    """Once a reader saw the new value, no later reader may see the old one, even while the write is still open."""
    assert check([put("a", 0, 1), put("b", 2, 10), get("b", 3, 4), get("a", 5, 6)]) is False


def test_overlapping_operations_may_take_any_order() -> None:
    """While a write is open a reader may see either value."""
    assert check([put("a", 0, 1), put("b", 2, 10), get("a", 3, 4), get("b", 5, 6)]) is True


def test_an_indeterminate_write_may_have_happened_late() -> None:
    """A write without an answer may take effect long after it was asked for."""
    assert check([put("a", 0, 1), put("b", 2, None), get("a", 3, 4), get("b", 50, 51)]) is True


def test_an_indeterminate_write_may_never_have_happened() -> None:
    """A write without an answer need not take effect."""
    assert check([put("a", 0, 1), put("b", 2, None), get("a", 50, 51)]) is True


def test_an_indeterminate_write_does_not_come_and_go() -> None:
    """Seen once, it stays."""
    assert check([put("a", 0, 1), put("b", 2, None), get("b", 3, 4), get("a", 5, 6)]) is False


def test_a_value_nobody_wrote_is_refused() -> None:
    """Reads do not invent."""
    assert check([put("a", 0, 1), get("z", 2, 3)]) is False


def test_a_comparison_sees_the_newest_value() -> None:
    """A compare-and-set succeeds on the value before it and no other; two cannot both succeed on one value."""
    assert check([put("a", 0, 1), cas("a", "b", 2, 3), get("b", 4, 5)]) is True
    assert check([put("a", 0, 1), put("b", 2, 3), cas("a", "c", 4, 5)]) is False
    assert check([put("a", 0, 1), cas("a", "b", 2, 5), cas("a", "c", 2, 5)]) is False


def test_an_indeterminate_comparison_that_was_seen_had_seen_its_value() -> None:
    """A chain of writes that nobody answered is explained from its end."""
    chain = [put("a", 0, None), cas("a", "b", 1, None), cas("b", "c", 2, None)]
    assert len(settled([*chain, get("c", 10, 11)])) == 4
    assert len(settled([*chain, get("b", 10, 11)])) == 3
    assert check(settled([*chain, get("c", 10, 11), get("b", 12, 13)])) is False


def test_too_much_work_is_said_so() -> None:
    """Beyond its budget of steps the checker answers neither yes nor no."""
    crowd = [put(str(n), 0, 100) for n in range(12)] + [get("nobody", 200, 201)]
    assert check(crowd, steps_max=1000) is None


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Small random histories, right ones and wrong ones."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        called = draw(st.integers(0, 12))
        returned = called + draw(st.integers(1, 6))
        ends = None if draw(st.integers(0, 4)) == 0 else returned
        what = draw(st.sampled_from(["put", "cas", "get", "get"]))
        if what == "put":
            found.append(put("ab"[number % 2], called, ends))
        elif what == "cas":
            found.append(cas(draw(st.sampled_from([None, "a", "b"])), "ab"[number % 2], called, ends))
        else:
            found.append(get(draw(st.sampled_from([None, "a", "b"])), called, returned))
    return found


def explained(order: tuple[Operation, ...]) -> bool:
    """Does this order respect real time and the register?"""
    state: str | None = None
    for at, op in enumerate(order):
        if any(later.returned is not None and later.returned < op.called for later in order[at + 1 :]):
            return False
        if op.what != "put" and (op.value if op.what == "get" else op.expected) != state:
            return False
        state = state if op.what == "get" else op.value
    return True


@settings(max_examples=400, deadline=None)
@given(histories())
def test_it_agrees_with_trying_every_order(history: list[Operation]) -> None:
    """On small histories the verdict equals that of brute force over all orders and all fates of unanswered writes."""
    known = [op for op in history if op.returned is not None]
    unknown = [op for op in history if op.returned is None]
    fates = [[op for bit, op in enumerate(unknown) if mask >> bit & 1] for mask in range(1 << len(unknown))]
    truth = any(explained(order) for fate in fates for order in permutations(known + fate))
    assert check(history) is truth


@settings(max_examples=400, deadline=None)
@given(histories())
def test_settling_unanswered_writes_changes_no_verdict(history: list[Operation]) -> None:
    """With values of their own, unanswered writes can be dropped or dated without changing the answer."""
    names = [f"{op.value}{number}" if op.what != "get" else None for number, op in enumerate(history)]
    written = [name for name in names if name is not None]

    def other(value: str | None, number: int) -> str | None:
        """A value that was written, in place of one that may not have been."""
        return None if value is None or not written else written[number % len(written)]

    unique = [
        Operation(op.called, op.returned, op.what, name or other(op.value, number), other(op.expected, number + 1))
        for number, (op, name) in enumerate(zip(history, names, strict=True))
    ]
    assert check(settled(unique)) is check(unique)
    assert all(op.returned is not None for op in settled(unique))
