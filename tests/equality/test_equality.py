"""Every number shown anywhere equals a plain replay of the log at the offset it is stamped with.

Views of a projection worker, rows of the serving store, panels of the page and the controllers' own answers about the
past are sampled while brokers fail over, topics and settings change, and everybody is killed (-9) now and then. When it
is over the log is read with a stock client, and each sample is held against replays that import neither the folds nor
the SQL (tests/projections/replay.py, tests/spark/replay.py, tests/dashboard/replay.py).
"""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition

from quorate.events import Stamp, decode
from tests.batches import Record
from tests.consumed import record_of
from tests.dashboard.replay import Replay as PageReplay
from tests.dashboard.replay import raw
from tests.equality.services import KINDS
from tests.equality.world import Row, World, ask, world
from tests.projections.samples import VIEWS, Samples
from tests.spark.compare import Tables, differences
from tests.spark.replay import replay as tables_of

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="absent peer: java")
TOPIC = "quorate.metadata.events"
FLAPPING, WINDOW_MS = 4, 30 * 60 * 1000
"""The dashboard's defaults."""
PAGE = 200
"""What a node answers at once (``http.page_max``)."""
RARE = frozenset({"wills"})
"""A will is acknowledged in the round in which it is handed over: there may be none whenever somebody looks."""
HELD = (
    ("keys", "flat=1&limit=1000"),
    ("leases", "limit=100"),
    ("members", "limit=100"),
    ("shards", "limit=500"),
    ("sessions", "limit=500"),
    ("subjects", "limit=500"),
)
"""Panels of what is held: the first page of each."""


@dataclass
class Campaign:
    """What was sampled so far, and who was killed."""

    seen: World
    views: Samples
    stores: list[tuple[int, Tables]] = field(default_factory=list)
    pages: list[tuple[int, Row]] = field(default_factory=list)
    held: list[tuple[str, int, Row]] = field(default_factory=list)
    """What is held, on the page."""
    pasts: list[tuple[str, int, list[Row]]] = field(default_factory=list)
    keys: list[tuple[int, list[Row]]] = field(default_factory=list)
    """By revision."""
    killed: list[str] = field(default_factory=list)

    @property
    def offsets(self) -> set[int]:
        """Distinct offsets sampled, over all readers."""
        views = {page["offset"] for _, _, page in self.views.taken}
        return views | {at for at, _ in (*self.stores, *self.pages)} | {at for _, at, _ in self.pasts}

    @property
    def empty(self) -> list[str]:
        """Tables of the serving store in which nothing was seen yet, kinds of facts that it does not hold, and kinds of
        pasts in which a controller told of nothing: nobody knows which brokers chance will kill, which words are lost,
        nor what is asked for.
        """
        if not self.stores:
            return ["all"]
        _, tables = self.stores[-1]
        kinds = {row["type"] for row in tables["audit"].values()}
        return [
            *(name for name, found in tables.items() if not found),
            *(kind.__name__ for kind in KINDS if kind.__name__ not in kinds),
            *(PASTS.keys() - RARE - {kind for kind, _, found in self.pasts if found}),
        ]

    def sample(self) -> None:
        """One of each, from whoever answers now."""
        self.views.take(self.seen.worker)
        if (position := self.seen.stream.position()) and all(position != known for known, _ in self.stores[-3:]):
            self.stores.append(self.seen.stream.sample())
        self._page()
        self._past()

    def _page(self) -> None:
        health = ask(f"{self.seen.page_url}/api/health")
        at = self.seen.chance.randint(0, health["offset"]) if health is not None else 0
        if at and (answer := ask(f"{self.seen.page_url}/api/sets?at={at}")) is not None:
            self.pages.append((answer["offset"], answer))
        for panel, more in HELD:
            if at and (answer := ask(f"{self.seen.page_url}/api/{panel}?at={at}&{more}")) is not None:
                self.held.append((panel, answer["offset"], answer["data"]))

    def _past(self) -> None:
        node = self.seen.chance.choice(self.seen.cluster.nodes)["http"]
        status = ask(f"http://{node}/v1/status?level=stale")
        end = 0 if status is None else status["offset"]
        at = self.seen.chance.randint(0, end)
        kind = self.seen.chance.choice(list(PASTS))
        path = REGISTRY if kind == "schemas" else f"/v1/{kind}?limit={PAGE}"
        answer: Any = ask(f"http://{node}{path}&at={at}") if at else None
        if isinstance(answer, list):
            self.pasts.append((kind, at, answer))
        elif answer is not None:
            assert answer["offset"] == at
            self.pasts.append((kind, at, answer[kind]))
        revision = self.seen.chance.randint(1, end - 1) if end > 1 else 0
        if revision and (found := self.seen.keys_at(revision)) is not None:
            self.keys.append((revision, found))

    def kill(self) -> None:
        """Somebody, each in turn."""
        turn = [self.seen.kill_leader, self.seen.kill_worker, self.seen.kill_driver, self.seen.kill_page]
        self.killed += filter(None, [turn[len(self.killed) % len(turn)]()])


def run(seen: World, offsets: int, kills: int, seconds_between: float) -> Campaign:
    """Sample until there are so many distinct offsets and kills, and something everywhere; each reader at the very end
    again.
    """
    campaign = Campaign(seen, Samples(random.Random(5)))
    while len(campaign.offsets) < offsets or len(campaign.killed) < kills or campaign.empty:
        for _ in range(max(1, int(seconds_between / 0.5))):
            campaign.sample()
            seen.over.wait(0.5)
        if len(campaign.killed) < kills:
            campaign.kill()
    seen.over.set()
    seen.worker.wait(ready=True, lag=0)
    for view in VIEWS:
        assert campaign.views.take(seen.worker, view)
    seen.stream.reach(end_of(seen))
    campaign.stores.append(seen.stream.sample())
    campaign.sample()
    return campaign


def end_of(seen: World) -> int:
    """Events there are, as any node says linearizably."""
    for node in seen.cluster.nodes:
        found = ask(f"http://{node['http']}/v1/status?level=linearizable")
        if found is not None:
            return int(found["offset"])
    raise AssertionError("no node answers")


def read_log(bootstrap: str, end: int) -> list[Record]:
    """The records as a stock client gets them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "replay", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Record] = []
    try:
        while len(found) < end:
            batch = consumer.consume(500, 5.0)
            assert batch, f"{len(found)} of {end} events"
            for message in batch:
                assert message.error() is None, message.error()
                found.append(record_of(message))
    finally:
        consumer.close()
    return found


def facts_of(records: list[Record]) -> list[tuple[Stamp, Any]]:
    """For the serving store's replay."""
    found = []
    for record in records:
        said = {name: value.decode() for name, value in record.headers}
        numbers: dict[str, Any] = {name: int(said[name]) for name in ("offset", "term", "time_ms")}
        texts: dict[str, Any] = {name: said[name] for name in ("principal", "cause", "request_id")}
        found.append((Stamp(**numbers, **texts), decode(record.value or b"")))
    return found


def rows_of(facts: list[tuple[Stamp, Any]]) -> list[Row]:
    """For the page's replay: as ``quorate log dump -o json`` has them."""
    return [
        {**msgspec.to_builtins(stamp), "type": type(event).__name__, "event": json.loads(msgspec.json.encode(event))}
        for stamp, event in facts
    ]


def check(campaign: Campaign, bootstrap: str) -> None:
    """Every sample, at its own offset."""
    records = read_log(bootstrap, max(campaign.offsets))
    facts = facts_of(records)
    rows = rows_of(facts)
    full = campaign.views.compare(records)
    assert all(full[view] for view in VIEWS if view not in RARE), f"empty views: {full}"
    for position, tables in campaign.stores:
        assert differences(tables, tables_of(facts[:position])) == [], position
    assert not campaign.empty
    for offset, answer in campaign.pages:
        plain = PageReplay(rows, offset)
        now = plain.time or 0
        expected = [plain.set_row(name, now, FLAPPING, WINDOW_MS) for name in sorted(plain.sets)]
        differing = [pair for pair in zip_longest(answer["data"]["sets"], expected) if pair[0] != pair[1]]
        assert not differing, (offset, now, differing)
    for panel, offset, answer in campaign.held:
        assert PageReplay(rows, offset).differences(panel, answer) == [], (panel, offset)
    for kind, offset, found in campaign.pasts:
        told, plainly = PASTS[kind]
        assert [told(one) for one in found] == plainly(PageReplay(rows, offset))[:PAGE], (kind, offset)
    for revision, found in campaign.keys:
        assert found == keys_of(PageReplay(rows, end_of_revision(rows, revision))), revision
    assert any(found for _, found in campaign.keys)
    assert any(answer["data"]["sets"] for _, answer in campaign.pages)
    assert {panel for panel, _, answer in campaign.held if answer.get("entries") or answer.get(panel)} == {
        panel for panel, _ in HELD
    }


def past(answer: Row) -> Row:
    """What a controller says of a set in the past."""
    members = {one["broker_id"]: (one["address"], one["registered"], one["fenced"]) for one in answer["replicas"]}
    return {
        "name": answer["broker_set"],
        "master": answer["master"],
        "epochs": (answer["master_epoch"], answer["sync_state_set_epoch"]),
        "sync": sorted(answer["sync_state_set"]),
        "members": members,
    }


def expected_past(plain: Row) -> Row:
    """The same from a replay."""
    members = {number: (one["addr"], one["registered"], one["fenced"]) for number, one in plain["members"].items()}
    return {
        "name": plain["name"],
        "master": plain["master"],
        "epochs": (plain["epoch"], plain["sync_epoch"]),
        "sync": sorted(plain["sync"]),
        "members": members,
    }


def end_of_revision(rows: list[Row], revision: int) -> int:
    """The offset after the last decision about keys that ends at this revision or before."""
    unfinished = (at for at in range(revision + 1) if at + rows[at]["event"].get("following", 0) > revision)
    return min(unfinished, default=revision + 1)


def keys_of(plain: PageReplay) -> list[Row]:
    """As ``World.keys_at`` has them."""
    names = ("value", "create_revision", "mod_revision", "version")
    return [{"name": raw(row["name"]), **fields(row, *names)} for row in plain.key_rows()]


def fields(answer: Row, *names: str) -> Row:
    """These of it."""
    return {name: answer[name] for name in names}


MEMBER = ("name", "state", "incarnation", "epoch", "roles", "addresses", "labels", "timeout_ms", "draining")
SHARD = ("epoch", "replication", "min_in_sync", "segments")
SESSION = ("client", "member", "expiry_s")


def past_session(answer: Row) -> Row:
    """What a controller says of a session in the past."""
    return {
        **fields(answer, *SESSION),
        "epoch": answer["session_epoch"],
        "opened": answer["opened_ms"],
        "since": answer["disconnected_ms"],
        "ends": answer["ends_ms"],
        "filters": sorted(one["filter"] for one in answer["subscriptions"])[:3],
    }


def expected_session(plain: Row) -> Row:
    """The same from a replay."""
    return fields(plain, *SESSION, "epoch", "opened", "since", "ends", "filters")


def past_will(answer: Row) -> Row:
    """What a controller says of a will in the past."""
    return {**fields(answer, "will", "client", "topic", "member"), "since": answer["handed_ms"]}


LEASE = ("lease", "ttl_s", "granted_ms", "remaining_s")
REGISTRY = "/schemas?subjectPrefix=orders"
"""Schemas of others are in Confluent's API only, as all versions of all subjects; they have no frame of ours."""
PASTS: dict[str, tuple[Callable[[Row], Row], Callable[[PageReplay], list[Row]]]] = {
    "brokers": (past, lambda plain: [expected_past(plain.sets[name]) for name in sorted(plain.sets)]),
    "members": (
        lambda answer: fields(answer, *MEMBER),
        lambda plain: [fields(row, *MEMBER) for row in plain.member_rows()],
    ),
    "shards": (
        lambda answer: {"name": answer["shard"], **fields(answer, *SHARD)},
        lambda plain: [fields(row, "name", *SHARD) for row in plain.shard_rows()],
    ),
    "sessions": (past_session, lambda plain: [expected_session(row) for row in plain.session_rows()]),
    "wills": (past_will, PageReplay.will_rows),
    "leases": (
        lambda answer: fields(answer, *LEASE, "keys"),
        lambda plain: [{**fields(row, *LEASE), "keys": len(row["names"])} for row in plain.lease_rows()],
    ),
    "schemas": (lambda answer: answer, PageReplay.version_rows),
}
"""What is asked of a controller's past: how an answer is read, and what a replay says of it."""


@pytest.mark.timeout(900)
def test_what_is_shown_is_what_happened(tmp_path: Path) -> None:
    """Forty offsets and four kills, one of each kind."""
    with world(tmp_path, seed=1) as seen:
        campaign = run(seen, offsets=40, kills=4, seconds_between=3)
        assert set(campaign.killed) == {"controller leader", "Faust worker", "Spark driver", "web process"}
        check(campaign, seen.kafka)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_is_shown_is_what_happened_at_length(tmp_path: Path) -> None:
    """Two hundred distinct offsets and twelve kills."""
    with world(tmp_path, seed=2) as seen:
        campaign = run(seen, offsets=200, kills=12, seconds_between=8)
        assert len(campaign.offsets) >= 200
        assert len(campaign.killed) >= 12
        check(campaign, seen.kafka)
