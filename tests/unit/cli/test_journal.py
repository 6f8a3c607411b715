"""``quorate journal``: what is said before a node is asked."""

import pytest

from quorate.cli import program
from tests.unit.cli.served import serving


@pytest.mark.parametrize("name", ["orders", "orders/", "/3", "orders/03"])
def test_what_is_no_segment_is_told_as_an_election_of_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``why`` says that it is no segment's name, in the words of the rules, status 1; nothing is asked."""
    with serving() as node:
        assert program.main(["journal", "why", name, "--node", node.address]) == 1
        assert node.asked == []
    told = f"quorate: BadSegmentName: {name!r} is no segment's name; one is like orders/3\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("action", ["describe", "why", "elect"])
def test_an_empty_name_is_none(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is used wrongly, as without a name; nothing is asked."""
    with serving() as node:
        assert program.main(["journal", action, "", "--node", node.address]) == 2
        assert node.asked == []
    assert f"journal {action}: of what?" in capsys.readouterr().err
