"""Every fact can be told in one sentence."""

from types import UnionType
from typing import Any, get_args, get_origin

import msgspec
import pytest

from quorate.cli.operate import explain
from quorate.events import Acknowledgement, Event, RoleChangeAcknowledged
from quorate.model.words import leader_cause, plural, sentence, size, span
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
    return {int: 7, str: "word", bool: True, bytes: b"raw"}[kind]


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_has_a_sentence(kind: Any) -> None:
    """No event is told as a blank, or over several lines."""
    told = sentence(sample(kind))
    assert told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ("first start", "node 2 leads the controllers: first start of the cluster"),
        ("silent", "node 2 leads the controllers: node 1 was silent for 900 ms"),
        (
            "connection closed",
            "node 2 leads the controllers: the connection to node 1 closed; 900 ms without a word from it",
        ),
        ("handed over", "node 2 leads the controllers: node 1 handed over"),
    ],
)
def test_a_new_leader_says_why(cause: str, told: str) -> None:
    """Each cause of an election of controllers has its words."""
    assert sentence(leads(2, cause)) == told


def test_a_leader_that_followed_nobody_says_so() -> None:
    """Where the winner knew no leader none is named; a cause nobody knows keeps its name."""
    assert leader_cause("silent", None, 61_000) == "the leader before was silent for 1 min 01 s"
    assert leader_cause("moon phase", 1, 0) == "moon phase"


SPANS = [
    (0, "0 ms"), (999, "999 ms"), (1_000, "1.0 s"), (9_250, "9.3 s"), (9_949, "9.9 s"), (9_950, "10 s"),
    (10_500, "11 s"), (59_400, "59 s"), (59_500, "1 min 00 s"), (59_960, "1 min 00 s"), (89_600, "1 min 30 s"),
    (185_000, "3 min 05 s"), (599_500, "10 min"), (840_000, "14 min"), (3_599_500, "1 h 00 min"),
    (8_040_000, "2 h 14 min"), (172_799_000, "47 h 59 min"), (273_600_000, "3 d 4 h"),
]  # fmt: skip
"""Here and on the page (``tests/browser/test_pages.py``)."""


@pytest.mark.parametrize(("ms", "told"), SPANS)
def test_a_span_is_told_as_people_do(ms: int, told: str) -> None:
    """The longer it was, the coarser its unit."""
    assert span(ms) == told


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 B"), (1_023, "1,023 B"), (1_024, "1.00 KiB"), (1_152, "1.13 KiB"), (10_240, "10.0 KiB"),
        (1 << 20, "1.00 MiB"), (5 << 30, "5.00 GiB"), (3 << 41, "6.00 TiB"), (-5 << 30, "-5.00 GiB"),
    ],
)  # fmt: skip
def test_a_size_has_the_unit_that_fits(count: int, told: str) -> None:
    """Three digits say enough; halves are rounded up, as in the table beside it on the page."""
    assert size(count) == told


def test_one_is_not_many() -> None:
    """A count has the form of its noun, a regular one unless told."""
    assert [plural(1, "set"), plural(2, "set"), plural(0, "party", "parties")] == ["1 set", "2 sets", "0 parties"]


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
    assert lines[1] == (
        "epoch 5, old master 1; cause: master’s connection closed; asked by the controller, which lost its master"
    )
    by_hand = msgspec.structs.replace(elected(2, 5, 1), trigger="admin", evidence="")
    assert list(explain(by_hand))[1] == "epoch 5, old master 1; asked by an operator"
    assert lines[4].startswith("1       out: it is the master that was lost  no")
    assert lines[5].startswith("2       elected: lower max offset            yes")
