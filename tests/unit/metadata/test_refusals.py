"""The tables are complete: every name has a code, every command a rule."""

import typing

import pytest

from quorate.metadata.commands import Accepted, Command, MasterIs, Refusal, Reply
from quorate.metadata.decide import DECIDERS
from quorate.metadata.refusals import RESPONSE_CODES, Code, refuse, response
from quorate.model import queries


def test_every_name_has_exactly_one_code() -> None:
    """And no code is there without a name."""
    assert set(typing.get_args(Code)) == set(RESPONSE_CODES)


def test_every_command_has_a_decider_and_every_query_an_answer() -> None:
    """A new command without a rule is found here, not by a caller."""
    assert set(DECIDERS) == set(typing.get_args(Command))
    assert set(queries._ANSWERS) == set(typing.get_args(queries.Query))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Accepted(), (0, None)),
        (refuse("MasterStillExists", "still"), (2011, "still")),
        (refuse("StaleMasterEpoch", "old"), (2000, "old")),
        (
            MasterIs(
                cluster="C",
                broker_set="a",
                master=1,
                master_address="h:1",
                master_epoch=1,
                sync_state_set=(1,),
                sync_state_set_epoch=1,
                members={},
            ),
            (0, None),
        ),
    ],
)
def test_answers_have_rocketmqs_codes(answer: Reply | Refusal, expected: tuple[int, str | None]) -> None:
    """Success is 0 without a remark."""
    assert response(answer) == expected
