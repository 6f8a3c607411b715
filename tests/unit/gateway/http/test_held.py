"""Shards with their segments and sessions over HTTP: pages, one by name, what status counts."""

from typing import Any

import pytest

from quorate.events import InSyncCopy
from quorate.gateway.http.answers import SessionItem
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.sessions import PER_STEP, session_item
from quorate.metadata.commands import (
    AcknowledgeWill,
    AlterInSync,
    ByLeader,
    CloseSession,
    CreateShard,
    DeleteShard,
    FenceMember,
    GrantLease,
    NextSegment,
    OpenSession,
    PutKey,
    PutSubscriptions,
    RegisterSchema,
)
from quorate.model.sessions import NEVER_S
from quorate.model.state import Session, State, Subscription, Will
from quorate.slices import Steps
from tests.unit.gateway.http.test_interface import error_of, scraped
from tests.unit.gateway.http.test_members import Served


class Holding(Served):
    """With two journal stores, three shards, a broker of MQTT and three sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = {name: self.member(name, roles=("journal",)) for name in ("s1", "s2")}
        self.mqtt = self.member("q1", roles=("mqtt",))
        for shard in ("orders", "orders.eu", "pay"):
            self.bench.done(CreateShard(shard=shard, replication=2, min_in_sync=1))
        for client in ("a", "b/1", "c"):
            self.open(client)

    def open(self, client: str, **said: Any) -> int:
        """A client comes; its session epoch."""
        said = {"clean_start": False, "expiry_s": 60, **said}
        outcome = self.bench.done(OpenSession(client=client, member="q1", member_epoch=self.mqtt, **said))
        return int(outcome.reply.session_epoch(outcome.offset))

    def subscribe(self, client: str, *filters: str) -> None:
        """It wants these."""
        added = tuple(Subscription(filter=one) for one in filters)
        self.bench.done(PutSubscriptions(client=client, session_epoch=self.open(client), added=added, removed=()))

    def led(self, segment: str) -> ByLeader:
        """As its leader speaks."""
        shard, _, number = segment.rpartition("/")
        found = self.bench.controller.state.segments[shard][int(number)]
        return ByLeader(leader=found.leader, leader_epoch=found.leader_epoch, member_epoch=found.member_epoch)

    def shard(self, name: str, query: str = "") -> dict[str, Any]:
        """What is told of it."""
        found: dict[str, Any] = self.get(f"/v1/shards/{name}{query}")
        return found


def names(found: list[dict[str, Any]], field: str) -> list[str]:
    """Of items."""
    return [item[field] for item in found]


def test_status_counts_schemas_and_their_subjects() -> None:
    """Those of other services: two subjects may have the same schema."""
    house = Holding()
    for subject in ("a", "b"):
        house.bench.done(RegisterSchema(subject=subject, schema='{"type": "string"}'))
    status = house.get("/v1/status")
    assert (status["schemas"], status["subjects"]) == (1, 2)


def test_shards_are_listed_by_name() -> None:
    """In pages, below a prefix; status counts them, and their segments."""
    house = Holding()
    first = house.get("/v1/shards?limit=2")
    assert (names(first["shards"], "shard"), first["next"]) == (["orders", "orders.eu"], "orders.eu")
    last = house.get("/v1/shards?limit=2&after=orders.eu")
    assert (names(last["shards"], "shard"), last["next"]) == (["pay"], None)
    assert names(house.get("/v1/shards?prefix=orders&after=orders")["shards"], "shard") == ["orders.eu"]
    house.bench.done(NextSegment(shard="pay", current=0, end_offset=5, by=house.led("pay/0")))
    status = house.get("/v1/status")
    assert (status["shards"], status["segments"], status["sessions"]) == (3, 4, 3)


def test_one_shard_is_told_with_its_segments() -> None:
    """A page of them by number; how well each is kept, and why who leads does."""
    house = Holding()
    for number in range(2):
        by = house.led(f"pay/{number}")
        house.bench.done(NextSegment(shard="pay", current=number, end_offset=5 + number, by=by))
    found = house.shard("pay", "?limit=2")
    assert (found["shard"]["segments"], found["shard"]["replication"], found["next"]) == (3, 2, "1")
    assert names(found["segments"], "segment") == ["pay/0", "pay/1"]
    assert (found["segments"][0]["end_offset"], found["segments"][0]["level"]) == (5, "green")
    rest = house.shard("pay", "?limit=2&after=1")
    assert (names(rest["segments"], "segment"), rest["next"]) == (["pay/2"], None)
    assert rest["segments"][0]["end_offset"] is None

    by = house.led("pay/2")
    alone = (InSyncCopy(member=by.leader, member_epoch=by.member_epoch),)
    house.bench.done(AlterInSync(segment="pay/2", by=by, set_epoch=0, new=alone))
    (segment,) = house.shard("pay", "?after=1")["segments"]
    assert (segment["in_sync"], segment["set_epoch"]) == ({by.leader: by.member_epoch}, 1)
    assert (segment["level"], segment["reasons"]) == ("yellow", ["fewer copies in sync than wanted"])
    house.bench.done(
        FenceMember(name=by.leader, epoch=by.member_epoch, evidence="heartbeat expired", last_heartbeat_ms=1)
    )
    house.bench.done(DeleteShard(shard="orders"))
    gone = house.shard("orders")
    assert (gone["shard"]["deleting"], gone["segments"][0]["level"]) == (True, "green")


def test_sessions_are_listed_by_client() -> None:
    """In pages, below a prefix, of one member."""
    house = Holding()
    first = house.get("/v1/sessions?limit=2")
    assert (names(first["sessions"], "client"), first["next"]) == (["a", "b/1"], "b/1")
    last = house.get("/v1/sessions?limit=2&after=b/1")
    assert (names(last["sessions"], "client"), last["next"]) == (["c"], None)
    assert names(house.get("/v1/sessions?prefix=b/")["sessions"], "client") == ["b/1"]
    assert len(house.get("/v1/sessions?member=q1&limit=3")["sessions"]) == 3
    assert house.get("/v1/sessions?member=q2")["sessions"] == []


def test_a_page_of_sessions_ends_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many subscriptions it has less than was asked for, never nothing, and says where it goes on."""
    house, after = Holding(), ""
    monkeypatch.setattr("quorate.gateway.http.sessions.PAGE_BYTES", 4_096)
    for client in ("a", "c"):
        house.subscribe(client, *(f"{number:0>1000}" for number in range(4)))
    pages = list[list[str]]()
    while True:
        page = house.get(f"/v1/sessions?limit=3&after={after}")
        pages.append(names(page["sessions"], "client"))
        assert page["next"] in (None, pages[-1][-1])
        if page["next"] is None:
            break
        after = page["next"]
    assert pages == [["a"], ["b/1", "c"]]


def test_a_step_makes_a_bounded_number_of_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work gets its turn after each session that has many."""
    house, made = Holding(), list[str]()
    for client in ("a", "b/1", "c"):
        house.subscribe(client, *(f"t/{number}" for number in range(PER_STEP)))
    turns = list[int]()
    answer = Asking.made

    def item(state: State, session: Session) -> SessionItem:
        made.append(session.client)
        return session_item(state, session)

    def noted(steps: Steps[object]) -> Steps[object]:
        while True:
            try:
                waits = next(steps)
            except StopIteration as end:
                return end.value
            turns.append(len(made))
            yield waits

    monkeypatch.setattr("quorate.gateway.http.sessions.session_item", item)
    monkeypatch.setattr(Asking, "made", lambda asking, call, steps: answer(asking, call, noted(steps)))
    assert names(house.get("/v1/sessions?limit=3")["sessions"], "client") == ["a", "b/1", "c"]
    assert turns == [1, 2, 3]


def test_one_session_is_told_whole() -> None:
    """Its owner, its subscriptions, its will without the payload; since when its client is gone, and when it ends."""
    house = Holding()
    epoch = house.open("b/1", will=Will(topic="t", payload=b"12345", qos=1, retain=True, delay_s=9))
    subscribed = PutSubscriptions(
        client="b/1", session_epoch=epoch, added=(Subscription(filter="x/#", qos=1),), removed=()
    )
    house.bench.done(subscribed)
    found = house.get("/v1/sessions/b%2F1")["session"]
    assert (found["member"], found["member_lives"], found["session_epoch"]) == ("q1", True, epoch)
    assert (found["connected"], found["disconnected_ms"], found["ends_ms"]) == (True, None, None)
    assert found["will"] == {"topic": "t", "payload_bytes": 5, "qos": 1, "retain": True, "delay_s": 9}
    assert (found["subscriptions"][0]["filter"], found["subscriptions"][0]["qos"]) == ("x/#", 1)
    house.bench.done(CloseSession(client="b/1", session_epoch=epoch, with_will=True))
    found = house.get("/v1/sessions/b%2F1")["session"]
    assert (found["connected"], found["ends_ms"] - found["disconnected_ms"]) == (False, 60_000)
    house.open("d", expiry_s=NEVER_S)
    assert house.get("/v1/sessions/d")["session"]["expiry_s"] is None


def test_wills_that_nobody_acknowledged_are_listed() -> None:
    """The oldest first, in pages, of one member; at an offset, those that were. An acknowledged one is
    neither there nor counted.
    """
    house, epochs = Holding(), list[int]()
    assert house.get("/v1/wills")["wills"] == []
    for client in ("a", "b/1", "c"):
        will = Will(topic=f"t/{client}", payload=b"12345", qos=1, retain=True, delay_s=0)
        epochs.append(house.open(client, will=will))
    for client, epoch in zip(("a", "b/1", "c"), epochs, strict=True):
        house.bench.done(CloseSession(client=client, session_epoch=epoch, with_will=True))
    first = house.get("/v1/wills?limit=2")
    assert ([one["will"] for one in first["wills"]], first["next"]) == (epochs[:2], str(epochs[1]))
    last = house.get(f"/v1/wills?limit=2&after={first['next']}")
    assert ([one["will"] for one in last["wills"]], last["next"]) == (epochs[2:], None)
    handed = house.bench.controller.state.wills[epochs[0]].handed_ms
    assert first["wills"][0] == {
        "will": epochs[0],
        "client": "a",
        "topic": "t/a",
        "payload_bytes": 5,
        "qos": 1,
        "retain": True,
        "member": "q1",
        "member_epoch": house.mqtt,
        "member_lives": True,
        "handed_ms": handed,
    }
    assert len(house.get("/v1/wills?member=q1&limit=9")["wills"]) == 3
    assert house.get("/v1/wills?member=")["wills"] == []
    then = house.bench.controller.offset
    house.bench.done(AcknowledgeWill(will=epochs[0], member="q1", member_epoch=house.mqtt))
    assert [one["will"] for one in house.get("/v1/wills")["wills"]] == epochs[1:]
    assert [house.get(f"/v1/status{at}")["wills"] for at in ("", f"?at={then}")] == [2, 3]
    assert len(house.get(f"/v1/wills?at={then}&limit=9")["wills"]) == 3
    fence = FenceMember(name="q1", epoch=house.mqtt, evidence="heartbeat expired", last_heartbeat_ms=1)
    house.bench.done(fence)
    assert not any(one["member_lives"] for one in house.get("/v1/wills")["wills"])


@pytest.mark.parametrize("path", ["shards/x", "sessions/x"])
def test_what_is_not_there_is_not_found(path: str) -> None:
    """404; a number of a segment that is none is 400."""
    assert error_of(Holding().ask("GET", f"/v1/{path}")) == (404, "not_found")
    assert error_of(Holding().ask("GET", "/v1/shards/pay?after=x")) == (400, "invalid")


def test_the_metrics_count_what_is_held() -> None:
    """A gauge for each kind, each with a number of its own: who is fenced and alone in sync leaves one leaderless."""
    house = Holding()
    done = house.bench.done
    for number in range(10):
        done(RegisterSchema(subject=f"s{number}", schema=f'{{"type": "{("string", "bytes")[number % 2]}"}}'))
    for number in range(9):
        done(PutKey(key=b"k%d" % number))
    for number in range(8):
        done(GrantLease(lease=number + 1, ttl_s=600))
    for _ in range(7):
        epoch = house.open("a", will=Will(topic="t", payload=b"gone"))
        done(CloseSession(client="a", session_epoch=epoch, with_will=True))
    filters = tuple(Subscription(filter=f"x/{number}") for number in range(6))
    done(PutSubscriptions(client="d", session_epoch=house.open("d"), added=filters))
    house.open("e")
    done(NextSegment(shard="pay", current=0, end_offset=5, by=house.led("pay/0")))
    by = house.led("orders/0")
    alone = (InSyncCopy(member=by.leader, member_epoch=by.member_epoch),)
    done(AlterInSync(segment="orders/0", by=by, set_epoch=0, new=alone))
    done(FenceMember(name=by.leader, epoch=by.member_epoch, evidence="heartbeat expired", last_heartbeat_ms=1))
    house.bench.settle()
    _, samples = scraped(house)
    counted = {
        "segments_leaderless": 1,
        "schemas": 2,
        "shards": 3,
        "segments": 4,
        "mqtt_sessions": 5,
        "mqtt_subscriptions": 6,
        "mqtt_wills": 7,
        "leases": 8,
        "keys": 9,
        "schema_subjects": 10,
    }
    assert {name: samples[f"quorate_{name}", ()] for name in counted} == counted
