"""Every panel, at any offset, against a plain replay of the events up to there."""

import dataclasses
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate.events import (
    Acknowledgement,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    ClusterCreated,
    ConfigChange,
    ConfigChanged,
    Event,
    MasterElected,
    RoleChangeAcknowledged,
    encode,
)
from quorate.model.brokers import learners
from quorate.model.diff import changes
from quorate.model.state import EMPTY, HandedWill, KeyValue, Schema, Subject, SubjectVersion, Will
from quorate.slices import finished
from quorate_spark.dashboard.log import FoldedLog
from quorate_spark.dashboard.panels import density, diff, elections, events, health, quorum, sets, timeline
from quorate_spark.dashboard.soft_state import Soft
from quorate_spark.dashboard.spool import Fact
from tests.dashboard import lives
from tests.dashboard.lives import FLAPPING, folded, life, plain, told, view
from tests.dashboard.replay import Replay

EVENTS = 400
SEEDS = st.integers(0, 11)
SHARES = st.floats(0, 1)
both = partial(lives.both, EVENTS)


@given(SEEDS, SHARES)
@settings(max_examples=25, deadline=None)
def test_sets_are_what_a_replay_says(seed: int, share: float) -> None:
    """At every offset each broker set's row equals one made from the events before it alone."""
    seen, replay = both(seed, share)
    answer = plain(sets.sets(seen))
    rule = (FLAPPING.elections, FLAPPING.window_ms)
    assert answer["sets"] == [replay.set_row(name, seen.now, *rule) for name in sorted(replay.sets)]
    assert answer["total"] == len(replay.sets)


def longer(facts: tuple[Fact, ...], *then: Event) -> FoldedLog:
    """The log in which these events follow, at the time of the last."""
    stamps = (msgspec.structs.replace(facts[-1].stamp, offset=len(facts) + place) for place in range(len(then)))
    return folded([*facts, *(Fact(stamp, event, encode(event)) for stamp, event in zip(stamps, then, strict=True))])


def test_a_learner_that_an_operator_named_is_one_on_the_page() -> None:
    """Whoever may not lead is shown as a learner, whether it said so itself or a setting of its set does; a diff that
    tells of the set names the learners alone.
    """
    named = ConfigChanged(scope="broker-set/d", changes=(ConfigChange(name="learners", old=None, new="4;6"),))
    log = longer(life(3, EVENTS), named)
    (row,) = plain(sets.sets(view(log, log.tip.offset), only=frozenset({"d"})))["sets"]
    model = log.tip.model
    assert {member["id"] for member in row["members"] if member["learner"]} >= {4, 6}
    assert {m["id"] for m in row["members"] if m["learner"]} == learners(model, model.broker_sets["d"])
    changed = plain(diff.diff(view(log, log.tip.offset), log.history.at(0), limit=10_000))["changed"]
    (fields,) = (one["fields"] for one in changed if (one["kind"], one["name"]) == ("broker-set", "d"))
    assert [f["field"] for f in fields if f["field"].endswith(".learner")] == [
        f"members.{member['id']}.learner" for member in row["members"] if member["learner"]
    ]


def test_a_master_that_was_cleaned_and_applied_again_is_said_to_be_not_registered() -> None:
    """Its set is lost until it registers, and the reason says what is so: it is not fenced."""
    facts = life(3, EVENTS)
    (broker_set,) = (one for one in folded(facts).tip.sets.values() if one.name == "d")
    master = broker_set.member(broker_set.master)
    assert master is not None
    assert master.alive
    whose = {"cluster": broker_set.cluster, "broker_set": "d"}
    cleaned = BrokerDataCleaned(**whose, broker_ids=(master.id,), whole_set=False)
    applied = BrokerIdApplied(**whose, broker_id=master.id, address=master.addr, register_check_code="again")
    for events_, why in (((cleaned,), "gone"), ((cleaned, applied), "not registered yet")):
        lost = longer(facts, *events_).tip.sets["d"]
        assert (lost.status, lost.master) == ("lost", master.id)
        assert health.why_lost(lost) == f"broker {master.id} is {why}"


def test_a_master_that_is_elected_while_it_is_fenced_makes_no_set_lost() -> None:
    """Fenced since its election it does; elected again after that it does not, though it is not alive."""
    facts = life(3, EVENTS)
    won = [f.event for f in facts if isinstance(f.event, MasterElected) and f.event.broker_set == "d"][-1]
    fenced = BrokerFenced(
        cluster=won.cluster, broker_set="d", broker_id=won.master,
        evidence="shut down", last_heartbeat_ms=0, detected_ms=0, proposed_ms=0,
    )  # fmt: skip
    again = msgspec.structs.replace(
        won, old_master=won.master, master_epoch=won.master_epoch + 1, sync_state_set_epoch=won.sync_state_set_epoch + 1
    )
    said = [longer(facts, *events_).tip.sets["d"] for events_ in ((fenced,), (fenced, again))]
    assert [(one.status == "lost", one.lost_at is None) for one in said] == [(True, False), (False, True)]
    assert not any(member.alive for one in said for member in one.members if member.id == one.master)


@given(SEEDS, SHARES, SHARES)
@settings(max_examples=25, deadline=None)
def test_what_is_new_in_sets_completes_what_was_known(seed: int, share: float, earlier: float) -> None:
    """Rows touched since an offset, and the removed ones, turn the old answer into the new one."""
    seen, _ = both(seed, share)
    old = view(seen.log, round(earlier * seen.offset))
    known = {row["name"]: row for row in plain(sets.sets(old))["sets"]}
    news = plain(sets.sets(seen, since=old.offset))
    for name in news["removed"]:
        known.pop(name, None)
    known |= {row["name"]: row for row in news["sets"]}
    now = {row["name"]: row for row in plain(sets.sets(seen))["sets"]}
    moving = ("status", "flapping", "elections_30m", "members")  # With the clock, and with settings.
    assert {n: strip(r, moving) for n, r in known.items()} == {n: strip(r, moving) for n, r in now.items()}


def strip(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in names}


@given(SEEDS, SHARES)
@settings(max_examples=25, deadline=None)
def test_health_counts_what_a_replay_counts(seed: int, share: float) -> None:
    """The figures of health are those of a replay, and its level follows from them; it names elections that there are,
    and no other event as one.
    """
    seen, replay = both(seed, share)
    answer = plain(health.health(seen))
    rows = [replay.set_row(name, seen.now, FLAPPING.elections, FLAPPING.window_ms) for name in replay.sets]
    counts = {word: sum(row["status"] == word for row in rows) for word in answer["counts"]}
    members = [member for row in rows for member in row["members"]]
    assert answer["counts"] == counts
    assert (answer["brokers"], answer["alive"]) == (len(members), sum(member["alive"] for member in members))
    if seen.offset and replay.leader:
        troubled = counts["last"] or counts["shrunk"] or any(row["flapping"] for row in rows)
        assert answer["level"] == ("unhealthy" if counts["lost"] else "degraded" if troubled else "healthy")
    lost = {reason["keys"][0] for reason in answer["reasons"] if reason["kind"] == "lost"}
    assert lost == {row["name"] for row in rows if row["status"] == "lost"}
    for reason in answer["reasons"]:
        if reason["kind"] in ("lost", "flap"):
            there = reason["offset"] is not None and seen.log.index.election_at(reason["offset"]) is not None
            assert reason["election"] == there


def test_an_alarm_comes_before_everything_else() -> None:
    """What a node says is wrong and no event tells is the first reason, and the sentence."""
    seen = dataclasses.replace(both(3, 1.0)[0], soft=Soft(polled=0, alarms=("the state of node 2 differs",)))
    answer = plain(health.health(seen))
    assert (answer["level"], answer["sentence"]) == ("unhealthy", "Alarm: the state of node 2 differs.")
    assert answer["reasons"][0]["kind"] == "alarm"
    assert answer["reasons"][0]["text"] == "the state of node 2 differs"


@given(SEEDS, SHARES)
@settings(max_examples=20, deadline=None)
def test_the_quorum_is_what_a_replay_says(seed: int, share: float) -> None:
    """Who leads, since when and why, and every node's last start."""
    seen, replay = both(seed, share)
    answer = plain(quorum.quorum(seen))
    leader = replay.leader or {"id": None, "since": None, "offset": None, "cause": ""}
    assert [answer[name] for name in ("leader", "since", "offset", "cause")] == [
        leader[name] for name in ("id", "since", "offset", "cause")
    ]
    assert {node["id"]: node["started"] for node in answer["nodes"]} == {
        number: node["started"] for number, node in replay.nodes.items()
    }
    voters = len(replay.nodes)
    assert not voters or 2 * (voters - answer["may_fail"]) > voters >= 2 * (voters - answer["may_fail"] - 1)


@given(SEEDS, SHARES)
@settings(max_examples=25, deadline=None)
def test_elections_are_what_a_replay_says(seed: int, share: float) -> None:
    """Each election with its fault, and with its acknowledgement only once that was written."""
    seen, replay = both(seed, share)
    answer = plain(elections.elections(seen, first=True, limit=1_000))
    expected = [
        (e["offset"], e["set"], e["kind"], e["first"], e["fault_at"], replay.unavailable(e))
        for e in reversed(replay.elections)
    ]
    got = [
        (e["offset"], e["set"], e["kind"], e["first"], e["fault_at"], e["unavailable_ms"]) for e in answer["elections"]
    ]
    assert got == expected
    took: dict[str, list[int]] = {}
    for election in replay.elections:
        if not election["first"] and (ms := replay.unavailable(election)) is not None:
            took.setdefault(election["kind"], []).append(ms)
    assert {kind["kind"]: kind["n"] for kind in answer["kinds"] if kind["n"]} == {k: len(v) for k, v in took.items()}
    for kind in answer["kinds"]:
        values = sorted(took.get(kind["kind"], []))
        assert kind["max_ms"] == (values[-1] if values else None)
        assert kind["p50_ms"] == (values[(len(values) - 1) // 2] if values else None)


@given(SEEDS, st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_pages_of_elections_join_up(seed: int, limit: int) -> None:
    """Page after page, newest first and oldest first, gives every election once."""
    seen, replay = both(seed, 1.0)
    wanted = [election["offset"] for election in replay.elections if not election["first"]]
    backward, before = [], None
    while True:
        page = elections.elections(seen, before=before, limit=limit)
        backward += [election.offset for election in page.elections]
        if (before := page.next) is None:
            break
    forward: list[int] = []
    after: int | None = 0
    while after is not None:
        page = elections.elections(seen, after=after, limit=limit)
        forward += [election.offset for election in page.elections]
        after = page.next
    assert backward == wanted[::-1]
    assert forward == wanted


@given(SEEDS, SHARES)
@settings(max_examples=20, deadline=None)
def test_one_election_tells_the_set_before_and_after(seed: int, share: float) -> None:
    """Before and after are the set as a replay has it at those offsets, the candidates as the event has them."""
    seen, replay = both(seed, share)
    at = seen.log.history.at
    for told_ in replay.elections[-3:]:
        row = seen.log.index.election_at(told_["offset"])
        assert row is not None
        base = elections.base_of(seen, row)
        answer = plain(elections.election(seen, row, at(base), at(row.offset), at(row.offset + 1)))
        for side, offset in (("before", base), ("after", row.offset + 1)):
            found = Replay(told(seed, EVENTS), offset).sets[told_["set"]]
            assert answer[side]["master"] == found["master"]
            assert answer[side]["sync"] == found["sync"]
            assert answer[side]["epoch"] == found["epoch"]
            assert answer[side]["offset"] == offset
        names = [(c["id"], c["verdict"], c["out_by"]) for c in answer["candidates"]]
        assert names == [(c["broker_id"], c["verdict"], c["out_by"]) for c in told_["event"]["candidates"]]
        event, before = told_["event"], answer["before"]
        assert ("got its first master" in answer["headline"]) == ("master" in event and not before["epoch"])
        assert answer["headline"].startswith(event["broker_set"])
        assert sum(c["verdict_words"].startswith("elected: ") for c in answer["candidates"]) == ("master" in event)
        assert bool(answer["caveat"]) == ("master" not in event or event["unclean"])
        assert (answer["acks_offset"] is None) == (told_["ack"] is None)
        assert answer["phases"]["total"] == (None if "master" not in told_["event"] else replay.unavailable(told_))


def test_phases_are_those_of_the_new_master() -> None:
    """A replica that was told a millisecond before the new master changes no phase: they are steps of one way."""
    facts = life(3, EVENTS)
    number = next(n for n, fact in enumerate(facts) if isinstance(fact.event, RoleChangeAcknowledged))
    told_ = facts[number].event
    assert isinstance(told_, RoleChangeAcknowledged)
    elected = facts[told_.election_offset].event
    assert isinstance(elected, MasterElected)
    committed = told_.committed_ms
    acks = (
        Acknowledgement(broker_id=elected.master, notified_ms=committed + 2, acknowledged_ms=committed + 5),
        Acknowledgement(broker_id=elected.master + 1, notified_ms=committed + 1, acknowledged_ms=committed + 2),
    )
    event = msgspec.structs.replace(told_, acks=acks)
    log = folded([*facts[:number], Fact(facts[number].stamp, event, encode(event))])
    seen = view(log, number + 1)
    row = log.index.election_at(told_.election_offset)
    assert row is not None
    sides = (log.history.at(row.offset), log.history.at(row.offset), log.history.at(row.offset + 1))
    answer = plain(elections.election(seen, row, *sides))
    assert [answer["phases"][name] for name in ("notify", "ack")] == [2, 3]
    assert answer["notified_at"] == committed + 2


@given(SEEDS, SHARES, st.tuples(SHARES, SHARES))
@settings(max_examples=25, deadline=None)
def test_the_timeline_is_what_a_replay_says(seed: int, share: float, window: tuple[float, float]) -> None:
    """Gaps, masters and sync sizes in a window are those a replay finds there, with the one value before it."""
    seen, replay = both(seed, share)
    if not seen.offset:
        return
    first, last = replay.rows[0]["time_ms"], replay.rows[-1]["time_ms"]
    start, end = sorted(first + round(part * (last - first)) for part in window)
    answer = plain(timeline.timeline(seen, start, end, only=frozenset(["a", "b", "c/ü", "d"])))
    for lane in answer["lanes"]:
        name = lane["set"]
        gaps = [g for g in replay.gaps if g["set"] == name and g["t0"] <= end and (g["t1"] is None or g["t1"] >= start)]
        assert lane["gaps"] == [{key: gap[key] for key in ("t0", "t1", "offset")} for gap in gaps]
        ticks = [e for e in replay.elections if e["set"] == name and start <= e["t"] <= end]
        assert [tick["offset"] for tick in lane["elections"]] == [tick["offset"] for tick in ticks]
        for which, steps in replay.steps[name].items():
            inside = [step for step in steps if start <= step["t"] <= end]
            former = [step for step in steps if step["t"] < start][-1:]
            assert lane[which] == former + inside
    assert answer["leaders"] == [
        one for one in replay.leaders if one["from"] <= end and (one["to"] is None or one["to"] >= start)
    ]


@given(SEEDS, SHARES, st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_the_density_adds_up(seed: int, share: float, buckets: int) -> None:
    """Every event and every election is in exactly one bucket, and a bucket's end is an offset of that time."""
    seen, replay = both(seed, share)
    answer = plain(density.density(seen, buckets))
    again = [e for e in replay.elections if not e["first"]]
    assert sum(answer["events"]) == seen.offset
    assert sum(answer["elections"]) == sum("master" in e["event"] for e in again)
    assert sum(answer["failed"]) == sum("master" not in e["event"] for e in again)
    if seen.offset:
        assert answer["ends"][-1] == seen.offset
        assert answer["ends"] == sorted(answer["ends"])
        for gap in replay.gaps:
            covered = [w for w in answer["gaps"] if w["t0"] <= gap["t0"] and (w["t1"] is None or w["t1"] >= gap["t0"])]
            assert len(covered) == 1
        time = replay.rows[len(replay.rows) // 2]["time_ms"]
        assert density.seek(seen, time).offset == sum(row["time_ms"] <= time for row in replay.rows)


QUERIES = st.sampled_from([
    "", "type:master", "type:Master,Election",
    "set:a", "set:c/ü", "key:topic/", "key:broker-set/c/ü", "by:node", "term:1",
    "fence", "set:a type:sync", "admin", "nothing-like-this", "key:config/ by:admin",
])  # fmt: skip


@given(SEEDS, SHARES, QUERIES, st.integers(1, 30))
@settings(max_examples=25, deadline=None)
def test_the_log_is_filtered_as_its_words_say(seed: int, share: float, q: str, limit: int) -> None:
    """Page after page gives each event that matches all words once, newest first, and counts them."""
    seen, replay = both(seed, share)
    wanted = [row for row in reversed(replay.rows) if matches(row, q)]
    found, before = [], None
    while True:
        page = events.events(seen, q, before, limit)
        found += [plain(row) for row in page.events]
        if (before := page.next) is None:
            break
    assert [row["offset"] for row in found] == [row["offset"] for row in wanted]
    assert [row["value"] for row in found] == [row["event"] for row in wanted]
    assert page.matched == len(wanted)
    assert page.types is not None
    assert sum(page.types.values()) == len(wanted)


def matches(row: dict[str, Any], q: str) -> bool:
    """The filter, told again."""
    event = row["event"]
    kinds = {"broker_set": "broker-set", "topic": "topic", "scope": "config", "cluster_id": "cluster"}
    key = next((f"{kind}/{event[field]}" for field, kind in kinds.items() if field in event), "")
    if row["type"] == "NodeStarted":
        key = f"node/{event['node_id']}"
    elif row["type"] == "ControllerLeaderElected":
        key = "leader/controller"
    elif row["type"] == "FeatureLevelChanged":
        key = "feature-level/cluster"
    elif row["type"] == "WillHandedOver":
        key = f"will/{event['session_epoch']}"
    checks: dict[str, Callable[[str], bool]] = {
        "type": lambda v: any(row["type"].lower().startswith(one) for one in v.split(",")),
        "key": lambda v: key.lower().startswith(v),
        "set": lambda v: key.lower() == f"broker-set/{v}",
        "by": lambda v: v in row["principal"].lower(),
        "term": lambda v: bool(row["term"] == int(v)),
    }
    for word in q.lower().split():
        name, _, value = word.partition(":")
        texts = (row["type"], key, row["principal"], row["cause"])
        anywhere = any(word in text.lower() for text in texts)
        if not (checks[name](value) if name in checks else anywhere):
            return False
    return True


def test_a_filter_that_makes_no_sense_is_refused() -> None:
    """A term is a number, and there are not too many words."""
    seen, _ = both(0, 1.0)
    for wrong in ("term:x", "term:", "a " * 17):
        with pytest.raises(UsageError):
            events.events(seen, wrong)


@given(SEEDS, SHARES, SHARES)
@settings(max_examples=25, deadline=None)
def test_a_diff_names_every_field_that_differs(seed: int, share: float, earlier: float) -> None:
    """Masters, epochs, topics and settings that differ between two replays are in the diff, and nothing else is."""
    seen, replay = both(seed, share)
    start = round(earlier * seen.offset)
    former = Replay(told(seed, EVENTS), start)
    answer = plain(diff.diff(seen, seen.log.history.at(start), limit=10_000))
    told_ = {
        (c["kind"], c["name"], f["field"]): (f["before"], f["after"]) for c in answer["changed"] for f in c["fields"]
    }
    for name in former.sets.keys() | replay.sets.keys():
        for field in ("master", "epoch", "sync", "sync_epoch", "lost_at", "last_failed"):
            pair = tuple(one.sets.get(name, {}).get(field) for one in (former, replay))
            key = ("broker-set", name, field)
            assert told_.get(key, (pair[0], pair[0])) == pair
            assert (key in told_) == (pair[0] != pair[1])
    changed = {c["name"] for c in answer["changed"] if c["kind"] == "config"}
    assert changed == {
        n for n in former.configs.keys() | replay.configs.keys() if former.configs.get(n) != replay.configs.get(n)
    }
    assert answer["events"] == seen.offset - start == sum(answer["types"].values())


def test_a_diff_leaves_out_no_kind() -> None:
    """Whatever the model says is different the diff tells: every kind of entity, and each by its name."""
    log = folded(life(3, 900))
    answer = plain(diff.diff(view(log, log.tip.offset), log.history.at(0), limit=10_000))
    changed = finished(changes(EMPTY, log.tip.model)).page
    assert {one["kind"] for one in answer["changed"]} == {one.kind for one in changed}
    told_ = [(one["kind"], one["name"]) for one in answer["changed"] if one["kind"] != "lease"]
    assert sorted(told_) == sorted((one.kind, one.name) for one in changed if one.kind != "lease")


def test_a_diff_over_the_founding_tells_what_it_made() -> None:
    """The cluster's event names the cluster alone; its nodes, by number, and its feature level are told as well."""
    first, *_ = life(3, EVENTS)
    founded = first.event
    assert isinstance(founded, ClusterCreated)
    voters = tuple(msgspec.structs.replace(founded.voters[0], id=number) for number in (10, 2, 1))
    founded = msgspec.structs.replace(founded, voters=voters)
    log = folded([Fact(first.stamp, founded, encode(founded))])
    answer = plain(diff.diff(view(log, 1), log.history.at(0)))
    assert {one["change"] for one in answer["changed"]} == {"added"}
    assert [(one["kind"], one["name"]) for one in answer["changed"]] == [
        ("node", "1"), ("node", "2"), ("node", "10"), ("feature-level", "cluster"), ("cluster", founded.cluster_id),
    ]  # fmt: skip


def fields_of(before: msgspec.Struct | None, after: msgspec.Struct) -> dict[str, Any]:
    """The fields of a diff between two values: before and after."""
    found = diff._change("any", "one", diff._flat(before), diff._flat(after))
    return {field.field: (field.before, field.after) for one in found for field in one.fields}


def test_a_diff_tells_what_it_has_no_words_for_as_the_model_has_it() -> None:
    """Schemas, versions and wills are told field by field, each a value for people; a long one is cut. A number 0 in a
    list's element says something; what is not set does not.
    """
    schema, will = "s" * 999, Will(topic="gone", payload=b"\xff", qos=1)
    versions = (SubjectVersion(version=0, schema_id=7), SubjectVersion(version=2, schema_id=8, deleted=True))
    assert fields_of(None, Schema(schema_id=7, schema=schema)) == {
        "schema_id": (None, 7),
        "schema": (None, "s" * 160 + "…"),
    }
    assert fields_of(None, Subject(subject="s", versions=versions)) == {
        "subject": (None, "s"),
        "versions": (None, ["version 0, schema id 7", "version 2, schema id 8, deleted True"]),
    }
    handed = fields_of(None, HandedWill(session_epoch=3, client="c", will=will))
    assert handed["will.payload"] == (None, "1 B that are no text")


def test_a_diff_compares_whole_values() -> None:
    """Values that differ beyond what is shown of them differ; of a text and of a key's bytes."""
    cut = "s" * 160 + "…"
    before, after = (Schema(schema_id=7, schema="s" * 200 + end) for end in "ab")
    assert fields_of(before, after) == {"schema": (cut, cut)}
    assert fields_of(before, before) == {}
    keys = [
        KeyValue(key="k", value=b"s" * 200 + end, create_revision=1, mod_revision=1, version=1) for end in (b"a", b"b")
    ]
    (changed,) = diff._change("key", "k", *map(diff._key, keys))
    assert [(field.field, field.before, field.after) for field in changed.fields] == [("value", cut, cut)]


def test_the_lives_reach_what_the_laws_are_about() -> None:
    """Laws about states nobody reaches are no laws: failed elections, open gaps, all kinds of events."""
    kinds, failed, gaps, estimated = set(), 0, 0, 0
    for seed in range(24):
        replay = Replay(told(seed, EVENTS), EVENTS)
        kinds |= {row["type"] for row in replay.rows}
        failed += sum("master" not in e["event"] for e in replay.elections)
        gaps += sum(gap["t1"] is None for gap in replay.gaps)
        estimated += sum(e["ack"] is not None and not e["first"] for e in replay.elections)
    assert len(kinds) == 51
    assert min(failed, gaps, estimated) > 3


def test_any_order_of_questions_gets_the_same_answers() -> None:
    """Checkpoints and remembered states change nothing: at every offset the state is that of a fold up to there."""
    facts = life(3, EVENTS)
    chance = random.Random(1)
    direct = {}
    grown = folded(facts[:0])
    for fact in facts:
        grown.take([fact])
        direct[grown.tip.offset] = grown.tip
    for every, most in ((1, 4), (16, 1_000), (10_000, 3)):
        log = folded(facts, every, most)
        for offset in chance.sample(range(1, len(facts) + 1), 80):
            assert log.history.at(offset) == direct[offset]
        assert len(log.history._checkpoints) <= most + 1
