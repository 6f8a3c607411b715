"""The Java controllers themselves, asked again: what is recorded of them is what they answer."""

import json
from pathlib import Path

import pytest

from quorate.wire.remoting import HeaderType
from tests.contract.deviations import differences
from tests.contract.record import answers_of
from tests.peers import peer
from tests.rocketmq.stock import JavaControllers, Stock

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.oracle
@pytest.mark.peers
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["dledger", "jraft"])
def test_the_recorded_answers_are_what_java_says(kind: str, tmp_path: Path) -> None:
    """Every case, with JSON and with binary headers, against three controllers of each kind."""
    recorded = json.loads((GOLDEN / f"java-{kind}.json").read_text())
    stock = Stock(tmp_path, peer("rocketmq") / "lib")
    try:
        controllers = JavaControllers(stock, kind).addresses
        for header_type in HeaderType:
            stories = answers_of(kind, controllers, header_type)
            assert stories.keys() == recorded.keys()
            for case, story in stories.items():
                assert story.keys() == recorded[case].keys()
                for step, answer in story.items():
                    assert differences(recorded[case][step], answer) == [], (header_type, case, step)
    finally:
        stock.stop()
