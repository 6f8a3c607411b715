"""Records in, rows out: without Faust, without Kafka, against a replay that shares no code."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from quorate.errors import StorageError
from quorate.events import Event, NodeStarted, TopicCreated, TopicDeleted
from quorate.wire.records import Record
from quorate_projections.answers import Answers
from quorate_projections.folding import Folding, Taken
from quorate_projections.retelling import Retelling
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import RowStore, VersionsDifferError
from quorate_projections.views import VIEWS
from quorate_projections.views.view import View
from tests.projections.history import records
from tests.projections.replay import Replay

COUNT = 2000


def take(folding: Folding, record: Record) -> Taken:
    return folding.take(record.offset, record.headers, record.value)


def stored(store: RowStore, view: str) -> dict[str, Any]:
    """A view's rows as they are in the store."""
    return {key: json.loads(row) for key, row in store.scan(view)}


@pytest.fixture(name="folding")
def _folding(tmp_path: Path) -> Iterator[Folding]:
    store = RowStore(tmp_path / "rows")
    yield Folding(store)
    store.close()


def test_every_view_equals_a_plain_replay(tmp_path: Path) -> None:
    """At any offset what is shown of every view equals an independent replay of the records before it."""
    settings = ProjectionSettings(data_dir=str(tmp_path), page_max=100_000, page_bytes_max=1 << 30, scan_max=100_000)
    retelling = Retelling(settings, lambda: 0)
    answers, replay = Answers(retelling), Replay()
    for number, record in enumerate(records(1, COUNT)):
        assert retelling.take(record.offset, record.headers, record.value) is Taken.APPLIED, retelling.folding.failed
        replay.feed(record)
        if number % 301 == 0 or number == COUNT - 1:
            for view in VIEWS:
                page = json.loads(answers.page(view.name, {"limit": "100000"}).body)
                assert page["offset"] == number + 1
                assert {row["key"]: row["row"] for row in page["rows"]} == replay.shown(view.name), view.name
    retelling.close()


def test_the_history_of_the_tests_has_everything() -> None:
    """The histories compared hold every kind of event, and leave no view empty."""
    replay, kinds = Replay(), Counter[str]()
    for record in records(1, COUNT):
        kinds[dict(record.headers)["type"].decode()] += 1
        replay.feed(record)
    assert kinds.keys() == {kind.__name__ for kind in get_args(Event)}
    assert all(replay.shown(view.name) for view in VIEWS)
    assert any(route["brokerDatas"] for route in replay.shown("routes").values())


def test_an_event_is_applied_iff_its_offset_is_the_position(folding: Folding) -> None:
    """Repeated events change nothing; one that comes too early is not applied."""
    first, second, third, *_ = records(2, 5)
    assert take(folding, first) is Taken.APPLIED
    before = stored(folding.store, "audit")
    assert take(folding, first) is Taken.REPEATED
    assert take(folding, third) is Taken.GAP
    assert stored(folding.store, "audit") == before
    assert [take(folding, record) for record in (second, third, second)] == [
        Taken.APPLIED,
        Taken.APPLIED,
        Taken.REPEATED,
    ]
    assert folding.store.position.events == 3


def test_the_offset_is_the_header_s_and_kafka_s_is_kept_for_seeking(folding: Folding) -> None:
    """Where Kafka's offsets have holes the events have none, and Kafka's offset is kept for seeking."""
    for record in records(3, 10):
        assert folding.take(record.offset * 3 + 7, record.headers, record.value) is Taken.APPLIED
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
        assert take(folding, record) is Taken.APPLIED
    for record in log:
        replay.feed(record)
    for view in ("broker_sets", "elections", "audit", "topics"):
        assert stored(store, view) == replay.shown(view)
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


def _stumble(rows: Any, _stamp: Any, event: TopicCreated) -> None:
    rows.put("all", Counted(rows.get("all").count + 1))
    if rows.get("all").count > 2:
        raise ValueError("three topics are too many")


STUMBLING = View(
    name="stumbling",
    what="Fails on the third topic.",
    initial=Counted(),
    fold=_stumble,
    mine=frozenset({TopicCreated}),
    not_mine=frozenset(),
)


def test_a_failing_fold_stands_still_changes_nothing_and_says_so(tmp_path: Path) -> None:
    """The event on which a fold fails changes no row of any view; nothing after it is applied; the reason is told."""
    store = RowStore(tmp_path / "rows", [STUMBLING, *VIEWS])
    folding = Folding(store)
    taken = [take(folding, record) for record in records(5, 500)]
    at = taken.index(Taken.FAILED)
    assert set(taken[at:]) == {Taken.FAILED}
    assert store.position.events == at
    assert folding.failed is not None
    assert folding.failed.offset == at
    assert "stumbling" in folding.failed.reason
    assert "three topics are too many" in folding.failed.reason
    assert len(stored(store, "topics")) == 2
    assert stored(store, "stumbling") == {"all": {"count": 2}}
    assert len(stored(store, "audit")) == at
    store.close()


@pytest.mark.parametrize(
    ("headers", "value", "said"),
    [
        ((), b"", "without an event offset"),
        ((("offset", b"x"),), b"", "without an event offset"),
        ((("offset", b"0"),), b"", "without a whole stamp"),
        (None, b"\x00\x00\x00\xff\xff\x00", "cannot be read"),
        (None, None, "cannot be read"),
        (None, b"\x01\x00\x00\x00\x01", "cannot be read"),
    ],
)
def test_a_record_that_is_no_event_stops_the_table(folding: Folding, headers: Any, value: Any, said: str) -> None:
    """Garbage, or an event newer than this software, is never skipped."""
    good = records(6, 1)[0]
    assert folding.take(0, good.headers if headers is None else headers, value) is Taken.FAILED
    assert folding.failed is not None
    assert said in folding.failed.reason
    assert folding.store.position.events == 0


def test_a_log_that_does_not_begin_as_ours_do_is_refused(folding: Folding) -> None:
    """Offset 0 is ClusterCreated; its cluster id is kept beside the position."""
    second = records(7, 2)[1]
    headers = (("offset", b"0"), *second.headers[1:])
    assert folding.take(0, headers, second.value) is Taken.FAILED
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
    assert folding.take(49, headers, log[49].value) is Taken.FAILED
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


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_event_is_mine_or_not_mine_of_every_view(view: View[Any, Any]) -> None:
    """A new event is a decision of every view: exactly one of its two lists has it."""
    assert view.mine | view.not_mine == frozenset(get_args(Event))
    assert not view.mine & view.not_mine
    assert NodeStarted in view.mine | view.not_mine
    assert TopicDeleted in view.mine | view.not_mine


def test_a_view_folds_exactly_what_it_calls_its_own(folding: Folding) -> None:
    """Each kind of event in ``mine`` changes a row of the view at least once in a long history; others never do."""
    store, changed = folding.store, {view.name: set[str]() for view in VIEWS}
    for record in records(1, COUNT):
        before = dict(store.changes)
        take(folding, record)
        for name, kinds in changed.items():
            if store.changes[name] > before[name]:
                kinds.add(dict(record.headers)["type"].decode())
    assert changed == {view.name: {kind.__name__ for kind in view.mine} for view in VIEWS}
