"""Quorate answers every case as Debian's etcd does, or as deviations.toml says, whichever node is asked."""

import copy
from pathlib import Path

import pytest

from tests.etcd.cases import CASES
from tests.etcd.conftest import WAYS, Told
from tests.etcd.deviations import Deviation, load, of_the_docs, read, unexplained
from tests.etcd.record import load as recorded
from tests.etcd.teller import Story

ETCD = recorded()
DOCS = Path(__file__).resolve().parents[2] / "docs/grpc.md"


def test_what_is_recorded_is_what_is_asked() -> None:
    """Every case has etcd's answers, and there is no answer without a case; there are as many as were promised."""
    assert ETCD["leader"].keys() == ETCD["follower"].keys() == CASES.keys()
    assert len(CASES) >= 150


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_every_answer_is_etcd_s_or_a_stated_deviation(
    case: str, way: str, told: Told, deviations: list[Deviation]
) -> None:
    """Codes, texts and every field of every answer, in a story of requests."""
    assert unexplained(way, case, ETCD[way][case], told(way, case), deviations) == []


@pytest.mark.timeout(300)
def test_every_deviation_is_needed(told: Told) -> None:
    """A line that explains nothing is out of date, or what we answer is missing."""
    entries = load()
    for way in WAYS:
        for case in CASES:
            unexplained(way, case, ETCD[way][case], told(way, case), entries)
    assert [entry for entry in entries if not entry.used] == []


def test_every_difference_of_the_docs_has_its_line() -> None:
    """Each point of docs/grpc.md is brought out by a case that differs, or says why none can; no entry is left over,
    and the docs count the cases as they are.
    """
    section = DOCS.read_text().partition("## Where it differs from etcd\n")[2].partition("\n## ")[0]
    before, *points = section.split("\n* ")
    points[-1] = points[-1].partition("\n\n")[0]
    points = [" ".join(point.split()) for point in points]
    assert f"{len(CASES)} stories" in before
    documented, untold = of_the_docs()
    words = [*(entry.what for entry in documented), *(entry.what for entry in untold)]
    assert [what for what in words if sum(what in point for point in points) != 1] == []
    assert [point for point in points if not any(what in point for what in words)] == []
    assert {entry.case for entry in documented} <= {entry.case for entry in load()}
    assert all(entry.why.strip() for entry in untold)


def _planted(story: Story) -> list[Story]:
    """The same story with one thing wrong, in every way that matters."""
    step, answer = next(reversed(story.items()))
    wrong: list[Story] = [{name: one for name, one in story.items() if name != step}, {**story, "99 Range": answer}]
    error = {"error": {"code": "UNKNOWN", "details": "no"}}
    wrong.append({**story, step: error if answer != error else {}})
    if isinstance(answer, dict):
        for field in answer:
            wrong.append({**story, step: {name: one for name, one in answer.items() if name != field}})
            changed = copy.deepcopy(answer)
            changed[field] = "something else"
            wrong.append({**story, step: changed})
    return wrong


@pytest.mark.parametrize("case", CASES)
def test_a_planted_difference_is_noticed(case: str) -> None:
    """The comparison can fail for every case: a step more or less, an error, a field that is missing or different."""
    right = ETCD["leader"][case]
    assert unexplained("leader", case, right, copy.deepcopy(right), []) == []
    for wrong in _planted(right):
        assert unexplained("leader", case, right, wrong, []) != [], wrong


def test_an_entry_covers_what_it_names_and_nothing_else() -> None:
    """Case, step, path, both answers and the way it was asked."""
    etcd: Story = {"01 Get": {"count": 1, "more": True}}
    ours: Story = {"01 Get": {"count": 2, "more": True}}
    line = {"case": "c*", "step": "01*", "path": "count", "etcd": "1", "ours": "2", "why": "because"}
    entry = read(line)
    assert unexplained("leader", "case", etcd, ours, [entry]) == [] and entry.used == 1
    others = [{"case": "d"}, {"step": "02*"}, {"path": "more"}, {"etcd": "3"}, {"ours": "1"}, {"way": "follower"}]
    for other in others:
        assert unexplained("leader", "case", etcd, ours, [read(line | other)]) != [], other


@pytest.mark.parametrize("other", [{"why": " "}, {"ours": "2…"}, {"path": "co*"}, {"used": 1}, {"wy": "because"}])
def test_a_line_cannot_leave_anything_open(other: dict[str, object]) -> None:
    """It says why, what we answer in full, and where; and nothing that nobody reads."""
    line = {"case": "c", "step": "01", "path": "count", "etcd": "1", "ours": "2", "why": "because"}
    with pytest.raises((AssertionError, ValueError)):
        read(line | other)
