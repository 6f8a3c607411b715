"""``quorate demo``: what is refused before anything starts."""

import pytest

from quorate.cli import program


@pytest.mark.parametrize(
    "words",
    [["--sets", "0"], ["--sets", "-1"], ["--replicas", "0"], ["--every", "-1"], ["--every", "nan"], ["--for", "-0.5"]],
)
def test_what_cannot_be_played_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A demonstration has sets and replicas, and no time is negative; 0 is allowed where it means something."""
    assert program.main(["demo", *words]) == 2
    told = capsys.readouterr()
    assert told.err.splitlines()[-1].startswith(f"quorate: {words[0]} ")
    assert told.out == ""
