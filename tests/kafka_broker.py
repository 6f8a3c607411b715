"""A real Apache Kafka (KRaft, one node) for tests, from the jars that ``make peers`` fetched into ``.peers/kafka``.

Rules: everything is on loopback and in the test's own directory; the process is ended by its id.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clusters import free_ports, until
from tests.peers import peer

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={home}/data
auto.create.topics.enable={automatic}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
log.cleaner.dedupe.buffer.size=2097152
"""
LOGGING = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
"""
START_TIMEOUT_S = 60.0
JVM = ("-Xms128m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class KafkaBroker:
    """Started, and started again after ``kill``, on the same data. ``automatic``: it makes any topic asked for."""

    def __init__(self, home: Path, *, automatic: bool = False) -> None:
        self._jars = f"{peer('kafka')}/*"
        self._home = home
        self.port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        (home / "log4j2.properties").write_text(LOGGING)
        (home / "server.properties").write_text(
            PROPERTIES.format(
                port=self.port, controller=self.port + 1, home=home.resolve(), automatic=str(automatic).lower()
            )
        )
        cluster = self._tool("kafka.tools.StorageTool", "random-uuid").strip()
        self._tool(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", f"{home}/server.properties"
        )

    def _java(self, main: str, *arguments: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self._home}/log4j2.properties"
        return ["java", *JVM, logging, "-cp", self._jars, main, *arguments]

    def _tool(self, main: str, *arguments: str) -> str:
        done = subprocess.run(self._java(main, *arguments), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{main} {arguments}: {done.stderr[-2000:]}"
        return done.stdout

    def start(self) -> None:
        """Until it takes connections."""
        with (self._home / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", f"{self._home}/server.properties"),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"KAFKA_HEAP_OPTS": ""},
            )
        until(self._serves, "Kafka takes connections", START_TIMEOUT_S)

    def _serves(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        assert self._process is not None
        assert self._process.poll() is None, (self._home / "out.log").read_text()[-3000:]
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            time.sleep(0.2)
            return False

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not do."""
        self._end(signal.SIGTERM)

    def _end(self, with_signal: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(with_signal)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


@contextmanager
def kafka_broker(home: Path, *, automatic: bool = False) -> Iterator[KafkaBroker]:
    """One for the length of a ``with``."""
    broker = KafkaBroker(home, automatic=automatic)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
