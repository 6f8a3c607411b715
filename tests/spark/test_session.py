"""The session, and what a machine without Java is told."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorate.errors import UsageError
from quorate_spark import session


def test_a_session_computes(spark: SparkSession) -> None:
    """The session of the tests runs a job."""
    assert spark.range(10).count() == 10
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_machine_without_java_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java: one sentence that says what to install, and that the rest works without."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"install Java 17.*everything but Spark works"):
        session.session()


@pytest.mark.parametrize(
    ("version", "wrong"), [("1.8.0_392", True), ("11.0.2", True), ("17.0.15", False), ("21-ea", False)]
)
def test_an_old_java_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, wrong: bool) -> None:
    """Java before 17 is refused with its version; 17 and later are taken."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if wrong:
        with pytest.raises(UsageError, match="newer Java"):
            session.require_java()
    else:
        session.require_java()
