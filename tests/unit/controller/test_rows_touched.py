"""What the state's sums cost: digests of the rows that an entry touches, however many rows there are."""

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from quorate.consensus.entry import Entry, encode_entry
from quorate.consensus.ports import Index, StoreOp, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import applied_ops
from quorate.controller import ReplicatedState
from quorate.controller.comparing import FAMILIES
from quorate.events import Event, Stamp, key
from quorate.events.codec import entity_key
from quorate.metadata import sums
from quorate.metadata.group_rows import encode_changes
from quorate.metadata.requests import RequestSettings, RequestTable
from quorate.metrics import Metrics
from quorate.model import rows
from quorate.wire.avro import encode_events
from tests.plain_sums import plain_sums
from tests.projections.history import START_MS, History
from tests.stand_ins import MemoryStore

COMMITS = 600
FEW, MANY = 10, 10_000
TERM = Term(1)
SINGLE = {"cluster", "feature-level", "leader"}
"""Kinds of which there is one row at most."""
NAMED: dict[str, Any] = {
    "node": lambda number: {"node_id": 1000 + number},
    "broker-set": lambda number: {"name": f"of-many-{number}"},
    "topic": lambda number: {"topic": f"of-many-{number}"},
    "config": lambda number: {"scope": f"topic/of-many-{number}"},
    "key": lambda number: {"key": f"of-many-{number}"},
    "lease": lambda number: {"lease_id": 1_000_000 + number},
    "member": lambda number: {"name": f"of-many-{number}"},
    "schema": lambda number: {"schema_id": 1_000_000 + number, "schema": f"of-many-{number}"},
    "subject": lambda number: {"subject": f"of-many-{number}"},
    "shard": lambda number: {"name": f"of-many-{number}"},
    "segment": lambda number: {"name": f"of-many-{number}/0"},
    "session": lambda number: {"client": f"of-many-{number}"},
    "session-owner": lambda number: {"member_epoch": 1_000_000 + number},
    "will": lambda number: {"session_epoch": 1_000_000 + number},
}
"""Another of each kind."""


class Counted(dict[str, Any]):
    """Where every digest of a row begins: counts them by family."""

    def __init__(self) -> None:
        super().__init__({family: sums._SEEDS[family] for family in FAMILIES})
        self.begun: Counter[str] = Counter()

    def __getitem__(self, family: str) -> Any:
        self.begun[family] += 1
        return super().__getitem__(family)


@pytest.fixture(scope="module")
def life() -> list[tuple[tuple[Event, ...], Stamp]]:
    """Commits of every kind, with their stamps; the same for all machines."""
    history = History(6)
    found = []
    for _ in range(COMMITS):
        pairs = history.commit()
        found.append((tuple(event for event, _ in pairs), pairs[0][1]))
    return found


def entries(life: list[tuple[tuple[Event, ...], Stamp]]) -> Iterator[tuple[bytes, Counter[str]]]:
    """Entries of these commits, every third with a request id, every tenth followed by one of groups; and how many rows
    of each family each touches.
    """
    for number, (events, first) in enumerate(life):
        asked = f"{START_MS}-{number}" if number % 3 == 0 else ""
        stamp = msgspec.structs.replace(first, term=TERM, request_id=asked)
        entry = Entry(
            "events", TERM, stamp.offset, len(events), stamp.time_ms, stamp.principal, stamp.cause, asked,
            batch=encode_events(events, stamp),
        )  # fmt: skip
        yield encode_entry(entry), Counter(rows=len({key(event) for event in events}), requests=bool(asked))
        if number % 10 == 0:
            changes = encode_changes(((b"g%d" % (number % 40), b"%d" % number),))
            yield encode_entry(Entry("groups", TERM, stamp.offset + len(events), batch=changes)), Counter(groups=1)


def machine_of(number: int, samples: dict[str, rows.Entity]) -> ReplicatedState:
    """A machine that begins with so many rows of each kind, of groups and of requests."""
    store, table, ops = MemoryStore(), RequestTable(), list[StoreOp]()
    for kind, named in NAMED.items():
        for place in range(number):
            name, *_ = fields = named(place)
            entity = msgspec.structs.replace(samples[kind], **fields)
            ops.append(StoreOp("rows", entity_key(kind, str(fields[name])), rows.encoded(entity)))
    for place in range(number):
        ops.append(StoreOp("groups", b"of-many-%d" % place, b"1"))
        table, changes = table.remember("many", f"{START_MS}-{place}", 1_000_000 + place, 1, b"", START_MS)
        ops += [StoreOp("requests", name, value) for name, value in changes]
    ops.sort(key=attrgetter("key"))
    store.write([*ops, *applied_ops(0, 0, 0, START_MS)])
    return ReplicatedState(store, EventLog(store), Metrics(), RequestSettings())


def test_an_entry_costs_the_digests_of_the_rows_it_touches(
    life: list[tuple[tuple[Event, ...], Stamp]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of every kind, requests and what groups keep: with ten rows of each kind or ten thousand, each entry takes
    the same digests, two at most for each row it touches; and the sums are those of all rows.
    """
    history = machine_of(0, {})
    for index, (entry, _) in enumerate(entries(life), start=1):
        history.apply(Index(index), TERM, entry)
    samples = {kind: entity for kind, _, entity in rows.entities(history.state)}
    assert set(samples) == set(NAMED) | SINGLE == set(rows._TYPES)
    spent: dict[int, list[Counter[str]]] = {}
    for number in (FEW, MANY):
        machine = machine_of(number, samples)
        assert rows.count(machine.state) == number * len(NAMED)
        for index, (entry, touched) in enumerate(entries(life), start=1):
            with monkeypatch.context() as patched:
                counted = Counted()
                patched.setattr(sums, "_SEEDS", counted)
                machine.apply(Index(index), TERM, entry)
                machine.applied()
            spent.setdefault(number, []).append(counted.begun)
            assert all(counted.begun[family] <= 2 * touched[family] for family in FAMILIES)
        assert machine._metrics.entries_not_executed == 0
        if number == FEW:
            everything = plain_sums(machine.state, machine.requests, machine.groups.starting_with(b""))
            assert (machine.marked.rows, machine.marked.whole) == everything
    assert set(sum(spent[FEW], Counter[str]())) == set(FAMILIES)
    assert spent[FEW] == spent[MANY]
