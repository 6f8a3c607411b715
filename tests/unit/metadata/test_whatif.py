"""What-if: the leader's own rules on a state that is only imagined."""

from typing import Any

import msgspec
import pytest

from quorate.events import NodeAddresses, Voter
from quorate.metadata import whatif as rules
from quorate.metadata.commands import ChangeConfig, CreateCluster, FenceBroker, RecordLeader, SyncStateSetIs
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.metadata.whatif import Failures, SetRow, Survivors, WhatIf, whatif
from quorate.model.live import LiveView, Silence
from quorate.slices import Steps
from tests.unit.metadata.kit import LOST, World, altering


def finished(steps: Steps[WhatIf]) -> WhatIf:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: WhatIf = end.value
            return found


def asked(world: World, *dead: int, live: LiveView | None = None, unclean: bool | None = None) -> SetRow:
    """What becomes of set ``a`` when these brokers die."""
    failures = Failures(brokers=frozenset(("a", broker_id) for broker_id in dead))
    view = world.live if live is None else live
    (row,) = finished(whatif(world.state, view, failures, unclean, PolicySettings(), world.now_ms)).rows
    return row


def founded() -> World:
    """Three controllers; 2 leads."""
    world = World()
    addresses = NodeAddresses(rpc="h:1", raft="h:2", kafka="h:3", http="h:4")
    voters = tuple(Voter(id=number, dir_uuid="", addresses=addresses) for number in (1, 2, 3))
    world.do(CreateCluster(cluster_id="c", voters=voters, feature_level=1))
    world.do(RecordLeader(node_id=2, cause="first start", previous_leader=None, silent_for_ms=0))
    return world


def three() -> World:
    """Brokers 1, 2, 3; 1 is master, 1 and 2 are in sync; 3 has the longest log."""
    world = founded()
    world.set_of(1, 2, 3, in_sync=(1, 2))
    for broker_id in (1, 2, 3):
        world.heard(broker_id, epoch=1, max_offset=100 * broker_id)
    return world


def test_the_replica_in_sync_would_be_master() -> None:
    """The longer log of a replica that is not in sync does not count."""
    row = asked(three(), 1)
    assert (row.kind, row.master, row.winner, row.winners, row.rule) == ("elected", 1, 2, (2,), "only candidate")
    assert (row.unclean, row.loses_bytes) == (False, 0)
    assert (row.after.master, row.after.sync_state_set, row.after.alive) == (2, (2,), (2, 3))
    assert "Broker 2 is master of a" in row.explanation


def test_the_loss_of_a_replica_shrinks_or_changes_nothing() -> None:
    """The master stays while it lives; the sync state set loses who was in it."""
    shrunk, same = asked(three(), 2, 3), asked(three(), 3)
    assert (shrunk.kind, shrunk.winner, shrunk.after.sync_state_set, shrunk.rule) == ("shrunk", 1, (1,), "master lives")
    assert (same.kind, same.after.sync_state_set, same.after.alive) == ("unaffected", (1, 2), (1, 2))


def test_without_a_replica_in_sync_nobody_would_be_master_unless_unclean() -> None:
    """Only an unclean election takes what is left; what is lost is counted against the longest log in sync."""
    world = three()
    world.heard(3, epoch=1, max_offset=150)
    row = asked(world, 1, 2)
    assert (row.kind, row.winner, row.winners, row.rule) == ("no master", None, (), "nobody eligible")
    row = asked(world, 1, 2, unclean=True)
    assert (row.kind, row.winner, row.unclean, row.loses_bytes) == ("elected", 3, True, 50)


def test_the_last_word_on_unclean_elections_is_the_question_s() -> None:
    """What the log says of the set is overruled, both ways; null leaves it."""
    world = three()
    world.do(ChangeConfig(scope="broker-set/a", changes={"enableElectUncleanMaster": "true"}))
    assert asked(world, 1, 2).winner == 3
    assert asked(world, 1, 2, unclean=False).kind == "no master"


def test_a_set_that_has_no_master_is_asked_about_by_policy_alone() -> None:
    """An operator wants to know what allowing unclean elections would bring."""
    world = three()
    world.heard(1, alive=False)
    world.heard(2, alive=False)

    world.do(LOST)
    assert world.a.master is None
    assert asked(world, unclean=True).winner == 3
    assert finished(whatif(world.state, world.live, Failures(), None, PolicySettings(), 1)).rows == []


def test_of_the_past_every_broker_that_could_win_is_named() -> None:
    """No heartbeat of then is known: whoever is in sync and not fenced may have had the longest log."""
    world = founded()
    world.set_of(1, 2, 3, 4, in_sync=(1, 2, 3))
    row = asked(world, 1, live=Silence())
    assert (row.kind, row.winner, row.winners, row.rule) == ("elected", None, (2, 3), "offsets unknown")
    assert row.after.master is None
    assert row.explanation.startswith("Any of the brokers 2, 3 could be master")
    row = asked(world, 1, 3, live=Silence())
    assert (row.winner, row.winners, row.rule) == (2, (2,), "only candidate")


@pytest.mark.parametrize(("in_sync", "elections"), [(range(1, 41), 40), (range(1, 2), 2), (range(1, 4), 3)])
def test_a_step_holds_one_election(monkeypatch: pytest.MonkeyPatch, in_sync: range, elections: int) -> None:
    """So that a question about a large set of which nothing was heard holds up nobody. Of those that may not stand
    none, or one for all, is imagined to be ahead.
    """
    world = founded()
    world.set_of(*range(1, 41))
    if len(in_sync) > 1:
        world.reply(altering(world.a, *in_sync), SyncStateSetIs)
    made: list[int] = []

    def counting(*about: Any) -> Any:
        made[-1] += 1
        return decide(*about)

    monkeypatch.setattr(rules, "decide", counting)
    steps = whatif(world.state, Silence(), Failures(brokers=frozenset({("a", 1)})), None, PolicySettings(), 1)
    found = None
    while found is None:
        made.append(0)
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
    assert (max(made), sum(made)) == (1, elections)
    assert found.rows[0].winners == tuple(in_sync)[1:]
    if len(in_sync) == 1:
        assert (found.rows[0].rule, "broker 2 is not in" in found.rows[0].explanation) == ("nobody eligible", True)


def test_who_is_fenced_in_the_log_does_not_stand_in_the_past() -> None:
    """The fence is the only word of the past on who lives."""
    world = founded()
    world.set_of(1, 2, 3, in_sync=(1, 2, 3))
    why: dict[str, Any] = {"evidence": "connection closed", "last_heartbeat_ms": 1, "detected_ms": 2}
    world.do(FenceBroker(cluster="C", broker_set="a", broker_id=2, **why))
    row = asked(world, 1, live=Silence())
    assert (row.winners, row.after.alive) == ((3,), (3,))


def test_what_the_rules_refuse_is_told_with_their_reason() -> None:
    """A set whose master epoch is the greatest there is gets no other master."""
    world = three()
    worn = msgspec.structs.replace(world.a, master_epoch=2**31 - 1)
    state = msgspec.structs.replace(world.state, broker_sets=world.state.broker_sets.set("a", worn))
    failures = Failures(brokers=frozenset({("a", 1)}))
    (row,) = finished(whatif(state, world.live, failures, None, PolicySettings(), world.now_ms)).rows
    assert (row.kind, row.winner, row.rule) == ("no master", None, "EpochsExhausted")
    assert "no master epoch left" in row.explanation


def test_of_the_past_nobody_s_channel_is_known_to_have_closed() -> None:
    """Suspicion is soft state: imagined failures leave it as it is, and the past has none."""
    world = three()
    survivors = Survivors(world.live, world.a, frozenset({("a", 1)}))
    assert [survivors.suspect("C", "a", one) for one in (1, 2)] == [world.live.suspect("C", "a", one) for one in (1, 2)]
    assert not Survivors(Silence(), world.a, frozenset()).suspect("C", "a", 1)


@pytest.mark.parametrize(("nodes", "survives", "kind"), [({2}, True, "elected"), ({2, 3}, False, "no master")])
def test_without_a_quorum_nobody_is_elected(nodes: set[int], survives: bool, kind: str) -> None:
    """The controllers are counted first; what has lost its master then has none."""
    world = three()
    failures = Failures(nodes=frozenset(nodes), brokers=frozenset({("a", 1)}))
    found = finished(whatif(world.state, world.live, failures, None, PolicySettings(), 1))
    assert (found.quorum.survives, found.quorum.needed, found.quorum.leader_lost) == (survives, 2, True)
    assert found.quorum.voters_left == sorted({1, 2, 3} - nodes)
    assert found.rows[0].kind == kind
    assert (found.rows[0].rule == "no quorum") is not survives
