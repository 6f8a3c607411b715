"""How fresh, and of when: the arguments of every read command, ``at`` and ``diff``."""

import json
import re
from argparse import ArgumentParser, _SubParsersAction
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from quorate.cli import program
from quorate.cli.facts import clock
from quorate.cli.travel import READS
from quorate.events import TopicDeleted
from quorate.gateway.http.answers import Diff, Feature, Log, LogEvent, StateHash, Topics
from quorate.metadata.commands import FenceBroker, OpenSession, PutTopic
from quorate.model.diff import Change, changes
from quorate.model.state import EMPTY
from quorate.slices import finished
from tests.unit.cli.served import Served, serving
from tests.unit.metadata.kit import World
from tests.unit.metadata.test_keys import world

AT: dict[str, Any] = {"offset": 9, "time_ms": 5, "node": 1}


@pytest.fixture
def node() -> Iterator[Served]:
    with serving() as served:
        served.answers["/v1/topics"] = Topics(**AT, topics=[], next=None)
        yield served


def run(node: Served, *words: str) -> int:
    return program.main([*words, "--node", node.address])


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), {}),
        (("--stale",), {"level": "stale"}),
        (("--linearizable",), {"level": "linearizable"}),
        (("--at-least", "5"), {"level": "at_least", "min_offset": "5"}),
        (("--at", "5"), {"at": "5"}),
    ],
)
def test_every_level_is_a_flag(node: Served, words: tuple[str, ...], asked: dict[str, str]) -> None:
    """Nothing said leaves the choice to the node."""
    assert run(node, "topics", *words) == 0
    assert {k: v for k, v in node.asked[0][2].items() if k != "limit"} == asked


def test_at_runs_a_read_command_on_the_past(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """``at N topics`` is ``topics --at N``, output formats included."""
    assert run(node, "at", "7", "topics", "-o", "json") == 0
    assert node.asked[0][2]["at"] == "7"
    assert json.loads(capsys.readouterr().out) == []


def test_the_feature_level_and_what_if_have_a_past_too(node: Served) -> None:
    """As every command that takes ``--at`` has."""
    node.answers["/v1/feature"] = Feature(**AT, level=1, highest=2, nodes=[])
    assert run(node, "at", "7", "feature") == 0
    assert node.asked[-1][2]["at"] == "7"
    run(node, "at", "7", "whatif", "--fail", "node/2")
    assert json.loads(node.asked[-1][3])["at"] == 7


@pytest.mark.parametrize(
    "words",
    [
        ("at", "7"),
        ("at", "7", "demo"),
        ("at", "7", "config", "cluster", "a=b"),
        ("at", "7", "feature", "raise"),
    ],
)
def test_the_past_can_only_be_read(node: Served, words: tuple[str, ...]) -> None:
    """No command, a command that reads nothing, and a change are used wrongly; nothing is sent."""
    assert run(node, *words) == 2
    assert node.asked == []


CHANGED, UNSEEN = "the past cannot be changed", "does not show the past"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        *(
            (words, CHANGED)
            for words in (
                *(
                    "kv put a b",
                    "kv del a",
                    "lease grant 5",
                    "lease revoke 1",
                    "lease keep-alive 1",
                    "kv lease grant 5",
                ),
                *("offsets commit g s 1", "offsets delete g --all", "schemas register s f", "schemas delete s"),
                *("schemas compatibility --set full", "schemas compatibility s --unset"),
                *("topics delete t", "elections elect a", "journal create a", "members drain m", "feature raise"),
            )
        ),
        ("kv watch a", f"kv watch {UNSEEN}"),
        ("lease ttl 1", f"lease ttl {UNSEEN}"),
        ("kv lease ttl 1", f"kv lease ttl {UNSEEN}"),
        ("schemas compatibility s", f"schemas compatibility {UNSEEN}"),
    ],
)
def test_what_has_no_past_is_said_so(node: Served, capsys: pytest.CaptureFixture[str], words: str, told: str) -> None:
    """A change, and a read that is of now: status 2 and a sentence, of nothing that was not typed; nothing is sent."""
    assert run(node, "at", "7", *words.split()) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"quorate: {told}\n")
    assert "--at" not in said
    assert node.asked == []


@pytest.mark.parametrize("word", ["kv", "lease", "log", "mqtt", "offsets", "schemas"])
def test_a_word_that_is_missing_is_asked_for(capsys: pytest.CaptureFixture[str], word: str) -> None:
    """Behind ``at N`` as without it: the number is not taken for it."""
    with pytest.raises(SystemExit) as ended:
        program.main(["at", "30", word])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "the following arguments are required" in said
    assert "30" not in said


OF_NOW = {
    *(("kv", "put"), ("kv", "del"), ("kv", "watch"), ("kv", "lease")),
    *(("lease", "grant"), ("lease", "revoke"), ("lease", "keep-alive"), ("lease", "ttl")),
    *(("offsets", "commit"), ("offsets", "delete")),
    *(("schemas", "register"), ("schemas", "delete"), ("schemas", "compatibility")),
}
"""What changes something, waits for what comes, or tells what no log has. A level is a setting: see ``config``.
``kv lease`` is ``lease``."""


def actions(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """The words behind a command's own that have arguments of their own; itself, where there are none."""
    (found, *_) = [act.choices for act in parser._actions if isinstance(act, _SubParsersAction)] or [{"": parser}]
    return dict(found)


@pytest.mark.parametrize("word", READS)
def test_whatever_can_be_looked_at_can_be_looked_at_in_the_past(word: str) -> None:
    """Every action of a command that ``at`` takes has ``--at``; whoever adds one that has not says why, above."""
    command = actions(program.parser(word))[word]
    without = {(word, name) for name, own in actions(command).items() if "--at" not in own._option_string_actions}
    assert without == {one for one in OF_NOW if one[0] == word}


def test_leases_and_schemas_of_the_past_are_asked_for_by_offset(node: Served) -> None:
    """Page by page, a schema with its versions."""
    lease = {"ttl_s": 9, "granted_ms": 1, "remaining_s": 0, "keys": 0, "left_ms": None}
    pages = {None: ("a", "a"), "a": ("b", None)}

    def leases(query: dict[str, str]) -> dict[str, Any]:
        number, more = pages[query.get("after")]
        return {**AT, "leases": [{"lease": number, **lease}], "next": more}

    node.answers["/v1/leases"] = leases
    assert run(node, "at", "7", "lease", "list") == 0
    node.answers["/schemas"] = []
    assert run(node, "at", "7", "schemas", "list") == 0
    node.answers["/subjects/s/versions"] = [1]
    node.answers["/subjects/s/versions/latest"] = {"subject": "s", "version": 1, "id": 3, "schema": "x"}
    assert run(node, "at", "7", "schemas", "show", "s") == 0
    assert [(path, query["at"]) for _, path, query, _ in node.asked] == [
        *[("/v1/leases", "7")] * 2,
        ("/schemas", "7"),
        ("/subjects/s/versions/latest", "7"),
        ("/subjects/s/versions", "7"),
    ]


def log(query: dict[str, str]) -> Log:
    """A node with nine events, as ``/v1/log`` tells them."""
    end = int(query.get("at", "9"))
    start, limit = int(query["from"]), int(query["limit"])
    events = [
        LogEvent(
            offset=offset, term=1, time_ms=offset, type="TopicDeleted", key=f"topic/t{offset}", principal="p", cause="",
            request_id="", event=TopicDeleted(topic=f"t{offset}"),
        )
        for offset in range(start, min(start + limit, end))
    ]  # fmt: skip
    return Log(**{**AT, "offset": end}, events=events, end_offset=end, next=None)


@pytest.mark.parametrize(
    ("words", "asked", "told"),
    [
        (("log", "dump", "--to", "2"), [{}], [0, 1]),
        (("log", "dump", "--from", "6", "--linearizable"), [{"level": "linearizable"}], [6, 7, 8]),
        (("log", "dump", "--at-least", "9"), [{"level": "at_least", "min_offset": "9"}], list(range(9))),
        (("log", "dump", "--from", "2", "--at", "5"), [{"at": "5"}], [2, 3, 4]),
        (("log", "dump", "--to", "3", "--at", "5"), [{"at": "5"}], [0, 1, 2]),
        (("at", "5", "log", "tail", "-n", "2"), [{"at": "5"}], [3, 4]),
        (("log", "tail", "-n", "2", "--linearizable"), [{"level": "linearizable"}], [7, 8]),
    ],
)
def test_the_log_is_told_at_the_level_asked_for(
    node: Served,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    asked: list[dict[str, str]],
    told: list[int],
) -> None:
    """The end is learnt at that level, once; then everything before it is told."""
    node.answers["/v1/log"] = log
    assert run(node, *words, "-o", "json") == 0
    assert [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()] == told
    levels = [{k: v for k, v in query.items() if k not in ("from", "limit")} for _, _, query, _ in node.asked]
    assert [level for level in levels if level != {"level": "stale"}] == [one for one in asked if one]


@pytest.mark.parametrize(
    "words",
    [("log", "tail", "-f", "--at", "3"), ("log", "dump", "--data-dir", "nowhere", "--linearizable")],
)
def test_a_level_that_cannot_be_is_refused(node: Served, words: tuple[str, ...]) -> None:
    """Nothing is added to the past; a stopped node has what it has. Nobody is asked."""
    assert run(node, *words) == 2
    assert node.asked == []


def test_two_levels_at_once_are_refused(node: Served) -> None:
    """One read, one level."""
    with pytest.raises(SystemExit) as error:
        run(node, "topics", "--stale", "--at", "3")
    assert error.value.code == 2


def test_hashes_of_the_past_are_compared_by_entities(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Every node is asked for the same offset; what is not known of the past is not compared."""
    node.answers["/v1/state-hash"] = StateHash(**AT, index=None, hash=None, rows="aa", feature_level=1, past=True)
    assert run(node, "state-hash", "--at", "9", "--only") == 0
    assert "aa" in capsys.readouterr().out


def test_diff_reads_every_page_of_one_pair_of_states(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """The end is fixed by the first page; entities are told field by field, before and after."""

    def page(query: dict[str, str]) -> Diff:
        kind: Literal["changed", "added"] = "changed" if "after" not in query else "added"
        before: dict[str, object] | None = {"master": 1} if kind == "changed" else None
        name = "a" if kind == "changed" else "b"
        change = Change(
            key=f"broker-set/{name}",
            kind="broker-set",
            name=name,
            change=kind,
            before=before,
            after={"master": 2},
        )
        return Diff(
            **AT, start=3, start_time_ms=1, entities=[change], entity_count=2, event_count=6, events=[],
            next="broker-set/a" if kind == "changed" else None, events_next=None,
        )  # fmt: skip

    node.answers["/v1/diff"] = page
    assert run(node, "diff", "3") == 0
    assert [(q.get("from"), q.get("to"), q.get("after")) for _, _, q, _ in node.asked] == [
        ("3", None, None),
        ("3", "9", "broker-set/a"),
    ]
    out = capsys.readouterr().out
    assert "6 events from offset 3 to 9; 2 entities" in out
    assert "1 entities" not in out
    assert ["changed", "broker-set/a", "master", "1", "2"] in [line.split() for line in out.splitlines()]


def told(node: Served, capsys: pytest.CaptureFixture[str], changes: list[Change]) -> list[list[str]]:
    """The lines of the table, column by column, without the heading."""
    node.answers["/v1/diff"] = Diff(
        **AT, start=3, start_time_ms=1, entities=changes, entity_count=len(changes), event_count=1, events=[],
        next=None, events_next=None,
    )  # fmt: skip
    assert run(node, "diff", "3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 event from offset 3 to 9; ")
    assert not re.search(r"[{}\[\]']|None|True|False", "".join(lines))
    return [re.split(r" {2,}", line) for line in lines[3:]]


def fencing(broker_id: int) -> FenceBroker:
    """It is found dead."""
    return FenceBroker(
        cluster="C", broker_set="a", broker_id=broker_id, evidence="connection closed", last_heartbeat_ms=900,
        detected_ms=950,
    )  # fmt: skip


def test_what_changed_in_a_set_is_told_in_words(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Two real states: what a replica was before is *no* where it was that, an election has a time of the clock, and
    what a program keeps for itself is not shown.
    """
    world = World()
    world.set_of(1, 2)
    before = world.state
    world.heard(2, alive=False)
    world.do(fencing(2))
    (only,) = told(node, capsys, finished(changes(before, world.state)).page)
    assert only == ["changed", "broker-set/a", "replica 2 fenced", "no", "yes"]
    before, world.now_ms = world.state, 5_000
    world.heard(1, alive=False)
    world.do(fencing(1))
    rows = {row[2]: row[3:] for row in told(node, capsys, finished(changes(before, world.state)).page)}
    assert world.a.failed_inputs
    assert not [name for name in rows if "failed inputs" in name or " ms" in name]
    assert rows["election time"] == [clock(1_000), clock(5_000)]
    assert rows["master"] == ["1", "none"]
    assert rows["replica 1 fenced"] == ["no", "yes"]


def test_what_came_and_went_is_told_with_its_fields(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """An entity that was added was nothing before, one that was removed is nothing after; empty fields are no news."""
    world = World()
    world.set_of(1, 2)
    world.do(PutTopic(topic="t", read_queues=4, write_queues=8, permission=6))
    added = told(node, capsys, finished(changes(EMPTY, world.state)).page)
    assert ["added", "topic/t", "write queues", "none", "8"] in added
    assert ["added", "broker-set/a", "sync state set", "none", "1"] in added
    assert ["added", "broker-set/a", "election time", "none", clock(1_000)] in added
    (replica,) = (row for row in added if row[2] == "replica 2")
    assert "address 10.0.0.2:10911" in replica[4]
    assert all(len(row) == 5 and row[3] == "none" != row[4] for row in added)
    removed = told(node, capsys, finished(changes(world.state, EMPTY)).page)
    assert [row[1:3] + row[3:][::-1] for row in removed] == [row[1:] for row in added]


def test_a_duration_is_no_time_and_no_time_is_none(node: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """How long a member may be silent is told as long as it is; since when a client is gone, not while it is there."""
    made = world()
    before = made.state
    epoch = made.member("m", timeout_ms=9_000)
    made.do(OpenSession(client="c", member="m", member_epoch=epoch, clean_start=False, expiry_s=60))
    added = {(row[1], row[2]): row[4] for row in told(node, capsys, finished(changes(before, made.state)).page)}
    assert added["member/m", "timeout"] == "9.0 s"
    assert added["session/c", "opened"] == added["member/m", "changed"] == clock(made.now_ms)
    assert ("session/c", "disconnected") not in added


def test_what_services_stored_is_told_as_their_commands_show_it(
    node: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value as text where it is, a lease by the number that ``etcdctl`` takes, none where there is none."""
    lease = {"lease_id": -1, "ttl_s": 10}
    key = {"key": "a", "value": b64encode(b"on\xff").decode(), "lease": 0}
    granted = Change(key="lease/-1", kind="lease", name="-1", change="added", before=None, after=lease)
    put = Change(key="key/a", kind="key", name="a", change="changed", before=key, after={"value": "b24=", "lease": 26})
    named = Change(
        key="config/c", kind="config", name="c", change="changed", before={"values": {"value": "1"}},
        after={"values": {"value": "2"}},
    )  # fmt: skip
    rows = told(node, capsys, [granted, put, named])
    number = "f" * 16
    assert ["added", f"lease/{number}", "lease id", "none", number] in rows
    assert ["changed", "key/a", "value", "base64:b27/", "on"] in rows
    assert ["changed", "key/a", "lease", "none", "000000000000001a"] in rows
    assert ["changed", "config/c", "values value", "1", "2"] in rows


REPLICA = {"broker_id": 1, "address": "h:1", "fenced": False, "capabilities": {}, "topics": []}
ELECTION = {"offset": 3, "trigger": "heartbeat lost", "explanation": "It was fit. " * 20, "acknowledged": False}


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        (
            {"replicas": [REPLICA, {**REPLICA, "broker_id": 2}]},
            {"replicas": [REPLICA, {**REPLICA, "broker_id": 2, "fenced": True, "topics": ["a", "b"]}]},
            [["replica 2 fenced", "no", "yes"], ["replica 2 topics", "none", "a, b"]],
        ),
        (
            {"replicas": [REPLICA]},
            {"replicas": [REPLICA, {**REPLICA, "broker_id": 7}]},
            [["replica 7", "none", "broker id 7, address h:1, fenced no, capabilities none, topics none"]],
        ),
        (
            {"election": ELECTION},
            {"election": {**ELECTION, "acknowledged": True}},
            [["election acknowledged", "no", "yes"]],
        ),
        (
            {"election": {**ELECTION, "decided_by": "higher epoch"}},
            {"election": {**ELECTION, "trigger": "admin", "decided_by": "designated"}},
            [
                ["election trigger", "heartbeat lost", "an operator"],
                ["election decided by", "highest epoch", "named by the operator"],
            ],
        ),
        (
            {"election": {**ELECTION, "decided_by": "designated"}, "values": {"trigger": "admin"}},
            {"election": {**ELECTION, "decided_by": ""}, "values": {"trigger": "broker"}},
            [
                ["election decided by", "named by the operator", "nobody may stand"],
                ["values trigger", "admin", "broker"],
            ],
        ),
        (
            {"election": None, "sync_state_set": [1, 2]},
            {"election": {"offset": 3}, "sync_state_set": []},
            [["election", "none", "offset 3"], ["sync state set", "1, 2", "none"]],
        ),
        ({"values": {"a": "1"}}, {"values": {"a": "2", "b": "1"}}, [["values a", "1", "2"], ["values b", "none", "1"]]),
    ],
)
def test_a_difference_is_told_inside_and_in_words(
    node: Served,
    capsys: pytest.CaptureFixture[str],
    before: dict[str, object],
    after: dict[str, object],
    rows: list[list[str]],
) -> None:
    """Of a replica or an election what changed is told, whole, and never as Python writes it; one is one entity."""
    change = Change(key="broker-set/a", kind="broker-set", name="a", change="changed", before=before, after=after)
    assert [row[2:] for row in told(node, capsys, [change])] == rows
