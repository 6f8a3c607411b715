"""The folds against the oracle: every table, however the log is cut into batches, equals a plain replay."""

import random
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="absent peer: pyspark (make setup-all)")

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from quorate import events as e
from quorate.errors import InvariantBrokenError
from quorate.events import Stamp
from quorate_spark.pipelines.catalogue import folds
from quorate_spark.pipelines.facts import UnknownEventError, fact
from quorate_spark.pipelines.keyed import KeyedProcessor, KeyState, StaleCheckpointError, advance
from quorate_spark.serving import BY_ROW, TABLES
from tests.projections.history import History
from tests.spark.compare import BY_NAME, Tables, differences, key, plain
from tests.spark.replay import replay
from tests.spark.story import Member, Set, Story, row, rows, story

SEEDS = st.integers(0, 2**32)
DOCS = Path(__file__).resolve().parents[3] / "docs/spark.md"


def folded(facts: list[Any], cuts: random.Random) -> Tables:
    """All tables, after batches of random size; keys in random order, as Spark gives them."""
    kept: dict[str, KeyState] = {}
    tables: Tables = {table.name: {} for table in TABLES}
    while facts:
        size = cuts.randint(1, 40)
        batch, facts = facts[:size], facts[size:]
        keys = list({one.key for one in batch})
        cuts.shuffle(keys)
        for name in keys:
            stored = msgspec.json.decode(msgspec.json.encode(kept.get(name, KeyState("", 0, {}))), type=KeyState)
            kept[name], put = advance(folds(), stored, [one for one in batch if one.key == name])
            for made in put:
                tables[BY_ROW[type(made)].name][key(made)] = plain(made)
    return tables


@given(SEEDS, st.integers(5, 160))
def test_every_table_equals_a_plain_replay(seed: int, length: int) -> None:
    """Rows after N events are those of the oracle, which shares no code with the folds."""
    told = story(seed, length)
    found = folded([fact(Row(**one)) for one in rows(told)], random.Random(seed))
    assert differences(found, replay(told)) == []


SERVICES = ("Key", "Lease", "Member", "Shard", "Segment", "Session", "Subscriptions", "Will", "Schema")
"""How the kinds begin that services beside RocketMQ bring."""


def test_facts_of_every_kind_equal_a_plain_replay() -> None:
    """Members, shards, sessions, wills, schemas, …: what the stories do not tell, a life made of commands does."""
    kinds = set[type]()
    for seed in range(8):
        life = History(seed)
        told: list[tuple[Stamp, e.Event]] = []
        while len(told) < 300:
            told += [(stamp, event) for event, stamp in life.commit()]
        kinds |= {type(event) for _, event in told}
        found = folded([fact(Row(**one)) for one in rows(told)], random.Random(seed))
        assert differences(found, replay(told)) == [], seed
    of_services = {kind for kind in get_args(e.Event) if kind.__name__.startswith(SERVICES)}
    assert len(of_services) >= 30
    assert of_services <= kinds


def test_a_master_that_is_fenced_when_its_id_comes_back_is_still_away() -> None:
    """Its id was cleaned, given again and fenced before it registered: the outage ends when it is heard, not before."""
    told = Story(0)
    which: dict[str, Any] = {"cluster": "c", "broker_set": "b"}
    for number in (1, 2):
        told._add(e.BrokerIdApplied(broker_id=number, address="h:1", register_check_code="x", **which))
        told._add(e.BrokerRegistered(broker_id=number, address="h:1", topics=(), capabilities={}, **which))
    told._decide("b", Set(members={1: Member()}), "broker", told._times())
    told._add(e.BrokerDataCleaned(broker_ids=(1,), whole_set=False, **which))
    told._add(e.BrokerIdApplied(broker_id=1, address="h:1", register_check_code="x", **which))
    told._add(e.BrokerFenced(broker_id=1, **told._times(), **which))
    told._add(e.BrokerRegistered(broker_id=1, address="h:1", topics=(), capabilities={}, **which))
    for ended in (None, "returned"):
        found = folded([fact(Row(**one)) for one in rows(told.facts)], random.Random(1))
        assert [one["ended_by"] for one in found["outages"].values()] == [ended]
        assert differences(found, replay(told.facts)) == []
        told._add(e.BrokerUnfenced(broker_id=1, detected_ms=told.now, proposed_ms=told.now, **which))


def test_every_table_is_in_the_documentation() -> None:
    """Who asks the serving store finds each table, and what a row of it is."""
    text = DOCS.read_text()
    assert [table.name for table in TABLES if f"| `{table.name}` |" not in text] == []


def test_the_stories_reach_every_corner() -> None:
    """Laws about rows that never occur are no laws: every table fills, outages begin and end in every way."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        tables = replay(story(seed, 150))
        seen.update(f"{name} rows" for name, found in tables.items() if found)
        seen.update(f"lost by {one['lost_by']}" for one in tables["outages"].values())
        seen.update(f"ended by {one['ended_by']}" for one in tables["outages"].values())
        seen.update(one["direction"] for one in tables["sync_changes"].values())
        seen.update(one["status"] for one in tables["availability"].values())
        seen.update("flaps" for one in tables["flapping"].values() if one["until_ms"])
        seen.update(f"lease {one['ended_by']}" for one in tables["leases"].values())
        seen.update("gone" for one in tables["entities"].values() if one["value"] is None)
        seen.update(
            "never acknowledged"
            for one in tables["elections"].values()
            if one["acks_offset"] and not one["acknowledged_ms"]
        )
    wanted = [f"{name} rows" for name in BY_NAME]
    wanted += [f"lost by {kind}" for kind in ("BrokerFenced", "BrokerDataCleaned", "ElectionFailed", "MasterElected")]
    wanted += [f"ended by {how}" for how in ("elected", "returned", "forgotten", None)]
    wanted += ["lease expired", "lease revoked", "lease None"]
    wanted += ["shrink", "expand", "replace", "applied", "up", "fenced", "flaps", "gone", "never acknowledged"]
    assert [want for want in wanted if seen[want] < 3] == []


def test_the_processor_gives_what_the_folds_put() -> None:
    """Spark's own tester, without a JVM: rows in any order, in two batches, come out as the oracle's."""
    told = [one for one in story(7, 120) if e.key(one[1]) == e.entity_key("broker-set", "broker-a")]
    given_rows = [Row(**row(stamp, event)) for stamp, event in told]
    tester = TwsTester(KeyedProcessor(folds()))
    cut = len(given_rows) // 2
    made = []
    for batch in (given_rows[:cut], given_rows[cut:]):
        random.Random(1).shuffle(batch)
        made += tester.test(told[0][0], batch)
    found: Tables = {table.name: {} for table in TABLES}
    for one in made:
        value = msgspec.json.decode(one.row, type=BY_NAME[one.table].row)
        assert value.event_offset == one.event_offset
        found[one.table][key(value)] = plain(value)
    everything = replay(story(7, 120))
    mine = {
        name: {known: one for known, one in table.items() if "broker-a" in str(one.get("key", one.get("broker_set")))}
        for name, table in everything.items()
    }
    assert mine["elections"]
    assert differences(found, mine | {"terms": {}}) == []


def test_events_given_again_put_nothing() -> None:
    """What a key has folded is not folded again, whoever delivers it twice."""
    tester = TwsTester(KeyedProcessor(folds()))
    facts = [Row(**row(*story(1, 5)[1]))]
    assert tester.test("leader/default/controller", facts)
    assert tester.test("leader/default/controller", facts) == []


def test_an_unknown_event_halts() -> None:
    """An event of a type from the future is an error that names it and its offset, not a row left out."""
    strange = row(*story(1, 5)[0]) | {"type": "MoonLanded"}
    with pytest.raises(UnknownEventError, match=r"event 0 is a MoonLanded, .*upgrade"):
        TwsTester(KeyedProcessor(folds())).test("cluster/default/c1", [Row(**strange)])


@pytest.mark.parametrize("text", ["{}", '{"topic": 7}', "[", '{"topic": null}'])
def test_an_event_in_an_unknown_form_halts(text: str) -> None:
    """JSON that is not the event it says is an error that names the offset."""
    stamp, _ = story(1, 5)[0]
    with pytest.raises(UnknownEventError, match="event 0 is no TopicDeleted"):
        fact(Row(**row(stamp, e.TopicDeleted(topic="t")) | {"event": text}))


def test_a_field_from_the_future_is_no_obstacle() -> None:
    """A newer writer may add fields: they stay in the audit row and change nothing else."""
    stamp, _ = story(1, 5)[0]
    text = '{"topic": "t", "colour": "blue"}'
    told = fact(Row(**row(stamp, e.TopicDeleted(topic="t")) | {"event": text}))
    assert told.event == e.TopicDeleted(topic="t")
    assert told.text == text


def test_a_checkpoint_of_other_folds_is_refused() -> None:
    """State made by another set of folds, or other settings of one, is not continued."""
    tester = TwsTester(KeyedProcessor(folds()))
    facts = [Row(**row(stamp, event)) for stamp, event in story(1, 5)[1:2]]
    tester.test("leader/default/controller", facts)
    held = tester.peekValueState("kept", "leader/default/controller")
    assert held is not None
    other = TwsTester(KeyedProcessor(folds(threshold=5)))
    other.updateValueState("kept", "leader/default/controller", held)
    with pytest.raises(StaleCheckpointError, match="give another sink and another checkpoint"):
        other.test("leader/default/controller", facts)


def test_what_cannot_have_been_decided_halts() -> None:
    """An event about a broker set that is not there is an InvariantBrokenError."""
    stamp, _ = story(1, 5)[0]
    event = e.BrokerUnfenced(cluster="c", broker_set="x", broker_id=1, detected_ms=0, proposed_ms=0)
    with pytest.raises(InvariantBrokenError):
        advance(folds(), KeyState("", 0, {}), [fact(Row(**row(stamp, event)))])


def test_terms_that_fall_halt() -> None:
    """Two leaders in one term are no log of a Raft group."""
    stamp, event = story(1, 5)[1]
    again = msgspec.structs.replace(stamp, offset=9)
    told = [fact(Row(**row(one, event))) for one in (stamp, again)]
    with pytest.raises(InvariantBrokenError, match="event 9 elects a leader of term 1 after 1"):
        advance(folds(), KeyState("", 0, {}), told)
