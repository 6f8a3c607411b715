"""A SparkSession for one machine, or for a cluster by its master's URL, set up the way the facts want it.

Rules: time is UTC; one shuffle partition unless told otherwise, for the state of a controller is small; nothing listens
off loopback in local mode; Python workers run this interpreter. A machine without Java is told what to install.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from quorate.errors import UsageError

JAVA_LEAST = 17
"""Spark 4 runs on this version of Java and later ones."""
LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Checkpoint file manager for a local disk: half the default's time per batch. Not for object storage."""
PARTITIONS = "spark.sql.shuffle.partitions"


def session(
    master: str = "local[2]",
    app: str = "quorate",
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process: started, or the one there is. Raises UsageError on a machine without Java.

    ``master`` empty = the one ``spark-submit`` was told, with its Python for the workers.
    """
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        chosen |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
        }
    if jars:
        chosen["spark.jars"] = ",".join(str(jar) for jar in jars)
    builder = SparkSession.builder.appName(app)
    if master:
        builder = builder.master(master)
    for name, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    if not spark.sparkContext.getConf().contains(PARTITIONS):  # Above it would overrule ``spark-submit --conf``.
        spark.conf.set(PARTITIONS, "1")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def java() -> Path | None:
    """The ``java`` Spark would start: that of ``JAVA_HOME``, else the one on the path; None when there is neither."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    return Path(program) if program else None


def require_java() -> None:
    """Raises UsageError, with what to do about it, unless there is a Java that Spark can run on."""
    advice = f"install Java {JAVA_LEAST} or later (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
    program = java()
    if program is None:
        raise UsageError(f"Spark needs Java and there is none: {advice}; everything but Spark works without")
    process = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    version = next(iter(process.stderr.split('"')[1:2]), "")
    if process.returncode != 0 or not version:
        raise UsageError(f"{program} does not run: {advice}")
    if int(version.removeprefix("1.").split(".")[0].split("-")[0]) < JAVA_LEAST:
        raise UsageError(f"Spark needs a newer Java than the {version} of {program}: {advice}")
