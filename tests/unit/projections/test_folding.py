"""Records in, rows out: without Faust, without Kafka, against a replay that shares no code."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quorate.asking import UnreachedError
from quorate.errors import StorageError
from quorate.events import BrokerIdApplied, BrokerRegistered, BrokerUnfenced, TopicCreated, kinds_about
from quorate.events._generated import KEYS
from quorate.resolving import Resolver, registry
from quorate_projections.answers import Answers
from quorate_projections.folding import Folding, TakeResult
from quorate_projections.materialized_views import MaterializedViews
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import RowStore, VersionsDifferError
from quorate_projections.views import VIEWS
from quorate_projections.views.view import Change, View, showing
from tests import newer
from tests.batches import Record
from tests.facts import WRITTEN
from tests.projections.history import History, records
from tests.projections.history import record as record_of
from tests.projections.replay import Replay

COUNT = 2000
DOCS = Path(__file__).resolve().parents[3] / "docs/projections.md"


def take(folding: Folding, record: Record) -> TakeResult:
    return folding.take(record.offset, record.headers, record.value)


def stored(store: RowStore, view: str) -> dict[str, Any]:
    """A view's rows as they are in the store."""
    return {key: json.loads(row) for key, row in store.scan(view)}


def shown(store: RowStore, view: str) -> dict[str, Any]:
    """Those of them that are shown, under the keys they are shown by."""
    prefix = store.views[view].prefix
    return {key.removeprefix(prefix): row for key, row in stored(store, view).items() if key.startswith(prefix)}


@pytest.fixture(name="folding")
def _folding(tmp_path: Path) -> Iterator[Folding]:
    store = RowStore(tmp_path / "rows")
    yield Folding(store)
    store.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_view_equals_a_plain_replay(tmp_path: Path, seed: int) -> None:
    """At any offset what is shown of every view equals an independent replay of the records before it."""
    settings = ProjectionSettings(data_dir=str(tmp_path), page_max=100_000, page_bytes_max=1 << 30, scan_max=100_000)
    materialized_views = MaterializedViews(settings, lambda: 0, lambda: None)
    answers, replay = Answers(materialized_views), Replay()
    for number, record in enumerate(records(seed, COUNT)):
        assert materialized_views.take(record.offset, record.headers, record.value) is TakeResult.APPLIED, (
            materialized_views.folding.failed
        )
        replay.feed(record)
        if number % 41 == 0 or number == COUNT - 1:
            for view in VIEWS:
                page = json.loads(answers.page(view.name, {"limit": "100000"}).body)
                assert page["offset"] == number + 1
                assert {row["key"]: row["row"] for row in page["rows"]} == replay.shown(view.name), view.name
    materialized_views.close()


def test_the_history_of_the_tests_has_everything() -> None:
    """The histories compared hold every kind of event that a decision writes, and leave no view empty."""
    replay, kinds, empty, served = Replay(), Counter[str](), {view.name for view in VIEWS}, False
    for record in records(1, COUNT):
        kinds[dict(record.headers)["type"].decode()] += 1
        replay.feed(record)
        empty = {name for name in empty if not replay.shown(name)}
        served = served or any(route["brokerDatas"] for route in replay.shown("routes").values())
    assert kinds.keys() == WRITTEN
    assert not empty
    assert served, "no topic ever had a broker"


def test_an_event_is_applied_iff_its_offset_is_the_position(folding: Folding) -> None:
    """Repeated events change nothing; one that comes too early is not applied."""
    first, second, third, *_ = records(2, 5)
    assert take(folding, first) is TakeResult.APPLIED
    before = stored(folding.store, "audit")
    assert take(folding, first) is TakeResult.REPEATED
    assert take(folding, third) is TakeResult.GAP
    assert stored(folding.store, "audit") == before
    assert [take(folding, record) for record in (second, third, second)] == [
        TakeResult.APPLIED,
        TakeResult.APPLIED,
        TakeResult.REPEATED,
    ]
    assert folding.store.position.events == 3


def test_the_offset_is_the_header_s_and_kafka_s_is_kept_for_seeking(folding: Folding) -> None:
    """Where Kafka's offsets have holes the events have none, and Kafka's offset is kept for seeking."""
    for record in records(3, 10):
        assert folding.take(record.offset * 3 + 7, record.headers, record.value) is TakeResult.APPLIED
    assert (folding.store.position.events, folding.store.position.kafka) == (10, 9 * 3 + 8)


def test_rows_and_position_come_back_together(tmp_path: Path) -> None:
    """Whatever was not saved is gone with its position: folding on from there gives the same rows."""
    log = records(4, 400)
    store = RowStore(tmp_path / "rows")
    folding = Folding(store)
    for record in log[:300]:
        take(folding, record)
        if record.offset == 250:
            store.save()
    store._db.close()  # As a crash would: what came after the save is lost.
    store = RowStore(tmp_path / "rows")
    assert store.position.events == 251
    folding, replay = Folding(store), Replay()
    for record in log[251:]:
        assert take(folding, record) is TakeResult.APPLIED
    for record in log:
        replay.feed(record)
    for view in ("broker_sets", "elections", "audit", "topics"):
        assert shown(store, view) == replay.shown(view)
    store.close()


class _Halting:
    """A database whose process dies in the batch that a save writes."""

    def __init__(self, db: Any) -> None:
        self._db = db

    def write(self, _batch: Any) -> None:
        raise OSError("killed")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def test_a_save_that_is_cut_short_moves_no_position(tmp_path: Path) -> None:
    """The position is in the batch of its rows: it is nowhere before they are."""
    log = records(4, 40)
    store = RowStore(tmp_path / "rows")
    folding = Folding(store)
    for record in log[:20]:
        take(folding, record)
    store.save()
    for record in log[20:]:
        take(folding, record)
    db = store._db
    halting: Any = _Halting(db)
    store._db = halting
    with pytest.raises(StorageError):
        store.save()
    db.close()
    store = RowStore(tmp_path / "rows")
    assert store.position.events == 20
    store.close()


class Counted(msgspec.Struct, frozen=True):
    count: int = 0


def _stumble(rows: Any, _change: Change[TopicCreated]) -> None:
    rows.put("all", Counted(rows.get("all").count + 1))
    if rows.get("all").count > 2:
        raise ValueError("three topics are too many")


STUMBLING = View(
    name="stumbling",
    what="Fails on the third topic.",
    initial=Counted(),
    fold=_stumble,
    mine=frozenset({TopicCreated}),
)


def test_a_failing_fold_stands_still_changes_nothing_and_says_so(tmp_path: Path) -> None:
    """The event on which a fold fails changes no row of any view; nothing after it is applied; the reason is told."""
    store = RowStore(tmp_path / "rows", [STUMBLING, *VIEWS])
    folding = Folding(store)
    taken = [take(folding, record) for record in records(5, 500)]
    at = taken.index(TakeResult.FAILED)
    assert set(taken[at:]) == {TakeResult.FAILED}
    assert store.position.events == at
    assert folding.failed is not None
    assert folding.failed.offset == at
    assert "stumbling" in folding.failed.reason
    assert "three topics are too many" in folding.failed.reason
    assert len(stored(store, "topics")) == 2
    assert stored(store, "stumbling") == {"all": {"count": 2}}
    assert len(shown(store, "audit")) == at
    store.close()


@pytest.mark.parametrize(
    ("headers", "value", "said"),
    [
        ((), b"", "without an event offset"),
        ((("offset", b"x"),), b"", "without an event offset"),
        ((("offset", None),), b"", "without an event offset"),
        ((("offset", b"0"), ("term", None), ("time_ms", b"1")), b"", "without a whole stamp"),
        ((("offset", b"0"),), b"", "without a whole stamp"),
        ((*records(6, 1)[0].headers[:3], ("principal", None)), b"", "without a whole stamp"),
        (None, b"\x00\x00\x00\xff\xff\x00", "cannot be read"),
        (None, None, "cannot be read"),
        (None, b"\x01\x00\x00\x00\x01", "cannot be read"),
    ],
)
def test_a_record_that_is_no_event_stops_the_table(folding: Folding, headers: Any, value: Any, said: str) -> None:
    """Garbage, or an event newer than this software, is never skipped."""
    good = records(6, 1)[0]
    assert folding.take(0, good.headers if headers is None else headers, value) is TakeResult.FAILED
    assert folding.failed is not None
    assert said in folding.failed.reason
    assert folding.store.position.events == 0


def test_a_broker_that_has_news_is_up_since_it_was(folding: Folding) -> None:
    """It registers again with other topics, or is unfenced although it was not away: nothing began then."""
    history = History(1)
    for _ in range(6):
        for event, stamp in history.commit():
            take(folding, record_of(event, stamp))
    broker: dict[str, Any] = {"cluster": "c", "broker_set": "s", "broker_id": 1}
    told: list[Any] = [
        BrokerIdApplied(**broker, address="h:1", register_check_code="x"),
        BrokerRegistered(**broker, address="h:1", topics=("a",)),
        BrokerRegistered(**broker, address="h:1", topics=("a", "b")),
        BrokerUnfenced(**broker, detected_ms=1, proposed_ms=1),
    ]
    since = []
    for event, stamp in history._written(tuple(told), "test"):
        assert take(folding, record_of(event, stamp)) is TakeResult.APPLIED
        (row,) = stored(folding.store, "broker_availability")["s"]["brokers"]
        since.append((row["state"], row["since_offset"] - stamp.offset))
    assert since == [("applied", 0), ("up", 0), ("up", -1), ("up", -2)]


def newest(number: int) -> str:
    """The registry of a newer build."""
    text: str = newer.module().SCHEMAS[number]
    return text


def test_a_log_of_a_newer_build_gives_the_same_rows(tmp_path: Path) -> None:
    """Every event in a version that this build does not know: it waits once for each schema, and every view is what it
    is without the upgrade.
    """
    store, replay, waited = RowStore(tmp_path / "rows"), Replay(), 0
    folding = Folding(store, Resolver(newest))
    for record in records(1, 400):
        taken = take(folding, newer.rewritten(record))
        if taken is TakeResult.UNREAD:
            waited += 1
            folding.learn()
            taken = take(folding, newer.rewritten(record))
        assert taken is TakeResult.APPLIED, folding.failed
        replay.feed(record)
    assert waited == len({dict(record.headers)["type"] for record in records(1, 400)})
    for view in ("elections", "audit", "topics", "configs", "controller_terms"):
        assert shown(store, view) == replay.shown(view)
    store.close()


def test_a_registry_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    """Nothing is applied and nothing has failed: the same record is taken when the registry has answered."""
    store, first = RowStore(tmp_path / "rows"), newer.rewritten(records(2, 1)[0])
    away = True

    def fetch(number: int) -> str:
        if away:
            raise UnreachedError("nobody is there", sent=False)
        return newest(number)

    folding = Folding(store, Resolver(fetch))
    for _ in range(2):
        assert take(folding, first) is TakeResult.UNREAD
        with pytest.raises(UnreachedError):
            folding.learn()
    assert (folding.failed, store.position.events) == (None, 0)
    away = False
    assert take(folding, first) is TakeResult.UNREAD
    folding.learn()
    assert take(folding, first) is TakeResult.APPLIED
    store.close()


@pytest.mark.parametrize(
    ("resolver", "said"), [(Resolver(newest), "TopicRetired"), (Resolver(registry("")), "schema id")]
)
def test_a_kind_of_event_nobody_here_knows_stops_the_table_by_name(
    tmp_path: Path, resolver: Resolver, said: str
) -> None:
    """State cannot go on without it: the table stands still, says what it is, and is not asked to wait for it."""
    store = RowStore(tmp_path / "rows")
    folding = Folding(store, resolver)
    first, second = records(3, 2)
    assert take(folding, first) is TakeResult.APPLIED
    unknown = msgspec.structs.replace(second, value=newer.retired("orders"))
    assert take(folding, unknown) is TakeResult.UNREAD
    folding.learn()
    assert take(folding, unknown) is TakeResult.FAILED
    assert folding.failed is not None
    assert folding.failed.offset == 1
    assert said in folding.failed.reason
    store.close()


def test_a_log_that_does_not_begin_as_ours_do_is_refused(folding: Folding) -> None:
    """Offset 0 is ClusterCreated; its cluster id is kept beside the position."""
    second = records(7, 2)[1]
    headers = (("offset", b"0"), *second.headers[1:])
    assert folding.take(0, headers, second.value) is TakeResult.FAILED
    assert folding.failed is not None
    assert "not ClusterCreated" in folding.failed.reason


def test_the_cluster_id_is_beside_the_position(folding: Folding) -> None:
    """The first event tells whose log it is."""
    take(folding, records(8, 1)[0])
    assert folding.store.position.cluster_id == "cluster-of-tests"


def test_a_term_that_falls_is_another_history(folding: Folding) -> None:
    """An event of an earlier term than the one before it cannot be in the same log."""
    log = records(9, 50)
    for record in log[:49]:
        take(folding, record)
    headers = tuple((name, b"0" if name == "term" else text) for name, text in log[49].headers)
    assert folding.take(49, headers, log[49].value) is TakeResult.FAILED
    assert folding.failed is not None
    assert "another history" in folding.failed.reason


def test_rows_of_other_folds_are_not_read(tmp_path: Path) -> None:
    """A view whose version rose, and a view more, need a rebuild, and it is said which command does it."""
    RowStore(tmp_path / "rows").close()
    store = RowStore(tmp_path / "rows")
    take(Folding(store), records(10, 1)[0])
    store.close()
    with pytest.raises(VersionsDifferError, match="quorate projections rebuild"):
        RowStore(tmp_path / "rows", [STUMBLING, *VIEWS])
    RowStore(tmp_path / "rows").close()  # And the directory was let go.


def test_rows_made_before_there_was_a_model_are_not_read(tmp_path: Path) -> None:
    """A worker of the build before kept no entities: its rows have to be made again, and the command is named."""
    store = RowStore(tmp_path / "rows")
    take(Folding(store), records(10, 1)[0])
    versions = {name: number for name, number in store.position.versions.items() if name != "/model"}
    store.position = msgspec.structs.replace(store.position, versions=versions)
    store.close()
    with pytest.raises(VersionsDifferError, match="quorate projections rebuild"):
        RowStore(tmp_path / "rows")


def test_a_view_of_state_means_every_event_about_its_entities() -> None:
    """It names no event: what touches a broker set changes what is shown of it, whatever kind it is."""
    shown = {view.name: view.mine for view in VIEWS if view.fold.__module__ == showing.__module__}
    assert shown["routes"] == kinds_about("broker-set", "topic")
    assert {"broker_sets", "topics", "configs"} < shown.keys()
    for name, mine in shown.items():
        about = {KEYS[kind][0] for kind in mine}
        assert mine == kinds_about(*about), name


def test_every_view_is_in_the_documentation() -> None:
    """Who asks for a view finds it in the table of views."""
    (table,) = re.findall(r"\| view \| key.*?\n\n", DOCS.read_text(), re.DOTALL)
    assert [view.name for view in VIEWS if f"`{view.name}`" not in table] == []


def test_a_view_folds_exactly_what_it_calls_its_own(folding: Folding) -> None:
    """Each kind of event in ``mine`` that is written changes a row of the view at least once in a long history; others
    never do. What is routed need not change with every event about a set or a topic.
    """
    store, changed = folding.store, {view.name: set[str]() for view in VIEWS}
    for record in records(1, COUNT):
        before = dict(store.changes)
        take(folding, record)
        for name, kinds in changed.items():
            if store.changes[name] > before[name]:
                kinds.add(dict(record.headers)["type"].decode())
    for view in VIEWS:
        mine = WRITTEN & {kind.__name__ for kind in view.mine}
        assert changed[view.name] <= mine
        assert changed[view.name] == mine or view.name == "routes"
