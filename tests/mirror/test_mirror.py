"""The mirror, with real peers: a three-node cluster here, an Apache Kafka there, and death all around."""

import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from quorate_projections.mirror.kafka import MirrorTopic, prepare_topic
from quorate_projections.mirror.ports import Event, FencedError, MirrorError, NodeReport
from quorate_projections.mirror.settings import MirrorSettings
from tests.clusters import QUORATE, Started, until, up
from tests.kafka_broker import KafkaBroker, kafka_broker
from tests.kafka_tools.conftest import log, put_topic

TOPIC = "quorate.metadata.events"
TOPICS = 150


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One Apache Kafka for the module."""
    with kafka_broker(tmp_path_factory.mktemp("broker") / "kafka") as started:
        yield started


class Mirror:
    """``quorate mirror`` beside one node, as a process."""

    def __init__(self, cluster: Started, index: int, broker: KafkaBroker, topic: str, errors: Path) -> None:
        words = ["mirror", "--to", broker.bootstrap, "--node", cluster.nodes[index]["http"], "--topic", topic]
        quick = ["--batch-events-max", "20", "--back-off-s", "0.2", "--transaction-timeout-s", "5", "--deadline-s", "8"]
        self._words = [*QUORATE, *words, *quick]
        self._errors = errors
        self.start()

    def start(self) -> None:
        """Again after a kill."""
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, stderr=errors)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def mirrors(cluster: Started, broker: KafkaBroker, topic: str, folder: Path) -> Iterator[list[Mirror]]:
    """One beside each node."""
    started = [Mirror(cluster, k, broker, topic, folder / f"mirror{k}.log") for k in range(len(cluster.nodes))]
    try:
        yield started
    finally:
        for mirror in started:
            if mirror.process.poll() is None:
                mirror.end(signal.SIGKILL)


def committed(broker: KafkaBroker, topic: str) -> list[tuple[int, bytes, bytes]]:
    """(event offset, key, value) of every committed record, in the target's order."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    from tests.consumed import record_of

    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[tuple[int, bytes, bytes]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(10)
            assert message is not None, "the target does not answer"
            if (error := message.error()) is not None:
                assert error.code() in {KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART}
                return found
            record = record_of(message)
            assert record.key is not None
            assert record.value is not None
            found.append((int(dict(record.headers)["offset"]), record.key, record.value))
    finally:
        consumer.close()


def _longer(broker: KafkaBroker, than: int) -> bool:
    return len(committed(broker, TOPIC)) > than


def offsets_in(broker: KafkaBroker, topic: str) -> list[int]:
    """Of the committed events, in the target's order."""
    return [offset for offset, _, _ in committed(broker, topic)]


def unlimited(broker: KafkaBroker, topic: str) -> bool:
    """Does the target keep a topic for ever? Not so while it does not know it yet."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        return bool(admin.describe_configs([resource])[resource].result(10)["retention.ms"].value == "-1")
    except KafkaException:
        return False


def leader(cluster: Started) -> int:
    """Index of the node that leads."""
    from quorate.gateway.http.answers import Quorum

    found = cluster.node(0).get("/v1/quorum", Quorum).leader
    return next(k for k, node in enumerate(cluster.nodes) if node["id"] == found)


def expected(cluster: Started) -> list[int]:
    """Every event offset there is."""
    return [event["offset"] for event in log(cluster)]


@pytest.mark.peers
def test_exact_through_kills_and_zombies(broker: KafkaBroker, tmp_path: Path) -> None:
    """Mirrors killed in the middle of transactions, a paused one that wakes up as a zombie, and moving leaders leave a
    target that is gapless, unique and ordered under read_committed.
    """
    chance = random.Random(7)
    with up(tmp_path / "cluster") as cluster, mirrors(cluster, broker, TOPIC, tmp_path) as running:
        done = threading.Event()

        def write() -> None:
            made = 0
            while made < TOPICS:
                with suppress(urllib.error.URLError, OSError):  # The leader moves meanwhile: asked again.
                    put_topic(cluster, made % 3, f"topic-{made}")
                    made += 1
            done.set()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        for turn in range(4):
            until(partial(_longer, broker, 10 * turn), "the mirror copies")
            here = running[leader(cluster)]
            if turn % 2:
                here.process.send_signal(signal.SIGSTOP)
                zombie = here.process
                _hand_over(cluster, chance)
                seen = len(committed(broker, TOPIC))
                until(lambda: done.is_set() or _longer(broker, seen), "another mirror copies")  # noqa: B023 - used at once
                zombie.send_signal(signal.SIGCONT)
            else:
                here.end(signal.SIGKILL)
                here.start()
        writer.join(60)
        assert done.is_set(), "the writer did not end"
        offsets = expected(cluster)
        until(lambda: len(committed(broker, TOPIC)) >= len(offsets), "the target has everything")
        found = committed(broker, TOPIC)
        assert [offset for offset, _, _ in found] == offsets
        assert all(mirror.end() == 0 for mirror in running)


def _hand_over(cluster: Started, chance: random.Random) -> None:
    """The leader's process stops for longer than an election takes, so that another leads."""
    index = leader(cluster)
    import psutil

    process = psutil.Process(cluster.nodes[index]["pid"])
    process.suspend()
    try:
        other = cluster.node((index + 1) % 3)
        from quorate.gateway.http.answers import Quorum

        until(
            lambda: other.get("/v1/quorum", Quorum).leader not in {None, cluster.nodes[index]["id"]},
            "another node leads",
        )
    finally:
        process.resume()


@pytest.mark.peers
def test_two_at_once_fence_each_other(broker: KafkaBroker, tmp_path: Path) -> None:
    """Two mirrors beside one leader take the topic from each other again and again; the target stays exact."""
    topic = "fenced"
    with up(tmp_path / "cluster", nodes=1) as cluster:
        pair = [Mirror(cluster, 0, broker, topic, tmp_path / f"mirror{k}.log") for k in range(2)]
        try:
            number = 0

            def fenced() -> bool:
                nonlocal number
                put_topic(cluster, 0, f"topic-{number}")
                number += 1
                told = [(tmp_path / f"mirror{k}.log").read_text() for k in range(2)]
                assert [mirror.process.poll() for mirror in pair] == [None, None], told
                return any("took over" in text for text in told)

            until(fenced, "one mirror is fenced by the other")
            assert pair[0].end(signal.SIGKILL) != 0
            until(lambda: offsets_in(broker, topic) == expected(cluster), "the copy is whole")
            assert pair[1].end() == 0
        finally:
            for mirror in pair:
                if mirror.process.poll() is None:
                    mirror.end(signal.SIGKILL)


@pytest.mark.peers
def test_fenced_at_the_very_end_of_a_transaction(broker: KafkaBroker) -> None:
    """Whenever another takes over, also between the last record and the commit, a mirror is told so, nothing of it is
    committed, and it lets go without complaint.
    """
    from confluent_kafka import Consumer, TopicPartition

    settings = MirrorSettings(topic="fenced-late")
    standing = NodeReport(leads=True, cluster_id="c", kafka=broker.bootstrap, term=1)
    first, second = (partial(MirrorTopic, standing, broker.bootstrap, settings, time.monotonic) for _ in range(2))
    mine = first()
    seen = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test", "isolation.level": "read_uncommitted"})

    def arrived() -> bool:
        return seen.get_watermark_offsets(TopicPartition(settings.topic, 0), timeout=10)[1] > 0

    def overtaken() -> Iterator[Event]:
        yield Event(0, b"key", b"value", (("offset", b"0"),), 1)
        until(arrived, "the record is in the target")
        theirs.append(second())

    theirs: list[MirrorTopic] = []
    try:
        with pytest.raises(FencedError):
            mine.write(overtaken())
        mine.close()
        assert committed(broker, settings.topic) == []
        assert theirs[0].first_and_last() is None
    finally:
        seen.close()
        for target in theirs:
            target.close()


@pytest.mark.peers
def test_what_kafkas_client_refuses_is_told(broker: KafkaBroker) -> None:
    """A setting that only the client knows to be wrong is an error of the copy, by the client's name, and no crash."""
    settings = MirrorSettings(topic="refused-setting", transaction_timeout_s=0.01)
    standing = NodeReport(leads=True, cluster_id="c", kafka=broker.bootstrap, term=1)
    with pytest.raises(MirrorError, match=r"opening the target: .*transaction\.timeout\.ms"):
        MirrorTopic(standing, broker.bootstrap, settings, time.monotonic)


@pytest.mark.peers
def test_another_clusters_log_is_refused(broker: KafkaBroker, tmp_path: Path) -> None:
    """A mirror pointed at a topic that holds another cluster's log ends with status 1 and leaves it as it was."""
    topic = "refused"
    before: list[tuple[int, bytes, bytes]] = []
    for name in ("one", "two"):
        with up(tmp_path / name, nodes=1) as cluster:
            mirror = Mirror(cluster, 0, broker, topic, tmp_path / f"{name}.log")
            try:
                if name == "one":
                    until(lambda: len(committed(broker, topic)) >= len(expected(cluster)), "the copy")
                    before = committed(broker, topic)
                    assert before
                    assert mirror.end() == 0
                else:
                    assert mirror.process.wait(30) == 1
                    assert "another than the cluster's" in (tmp_path / "two.log").read_text()
                    assert committed(broker, topic) == before
            finally:
                if mirror.process.poll() is None:
                    mirror.end(signal.SIGKILL)


@pytest.mark.peers
def test_the_target_dies_and_comes_back(tmp_path: Path) -> None:
    """While the target is away nothing is lost; when it is back the copy goes on by itself."""
    with kafka_broker(tmp_path / "kafka") as other, up(tmp_path / "cluster", nodes=1) as cluster:
        mirror = Mirror(cluster, 0, other, TOPIC, tmp_path / "mirror.log")
        try:
            until(lambda: len(committed(other, TOPIC)) > 0, "the copy begins")
            other.kill()
            for number in range(5):
                put_topic(cluster, 0, f"while-away-{number}")
            other.start()
            until(
                lambda: [offset for offset, _, _ in committed(other, TOPIC)] == expected(cluster), "the copy is whole"
            )
            assert mirror.end() == 0
        finally:
            if mirror.process.poll() is None:
                mirror.end(signal.SIGKILL)


@pytest.mark.peers
def test_a_kafka_that_makes_topics_by_itself_does_not_make_this_one(tmp_path: Path) -> None:
    """Where Kafka makes what topics are asked for, its default, the target is still the mirror's: without expiry."""
    with kafka_broker(tmp_path / "kafka", automatic=True) as eager:
        for topic in ("one", "two", "three"):
            prepare_topic(eager.bootstrap, MirrorSettings(topic=topic))
            until(partial(unlimited, eager, topic), f"{topic} keeps everything", 10)


def test_a_missing_target_is_a_usage_error() -> None:
    """Without ``--to`` the command explains itself and exits with 2."""
    done = subprocess.run([sys.executable, "-m", "quorate", "mirror"], capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert b"--to" in done.stderr
