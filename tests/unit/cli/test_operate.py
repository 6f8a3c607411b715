"""Operator commands against a node that says what the test wants."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.cli import log, program
from quorate.gateway.http.answers import (
    AnnouncedBroker,
    BrokerCounts,
    BrokerSetItem,
    BrokerSets,
    BrokerTopics,
    ConfigItem,
    Configs,
    DataVersion,
    Done,
    ElectionAnswer,
    ElectionEvent,
    ElectionItem,
    Elections,
    Feature,
    LastElection,
    Log,
    LogEvent,
    NodeLevels,
    Quorum,
    QuorumMember,
    ReplicaAnswer,
    SettingItem,
    Settings,
    StateHash,
    Status,
    TopicItem,
    Topics,
)
from quorate.metadata.commands import Accepted
from tests.clusters import QUORATE
from tests.unit.cli.served import Served, serving
from tests.unit.cli.stories import elected, leads

AT: dict[str, Any] = {"offset": 9, "time_ms": 5, "node": 1}


@pytest.fixture
def node() -> Iterator[Served]:
    with serving() as served:
        yield served


def run(node: Served, *words: str) -> int:
    return program.main([*words, "--node", node.address])


def a_status(*, healthy: bool) -> Status:
    return Status(
        **AT, sentence="All is well.", healthy=healthy, cluster_id="c", version="1", role="leader", leader=1, term=3,
        voters=3, voters_connected=3, feature_level=1, topics=2, ready=True,
        brokers=BrokerCounts(sets=1, without_master=0, replicas=2, alive=2),
        python="CPython 3.11.7, optimised", leaf="native", journal_sync="kernel",
    )  # fmt: skip


@pytest.mark.parametrize(("healthy", "code"), [(True, 0), (False, 1)])
def test_status_says_one_sentence_and_exits_by_health(
    node: Served, capsys: pytest.CaptureFixture[str], healthy: bool, code: int
) -> None:
    """A script sees the health, a person the sentence."""
    node.answers["/v1/status"] = a_status(healthy=healthy)
    assert run(node, "status") == code
    assert capsys.readouterr().out.startswith("All is well.\n")
    assert run(node, "status", "-o", "json") == code
    assert json.loads(capsys.readouterr().out)["healthy"] is healthy


def test_status_names_what_the_node_runs_on(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Interpreter, leaf, and who syncs; an older node, which tells nothing of it, has no such lines."""
    told = a_status(healthy=True)
    node.answers["/v1/status"] = told
    assert run(node, "status") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "runs on       CPython 3.11.7, optimised; leaf native" in lines
    assert "journal       synced by the kernel" in lines
    node.answers["/v1/status"] = msgspec.structs.replace(told, journal_sync="thread")
    assert run(node, "status") == 0
    assert "journal       synced by a thread" in capsys.readouterr().out.splitlines()
    node.answers["/v1/status"] = msgspec.structs.replace(told, python="", leaf="", journal_sync=None)
    assert run(node, "status") == 0
    assert not {"runs", "journal"} & {line.split(" ")[0] for line in capsys.readouterr().out.splitlines()}


def test_status_of_the_past_has_no_rows_of_what_is_not_known_of_it(
    node: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither what the node runs on today, nor who was reached or alive; how many there were is in the log."""
    told = a_status(healthy=True)
    node.answers["/v1/status"] = msgspec.structs.replace(
        told, past=True, role=None, voters_connected=None, ready=None, alarms=None, overruled=None, journal_sync=None,
        election_timeout_ms=None, brokers=msgspec.structs.replace(told.brokers, alive=None),
    )  # fmt: skip
    assert run(node, "at", "9", "status") == 0
    out = capsys.readouterr().out
    assert "?" not in out
    rows = dict(re.split(r" {2,}", line) for line in out.splitlines()[2:])
    assert not rows.keys() & {"runs on", "journal", "role", "elections", "alarm", "settings"}
    assert (rows["voters"], rows["brokers"]) == ("3", "2")


def test_status_counts_what_there_is(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Subjects beside schemas, wills beside sessions, also where only these are left; of nothing there is no row."""
    counted: tuple[tuple[dict[str, int], list[str]], ...] = (
        ({"schemas": 2, "subjects": 3, "sessions": 4, "wills": 1}, ["2, 3 subjects", "4, 1 wills"]),
        ({"subjects": 1, "wills": 1}, ["0, 1 subjects", "0, 1 wills"]),
        ({}, []),
    )
    for counts, rows in counted:
        node.answers["/v1/status"] = msgspec.structs.replace(a_status(healthy=True), **counts)
        assert run(node, "status") == 0
        lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
        assert [said for name, said in lines if name in {"schemas", "sessions"}] == rows


def test_status_has_a_row_for_each_alarm(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """In the words of the node, in its order; without an alarm there is no such row, nor of the past."""
    told = ["node 2 stopped: its state was wrong at index 7: a reason", "node 3 lost entries"]
    for alarms, rows in ((told, told), ([], []), (None, [])):
        node.answers["/v1/status"] = msgspec.structs.replace(a_status(healthy=False), alarms=alarms)
        assert run(node, "status") == 1
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line.startswith("alarm")] == [f"{'alarm':<12}  {row}" for row in rows]


def test_config_shows_what_is_in_force_and_whence(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Every setting with its source, and what the log says beside; an older build tells the log's alone."""
    held = [
        SettingItem(name="engine.tick_s", value="0.05", source="default"),
        SettingItem(name="log.level", value="debug", source="environment QUORATE_LOG__LEVEL"),
    ]
    node.answers["/v1/settings"] = Settings(**AT, settings=held)
    logged = [ConfigItem(scope="broker-set/a", values={"learners": "2"})]
    node.answers["/v1/config"] = Configs(**AT, config=logged, next=None)
    assert run(node, "config") == 0
    assert [re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines()] == [
        ["setting", "value", "from"],
        ["engine.tick_s", "0.05", "default"],
        ["log.level", "debug", "environment QUORATE_LOG__LEVEL"],
        ["broker-set/a learners", "2", "log, scope broker-set/a"],
    ]
    assert run(node, "config", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)[0] == msgspec.to_builtins(held[0])
    assert run(node, "config", "--at", "5") == 0
    assert capsys.readouterr().out.startswith("scope")
    del node.answers["/v1/settings"]
    assert run(node, "config") == 0
    assert "broker-set/a  learners  2" in capsys.readouterr().out
    node.answers["/v1/settings"] = (503, b'{"error":{"code":"unavailable","message":"no leader"}}')
    assert run(node, "config") == 1


@pytest.mark.parametrize(
    ("scope", "change", "told"),
    [
        ("cluster", "foo=bar", "nothing reads foo in cluster; there it is controller.group_rows_max, "),
        ("broker-set/a", "learner=2", "nothing reads learner in broker-set/a; there it is enableElectUncleanMaster, "),
        ("topic/t", "retention=1", "nothing reads retention in topic/t. --unread records it all the same"),
    ],
)
def test_a_setting_that_nothing_reads_is_refused(
    node: Served, capsys: pytest.CaptureFixture[str], scope: str, change: str, told: str
) -> None:
    """A sentence with what is read there, status 2, and nothing is sent; unset, or recorded as a note, it may be."""
    node.answers[f"/v1/config/{scope}"] = lambda _: (
        Done(**AT, repeated=False, reply=Accepted())
        if node.asked[-1][0] == "PUT"
        else {**AT, "config": {"scope": scope, "values": {}}}
    )
    assert run(node, "config", scope, change) == 2
    assert told in capsys.readouterr().err
    assert not node.asked
    assert run(node, "config", scope, change, "--unread") == 0
    assert run(node, "config", scope, change.partition("=")[0] + "=") == 0
    assert [asked[0] for asked in node.asked].count("PUT") == 2


def test_a_dead_controller_is_not_well(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The cluster serves, and yet somebody must look: status 1. What is not known of the past is no trouble."""
    for connected, code in ((2, 1), (3, 0), (None, 0)):
        node.answers["/v1/status"] = msgspec.structs.replace(a_status(healthy=True), voters_connected=connected)
        assert run(node, "status") == code
    assert capsys.readouterr().err == ""


def test_a_node_that_is_not_there_is_named(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """No answer is status 1 with the address; an address that is none is status 2."""
    assert program.main(["status", "--node", "127.0.0.1:1"]) == 1
    assert "node 127.0.0.1:1: " in capsys.readouterr().err


@pytest.mark.parametrize("address", ["here", "127.0.0.1:²", "127.0.0.1:99999", "127.0.0.1:0", "a..b:9873"])
def test_an_address_that_can_be_nobody_s_is_used_wrongly(capsys: pytest.CaptureFixture[str], address: str) -> None:
    """What is no host and no port is told by the flag, with status 2."""
    assert program.main(["status", "--node", address]) == 2
    assert f"--node {address}: " in capsys.readouterr().err


@pytest.mark.parametrize("address", ["http://127.0.0.1:41003", "http://127.0.0.1:41003/v1", "https://h:1"])
def test_an_address_has_no_scheme(capsys: pytest.CaptureFixture[str], address: str) -> None:
    """What a browser is given is told apart from a host that is not found."""
    assert program.main(["status", "--node", address]) == 2
    told = f"--node {address}: expected HOST:PORT, without {address.partition(':')[0]}://\n"
    assert capsys.readouterr().err.endswith(told)


def test_any_address_can_be_the_default(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The help shows what QUORATE_NODE says, a zone's percent sign included."""
    monkeypatch.setenv("QUORATE_NODE", "[fe80::1%eth0]:9873")
    with pytest.raises(SystemExit) as ended:
        program.main(["status", "--help"])
    assert ended.value.code == 0
    assert "[fe80::1%eth0]:9873" in "".join(capsys.readouterr().out.split())


def test_an_output_that_takes_nothing_is_said_once(node: Served) -> None:
    """A full disk behind stdout is one sentence and status 1, not a traceback."""
    node.answers["/v1/status"] = a_status(healthy=True)
    node.answers["/v1/log"] = a_log
    for words in (["status"], ["log", "dump", "-o", "json"]):
        with Path("/dev/full").open("w") as full:
            ended = subprocess.run(
                [*QUORATE, *words, "--node", node.address], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert (ended.returncode, ended.stderr) == (1, "quorate: no space left on device\n")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((503, b'{"error":{"code":"unavailable","message":"no leader"}}'), "no leader"),
        ((500, b"oops"), "500"),
        ((200, b'{"offset":"x"}'), "200"),
    ],
)
def test_an_error_of_the_node_is_told_in_its_words(
    node: Served, capsys: pytest.CaptureFixture[str], answer: tuple[int, bytes], told: str
) -> None:
    """What the node answers, or cannot answer, ends with status 1 and a reason."""
    node.answers["/v1/status"] = answer
    assert run(node, "status") == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(("reason", "code"), [("", 2), ("InvalidConfigScope", 1)])
def test_what_the_node_calls_wrongly_asked_is_used_wrongly(
    node: Served, capsys: pytest.CaptureFixture[str], reason: str, code: int
) -> None:
    """A question that cannot be is status 2, whoever notices; what the rules refuse (they have a name) is status 1."""
    error = {"code": "invalid", "message": "at: -1 is out of range", "reason": reason}
    node.answers["/v1/status"] = (400, json.dumps({"error": error}).encode())
    assert run(node, "at", "-1", "status") == code
    assert capsys.readouterr().err.endswith("quorate: at: -1 is out of range\n")


def a_quorum(leader: int | None, connected: int) -> Quorum:
    addresses = dict.fromkeys(("rpc", "raft", "kafka", "http"), "h:1")
    role = "candidate" if leader is None else "leader" if leader == AT["node"] else "follower"
    voters = [
        QuorumMember(
            id=n, leader=n == leader, connected=n <= connected, version="1", started_ms=0, dir_uuid="", **addresses
        )
        for n in (1, 2, 3)
    ]
    return Quorum(
        **AT, cluster_id="c", leader=leader, term=3, role=role, voting=True, commit_index=1, applied_index=1,
        leader_since_ms=0, leader_cause="silent", voters=voters,
    )  # fmt: skip


@pytest.mark.parametrize(("leader", "connected", "code"), [(1, 3, 0), (1, 2, 0), (1, 1, 1), (None, 3, 1)])
def test_quorum_needs_a_leader_and_a_majority(node: Served, leader: int | None, connected: int, code: int) -> None:
    """Without either the exit status is 1."""
    node.answers["/v1/quorum"] = a_quorum(leader, connected)
    assert run(node, "quorum") == code


def a_set(name: str, master: int | None) -> BrokerSetItem:
    replica = ReplicaAnswer(
        broker_id=1, address="h:1", registered=True, fenced=False, in_sync=True, alive=None, last_heartbeat_ms=None,
        epoch=None, max_offset=None, confirm_offset=None, priority=None,
    )  # fmt: skip
    return BrokerSetItem(
        broker_set=name, cluster="c", master=master, master_address=None, master_epoch=1, sync_state_set=(1,),
        sync_state_set_epoch=1, replicas=[replica], election=None,
    )  # fmt: skip


def test_brokers_are_read_page_by_page(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Every page is asked for by the name the one before ended with; one set can be picked."""
    pages = {
        None: BrokerSets(**AT, brokers=[a_set("a", 1)], next="a"),
        "a": BrokerSets(**AT, brokers=[a_set("b", 1)], next=None),
    }
    node.answers["/v1/brokers"] = lambda query: pages[query.get("after")]
    assert run(node, "brokers", "-o", "json") == 0
    assert [item["broker_set"] for item in json.loads(capsys.readouterr().out)] == ["a", "b"]
    assert run(node, "brokers", "b", "--stale") == 0
    assert "unheard" in capsys.readouterr().out
    assert node.asked[-1][2]["level"] == "stale"
    assert run(node, "brokers", "zzz") == 1


def test_the_topics_of_a_set_are_those_its_brokers_told_the_node(
    node: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """With who said so and in which version; where nobody did, that is told. They are of one set."""
    node.answers["/v1/brokers"] = BrokerSets(**AT, brokers=[a_set("a", 1)], next=None)
    version = DataVersion(state_version=2, timestamp_ms=77, counter=5)
    broker = AnnouncedBroker(broker_id=0, address="h:1", ha_address="h:2", silent_for_ms=30, version=version)
    topic = TopicItem(
        topic="orders", read_queues=8, write_queues=8, permission=6, filter_type="SINGLE_TAG", system_flags=0,
        order=True, attributes={"message.type": "FIFO"},
    )  # fmt: skip
    told = BrokerTopics(
        **AT, broker_set="a", source="brokers", names=["orders"], brokers=[broker], version=version, topics=[topic],
        next=None,
    )  # fmt: skip
    node.answers["/v1/brokers/a/topics"] = told
    assert run(node, "brokers", "a", "--topics") == 0
    said = capsys.readouterr()
    assert "0 at h:1: heard 30 ms ago" in said.err
    assert "data version: state 2, 77, counter 5" in said.err
    assert "message.type=FIFO" in said.out
    assert run(node, "brokers", "--topics") == 2


def test_topics_that_brokers_told_another_node_are_asked_of_it(
    node: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """The leader first. Where no node was told, or none answers, the names of the log are shown, and whose they are; or
    that there are none.
    """
    node.answers["/v1/brokers"] = BrokerSets(**AT, brokers=[a_set("a", 1)], next=None)
    of_log = BrokerTopics(
        **AT, broker_set="a", source="log", names=["bills", "orders"], brokers=[], version=None, topics=[], next=None
    )
    node.answers["/v1/brokers/a/topics"] = of_log
    with serving() as other:
        quorum = a_quorum(3, 3)
        places = (node.address, node.address, other.address)
        voters = [msgspec.structs.replace(one, http=http) for one, http in zip(quorum.voters, places, strict=True)]
        node.answers["/v1/quorum"] = msgspec.structs.replace(quorum, voters=voters)
        other.answers["/v1/brokers/a/topics"] = of_log
        assert run(node, "brokers", "a", "--topics") == 0
        said = capsys.readouterr()
        assert said.out.splitlines() == ["bills", "orders"]
        assert "these are the names they registered with" in said.err
        node.answers["/v1/brokers/a/topics"] = msgspec.structs.replace(of_log, names=[])
        other.answers["/v1/brokers/a/topics"] = msgspec.structs.replace(of_log, names=[])
        assert run(node, "brokers", "a", "--topics") == 0
        said = capsys.readouterr()
        assert (said.out, said.err.splitlines()) == (
            "",
            ["no broker of it has told this node its topics: none registered with topics either"],
        )
        version = DataVersion(state_version=2, timestamp_ms=77, counter=5)
        told = msgspec.structs.replace(of_log, node=3, source="brokers", version=version)
        other.answers["/v1/brokers/a/topics"] = told
        assert run(node, "brokers", "a", "--topics", "-o", "json") == 0
        said = capsys.readouterr()
        assert json.loads(said.out)[0]["node"] == 3
        assert "brokers told node 3, not node 1" in said.err
        asked = len(other.asked)
        assert run(node, "brokers", "a", "--topics", "--at", "5") == 0
        assert (len(other.asked), node.asked[-1][2]["at"]) == (asked, "5")


def test_a_broker_shows_what_it_said_of_itself(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Its capabilities."""
    found = a_set("a", 1)
    replica = msgspec.structs.replace(found.replicas[0], capabilities={"rack": "r1"})
    node.answers["/v1/brokers"] = BrokerSets(
        **AT, brokers=[msgspec.structs.replace(found, replicas=[replica])], next=None
    )
    assert run(node, "brokers") == 0
    assert "rack=r1" in capsys.readouterr().out


def test_a_set_without_a_master_is_not_well(node: Served) -> None:
    """``brokers`` exits 1 while a set with members has no master."""
    node.answers["/v1/brokers"] = BrokerSets(**AT, brokers=[a_set("a", None)], next=None)
    assert run(node, "brokers") == 1


def test_why_finds_the_latest_election_of_a_set(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The list gives the offset, the offset gives the candidates; another set's offset is refused."""
    last = LastElection(offset=7, time_ms=1, trigger="t", decided_by="d", explanation="e", acknowledged=True)
    item = ElectionItem(broker_set="broker-a", cluster="c", master=2, master_epoch=5, election=last)
    node.answers["/v1/elections"] = Elections(**AT, elections=[item], next=None)
    event = ElectionEvent(offset=7, term=1, time_ms=1, principal="", cause="", event=elected(2, 5, 1))
    node.answers["/v1/elections/7"] = ElectionAnswer(**AT, election=event)
    assert run(node, "why", "broker-a") == 0
    assert "out: it is the master that was lost" in capsys.readouterr().out
    assert run(node, "why", "broker-b") == 1
    assert run(node, "why", "broker-b", "--offset", "7") == 1
    assert "was of broker set broker-a" in capsys.readouterr().err


def test_config_sends_what_is_to_change(node: Served) -> None:
    """NAME=VALUE sets, NAME= unsets, in one request to the scope's own path."""
    done = {**AT, "repeated": False, "reply": {"type": "Accepted"}}
    shown = {**AT, "config": {"scope": "broker-set/a b", "values": {"x": "1"}}}
    node.answers["/v1/config/broker-set/a%20b"] = lambda _: done if node.asked[-1][0] == "PUT" else shown
    assert run(node, "config", "broker-set/a b", "x=1", "y=", "--unread") == 0
    assert json.loads(node.asked[0][3]) == {"changes": {"x": "1", "y": None}, "unread": True}
    assert run(node, "config", "cluster", "nonsense") == 2


def test_the_feature_level_is_shown_and_raised(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """``raise`` alone takes the highest level that every voter knows, and says so of one that is in force already;
    ``show`` takes no level, the past none at all.
    """
    done = {**AT, "repeated": False, "reply": {"type": "Accepted"}}
    knows = [NodeLevels(id=1, feature_min=1, feature_max=3), NodeLevels(id=2, feature_min=None, feature_max=None)]
    shown = Feature(**AT, level=1, highest=2, nodes=knows)
    node.answers["/v1/feature"] = lambda _: done if node.asked[-1][0] == "PUT" else shown
    assert run(node, "feature") == 0
    said = capsys.readouterr().out
    assert "feature level 1; every voter knows 2" in said
    assert "1 to 3" in said
    assert "never started" in said
    assert run(node, "feature", "raise") == 0
    assert capsys.readouterr().err == "committed; level 2 from offset 9\n"
    assert [json.loads(asked[3]) for asked in node.asked if asked[0] == "PUT"] == [{"level": 2}]
    assert run(node, "feature", "raise", "3") == 0
    assert json.loads([asked[3] for asked in node.asked if asked[0] == "PUT"][-1]) == {"level": 3}
    assert run(node, "feature", "raise", "1") == 0
    assert capsys.readouterr().err.endswith("\nlevel 1 is in force already\n")
    assert run(node, "feature", "show", "3") == 2
    assert run(node, "feature", "raise", "--at", "5") == 2


def hashes(node: int, rows: str, whole: str, *, offset: int = 9, index: int = 12) -> StateHash:
    """What a node says its state adds up to."""
    return StateHash(**{**AT, "node": node, "offset": offset}, index=index, hash=whole, rows=rows, feature_level=1)


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([("aa", "xx", 9, 12), ("aa", "xx", 9, 12)], ""),
        ([("bb", "yy", 9, 12), ("aa", "xx", 9, 12)], "nodes differ at offset 9: 1, 3 and 2\n"),
        ([("bb", "yy", 10, 13), ("aa", "zz", 9, 14)], ""),
        ([("aa", "xx", 9, 12), ("aa", "zz", 9, 12)], "nodes differ at index 12: 1, 2 and 3\n"),
    ],
)
def test_state_hash_asks_all_nodes_and_says_who_differs(
    node: Served, others: list[tuple[str, str, int, int]], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entities are compared at equal offset, the whole at equal index; a difference exits 1 and names both sides."""
    answers = iter(
        [
            hashes(1, "aa", "xx"),
            *(hashes(n, rows, whole, offset=o, index=i) for n, (rows, whole, o, i) in enumerate(others, start=2)),
        ]
    )
    node.answers["/v1/state-hash"] = lambda _: next(answers)
    node.answers["/v1/quorum"] = json_of(a_quorum(1, 3), node.address)
    assert run(node, "state-hash") == bool(told)
    said = capsys.readouterr()
    assert told in said.err
    assert "agree at offset 9" in said.out
    assert [asked[2] for asked in node.asked if asked[1] == "/v1/state-hash"] == [{}, *[{"min_offset": "9"}] * 2]


def test_state_hash_of_one_node_asks_nobody_else(node: Served) -> None:
    """``--only``, also where the others could be asked."""
    node.answers["/v1/state-hash"] = hashes(1, "aa", "xx")
    assert run(node, "state-hash", "--only") == 0
    assert [asked[1] for asked in node.asked] == ["/v1/state-hash"]


def test_a_node_that_cannot_be_asked_is_named_and_not_counted(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are compared; silence is no difference."""
    quorum = json_of(a_quorum(1, 3), node.address)
    quorum["voters"][1]["http"] = "127.0.0.1:1"
    node.answers["/v1/quorum"] = quorum
    node.answers["/v1/state-hash"] = lambda query: hashes(3 if query else 1, "aa", "xx")
    assert run(node, "state-hash") == 0
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("node 2")]
    assert told.startswith("node 2 is not compared: node 127.0.0.1:1: ")
    assert "no node answers" not in told


def test_where_no_two_nodes_are_compared_that_is_said(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 1, whether the others are silent or elsewhere in the log; the only node of a cluster is well."""
    node.answers["/v1/quorum"] = json_of(a_quorum(1, 3), node.address)
    offsets = iter((9, 10, 11, 12, 13))
    for answer in (
        lambda query: hashes(1, "aa", "xx") if not query else (503, b"{}"),
        lambda _: hashes(1, "aa", "xx", offset=next(offsets)),
    ):
        node.answers["/v1/state-hash"] = answer
        assert run(node, "state-hash") == 1
        said = capsys.readouterr()
        assert "nothing was compared" in said.err
        assert "node 1 alone is at offset 9: not compared" in said.out
    alone = json_of(a_quorum(1, 1), node.address)
    del alone["voters"][1:]
    node.answers |= {"/v1/quorum": alone, "/v1/state-hash": hashes(1, "aa", "xx")}
    assert run(node, "state-hash") == 0


def test_on_a_busy_cluster_the_others_are_asked_for_the_first_one_s_offset(
    node: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each was further than the one before: what it was is compared."""
    node.answers["/v1/quorum"] = json_of(a_quorum(1, 3), node.address)
    now, then = iter(((1, 9), (2, 10), (3, 11))), iter(((2, "aa"), (3, "bb")))

    def answer(query: dict[str, str]) -> StateHash:
        if "at" in query:
            assert query == {"at": "9"}
            number, rows = next(then)
            return hashes(number, rows, "xx", offset=9)
        number, offset = next(now)
        return hashes(number, "aa", "xx", offset=offset, index=offset)

    node.answers["/v1/state-hash"] = answer
    assert run(node, "state-hash") == 1
    assert "nodes differ at offset 9: 1, 2 and 3\n" in capsys.readouterr().err


def json_of(quorum: Quorum, address: str) -> dict[str, Any]:
    """The quorum with every voter at one address."""
    tree: dict[str, Any] = msgspec.to_builtins(quorum)
    for voter in tree["voters"]:
        voter["http"] = address
    return tree


def a_log(query: dict[str, str], end: int = 12) -> Log:
    """So many facts."""
    start, limit = int(query["from"]), int(query["limit"])
    stamp: dict[str, Any] = {
        "term": 1,
        "type": "ControllerLeaderElected",
        "key": "k",
        "principal": "p",
        "cause": "",
        "request_id": "",
    }
    events = [LogEvent(offset=n, time_ms=n, event=leads(1), **stamp) for n in range(start, min(start + limit, end))]
    return Log(**AT, events=events, end_offset=end, next=None)


def test_the_log_is_printed_from_to_and_by_its_end(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """``dump`` prints exactly the piece that was asked for, ``tail`` the latest."""
    node.answers["/v1/log"] = a_log
    assert run(node, "log", "dump", "--from", "3", "--to", "6", "-o", "json") == 0
    assert [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()] == [3, 4, 5]
    assert run(node, "log", "tail", "-n", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines] == [10, 11]
    assert "node 1 leads the controllers" in lines[0]
    assert run(node, "log", "dump", "--from", "3", "--to", "2") == 2
    assert run(node, "log", "tail", "-n", "-5") == 2
    assert run(node, "log", "dump", "--to", "1", "-o", "yaml") == 0
    assert capsys.readouterr().out.startswith("---\noffset: 0\n")


def shown(node: Served, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, list[list[str]]]:
    """What a command shows as JSON, and the cells of its table (two blanks are between them)."""
    assert run(node, *words, "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert run(node, *words) == 0
    return told, [re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines()]


def test_the_quorum_is_shown_voter_by_voter(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Each voter has a row: who leads, who is reachable, and every address; JSON is the node's whole answer."""
    answer = node.answers["/v1/quorum"] = a_quorum(2, 2)
    told, table = shown(node, capsys, "quorum")
    assert told == msgspec.to_builtins(answer)
    assert table == [
        ["node", "role", "reachable", "rpc", "raft", "kafka", "http", "version"],
        ["1", "follower", "yes", "h:1", "h:1", "h:1", "h:1", "1"],
        ["2", "leader", "yes", "h:1", "h:1", "h:1", "h:1", "1"],
        ["3", "follower", "no", "h:1", "h:1", "h:1", "h:1", "1"],
    ]


@pytest.mark.parametrize(
    ("role", "shown"),
    [("candidate", "candidate"), ("not voting", "not voting"), ("leader", "leader"), (None, "follower")],
)
def test_the_role_of_the_node_that_answers_is_the_one_it_told(
    node: Served, capsys: pytest.CaptureFixture[str], role: str | None, shown: str
) -> None:
    """As in JSON and in ``status``; of the past it is not told."""
    node.answers["/v1/quorum"] = msgspec.structs.replace(a_quorum(None, 3), role=role)
    assert run(node, "quorum") == 1
    rows = [re.split(r" {2,}", line)[:2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [["1", shown], ["2", "follower"], ["3", "follower"]]


def a_topic(name: str, **attributes: str) -> TopicItem:
    return TopicItem(
        topic=name, read_queues=4, write_queues=8, permission=6, filter_type="SINGLE_TAG", system_flags=0, order=False,
        attributes=attributes,
    )  # fmt: skip


def test_topics_are_shown_by_name(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Every page's topics, each with its name and settings."""
    pages = {
        None: Topics(**AT, topics=[a_topic("orders", a="1", b="2")], next="orders"),
        "orders": Topics(**AT, topics=[a_topic("payments")], next=None),
    }
    node.answers["/v1/topics"] = lambda query: pages[query.get("after")]
    told, table = shown(node, capsys, "topics")
    assert told == [msgspec.to_builtins(item) for page in pages.values() for item in page.topics]
    assert table == [
        ["topic", "read", "write", "permission", "order", "attributes"],
        ["orders", "4", "8", "6", "no", "a=1,b=2"],
        ["payments", "4", "8", "6", "no", "-"],
    ]


def test_the_latest_elections_are_shown_with_their_reasons(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Each set's latest election: where in the log, who won, by which rule, and why."""
    last = LastElection(offset=7, time_ms=1, trigger="t", decided_by="d", explanation="It was fit.", acknowledged=True)
    items = [
        ElectionItem(broker_set=name, cluster="c", master=master, master_epoch=5, election=last)
        for name, master in (("broker-a", 2), ("broker-b", None))
    ]
    pages = {
        None: Elections(**AT, elections=items[:1], next="broker-a"),
        "broker-a": Elections(**AT, elections=items[1:], next=None),
    }
    node.answers["/v1/elections"] = lambda query: pages[query.get("after")]
    told, table = shown(node, capsys, "elections")
    assert told == [msgspec.to_builtins(item) for item in items]
    assert table == [
        ["set", "offset", "master", "epoch", "decided by", "why"],
        ["broker-a", "7", "2", "5", "d", "It was fit."],
        ["broker-b", "7", "-", "5", "d", "It was fit."],
    ]


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_followed_log_tells_what_comes_until_it_is_interrupted(
    node: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    """``tail -f`` shows the latest, and each event written after it began, once; Ctrl-C ends it with status 0."""
    end, waits = 12, 0
    node.answers["/v1/log"] = lambda query: a_log(query, end)

    def wait(seconds: float) -> None:
        """The log grows by two events each time; at last somebody has seen enough."""
        nonlocal end, waits
        assert seconds == log.FOLLOW_S
        end, waits = end + 2, waits + 1
        if waits == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("quorate.cli.log.time.sleep", wait)
    assert run(node, "log", "tail", "-f", "-n", "1", "-o", output) == 0
    lines = capsys.readouterr().out.splitlines()
    offsets = [json.loads(line)["offset"] if output == "json" else int(line.split()[0]) for line in lines]
    assert offsets == [11, 12, 13, 14, 15]
