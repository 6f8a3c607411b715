"""When a master was lost, as an event tells it."""

import pytest

from quorate.events import BrokerDataCleaned, BrokerFenced
from quorate.model.brokers import SILENCE, fault_of


def fenced(evidence: str, last_heartbeat_ms: int, detected_ms: int) -> BrokerFenced:
    """A broker that is gone, and how that was found out."""
    return BrokerFenced(
        cluster="c",
        broker_set="a",
        broker_id=1,
        evidence=evidence,
        last_heartbeat_ms=last_heartbeat_ms,
        detected_ms=detected_ms,
        proposed_ms=60,
    )


@pytest.mark.parametrize(
    ("event", "moment"),
    [
        (fenced("connection closed", 40, 50), (50, False)),
        (fenced(SILENCE, 40, 50), (40, True)),
        (fenced(SILENCE, 0, 50), (50, False)),
        (fenced("connection closed", 0, 0), (None, False)),
        (BrokerDataCleaned(cluster="c", broker_set="a", broker_ids=(1,), whole_set=False), (None, False)),
    ],
)
def test_a_fault_began_when_it_was_seen_or_with_the_last_word(
    event: BrokerFenced | BrokerDataCleaned, moment: tuple[int | None, bool]
) -> None:
    """A closed connection is seen when it closes; of one who fell silent it is an estimate; a cleaned id tells none."""
    assert fault_of(event) == moment
