"""Every fact can be told in one sentence."""

from types import UnionType
from typing import Any, get_args, get_origin

import msgspec
import pytest

from quorate.cli.operate import explain
from quorate.events import Acknowledgement, Event, RoleChangeAcknowledged
from quorate.model.words import sentence
from tests.unit.cli.stories import elected, leads


def sample(kind: Any) -> Any:
    """A value of a field's type."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(**{field.name: sample(field.type) for field in msgspec.structs.fields(kind)})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return (sample(arguments[0]),)
    if origin is dict:
        return {"k": "v"}
    if origin is UnionType or type(None) in arguments:
        return sample(next(part for part in arguments if part is not type(None)))
    return {int: 7, str: "word", bool: True}[kind]


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_has_a_sentence(kind: Any) -> None:
    """No event is told as a blank, or over several lines."""
    told = sentence(sample(kind))
    assert told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ("first start", "node 2 leads the controllers: first start"),
        ("silent", "node 2 leads the controllers: nothing was heard of node 1 for 900 ms"),
        ("connection closed", "node 2 leads the controllers: the connections of node 1 closed"),
        ("handed over", "node 2 leads the controllers: handed over by node 1"),
    ],
)
def test_a_new_leader_says_why(cause: str, told: str) -> None:
    """Each cause of an election of controllers has its words."""
    assert sentence(leads(2, cause)) == told


def test_a_delivery_says_who_did_not_answer() -> None:
    """Acknowledgements that never came are not counted."""
    acks = tuple(
        Acknowledgement(broker_id=number, notified_ms=100, acknowledged_ms=when) for number, when in ((1, 130), (2, 0))
    )
    event = RoleChangeAcknowledged(
        cluster="c", broker_set="broker-a", master_epoch=2, election_offset=9, committed_ms=100, acks=acks
    )
    assert sentence(event) == "broker-a: 1 of 2 brokers acknowledged epoch 2, the last after 30 ms"


def test_an_election_is_explained_candidate_by_candidate() -> None:
    """Each candidate stands in the table with the rule that put it out."""
    lines = list(explain(elected(2, 5, 1)))
    assert lines[0] == "Broker 2 is master of broker-a."
    assert lines[1] == "epoch 5, old master 1, asked by: master lost (connection closed)"
    assert lines[4].startswith("1       out: not alive  no")
    assert lines[5].startswith("2       elected         yes")
