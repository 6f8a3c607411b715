"""Sums worked out anew: always those of the rows, whatever was worked out before."""

from msgspec.structs import replace

from quorate.metadata.requests import RequestTable
from quorate.model.state import EMPTY, Config
from tests.plain_sums import plain_sums
from tests.sim.fresh_sums import FreshSums


def test_they_are_the_plain_sums_of_every_state_in_turn() -> None:
    """Requests that come, go, or are another under the same number; rows that change; groups."""
    fresh, table = FreshSums(), RequestTable()
    state = replace(EMPTY, configs=EMPTY.configs.set("s", Config(scope="s", values={"a": "1"})))
    tables = [table]
    for number in range(4):
        table, _ = table.remember("p", f"{number}-x", number, 1, b"reply", 1000 + number)
        tables.append(table)
    shorter, _ = table.limited(2, 3_600_000).remember("p", "9-x", 9, 1, b"", 2000)
    other = replace(table, sequence=table.sequence.set(1, replace(table.sequence[1], reply=b"another")))
    for requests in (*tables, shorter, other, table):
        for groups in ([], [(b"group/g", b"1")]):
            for each in (EMPTY, state):
                assert fresh.of(each, requests, groups) == plain_sums(each, requests, groups)
