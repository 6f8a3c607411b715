"""The sinks: each event counts once, whatever comes twice, in other cuts, from elsewhere, or fails on the way."""

import random
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psycopg
import pytest

pytest.importorskip("pyspark", reason="absent peer: pyspark (make setup-all)")

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import InvariantBrokenError, StorageError, UsageError
from quorate_spark.serving import TABLES, Entity, Table
from quorate_spark.sinks import sql
from quorate_spark.sinks.delta import Archive
from quorate_spark.sinks.sql import connect
from quorate_spark.sinks.store import LogGapError, OtherClusterError, OtherVersionError, ServingStore
from quorate_spark.source import SourceOptions
from quorate_spark.stream.queries import queries
from quorate_spark.stream.settings import StreamSettings
from tests.spark.batches import batches
from tests.spark.compare import differences, stored
from tests.spark.replay import replay
from tests.spark.story import row, rows, story


def opened(folder: Path) -> ServingStore:
    return ServingStore(f"sqlite:///{folder}/facts.db", lambda: 1_000)


def content(folder: Path) -> Any:
    database = connect(f"sqlite:///{folder}/facts.db", read_only=True)
    try:
        return stored(database)
    finally:
        database.close()


@given(seed=st.integers(0, 2**32), first=st.lists(st.integers(1, 40)), second=st.lists(st.integers(1, 40)))
def test_any_cuts_and_a_checkpoint_that_starts_over_count_each_event_once(
    tmp_path_factory: pytest.TempPathFactory, seed: int, first: list[int], second: list[int]
) -> None:
    """One query dies somewhere, a new one begins at the first event with other batches: the rows are the oracle's."""
    folder = tmp_path_factory.mktemp("store")
    told = story(seed, 90)
    store = opened(folder)
    for number, puts in enumerate(list(batches(told, first))[: random.Random(seed).randint(0, len(first))]):
        assert store.apply("query 1", number, puts)
        assert not store.apply("query 1", number, puts)
    for number, puts in enumerate(batches(told, second)):
        store.apply("query 2", number, puts)
    progress = store.progress()
    store.close()
    assert progress is not None
    assert progress.position == len(told)
    assert progress.last_event_ms == told[-1][0].time_ms
    assert differences(content(folder), replay(told)) == []


def test_at_each_batch_the_store_equals_the_replay_at_its_position(tmp_path: Path) -> None:
    """Between batches too: the rows are those of exactly the events that the position says."""
    told = story(5, 150)
    store = opened(tmp_path)
    for number, puts in enumerate(batches(told, [17, 1, 40, 5, 60])):
        store.apply("query", number, puts)
        progress = store.progress()
        assert progress is not None
        assert differences(content(tmp_path), replay(told[: progress.position])) == []
    store.close()


def test_the_same_batch_again_changes_nothing(tmp_path: Path) -> None:
    """The guard is (query id, batch id): even other rows under the same ids are left out."""
    store = opened(tmp_path)
    one, two = batches(story(1, 60), [30])
    assert store.apply("query", 0, one)
    before = content(tmp_path), store.progress()
    assert not store.apply("query", 0, one)
    assert not store.apply("query", 0, two)
    assert (content(tmp_path), store.progress()) == before
    store.close()


def test_events_that_are_missing_are_refused(tmp_path: Path) -> None:
    """A batch after a gap, or with one inside, is an error that says what to do, and writes nothing."""
    store = opened(tmp_path)
    one, two, three = batches(story(1, 90), [30, 30])
    store.apply("query", 0, one)
    before = content(tmp_path), store.progress()
    with pytest.raises(LogGapError, match="reflects 30 events and the checkpoint goes on at 60: remove"):
        store.apply("query", 1, three)
    with pytest.raises(InvariantBrokenError, match="events between 30 and 59 are missing"):
        store.apply("query", 1, [put for put in two if put[:2] != ("audit", 44)])
    assert (content(tmp_path), store.progress()) == before
    store.close()


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    """The store of one cluster does not take the facts of another, and keeps its own."""
    store = opened(tmp_path)
    (mine,) = batches(story(1, 20), [])
    store.apply("query", 0, mine)
    before = content(tmp_path)
    stamp, event = story(1, 5)[0]
    (other,) = batches([(stamp, msgspec.structs.replace(event, cluster_id="c2"))], [])
    with pytest.raises(OtherClusterError, match=r"holds the facts of cluster/default/c1, .* of cluster/default/c2"):
        store.apply("other", 0, other)
    assert content(tmp_path) == before
    store.close()


@pytest.mark.parametrize("name", ["version", "shape"])
def test_another_version_of_the_tables_is_refused(tmp_path: Path, name: str) -> None:
    """A store made by other tables is not written: it is to be built anew."""
    opened(tmp_path).close()
    with sqlite3.connect(tmp_path / "facts.db") as raw:
        raw.execute("UPDATE meta SET value = '0' WHERE name = ?", (name,))
    raw.close()
    with pytest.raises(OtherVersionError, match=f"{name} 0, not"):
        opened(tmp_path)


def test_a_store_of_other_folds_is_refused(tmp_path: Path) -> None:
    """Rows that lie below its position would stay as the other folds made them, whatever checkpoint goes on. One of
    before this was kept is taken; whoever opens it and does not say is, too.
    """

    def made_by(text: str) -> None:
        ServingStore(f"sqlite:///{tmp_path}/facts.db", lambda: 1_000, text).close()

    made_by("")
    made_by("elections 1")
    made_by("")
    made_by("elections 1")
    with pytest.raises(OtherVersionError, match="folds elections 1, not elections 2: give another sink"):
        made_by("elections 2")


def test_a_further_table_makes_another_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that lacks a table is refused: what came before would never be in it. One of before shapes is taken."""
    opened(tmp_path).close()
    with monkeypatch.context() as patched:
        patched.setattr(sql, "TABLES", (*TABLES, Table("more", Entity, ("key",))))
        with pytest.raises(OtherVersionError, match="tables of shape"):
            opened(tmp_path)
    with sqlite3.connect(tmp_path / "facts.db") as raw:
        raw.execute("DELETE FROM meta WHERE name = 'shape'")
    raw.close()
    opened(tmp_path).close()
    with sqlite3.connect(tmp_path / "facts.db") as raw:
        assert dict(raw.execute("SELECT name, value FROM meta"))["shape"] == sql.shape("sqlite")
    raw.close()


def test_a_batch_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    """Rows, guard and position are one transaction; afterwards the same batch goes through."""
    store = opened(tmp_path)
    one, two = batches(story(1, 60), [30])
    store.apply("query", 0, one)
    before = content(tmp_path), store.progress()
    with sqlite3.connect(tmp_path / "facts.db") as raw:
        raw.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no space'); END")
    with pytest.raises(StorageError, match="no space"):
        store.apply("query", 1, two)
    assert (content(tmp_path), store.progress()) == before
    with raw:
        raw.execute("DROP TRIGGER full")
    raw.close()
    assert store.apply("query", 1, two)
    assert differences(content(tmp_path), replay(story(1, 60))) == []
    store.close()


@pytest.mark.parametrize("url", ["", "sqlite://", "sqlite:///", "mysql://u:secret@h/d", "/tmp/x.db", "facts.db"])
def test_a_url_of_no_store_is_refused(url: str) -> None:
    """The message says what a URL looks like, and repeats no password."""
    with pytest.raises(UsageError, match="sqlite:///FILE or postgresql") as told:
        connect(url)
    assert "secret" not in str(told.value)


def test_a_url_that_is_none_is_refused_without_its_password() -> None:
    """A bracket in a password, which some programs of PostgreSQL take."""
    with pytest.raises(UsageError, match="percent-encode") as told:
        connect("postgresql://u:pa[ss@h/db")
    assert "pa[ss" not in str(told.value)


def test_a_host_that_is_gone_without_a_word_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to PostgreSQL whose other end does not even acknowledge ends by itself, within half a minute."""
    asked: dict[str, Any] = {}
    monkeypatch.setattr(psycopg, "connect", lambda _, **options: asked.update(options))
    connect("postgresql://u@127.0.0.1/d")
    assert asked["keepalives_idle"] + asked["keepalives_interval"] * asked["keepalives_count"] <= 30
    assert asked["tcp_user_timeout"] == 1_000 * sql.WAIT_S


def test_reading_makes_no_store(tmp_path: Path) -> None:
    """A reader of a store that is not there gets an error, and leaves no file behind."""
    with pytest.raises(StorageError):
        connect(f"sqlite:///{tmp_path}/none.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def table(told: list[Any]) -> pa.Table:
    """Events with the source's columns, in no order."""
    made = [{"time": one["time_ms"] * 1000, **one} for one in rows(told)]
    random.Random(3).shuffle(made)
    plain = pa.Table.from_pylist(made)
    return plain.set_column(
        plain.schema.get_field_index("time"), "time", plain["time"].cast(pa.timestamp("us", tz="UTC"))
    )


def held(folder: Path) -> list[dict[str, Any]]:
    found = DeltaTable(folder).to_pyarrow_table().drop_columns(["date", "time"]).to_pylist()
    return sorted(found, key=lambda one: int(one["offset"]))


def test_the_archive_holds_each_event_once(tmp_path: Path) -> None:
    """Batches again, other cuts by a new query, small files joined: every event is there, once, as it was."""
    told = story(2, 100)
    archive = Archive(str(tmp_path / "a"), compact_every=3)
    for number, (start, end) in enumerate([(0, 10), (10, 35), (35, 36), (36, 60)]):
        assert archive.apply("query 1", number, table(told[start:end]))
        assert not archive.apply("query 1", number, table(told[start:end]))
        assert archive.position() == end
    for number, (start, end) in enumerate([(0, 50), (50, 70), (70, len(told))]):
        archive.apply("query 2", number, table(told[start:end]))
    assert archive.position() == len(told)
    assert held(tmp_path / "a") == [row(stamp, event) for stamp, event in told]
    assert len(DeltaTable(tmp_path / "a").file_uris()) < 6
    assert (tmp_path / "a" / ".gitignore").read_text() == "*\n"


def test_an_archived_batch_that_was_not_noted_is_noted_when_it_comes_again(tmp_path: Path) -> None:
    """The process ended between the commit of the archive and the note: ``progress`` says what the archive holds."""
    told, store = story(2, 60), opened(tmp_path)
    source = SourceOptions(nodes="h:1")
    settings = StreamSettings(source=source, sink="x", checkpoint="y", archive=str(tmp_path / "a"))
    Archive(settings.archive).apply("query", 0, table(told))
    _, archive = queries(None, settings, store, lambda: 7)  # type: ignore[arg-type]
    feed = archive._feed()
    feed.named("query")
    feed(SimpleNamespace(toArrow=lambda: table(told)), 0)  # type: ignore[arg-type]
    progress = store.progress("archive")
    assert progress is not None
    assert (progress.position, progress.batch_id) == (len(told), 0)
    feed(SimpleNamespace(toArrow=lambda: table(told)[:0]), 1)  # type: ignore[arg-type]
    assert store.progress("archive") == progress
    store.close()


def test_the_archive_refuses_gaps_and_other_clusters(tmp_path: Path) -> None:
    """Nothing is appended after a gap, with one inside, or of another cluster."""
    told = story(2, 60)
    archive = Archive(str(tmp_path / "a"))
    archive.apply("query", 0, table(told[:20]))
    with pytest.raises(LogGapError, match="holds 20 events and the checkpoint goes on at 30"):
        archive.apply("query", 1, table(told[30:40]))
    with pytest.raises(InvariantBrokenError):
        archive.apply("query", 1, table([*told[20:25], *told[26:30]]))
    stamp, event = told[0]
    other = (stamp, msgspec.structs.replace(event, cluster_id="c2"))
    with pytest.raises(OtherClusterError):
        archive.apply("other", 0, table([other]))
    assert held(tmp_path / "a") == [row(stamp, event) for stamp, event in told[:20]]
