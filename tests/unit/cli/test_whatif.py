"""What-if: the leader's own rules on a state that is only imagined."""

import pytest

from quorate.cli.whatif import Survivors, judge, victims
from quorate.errors import UsageError
from quorate.events import BrokerIdApplied, BrokerRegistered, Event, MasterElected, Stamp, SyncStateSetAltered
from quorate.gateway.http.answers import BrokerSetItem, ReplicaAnswer
from quorate.metadata.evolve import evolve
from quorate.metadata.policy import PolicySettings
from quorate.metadata.state import State
from tests.unit.cli.stories import T0, elected

WHO = {"cluster": "c", "broker_set": "broker-a"}


def a_state() -> State:
    """A set of three; 1 is master, 1 and 2 are in sync."""
    events: list[Event] = [
        BrokerIdApplied(**WHO, broker_id=number, address=f"h:{number}", register_check_code=f"h:{number};1")
        for number in (1, 2, 3)
    ]
    events += [BrokerRegistered(**WHO, broker_id=number, address=f"h:{number}") for number in (1, 2, 3)]
    first: MasterElected = elected(1, 1)
    change = {"master": 1, "master_epoch": 1, "old": (1,), "new": (1, 2), "sync_state_set_epoch": 2}
    events += [first, SyncStateSetAltered(**WHO, **change)]
    state = State()
    for offset, event in enumerate(events):
        state = evolve(state, event, Stamp(offset=offset, term=1, time_ms=T0))
    return state


def heard() -> list[BrokerSetItem]:
    """All three brokers are heard; 3 has the longest log but is not in sync."""
    replicas = [
        ReplicaAnswer(
            broker_id=number, address=f"h:{number}", registered=True, fenced=False, in_sync=number < 3, alive=True,
            last_heartbeat_ms=T0, epoch=1, max_offset=100 * number, confirm_offset=100, priority=2**31 - 1,
        )
        for number in (1, 2, 3)
    ]  # fmt: skip
    return [
        BrokerSetItem(
            **WHO, master=1, master_address="h:1", master_epoch=1, sync_state_set=(1, 2), sync_state_set_epoch=2,
            replicas=replicas, election=None,
        )
    ]  # fmt: skip


def outcome(*dead: str, unclean: bool = False) -> int | None:
    gone = victims(dead)
    policy = PolicySettings(enable_elect_unclean_master=unclean)
    (verdict,) = judge(a_state(), Survivors(heard(), gone), gone, policy)
    return verdict.new_master


def test_the_replica_in_sync_would_be_master() -> None:
    """The longer log of a replica that is not in sync does not count."""
    assert outcome("broker-a:1") == 2


def test_the_loss_of_a_replica_changes_nothing() -> None:
    """The master stays while it lives."""
    assert outcome("broker-a:2", "broker-a:3") == 1


def test_without_a_replica_in_sync_nobody_would_be_master_unless_unclean() -> None:
    """Only an unclean election takes what is left."""
    assert outcome("broker-a:1", "broker-a:2") is None
    assert outcome("broker-a:1", "broker-a:2", unclean=True) == 3


@pytest.mark.parametrize("text", ["broker-a", "broker-a:", "broker-a:x", ":1x"])
def test_victims_are_named_by_set_and_id(text: str) -> None:
    """Anything else is used wrongly."""
    with pytest.raises(UsageError, match="expected SET:ID"):
        victims([text])


@pytest.mark.parametrize("text", ["broker-a:9", "broker-z:1"])
def test_a_broker_nobody_knows_cannot_die(text: str) -> None:
    """A mistyped name is an error, not an answer."""
    with pytest.raises(UsageError, match="there is no such broker"):
        outcome(text)
