"""No answer before it is certain, none twice, none lost: elections, restarts, snapshots and full queues included."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.consensus.ports import MAX_ENTRY_BYTES, Family, Index, StoreOp, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.controller import (
    Answered,
    Busy,
    ControllerSettings,
    Listener,
    NotLeader,
    ReadView,
    Refused,
    ReplicatedState,
    Unavailable,
    UnknownOutcome,
    WhenApplied,
    messages,
)
from quorate.controller.messages import CommandOutcome, ForwardedCommand
from quorate.controller.routing import RETRY_MAX_S, RETRY_MIN_S, UNPARKED_PER_TURN
from quorate.controller.settings import WRONG_STOPS_WITHIN_S
from quorate.errors import UsageError
from quorate.metadata.commands import Accepted, DeleteTopic, PutTopic, RecordNodeStart
from quorate.metadata.refusals import response
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics
from tests.stand_ins import MemoryStore
from tests.unit.controller.bench import ADDRESSES, CALLER, Bench


def topic(name: str, queues: int = 4) -> PutTopic:
    """Put a topic."""
    return PutTopic(topic=name, read_queues=queues, write_queues=queues, permission=6)


def opened() -> Bench:
    """A bench whose term is open."""
    bench = Bench()
    bench.open()
    return bench


def following(leader: int = 2, **how: Any) -> Bench:
    """A bench that follows ``leader``."""
    bench = Bench(**how)
    bench.engine.leader_id = leader  # type: ignore[assignment]
    return bench


# -- restarts and the peer link


def test_an_answer_to_what_an_earlier_life_forwarded_is_not_taken_for_another() -> None:
    """A node that was killed with a command under way and came back keeps its new callers apart from the old ones."""
    before, after = following(), following(later_ms=300)
    before.submit(topic("old"))
    old = messages.decode(before.wire.sent[0][1])
    assert isinstance(old, ForwardedCommand)
    outcomes = after.submit(topic("new"))
    after.controller.receive(2, messages.encode(CommandOutcome(old.id, Answered(Accepted(), 7))))
    assert outcomes == []


def test_a_late_answer_does_not_answer_twice() -> None:
    """Once told *unknown*, a caller hears nothing more, and nothing is kept of its request."""
    bench = following()
    outcomes = bench.submit(topic("t"))
    asked = messages.decode(bench.wire.sent[0][1])
    assert isinstance(asked, ForwardedCommand)
    bench.after(3.0)
    bench.controller.receive(2, messages.encode(CommandOutcome(asked.id, Answered(Accepted(), 7))))
    assert [type(outcome) for outcome in outcomes] == [UnknownOutcome]


def test_an_answer_at_the_last_moment_is_dropped_when_the_deadline_was_first() -> None:
    """Settled by its deadline but not swept yet: the leader's word comes too late to count."""
    bench = following()
    slow = bench.submit(topic("t"), timeout_s=0.2)
    asked = messages.decode(bench.wire.sent[0][1])
    assert isinstance(asked, ForwardedCommand)
    (pending,) = bench.controller._router.forwarder._under_way.values()
    bench.controller._endings.settle(pending, UnknownOutcome("deadline"))
    bench.controller.receive(2, messages.encode(CommandOutcome(asked.id, Answered(Accepted(), 7))))
    bench.controller.peer_disconnected(2)
    assert [type(outcome) for outcome in slow] == [UnknownOutcome]


def test_a_link_that_breaks_after_the_deadline_ends_nothing_twice() -> None:
    """What ended stays ended when the peer goes away before the next sweep."""
    bench = following()
    outcomes = bench.submit(topic("t"))
    (pending,) = bench.controller._router.forwarder._under_way.values()
    bench.controller._endings.settle(pending, UnknownOutcome("deadline"))
    bench.controller.peer_disconnected(2)
    assert len(outcomes) == 1


def test_not_leader_from_the_peer_sends_the_command_to_the_next() -> None:
    """NotLeader proves that nothing was proposed, so the request may be forwarded again, once somebody else leads."""
    bench = following(2)
    outcomes = bench.submit(topic("t"))
    asked = messages.decode(bench.wire.sent[-1][1])
    assert isinstance(asked, ForwardedCommand)
    bench.controller.receive(2, messages.encode(CommandOutcome(asked.id, NotLeader(3))))
    bench.engine.leader_id = 3  # type: ignore[assignment]
    bench.after(0.02)
    assert bench.wire.sent[-1][0] == 3
    again = messages.decode(bench.wire.sent[-1][1])
    assert isinstance(again, ForwardedCommand)
    bench.controller.receive(3, messages.encode(CommandOutcome(again.id, Answered(Accepted(), 9))))
    assert outcomes == [Answered(Accepted(), 9)]


def test_without_a_link_to_the_leader_the_command_waits_and_nothing_was_proposed() -> None:
    """No connection, no certainty lost: at the deadline the answer is a plain no."""
    bench = following()
    bench.wire.up = False
    outcomes = bench.submit(topic("t"))
    bench.after(3.0)
    assert [type(outcome) for outcome in outcomes] == [Unavailable]
    assert bench.controller.parked == 0


def test_too_many_forwarded_requests_are_busy() -> None:
    """One more than the limit is refused at once, and nothing is sent."""
    bench = following(settings=ControllerSettings(forwarded_max=1))
    bench.submit(topic("a"))
    assert [type(outcome) for outcome in bench.submit(topic("b"))] == [Busy]
    assert len(bench.wire.sent) == 1


def test_a_command_too_long_to_be_forwarded_is_refused_here() -> None:
    """It would cost the link that consensus is on too: CommandTooLarge at once, nothing is sent, nothing waits."""
    bench = following()
    (outcome,) = bench.submit(topic("x" * (3 << 20)))
    assert isinstance(outcome, Refused)
    assert outcome.refusal.code == "CommandTooLarge"
    assert bench.wire.sent == []
    assert (bench.controller.parked, len(bench.controller._router.forwarder)) == (0, 0)


def test_a_command_with_a_number_no_message_holds_is_refused_here() -> None:
    """At once, with the reason; nothing is sent. No caller, of whatever protocol, goes without an answer for it."""
    bench = following()
    (outcome,) = bench.submit(topic("t", 10**30))
    assert isinstance(outcome, Refused)
    assert "cannot be sent" in outcome.refusal.remark
    assert bench.wire.sent == []
    assert (bench.controller.parked, len(bench.controller._router.forwarder)) == (0, 0)


def test_one_parked_request_that_fails_does_not_strand_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are tried in the next round; the one that failed has its answer when its time is over."""
    bench = Bench()
    failed = bench.submit(topic("a"))
    bench.submit(topic("b"))
    bench.engine.leader_id = 2  # type: ignore[assignment]

    def fails(*_: object) -> bool:
        raise RuntimeError("an unforeseen one")

    with monkeypatch.context() as patched:
        patched.setattr(bench.wire, "send", fails)
        with pytest.raises(RuntimeError):
            bench.after(0.1)
    bench.after(0.1)
    assert len(bench.wire.sent) == 1
    bench.after(3.0)
    assert [type(outcome) for outcome in failed] == [Unavailable]


def test_a_read_that_times_out_is_a_plain_no() -> None:
    """A read has no effect to be unsure of; a follower whose leader does not answer says so in time."""
    bench = following()
    outcomes: list[Any] = []
    bench.controller.read("linearizable", outcomes.append)
    bench.after(3.0)
    assert [type(outcome) for outcome in outcomes] == [Unavailable]
    bench.engine.confirm()
    assert len(outcomes) == 1


# -- deadlines


def test_every_answer_comes_within_the_time_it_promised() -> None:
    """Proposed, parked, forwarded or confirming: the deadline is kept, not noticed afterwards."""
    limit = ControllerSettings().answer_timeout_s
    for bench, how in ((opened(), {}), (Bench(), {}), (following(), {}), (opened(), {"bad": True})):
        at: list[float] = []
        start = bench.world.now

        def done(_: object, bench: Bench = bench, at: list[float] = at) -> None:
            at.append(bench.world.now)

        bench.controller.submit(topic("bad name!" if how else "t"), CALLER, done)
        bench.after(limit)
        assert len(at) == 1
        assert at[0] - start <= limit


def test_stopping_lets_every_request_end() -> None:
    """After stop nothing is taken; what is under way ends by its deadline, with what is known about it."""
    bench = opened()
    proposed = bench.submit(topic("t"))
    parked = following()
    parked.wire.up = False
    waiting = parked.submit(topic("t"))
    for one in (bench, parked):
        one.controller.stop()
        assert [type(outcome) for outcome in one.submit(topic("u"))] == [Unavailable]
        one.after(2.6)
    assert [type(outcome) for outcome in proposed] == [UnknownOutcome]
    assert [type(outcome) for outcome in waiting] == [Unavailable]
    events = bench.world.events
    bench.after(60.0)
    assert bench.world.events <= events + 2


# -- leadership lost and found


def test_what_is_in_doubt_behind_a_later_term_of_ones_own_never_happened() -> None:
    """Leading again, this node knows that its old entries behind the new barrier are gone, and says so at once."""
    bench = opened()
    outcomes = [bench.submit(topic(name)) for name in ("a", "b", "c")]
    bench.engine.lose(2)
    bench.engine.log[-3:] = [(Term(2), b"")]
    bench.engine.commit()
    bench.open(3)
    assert [[type(outcome) for outcome in found] for found in outcomes] == [[Unavailable]] * 3
    assert not bench.machine.state.topics


def test_a_caller_may_come_back_while_it_is_told() -> None:
    """An answer that causes the next command, and one that is refused at the loss and tries again: both are served."""
    bench = opened()
    later: list[Any] = []

    def again(_: object) -> None:
        bench.controller.submit(topic("next"), CALLER, later.append)

    bench.controller.submit(topic("t"), CALLER, again)
    bench.engine.commit()
    bench.engine.commit()
    assert isinstance(later[0], Answered)
    bench.submit(topic("u"))
    bench.controller.submit(topic("bad name!"), CALLER, again)
    bench.engine.confirm()
    bench.engine.lose(None)
    assert len(later) == 1
    bench.open(2)
    bench.settle()
    assert len(later) == 2


def test_an_own_entry_that_cannot_be_executed_ends_the_leadership() -> None:
    """A tip that turned out wrong: nothing was done, callers that come back at once break nothing, this leader goes."""
    bench = opened()
    first, second = bench.submit(topic("t")), bench.submit(topic("u"))
    back: list[Any] = []
    bench.controller.submit(
        topic("bad name!"), CALLER, lambda _: bench.controller.submit(topic("v"), CALLER, back.append)
    )
    bench.engine.confirm()
    bench.machine.offset += 1
    bench.engine.commit(len(bench.engine.log) - 1)
    bench.machine.offset -= 1
    assert [type(outcome) for outcome in first] == [Unavailable]
    bench.after(0.01)
    assert bench.engine.stepped_down
    assert second == []


def test_a_retry_that_cannot_be_confirmed_is_unknown() -> None:
    """Its first run is in the log: that this attempt wrote nothing does not make it a failure."""
    bench = opened()
    request_id = f"{bench.loop.time_ms()}-x"
    first = bench.submit(topic("t"), request_id=request_id)
    confirmed = bench.submit(topic("t"), request_id=request_id)
    bench.engine.confirm()
    unconfirmed = bench.submit(topic("t"), request_id=request_id)
    bench.engine.lose(2)
    assert first == []
    assert [type(outcome) for outcome in confirmed + unconfirmed] == [UnknownOutcome, UnknownOutcome]
    bench.engine.commit()
    assert isinstance(first[0], Answered)


def test_a_bad_or_forgotten_request_id_is_refused_or_unknown() -> None:
    """An id of no known form is refused; one older than everything remembered may have run."""
    bench = Bench(requests=RequestSettings(remembered_max=1))
    bench.open()
    bad = bench.submit(topic("t"), request_id="nonsense")
    now = bench.loop.time_ms()
    for number in range(3):
        bench.submit(topic(f"t{number}"), request_id=f"{now}-{number}")
    old = bench.submit(topic("t0"), request_id=f"{now}-0")
    bench.settle()
    assert isinstance(bad[0], Refused)
    assert bad[0].refusal.code == "InvalidRequestId"
    assert isinstance(old[0], UnknownOutcome)


def test_a_snapshot_over_entries_in_doubt_leaves_them_unknown_and_forgets_them() -> None:
    """The log below a snapshot is not seen: whether it was ours nobody knows, and nothing is kept for ever."""
    ahead = opened()
    for name in "abcd":
        ahead.done(topic(name))
    bench = opened()
    outcomes = bench.submit(topic("mine"))
    bench.engine.lose(2)
    families: tuple[Family, ...] = ("meta", "rows", "requests", "events")
    bench.store.write([StoreOp(f, k, v) for f in families for k, v in ahead.store.scan(f)])
    seen: list[int] = []
    bench.listeners.add(WhenApplied(seen.append))
    bench.machine.install(ahead.machine.applied_index(), Term(1))
    assert seen == [bench.controller.offset] == [6]
    bench.after(2.6)
    assert [type(outcome) for outcome in outcomes] == [UnknownOutcome]
    assert not bench.controller._decider._in_doubt


def test_the_tip_starts_from_what_is_committed_when_leadership_returns() -> None:
    """What the lost leadership decided and nobody committed is not seen by the next decisions."""
    bench = opened()
    bench.submit(topic("t"))
    bench.engine.lose(2)
    bench.engine.log[-1] = (Term(2), b"")
    bench.engine.commit()
    bench.open(3)
    refused = bench.submit(DeleteTopic(topic="t"))
    bench.engine.confirm()
    assert not isinstance(refused[0], Refused) or "t" not in bench.machine.state.topics
    assert bench.controller.offset == 3


# -- opening a term


def test_a_second_leader_founds_the_cluster_only_if_the_first_did_not() -> None:
    """ClusterCreated is at offset 0 once, whether the first leader's try was committed or lost."""
    for committed in (True, False):
        bench = Bench()
        bench.engine.lead(1)
        bench.engine.lose(None)
        if not committed:
            bench.engine.log[-1] = (Term(2), b"")
        bench.engine.lead(3)
        for _ in range(4):
            bench.engine.commit()
        assert bench.controller.is_leader
        assert bench.controller.offset == 2
        assert bench.machine.state.leader is not None
        assert bench.machine.state.leader.term == 3


def test_a_leader_that_may_not_be_recorded_steps_down() -> None:
    """A node that is no voter of this cluster cannot open a term, and does not stay in the way."""
    bench = Bench(node_id=9)
    bench.engine.lead(1)
    bench.engine.commit()
    bench.engine.confirm()
    assert bench.engine.stepped_down
    assert not bench.controller.is_leader


def test_a_term_that_cannot_be_opened_in_time_is_given_up() -> None:
    """A leader whose first decision is not committed within the limit lets another try."""
    bench = Bench()
    bench.engine.lead(1)
    bench.after(2.6)
    assert bench.engine.stepped_down


def test_a_term_lost_before_its_first_decision_was_answered_opens_nothing() -> None:
    """Its record may still be committed; the term is over all the same."""
    bench = Bench()
    opens: list[int] = []

    class Opens(Listener):
        def opened(self, term: int) -> None:
            opens.append(term)

    bench.controller.listeners.add(Opens())
    bench.open()
    bench.engine.lose(None)
    bench.engine.lead(2)
    bench.engine.lose(None)
    bench.engine.commit()
    assert opens == [1]
    assert not bench.controller.is_leader
    bench.engine.leading = False
    bench.machine.leadership(Term(5), bench_cause())
    assert opens == [1]


def bench_cause() -> Any:
    """Some reason to lead."""
    from quorate.consensus.ports import LeaderCause

    return LeaderCause("silent")


# -- queues


def test_parked_requests_are_served_in_bounded_slices_and_in_order() -> None:
    """A term that opens to a crowd serves it over several turns, first come first served."""
    bench = Bench()
    order: list[str] = []
    for number in range(3 * UNPARKED_PER_TURN):
        bench.controller.submit(topic(f"t{number}"), CALLER, lambda _, n=number: order.append(f"t{n}"))  # type: ignore[misc]
    bench.after(0.1)
    assert bench.controller.parked == 3 * UNPARKED_PER_TURN
    bench.open()
    assert bench.controller.in_flight == UNPARKED_PER_TURN
    bench.settle()
    assert order == [f"t{number}" for number in range(3 * UNPARKED_PER_TURN)]


def test_what_ended_leaves_the_parked_though_nobody_leads() -> None:
    """Requests whose deadline passed do not fill the queue for those that come later."""
    bench = Bench(settings=ControllerSettings(parked_max=1))
    bench.submit(topic("a"), timeout_s=0.2)
    bench.after(0.5)
    assert bench.controller.parked == 0
    assert bench.submit(topic("b")) == []


def test_what_waits_for_a_leader_is_tried_as_soon_as_the_log_names_one() -> None:
    """Without one it is looked at ever less often, for each look costs as much as waits."""
    bench = Bench()
    bench.submit(topic("t"))
    bench.after(1.0)
    assert bench.controller._router._retry_s == RETRY_MAX_S
    bench.engine.leader_id = 2  # type: ignore[assignment]
    bench.after(0.001)
    assert bench.controller.parked == 1
    bench.listeners.leader_recorded()
    bench.after(0.001)
    assert bench.controller.parked == 0
    assert isinstance(messages.decode(bench.wire.sent[-1][1]), ForwardedCommand)
    assert bench.controller._router._retry_s == RETRY_MIN_S


def test_what_may_not_be_forwarded_hears_when_this_node_no_longer_leads() -> None:
    """Parked while the term opens; told NotLeader as soon as it is clear that it will not."""
    bench = Bench()
    bench.engine.lead(1)
    outcomes = bench.submit(topic("t"), forward=False)
    bench.after(0.02)
    assert outcomes == []
    bench.engine.lose(None)
    bench.after(0.02)
    assert outcomes == [NotLeader(None)]


def test_an_entry_longer_than_the_engine_takes_is_refused() -> None:
    """Too long is a refusal, whichever limit is hit; nothing is proposed, nothing is stuck."""
    bench = opened()
    bench.engine.entry_bytes_max = 10
    outcomes = bench.submit(topic("t"))
    bench.engine.confirm()
    assert isinstance(outcomes[0], Refused)
    assert outcomes[0].refusal.code == "CommandTooLarge"
    assert response(outcomes[0].refusal) == (2005, "too long")
    assert bench.controller.in_flight == 0


def test_settings_that_cannot_work_are_refused() -> None:
    """No node would apply an entry above the format's limit; queues hold something; deadlines are looked at in time."""
    bad: tuple[Callable[[], ControllerSettings], ...] = (
        lambda: ControllerSettings(command_bytes_max=MAX_ENTRY_BYTES + 1),
        lambda: ControllerSettings(deadline_sweep_s=3.0),
        lambda: ControllerSettings(parked_max=0),
        lambda: ControllerSettings(failover_pause_s=-0.001),
        lambda: ControllerSettings(role_push_gather_s=-1.0),
    )
    for make in bad:
        with pytest.raises(UsageError):
            make()


@pytest.mark.parametrize("name", ["compare_again_s", "compare_period_s", "verdict_after_s", "wrong_hand_over_s"])
def test_a_wrong_node_stops_in_time_whatever_the_settings(name: str) -> None:
    """What passes from an entry to the end of a node that is wrong there, together: an answer, two periods, the looking
    at oneself and the handing over. More than is promised is refused by these names; all of what is promised is not.
    """
    known = ControllerSettings()
    times = 2 if name == "compare_period_s" else 1
    spent_s = known.compare_again_s + 2 * known.compare_period_s + known.verdict_after_s + known.wrong_hand_over_s
    fits_s = getattr(known, name) + (WRONG_STOPS_WITHIN_S - spent_s) / times
    assert WRONG_STOPS_WITHIN_S == 2.0
    ControllerSettings(**{name: fits_s - 0.001})
    with pytest.raises(UsageError, match=r"compare_\*_s, verdict_after_s and wrong_hand_over_s.*within 2 s"):
        ControllerSettings(**{name: fits_s + 0.001})


# -- reads


def test_reads_say_how_fresh_they_are() -> None:
    """Stale: at once, anywhere. Linearizable: confirmed, anywhere; NotLeader where only the leader may answer."""
    bench = opened()
    found: list[Any] = []
    bench.controller.read("stale", found.append)
    bench.controller.read("linearizable", found.append)
    assert [type(one) for one in found] == [ReadView]
    bench.engine.confirm()
    bench.engine.lose(2)
    bench.controller.read("linearizable", found.append, forward=False)
    bench.controller.read("linearizable", found.append)
    bench.engine.confirm()
    assert [type(one) for one in found[1:]] == [ReadView, NotLeader, ReadView]
    assert found[0].offset == bench.controller.offset
    assert bench.controller.leader_id == 2


def test_a_read_that_ended_is_not_answered_again() -> None:
    """The confirmation that comes after the deadline answers nobody twice; nor does one after the node stopped."""
    bench = opened()
    late: list[Any] = []
    bench.controller.read("linearizable", late.append)
    bench.after(2.6)
    bench.engine.confirm()
    assert [type(one) for one in late] == [Unavailable]
    stopped: list[Any] = []
    bench.controller.read("linearizable", stopped.append)
    bench.controller.stop()
    bench.engine.confirm(ok=False)
    bench.controller.read("linearizable", stopped.append)
    assert [type(one) for one in stopped] == [Unavailable, Unavailable]


# -- this node's own start


def test_the_start_of_a_node_is_recorded_when_somebody_leads() -> None:
    """Tried again until a leader took it; then it is a fact, once."""
    bench = Bench()
    start = RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=1)
    bench.controller.start(start)
    bench.after(3.0)
    bench.open()
    for _ in range(5):
        bench.after(1.0)
        bench.settle()
    assert bench.machine.state.nodes[1].version == "1"
    assert bench.controller.offset == 3
    bench.controller._announce()
    bench.settle()
    assert bench.controller.offset == 3


# -- counting


def test_every_node_counts_the_leaders_it_sees() -> None:
    """A follower that applies ControllerLeaderElected has seen a new leader, as the leader itself has."""
    bench = opened()
    bench.engine.lose(2)
    bench.open(3)
    metrics, store = Metrics(), MemoryStore()
    follower = ReplicatedState(store, EventLog(store), metrics, RequestSettings())
    for index, (term, entry) in enumerate(bench.engine.log, start=1):
        follower.apply(Index(index), term, entry)
    follower.applied()
    assert bench.metrics.leader_changes == metrics.leader_changes == 2


def test_commits_are_timed_and_refusals_counted_where_they_are_decided() -> None:
    """A command that wrote is timed on the node that decided it; a relayed refusal counts once."""
    bench = opened()
    opening = sum(bench.metrics.commit_us.counts)
    bench.submit(topic("t"))
    bench.after(0.5)
    bench.engine.commit()
    assert sum(bench.metrics.commit_us.counts) == opening + 1
    assert 400_000 <= bench.metrics.commit_us.total_us <= 600_000
    refused = bench.submit(topic("bad name!"))
    bench.engine.confirm()
    assert sum(bench.metrics.refusals.values()) == 1
    relay = following()
    relay.submit(topic("bad name!"))
    asked = messages.decode(relay.wire.sent[0][1])
    assert isinstance(asked, ForwardedCommand)
    relay.controller.receive(2, messages.encode(CommandOutcome(asked.id, refused[0])))
    assert not relay.metrics.refusals
    gauges = {gauge.name: gauge.read() for gauge in bench.metrics.gauges}
    own = {name: gauges[name] for name in ("live_brokers", "heartbeats_ignored", "clock_behind_log_seconds")}
    assert own == {"live_brokers": 0, "heartbeats_ignored": 0, "clock_behind_log_seconds": 0}


def test_a_caller_that_cannot_take_its_answer_stops_nobody() -> None:
    """Its error is raised in a turn of its own; the slice, the node and the other callers go on."""
    bench = opened()

    def broken(_: object) -> None:
        raise ValueError("cannot write this")

    bench.controller.submit(topic("t"), CALLER, broken)
    after = bench.submit(topic("u"))
    bench.engine.commit()
    assert isinstance(after[0], Answered)
    with pytest.raises(ValueError, match="cannot write this"):
        bench.after(0.1)


def test_deadlines_go_on_though_a_look_at_them_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in one sweep is its own; who asks later with the same patience is looked after."""
    bench = following()
    with monkeypatch.context() as patched:
        patched.setattr(type(bench.controller._decider), "sweep", broken)
        first = bench.submit(topic("t"), timeout_s=0.2)
        with pytest.raises(RuntimeError):
            bench.after(1.0)
    later = bench.submit(topic("u"), timeout_s=0.2)
    bench.after(1.0)
    assert [type(outcome) for outcome in (*first, *later)] == [UnknownOutcome, UnknownOutcome]


def broken(_: object) -> None:
    """Whatever it is."""
    raise RuntimeError("a bug")


def test_answers_that_wait_for_an_entry_are_not_copied_for_each_more() -> None:
    """Thousands may be read from one tip: each joins those that wait, and all are told once the entry is applied."""
    bench = opened()
    written = bench.submit(topic("t"))
    told = bench.submit(topic("t"))
    bench.engine.confirm()
    waiting = bench.flights.in_flight[-1].waiting
    more = bench.submit(topic("t"))
    bench.engine.confirm()
    assert bench.flights.in_flight[-1].waiting is waiting
    assert (len(waiting), told, more) == (2, [], [])
    bench.engine.commit()
    assert [type(one) for (one,) in (written, told, more)] == [Answered] * 3
