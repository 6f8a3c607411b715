"""An entity by itself is what it is in the whole state."""

import pytest

from quorate.errors import InvariantBrokenError
from quorate.events import (
    BrokerFenced,
    Stamp,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
    about,
    decode,
    key,
    kinds_about,
)
from quorate.model.entity import entity_after
from quorate.model.evolve import evolve
from quorate.model.rows import Entity, decoded, encoded, entity_at
from quorate.model.state import EMPTY, BrokerSet, Replica
from quorate_projections.record import read_stamp
from tests.projections.history import records


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_entity_alone_becomes_what_it_becomes_in_the_state(seed: int) -> None:
    """After each event of a long life the entity it touched, kept by itself, is the state's."""
    state, alone = EMPTY, dict[bytes, Entity | None]()
    for record in records(seed, 1000):
        event, stamp = decode(record.value or b""), read_stamp(record.headers)
        state, place = evolve(state, event, stamp), key(event)
        alone[place] = entity_after(alone.get(place), event, stamp)
        assert alone[place] == entity_at(state, place)
    assert len({place.split(b"/")[0] for place in alone}) == 17


def test_a_row_is_its_entity() -> None:
    """What is encoded is decoded to the same."""
    for record in records(1, 5):
        event = decode(record.value or b"")
        found = entity_after(None, event, read_stamp(record.headers))
        assert found is not None
        assert decoded(key(event), encoded(found)) == found


def test_an_event_about_what_is_not_there_is_refused() -> None:
    """As the state refuses it."""
    event = BrokerFenced(
        cluster="c", broker_set="a", broker_id=1, evidence="", last_heartbeat_ms=0, detected_ms=0, proposed_ms=0
    )
    stamp = Stamp(offset=1, term=1, time_ms=1, principal="", cause="", request_id="")
    with pytest.raises(InvariantBrokenError):
        entity_after(None, event, stamp)
    with pytest.raises(InvariantBrokenError, match="topic 'gone', which is not there"):
        entity_after(None, TopicDeleted(topic="gone"), stamp)


def test_a_set_is_anew_when_it_becomes_half_known_and_when_it_is_known_again() -> None:
    """Whoever keeps times beside a set begins them anew then, and only then."""
    whole = BrokerSet(name="a", cluster="c", master=1, replicas=(Replica(broker_id=1, address="h:1"),))
    half = whole.halved(whole.replicas)
    assert (half.sync_known, half.master, half.replicas) == (False, None, whole.replicas)
    assert whole.is_anew(None)
    assert whole.is_anew(half)
    assert half.is_anew(whole)
    assert not whole.is_anew(whole)
    assert not half.is_anew(half)


def test_an_event_says_whom_it_is_about() -> None:
    """Kind and name of its entity; and which kinds of events are about a kind of entity is in their schemas."""
    assert about(TopicDeleted(topic="c/ü")) == ("topic", "c/ü")
    assert kinds_about("topic") >= {TopicCreated, TopicUpdated, TopicDeleted}
    assert not kinds_about("topic") & kinds_about("broker-set")
