"""The serving store in a real PostgreSQL: the promises that SQLite keeps, and what only a server can do to them."""

import random
import threading
from collections.abc import Iterator

import msgspec
import psycopg
import pytest

pytest.importorskip("pyspark", reason="absent peer: pyspark (make setup-all)")

from quorate import events as e
from quorate.errors import StorageError
from quorate_spark.sinks.store import LogGapError, OtherClusterError, ServingStore
from tests.clusters import until
from tests.spark.batches import batches
from tests.spark.compare import content, differences
from tests.spark.postgres import Server, server
from tests.spark.replay import replay
from tests.spark.story import story

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """One server for all."""
    with server() as running:
        yield running


@pytest.mark.parametrize("seed", range(4))
def test_any_cuts_and_a_checkpoint_that_starts_over_count_each_event_once(postgres: Server, seed: int) -> None:
    """Batches again, a new query with other batches: the rows are the oracle's, and the position is the end."""
    url, told, chance = postgres.database(), story(seed, 120), random.Random(seed)
    store = ServingStore(url, lambda: 1_000)
    for number, puts in enumerate(list(batches(told, [chance.randint(1, 40) for _ in range(4)]))[:3]):
        assert store.apply("query 1", number, puts)
        assert not store.apply("query 1", number, puts)
    for number, puts in enumerate(batches(told, [chance.randint(1, 40) for _ in range(4)])):
        store.apply("query 2", number, puts)
    progress = store.progress()
    store.close()
    assert progress is not None
    assert progress.position == len(told)
    assert differences(content(url), replay(told)) == []


def test_gaps_and_other_clusters_are_refused(postgres: Server) -> None:
    """As in SQLite: a typed error, and nothing written."""
    url, told = postgres.database(), story(1, 90)
    store = ServingStore(url, lambda: 1_000)
    one, two, three = batches(told, [30, 30])
    store.apply("query", 0, one)
    before = content(url), store.progress()
    with pytest.raises(LogGapError):
        store.apply("query", 1, three)
    stamp, event = told[0]
    (other,) = batches([(stamp, msgspec.structs.replace(event, cluster_id="c2"))], [])
    with pytest.raises(OtherClusterError):
        store.apply("other", 0, other)
    assert (content(url), store.progress()) == before
    assert store.apply("query", 1, two)
    store.close()


def test_a_crash_of_the_server_inside_a_batch_leaves_nothing_of_it(postgres: Server) -> None:
    """The server dies while a batch is held up: an error now; after its recovery the same batch goes through."""
    url, told = postgres.database(), story(3, 80)
    store = ServingStore(url, lambda: 1_000)
    one, two = batches(told, [40])
    store.apply("query", 0, one)
    before = content(url)
    holder = psycopg.connect(url)
    holder.execute("LOCK TABLE audit IN ACCESS EXCLUSIVE MODE")
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            store.apply("query", 1, two)
        except StorageError as error:
            failed.append(error)

    batch = threading.Thread(target=attempt)
    batch.start()
    until(lambda: holder.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall(), "a batch that is held up")
    postgres.stop()
    try:
        batch.join(30)
        assert failed
        with pytest.raises(StorageError):
            store.apply("query", 1, two)
    finally:
        postgres.start()
        holder.close()
    assert content(url) == before
    assert store.apply("query", 1, two)
    assert not store.apply("query", 1, two)
    store.close()
    assert differences(content(url), replay(told)) == []


def test_two_runs_at_once_count_each_event_once(postgres: Server) -> None:
    """Two drivers with one checkpoint (the old one was thought dead): one batch after the other, each once."""
    url, told = postgres.database(), story(4, 160)
    made = list(batches(told, [20] * 7))
    stores = [ServingStore(url, lambda: 1_000) for _ in range(2)]
    applied: list[int] = []

    def work(store: ServingStore) -> None:
        for number, puts in enumerate(made):
            if store.apply("query", number, puts):
                applied.append(number)

    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for store in stores:
        store.close()
    assert sorted(applied) == list(range(len(made)))
    assert differences(content(url), replay(told)) == []


def test_text_that_postgresql_cannot_hold_is_held_all_the_same(postgres: Server) -> None:
    """A NUL in a name, which Avro allows and PostgreSQL's text does not, becomes U+FFFD; the batch goes through."""
    url, told = postgres.database(), story(1, 5)
    stamp = msgspec.structs.replace(told[-1][0], offset=len(told), principal="a\0b")
    made = e.TopicCreated(
        topic="x\0y",
        read_queues=1,
        write_queues=1,
        permission=6,
        filter_type="SINGLE_TAG",
        system_flags=0,
        order=False,
        attributes={},
    )
    told = [*told, (stamp, made)]
    store = ServingStore(url, lambda: 1_000)
    (puts,) = batches(told, [])
    assert store.apply("query", 0, puts)
    store.close()
    assert content(url)["audit"][len(told) - 1]["principal"] == "a\ufffdb"


def test_a_name_longer_than_an_index_takes_is_one_row(postgres: Server) -> None:
    """A client may choose a key of any length: it is served, and a later event about it replaces its row."""
    url, told = postgres.database(), story(1, 5)
    key = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789\\", k=6_000))
    for value in (b"old", b"new"):
        stamp = msgspec.structs.replace(told[-1][0], offset=len(told))
        put = e.KeyPut(key=key, value=value, lease=0, following=0)
        told = [*told, (stamp, put)]
    store = ServingStore(url, lambda: 1_000)
    for number, puts in enumerate(batches(told, [len(told) - 1])):
        assert store.apply("query", number, puts)
    store.close()
    assert differences(content(url), replay(told)) == []


def test_a_server_that_is_away_is_told_without_its_password() -> None:
    """The error names where it was looked for, and no secret."""
    with pytest.raises(StorageError, match=r"postgresql://me@127\.0\.0\.1:1/d") as told:
        ServingStore("postgresql://me:secret@127.0.0.1:1/d", lambda: 1)
    assert "secret" not in str(told.value)
