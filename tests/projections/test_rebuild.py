"""A rebuild against served logs, without processes: what it replaces, and what a worker makes of it."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("aiokafka", reason="projections are not installed (make setup-all)")

from quorate.errors import StorageError
from quorate_projections.answers import Answers
from quorate_projections.generations import Generations
from quorate_projections.materialized_views import MaterializedViews
from quorate_projections.rebuild import RebuildError, rebuild
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import stored_position
from quorate_projections.table import EventTable
from quorate_projections.views import VIEWS
from tests.batches import Record
from tests.projections.history import History, record
from tests.projections.log import HistoryLog


def settings(log: HistoryLog, folder: Path) -> ProjectionSettings:
    return ProjectionSettings(
        nodes=log.bootstrap,
        data_dir=str(folder),
        request_timeout_s=5.0,
        page_max=100_000,
        page_bytes_max=1 << 30,
        scan_max=100_000,
    )


def make(log: HistoryLog, folder: Path) -> int:
    """Rebuild from a log; how many events the rows reflect."""
    return rebuild(settings(log, folder), lambda _at, _end: None, time.monotonic).store.position.events


def elsewhere() -> Iterator[list[Record]]:
    """The commits of another cluster."""
    history = History(1, cluster_id="somebody-else")
    while True:
        yield [record(event, stamp) for event, stamp in history.commit()]


def unchanged(folder: Path, name: str, events: int) -> bool:
    """Are these rows current, and the only ones?"""
    position = stored_position(folder / name)
    names = [found.name for found in folder.glob("g*")]
    return (Generations(folder).current, names, position and position.events) == (name, [name], events)


def test_a_rebuild_of_the_same_log_replaces_the_rows(tmp_path: Path) -> None:
    """Also when the log has grown meanwhile; the rows before it go."""
    with HistoryLog(seed=5) as log:
        log.append_events(100)
        assert make(log, tmp_path) == log.events
        log.append_events(50)
        assert make(log, tmp_path) == log.events
        assert unchanged(tmp_path, "g000003", log.events)


def test_a_rebuild_of_another_log_changes_nothing(tmp_path: Path) -> None:
    """Of another cluster, or of another history of the same: the refusal says how one begins with another log."""
    with HistoryLog(seed=5) as ours, HistoryLog(history=elsewhere()) as theirs, HistoryLog(seed=6) as restored:
        ours.append_events(100)
        theirs.append_events(300)
        restored.append_events(300)
        make(ours, tmp_path)
        for log, said in ((theirs, "somebody-else.*delete"), (restored, "another history.*delete")):
            with pytest.raises(RebuildError, match=said):
                make(log, tmp_path)
            assert unchanged(tmp_path, "g000002", ours.events)


def test_a_rebuild_of_a_log_that_lacks_events_changes_nothing(tmp_path: Path) -> None:
    """Whether it has some of those reflected, or none, or there were no rows before."""
    with HistoryLog(seed=5) as whole, HistoryLog(seed=5) as part, HistoryLog() as empty:
        whole.append_events(100)
        part.append_events(50)
        with pytest.raises(RebuildError, match="has no events"):
            make(empty, tmp_path)
        assert not (tmp_path / "CURRENT").exists()
        make(whole, tmp_path)
        for log in (part, empty):
            with pytest.raises(RebuildError, match=f"ends before the {whole.events} events"):
                make(log, tmp_path)
            assert unchanged(tmp_path, "g000002", whole.events)


def test_rows_that_cannot_be_read_are_no_reason_against_a_rebuild(tmp_path: Path) -> None:
    """A damaged directory is what a rebuild is for."""
    (tmp_path / "g000001").mkdir()
    (tmp_path / "g000001" / "CURRENT").write_text("what is this\n")
    with HistoryLog(seed=5) as log:
        log.append_events(100)
        assert make(log, tmp_path) == log.events


def test_a_worker_goes_on_beside_rows_of_another_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are current, as an older build left them: they are told of once, never served, and its own still are."""
    with HistoryLog(seed=5) as ours, HistoryLog(history=elsewhere()) as theirs:
        ours.append_events(100)
        theirs.append_events(300)
        make(theirs, tmp_path)
        (tmp_path / "CURRENT").unlink()
        views = MaterializedViews(settings(ours, tmp_path), lambda: 0, lambda: None)
        views.generations.switch("g000002")
        log = logging.getLogger("tests.rebuild")
        worker = SimpleNamespace(materialized_views=views, should_stop=False, _ignored="", log=log)
        for _ in range(2):
            asyncio.run(EventTable._follow_rebuild(cast(EventTable, worker)))
        assert views.generation == "g000001"
        assert views.folding.failed is None
        (warned,) = [line.getMessage() for line in caplog.records if line.name == log.name]
        assert "generation g000002 is not served" in warned
        assert "somebody-else" in warned
        views.close()


def test_flipped_bits_in_the_rows_are_told_and_a_rebuild_mends_them(tmp_path: Path) -> None:
    """What is answered is what was written, or names the damage and the remedy; no page ends early without a word."""
    with HistoryLog(seed=5) as log:
        log.append_events(2000)
        make(log, tmp_path)
        whole = all_pages(settings(log, tmp_path))
        table = max((tmp_path / "g000002").glob("*.sst"), key=lambda path: path.stat().st_size)
        sound, told = table.read_bytes(), 0
        for at in random.Random(5).sample(range(len(sound)), 24):
            table.write_bytes(sound[:at] + bytes([sound[at] ^ 16]) + sound[at + 1 :])
            found = all_pages(settings(log, tmp_path))
            assert found in (whole, {"storage"}), at
            told += found == {"storage"}
        assert told > 12
        assert make(log, tmp_path) == log.events
        assert all_pages(settings(log, tmp_path)) == whole


def all_pages(chosen: ProjectionSettings) -> dict[str, list[str]] | set[str]:
    """All rows of all views; or what the damage is called, once a reason names it and its remedy."""
    try:
        views = MaterializedViews(chosen, lambda: 0, lambda: None)
    except StorageError as error:
        return {"storage"} if "quorate projections rebuild" in str(error) else {str(error)}
    answers, found = Answers(views), dict[str, list[str]]()
    views.trouble = ""
    for view in VIEWS:
        page = json.loads(answers.page(view.name, {"limit": "100000"}).body)
        if "error" in page:
            assert views.folding.failed is not None
            assert views.folding.failed.reason == page["error"]["message"]
            assert "g000002" in page["error"]["message"]
            assert "quorate projections rebuild" in page["error"]["message"]
            assert json.loads(answers.ready().body)["failed"] is not None
            views.close()
            return {page["error"]["code"]}
        found[view.name] = [json.dumps(row) for row in page["rows"]]
    views.close()
    return found
