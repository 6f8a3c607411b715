"""The Java controllers themselves, asked again: what is recorded of them is what they answer."""

from pathlib import Path

import pytest

from quorate.wire.remoting import HeaderType
from tests.contract.deviations import differences
from tests.contract.record import JARS, KINDS, answers_of, changed, changes, recorded
from tests.contract.speaker import Story
from tests.peers import peer
from tests.rocketmq.stock import JavaControllers, Stock


@pytest.mark.oracle
@pytest.mark.peers
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", JARS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_recorded_answers_are_what_java_says(kind: str, version: str, tmp_path: Path) -> None:
    """Every case, with JSON and with binary headers, against three controllers of each kind, of both versions."""
    expected = recorded(kind, version)
    stock = Stock(tmp_path, peer(JARS[version]) / "lib")
    try:
        controllers = JavaControllers(stock, kind).addresses
        for header_type in HeaderType:
            stories = answers_of(kind, controllers, header_type, version)
            assert stories.keys() == expected.keys()
            for case, story in stories.items():
                assert story.keys() == expected[case].keys()
                for step, answer in story.items():
                    assert differences(expected[case][step], answer) == [], (header_type, case, step)
    finally:
        stock.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_recorded_of_the_newer_is_told_of_the_older(kind: str) -> None:
    """Each difference names what the older one is recorded with."""
    assert recorded(kind, "5.5") != {case: recorded(kind, "5.3")[case] for case in recorded(kind, "5.5")}


def test_a_newer_version_is_the_older_one_and_what_it_answers_otherwise() -> None:
    """Each kind of difference is kept, and comes back; one that is not of the older one is noticed."""
    before: dict[str, Story] = {
        "c": {"one": {"code": "0", "gone": "x"}, "two": {"code": "1"}},
        "d": {"one": {"code": "2"}},
    }
    after: dict[str, Story] = {
        "c": {"one": {"code": "7", "new": "y"}, "two": {"code": "1"}},
        "d": {"one": {"code": "2"}},
    }
    found = changes(before, after)
    assert found == {"c": {"one": {"code": ["0", "7"], "gone": ["x", "absent"], "new": ["absent", "y"]}}}
    assert changed(before, found) == after
    assert before["c"]["one"]["code"] == "0"
    with pytest.raises(AssertionError):
        changed(after, found)
