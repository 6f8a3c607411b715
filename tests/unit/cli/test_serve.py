"""``quorate serve``: what it accepts before a node is built."""

from pathlib import Path

import pytest

from quorate.cli import program
from quorate.cli.cluster import found


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(found(tmp_path / "c", 1, 9000)[0].config)


def test_settings_can_be_checked_without_starting(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--check`` says by its exit status whether a node would start with these settings."""
    assert program.main(["serve", "--check", "--config", config, "--set", "engine.tick_s=0.02"]) == 0
    assert program.main(["serve", "--check", "--config", config, "--set", "engine.tick_s=soon"]) == 2
    assert "engine.tick_s: " in capsys.readouterr().err


def test_a_flag_without_a_value_is_used_wrongly(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--set`` takes SECTION.KEY=VALUE."""
    assert program.main(["serve", "--check", "--config", config, "--set", "engine.tick_s"]) == 2
    assert "expected SECTION.KEY=VALUE" in capsys.readouterr().err


def test_the_environment_counts(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of a setting reaches the node's settings, also when it is wrong."""
    monkeypatch.setenv("QUORATE_NODE__ID", "7")
    assert program.main(["serve", "--check", "--config", config]) == 2
