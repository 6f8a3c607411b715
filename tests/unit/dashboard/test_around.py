"""What surrounds the fold: soft state from nodes, what-if questions, the streams of others."""

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from immutables import Map

from quorate.errors import UsageError
from quorate.events import ConfigChange, ConfigChanged, NodeAddresses, Stamp, encode
from quorate_spark.dashboard import soft
from quorate_spark.dashboard.answering import from_store
from quorate_spark.dashboard.asking import ApiError
from quorate_spark.dashboard.follow import FollowStatus
from quorate_spark.dashboard.panels import elections, health
from quorate_spark.dashboard.recorded import recorded
from quorate_spark.dashboard.service import Service
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.soft_state import Soft
from quorate_spark.dashboard.spark_store import ElectionQuery, SparkStore
from quorate_spark.dashboard.spark_store import Page as Page_
from quorate_spark.dashboard.spool import Fact
from quorate_spark.dashboard.streams import BEHIND_MS, Streams
from quorate_spark.dashboard.whatif import WhatIf, spelled_out, worded
from quorate_spark.serving import Election, Progress
from quorate_spark.sinks.sql import connect, tables, upsert
from tests.dashboard.lives import RECORDED, Http, Page, folded, plain, view

FACTS = list(recorded(RECORDED))
END = len(FACTS)
NOW = FACTS[-1].stamp.time_ms


def test_a_histogram_is_read_between_two_looks() -> None:
    """The p99 is that of what was counted since, not since the node began."""
    text = 'x_bucket{le="0.001"} %d\nx_bucket{le="0.01"} %d\nx_bucket{le="+Inf"} %d\nx_sum 3\n'
    before = soft.buckets(text % (100, 100, 100), "x_bucket")
    after = soft.buckets(text % (110, 200, 200), "x_bucket")
    assert soft.part({}, before, 0.99) == 0.001
    assert soft.part(before, after, 0.99) == 0.01
    assert soft.part(after, after, 0.99) is None
    assert soft.part({}, {}, 0.99) is None


def test_members_are_behind_their_master() -> None:
    """Bytes behind the master; behind the furthest where there is no master; unknown where nothing was told. A
    priority that a broker did not set is none.
    """
    told = msgspec.json.decode(
        b'{"broker_set": "broker-a", "replicas": [{"broker_id": 1, "max_offset": 100, "last_heartbeat_ms": 990}, '
        b'{"broker_id": 2, "max_offset": 70, "priority": 4}, '
        b'{"broker_id": 3, "max_offset": -1, "priority": 2147483647}]}',
        type=soft._BrokerSet,
    )
    found = soft.members(told, None, 1_000)
    assert [found[number].behind for number in (1, 2, 3)] == [0, 30, None]
    assert [found[number].heartbeat_age_ms for number in (1, 2, 3)] == [10, None, None]
    assert [found[number].priority for number in (1, 2, 3)] == [None, 4, None]


def test_the_alarms_of_a_node_reach_the_page() -> None:
    """What the leader's status says is wrong is the page's first reason; once it says so no more, it is gone."""
    alarms = ["node 2 stopped: its state was wrong at index 7: a reason"]
    replies: dict[str, Any] = {
        "/v1/quorum": {"offset": END, "cluster_id": "", "leader": 1, "voters": []},
        "/v1/status": {"sentence": "Alarm.", "healthy": False, "alarms": alarms},
        "/v1/brokers": {"brokers": [], "next": None},
        "/metrics": {},
    }

    async def told(request: web.Request) -> web.Response:
        return web.json_response(replies[request.path])

    async def run() -> list[Any]:
        app, log = web.Application(), folded(FACTS)
        app.router.add_get("/{path:.*}", told)
        assert log.tip.model.cluster is not None
        replies["/v1/quorum"]["cluster_id"] = log.tip.model.cluster.cluster_id
        async with TestServer(app) as server:
            where = NodeAddresses(rpc="", raft="", kafka="", http=f"{server.host}:{server.port}")
            node = msgspec.structs.replace(log.tip.nodes[1], addresses=where)
            state = msgspec.structs.replace(log.tip, nodes=Map({1: node}))
            asking = soft.SoftState(Settings(), lambda: state, lambda: NOW, dict)
            found = [await asking.ask_all()]
            replies["/v1/status"] |= {"alarms": []}
            found.append(await asking.ask_all())
            await asking.close()
        return [health.health(dataclasses.replace(view(log, END), soft=one)) for one in found]

    alarmed, calm = asyncio.run(run())
    assert (alarmed.level, alarmed.sentence) == ("unhealthy", f"Alarm: {alarms[0]}.")
    assert [reason.text for reason in alarmed.reasons if reason.kind == "alarm"] == alarms
    assert "alarm" not in {reason.kind for reason in calm.reasons}
    assert "Alarm" not in calm.sentence


class Told(soft.SoftState):
    """Nodes that answer what ``answers`` says of a number and a path; None: not at all."""

    def __init__(self, answers: Callable[[int, str], Any], clock_ms: Callable[[], int], **settings: Any) -> None:
        self.log = folded(FACTS)
        super().__init__(Settings(**settings), lambda: self.log.tip, clock_ms, dict)
        self._answers = answers

    async def _fetch(self, method: str, number: int, path: str, body: bytes | None = None) -> bytes:
        answer = self._answers(number, path.partition("?")[0])
        if answer is None:
            raise soft.AskError(f"node {number}: connection refused")
        return msgspec.json.encode(answer)


def answered(cluster_id: str, path: str, heard_ms: int = 0) -> Any:
    """What a healthy node of a cluster answers: it leads, and heard one broker."""
    replicas = [{"broker_id": 1, "alive": True, "last_heartbeat_ms": heard_ms}]
    return {
        "/v1/quorum": {"offset": END, "cluster_id": cluster_id, "leader": 1, "voters": []},
        "/v1/status": {"sentence": "All is well.", "healthy": True},
        "/v1/brokers": {"time_ms": 0, "brokers": [{"broker_set": "broker-a", "replicas": replicas}], "next": None},
        "/metrics": {},
    }[path]


@pytest.mark.parametrize("silent", ["/v1/brokers", ""])
def test_what_a_node_tells_no_more_is_unknown(silent: str) -> None:
    """When all nodes are gone, or the leader tells nothing of brokers, none is said to be alive and just heard."""
    gone, now = "none", NOW
    cluster = folded(FACTS).cluster_id
    asking = Told(lambda _, path: None if path.startswith(gone) else answered(cluster, path, NOW - 400), lambda: now)
    first = asyncio.run(asking.ask_all())
    assert first is not None
    assert first.members["broker-a"][1].heartbeat_age_ms == 400
    gone, now = silent, NOW + 600_000
    later = asyncio.run(asking.ask_all())
    assert later is not None
    assert later.members == {}


def test_a_heartbeat_ages_while_brokers_are_not_asked_for() -> None:
    """With many broker sets they are asked for less often, and are not heard in between."""
    now, cluster = [NOW], folded(FACTS).cluster_id
    asking = Told(lambda _, path: answered(cluster, path, NOW - 400), lambda: now[0], sets_many=1, poll_many_ms=5_000)
    ages = []
    for now[0] in (NOW, NOW + 4_000, NOW + 5_000):
        found = asyncio.run(asking.ask_all())
        assert found is not None
        ages.append(found.members["broker-a"][1].heartbeat_age_ms)
    assert ages == [400, 4_400, 5_400]


def test_soft_state_of_long_ago_is_not_told_as_of_now() -> None:
    """Nobody watched for a while, so nobody was asked: the first answer says nothing that only then was true."""

    async def run() -> list[Any]:
        service = Service(Settings(recorded=RECORDED), lambda: 0)
        async with Http(Page(service)) as client:
            found = []
            for age in (0, Settings().soft_ms, Settings().soft_ms + 1):
                service._soft.latest = Soft(polled=NOW - age, status="All is well.", healthy=True)
                found.append((await data_of(client, "health"))["data"].get("status"))
            return found

    new, old, too_old = asyncio.run(run())
    assert new == old == {"sentence": "All is well.", "healthy": True}
    assert too_old is None


def test_only_when_every_node_is_of_another_cluster_the_log_is_another() -> None:
    """An address that somebody else's node has for a while says nothing, neither then, beside nodes that are silent,
    nor later, when nobody answers.
    """
    cluster = folded(FACTS).cluster_id
    said: dict[int, str] = {}
    asking = Told(lambda number, path: answered(said[number], path) if number in said else None, lambda: NOW)
    assert len(asking.log.tip.nodes) == 3
    for answers, foreign in (
        ({1: cluster, 2: "c2", 3: cluster}, ""),
        ({2: "c2"}, ""),
        ({1: cluster, 2: cluster, 3: cluster}, ""),
        ({}, ""),
        ({1: "c2", 2: "c2", 3: "c2"}, "c2"),
    ):
        said = answers
        asyncio.run(asking.ask_all())
        assert asking.foreign == foreign, answers


def test_zones_and_hosts_are_spelled_out() -> None:
    """A zone is its brokers and its nodes, as labels and nodes say at that offset; an unknown one is refused."""
    log = folded(FACTS)
    asked = WhatIf(fail=["zone/az-a", "broker/broker-a/1", "node/2", "host/b01"])
    found = spelled_out(asked, log.tip, {1: "az-a", 2: "az-b"})
    assert found[:4] == ["broker/broker-a/1", "broker/broker-b/1", "broker/broker-c/1", "node/1"]
    assert found[4:] == ["node/2", "broker/broker-a/2", "broker/broker-b/2", "broker/broker-c/2"]
    for wrong in ("zone/nowhere", "zone/", "az-a", "rack/1"):
        with pytest.raises(ApiError):
            spelled_out(WhatIf(fail=[wrong]), log.tip, {})


def test_many_words_cost_one_walk_over_the_sets() -> None:
    """A question may name 20,000 zones and hosts, and one of them 20,000 times."""

    class Counted(dict[str, Any]):
        walks = 0

        def items(self) -> Any:
            self.walks += 1
            return super().items()

    sets = Counted(folded(FACTS).tip.sets)
    state = msgspec.structs.replace(folded(FACTS).tip, sets=sets)
    many = WhatIf(fail=["zone/az-a"] * 10_000 + ["host/b01"] * 10_000)
    few = WhatIf(fail=["zone/az-a", "host/b01"])
    assert spelled_out(many, state, {}) == spelled_out(few, folded(FACTS).tip, {})
    assert sets.walks == 1


def test_each_row_of_a_node_s_answer_says_why() -> None:
    """A row keeps all it has, also what this build does not know; ``why`` is its rule and its loss in words."""
    rows = [
        {"set": "a", "rule": "higher epoch", "unclean": True, "loses_bytes": 2048, "more": [1]},
        {"set": "b", "rule": "no quorum", "unclean": False, "loses_bytes": 0},
    ]
    why = ("highest epoch; loses 2.00 KiB", "without a quorum nobody can be elected")
    assert worded(msgspec.Raw(msgspec.json.encode(rows))) == [
        {**row, "why": told} for row, told in zip(rows, why, strict=True)
    ]


def test_labels_are_those_of_the_offset_asked_for() -> None:
    """Before the settings were made there is no zone, and after a change there is the new one."""
    log = folded(FACTS)
    made = next(fact.stamp.offset for fact in FACTS if isinstance(fact.event, ConfigChanged))
    with pytest.raises(ApiError):
        spelled_out(WhatIf(fail=["zone/az-a"]), log.history.at(made), {})
    moved = ConfigChanged(scope="broker-set/broker-a", changes=(ConfigChange(name="zone.1", old="az-a", new="az-z"),))
    log.take([Fact(Stamp(offset=END, term=99, time_ms=NOW), moved, encode(moved))])
    assert spelled_out(WhatIf(fail=["zone/az-z"]), log.tip, {}) == ["broker/broker-a/1"]


def store_at(path: Path, position: int, seen_ms: int = NOW) -> str:
    """A serving store as the Spark application would have written it, made from the fold."""
    url = f"sqlite:///{path}"
    database = connect(url)
    log = folded(FACTS)
    seen = view(log, position)
    rows = plain(elections.elections(seen, first=True, limit=1_000))["elections"]
    with database.transaction():
        for statement in tables("sqlite"):
            database.write(statement, [()])
        for row in rows:
            database.write(upsert("sqlite", "elections", Election, ("election_offset",), "event_offset"), [stored(row)])
        progress = Progress(
            name="serving", query_id="q", batch_id=7, position=position, last_event_ms=NOW, applied_ms=seen_ms,
            seen_ms=seen_ms, state="running", message="",
        )  # fmt: skip
        database.write(
            upsert("sqlite", "progress", Progress, ("name",), "position"), [msgspec.structs.astuple(progress)]
        )
    database.close()
    return url


def stored(row: dict[str, Any]) -> tuple[Any, ...]:
    """An election of the page as a row of the store."""
    blank = dict.fromkeys(Election.__struct_fields__) | dict.fromkeys(
        ("term", "broker_cluster", "cause", "principal", "master_address", "explanation", "candidates"), ""
    )
    known = {
        "event_offset": row["offset"], "election_offset": row["offset"], "time_ms": row["t"], "term": 1,
        "broker_set": row["set"], "outcome": "elected" if row["type"] == "MasterElected" else "failed",
        "first": row["first"], "trigger_by": row["trigger"], "evidence": row["evidence"], "old_master": row["from"],
        "new_master": row["to"], "master_epoch": row["epoch"], "decided_by": row["decided_by"],
        "unclean": row["unclean"], "candidate_count": row["candidates"], "alive_count": row["alive"],
        "fault_ms": row["fault_at"], "acknowledged_ms": row["acked_at"], "unavailable_ms": row["unavailable_ms"],
    }  # fmt: skip
    return tuple((blank | known)[name] for name in Election.__struct_fields__)


def with_streams(act: Any, **settings: Any) -> Any:
    """What ``act`` gets from a dashboard of the recorded log with these readers."""

    async def run() -> Any:
        service = Service(Settings(recorded=RECORDED, poll_ms=20, **settings), lambda: 0)
        async with Http(Page(service)) as client:
            return await act(client)

    return asyncio.run(run())


async def data_of(client: Http, path: str) -> Any:
    async with client.get(f"/api/{path}") as response:
        assert response.status == 200, await response.text()
        return json.loads(await response.read())


async def streams_when(client: Http, state: str) -> Any:
    """The second stream once it is in a state."""
    async with asyncio.timeout(20):
        while True:
            streams = (await data_of(client, "streams"))["data"]["streams"]
            if len(streams) > 1 and streams[1]["state"] == state:
                return streams[1]
            await asyncio.sleep(0.02)


def test_elections_come_from_spark_when_it_knows_all(tmp_path: Path) -> None:
    """With a store that has caught up the answer is Spark's, stamped, and equal in every page to the fold's."""

    async def act(client: Http) -> None:
        serving = await streams_when(client, "running")
        assert (serving["kind"], serving["offset"], serving["lag"], serving["batch"]) == ("spark", END, 0, 7)
        for query in (
            "",
            "?limit=2",
            "?set=broker-a",
            "?first=1&limit=3",
            "?after=40&limit=2",
            "?kind=connection+closed",
        ):
            spark = await data_of(client, f"elections{query}")
            ours = await data_of(client, f"elections{query}{'&' if query else '?'}at={END}")
            assert (spark["source"], spark["offset"], spark["batch"], ours["source"]) == ("spark", END, 7, "fold")
            for election in (*spark["data"]["elections"], *ours["data"]["elections"]):
                election["fault_estimated"] = None
            assert spark["data"] == ours["data"], query

    with_streams(act, serving=store_at(tmp_path / "s.db", END))


def test_elections_are_the_same_whoever_answers(tmp_path: Path) -> None:
    """Spark calls an election first that found nobody for a set without a master, and tells the difference of two
    clocks as it is; the answer is the fold's.
    """
    url = store_at(tmp_path / "s.db", END)
    database = connect(url)
    database.write("UPDATE elections SET first = 1 WHERE outcome = 'failed'", [()])
    database.write("UPDATE elections SET unavailable_ms = -5 WHERE unavailable_ms IS NOT NULL", [()])
    database.close()

    async def act(client: Http) -> None:
        await streams_when(client, "running")
        spark, ours = await data_of(client, "elections"), await data_of(client, f"elections?at={END}")
        told, known = spark["data"]["elections"], ours["data"]["elections"]
        assert (spark["source"], ours["source"]) == ("spark", "fold")
        assert "ElectionFailed" in {one["type"] for one in known}
        assert [(one["offset"], one["first"]) for one in told] == [(one["offset"], one["first"]) for one in known]
        assert {one["unavailable_ms"] for one in told} == {None, 0}

    with_streams(act, serving=url)


@pytest.mark.parametrize(("position", "seen_ms", "state"), [(40, NOW, "running"), (END, NOW - 60_000, "down")])
def test_a_store_that_is_behind_or_dead_is_not_shown_as_new(
    tmp_path: Path, position: int, seen_ms: int, state: str
) -> None:
    """When Spark lacks an election, or is not alive, the fold answers, and the stream says how it is."""

    async def act(client: Http) -> None:
        serving = await streams_when(client, state)
        assert serving["lag"] == END - position
        assert (await data_of(client, "elections"))["source"] == "fold"

    with_streams(act, serving=store_at(tmp_path / "s.db", position, seen_ms))


def test_a_quiet_cluster_makes_no_reader_old() -> None:
    """A query that is alive and lacks nothing is as new as it was seen, however long ago its last batch is; the first
    event after a quiet hour makes it behind only when it is still lacking a while later.
    """
    streams = Streams(Settings(recorded=RECORDED), lambda: 0)
    hour, now = 3_600_000, 10_000_000

    def looked(position: int, end: int, at: int) -> tuple[str, int | None]:
        progress = Progress(
            name="serving", query_id="q", batch_id=7, position=position, last_event_ms=1, applied_ms=now - hour,
            seen_ms=at, state="running", message="",
        )  # fmt: skip
        stream = streams._query(progress, end, at)
        return stream.state, stream.age_ms

    assert looked(5, 5, now) == ("running", 0)
    assert looked(5, 6, now + 1_000) == ("running", 0)
    assert looked(5, 7, now + 1_000 + BEHIND_MS) == ("running", BEHIND_MS)
    assert looked(5, 7, now + 1_001 + BEHIND_MS) == ("behind", BEHIND_MS + 1)
    assert looked(6, 7, now + 1_002 + BEHIND_MS) == ("running", 0)
    state = view(folded(FACTS), END)
    page = Page_(position=END, batch=7, seen_ms=state.now - 40, items=[])
    answer = json.loads(from_store(state, page, ElectionQuery(limit=1)))
    assert answer["age_ms"] == 40


def test_a_question_about_elections_does_not_hide_that_a_query_stands_still() -> None:
    """It has all elections, and lacks the events behind them: it is behind, whoever looks at elections meanwhile."""
    streams = Streams(Settings(recorded=RECORDED), lambda: 0)
    streams.store = SparkStore("sqlite:///none.db")
    following = FollowStatus(state="following", end_offset=20)

    def looked(at: int) -> str:
        told = Progress(
            name="serving", query_id="q", batch_id=7, position=10, last_event_ms=1, applied_ms=NOW, seen_ms=at,
            state="running", message="",
        )  # fmt: skip
        streams._queries = [told]
        assert streams.fresh(5, at)
        assert not streams.fresh(11, at)
        return streams.answer(following, 20, at).streams[1].state

    assert [looked(NOW + at) for at in (0, BEHIND_MS, BEHIND_MS + 1)] == ["running", "running", "behind"]


def test_a_store_that_is_not_there_is_down(tmp_path: Path) -> None:
    """Neither a missing file nor a wrong URL breaks anything else; a URL of no store at all is refused at once."""

    async def act(client: Http) -> None:
        assert (await streams_when(client, "down"))["message"]
        assert (await data_of(client, "elections"))["source"] == "fold"

    with_streams(act, serving=f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(UsageError):
        Service(Settings(recorded=RECORDED, serving="mysql://x"), lambda: 0)
    with pytest.raises(UsageError, match="percent-encode"):
        Service(Settings(recorded=RECORDED, serving="postgresql://u:pa[ss@h/db"), lambda: 0)


def test_a_store_that_fails_in_an_unforeseen_way_is_down_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else that is told of now depends on what a driver raises."""

    def broken(*_: object) -> None:
        raise RuntimeError("the driver is broken")

    async def act(client: Http) -> None:
        assert (await streams_when(client, "down"))["message"] == "the driver is broken"
        assert (await data_of(client, "elections"))["source"] == "fold"

    monkeypatch.setattr(SparkStore, "_read", broken)
    with_streams(act, serving=store_at(tmp_path / "s.db", END))


def test_a_store_that_hangs_is_asked_once_and_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that says nothing any more: whoever asks gives up in time, no further question goes out behind the
    first, and neither closing nor the end of the process waits for it.
    """
    asked, answers, hung_up = list[str](), threading.Event(), list[bool]()

    class Silent:
        def read(self, statement: str, _: object) -> list[Any]:
            asked.append(threading.current_thread().name)
            assert threading.current_thread().daemon
            answers.wait(20)
            return []

        def close(self) -> None:
            hung_up.append(answers.is_set())

    async def run() -> None:
        store = SparkStore("sqlite:///none.db")
        monkeypatch.setattr(store, "_connect", Silent)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(store.progress(), 0.05)
        assert len(asked) == 1
        await asyncio.wait_for(store.close(), 10)
        assert not hung_up
        answers.set()
        assert await store.progress() == []
        await store.close()
        assert (len(asked), hung_up) == (2, [True])

    asyncio.run(run())


def test_projections_say_how_they_are() -> None:
    """A worker that answers is shown with its offset and lag, one that does not with the reason."""

    async def ready(_: web.Request) -> web.Response:
        told = {"ready": False, "offset": 10, "age_ms": 5, "reason": "behind", "generation": "g"}
        return web.Response(body=json.dumps(told), status=503)

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/ready", ready)
        async with TestServer(app) as worker:
            address = f"127.0.0.1:{worker.port}"
            service = Service(Settings(recorded=RECORDED, poll_ms=20, projections=(address, "127.0.0.1:1")), lambda: 0)
            async with Http(Page(service)) as client:
                first = await streams_when(client, "behind")
                assert (first["name"], first["offset"], first["lag"], first["message"]) == (
                    address,
                    10,
                    END - 10,
                    "behind",
                )
                other = (await data_of(client, "streams"))["data"]["streams"][2]
                assert (other["state"], other["offset"]) == ("down", None)

    asyncio.run(run())
