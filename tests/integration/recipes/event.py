"""An event: a schema, a ``case`` in the model, a sentence, a test. Every reader of the log follows from them."""

SCHEMA = """{
  "type": "record",
  "name": "TopicFrozen",
  "namespace": "quorate.events",
  "doc": "A topic may be read and not be written any more.",
  "quorate.key": "topic/{topic}",
  "fields": [
    {"name": "topic", "type": "string", "doc": "Name of the topic."},
    {"name": "reason", "type": "string", "default": "", "doc": "Why; empty = nobody said."}
  ]
}
"""
CASE = """        case TopicFrozen():
            frozen = _replace(state.topics[event.topic], permission=4)
            return _replace(state, topics=state.topics.set(event.topic, frozen))
        case TopicDeleted():
"""
SENTENCE = """        case TopicFrozen():
            return f"topic {event.topic} was frozen: {event.reason}"
        case TopicDeleted():
"""
TEST = '''"""A frozen topic is read only, wherever topics are shown, and is told in one sentence."""

import json
from pathlib import Path

from pyspark.sql import Row

from quorate.events import Event, Stamp, TopicCreated, TopicFrozen, key
from quorate.model.evolve import evolve
from quorate.model.state import EMPTY, Topic
from quorate.model.words import sentence
from quorate_projections.folding import Folding, TakeResult
from quorate_projections.store import RowStore
from quorate_spark.dashboard import fold
from quorate_spark.dashboard import model as page
from quorate_spark.pipelines.catalogue import folds
from quorate_spark.pipelines.facts import fact
from quorate_spark.pipelines.keyed import KeyState, advance
from quorate_spark.serving import Entity
from tests.projections.history import record, records
from tests.spark.story import row

FROZEN = TopicFrozen(topic="quiet", reason="moved away")
CREATED = TopicCreated(
    topic="quiet",
    read_queues=4,
    write_queues=4,
    permission=6,
    filter_type="",
    system_flags=0,
    order=False,
    attributes={},
)
BOTH: tuple[Event, ...] = (CREATED, FROZEN)


def stamped(offset: int, event: Event) -> tuple[Event, Stamp]:
    """At a time that no record before has passed."""
    stamp = Stamp(offset=offset, term=99, time_ms=2_000_000_000_000, principal="", cause="", request_id="")
    return event, stamp


def frozen(topic: Topic | None) -> bool:
    """May it only be read?"""
    return topic is not None and topic.permission == 4


def test_it_is_in_the_state_and_in_words() -> None:
    """The state has the topic read only; one sentence says why."""
    state = EMPTY
    for offset, event in enumerate(BOTH):
        state = evolve(state, *stamped(offset, event))
    assert frozen(state.topics["quiet"])
    assert sentence(FROZEN) == "topic quiet was frozen: moved away"


def test_it_is_in_every_view_of_state(tmp_path: Path) -> None:
    """Views of topics and routes show it, the audit has it, and no fold stands still."""
    store = RowStore(tmp_path / "rows")
    folding, log = Folding(store), [*records(1, 9)]
    log += [record(*stamped(9 + more, event)) for more, event in enumerate(BOTH)]
    assert [folding.take(one.offset, one.headers, one.value) for one in log] == [TakeResult.APPLIED] * 11
    found = store.raw("topics", "quiet")
    assert found is not None
    assert (json.loads(found)["permission"], json.loads(found)["changed_offset"]) == (4, 10)
    assert b'"permission":4' in (store.raw("routes", "topic/quiet") or b"")
    assert b"TopicFrozen" in (store.raw("audit", f"at/{10:020d}") or b"")
    store.close()


def test_it_is_on_the_page() -> None:
    """The page's state is the model's."""
    state = page.EMPTY
    for offset, event in enumerate(BOTH):
        state = fold.evolve(state, *stamped(offset, event))
    assert frozen(state.model.topics["quiet"])


def test_it_is_in_spark_s_entities() -> None:
    """The serving table has the topic as the model has it."""
    told = [stamped(offset, event) for offset, event in enumerate(BOTH)]
    _, put = advance(folds(), KeyState("", 0, {}), [fact(Row(**row(stamp, event))) for event, stamp in told])
    (entity,) = [one for one in put if isinstance(one, Entity)]
    assert entity.key == key(FROZEN).decode()
    assert json.loads(entity.value or "{}")["permission"] == 4
'''
CHANGES = {
    "services/quorate/model/evolve.py": [
        ("    TopicDeleted,\n", "    TopicDeleted,\n    TopicFrozen,\n"),
        ("        case TopicDeleted():\n", CASE),
    ],
    "services/quorate/model/words.py": [
        ("    TopicDeleted,\n", "    TopicDeleted,\n    TopicFrozen,\n"),
        ("    | TopicDeleted,\n", "    | TopicDeleted\n    | TopicFrozen,\n"),
        ("        case TopicDeleted():\n", SENTENCE),
    ],
}
WRITTEN = {"schemas/TopicFrozen.avsc": SCHEMA, "tests/unit/model/test_topic_frozen.py": TEST}
FILES_MAX = 6
"""With room for two more."""
TESTS = [
    "tests/unit/model",
    "tests/unit/events",
    "tests/unit/metadata",
    "tests/unit/projections/test_folding.py",
    "tests/unit/dashboard/test_fold.py",
    "tests/unit/spark/test_folds.py",
]
