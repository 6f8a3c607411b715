"""Every path on a real controller: what it answers, how fresh it is, and what each kind of trouble is called."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate.consensus.ports import Term
from quorate.controller import Answered, Outcome, Refused
from quorate.events import SCHEMAS, Event, Stamp
from quorate.gateway.access import NoQuota, OpenAccess
from quorate.gateway.fresh import FreshReader
from quorate.gateway.http import HttpContext, HttpSettings, NodeInfo, StorageInfo, exposition, interface, reading
from quorate.gateway.http.answers import AnnouncedBroker, DataVersion, SettingItem
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.context import Announcements
from quorate.gateway.http.messages import STATUS, Request, Response
from quorate.gateway.http.registry import Registry
from quorate.gateway.http.routing import match
from quorate.gateway.remoting.announced import Set, topic_told
from quorate.metadata.commands import (
    ApplyBrokerId,
    CleanBrokerData,
    DeleteKeys,
    ElectMaster,
    GrantLease,
    PutKey,
    PutTopic,
    RaiseFeatureLevel,
    RecordNodeStart,
    RegisterBroker,
    TopicIs,
)
from quorate.metadata.policy import PolicySettings
from quorate.metadata.sums import shown
from quorate.metrics import LATENCY_BOUNDS_US
from quorate.model.routes import QueueData
from quorate.slices import Steps, in_slices
from quorate.wire.avro import decoding_events
from quorate.wire.name_server import AnnouncedTopic
from tests.plain_sums import plain_sums
from tests.stand_ins import Heartbeat
from tests.unit.controller.bench import ADDRESSES, Bench, Line
from tests.unit.history.kit import Times

SETTINGS = HttpSettings(page_default=2, page_max=3, waiting_max=2)
SECOND = 1_000_000


class House:
    """A controller on its bench, and its HTTP interface without sockets."""

    def __init__(self, *, lead: bool = True) -> None:
        self.bench = Bench()
        self.bench.engine.commit_index, self.bench.engine.applied_index = 7, 6  # type: ignore[attr-defined]
        self.bench.engine.voting = True  # type: ignore[attr-defined]
        self.alive = self.serving = True
        self.times = Times(self.bench)
        self.access: Any = OpenAccess()
        self.quota: Any = NoQuota()
        self.alarms: list[str] = []
        self.unreachable = {3}
        self.router = interface(self.context())
        if lead:
            self.bench.open()

    def context(self) -> HttpContext:
        bench = self.bench
        return HttpContext(
            node=NodeInfo(1, "bench", "1.2.3", "the.topic", "127.0.0.1:1", python="CPython 3", leaf="pure: for a test"),
            journal_sync=lambda: "kernel",
            controller=bench.controller,
            engine=bench.engine,  # type: ignore[arg-type]
            log=bench.machine._log,
            scheduler=bench.loop,
            metrics=bench.metrics,
            access=self,
            quota=self,
            connected=lambda node_id: node_id not in self.unreachable,
            serving=lambda: self.serving,
            alive=lambda: self.alive,
            storage=lambda: StorageInfo(1000, 400, 0.5),
            sums=lambda: bench.machine.marked,
            alarms=lambda: self.alarms,
            agrees=lambda: not self.alarms,
            in_force=lambda _: [SettingItem(name="a.b", value="1", source="default")],
            fresh=FreshReader(
                bench.controller,
                self.times.past,
                bench.listeners,
                bench.loop,
                timeout_s=SETTINGS.answer_timeout_s,
                past_timeout_s=self.times.settings.answer_timeout_s,
                waiting_max=SETTINGS.waiting_max,
            ),
            policy=PolicySettings(),
            settings=SETTINGS,
        )

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        return bool(self.access.authorize(principal, operation, resource))

    def admit(self, principal: str, operation: str) -> bool:
        return bool(self.quota.admit(principal, operation))

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> list[Response]:
        """Ask; the list gets the answer."""
        answers: list[Response] = []
        where, _, query = path.partition("?")
        asked = dict(pair.split("=") for pair in query.split("&")) if query else {}
        segments = tuple(part.replace("%2F", "/") for part in where.split("/") if part)
        found = {name.replace("_", "-"): value for name, value in headers.items()}
        self.router(Request(method, segments, asked, found, body, "127.0.0.1:5"), answers.append)
        return answers

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Ask, let what must be confirmed be confirmed and what was proposed be committed; (status, JSON)."""
        answers = self.send(method, path, b"" if body is None else json.dumps(body).encode(), **headers)
        self.bench.settle()
        (answer,) = answers
        return answer.status, json.loads(answer.body)

    def get(self, path: str) -> Any:
        """A GET that must succeed."""
        status, found = self.ask("GET", path)
        assert status == 200, found
        return found

    def topics(self, *names: str) -> None:
        """Create topics."""
        for name in names:
            self.bench.done(PutTopic(topic=name, read_queues=4, write_queues=4, permission=6))


def error_of(answer: tuple[int, Any]) -> tuple[int, str]:
    """(status, code) of an error; they must belong together."""
    status, found = answer
    code = found["error"]["code"]
    assert STATUS[code] == status
    assert found["error"]["message"]
    return status, code


def test_status_is_one_sentence_and_its_figures() -> None:
    """Leader, reach, sets, masters and living brokers are in the sentence and in fields beside it."""
    house = House()
    house.bench.broker_set([Line(), Line()])
    found = house.get("/v1/status")
    assert found["sentence"] == (
        "Node 1 leads, 1 of 1 controllers connected; 1 broker set, every one with a master; 2 of 2 brokers alive."
    )
    assert (found["healthy"], found["role"], found["leader"], found["term"], found["node"]) == (True, "leader", 1, 1, 1)
    assert found["brokers"] == {"sets": 1, "without_master": 0, "replicas": 2, "alive": 2}
    assert found["offset"] == house.bench.controller.offset
    assert (found["python"], found["leaf"], found["journal_sync"]) == ("CPython 3", "pure: for a test", "kernel")
    assert house.get("/v1/status?at=1")["journal_sync"] is None


def test_status_without_a_leader_says_so() -> None:
    """It answers without a quorum, and is not healthy."""
    house = House()
    house.bench.engine.lose()
    found = house.get("/v1/status")
    assert found["sentence"] == "Node 1 knows no leader; it reaches 1 of 1 controllers."
    assert (found["healthy"], found["ready"], found["role"], found["leader"]) == (False, False, "candidate", None)


def test_status_before_it_is_ready_says_so() -> None:
    """A node whose log is not all here is not ready, though it knows a leader."""
    house = House()
    house.serving = False
    found = house.get("/v1/status")
    assert found["sentence"] == "Node 1 is not ready; node 1 leads."
    assert found["healthy"] is False


def test_a_set_that_lost_its_master_is_counted() -> None:
    """Members and no master: unhealthy, and the sentence says how many."""
    house = House()
    house.bench.broker_set([Line()])
    house.bench.broker_set([Line()], name="b")
    set_b = house.bench.machine.state.broker_sets["b"]
    lost = msgspec.structs.replace(set_b, master=None)
    state = house.bench.machine.state
    house.bench.machine.state = msgspec.structs.replace(state, broker_sets=state.broker_sets.set("b", lost))
    found = house.get("/v1/status")
    assert (found["healthy"], found["brokers"]["without_master"]) == (False, 1)
    assert "2 broker sets, 1 of them without a master" in found["sentence"]


def test_quorum_tells_who_votes_and_who_is_reached() -> None:
    """Each voter with its addresses, whether it leads and whether this node reaches it."""
    found = House().get("/v1/quorum")
    assert (found["leader"], found["role"], found["voting"]) == (1, "leader", True)
    assert (found["commit_index"], found["applied_index"], found["leader_cause"]) == (7, 6, "first start")
    (voter,) = found["voters"]
    assert (voter["id"], voter["leader"], voter["connected"], voter["kafka"]) == (1, True, True, "127.0.0.1:3")


def test_a_broker_set_shows_the_log_and_what_is_heard() -> None:
    """Master, epochs, sync state set, every replica with its last words, and the last election."""
    house = House()
    lines = [Line(), Line()]
    house.bench.broker_set(lines)
    house.bench.beat(lines[1], 2, max_offset=4711)
    found = house.get("/v1/brokers/a")["broker_set"]
    assert (found["master"], found["master_epoch"], found["sync_state_set"]) == (1, 1, [1])
    assert found["master_address"] == "127.0.0.1:30001"
    first, second = found["replicas"]
    assert (first["in_sync"], second["in_sync"], second["alive"], second["max_offset"]) == (True, False, True, 4711)
    assert found["election"]["offset"] > 0
    assert error_of(house.ask("GET", "/v1/brokers/nobody")) == (404, "not_found")


def test_a_broker_shows_what_it_said_of_itself() -> None:
    """Capabilities and topics of its registration (1003), of now and of the past."""
    house = House()
    house.bench.broker_set([Line()])
    before = house.bench.controller.offset
    said = {"capabilities": {"rack": "r1"}, "topics": ["orders", "parts"]}
    house.bench.done(
        RegisterBroker(
            cluster="c", broker_set="a", broker_id=1, address="127.0.0.1:30001",
            capabilities={"rack": "r1"}, topics=("orders", "parts"),
        )
    )  # fmt: skip
    (replica,) = house.get("/v1/brokers/a")["broker_set"]["replicas"]
    assert {name: replica[name] for name in said} == said
    (replica,) = house.get(f"/v1/brokers/a?at={before}")["broker_set"]["replicas"]
    assert (replica["capabilities"], replica["topics"]) == ({}, [])


def test_what_brokers_announced_is_shown_page_by_page() -> None:
    """Of a set that told this node; else, and of the past, the names in the log; of no set, that there is none."""
    house = House()
    house.bench.broker_set([Line()])
    version = {"state_version": 1, "timestamp_ms": 2, "counter": 3}
    broker = {"broker_id": 0, "address": "h:1", "ha_address": "", "silent_for_ms": 4, "version": version}
    known = Set(
        cluster="c",
        topics={
            name: QueueData(broker_name="x", read_queue_nums=8, write_queue_nums=4, perm=6, topic_sys_flag=1)
            for name in ("t1", "t2", "t3")
        },
        configs={"t1": AnnouncedTopic(order=True, topic_filter_type=None, attributes={"message.type": "FIFO"})},
    )
    told = Announcements(
        (msgspec.convert(broker, AnnouncedBroker),),
        msgspec.convert(version, DataVersion),
        known.topics.keys(),
        partial(topic_told, known),
    )
    house.router = interface(replace(house.context(), announced=lambda name: told if name == "x" else None))
    first = house.get("/v1/brokers/x/topics?limit=2")
    assert (first["brokers"], first["version"], first["next"]) == ([broker], version, "t2")
    assert first["topics"][0] == {
        "topic": "t1", "read_queues": 8, "write_queues": 4, "permission": 6, "filter_type": "SINGLE_TAG",
        "system_flags": 1, "order": True, "attributes": {"message.type": "FIFO"},
    }  # fmt: skip
    rest = house.get("/v1/brokers/x/topics?limit=2&after=t2")
    assert ([topic["topic"] for topic in rest["topics"]], rest["next"]) == (["t3"], None)
    silent = house.get("/v1/brokers/a/topics")
    assert (silent["brokers"], silent["version"], silent["topics"]) == ([], None, [])
    assert error_of(house.ask("GET", "/v1/brokers/nobody/topics")) == (404, "not_found")
    assert (silent["source"], first["source"], first["names"]) == ("log", "brokers", ["t1", "t2"])
    registered = RegisterBroker(
        cluster="c", broker_set="a", broker_id=1, address="127.0.0.1:30001", topics=("bills", "orders")
    )
    before = house.bench.controller.offset
    house.bench.done(registered)
    assert house.get("/v1/brokers/a/topics")["names"] == ["bills", "orders"]
    assert house.get(f"/v1/brokers/a/topics?at={before}")["names"] == []
    page = house.get(f"/v1/brokers/a/topics?limit=1&at={house.bench.controller.offset}")
    assert (page["source"], page["names"], page["topics"], page["next"]) == ("log", ["bills"], [], "bills")


def test_an_election_can_be_read_in_full() -> None:
    """The list names the event, the event names every candidate and the rule that decided."""
    house = House()
    house.bench.broker_set([Line(), Line()])
    (item,) = house.get("/v1/elections")["elections"]
    assert (item["broker_set"], item["master"], item["master_epoch"]) == ("a", 1, 1)
    election = house.get(f"/v1/elections/{item['election']['offset']}")["election"]
    assert election["event"]["type"] == "MasterElected"
    assert election["event"]["master"] == 1
    assert election["event"]["explanation"] == item["election"]["explanation"]
    assert [c["verdict"] for c in election["event"]["candidates"]].count("elected") == 1


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/v1/elections/0", (404, "not_found")),  # an event, but no election
        ("/v1/elections/999999", (404, "not_found")),
        ("/v1/elections/x", (400, "invalid")),
        ("/v1/elections/-1", (400, "invalid")),
        ("/v1/elections/1234567890123456789", (400, "invalid")),
        ("/v1/topics/nope", (404, "not_found")),
        ("/v1/topics?limit=0", (400, "invalid")),
        ("/v1/topics?limit=x", (400, "invalid")),
        ("/v1/topics?level=sometimes", (400, "invalid")),
        ("/v1/topics?min_offset=-1", (400, "invalid")),
        ("/v1/topics?level=at_least", (400, "invalid")),
        ("/v1/topics?at=1&level=stale", (400, "invalid")),
        ("/v1/topics?at=1&min_offset=1", (400, "invalid")),
        ("/v1/topics?at=-1", (400, "invalid")),
        ("/v1/topics?at=x", (400, "invalid")),
        ("/v1/topics?at=99999999999999999999", (400, "invalid")),
        ("/v1/topics?at=999", (416, "beyond_end")),
        ("/v1/status?at=999", (416, "beyond_end")),
        ("/v1/log?at=999", (416, "beyond_end")),
        ("/v1/elections/0?at=0", (404, "not_found")),
        ("/v1/diff", (400, "invalid")),
        ("/v1/diff?from=x", (400, "invalid")),
        ("/v1/diff?from=2&to=1", (400, "invalid")),
        ("/v1/diff?from=0&to=999", (416, "beyond_end")),
        ("/v1/diff?from=999", (416, "beyond_end")),
        ("/v1/diff?from=0&at=1", (400, "invalid")),
        ("/v1/diff?from=0&level=stale", (400, "invalid")),
        ("/v1/config/bogus", (400, "invalid")),
        ("/v1/config/node/x", (400, "invalid")),
        ("/v1/config/topic/", (400, "invalid")),
        ("/nope", (404, "not_found")),
        ("/v1/topics/a/b", (404, "not_found")),
    ],
)
def test_bad_questions_are_named(path: str, error: tuple[int, str]) -> None:
    """Each has its code and status, and a message."""
    assert error_of(House().ask("GET", path)) == error


def test_another_method_is_told_what_is_allowed() -> None:
    """405 with the methods the path has."""
    house = House()
    (answer,) = house.send("POST", "/v1/topics/t")
    assert (answer.status, dict(answer.headers)) == (405, {"allow": "DELETE, GET, PUT"})
    (answer,) = house.send("HEAD", "/livez")
    assert answer.status == 200


def test_lists_are_paged_by_name() -> None:
    """``next`` leads through all of them once, in order; the server bounds a page."""
    house = House()
    names = [f"t{i}" for i in range(7)]
    house.topics(*reversed(names))
    seen, after, pages = [], None, 0
    while pages == 0 or after is not None:
        page = house.get("/v1/topics" + (f"?after={after}" if after else ""))
        seen += [t["topic"] for t in page["topics"]]
        after, pages = page["next"], pages + 1
    assert (seen, pages) == (names, 4)
    assert len(house.get("/v1/topics?limit=100")["topics"]) == 3


def test_every_list_and_answer_is_stamped() -> None:
    """Offset, time and node are in each."""
    house = House()
    for path in ("status", "quorum", "state-hash", "brokers", "topics", "config", "elections", "log"):
        found = house.get(f"/v1/{path}")
        assert (found["offset"], found["node"]) == (house.bench.controller.offset, 1), path
        assert found["time_ms"] == house.bench.machine.time_ms


def test_what_is_in_force_is_told_of_now_only() -> None:
    """The node's own settings with their sources; of the past nobody knows them, and that is said."""
    house = House()
    assert house.get("/v1/settings")["settings"] == [{"name": "a.b", "value": "1", "source": "default"}]
    status, told = house.ask("GET", "/v1/settings?at=0")
    assert (status, told["error"]["code"]) == (400, "invalid")


def test_a_topic_is_put_read_and_deleted() -> None:
    """RocketMQ's change form creates attributes; the answer's offset has it; deleting takes it away."""
    house = House()
    body = {"read_queues": 4, "write_queues": 8, "attributes": {"+message.type": "FIFO"}}
    status, done = house.ask("PUT", "/v1/topics/orders", body)
    assert (status, done["reply"], done["repeated"]) == (
        200,
        {"type": "TopicIs", "topic": "orders", "changed": True},
        False,
    )
    found = house.get(f"/v1/topics/orders?level=stale&min_offset={done['offset']}")["topic"]
    assert (found["read_queues"], found["write_queues"], found["permission"]) == (4, 8, 6)
    assert found["attributes"] == {"message.type": "FIFO"}
    assert house.ask("DELETE", "/v1/topics/orders")[1]["reply"]["changed"] is True
    assert house.get("/v1/topics")["topics"] == []


def test_the_feature_level_is_shown_and_raised_when_every_voter_can() -> None:
    """Who knows what is shown; a level that a voter could not read is refused by that voter's name, and then taken."""
    house = House()
    voter = {"id": 1, "feature_min": None, "feature_max": None}
    found = house.get("/v1/feature")
    assert (found["level"], found["highest"], found["nodes"]) == (1, 1, [voter])
    status, refused = house.ask("PUT", "/v1/feature", {"level": 2})
    assert (status, refused["error"]["reason"]) == (409, "UnsupportedFeatureLevel")
    assert "Node 1 never started" in refused["error"]["message"]
    start = RecordNodeStart(node_id=1, dir_uuid="u", version="2", addresses=ADDRESSES, feature_min=1, feature_max=2)
    house.bench.done(start)
    assert house.get("/v1/feature")["highest"] == 2
    assert house.ask("PUT", "/v1/feature", {"level": 2})[0] == 200
    assert house.get("/v1/feature")["level"] == house.get("/v1/status")["feature_level"] == 2
    assert house.ask("PUT", "/v1/feature", {"level": 1})[0] == 409
    assert house.ask("PUT", "/v1/feature", {"level": 0})[0] == 400


def test_a_voter_is_given_a_new_directory() -> None:
    """Only one that cannot be reached: another serves with what it has. Each refusal has a name and changes nothing."""
    house, new = House(), "00000000-0000-4000-8000-000000000001"
    path, offset = "/v1/members/1/rebuild", house.get("/v1/status")["offset"]
    status, refused = house.ask("POST", path, {"dir_uuid": new})
    assert (status, refused["error"]["reason"]) == (409, "VoterServes")
    house.unreachable = {1}
    assert house.ask("POST", path, {"dir_uuid": "gone"})[1]["error"]["reason"] == "InvalidDirectory"
    assert house.ask("POST", path, {"dir": new})[0] == 400
    for nobody in ("9", "x", "01"):
        assert house.ask("POST", f"/v1/members/{nobody}/rebuild", {"dir_uuid": new})[0] == 404
    assert house.get("/v1/status")["offset"] == offset
    assert house.ask("POST", path, {"dir_uuid": new})[0] == 200
    assert house.get("/v1/quorum")["voters"][0]["dir_uuid"] == new
    house.unreachable = set()
    assert house.ask("POST", path, {"dir_uuid": new})[0] == 200  # Once more: nothing new.
    assert house.get("/v1/status")["offset"] == offset + 1
    (event,) = house.get(f"/v1/log?from={offset}")["events"]
    assert (event["type"], event["event"]["asked_by"]) == ("VoterRebuilt", "anonymous at 127.0.0.1")


def test_a_setting_is_set_and_unset() -> None:
    """A scope with slashes is one path; null unsets; an untouched scope is empty."""
    house = House()
    assert house.ask("PUT", "/v1/config/broker-set/a", {"changes": {"x": "1", "y": "2"}, "unread": True})[0] == 200
    assert house.ask("PUT", "/v1/config/broker-set/a", {"changes": {"x": None}})[0] == 200
    assert house.get("/v1/config/broker-set/a")["config"] == {"scope": "broker-set/a", "values": {"y": "2"}}
    assert house.get("/v1/config/cluster")["config"]["values"] == {}
    assert [c["scope"] for c in house.get("/v1/config")["config"]] == ["broker-set/a"]


@pytest.mark.parametrize("scope", ["bogus", "node/x", "topic/", "cluster/a"])
def test_a_scope_that_cannot_be_is_refused_by_reads_as_by_writes(scope: str) -> None:
    """Who reads a mistyped scope is told so, in the words of who would have written it; nobody takes it for empty."""
    house = House()
    read = house.ask("GET", f"/v1/config/{scope}")
    assert read == house.ask("PUT", f"/v1/config/{scope}", {"changes": {"x": "1"}})
    assert (read[0], read[1]["error"]["reason"]) == (400, "InvalidConfigScope")
    assert "there is controller, cluster, node/ID, broker-set/NAME, topic/NAME" in read[1]["error"]["message"]


@pytest.mark.parametrize(("scope", "name"), [("cluster", "foo"), ("broker-set/a", "learner"), ("topic/t", "retention")])
def test_a_setting_that_nothing_reads_is_refused(scope: str, name: str) -> None:
    """The error is that of a setting nobody knows, nothing is written; unset, or meant as a note, it may be."""
    house = House()
    offset = house.bench.controller.offset
    status, answer = house.ask("PUT", f"/v1/config/{scope}", {"changes": {name: "1"}})
    assert (status, answer["error"]["code"], answer["error"]["reason"]) == (400, "invalid", "UnknownConfigKey")
    assert f"nothing reads {name} in {scope}" in answer["error"]["message"]
    assert house.bench.controller.offset == offset
    assert house.ask("PUT", f"/v1/config/{scope}", {"changes": {name: "1"}, "unread": True})[0] == 200
    assert house.ask("PUT", f"/v1/config/{scope}", {"changes": {name: None}})[0] == 200


@pytest.mark.parametrize(
    ("scope", "name", "told"),
    [
        ("controller", "mappedFileSize", "nothing reads mappedFileSize in controller; there it is enableElect"),
        ("node/1", "electMasterMaxRetryCount", "nothing reads electMasterMaxRetryCount in node/1; there it is"),
        ("node/99", "enableElectUncleanMaster", "reads enableElectUncleanMaster in node/99: there is no such node"),
    ],
)
def test_what_only_java_reads_is_refused_too_and_so_is_a_node_that_is_not_there(
    scope: str, name: str, told: str
) -> None:
    """As any setting that has no effect; with ``unread`` it is a note, as RocketMQ's tools leave some."""
    house, path = House(), f"/v1/config/{scope}"
    value = "true" if name.startswith("enable") else "5"
    offset = house.bench.controller.offset
    status, answer = house.ask("PUT", path, {"changes": {name: value}})
    assert (status, answer["error"]["reason"], house.bench.controller.offset) == (400, "UnknownConfigKey", offset)
    assert told in answer["error"]["message"]
    assert house.ask("PUT", path, {"changes": {name: value}, "unread": True})[0] == 200
    assert house.ask("PUT", path, {"changes": {name: None}})[0] == 200


def test_what_is_left_of_leases_is_told_by_the_leader() -> None:
    """Those asked for that are there, with their keys; what is left is null in the past, and from who does not lead."""
    house = House()
    start = RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2)
    house.bench.done(start)
    house.bench.done(RaiseFeatureLevel(level=2))
    house.bench.done(GrantLease(lease=-1, ttl_s=20))
    house.bench.done(PutKey(key=b"a", value=b"1", lease=-1))
    offset = house.bench.controller.offset
    told = {"lease": "f" * 16, "ttl_s": 20, "granted_ms": house.bench.machine.time_ms, "remaining_s": 0, "keys": 1}
    asked = "/v1/leases?ids=ffffffffffffffff,7"
    (found,) = house.get(asked)["leases"]
    assert 19_000 < found["left_ms"] <= 20_000
    assert found == {**told, "left_ms": found["left_ms"]}
    assert house.get(f"{asked}&at={offset}")["leases"] == [{**told, "left_ms": None}]
    house.bench.engine.leading = False
    assert house.get(f"{asked}&level=stale")["leases"] == [{**told, "left_ms": None}]
    for wrong in ("?ids=", "?ids=x", "?ids=1" + "0" * 16, "?ids=" + ",".join(["1"] * 101)):
        assert error_of(house.ask("GET", f"/v1/leases{wrong}")) == (400, "invalid")


def test_all_leases_are_listed_by_number() -> None:
    """In pages, in the order in which numbers are written; at an offset those that were there."""
    house = House()
    start = RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2)
    house.bench.done(start)
    house.bench.done(RaiseFeatureLevel(level=2))
    before = house.bench.controller.offset
    for number in (-1, 3, 1, 2):
        house.bench.done(GrantLease(lease=number, ttl_s=20))
    first = house.get("/v1/leases?limit=3")
    assert ([int(one["lease"], 16) for one in first["leases"]], first["next"]) == ([1, 2, 3], f"{3:016x}")
    last = house.get(f"/v1/leases?limit=3&after={first['next']}")
    assert ([one["lease"] for one in last["leases"]], last["next"]) == (["f" * 16], None)
    then = house.get(f"/v1/leases?at={before + 2}")
    assert [(int(one["lease"], 16), one["left_ms"]) for one in then["leases"]] == [(3, None), (2**64 - 1, None)]


def test_where_a_broker_stands_is_read() -> None:
    """The page and what-if read the labels of a set's brokers: they are no notes."""
    labels = {"zone.1": "az-a", "host.1": "b02"}
    assert House().ask("PUT", "/v1/config/broker-set/a", {"changes": labels})[0] == 200


def test_an_operator_elects() -> None:
    """With a broker id that one becomes master; the cause of the event says HTTP."""
    house = House()
    house.bench.broker_set([Line(), Line()])
    house.bench.in_sync(1, 2)
    status, done = house.ask("POST", "/v1/elections", {"broker_set": "a", "cluster": "c", "broker_id": 2})
    assert (status, done["reply"]["master"]) == (200, 2), done
    election = house.get(f"/v1/elections/{done['offset'] - 1}")["election"]
    assert (election["cause"], election["principal"], election["event"]["trigger"]) == ("http", "anonymous", "admin")


def test_the_reason_of_a_plan_is_taken() -> None:
    """Places may have long names: two of 255 letters fit into the sentence about them."""
    house, place = House(), "h" * 255
    house.bench.broker_set([Line(), Line()])
    house.bench.in_sync(1, 2)
    body = {"broker_set": "a", "broker_id": 2, "reason": f"{place} leads 200 sets, {place} leads 0"}
    status, done = house.ask("POST", "/v1/elections", body)
    assert status == 200, done
    election = house.get(f"/v1/elections/{done['offset'] - 1}")["election"]
    assert body["reason"] in election["event"]["explanation"]


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("PUT", "/v1/topics/t", b"", (400, "invalid")),
        ("PUT", "/v1/topics/t", b"{", (400, "invalid")),
        ("PUT", "/v1/topics/t", b"[]", (400, "invalid")),
        ("PUT", "/v1/topics/t", b'{"read_queues": 4}', (400, "invalid")),
        ("PUT", "/v1/topics/t", b'{"read_queues": 4, "write_queues": "4"}', (400, "invalid")),
        ("PUT", "/v1/topics/t", b'{"read_queues": 4, "write_queues": 4, "more": 1}', (400, "invalid")),
        ("PUT", "/v1/topics/t", b'{"read_queues": 0, "write_queues": 4}', (400, "invalid")),
        ("PUT", "/v1/topics/t", b'{"read_queues": 1%s, "write_queues": 4}' % (b"0" * 30), (400, "invalid")),
        ("PUT", "/v1/topics/t", b'"\xff"', (400, "invalid")),
        ("PUT", "/v1/topics/t?at=1", b'{"read_queues": 4, "write_queues": 4}', (400, "invalid")),
        ("DELETE", "/v1/topics/t?level=stale", b"", (400, "invalid")),
        ("PUT", "/v1/config/nowhere", b'{"changes": {"a": "b"}}', (400, "invalid")),
        ("PUT", "/v1/config/controller", b'{"changes": {"rocketmqHome": "/"}}', (403, "denied")),
        ("POST", "/v1/elections", b'{"broker_set": "nobody"}', (404, "not_found")),
        ("POST", "/v1/elections", b'{"broker_id": 1}', (400, "invalid")),
        ("POST", "/v1/elections", b'{"broker_set": "a", "broker_id": 9223372036854775808}', (400, "invalid")),
        ("POST", "/v1/segment-elections", b'{"segment": "a/0"}', (400, "invalid")),
        ("POST", "/v1/segment-elections", b'{"segment": "a", "member": "m"}', (409, "refused")),
        ("POST", "/v1/whatif", b'{"fail": ["node"]}', (400, "invalid")),
        ("POST", "/v1/whatif", b'{"fail": ["node/1/2"]}', (400, "invalid")),
        ("POST", "/v1/whatif", b'{"fail": ["zone/a"]}', (400, "invalid")),
        ("POST", "/v1/whatif", b'{"fail": ["broker/a/x"]}', (400, "invalid")),
        ("POST", "/v1/whatif", b'{"at": -1}', (400, "invalid")),
        ("POST", "/v1/whatif", b'{"at": 999}', (416, "beyond_end")),
        ("POST", "/v1/whatif", b'{"policy": 1}', (400, "invalid")),
        ("POST", "/v1/whatif", b'{"fail": ["node/9"]}', (404, "not_found")),
        ("POST", "/v1/whatif", b'{"fail": ["broker/a/1"]}', (404, "not_found")),
    ],
)
def test_bad_commands_change_nothing(method: str, path: str, body: bytes, error: tuple[int, str]) -> None:
    """Each has its code and status; no event is written."""
    house = House()
    before = house.bench.controller.offset
    answers = house.send(method, path, body)
    house.bench.settle()
    (answer,) = answers
    assert error_of((answer.status, json.loads(answer.body))) == error
    assert house.bench.controller.offset == before


@pytest.mark.parametrize("path", ["/config", "/config/s"])
def test_a_level_in_a_body_without_a_bottom_is_invalid(path: str) -> None:
    """Unknown members are passed over, but not to any depth."""
    house = House()
    (answer,) = house.send("PUT", path, b'{"compatibility": "FULL", "x": ' + b"[" * 100_000)
    assert (answer.status, json.loads(answer.body)["error_code"]) == (422, 42203)


def test_a_refusal_names_its_rule() -> None:
    """The reason is the refusal's own name, the message RocketMQ's remark."""
    house = House()
    house.bench.broker_set([Line()])
    status, found = house.ask("POST", "/v1/elections", {"broker_set": "a", "cluster": "c"})
    assert (status, found["error"]["code"], found["error"]["reason"]) == (409, "refused", "MasterStillExists")


def test_a_repeated_request_is_answered_not_run() -> None:
    """The same key gives the same reply, says that it is a repetition, and writes nothing."""
    house = House()
    key = f"{house.bench.loop.time_ms()}-abc"
    body = {"read_queues": 4, "write_queues": 4}
    first = house.ask("PUT", "/v1/topics/t", body, idempotency_key=key)[1]
    offset = house.bench.controller.offset
    again = house.ask("PUT", "/v1/topics/t", body, idempotency_key=key)[1]
    assert (first["repeated"], again["repeated"], again["reply"]) == (False, True, first["reply"])
    assert house.bench.controller.offset == offset
    status, found = house.ask("PUT", "/v1/topics/t", body, idempotency_key="no time in it")
    assert (status, found["error"]["reason"]) == (400, "InvalidRequestId")
    status, found = house.ask("PUT", "/v1/topics/t", {**body, "write_queues": 8}, idempotency_key=key)
    assert (status, found["error"]["code"], found["error"]["reason"]) == (409, "refused", "RequestIdReused")
    assert house.bench.controller.offset == offset


def test_what_nobody_knows_is_504() -> None:
    """Proposed and never committed: unknown_outcome, within the controller's deadline."""
    house = House()
    answers = house.send("PUT", "/v1/topics/t", b'{"read_queues": 4, "write_queues": 4}')
    house.bench.after(3.0)
    (answer,) = answers
    assert error_of((answer.status, json.loads(answer.body))) == (504, "unknown_outcome")


def test_without_a_leader_nothing_happens_and_that_is_said() -> None:
    """A command is 503 unavailable with a time to come again; so is a linearizable read; a stale one is served."""
    house = House()
    house.topics("t")
    house.bench.engine.lose()
    for method, path, body in (
        ("PUT", "/v1/topics/u", b'{"read_queues": 4, "write_queues": 4}'),
        ("GET", "/v1/topics", b""),
    ):
        answers = house.send(method, path, body)
        house.bench.after(3.0)
        (answer,) = answers
        assert error_of((answer.status, json.loads(answer.body))) == (503, "unavailable")
        assert dict(answer.headers) == {"retry-after": "1"}
    assert [t["topic"] for t in house.get("/v1/topics?level=stale")["topics"]] == ["t"]


def test_a_linearizable_read_waits_for_the_majority() -> None:
    """No answer before the leadership is confirmed; then what was committed meanwhile is in it."""
    house = House()
    answers = house.send("GET", "/v1/topics")
    house.bench.after(0.01)
    assert answers == []
    house.bench.submit(PutTopic(topic="t", read_queues=4, write_queues=4, permission=6))
    house.bench.engine.commit()
    house.bench.engine.confirm()
    (answer,) = answers
    assert [t["topic"] for t in json.loads(answer.body)["topics"]] == ["t"]


def test_min_offset_waits_for_it() -> None:
    """The answer comes when this node has applied so much; not in time is 504 behind; too many waiting is 503 busy."""
    house = House()
    offset = house.bench.controller.offset
    early = house.send("GET", f"/v1/topics?level=stale&min_offset={offset + 1}")
    never = house.send("GET", f"/v1/log?min_offset={offset + 100}")
    (full,) = house.send("GET", f"/v1/status?min_offset={offset + 100}")
    assert error_of((full.status, json.loads(full.body))) == (503, "busy")
    house.topics("t")
    house.bench.after(0.01)
    assert json.loads(early[0].body)["offset"] == offset + 1
    assert never == []
    house.bench.after(2.5)
    assert error_of((never[0].status, json.loads(never[0].body))) == (504, "behind")
    assert json.loads(never[0].body)["error"]["end_offset"] == offset + 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/topics/t", {"read_queues": 4, "write_queues": 4, "permission": 6}),
        ("/config/t", {"compatibility": "FULL"}),
    ],
)
def test_a_write_is_answered_in_time_also_where_it_is_not_applied(
    monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    """Through a follower that lags: what the decision took of the time is gone, and its client waits 5 s at most."""
    house, ends = House(), list[Callable[[Outcome], None]]()
    monkeypatch.setattr(house.bench.controller, "submit", lambda _command, _caller, done, **_: ends.append(done))
    answers = house.send("PUT", path, json.dumps(body).encode())
    house.bench.after(SETTINGS.answer_timeout_s - 0.1)
    (end,) = ends
    end(Answered(TopicIs("t", changed=True), house.bench.controller.offset + 1))
    assert answers == []
    house.bench.after(0.11)
    assert [answer.status for answer in answers] == [200]


def test_the_log_can_be_read_through_and_from_its_end() -> None:
    """Pages lead from ``from`` to the end; a negative start counts back; every event has its stamp and key."""
    house = House()
    house.topics("a", "b", "c")
    end = house.bench.controller.offset
    seen: list[dict[str, Any]] = []
    start: int | None = 0
    while start is not None:
        page = house.get(f"/v1/log?from={start}&limit=2")
        seen += page["events"]
        start = page["next"]
    assert [event["offset"] for event in seen] == list(range(end))
    assert (seen[0]["type"], seen[-1]["type"], seen[-1]["key"]) == ("ClusterCreated", "TopicCreated", "topic/default/c")
    assert seen[-1]["event"]["topic"] == "c"
    assert [e["offset"] for e in house.get("/v1/log?from=-2")["events"]] == [end - 2, end - 1]
    assert house.get(f"/v1/log?from={end}")["events"] == []
    assert house.get("/v1/log?from=-1000")["events"][0]["offset"] == 0


def test_a_step_of_a_page_of_the_log_decodes_a_bounded_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command may write thousands in a batch; what comes after the page is not decoded for it."""
    house, decoded, steps = House(), list[int](), list[int]()
    start = RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2)
    house.bench.done(start)
    house.bench.done(RaiseFeatureLevel(level=2))
    for number in range(300):
        house.bench.done(PutKey(key=b"k%d" % number))
    first = house.bench.controller.offset
    house.bench.done(DeleteKeys(key=b"k", range_end=b"l"))
    decoding, made = decoding_events, Asking.made

    def one_by_one(batch: bytes) -> Iterator[tuple[Stamp, Event]]:
        for stamp, event in decoding(batch):
            decoded.append(stamp.offset)
            yield stamp, event

    def noted(steps_: Steps[object]) -> Steps[object]:
        while True:
            before = len(decoded)
            try:
                waits = next(steps_)
            except StopIteration as end:
                return end.value
            steps.append(len(decoded) - before)
            yield waits

    monkeypatch.setattr(reading, "decoding_events", one_by_one)
    monkeypatch.setattr(Asking, "made", lambda asking, call, steps: made(asking, call, noted(steps)))
    page = house.get(f"/v1/log?from={first + 200}&limit=2")
    assert [event["offset"] for event in page["events"]] == [first + 200, first + 201]
    assert decoded == list(range(first, first + 202))
    assert max(steps) == reading.EVENTS_PER_STEP


def test_a_page_of_the_log_that_left_memory_is_read_beside_the_loop() -> None:
    """It is answered when the disk has answered, as it would have been from memory; so is the past."""
    house = House()
    house.topics("a", "b", "c")
    asked = ("/v1/log?from=1&limit=2", "/v1/topics?at=4", f"/v1/diff?from=1&to={house.bench.controller.offset}")
    expected = [house.get(path) for path in asked]
    for path, answer in zip(asked, expected, strict=True):
        house.times.past._states.clear()
        house.times.past._runners[0].close()
        house.bench.machine._log.reload()
        house.bench.reader.held = True
        answers = house.send("GET", path)
        assert not answers
        while not answers:
            house.bench.reader.run(1)
            house.bench.after(0.01)
        assert json.loads(answers[0].body) == answer


def test_an_alarm_is_in_the_status_and_a_state_in_doubt_is_not_ready() -> None:
    """In its sentence, its list and its health; the past has none."""
    house = House()
    house.topics("a")
    before = house.get("/v1/status")
    assert (before["healthy"], before["alarms"]) == (True, [])
    house.alarms = ["the state of node 2 differs"]
    now = house.get("/v1/status")
    assert (now["healthy"], now["alarms"]) == (False, ["the state of node 2 differs"])
    assert now["sentence"] == f"Alarm: the state of node 2 differs. {before['sentence']}"
    assert house.get("/v1/status?at=1")["alarms"] is None
    status, answer = house.ask("GET", "/readyz")
    assert (status, answer["message"]) == (503, "not so: state")


def test_the_state_hash_is_the_states() -> None:
    """Both sums, with the offset and the index they are of; of the past the one over the entities, as it was then."""
    house = House()
    house.topics("a")
    machine = house.bench.machine
    now = house.get("/v1/state-hash")
    entities, whole = plain_sums(machine.state, machine.requests, machine.groups.starting_with(b""))
    assert (now["rows"], now["hash"], now["index"]) == (shown(entities), shown(whole), machine.applied_index())
    house.topics(*(f"more{number}" for number in range(100)))
    then = house.get(f"/v1/state-hash?at={now['offset']}")
    assert (then["hash"], then["index"], then["offset"], then["past"]) == (None, None, now["offset"], True)
    assert then["rows"] == now["rows"]
    assert house.get("/v1/state-hash")["rows"] != now["rows"]


def test_every_read_is_answered_of_the_past_as_it_was_answered_then() -> None:
    """What the facts say is the same, the stamp too; what only heartbeats and connections tell is null."""
    house = House()
    house.bench.broker_set([Line(), Line()])
    house.topics("a", "b")
    house.ask("PUT", "/v1/config/cluster", {"changes": {"x": "1"}, "unread": True})
    offset = house.bench.controller.offset
    paths = ("topics", "topics/a", "config", "config/cluster", "elections")
    before = {path: house.get(f"/v1/{path}") for path in paths}
    log = house.get("/v1/log?from=0&limit=3")
    house.ask("DELETE", "/v1/topics/a")
    house.ask("PUT", "/v1/config/cluster", {"changes": {"x": "2"}, "unread": True})
    for path in paths:
        assert house.get(f"/v1/{path}?at={offset}") == {**before[path], "past": True}, path
    assert house.get(f"/v1/log?from=0&limit=3&at={offset}")["events"] == log["events"]
    assert house.get(f"/v1/log?from={offset - 1}&at={offset}")["end_offset"] == offset
    assert [e["offset"] for e in house.get(f"/v1/log?from=-1&at={offset}")["events"]] == [offset - 1]
    assert error_of(house.ask("GET", f"/v1/topics/a?at={house.bench.controller.offset}")) == (404, "not_found")


def test_soft_state_is_absent_from_the_past_and_the_answer_says_so() -> None:
    """Null, not a guess; the sentence says what is not known."""
    house = House()
    house.bench.broker_set([Line(), Line()])
    offset = house.bench.controller.offset
    house.topics("later")
    replica = house.get(f"/v1/brokers/a?at={offset}")["broker_set"]["replicas"][0]
    assert (replica["alive"], replica["last_heartbeat_ms"], replica["in_sync"]) == (None, None, True)
    status = house.get(f"/v1/status?at={offset}")
    assert (status["past"], status["role"], status["ready"], status["voters_connected"]) == (True, None, None, None)
    assert (status["brokers"]["alive"], status["leader"], status["healthy"]) == (None, 1, True)
    assert status["sentence"] == (
        f"At offset {offset} node 1 led; 1 broker set, every one with a master. "
        "Which brokers were heard then is not known."
    )
    quorum = house.get(f"/v1/quorum?at={offset}")
    assert (quorum["leader"], quorum["commit_index"], quorum["voters"][0]["connected"]) == (1, None, None)
    assert house.get("/v1/status?at=0")["leader"] is None


def test_too_many_questions_about_the_past_are_turned_away() -> None:
    """429, and when to come again; what is known without a replay is still answered."""
    house = House()
    house.topics("a", "b", "c")
    house.times.held = True
    asked = [house.send("GET", f"/v1/topics?at={1 + number % 4}") for number in range(33)]
    house.bench.after(0.01)
    (turned,) = asked[-1]
    assert error_of((turned.status, json.loads(turned.body))) == (429, "throttled")
    assert dict(turned.headers) == {"retry-after": "1"}
    assert house.get("/v1/topics")["past"] is False
    house.times.held = False
    house.times.links[0].go_on()
    house.bench.after(0.1)
    assert [answer.status for (answer,) in asked[:-1]] == [200] * 32


def test_the_end_of_the_log_is_named_when_the_future_is_asked_about() -> None:
    """A follower that is behind asks where the end is; without a quorum nobody knows."""
    house = House()
    end = house.bench.controller.offset
    _, found = house.ask("GET", f"/v1/brokers?at={end + 1}")
    assert found["error"]["end_offset"] == end
    house.bench.engine.lose()
    answers = house.send("GET", f"/v1/brokers?at={end + 1}")
    house.bench.after(3.0)
    assert error_of((answers[0].status, json.loads(answers[0].body))) == (503, "unavailable")
    assert house.get(f"/v1/brokers?at={end}")["brokers"] == []


def test_a_difference_is_told_by_entities_and_events() -> None:
    """Both in pages; the later state is now when none is named."""
    house = House()
    house.topics("a", "b")
    start = house.bench.controller.offset
    house.topics("c", "d", "e")
    house.ask("DELETE", "/v1/topics/a")
    found = house.get(f"/v1/diff?from={start}")
    assert (found["start"], found["offset"], found["event_count"], found["entity_count"]) == (start, start + 4, 4, 4)
    assert [(e["key"], e["change"]) for e in found["entities"]] == [("topic/a", "removed"), ("topic/c", "added")]
    assert (found["next"], [e["offset"] for e in found["events"]]) == ("topic/c", [start, start + 1])
    rest = house.get(f"/v1/diff?from={start}&to={found['offset']}&after=topic/c&events_from={found['events_next']}")
    assert [e["key"] for e in rest["entities"]] == ["topic/d", "topic/e"]
    assert (rest["next"], rest["events_next"], [e["type"] for e in rest["events"]][-1]) == (None, None, "TopicDeleted")
    same = house.get(f"/v1/diff?from={start}&to={start}")
    assert (same["entities"], same["events"], same["events_next"]) == ([], [], None)


def test_what_if_is_answered_now_and_in_the_past() -> None:
    """Now by the heartbeats of this node; in the past without them. Nothing is proposed."""
    house = House()
    lines = [Line(), Line(), Line()]
    house.bench.broker_set(lines)
    house.bench.in_sync(1, 2, 3)
    for broker_id, line in enumerate(lines, start=1):
        house.bench.beat(line, broker_id, max_offset=100 * broker_id)
    before = house.bench.controller.offset
    status, found = house.ask("POST", "/v1/whatif", {"fail": ["broker/a/1"]})
    assert (status, found["offset"], found["quorum"]["survives"]) == (200, before, True)
    assert [(r["kind"], r["winner"], r["rule"]) for r in found["rows"]] == [("elected", 3, "higher max offset")]
    _, then = house.ask("POST", "/v1/whatif", {"fail": ["broker/a/1"], "at": before})
    assert [(r["kind"], r["winner"], r["winners"]) for r in then["rows"]] == [("elected", None, [2, 3])]
    assert (then["past"], then["offset"]) == (True, before)
    _, alone = house.ask("POST", "/v1/whatif", {"fail": ["node/1", "broker/a/1"]})
    assert (alone["quorum"]["survives"], alone["rows"][0]["rule"]) == (False, "no quorum")
    assert house.bench.controller.offset == before


def test_what_if_counts_no_controller_that_is_dead_already() -> None:
    """Now as this node reaches them; of the past nobody knows."""
    house = House()
    house.bench.broker_set([Line()])
    house.unreachable.add(1)
    ask = {"fail": ["broker/a/1"]}
    assert house.ask("POST", "/v1/whatif", ask)[1]["quorum"]["voters_left"] == []
    then = ask | {"at": house.bench.controller.offset}
    assert house.ask("POST", "/v1/whatif", then)[1]["quorum"]["voters_left"] == [1]


def test_which_masters_would_move_is_answered_now_alone() -> None:
    """The plan is what the moves then do; of the past nobody knows who was heard, and nothing is proposed."""
    house = House()
    house.bench.broker_set([Line(), Line()])
    house.bench.in_sync(1, 2)
    before = house.bench.controller.offset
    found = house.get("/v1/balance")
    assert (found["moves"], found["before"], found["after"]) == ([], {"127.0.0.1": 1}, {"127.0.0.1": 1})
    assert house.ask("GET", f"/v1/balance?at={before}")[0] == 400
    assert house.bench.controller.offset == before
    assert found["by"] == "leader"
    house.bench.engine.leading = False
    assert house.get("/v1/balance?level=stale")["by"] == "follower"


class Nobody:
    """No to everything."""

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        return False

    def admit(self, principal: str, operation: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/topics", None),
        ("GET", "/v1/status", None),
        ("DELETE", "/v1/topics/t", None),
        ("POST", "/v1/elections", {"broker_set": "a"}),
    ],
)
def test_every_call_passes_both_hooks(method: str, path: str, body: Any) -> None:
    """Refused permission is 403, exhausted quota 429; nothing reaches the controller."""
    house = House()
    house.quota = Nobody()
    assert error_of(house.ask(method, path, body)) == (429, "throttled")
    house.access = Nobody()
    assert error_of(house.ask(method, path, body)) == (403, "denied")
    assert house.bench.controller.in_flight == 0


def test_probes_tell_process_node_and_quorum_apart() -> None:
    """Live is about the process, ready about this node, quorum about a proof by the majority; each says what fails."""
    house = House()
    assert [house.ask("GET", path)[0] for path in ("/livez", "/readyz", "/quorumz")] == [200, 200, 200]
    house.bench.engine.lose()
    answers = house.send("GET", "/quorumz")
    house.bench.after(3.0)
    assert answers[0].status == 503
    status, found = house.ask("GET", "/readyz")
    assert (status, found["checks"]["leader"], found["checks"]["log"]) == (503, False, True)
    assert found["message"] == "not so: leader"
    assert house.ask("GET", "/livez")[0] == 200
    house.alive = False
    assert house.ask("GET", "/livez")[0] == 503
    assert House(lead=False).ask("GET", "/readyz")[1]["checks"]["cluster"] is False


def test_a_node_that_has_not_caught_up_is_not_ready() -> None:
    """It knows a leader and serves its log, and what it would say is of long ago; ``status`` has the same word."""
    house = House()
    house.bench.engine.caught_up = False
    status, found = house.ask("GET", "/readyz")
    assert (status, found["message"]) == (503, "not so: caught up")
    told = house.get("/v1/status")
    assert (told["ready"], told["healthy"], told["sentence"]) == (False, False, "Node 1 is not ready; node 1 leads.")
    house.bench.engine.caught_up = True
    assert house.ask("GET", "/readyz")[0] == 200
    assert house.get("/v1/status")["ready"] is True


JAVA = {"address": "127.0.0.1:1", "group": "bench", "peer_id": "1"}
"""The labels that all of RocketMQ's metrics have."""


def scraped(house: House) -> tuple[set[str], dict[tuple[str, tuple[tuple[str, str], ...]], float]]:
    """Names of metrics, and samples by name and sorted labels, as a parser reads them."""
    (answer,) = house.send("GET", "/metrics")
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.body.decode()))
    samples = [sample for family in families for sample in family.samples]
    return {family.name for family in families}, {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples
    }


def test_metrics_tell_how_far_each_broker_is_behind_and_how_long_silent() -> None:
    """Behind its set's master, in bytes of its log. Of a broker that was never heard nothing is told."""
    house = House()
    lines = [Line(), Line(), Line()]
    house.bench.broker_set(lines)
    house.bench.done(ApplyBrokerId(cluster="c", broker_set="a", broker_id=4, register_check_code="h:4;1"))
    house.bench.beat(lines[0], 1, max_offset=5_000)
    house.bench.beat(lines[1], 2, max_offset=4_900)
    house.bench.world.run_until(house.bench.world.now + 2.0)
    house.bench.beat(lines[2], 3, max_offset=6_000)
    _, samples = scraped(house)

    def of(name: str) -> dict[str, float]:
        return {dict(labels)["broker_id"]: value for (metric, labels), value in samples.items() if metric == name}

    assert of("quorate_broker_lag_bytes") == {"1": 0, "2": 100, "3": 0}
    assert of("quorate_broker_silent_seconds") == {"1": 2.0, "2": 2.0, "3": 0.0}
    (without,) = house.send("GET", "/metrics?brokers=0")
    assert b"quorate_broker_lag_bytes" not in without.body
    assert b"active_broker_num" in without.body


def test_metrics_are_prometheus_text_with_both_vocabularies() -> None:
    """A parser reads them; ours in seconds, RocketMQ's eight by name with their common labels."""
    house = House()
    house.bench.broker_set([Line(), Line()])
    metrics = house.bench.metrics
    metrics.requests["CONTROLLER_REGISTER_BROKER", "success"] += 2
    metrics.request_us["CONTROLLER_REGISTER_BROKER"].observe(70)
    metrics.peer_errors['quo"ted\\name\n'] += 1
    metrics.fsync_us.observe(2 * SECOND)
    metrics.fsync_us.observe(20 * SECOND)
    metrics.kafka_requests[1, 11] += 3
    metrics.gauge("queue_length", "Waiting.", lambda: 5, queue="raft")
    families, samples = scraped(house)
    common = tuple(JAVA.items())
    assert samples["role", common] == 3
    assert samples["dledger_disk_usage", common] == 1000
    assert samples["active_broker_num", tuple(sorted((*common, ("cluster", "c"), ("broker_set", "a"))))] == 2
    for name in ("request", "dledger_op", "election", "request_latency", "dledger_op_latency"):
        assert name in families
    elected = {**dict(common), "cluster": "c", "broker_set": "a", "election_result": "new_master_elected"}
    assert samples["election_total", tuple(sorted(elected.items()))] == 1
    assert samples["quorate_heartbeats_total", ()] == 2
    assert any(dict(labels).get("listener") == 'quo"ted\\name\n' for _, labels in samples)
    assert samples["quorate_kafka_requests_total", (("api", "fetch"), ("version", "11"))] == 3
    assert samples["quorate_queue_length", (("queue", "raft"),)] == 5
    assert samples["quorate_journal_sync_seconds_bucket", (("le", "3"),)] == 1
    assert samples["quorate_journal_sync_seconds_bucket", (("le", "10"),)] == 1
    assert samples["quorate_journal_sync_seconds_bucket", (("le", "+Inf"),)] == 2
    assert samples["quorate_journal_sync_seconds_sum", ()] == 22
    assert samples["quorate_info", (("cluster_id", "bench"), ("node", "1"), ("version", "1.2.3"))] == 1
    assert samples["quorate_offset", ()] == house.bench.controller.offset
    latency = tuple(sorted((*common, ("le", "100"), ("request_type", "CONTROLLER_REGISTER_BROKER"))))
    assert samples["request_latency_bucket", latency] == 1
    assert len(LATENCY_BOUNDS_US) == 22


def test_an_alarm_can_be_set_on_clocks_and_on_epochs_nobody_believes() -> None:
    """How late the clock was beside the log, and who reports an epoch that no election would believe, are metrics; both
    are 0 where all is well.
    """
    house = House()
    house.bench.broker_set([Line(), Line()])

    def told(name: str) -> float:
        (answer,) = house.send("GET", "/metrics")
        return next(f for f in text_string_to_metric_families(answer.body.decode()) if f.name == name).samples[0].value

    assert (told("quorate_clock_behind_seconds"), told("quorate_epochs_not_believed")) == (0, 0)
    far = 2 + PolicySettings().max_epoch_jump
    house.bench.controller.heartbeat(Heartbeat("c", "a", 2, "127.0.0.1:30002", far, 0, 0, 10_000), Line())
    house.bench.loop.wall_skew_ms -= 7_000
    house.bench.done(PutTopic(topic="t", read_queues=4, write_queues=4, permission=6))
    assert (told("quorate_clock_behind_seconds"), told("quorate_epochs_not_believed")) == (7, 1)


def test_metrics_tell_of_followers_that_lost_what_they_had_acknowledged() -> None:
    """As often as the engine counted: an alarm is set on its increase (docs/operations.md)."""
    house = House()
    assert scraped(house)[1]["quorate_followers_that_lost_total", ()] == 0
    house.bench.engine.followers_that_lost = 2
    assert scraped(house)[1]["quorate_followers_that_lost_total", ()] == 2


def java(house: House, name: str, **labels: str) -> float:
    """The value of one of RocketMQ's metrics."""
    return scraped(house)[1][name, tuple(sorted((JAVA | labels).items()))]


def test_rocketmqs_metrics_say_what_happened() -> None:
    """A dead broker is not active, an election that found its master alive kept it, an entry that was not executed is
    a failed operation, and one whose end nobody saw in time a timeout; a follower says the same of its own part.
    """
    house, topic = House(), PutTopic(topic="t", read_queues=4, write_queues=4, permission=6)
    bench = house.bench
    bench.broker_set([Line(), Line(), Line()])
    dead = bench.controller.live.get("c", "a", 3)
    assert dead is not None
    bench.controller.live.mark_dead(dead, "heartbeat expired", bench.world.now)
    assert isinstance(bench.done(ElectMaster(cluster="c", broker_set="a", broker_id=2)), Refused)
    bench.submit(topic)
    bench.engine.lose(2)
    bench.engine.log[-1] = (Term(2), bench.engine.log[-1][1])  # Decided in term 1.
    bench.engine.commit()
    bench.open(3)
    for name in "uv":
        bench.submit(msgspec.structs.replace(topic, topic=name))
    bench.after(2.6)
    for role in (3, 2):
        assert java(house, "role") == role
        assert java(house, "active_broker_num", cluster="c", broker_set="a") == 2
        kept = {"cluster": "", "broker_set": "", "election_result": "keep_current_master"}
        elected = {"cluster": "c", "broker_set": "a", "election_result": "new_master_elected"}
        assert (java(house, "election_total", **kept), java(house, "election_total", **elected)) == (1, 1)
        ended = [
            java(house, "dledger_op_total", dledger_operation="append", dLedger_operation_status=status)
            for status in ("success", "failed", "timeout")
        ]
        assert ended == [bench.metrics.commits, 1, 2]
        bench.engine.lose(2)
    assert bench.metrics.commits == 10  # The cluster, two leaders, two for each broker, one election.


def test_a_step_of_a_scrape_looks_at_a_bounded_number_of_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be two lines for each of ten thousand sets, and as many names again of sets that are gone."""
    house, lines, steps = House(), list[str](), list[int]()
    house.bench.broker_set([Line()])
    sliced, label = in_slices, exposition.labelled

    def labelled(labels: exposition.Labels) -> str:
        lines.append(label(labels))
        return lines[-1]

    def noted(steps_: Steps[bytes], *where: Any) -> None:
        def counted() -> Steps[bytes]:
            while True:
                lines.clear()
                try:
                    waits = next(steps_)
                except StopIteration as end:
                    found: bytes = end.value
                    return found
                steps.append(len(lines))
                yield waits

        sliced(counted(), *where)

    monkeypatch.setattr(exposition, "labelled", labelled)
    monkeypatch.setattr(exposition, "in_slices", noted)
    scraped(house)
    few, most = len(steps), max(steps)
    elections = house.bench.metrics.elections
    for number in range(1000):
        elections["c", "a", f"result-{number:04d}"] = elections["c", f"gone-{number}", "x"] = 1
    steps.clear()
    _, samples = scraped(house)
    told = [dict(labels) for name, labels in samples if name == "election_total"]
    results = [one["election_result"] for one in told if one["broker_set"] == "a"]
    assert results == sorted(results) and len(results) == 1001
    assert (len(told), elections["", "", "x"]) == (1003, 1000)
    assert max(steps) <= max(most, exposition.SAMPLES_PER_STEP)
    assert len(steps) - few > 2000 / exposition.ELECTIONS_PER_STEP + 1000 / exposition.ELECTIONS_PER_STEP


def test_elections_of_sets_that_are_gone_are_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who registers sets under ever new names makes no line that stays, and no memory, whether it is scraped or not."""
    house = House()
    gone, elected = {"cluster": "", "broker_set": ""}, {"election_result": "new_master_elected"}
    house.bench.broker_set([Line()])
    assert java(house, "election_total", cluster="c", broker_set="a", **elected) == 1
    house.bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids=None, clean_living=True))
    assert java(house, "election_total", **gone, **elected) == 1
    assert not [
        name for name, labels in scraped(house)[1] if name == "election_total" and ("broker_set", "a") in labels
    ]
    counted = house.bench.metrics.elections
    counted["another cluster", "a", "no_master_elected"] += 1
    counted.update({("c", f"s{number}", "new_master_elected"): 1 for number in range(10)})
    monkeypatch.setattr("quorate.gateway.http.exposition.GONE_MAX", 10)
    house.bench.broker_set([Line()])
    assert counted == {
        ("", "", "new_master_elected"): 11,
        ("", "", "no_master_elected"): 1,
        ("c", "a", "new_master_elected"): 1,
    }


def test_rocketmqs_role_is_its_number() -> None:
    """Candidate while nobody leads, unknown while this node may not vote."""
    house = House()
    house.bench.engine.lose(None)
    assert java(house, "role") == 1
    house.bench.engine.voting = False  # type: ignore[attr-defined]
    assert java(house, "role") == 0


def test_the_description_matches_the_table() -> None:
    """Every documented call is there, every reference resolves, and the answers' fields are described."""
    house = House()
    found = house.get("/openapi.json")
    calls = {(method, path) for path, methods in found["paths"].items() for method in methods}
    assert {("get", "/v1/status"), ("put", "/v1/config/{scope}"), ("post", "/v1/elections"), ("get", "/livez")} <= calls
    text = json.dumps(found)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(found["components"]["schemas"])
    assert "sentence" in found["components"]["schemas"]["Status"]["properties"]
    scope = found["paths"]["/v1/config/{scope}"]["put"]["parameters"][0]
    assert (scope["name"], scope["in"]) == ("scope", "path")


def test_patterns_match_whole_paths() -> None:
    """A name takes one segment, a last name with dots takes the rest, nothing else matches."""
    assert match(("a", "{b}"), ("a", "x")) == {"b": "x"}
    assert match(("a", "{b}"), ("a", "x", "y")) is None
    assert match(("a", "{b...}"), ("a", "x", "y")) == {"b": "x/y"}
    assert match(("a", "{b...}"), ("a",)) is None
    assert match(("a",), ("b",)) is None


REGISTRY_CASES = [
    ("/subjects/the.topic-value/versions/latest", 200, {"id": len(SCHEMAS), "version": len(SCHEMAS)}),
    ("/subjects/quorate.events.MasterElected/versions/1", 200, {"version": 1}),
    ("/subjects/the.topic-value/versions/9999/referencedby", 404, {"error_code": 40402}),
    ("/subjects/nope/versions", 404, {"error_code": 40401}),
    ("/subjects/nope/versions/1", 404, {"error_code": 40401}),
    ("/subjects/the.topic-value/versions/9999", 404, {"error_code": 40402}),
    ("/subjects/the.topic-value/versions/x", 422, {"error_code": 42202}),
    ("/subjects/the.topic-value/versions/0", 422, {"error_code": 42202}),
    ("/schemas/ids/9999", 404, {"error_code": 40403}),
    ("/schemas/ids/x", 404, {"error_code": 40403}),
    ("/schemas/ids/9999/schema", 404, {"error_code": 40403}),
    ("/schemas/ids/9999/versions", 404, {"error_code": 40403}),
    ("/associations/resources/-/the.topic", 404, {"error_code": 404}),
    ("/subjects/the.topic-value/metadata", 404, {"error_code": 404}),
    ("/config", 200, {"compatibilityLevel": "BACKWARD"}),
    ("/config/the.topic-value", 200, {"compatibilityLevel": "FULL_TRANSITIVE"}),
    ("/config/nope", 404, {"error_code": 40408}),
    ("/mode", 200, {"mode": "READWRITE"}),
    ("/mode/the.topic-value", 200, {"mode": "READONLY"}),
]


@pytest.mark.parametrize(("path", "status", "part"), REGISTRY_CASES)
def test_the_registry_answers_as_confluents(path: str, status: int, part: dict[str, Any]) -> None:
    """Status, error code and content type are those stock clients look at."""
    house = House()
    answers = house.send("GET", path)
    house.bench.settle()
    (answer,) = answers
    found = json.loads(answer.body)
    assert answer.status == status
    assert answer.content_type == "application/vnd.schemaregistry.v1+json"
    assert {name: found[name] for name in part} == part


def test_every_schema_is_served_by_its_id() -> None:
    """The text is the one the events were generated from, and each id is found under both its subjects."""
    house = House()
    for schema_id, text in SCHEMAS.items():
        (answer,) = house.send("GET", f"/schemas/ids/{schema_id}")
        assert json.loads(answer.body) == {"schema": text}
        (bare,) = house.send("GET", f"/schemas/ids/{schema_id}/schema")
        assert bare.body.decode() == text
        name = json.loads(text)["name"]
        (uses,) = house.send("GET", f"/schemas/ids/{schema_id}/versions")
        found = {use["subject"]: use["version"] for use in json.loads(uses.body)}
        assert found["the.topic-value"] == schema_id
        assert f"quorate.events.{name}" in found
    assert len(house.get("/subjects")) == 1 + len({json.loads(t)["name"] for t in SCHEMAS.values()})
    (types,) = house.send("GET", "/schemas/types")
    assert json.loads(types.body) == ["AVRO"]


def test_versions_of_an_event_count_from_1_in_id_order() -> None:
    """A second schema of an event is its version 2, and the latest."""
    text = '{"type":"record","name":"%s","fields":[]}'
    registry = Registry({1: text % "A", 2: text % "B", 3: text % "A"}, "t")
    assert registry._subjects["quorate.events.A"] == {1: 1, 2: 3}
    assert registry._find("quorate.events.A", "latest") == (2, 3)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/subjects/{}/versions", "/subjects/{}", "/config/{}", "/mode"])
def test_the_log_s_own_subjects_cannot_be_changed(method: str, path: str) -> None:
    """422 with Confluent's read-only code; but POST to a subject only looks a schema up (test_registry.py)."""
    if (method, path) == ("POST", "/subjects/{}"):
        method = "DELETE"
    body = b'{"schema": "\\"int\\""}'
    (answer,) = House().send(method, path.format("the.topic-value"), body)
    assert (answer.status, json.loads(answer.body)["error_code"]) == (422, 42205)
