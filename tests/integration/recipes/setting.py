"""A setting: one field; at a node and at a projections worker the same."""

CHANGES = {
    "services/quorate/controller/settings.py": [
        (
            "    heartbeat_timeout_s: float = 10.0\n",
            '    example_s: float = 1.5\n    """An example."""\n    heartbeat_timeout_s: float = 10.0\n',
        )
    ],
    "projections/quorate_projections/settings.py": [
        (
            "    audit_period_s: Annotated[\n",
            '    example_s: Annotated[Seconds, Meta(description="an example")] = 1.5\n    audit_period_s: Annotated[\n',
        )
    ],
}
TEST = '''"""A new setting is there wherever settings are."""

from pathlib import Path

import pytest

from quorate.cli.program import main
from quorate.node.settings import SettingsError, build
from quorate_projections.settings import read_settings

NODE = {"node": {"id": 1, "data_dir": "d"}, "cluster": {"id": "c"}}


def problems(environ: dict[str, str], flags: dict[str, str]) -> str:
    """What is wrong with these settings of a node."""
    with pytest.raises(SettingsError) as raised:
        build(NODE | {"nonsense": {}}, environ, flags, Path())
    return str(raised.value)


def test_a_node_takes_it_from_the_environment_and_from_a_flag() -> None:
    """A number is taken, a word is not, and a typing error is told the right name."""
    assert "example_s" not in problems({"QUORATE_CONTROLLER__EXAMPLE_S": "2.5"}, {})
    assert "controller.example_s" in problems({"QUORATE_CONTROLLER__EXAMPLE_S": "soon"}, {})
    assert "example_s" not in problems({}, {"controller.example_s": "2.5"})
    assert "example_s" in problems({}, {"controller.exampel_s": "2.5"})


def test_a_worker_of_projections_takes_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    """From the environment and from a flag, which the help names."""
    assert read_settings({"QUORATE_PROJECTIONS_EXAMPLE_S": "2.5"}).example_s == 2.5
    assert read_settings({}, {"example_s": "3.5"}).example_s == 3.5
    with pytest.raises(SystemExit):
        main(["projections", "serve", "--help"])
    assert "--example-s" in capsys.readouterr().out
'''
WRITTEN = {"tests/unit/test_example.py": TEST}
FILES_MAX = 3
TESTS = ["tests/unit/test_example.py"]
