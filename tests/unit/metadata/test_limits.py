"""Limits that decide what state is come from the log alone."""

import pytest

from quorate.metadata.commands import ChangeConfig, Refusal
from quorate.metadata.limits import (
    GROUP_EXPIRY_S,
    GROUP_ROWS_MAX,
    REMEMBERED_MAX,
    REMEMBERED_MS_MAX,
    UNCLEAN_SEGMENT_LEADERS,
    UNSAID,
    in_force,
    limits_of_requests,
    overruled,
    own_limits,
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
    assert limits_of_requests(EMPTY) == (100_000, 3_600_000)
    assert limits_of_requests(state_with(other="7")) == (100_000, 3_600_000)
    assert UNSAID == {
        REMEMBERED_MAX: 100_000,
        REMEMBERED_MS_MAX: 3_600_000,
        GROUP_ROWS_MAX: 20_000,
        GROUP_EXPIRY_S: 604_800,
        UNCLEAN_SEGMENT_LEADERS: False,
    }


def test_what_the_log_says_holds_and_what_cannot_be_says_nothing() -> None:
    """An old log may hold any text under these names."""
    assert limits_of_requests(state_with(requests__remembered_max="5")) == (5, 3_600_000)
    assert limits_of_requests(state_with(requests__remembered_max="0", requests__remembered_ms_max="9")) == (0, 9)
    nonsense = state_with(requests__remembered_max="-1", requests__remembered_ms_max="0")
    assert limits_of_requests(nonsense) == (100_000, 3_600_000)
    assert limits_of_requests(state_with(requests__remembered_max="٣")) == (100_000, 3_600_000)


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
        (GROUP_ROWS_MAX, "1", False),
        (GROUP_ROWS_MAX, "0", True),
        (GROUP_EXPIRY_S, "0.5", False),
        (GROUP_EXPIRY_S, "0.0", True),
        (GROUP_EXPIRY_S, "-1", True),
        (GROUP_EXPIRY_S, "1e3", True),
        (GROUP_EXPIRY_S, "inf", True),
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
    own = own_limits(RequestSettings(remembered_max=5), 20_000, 0.25, unclean_segment_leaders=False)
    assert unrecorded(EMPTY, own) == {REMEMBERED_MAX: "5", GROUP_EXPIRY_S: "0.25"}
    assert unrecorded(EMPTY, own_limits(RequestSettings(), 20_000, 604_800.0, unclean_segment_leaders=False)) == {}
    recorded = {"requests.remembered_max": "7", "kafka.group_expiry_s": "9"}
    assert unrecorded(state_with(**recorded), own) == {}
    assert unrecorded(EMPTY, own_limits(RequestSettings(), 20_000, 1e-9, unclean_segment_leaders=False)) == {}


def test_each_limit_is_read_from_the_log_by_its_own_rule() -> None:
    """Whole numbers, and seconds with a fraction."""
    state = state_with(controller__group_rows_max="7", kafka__group_expiry_s="0.5")
    assert (in_force(state, GROUP_ROWS_MAX), in_force(state, GROUP_EXPIRY_S)) == (7, 0.5)
    nonsense = state_with(controller__group_rows_max="0", kafka__group_expiry_s="soon")
    assert (in_force(nonsense, GROUP_ROWS_MAX), in_force(nonsense, GROUP_EXPIRY_S)) == (20_000, 604_800)


def test_a_node_says_which_of_its_settings_the_log_overrules() -> None:
    """One sentence each, with both values."""
    own = own_limits(RequestSettings(remembered_max=5), 20_000, 604_800.0, unclean_segment_leaders=False)
    assert list(overruled(EMPTY, own)) == [
        "requests.remembered_max is 5 in this node's settings; the cluster's 100000 holds"
    ]
    assert list(overruled(state_with(requests__remembered_max="5"), own)) == []


def test_a_switch_is_one_of_the_log_too() -> None:
    """Who leads a segment does not change with who leads the cluster: a leader records its own, and others are told."""
    own = own_limits(RequestSettings(), 20_000, 604_800.0, unclean_segment_leaders=True)
    assert unrecorded(EMPTY, own) == {UNCLEAN_SEGMENT_LEADERS: "true"}
    assert list(overruled(EMPTY, own)) == [
        "policy.journal_unclean_leaders is true in this node's settings; the cluster's false holds"
    ]
    on, off, nonsense = [state_with(policy__journal_unclean_leaders=said) for said in ("true", "false", "1")]
    assert [in_force(state, UNCLEAN_SEGMENT_LEADERS) for state in (on, off, nonsense)] == [True, False, False]
    assert list(overruled(on, own)) == []
    assert unrecorded(off, own) == {}
    world = World()
    world.do(CREATE)
    refused = world.refused(ChangeConfig(scope="cluster", changes={UNCLEAN_SEGMENT_LEADERS: "yes"}))
    assert refused.code == "InvalidConfigValue"
