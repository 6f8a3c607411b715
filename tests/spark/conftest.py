"""One SparkSession for all tests of the room: starting one takes seconds, a warm one runs a query in two."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.peers import PEERS, REASON, present

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to the garbage collector and warns of what it will change; neither is ours to mend."""
    for item in items:
        if item.path.is_relative_to(HERE):
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
            for kind in ("ResourceWarning", "DeprecationWarning", "FutureWarning", "UserWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Two threads, UTC, the Kafka connector's jars if they were fetched; skips by name without Java or PySpark."""
    pytest.importorskip("pyspark", reason=f"{REASON}pyspark (make setup-all)")
    from quorate.errors import UsageError
    from quorate_spark.session import session

    try:
        started = session("local[2]", "tests", jars=sorted((PEERS / "spark").glob("*.jar")) if present("spark") else ())
    except UsageError as error:
        pytest.skip(f"{REASON}java ({error})")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def spark_is_possible() -> None:
    """For tests that start Spark as a process of its own: a machine without Java or PySpark skips, by name."""
    pytest.importorskip("pyspark", reason=f"{REASON}pyspark (make setup-all)")
    from quorate.errors import UsageError
    from quorate_spark.session import require_java

    try:
        require_java()
    except UsageError as error:
        pytest.skip(f"{REASON}java ({error})")
