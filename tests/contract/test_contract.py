"""Quorate answers every case as the Java controllers did, or as deviations.toml says, whichever way it is asked."""

import itertools
import json
from pathlib import Path

import pytest

from quorate.wire.remoting import HeaderType
from tests.contract.cases import CASES, POISON
from tests.contract.conftest import Answers, Way
from tests.contract.deviations import Deviation, load, read, unexplained
from tests.contract.speaker import Story

GOLDEN = Path(__file__).parent / "golden"
JAVA: dict[str, dict[str, Story]] = {
    kind: json.loads((GOLDEN / f"java-{kind}.json").read_text()) for kind in ("dledger", "jraft")
}
WAYS: list[Way] = list(itertools.product((False, True), HeaderType))
NAMES = [f"{'follower' if follower else 'leader'}-{form.name.lower()}" for follower, form in WAYS]


@pytest.mark.parametrize("way", WAYS, ids=NAMES)
@pytest.mark.parametrize("case", CASES)
def test_every_answer_is_java_s_or_a_stated_deviation(
    case: str, way: Way, answers: Answers, deviations: list[Deviation]
) -> None:
    """Code, remark, every field and every member of the body, against both kinds of Java controller."""
    ours = answers(case, way)
    for kind, java in JAVA.items():
        if case not in POISON[kind]:
            assert unexplained(kind, case, java[case], ours, deviations) == []


def test_every_deviation_is_needed(answers: Answers) -> None:
    """An entry that explains nothing is out of date, or what we answer is missing: whichever way it is asked."""
    for way in WAYS:
        entries = [entry for entry in load() if not entry.case.startswith("golden")]
        for kind, java in JAVA.items():
            for case in java:
                unexplained(kind, case, java[case], answers(case, way), entries)
        assert [entry for entry in entries if not (entry.used or entry.sometimes)] == [], way


def test_a_difference_without_an_entry_is_noticed() -> None:
    """The comparison itself can fail: each kind of difference, and an entry for something else."""
    java: Story = {"one": {"code": "0", "remark": "null"}, "two": {"code": "1"}}
    other = Deviation("c", "one", "code", "0", "5", "because")
    assert unexplained("dledger", "c", java, java, []) == []
    assert unexplained("dledger", "c", java, {"one": java["one"]}, []) == ["step 'two' on one side only"]
    ours: Story = {"one": {"code": "7", "fields.a": "b"}, "two": {"code": "1"}}
    assert unexplained("dledger", "c", java, ours, [other]) == [
        "dledger | c | one | code | java 0 | ours 7",
        "dledger | c | one | fields.a | java absent | ours b",
        "dledger | c | one | remark | java null | ours absent",
    ]
    assert other.used == 0
    told = {"code": ["0", "7"], "fields.a": ["absent", "b"], "remark": ["n…", "absent"]}
    entries = read({"case": "c", "step": "*", "answers": told, "why": "everything", "against": "dledger"})
    assert unexplained("dledger", "c", java, ours, entries) == []
    assert unexplained("jraft", "c", java, ours, entries) != []
    ours["one"]["code"] = "8"
    assert unexplained("dledger", "c", java, ours, entries) == ["dledger | c | one | code | java 0 | ours 8"]


@pytest.mark.parametrize(("path", "ours"), [("body*", "absent"), ("remark", "…"), ("remark", "null…")])
def test_what_we_answer_cannot_be_left_open(path: str, ours: str) -> None:
    """An entry is refused whose path is a pattern, or that does not say in full what ours is."""
    with pytest.raises(AssertionError):
        read({"case": "c", "step": "one", "path": path, "java": "…", "ours": ours, "why": "because"})
