"""The counted price of an operation is the committed one (tests/bench/counts.toml), within a tenth: calls, bytecodes,
and what is asked of the kernel.

How it is counted: tests/bench/counted.py. What a change means to make dearer or cheaper is written anew by the command
that a failure names.
"""

import msgspec
import pytest

from tests.bench.counts import COLUMNS, NATIVE, SIZES, WRITE, advice, committed, counted, differences
from tests.unit.leaf.kit import library

ALONE = "commit alone: leader"
SHARE = 0.12
"""By how much the planted loop makes a lone commit dearer, in steps."""
TOGETHER = [
    (f"commit among 64: {role}", column) for role in ("leader", "follower") for column in ("turns", "sends", "disk")
]
PER_ROUND = 3
"""Steps of a round of an empty loop: the next number, its name, and back."""


def planted(rounds: int) -> str:
    """Code that gives every command of a broker a loop which does nothing, and calls nothing."""
    return f"""
from quorate.gateway.remoting.service import RemotingService
handle = RemotingService.handle
def dearer(self, *given):
    for _ in range({rounds}):
        pass
    return handle(self, *given)
RemotingService.handle = dearer
"""


def test_an_operation_costs_what_the_table_says_and_a_planted_loop_is_found() -> None:
    """No call, built-in or step more or fewer than a tenth; a commit that becomes 12 % dearer is named, and one that
    becomes as much cheaper too.
    """
    version, known = committed()
    found = counted("operations")
    growth = {name: row for name, row in known.items() if "sets, " in name}
    assert not (told := differences(known, growth | found, version)), advice(told)
    loop = planted(int(found[ALONE].steps * SHARE / PER_ROUND))
    worse = counted("commit", first=loop)
    assert [line for line in differences(found, worse) if line.startswith(f"{ALONE}: dearer: steps")]
    assert [line for line in differences(worse, found) if line.startswith(f"{ALONE}: cheaper: steps")]


def test_with_the_native_leaf_an_operation_costs_what_its_table_says() -> None:
    """The same within a tenth for the other build; and there is no operation that it makes dearer."""
    library()  # Skips where none can be compiled.
    version, known = committed("native")
    found = counted("operations", first=NATIVE)
    assert not (told := differences(known, found, version)), advice(told)
    _, pure = committed()
    assert all(row.steps <= 1.01 * pure[name].steps for name, row in known.items())


def test_twenty_times_the_sets_cost_no_more_for_each() -> None:
    """A heartbeat, a commit and an election cost the table's price with 100 sets and with 2,000, and within a tenth the
    same with both: nobody goes through all sets for one.
    """
    version, known = committed()
    found = counted(*map(str, SIZES))
    operations = {name: row for name, row in known.items() if "sets, " not in name}
    assert not (told := differences(known, operations | found, version)), advice(told)
    few, many = (
        {name.removeprefix(f"{size} "): row for name, row in found.items() if name.startswith(f"{size} ")}
        for size in SIZES
    )
    rest = "sets, a second at rest: leader"
    assert many.pop(rest).steps < 2 * few.pop(rest).steps, "twenty times the sets may cost no multiple at rest"
    assert not (told := differences(few, many)), "\n".join(told)


def test_twenty_times_the_members_cost_no_more_for_each_heartbeat() -> None:
    """From the command to the answer, and what is done for a member in its time: within a tenth with 100 and 2,000;
    and a loop over all of them in a heartbeat is found.
    """
    few, many = (counted(f"members {number}") for number in (100, 2000))
    steps = few["member heartbeat: leader"].steps, many["member heartbeat: leader"].steps
    assert abs(steps[1] - steps[0]) <= 0.1 * steps[0], steps
    slow = """
from quorate.controller.member_keeper import MemberKeeper
heard = MemberKeeper.heard
def all_of_them(self, beat):
    sum(1 for _ in self._heard)
    return heard(self, beat)
MemberKeeper.heard = all_of_them
"""
    worse = counted("members 300", first=slow)["member heartbeat: leader"].steps
    assert worse > 1.1 * steps[0]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_members_cost_no_more_for_each_heartbeat() -> None:
    """As many as are asked for: within a tenth with 2,000 and 10,000, in steps and in calls of Python."""
    few, many = (counted(f"members {number}")["member heartbeat: leader"] for number in (2_000, 10_000))
    assert abs(many.steps - few.steps) <= 0.1 * few.steps, (few, many)
    assert abs(many.python - few.python) <= 0.1 * few.python, (few, many)


def test_a_send_more_for_a_commit_is_found() -> None:
    """What is asked of the kernel is counted where it is asked: an answer that leaves in two pieces is named."""
    _, known = committed()
    assert 3 <= known[ALONE].sends <= 4, "an answer, and a message to each of two followers at least"
    two = """
from quorate.gateway.remoting.server import Connection
made = Connection.connection_made
def connection_made(self, transport):
    whole = transport.write
    transport.write = lambda data: (whole(data[:9]), whole(data[9:]))
    made(self, transport)
Connection.connection_made = connection_made
"""
    found = counted("commit", first=two)
    assert [line for line in differences(known, found) if line.startswith(f"{ALONE}: dearer: sends")]


def test_the_comparison_names_what_moved_by_more_than_a_tenth() -> None:
    """9 % pass, 11 % do not, in both directions and in each column that is more than nothing; a row more or less is
    said; the steps of another version of Python are not compared, its calls are.
    """
    _, known = committed()
    row = known[ALONE]
    for column in COLUMNS:
        if getattr(row, column) < 1:  # Then a tenth is next to nothing.
            continue
        for share, word in ((1.09, ""), (0.91, ""), (1.11, "dearer"), (0.89, "cheaper")):
            moved = msgspec.structs.replace(row, **{column: getattr(row, column) * share})
            told = differences(known, known | {ALONE: moved})
            assert [line.split(": ")[2] for line in told] == ([word] if word else [])
            elsewhere = differences(known, known | {ALONE: moved}, version="2.7")
            assert bool(elsewhere) == bool(word and column != "steps")
    for name, column in TOGETHER:  # Of what many operations share, each has little, and twice that is twice the price.
        row = known[name]
        twice = msgspec.structs.replace(row, **{column: 2 * getattr(row, column)})
        (line,) = differences(known, known | {name: twice})
        assert line.startswith(f"{name}: dearer: {column}")
        assert line.endswith("(+100%)")
    row = known[ALONE]
    assert differences(known, {name: known[name] for name in known if name != ALONE}) == [f"{ALONE}: no longer counted"]
    assert differences({}, {ALONE: row}) == [f"{ALONE}: not in the table"]
    assert WRITE in advice(["something"])
