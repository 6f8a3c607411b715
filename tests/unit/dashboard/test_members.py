"""Members at any offset, against a plain replay; pages, filters, and what the leader hears."""

import asyncio
import json
from functools import partial
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.events import NodeAddresses
from quorate_spark.dashboard.model import Leader
from quorate_spark.dashboard.panels import diff, members
from quorate_spark.dashboard.panels.members import MemberQuery
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.soft import SoftState
from quorate_spark.dashboard.soft_state import HealthSoft, HeardSoft, MemberSoft, Soft
from tests.dashboard import lives
from tests.dashboard.lives import FLAPPING, plain, told
from tests.dashboard.replay import Replay
from tests.unit.dashboard.test_service import DOCS, SECTION, differing

EVENTS = 260
SEEDS = st.integers(0, 11)
SHARES = st.floats(0, 1)
both = partial(lives.both, EVENTS)


def paged(seen: View, limit: int, **asked: Any) -> list[dict[str, Any]]:
    """All pages of an answer."""
    rows, start = list[dict[str, Any]](), ""
    while True:
        answer = plain(members.members(seen, MemberQuery(limit=limit, start=start, **asked)))
        assert len(answer["members"]) <= limit
        rows += answer["members"]
        if answer["next"] is None:
            assert answer["total"] == len(rows)
            return rows
        start = answer["next"]


@given(SEEDS, SHARES, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_members_are_what_a_replay_says(seed: int, share: float, limit: int) -> None:
    """At every offset, page after page: each member and each broker, by name, with what it said of itself and since
    when it is so.
    """
    seen, replay = both(seed, share)
    rows = paged(seen, limit)
    assert replay.differences("members", {"members": rows}) == []
    for row in rows:
        if not row["broker"]:
            assert row["why_offset"] == replay.of_members[row["name"]][-1]
            assert row["name"] in row["why"]
    answer = plain(members.members(seen, MemberQuery()))
    assert answer["states"] == {word: sum(row["state"] == word for row in rows) for word in answer["states"]}
    assert answer["roles"] == {role: sum(role in row["roles"] for row in rows) for role in answer["roles"]}


@given(SEEDS, SHARES, st.sampled_from(["active", "fenced", "draining", ""]), st.sampled_from(["journal", "broker", ""]))
@settings(max_examples=40, deadline=None)
def test_a_filter_leaves_those_that_are_meant(seed: int, share: float, state: str, role: str) -> None:
    """A state, a role, and words in name, roles, addresses or labels: all of them must hold."""
    seen, replay = both(seed, share)
    for q in ("", "STORE", "rack=x", "store rack=y", "10.0.0.1", "nobody"):
        expected = [
            row["name"]
            for row in replay.member_rows()
            if state in ("", row["state"])
            and (not role or role in row["roles"])
            and all(w in text(row) for w in q.split())
        ]
        assert [row["name"] for row in paged(seen, 3, q=q, state=state, role=role)] == expected


def text(row: dict[str, Any]) -> "Text":
    """Where a word is looked for."""
    return Text([row["name"], *row["roles"], *row["addresses"].values(), *map("=".join, row["labels"].items())])


class Text(list[str]):
    """Words of any case are found in it."""

    def __contains__(self, word: object) -> bool:
        return any(str(word).lower() in part.lower() for part in self)


@given(SEEDS, SHARES, st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_a_member_s_history_is_every_event_about_it(seed: int, share: float, limit: int) -> None:
    """Newest first, each once; one that is gone, or never was, is told to be so."""
    seen, replay = both(seed, share)
    for name in ("store.1", "mqtt@h", "never"):
        offsets, before = list[int](), None
        while True:
            answer = plain(members.member(seen, name, before, limit))
            offsets += [event["offset"] for event in answer["changes"]]
            if (before := answer["next"]) is None:
                break
        assert offsets == list(reversed(replay.of_members.get(name, [])))
        assert (answer["member"] is None) == (name not in replay.members)


def test_the_lives_reach_every_state() -> None:
    """Laws about what never comes are no laws."""
    rows = [row for seed in range(12) for row in both(seed, 1.0)[1].member_rows()]
    assert {(row["broker"], row["state"]) for row in rows} == {
        (False, "active"), (False, "fenced"), (False, "draining"), (True, "active"), (True, "fenced"),
    }  # fmt: skip


def test_what_is_heard_is_laid_over_the_facts() -> None:
    """Of members as the leader says, of brokers as their heartbeats are known; in the past neither."""
    seen, _ = both(3, 1.0)
    name = next(iter(seen.state.model.members))
    broker = next(row["name"] for row in paged(seen, 100) if row["broker"])
    broker_set, _, number = broker.rpartition(":")
    heartbeat = MemberSoft(alive=True, max_offset=1, behind=0, epoch=1, priority=1, heartbeat_age_ms=40)
    soft = Soft(
        polled=1_000, heard={name: HeardSoft(heard_ms=7, health=None)}, members={broker_set: {int(number): heartbeat}}
    )
    live = {row["name"]: row.get("live") for row in paged(View(seen.log, seen.state, 0, FLAPPING, soft), 100)}
    assert (live[name], live[broker]) == ({"heard_ms": 7, "health": None}, {"heard_ms": 960, "health": None})
    assert not [row for row in paged(seen, 100) if "live" in row]


def test_the_leader_is_asked_for_those_on_the_page() -> None:
    """By name, brokers left out; of one that was never heard nothing is known, and of none when it does not answer."""
    seen, _ = both(3, 1.0)
    asked = list[str]()

    async def told_(request: web.Request) -> web.Response:
        asked.append(request.query["names"])
        health = {"disk_used_bytes": 1, "disk_total_bytes": 2, "cpu_percent": 3, "memory_percent": 4, "io_errors": 5}
        heard = [{"name": "a", "last_heard_ms": 9, "health": health}, {"name": "b", "last_heard_ms": None}]
        return web.json_response({"members": heard})

    async def run() -> tuple[dict[str, HeardSoft], dict[str, HeardSoft]]:
        app = web.Application()
        app.router.add_get("/v1/members", told_)
        async with TestServer(app) as server:
            where = NodeAddresses(rpc="", raft="", kafka="", http=f"{server.host}:{server.port}")
            node = msgspec.structs.replace(seen.state.nodes[1], addresses=where)
            leader = Leader(node_id=1, term=1, offset=0, since=0, previous=None, cause="", silent_for_ms=0)
            state = msgspec.structs.replace(seen.state, nodes=seen.state.nodes.set(1, node), leader=leader)
            soft = SoftState(Settings(), lambda: state, lambda: 5, dict)
            known = await soft.heard(["a", "b"])
            await server.close()
            unknown = await soft.heard(["a"])
            await soft.close()
            return known, unknown

    known, unknown = asyncio.run(run())
    health = HealthSoft(disk_used_bytes=1, disk_total_bytes=2, cpu_percent=3, memory_percent=4, io_errors=5)
    assert known == {"a": HeardSoft(heard_ms=9, health=health)}
    assert (unknown, asked) == ({}, ["a,b"])
    names = members.heard_of(seen.state, MemberQuery())
    assert names
    assert all(":" not in name for name in names)


@given(SEEDS, SHARES, SHARES)
@settings(max_examples=25, deadline=None)
def test_a_diff_tells_of_members(seed: int, share: float, earlier: float) -> None:
    """Members that came, went or differ between two offsets, and no others."""
    seen, replay = both(seed, share)
    start = round(earlier * seen.offset)
    former = Replay(told(seed, EVENTS), start)
    answer = plain(diff.diff(seen, seen.log.history.at(start), limit=10_000))
    changed = {one["name"]: one["change"] for one in answer["changed"] if one["kind"] == "member"}
    names = former.members.keys() | replay.members.keys()
    assert changed == {
        name: "added" if name not in former.members else "removed" if name not in replay.members else "changed"
        for name in names
        if former.members.get(name) != replay.members.get(name)
    }


def test_the_documented_members_are_the_real_ones() -> None:
    """The examples in the docs have the very fields of members and their events."""
    seen, _ = both(3, 1.0)
    row = next(row for row in paged(seen, 100) if not row["broker"])
    real = {
        "members": plain(members.members(seen, MemberQuery())) | {"members": [row]},
        "member": plain(members.member(seen, row["name"], None, 9)),
    }
    sections = {path: text for _, path, text in SECTION.findall(DOCS.read_text() + "\n##")}
    for name, data in real.items():
        example = json.loads(sections[name].partition("```json\n")[2].partition("```")[0])
        assert not list(differing(example, data, name))
