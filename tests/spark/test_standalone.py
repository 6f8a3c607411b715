"""The same job on a Spark cluster of its own, one master and two workers as processes, from the nodes or from a mirror:
only configuration changes.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from quorate.cli.client import Node
from quorate.cli.facts import facts
from quorate_spark import submit
from quorate_spark.source import SourceOptions, events
from tests.clusters import free_ports, gone, until
from tests.kafka_broker import kafka_broker
from tests.kafka_tools.fakes import TOPIC
from tests.mirror.beside import mirror
from tests.spark.compare import Tables, content, differences
from tests.spark.feed import Feed, feed
from tests.spark.replay import replay

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 300.0


class SparkCluster:
    """A standalone cluster on loopback; ended by process id."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.folder = folder
        self.port = free_ports(10)
        self.url = f"spark://127.0.0.1:{self.port}"
        self.env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def _start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [str(self.home / "bin/spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
            self._processes.append(subprocess.Popen(command, env=self.env, cwd=self.folder, stdout=log, stderr=log))

    def start(self) -> None:
        """Until both workers have announced themselves."""
        own = ["--host", "127.0.0.1"]
        ui = self.port + 1
        self._start("master", "master.Master", *own, "--port", str(self.port), "--webui-port", str(ui))
        for number in (1, 2):
            where = ["-d", str(self.folder / f"worker-{number}"), "--webui-port", str(ui + number)]
            self._start(f"worker-{number}", "worker.Worker", *own, "-c", "1", "-m", "768m", *where, self.url)
        until(lambda: self._workers(ui) == 2, "two workers", WAIT_S)

    def _workers(self, ui: int) -> int:
        assert all(process.poll() is None for process in self._processes)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ui}/json/", timeout=5) as answer:
                found: int = json.loads(answer.read())["aliveworkers"]
        except (OSError, json.JSONDecodeError):  # It serves its page before it serves this.
            return 0
        return found

    def submit(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``spark-submit`` of the job, with the package as a zip, to its end."""
        package = self.folder / "quorate.zip"
        with zipfile.ZipFile(package, "w") as archive:
            for source in ("services/quorate", "spark/quorate_spark"):
                for path in sorted((ROOT / source).rglob("*.py")):
                    archive.write(path, path.relative_to(ROOT / source.split("/")[0]))
        conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.memory": "768m"}
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        command = [str(self.home / "bin/spark-submit"), "--master", self.url, *options, "--py-files", str(package)]
        return subprocess.run(
            [*command, str(submit.__file__), *words],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=WAIT_S * 2,
            check=False,
        )

    def stop(self) -> None:
        """All of it, children too."""
        family = [process.pid for process in self._processes]
        for process in self._processes:
            if process.poll() is None:
                family += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(60)
        until(lambda: all(map(gone, family)), "the end of the Spark cluster", 60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """One for both tests."""
    made = SparkCluster(tmp_path_factory.mktemp("spark"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Feed]:
    """One node with some events."""
    with feed(tmp_path / "node") as made:
        made.burst(60)
        yield made


def job(nodes: str, folder: Path) -> list[str]:
    """The words of ``quorate stream``: take what is there, and end. Its store and checkpoint are in the folder."""
    folder.mkdir(exist_ok=True)
    where = ["--sink", f"sqlite:///{folder}/serving.db", "--checkpoint", f"{folder}/checkpoint"]
    return ["--nodes", nodes, *where, "--once"]


def made_by(folder: Path) -> Tables:
    """What the job has put into its store."""
    return content(f"sqlite:///{folder}/serving.db")


def test_the_same_job_runs_on_a_cluster(cluster: SparkCluster, spark: SparkSession, node: Feed, tmp_path: Path) -> None:
    """Submitted to a master with two workers, and again after more events: the serving store has each event once."""
    end = 0
    for _ in range(2):
        end = node.burst(20)
        done = cluster.submit(*job(node.kafka, tmp_path / "job"))
        assert done.returncode == 0, done.stderr[-4000:]
    executors = {path.parent.parent.name for path in cluster.folder.glob("worker-*/app-*/*")}
    assert executors == {"worker-1", "worker-2"}
    expected = [
        (row.offset, row.type) for row in events(spark, node.options(), streaming=False).sort("offset").collect()
    ]
    assert len(expected) == end
    audit = made_by(tmp_path / "job")["audit"].values()
    assert sorted((row["event_offset"], row["type"]) for row in audit) == expected


def copied(spark: SparkSession, copy: SourceOptions) -> int:
    """How many events a mirror holds; none until it has made its topic."""
    try:
        return events(spark, copy, streaming=False).count()
    except AnalysisException as error:
        if "LogError" not in str(error):
            raise
        return 0


@pytest.mark.peers
def test_the_same_job_reads_a_mirror(cluster: SparkCluster, spark: SparkSession, node: Feed, tmp_path: Path) -> None:
    """From the copy in a real Kafka by configuration alone: every table is what a replay of the node's log says."""
    end = node.burst(20)
    with kafka_broker(tmp_path / "kafka") as kafka, mirror(node.http, kafka, TOPIC, tmp_path / "mirror.log"):
        copy = SourceOptions(nodes=kafka.bootstrap, mirror=True)
        until(lambda: copied(spark, copy) >= end, "the copy is complete", WAIT_S)
        done = cluster.submit(*job(kafka.bootstrap, tmp_path / "job"), "--mirror")
        assert done.returncode == 0, done.stderr[-4000:]
    made = made_by(tmp_path / "job")
    told = [(fact.stamp, fact.event) for fact in facts(Node(node.http), 0, len(made["audit"]))]
    assert len(told) >= end
    assert differences(made, replay(told)) == []
