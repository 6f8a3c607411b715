"""What no decision can have produced stops a node rather than make a state that nobody can explain."""

import pytest

from quorate.errors import InvariantBrokenError
from quorate.events import (
    Event,
    MqttSubscription,
    SchemaAdded,
    SchemaDeleted,
    SessionOwnerSettled,
    Stamp,
    SubscriptionsChanged,
    WillAcknowledged,
)
from quorate.model.entity import entity_after
from quorate.model.evolve import evolve
from quorate.model.live import NoMembers
from quorate.model.rows import from_rows, rows
from quorate.model.state import EMPTY

STAMP = Stamp(offset=7, term=1, time_ms=1)
SUBSCRIPTION = MqttSubscription(
    filter="t", qos=0, no_local=False, retain_as_published=False, retain_handling=0, identifier=0
)


@pytest.mark.parametrize(
    "event",
    [
        SchemaDeleted(subject="s", versions=(1,), permanent=False),
        SubscriptionsChanged(client="c", session_epoch=3, added=(SUBSCRIPTION,), removed=()),
        SessionOwnerSettled(member="m", member_epoch=3, reason="unfenced", sessions=0),
        WillAcknowledged(session_epoch=3, client="c", member="m", member_epoch=3),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_about_what_is_not_there_stops(event: Event) -> None:
    """Of a subject, a session, a loss, a will."""
    with pytest.raises(InvariantBrokenError):
        evolve(EMPTY, event, STAMP)


def test_a_schema_is_itself_in_its_row_and_alone() -> None:
    """Read from its row it is found by its text too; told again it is the same."""
    added = SchemaAdded(schema_id=1_000_001, schema_type="AVRO", schema='"int"')
    state = evolve(EMPTY, added, STAMP)
    assert from_rows(rows(state)) == state
    alone = entity_after(None, added, STAMP)
    assert entity_after(alone, added, STAMP) == alone == state.schemas[1_000_001]


def test_nobody_was_heard_of_where_nobody_listens() -> None:
    """The members' view of a decision outside a controller."""
    assert (NoMembers().alive("m", 1), NoMembers().last_heard_ms("m", 1), NoMembers().health("m", 1)) == (None, 0, None)
