"""Members over HTTP: pages, selectors, what the leader hears, the past."""

from typing import Any

import pytest

from quorate.metadata.commands import (
    CreateShard,
    DrainMember,
    ElectSegmentLeader,
    HearMember,
    MemberIs,
    RaiseFeatureLevel,
    RecordNodeStart,
    RegisterMember,
)
from quorate.model.live import MemberHealth
from tests.unit.controller.bench import ADDRESSES, Line
from tests.unit.gateway.http.test_interface import House, error_of


class Served(House):
    """A cluster of level 2 with two brokers."""

    def __init__(self) -> None:
        super().__init__()
        start = RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2)
        self.bench.done(start)
        self.bench.done(RaiseFeatureLevel(level=2))
        self.bench.broker_set([Line(), Line()])

    def member(self, name: str, **said: Any) -> int:
        """Registered, and caught up; its epoch."""
        outcome = self.bench.done(RegisterMember(name=name, incarnation="1", timeout_ms=9_000, **said))
        assert isinstance(outcome.reply, MemberIs)
        epoch = outcome.reply.registered_epoch(outcome.offset)
        health = MemberHealth(disk_used_bytes=1, disk_total_bytes=4)
        self.bench.done(HearMember(name=name, epoch=epoch, applied_revision=epoch, health=health))
        return epoch

    def names(self, query: str = "") -> list[str]:
        """Who is on the page."""
        return [item["name"] for item in self.get(f"/v1/members{query}")["members"]]


def test_members_and_brokers_are_listed_by_name() -> None:
    """In pages; by a role, a state, a label."""
    house = Served()
    house.member("m", roles=("mqtt",), labels={"rack": "1"})
    house.member("n", roles=("journal",), labels={"rack": "2"})
    house.bench.done(DrainMember(name="n"))
    first = house.get("/v1/members?limit=3")
    assert ([item["name"] for item in first["members"]], first["next"]) == (["a:1", "a:2", "m"], "m")
    assert house.names("?limit=3&after=m") == ["n"]
    assert house.names("?role=broker&after=a:1") == ["a:2"]
    assert house.names("?state=draining") == ["n"]
    assert house.names("?label=rack") == ["m", "n"]
    assert error_of(house.ask("GET", "/v1/members?state=odd")) == (400, "invalid")
    assert house.names("?names=n,nobody,a:1") == ["n", "a:1"]
    assert error_of(house.ask("GET", f"/v1/members?names={','.join('n' * 101)}")) == (400, "invalid")
    assert house.get("/v1/status")["members"] == 2


def test_one_member_is_told_whole() -> None:
    """The leader adds when it was heard and how it is; of a member that may leave, that it may."""
    house = Served()
    epoch = house.member("m", addresses={"grpc": "h:1"})
    house.bench.done(DrainMember(name="m"))
    found = house.get("/v1/members/m")["member"]
    assert (found["epoch"], found["state"], found["may_leave"]) == (epoch, "draining", True)
    assert (found["addresses"], found["health"]["disk_total_bytes"]) == ({"grpc": "h:1"}, 4)
    assert found["last_heard_ms"] > 0
    broker = house.get("/v1/members/a:1")["member"]
    assert (broker["roles"], broker["health"]) == (["broker"], None)
    assert broker["last_heard_ms"] > 0
    house.bench.engine.lose(leader=2)
    other = house.get("/v1/members/m?level=stale")["member"]
    assert (other["last_heard_ms"], other["health"]) == (None, None)


@pytest.mark.parametrize("name", ["x", "a:7", "b:1"])
def test_nobody_of_that_name(name: str) -> None:
    """Is not found, whether it would be a member or a broker."""
    assert error_of(Served().ask("GET", f"/v1/members/{name}")) == (404, "not_found")


def test_what_keeps_a_member_that_is_to_leave_is_told() -> None:
    """In a word, as long as it does."""
    house = Served()
    house.member("m", roles=("journal",))
    house.bench.done(CreateShard(shard="orders", replication=1))
    assert house.get("/v1/members/m")["member"]["stays_for"] == ""
    house.bench.done(DrainMember(name="m"))
    found = house.get("/v1/members/m")["member"]
    assert (found["may_leave"], found["stays_for"]) == (False, "it leads segments")


def test_a_segment_is_moved_as_the_plan_says() -> None:
    """Each move of a dry run, asked for, is one election with the plan's sentence; then the plan has nothing left."""
    house = Served()
    for name in ("m1", "m2"):
        house.member(name, roles=("journal",))
    for name in ("a", "b"):
        house.bench.done(CreateShard(shard=name, replication=2))
        house.bench.done(ElectSegmentLeader(segment=f"{name}/0", trigger="operator", wanted="m1"))
    house.bench.after(61)
    for name in ("m1", "m2"):
        epoch = house.get(f"/v1/members/{name}")["member"]["epoch"]
        house.bench.done(HearMember(name=name, epoch=epoch, applied_revision=epoch))
    found = house.get("/v1/balance")
    assert (found["segments_before"], found["segments_after"]) == ({"m1": 2, "m2": 0}, {"m1": 1, "m2": 1})
    (move,) = found["segments"]
    body = {"segment": move["segment"], "member": move["new"], "reason": move["why"]}
    status, done = house.ask("POST", "/v1/segment-elections", body)
    assert (status, done["reply"]["leader"]) == (200, "m2"), done
    assert house.get("/v1/balance")["segments"] == []
    status, found = house.ask("POST", "/v1/segment-elections", {"segment": "a/0", "member": "nobody"})
    assert (status, found["error"]["reason"]) == (409, "NoLeaderEligible")
