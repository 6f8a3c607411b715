"""A setting of every program: one field each."""

FIELD = '    example_s: Annotated[float, Meta(description="an example")] = 1.5\n'

CHANGES = {
    "services/quorate/controller/settings.py": [
        (
            "    heartbeat_timeout_s: float = 10.0\n",
            '    example_s: float = 1.5\n    """An example."""\n    heartbeat_timeout_s: float = 10.0\n',
        )
    ],
    **{
        place: [(before, FIELD + before)]
        for place, before in {
            "projections/quorate_projections/settings.py": "    audit_period_s: Annotated[\n",
            "projections/quorate_projections/mirror/settings.py": "    read_wait_s: Annotated[",
            "spark/quorate_spark/dashboard/settings.py": "    poll_ms: Annotated[",
            "spark/quorate_spark/limits.py": "    trigger_ms: Annotated[",
        }.items()
    },
}
TEST = '''"""A new setting is there wherever settings are."""

import re
from pathlib import Path

import msgspec
import pytest

from quorate.cli.program import main
from quorate.errors import UsageError
from quorate.flags import converted
from quorate.node.settings import SettingsError, build
from quorate_projections.mirror.settings import MirrorSettings
from quorate_projections.settings import ProjectionSettings, read_settings
from quorate_spark.dashboard.settings import Settings
from quorate_spark.limits import Limits

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


def test_a_worker_of_projections_takes_it_too() -> None:
    """From the environment and from a flag."""
    assert read_settings({"QUORATE_PROJECTIONS_EXAMPLE_S": "2.5"}).example_s == 2.5
    assert read_settings({}, {"example_s": "3.5"}).example_s == 3.5


@pytest.mark.parametrize("words", [["projections", "serve"], ["mirror"], ["dashboard"], ["stream"]])
def test_every_other_program_has_the_flag(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The help names it, with its default."""
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert re.search(r"--example-s S +an example \\(1.5\\)", capsys.readouterr().out)


@pytest.mark.parametrize("kind", [ProjectionSettings, MirrorSettings, Settings, Limits])
def test_a_flag_is_converted(kind: type[msgspec.Struct]) -> None:
    """A number is taken, a word is not."""
    assert converted({"example_s": "2.5"}, kind) == {"example_s": 2.5}
    with pytest.raises(UsageError, match="example_s"):
        converted({"example_s": "soon"}, kind)
'''
WRITTEN = {"tests/unit/test_example.py": TEST}
FILES_MAX = 6
TESTS = ["tests/unit/test_example.py"]
