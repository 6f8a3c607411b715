"""Whose log is it, where does it go on, and how does it end: the reader against served logs, without Faust."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiokafka", reason="projections are not installed (make setup-all)")

from quorate.asking import UnreachedError
from quorate.resolving import resolver
from quorate_projections.folding import Folding
from quorate_projections.reader import GapError, LogReader, OtherLogError, prepare
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import RowStore
from tests import newer
from tests.batches import Record
from tests.clusters import free_ports
from tests.projections.history import History, commits, record
from tests.projections.log import HistoryLog, MirrorLog


def settings(log: HistoryLog, tmp_path: Path, **more: str) -> ProjectionSettings:
    return ProjectionSettings(nodes=log.bootstrap, data_dir=str(tmp_path), request_timeout_s=5.0, **more)  # type: ignore[arg-type]


def catch_up(log: HistoryLog, folding: Folding, tmp_path: Path, **more: str) -> bool:
    """What a worker does at its start."""

    async def run() -> bool:
        monotonic = asyncio.get_running_loop().time
        return await prepare(settings(log, tmp_path, **more), folding, monotonic, lambda _end: None, lambda: False)

    return asyncio.run(run())


@pytest.fixture(name="folding")
def _folding(tmp_path: Path) -> Iterator[Folding]:
    store = RowStore(tmp_path / "rows")
    yield Folding(store)
    store.close()


@pytest.mark.parametrize("kind", [HistoryLog, MirrorLog])
def test_a_catch_up_reads_everything_once(kind: type[HistoryLog], folding: Folding, tmp_path: Path) -> None:
    """From empty, and again from where it was, exactly the events of the log are applied, holes or not."""
    with kind() as log:
        log.append_events(700)
        assert catch_up(log, folding, tmp_path)
        assert (folding.store.position.events, folding.failed) == (log.events, None)
        log.append_events(50)
        assert catch_up(log, folding, tmp_path)
        assert folding.store.position.events == folding.applied == log.events


def newer_log(seed: int) -> HistoryLog:
    """A log that a newer build writes."""
    return HistoryLog(history=([newer.rewritten(one) for one in commit] for commit in commits(seed)))


def test_a_log_of_a_newer_build_is_caught_up_with(tmp_path: Path) -> None:
    """By its registry; also the place of a later start, which the log's first event proves."""
    with newer_log(8) as log, newer.served(newer.module().SCHEMAS) as node:
        store = RowStore(tmp_path / "rows")
        folding = Folding(store, resolver(node))
        for _ in range(2):
            log.append_events(60)
            assert catch_up(log, folding, tmp_path, node=node)
            assert (store.position.events, folding.failed) == (log.events, None)
        store.close()


def test_a_registry_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """The catch-up ends with who does not answer, nothing has failed, and it goes on when the registry is there."""
    with newer_log(9) as log:
        log.append_events(60)
        store, away = RowStore(tmp_path / "rows"), f"127.0.0.1:{free_ports(1)}"
        folding = Folding(store, resolver(away))
        with pytest.raises(UnreachedError, match=away):
            catch_up(log, folding, tmp_path, node=away)
        assert (store.position.events, folding.failed) == (0, None)
        with newer.served(newer.module().SCHEMAS) as node:
            folding = Folding(store, resolver(node))
            assert catch_up(log, folding, tmp_path, node=node)
        assert store.position.events == log.events
        store.close()


def test_an_empty_log_is_no_trouble(folding: Folding, tmp_path: Path) -> None:
    """A worker may start before the cluster's first event."""
    with HistoryLog() as log:
        assert catch_up(log, folding, tmp_path)
        assert folding.store.position.events == 0


def test_the_place_in_a_mirror_is_found_by_the_events_own_offsets(folding: Folding, tmp_path: Path) -> None:
    """Rows made from a node go on from its mirror, and back, although the Kafka offsets differ."""
    with HistoryLog(seed=2) as node, MirrorLog(seed=2) as mirror:
        node.append_commits(200)
        mirror.append_commits(260)
        assert catch_up(node, folding, tmp_path)
        assert catch_up(mirror, folding, tmp_path)
        assert folding.store.position.events == mirror.events
        assert folding.store.position.kafka > mirror.events + 200
        node.append_commits(100)
        assert catch_up(node, folding, tmp_path)
        assert folding.store.position.events == folding.store.position.kafka == node.events


def test_another_cluster_s_log_is_refused(folding: Folding, tmp_path: Path) -> None:
    """Rows of one cluster never follow the log of another, however long it is."""

    def commits() -> Iterator[list[Record]]:
        history = History(1, cluster_id="somebody-else")
        while True:
            yield [record(event, stamp) for event, stamp in history.commit()]

    with HistoryLog() as ours, HistoryLog(history=commits()) as theirs:
        ours.append_commits(20)
        catch_up(ours, folding, tmp_path)
        before = folding.store.position
        theirs.append_commits(100)
        with pytest.raises(OtherLogError, match=r"cluster somebody-else.*cluster-of-tests"):
            catch_up(theirs, folding, tmp_path)
        assert folding.store.position == before


def test_another_history_of_the_same_cluster_is_refused(folding: Folding, tmp_path: Path) -> None:
    """The event before our position must be the one our rows reflect."""
    with HistoryLog(seed=3) as ours, HistoryLog(seed=4) as theirs:
        ours.append_commits(60)
        catch_up(ours, folding, tmp_path)
        theirs.append_commits(200)
        with pytest.raises(OtherLogError, match="another history"):
            catch_up(theirs, folding, tmp_path)


def test_a_log_that_is_shorter_than_our_position_is_waited_for(folding: Folding, tmp_path: Path) -> None:
    """A node that lags is no other log: nothing is read, and later it goes on."""
    with HistoryLog(seed=5) as ahead, HistoryLog(seed=5) as lagging:
        ahead.append_commits(50)
        catch_up(ahead, folding, tmp_path)
        assert not catch_up(lagging, folding, tmp_path)
        lagging.append_commits(20)
        assert not catch_up(lagging, folding, tmp_path)
        lagging.append_commits(40)
        assert catch_up(lagging, folding, tmp_path)
        assert folding.store.position.events == folding.applied == lagging.events


def test_a_missing_event_is_a_gap(folding: Folding, tmp_path: Path) -> None:
    """Where the log itself has no event that must be there, nothing after it is applied."""

    def commits() -> Iterator[list[Record]]:
        history = History(6)
        for number in range(1000):
            commit = [record(event, stamp) for event, stamp in history.commit()]
            if number != 30:
                yield commit

    with HistoryLog(history=commits()) as log:
        log.append_commits(60)
        with pytest.raises(GapError, match="is missing"):
            catch_up(log, folding, tmp_path)
        assert 30 <= folding.store.position.events < log.events


def test_markers_at_the_end_of_a_mirror_are_no_records(folding: Folding, tmp_path: Path) -> None:
    """After the last event a mirror's end is further on; asked, it says that nothing more is there."""

    async def more(log: HistoryLog, kafka: int) -> bool:
        async with LogReader(settings(log, tmp_path), asyncio.get_running_loop().time) as reader:
            return await reader.holds_more(kafka)

    with MirrorLog(seed=7) as log:
        log.append_commits(40)
        catch_up(log, folding, tmp_path)
        position = folding.store.position
        assert position.kafka == log.log.end_offset - 1
        assert not asyncio.run(more(log, position.kafka))
        assert asyncio.run(more(log, position.kafka - 1))


def test_an_unreadable_record_stops_a_catch_up(folding: Folding, tmp_path: Path) -> None:
    """An event that is newer than this software is where the rows stand still."""
    with HistoryLog(seed=8) as log:
        log.append_commits(10)
        at = log.events
        headers = tuple((name, str(at).encode() if name == "offset" else b"9999999999999") for name, _ in HEADERS)
        log.append_records([Record(b"k", b"\x00\x00\x00\xff\xff\x00", headers, 1)])
        assert catch_up(log, folding, tmp_path)
        assert folding.failed is not None
        assert folding.failed.offset == at
        assert "schema id" in folding.failed.reason


HEADERS = record(*History(1).commit()[0]).headers
