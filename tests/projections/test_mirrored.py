"""The same worker on a real Apache Kafka that the log is mirrored to, by configuration alone."""

import random
from pathlib import Path

import pytest

pytest.importorskip("faust", reason="projections are not installed (make setup-all)")

from tests.clusters import up
from tests.kafka_broker import kafka_broker
from tests.mirror.beside import mirror
from tests.projections.samples import VIEWS, Samples
from tests.projections.test_cluster import FULL, TOPIC, log_of, write
from tests.projections.worker import Worker, workers


@pytest.mark.peers
def test_a_worker_on_a_real_kafka_answers_as_one_on_a_node(tmp_path: Path) -> None:
    """Transactions leave holes, a killed mirror leaves an open one: the rows equal the log, and nothing is missing."""
    with kafka_broker(tmp_path / "kafka") as broker, up(tmp_path / "c", nodes=1) as cluster:
        worker, samples = Worker({"mirror": broker.bootstrap}, tmp_path / "w"), Samples(random.Random(51))
        reached = 0
        with workers(worker):
            worker.wait()
            for life in range(2):  # The mirror is killed in between, wherever it was.
                with mirror(cluster.nodes[0]["http"], broker, TOPIC, tmp_path / "mirror.log"):
                    for number in range(15):
                        reached = max(reached, write([cluster.node(0)], samples.chance, 15 * life + number))
                        samples.take(worker)
                    if life == 1:
                        assert worker.ask("/views/topics", min_offset=reached, wait_ms=30_000)[0] == 200
            told = worker.wait(ready=True, lag=0)
            assert told["end_offset"] > told["offset"] >= reached
            for view in VIEWS:
                samples.take(worker, view)
        full = samples.compare(log_of(cluster.nodes[0]["kafka"], told["offset"]))
        assert {view for view in VIEWS if full[view]} == FULL
