"""An independent model of the rules agrees with ``decide`` on random histories, and would notice if it did not."""

from collections import Counter
from functools import cache

import pytest
from hypothesis import settings

from tests.model.agreement import disagreement, smallest
from tests.model.histories import history
from tests.model.model import JAVA, SAFE, Model, Request
from tests.model.mutants import MUTANTS
from tests.model.second_model import SecondModel
from tests.model.subject import Subject

STEPS = 60
SCALE = settings().max_examples // 20  # 3 in make check, 50 in make test-all.
MANY = 200
"""Histories in which every planted change must show."""

WORLDS = {
    "safe": SAFE,
    **{f"{name}={not SAFE[name]}": {**SAFE, name: not SAFE[name]} for name in SAFE},
    "java": JAVA,
    "java unclean": {**JAVA, "unclean": True},
}


@cache
def histories(world: str, count: int) -> list[list[Request]]:
    """The first histories of a world."""
    return [history(seed, STEPS, WORLDS[world]) for seed in range(count)]


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_and_decide_agree(world: str) -> None:
    """Every answer and every entity is the same after every request, under the safe rules and under Java's."""
    for requests in histories(world, SCALE * (60 if world == "safe" else 15)):
        if disagreement(Model(WORLDS[world]), Subject(WORLDS[world]), requests):
            pytest.fail(smallest(lambda: Model(WORLDS[world]), lambda: Subject(WORLDS[world]), requests))


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_that_was_written_blind_agrees_too(world: str) -> None:
    """Who had seen neither ``decide`` nor the first model read the same rules out of the same sources."""
    for requests in histories(world, SCALE * (60 if world == "safe" else 15)):
        if disagreement(SecondModel(WORLDS[world]), Subject(WORLDS[world]), requests):
            pytest.fail(smallest(lambda: SecondModel(WORLDS[world]), lambda: Subject(WORLDS[world]), requests))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_rule_change_is_noticed(mutant: type[Model]) -> None:
    """With one rule changed, some history tells the model from ``decide``, and from the model written blind."""
    assert any(disagreement(mutant(), Subject(), requests) for requests in histories("safe", MANY))
    assert any(disagreement(SecondModel(), mutant(), requests) for requests in histories("safe", MANY))


@pytest.mark.parametrize("name", SAFE)
def test_every_fix_makes_a_difference(name: str) -> None:
    """With one fix switched the other way on one side only, some history tells: no setting is without effect."""
    switched = {**SAFE, name: not SAFE[name]}
    assert any(disagreement(Model(switched), Subject(), requests) for requests in histories("safe", MANY))


def test_the_histories_reach_every_answer() -> None:
    """Random histories would prove little if they never left the first check."""
    seen: Counter[tuple[object, int]] = Counter()
    for requests in histories("safe", MANY):
        model = Model()
        seen.update((request["code"], model.step(request)["code"]) for request in requests)
    expected = {
        1013: (0, 1, 2014),
        1003: (0, 2010),
        904: (0, 2005),
        1002: (0, 2010, 2011, 2012, 2004),
        1001: (0, 1, 2000, 2001, 2002, 2003, 2006, 2013),
        1004: (0, 2008),
        1006: (0, 1),
        1011: (0, 2009),
        17: (0, -1),
        215: (0,),
        1012: (0,),
    }
    rare = {(kind, code): seen[kind, code] for kind, codes in expected.items() for code in codes}
    assert min(rare.values()) >= 10, rare


def test_a_stranger_stays_master_as_in_java() -> None:
    """With every fix off, an unregistered first master that is alive is kept, as Java's policy keeps it."""
    requests = [
        {"code": 904, "cluster": "c", "broker_set": "a", "broker_id": 4, "epoch": 0, "max_offset": 0, "priority": 1},
        {"code": 1013, "cluster": "c", "broker_set": "a", "broker_id": 1, "check_code": "10.0.0.1:1;17"},
        {"code": 1002, "broker_set": "a", "broker_id": 4, "designate": False},
        {"code": 1002, "broker_set": "a", "broker_id": None, "designate": False},
    ]
    assert disagreement(Model(JAVA), Subject(JAVA), requests) is None


def test_a_disagreement_is_told_in_few_requests() -> None:
    """What fails is shown as the shortest history found: three brokers' lives are not needed for one rule."""
    mutant = next(kind for kind in MUTANTS if kind.__name__ == "DeadMasterTold")
    found = next(requests for requests in histories("safe", MANY) if disagreement(mutant(), Subject(), requests))
    told = smallest(mutant, Subject, found)
    assert told.count("\n") < 12
    assert "differs" in told
