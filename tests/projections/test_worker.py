"""A worker from outside: what it serves without a node, what it refuses, how it stands still, how it is rebuilt."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("faust", reason="projections are not installed (make setup-all)")

from quorate.events import SCHEMAS
from quorate.log_filter import LONGEST_S, RepeatFilter
from tests import newer
from tests.batches import Record
from tests.clusters import free_ports, until
from tests.projections.history import History, commits, record
from tests.projections.log import HistoryLog
from tests.projections.samples import VIEWS, Samples, fill
from tests.projections.worker import SERVE, Worker, pause, workers

READ_APIS = {18, 3, 2, 1}
"""ApiVersions, Metadata, ListOffsets, Fetch: all that a worker may ask."""
QUORATE = (sys.executable, "-m", "quorate")


def projections(*words: str) -> "subprocess.CompletedProcess[str]":
    """One command line, run to its end."""
    return subprocess.run([*QUORATE, "projections", *words], capture_output=True, text=True, timeout=60, check=False)


def test_stored_rows_are_served_without_a_node_and_a_wiped_worker_rebuilds(tmp_path: Path) -> None:
    """Before a node answers, the rows of last time are served, with their offset, and /ready says no; then it goes on.
    With its directory gone a worker has the same rows again.
    """
    port = free_ports(3)
    source = {"nodes": f"127.0.0.1:{port}"}
    worker, wiped = (Worker(source, tmp_path / name, port=port + 1 + at) for at, name in enumerate(("w", "wiped")))
    with HistoryLog(seed=21, port=port) as log, workers(worker):
        log.append_events(600)
        was = worker.wait(ready=True, offset=log.events)
        assert worker.stop() == 0
    with workers(worker):
        found = worker.wait(ready=False, offset=was["offset"])
        assert found["reason"]
        assert found["cluster_id"] == "cluster-of-tests"
        assert worker.row("controller_terms", f"{1:020d}")["offset"] == was["offset"]
        with HistoryLog(seed=21, port=port) as log, workers(wiped):
            log.append_events(900)
            fill(log)
            samples = Samples(random.Random(21))
            for each in (worker, wiped):
                each.wait(ready=True, offset=log.events)
                for view in VIEWS:
                    samples.take(each, view)
            samples.check(log)


def test_another_cluster_s_log_is_refused_and_the_old_rows_stay(tmp_path: Path) -> None:
    """Pointed at another cluster a worker says so, is not ready, and keeps serving what it has."""

    def elsewhere() -> Iterator[list[Record]]:
        history = History(1, cluster_id="somebody-else")
        while True:
            yield [record(event, stamp) for event, stamp in history.commit()]

    with HistoryLog(seed=22) as ours, HistoryLog(history=elsewhere()) as theirs:
        ours.append_events(100)
        theirs.append_events(300)
        worker = Worker({"nodes": ours.bootstrap}, tmp_path / "w")
        with workers(worker):
            worker.wait(ready=True, offset=ours.events)
            worker.stop()
        worker.source = {"nodes": theirs.bootstrap}
        with workers(worker):
            until(lambda: "somebody-else" in worker.health().get("reason", ""), "the refusal")
            status, told = worker.ask("/ready")
            assert (status, told["offset"], told["cluster_id"]) == (503, ours.events, "cluster-of-tests")
            assert told["failed"]["offset"] == ours.events
            assert worker.ask("/views/topics")[0] == 200


@pytest.mark.parametrize("more", [300, 20], ids=["longer", "shorter, and growing"])
def test_another_cluster_on_the_same_port_is_refused_while_running(tmp_path: Path, more: int) -> None:
    """A cluster made anew where the worker's was, whether it is longer already when it is first heard or grows past the
    position: no event of it is applied.
    """

    def elsewhere() -> Iterator[list[Record]]:
        history = History(1, cluster_id="somebody-else")
        history._term, history._now_ms = 50, history._now_ms + 10_000_000
        while True:
            yield [record(event, stamp) for event, stamp in history.commit()]

    worker = Worker({}, tmp_path / "w")
    with HistoryLog(seed=22) as ours:
        ours.append_events(100)
        port, end = ours.ports[0], ours.events
        worker.source = {"nodes": ours.bootstrap}
        worker.start()
        worker.wait(ready=True, offset=end)
        assert worker.process is not None
        worker.process.send_signal(signal.SIGSTOP)
    try:
        with HistoryLog(history=elsewhere(), port=port) as theirs:
            theirs.append_events(more)
            worker.process.send_signal(signal.SIGCONT)

            def refused() -> bool:
                theirs.append_commits()
                return "somebody-else" in worker.health().get("reason", "")

            until(refused, "the refusal")
            assert worker.health()["offset"] == end
    finally:
        worker.kill()


def test_an_event_that_cannot_be_folded_is_where_the_table_stands_still(tmp_path: Path) -> None:
    """It says which event and why, is not ready, serves what it has, never skips; status exits 1."""
    with HistoryLog(seed=23) as log, newer.served(SCHEMAS) as node:
        log.append_events(200)
        worker = Worker({"nodes": log.bootstrap, "node": node}, tmp_path / "w")
        with workers(worker):
            worker.wait(ready=True, offset=log.events)
            at = log.events
            good = record(*History(23).commit()[0])
            headers = tuple(
                (name, {"offset": str(at).encode(), "term": b"99999", "time_ms": b"9999999999999"}.get(name, text))
                for name, text in good.headers
            )
            log.append_records([Record(b"k", b"\x00\x00\x00\xff\xff\x00", headers, 9_999_999_999_999)])
            log.append_commits(10)
            until(lambda: worker.health().get("failed"), "it to stand still")
            status, told = worker.ask("/ready")
            assert (status, told["offset"], told["failed"]["offset"]) == (503, at, at)
            assert "schema id 65535" in told["reason"]
            assert worker.ask("/views/audit", limit=5)[1]["offset"] == at
            assert worker.ask("/views/audit", min_offset=at + 1, wait_ms=50)[0] == 504
            shown = projections("status", "--at", f"127.0.0.1:{worker.port}")
            assert shown.returncode == 1
            assert "schema id 65535" in shown.stdout


def test_a_worker_waits_for_a_registry_and_goes_on(tmp_path: Path) -> None:
    """An event of a newer version while no node answers: /ready says which schema is needed, rows stay readable, and
    when a node is there the worker goes on by itself.
    """
    port = free_ports(1)
    theirs = (
        [newer.rewritten(one) for one in commit] if number > 30 else commit for number, commit in enumerate(commits(27))
    )
    with HistoryLog(history=theirs) as log:
        log.append_commits(30)
        worker = Worker({"nodes": log.bootstrap, "node": f"127.0.0.1:{port}"}, tmp_path / "w")
        with workers(worker):
            before = worker.wait(ready=True, offset=log.events)["offset"]
            log.append_commits(3)
            until(lambda: "schema id" in worker.health()["reason"], "the schema it waits for")
            assert (worker.ask("/views/topics")[0], worker.health()["failed"]) == (200, None)
            assert worker.health()["offset"] in range(before, log.events)
            refused = projections(
                "rebuild", "--nodes", log.bootstrap, "--node", f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "r")
            )
            assert refused.returncode == 1
            assert "schema id" in refused.stderr
            with newer.served(newer.module().SCHEMAS, port):
                assert worker.wait(ready=True, offset=log.events)["failed"] is None


def test_a_rebuild_beside_a_worker_is_switched_to_and_no_answer_goes_back(tmp_path: Path) -> None:
    """While events flow the rows are made again; the worker follows to them; offsets never fall; answers stay exact."""
    with HistoryLog(seed=24) as log:
        log.append_events(1500)
        worker = Worker({"nodes": log.bootstrap}, tmp_path / "w")
        samples, offsets = Samples(random.Random(24)), [0]
        with workers(worker):
            worker.wait(ready=True)
            done = threading.Event()
            answers: list[subprocess.CompletedProcess[str]] = []

            def rebuild() -> None:
                answers.append(projections("rebuild", "--nodes", log.bootstrap, "--data-dir", str(worker.folder)))
                done.set()

            threading.Thread(target=rebuild).start()
            while not done.is_set() or worker.health()["generation"] != "g000002":
                log.append_commits(1)
                samples.take(worker)
                offsets.append(samples.taken[-1][2]["offset"])
                assert len(offsets) < 5000
            assert answers[0].returncode == 0, answers[0].stderr
            assert "g000002 is current" in answers[0].stdout
            assert offsets == sorted(offsets)
            fill(log)
            worker.wait(ready=True, offset=log.events, generation="g000002")
            assert not (worker.folder / "g000001").exists()
            for view in VIEWS:
                samples.take(worker, view)
            second = Worker({"nodes": log.bootstrap}, worker.folder).start().process
            assert second is not None
            assert second.wait(60) == 2  # One worker each.
        samples.check(log)


def test_a_rebuild_that_cannot_be_finished_changes_nothing(tmp_path: Path) -> None:
    """Without a node there is an error, exit status 1, and the rows that were current still are."""
    ended = projections("rebuild", "--nodes", f"127.0.0.1:{free_ports(1)}", "--data-dir", str(tmp_path))
    assert ended.returncode == 1
    assert not (tmp_path / "CURRENT").exists()
    assert not (tmp_path / "g000002").exists()


def test_it_is_an_ordinary_faust_app(tmp_path: Path) -> None:
    """``faust -A quorate_projections.app worker`` runs it with settings from the environment; ``tables`` lists it."""
    faust = [sys.executable, "-m", "faust", "-A", "quorate_projections.app"]
    port = free_ports(1)
    with HistoryLog(seed=25) as log:
        log.append_events(50)
        environ = os.environ | {
            "QUORATE_PROJECTIONS_NODES": log.bootstrap,
            "QUORATE_PROJECTIONS_PORT": str(port),
            "QUORATE_PROJECTIONS_DATA_DIR": str(tmp_path / "w"),
        }
        listed = subprocess.run([*faust, "tables"], env=environ, capture_output=True, text=True, timeout=60, check=True)
        assert "views" in listed.stdout
        with (tmp_path / "stderr").open("wb") as errors:
            process = subprocess.Popen([*faust, "worker"], env=environ, stdout=errors, stderr=errors)
        try:
            until(lambda: _reads(f"http://127.0.0.1:{port}/views/audit?min_offset={log.events}"), "the worker")
        finally:
            process.terminate()
            process.wait(30)


def _reads(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(json.load(answer)["rows"])
    except OSError:
        return False


def test_the_ready_line_and_the_metrics(tmp_path: Path) -> None:
    """``serve`` prints JSON when ready; /metrics is Prometheus text; only reads are asked for; SIGTERM ends it."""
    with HistoryLog(seed=26) as log:
        log.append_events(20)
        port = free_ports(1)
        words = ["--nodes", log.bootstrap, "--data-dir", str(tmp_path / "w"), "--port", str(port)]
        process = subprocess.Popen([*SERVE, *words, "--client-rack", "node-1"], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            with process.stdout:
                told = json.loads(process.stdout.readline())
            assert (told["ready"], told["http"], told["offset"]) == (True, f"127.0.0.1:{port}", log.events)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert f"quorate_projections_offset {log.events}\n" in text
            assert 'quorate_projections_changes_total{view="audit"} ' in text
            assert {api for api, _ in log.metrics[0].kafka_requests} == READ_APIS
            shown = projections("status", "--at", f"127.0.0.1:{port}", "-o", "json")
            assert (shown.returncode, json.loads(shown.stdout)[0]["lag"]) == (0, 0)
        finally:
            process.terminate()
            assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "nowhere"), "'nowhere' is not HOST:PORT"),
        (("--host", "0.0.0.0"), "not loopback"),
        (("--port", "x"), "port: Expected `int`"),
    ],
)
def test_wrong_settings_stop_a_worker_before_it_starts(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """The problem is named, the exit status is 2, nothing was made."""
    ended = projections("serve", "--data-dir", str(tmp_path / "w"), *words)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert not (tmp_path / "w").exists()


def test_a_worker_ends_soon_whatever_is_gone(tmp_path: Path) -> None:
    """Its nodes dead, or hanging, or never there: SIGTERM ends it within five seconds, with 0 and no traceback; and
    what is away is told a few times, not with every try.
    """
    away = Worker({"nodes": f"127.0.0.1:{free_ports(1)}"}, tmp_path / "away")
    dead, hung = Worker({}, tmp_path / "dead"), Worker({}, tmp_path / "hung")
    with HistoryLog(seed=23) as hanging, HistoryLog(seed=23) as dying:
        dead.source, hung.source = {"nodes": dying.bootstrap}, {"nodes": hanging.bootstrap}
        with workers(dead, hung, away):
            for worker, log in ((dead, dying), (hung, hanging)):
                log.append_events(50)
                worker.wait(ready=True, offset=log.events)
            away.wait(ready=False)
            for server in dying.servers:
                dying.do(server.stop())
            release = threading.Event()
            hanging._loop.call_soon_threadsafe(release.wait, 60)
            pause(3)
            for worker in (dead, hung, away):
                begun = time.monotonic()
                assert worker.stop() == 0
                assert time.monotonic() - begun < 5, worker.folder
                told = worker.stderr.read_text()
                assert "Traceback" not in told
                assert len(told.splitlines()) < 12, told
            release.set()


def test_what_a_library_repeats_is_said_ever_more_seldom() -> None:
    """Each text in pauses of its own, twice as long each time up to the longest; after a long silence it is news."""
    quiet = RepeatFilter()

    def said(text: str, at: float) -> bool:
        record = logging.LogRecord("aiokafka", logging.ERROR, "", 0, text, ("node", 1), None)
        record.created = at
        return quiet.filter(record)

    assert [at for at in range(100) if said("cannot connect to %s", 1000.0 + at)] == [0, 2, 6, 14, 30, 62]
    assert said("another", 1001.0)
    assert not said("cannot connect to %s", 1100.0)
    pauses = [at for at in range(2000, 6000) if said("for long %s", float(at))]
    assert pauses[-1] - pauses[-2] == LONGEST_S
    assert [said("for long %s", at) for at in (20_000.0, 20_001.0, 20_002.0)] == [True, False, True]
