"""Limits that decide what state is come from the log alone."""

import pytest

from quorate.metadata.commands import ChangeConfig, Refusal
from quorate.metadata.limits import (
    REMEMBERED_MAX,
    REMEMBERED_MS_MAX,
    UNSAID,
    limits_in_force,
    overruled,
    unrecorded,
)
from quorate.metadata.requests import RequestSettings
from quorate.model.state import EMPTY, Config, State
from tests.unit.metadata.kit import CREATE, World


def state_with(**said: str) -> State:
    """A state whose log says this in the scope ``cluster``."""
    values = {name.replace("__", "."): value for name, value in said.items()}
    return State(configs=EMPTY.configs.set("cluster", Config(scope="cluster", values=values)))


def test_a_log_that_says_nothing_has_the_limits_of_the_first_version() -> None:
    """They are constants: a default that changes later changes no old log."""
    assert limits_in_force(EMPTY) == (100_000, 3_600_000)
    assert limits_in_force(state_with(other="7")) == (100_000, 3_600_000)
    assert UNSAID == {REMEMBERED_MAX: 100_000, REMEMBERED_MS_MAX: 3_600_000}


def test_what_the_log_says_holds_and_what_cannot_be_says_nothing() -> None:
    """An old log may hold any text under these names."""
    assert limits_in_force(state_with(requests__remembered_max="5")) == (5, 3_600_000)
    assert limits_in_force(state_with(requests__remembered_max="0", requests__remembered_ms_max="9")) == (0, 9)
    nonsense = state_with(requests__remembered_max="-1", requests__remembered_ms_max="0")
    assert limits_in_force(nonsense) == (100_000, 3_600_000)
    assert limits_in_force(state_with(requests__remembered_max="٣")) == (100_000, 3_600_000)


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        (REMEMBERED_MAX, "5", False),
        (REMEMBERED_MAX, "0", False),
        (REMEMBERED_MAX, "-1", True),
        (REMEMBERED_MAX, "many", True),
        (REMEMBERED_MAX, "1234567890", True),
        (REMEMBERED_MS_MAX, "1000", False),
        (REMEMBERED_MS_MAX, "0", True),
        (REMEMBERED_MS_MAX, "1.5", True),
        ("anything.else", "many", False),
    ],
)
def test_limits_that_cannot_be_are_refused(name: str, value: str, refused: bool) -> None:
    """In the scope ``cluster``; other names there are free."""
    world = World()
    world.do(CREATE)
    outcome = world.decide(ChangeConfig(scope="cluster", changes={name: value}))
    assert (isinstance(outcome, Refusal) and outcome.code == "InvalidConfigValue") is refused


def test_a_leader_records_what_nobody_did_and_nothing_else() -> None:
    """Only where its own is not what holds anyway; what is recorded stays, whoever leads."""
    own = RequestSettings(remembered_max=5)
    assert unrecorded(EMPTY, own) == {REMEMBERED_MAX: "5"}
    assert unrecorded(EMPTY, RequestSettings()) == {}
    assert unrecorded(state_with(requests__remembered_max="7"), own) == {}


def test_a_node_says_which_of_its_settings_the_log_overrules() -> None:
    """One sentence each, with both values."""
    own = RequestSettings(remembered_max=5)
    assert list(overruled(EMPTY, own)) == [
        "requests.remembered_max is 5 in this node's settings; the cluster's 100000 holds"
    ]
    assert list(overruled(state_with(requests__remembered_max="5"), own)) == []
