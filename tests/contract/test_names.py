"""Quorate answers as a name server what RocketMQ's name server does, or names.toml says why not."""

import itertools
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.wire.remoting import HeaderType
from tests.contract import names
from tests.contract.cluster import QuorateCluster
from tests.contract.deviations import differences, read, unexplained
from tests.contract.speaker import Story
from tests.peers import peer
from tests.rocketmq.stock import Stock

JAVA: dict[str, Story] = json.loads(names.GOLDEN.read_text())
ENTRIES = tomllib.loads(Path(__file__).with_name("names.toml").read_text())["deviation"]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[HeaderType, dict[str, Story]]]:
    """What one node of our own answers, in both forms of headers."""
    cluster = QuorateCluster(tmp_path_factory.mktemp("names"), nodes=1)
    try:
        cluster.raise_level(2)
        yield {form: names.stories(cluster.addresses[0], form) for form in HeaderType}
    finally:
        cluster.stop()


def test_every_answer_is_the_name_server_s_or_a_stated_deviation(
    answered: dict[HeaderType, dict[str, Story]],
) -> None:
    """Code, remark, every field and every member of the body; and each entry of names.toml is needed."""
    entries = list(itertools.chain.from_iterable(map(read, ENTRIES)))
    found = [
        line
        for stories in answered.values()
        for case, story in JAVA.items()
        for line in unexplained("names", case, story, stories[case], entries)
    ]
    assert found == []
    assert [entry for entry in entries if not entry.used] == []


@pytest.mark.oracle
@pytest.mark.peers
@pytest.mark.timeout(300)
def test_the_recorded_answers_are_what_a_name_server_says(tmp_path: Path) -> None:
    """Every case again, asked of a stock name server: a fresh one for each form, for it keeps what it was told."""
    for form in HeaderType:
        stock = Stock(tmp_path / form.name, peer("rocketmq") / "lib")
        try:
            for case, story in names.stories(stock.name_server(), form).items():
                assert story.keys() == JAVA[case].keys()
                for step, answer in story.items():
                    assert differences(JAVA[case][step], answer) == [], (form, case, step)
        finally:
            stock.stop()
