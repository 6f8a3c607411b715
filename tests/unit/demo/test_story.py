"""The demonstration's story: what is put down to a fault, and what is not."""

from typing import Any

import pytest

from quorate.demo.screen import figures
from quorate.demo.story import NEAR_MS, Story
from quorate.errors import InvariantBrokenError
from quorate.events import (
    BrokerAddressChanged,
    BrokerFenced,
    BrokerUnfenced,
    ElectionFailed,
    FeatureLevelChanged,
    KeyPut,
    LeaseEnded,
    LeaseGranted,
    SyncStateSetAltered,
)
from tests.unit.cli.stories import T0, applied, elected, fact, leads


def a_story() -> Story:
    """Of two sets with two brokers each, which have no master yet."""
    story = Story()
    for broker_set in ("broker-a", "broker-b"):
        for broker_id in (1, 2):
            story.tell(fact(0, 0, applied(broker_id, broker_set)))
    return story


def test_a_failover_after_a_kill_is_put_down_to_it_and_timed() -> None:
    """The time from kill to election is told, once per kill."""
    story = a_story()
    story.tell(fact(0, 0, elected(1, 1)))
    story.fault(T0 + 1000, "kill", "broker-a")
    line = story.tell(fact(1, 1012, elected(2, 2, 1)))
    assert line is not None
    assert line.endswith("[12 ms after the kill]")
    summary = story.summary()
    assert (summary["failovers"], summary["failovers_without_fault"], summary["failover_ms_max"]) == (1, 0, 12)


def test_a_failover_without_a_kill_is_counted_apart() -> None:
    """A second election after one kill, or one long after it, has no fault to explain it."""
    story = a_story()
    story.fault(T0, "kill", "broker-a")
    story.tell(fact(0, 10, elected(2, 2)))
    story.tell(fact(1, 20, elected(1, 3)))
    story.fault(T0 + 100, "kill", "broker-b")
    story.tell(fact(2, 100 + NEAR_MS, elected(2, 2, broker_set="broker-b")))
    assert story.summary()["failovers_without_fault"] == 2


def test_the_first_election_of_a_set_is_no_failover() -> None:
    """Epoch 1 is how a set begins."""
    story = a_story()
    story.tell(fact(0, 0, elected(1, 1)))
    assert story.summary()["failovers"] == 0


def test_a_change_of_leader_needs_a_fault_of_a_node() -> None:
    """The first leader is no change; a kill of a broker does not excuse a new leader, one of a node does."""
    story = Story()
    story.tell(fact(0, 0, leads(1)))
    story.fault(T0 + 1, "kill", "broker-a")
    story.tell(fact(1, 2, leads(2)))
    story.fault(T0 + 3, "kill node")
    story.tell(fact(2, 4, leads(3)))
    story.repair(T0 + 3 * NEAR_MS, "node is back")
    story.tell(fact(3, 3 * NEAR_MS + 1, leads(1)))
    summary = story.summary()
    assert (summary["leader_changes"], summary["leader_changes_without_fault"]) == (3, 1)
    assert "changed 3 times, 1 without a fault" in figures(story)


def test_a_lease_that_expires_after_a_stop_is_put_down_to_it() -> None:
    """The key that went is told with the time since the stop; a lease that expires otherwise is counted apart, one that
    is revoked, and one without a key, are neither.
    """
    story = Story()
    put: dict[str, Any] = {"value": b"", "following": 0}
    assert story.tell(fact(0, 0, FeatureLevelChanged(old=1, new=2))) == "the feature level is now 2 (before: 1)"
    assert story.tell(fact(1, 0, KeyPut(key="/s/1", lease=7, **put))) == "/s/1 is there, under lease 0000000000000007"
    assert story.tell(fact(2, 0, KeyPut(key="/s/1", lease=7, **put))) is None
    assert story.tell(fact(3, 0, KeyPut(key="/other", lease=0, **put))) is None
    assert story.services == {"/s/1": True}
    story.stopped(T0 + 1_000, "stop", "/s/1")
    for number in (7, 8, 9, 10):
        story.tell(fact(3, 0, LeaseGranted(lease=number, ttl_s=6)))
    ended: dict[str, Any] = {"keys": 1, "silent_ms": 6_000}
    line = story.tell(fact(4, 7_500, LeaseEnded(lease=7, reason="expired", **ended)))
    assert line is not None
    assert line.startswith("/s/1 is gone: lease 0000000000000007 ended: not heard for 6.0 s")
    assert line.endswith("[6500 ms after the stop]")
    assert story.services == {"/s/1": False}
    for number, reason in ((8, "expired"), (9, "revoked")):
        story.tell(fact(5, 8_000, KeyPut(key="/s/1", lease=number, **put)))
        story.tell(fact(6, 9_000, LeaseEnded(lease=number, reason=reason, **ended)))
    story.tell(fact(7, 9_000, LeaseEnded(lease=10, reason="expired", **ended)))
    summary = story.summary()
    assert (summary["leases_expired"], summary["leases_expired_without_stop"], summary["faults"]) == (2, 1, 0)


def test_a_note_excuses_nothing() -> None:
    """What is only told does not explain a change of leader."""
    story = Story()
    story.tell(fact(0, 0, leads(1)))
    story.note(T0 + 1, "warm")
    story.tell(fact(1, 2, leads(2)))
    assert story.summary()["leader_changes_without_fault"] == 1


def test_sets_are_followed_through_their_events() -> None:
    """Members, in-sync replicas, fencing, addresses and the loss of a master are as the model folds them; what it
    cannot fold is no story.
    """
    with pytest.raises(InvariantBrokenError):
        Story().tell(fact(0, 0, elected(1, 1)))
    story = a_story()
    who: dict[str, Any] = {"cluster": "c", "broker_set": "broker-a", "broker_id": 2}
    story.tell(fact(1, 0, elected(2, 1)))
    story.tell(fact(1, 0, BrokerAddressChanged(**who, old_address="h:2", new_address="h:9")))
    assert story.sets["broker-a"].address(2) == "h:9"
    story.tell(fact(1, 0, elected(1, 1)))
    change: dict[str, Any] = {"master": 1, "master_epoch": 1, "old": (1,), "new": (1, 2), "sync_state_set_epoch": 2}
    story.tell(fact(2, 0, SyncStateSetAltered(cluster="c", broker_set="broker-a", **change)))
    times: dict[str, Any] = {"detected_ms": 0, "proposed_ms": 0}
    story.tell(fact(3, 0, BrokerFenced(**who, evidence="heartbeat expired", last_heartbeat_ms=0, **times)))
    known = story.sets["broker-a"]
    assert [replica.fenced for replica in known.replicas] == [False, True]
    assert (known.sync_state_set, known.master, known.address(1)) == ((1, 2), 1, "h:1")
    story.tell(fact(4, 0, BrokerUnfenced(**who, **times)))
    failed: dict[str, Any] = {
        "trigger": "master lost",
        "evidence": "",
        "old_master": 1,
        "master_epoch": 2,
        "candidates": (),
    }
    told: dict[str, Any] = {"explanation": "nobody", "last_heartbeat_ms": 0, **times}
    assert story.tell(fact(5, 0, ElectionFailed(cluster="c", broker_set="broker-a", **failed, **told))) == "nobody"
    known = story.sets["broker-a"]
    assert not any(replica.fenced for replica in known.replicas)
    assert (known.master, known.address(known.master)) == (None, None)
    assert story.summary()["failed_elections"] == 1
    assert story.offset == 6
