"""Every request gets exactly one outcome, and the outcome says what is known."""

from collections.abc import Callable
from random import Random

import pytest

from quorate.consensus.entry import decode_entry
from quorate.consensus.ports import Index, StoreOp, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.controller import (
    Answered,
    Busy,
    ControllerSettings,
    GroupWriter,
    NotLeader,
    QueryResult,
    ReadResult,
    ReadView,
    Refused,
    ReplicatedState,
    SettingsAgreement,
    Unavailable,
    UnknownOutcome,
    messages,
)
from quorate.controller.deciding import CONTEXT_S
from quorate.controller.messages import CommandOutcome, ForwardedCommand
from quorate.controller.views import answered
from quorate.errors import StorageError
from quorate.gateway.kafka.groups import Groups
from quorate.gateway.kafka.offsets import GroupOffsets
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.metadata.commands import (
    Accepted,
    Command,
    DeleteTopic,
    GrantLease,
    PutKey,
    PutTopic,
    RaiseFeatureLevel,
    RecordNodeStart,
    Refusal,
    Transact,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.group_rows import decode_changes
from quorate.metadata.limits import GROUP_EXPIRY_S, GROUP_ROWS_MAX, in_force, limits_of_requests, own_limits
from quorate.metadata.requests import RequestSettings
from quorate.metadata.sums import Mark
from quorate.model.keys import RangeKeys
from quorate.model.queries import TopicConfig
from quorate.model.state import State
from quorate.wire.avro import decode_events
from quorate.wire.kafka_requests import JoinGroupRequest, OffsetCommitPartition, OffsetCommitRequest, SyncGroupRequest
from quorate.wire.kafka_responses import JoinedGroup
from tests.plain_sums import plain_sums
from tests.stand_ins import MemoryStore
from tests.unit.controller.bench import ADDRESSES, CALLER, Bench


def topic(name: str, queues: int = 4) -> PutTopic:
    """Put a topic."""
    return PutTopic(topic=name, read_queues=queues, write_queues=queues, permission=6)


def sums_of(machine: ReplicatedState) -> Mark:
    """Where a machine is, and what its rows add up to, worked out from nothing."""
    entities, whole = plain_sums(machine.state, machine.requests, machine.groups.starting_with(b""))
    return Mark(index=machine.applied_index(), term=machine.term, offset=machine.offset, rows=entities, whole=whole)


def look(bench: Bench, outcomes: list[object]) -> None:
    """Ask for topic t, linearizably."""

    def seen(view: ReadResult) -> None:
        outcomes.append(answered(TopicConfig(topic="t"), view) if isinstance(view, ReadView) else view)

    bench.controller.read("linearizable", seen)


def test_the_first_two_facts_are_the_cluster_and_its_leader() -> None:
    """A new log begins with ClusterCreated at offset 0, then ControllerLeaderElected; then the term is open."""
    bench = Bench()

    def leads() -> bool:
        return bench.controller.is_leader

    bench.engine.lead(1)
    assert not leads()
    bench.engine.commit()
    assert bench.controller.offset == 1
    assert bench.machine.state.cluster is not None
    assert not leads()
    bench.engine.commit()
    assert leads()
    assert bench.machine.state.leader is not None
    assert bench.machine.state.leader.node_id == 1


def test_an_answer_leaves_only_after_commit_and_apply() -> None:
    """A proposed command is answered when its entry is applied, not before, with the offset after its events."""
    bench = Bench()
    bench.open()
    outcomes = bench.submit(topic("t"))
    assert outcomes == []
    bench.engine.commit()
    (outcome,) = outcomes
    assert isinstance(outcome, Answered)
    assert outcome.offset == bench.controller.offset == 3


def test_many_entries_are_in_flight_and_decide_on_each_others_tip() -> None:
    """The second command sees what the first did, before either is committed."""
    bench = Bench()
    bench.open()
    first, second = bench.submit(topic("t")), bench.submit(DeleteTopic(topic="t"))
    assert bench.controller.in_flight == 2
    bench.engine.commit()
    assert isinstance(first[0], Answered)
    assert isinstance(second[0], Answered)
    assert "t" not in bench.machine.state.topics


def test_decisions_of_one_moment_have_one_time_and_the_next_one_its_own() -> None:
    """Time and live table are looked at once in ``CONTEXT_S``, and not less often; another term looks for itself."""
    bench = Bench(settings=ControllerSettings(answer_timeout_s=100.0))
    bench.open()
    times: list[int] = []
    for number, pause_s in enumerate((CONTEXT_S, CONTEXT_S / 2, CONTEXT_S / 2, 50 * CONTEXT_S)):
        bench.after(pause_s)
        bench.done(topic(f"t{number}"))
        times.append(bench.machine.time_ms)
    now_ms = bench.loop.time_ms()
    assert times[0] == times[1] < times[2] < times[3] == now_ms
    bench.engine.lose(None)
    bench.after(CONTEXT_S / 2)
    bench.loop.wall_skew_ms += 10
    bench.open(2)
    assert bench.machine.time_ms == bench.loop.time_ms()


def test_a_refusal_read_from_the_tip_waits_for_it() -> None:
    """A refusal that rests on an uncommitted entry is not told before that entry is applied."""
    bench = Bench()
    bench.open()
    bench.submit(topic("t"))
    refused = bench.submit(topic("bad name!"))
    bench.engine.confirm()
    assert refused == []
    bench.engine.commit()
    assert isinstance(refused[0], Refused)


def test_the_commit_of_what_it_rests_on_does_not_vouch_for_a_refusal() -> None:
    """A leader that was paused may commit by old acknowledgements while another leads: no refusal before it asked."""
    for still_leads in (True, False):
        bench = Bench()
        bench.open()
        written, refused = bench.submit(topic("t")), bench.submit(topic("bad name!"))
        bench.engine.commit()
        assert isinstance(written[0], Answered)
        assert refused == []
        bench.engine.confirm(ok=still_leads)
        assert isinstance(refused[0], Refused if still_leads else Unavailable)


def test_a_refusal_with_nothing_in_flight_waits_for_a_confirmed_leadership() -> None:
    """A deposed leader cannot refuse out of its stale state: without a majority's word nobody is told anything."""
    bench = Bench()
    bench.open()
    refused, lost = bench.submit(topic("bad name!")), bench.submit(topic("bad name!"))
    assert refused == []
    done = bench.engine.reads.pop(0)
    done(None)
    assert isinstance(refused[0], Unavailable)
    bench.engine.confirm()
    assert isinstance(lost[0], Refused)


def test_a_timeout_after_the_proposal_is_an_unknown_outcome() -> None:
    """What was proposed and not committed in time may still happen: never reported as failure."""
    bench = Bench()
    bench.open()
    outcomes = bench.submit(topic("t"))
    bench.after(2.6)
    assert isinstance(outcomes[0], UnknownOutcome)
    bench.engine.commit()
    assert len(outcomes) == 1
    assert bench.metrics.unknown_outcomes == 1


def test_a_timeout_before_any_proposal_is_a_plain_no() -> None:
    """With no leader known the request waits, then ends as Unavailable: nothing was proposed."""
    bench = Bench()
    outcomes = bench.submit(topic("t"))
    bench.after(2.0)
    assert outcomes == []
    bench.after(0.6)
    assert isinstance(outcomes[0], Unavailable)


def test_parked_requests_are_decided_when_a_term_opens() -> None:
    """A command that arrives during an election is decided by whoever wins it here."""
    bench = Bench()
    outcomes = bench.submit(topic("t"))
    bench.open()
    bench.engine.commit()
    assert isinstance(outcomes[0], Answered)


def test_a_follower_forwards_one_hop_and_believes_the_answer() -> None:
    """A follower sends the command, with the caller's name and its own, to the leader, and relays the outcome."""
    bench = Bench()
    bench.engine.leader_id = 2  # type: ignore[assignment]
    outcomes = bench.submit(topic("t"), cause="17")
    ((peer, payload),) = bench.wire.sent
    message = messages.decode(payload)
    assert isinstance(message, ForwardedCommand)
    assert (peer, message.caller.principal, message.caller.origin, message.cause) == (2, "tester", "node/1", "17")
    answered = Answered(Accepted(), 7)
    bench.controller.receive(2, messages.encode(CommandOutcome(message.id, answered)))
    assert outcomes == [answered]


def test_a_forwarded_command_whose_link_breaks_is_unknown() -> None:
    """The leader may have taken it: the caller is told that nobody knows."""
    bench = Bench()
    bench.engine.leader_id = 2  # type: ignore[assignment]
    outcomes = bench.submit(topic("t"))
    bench.controller.peer_disconnected(2)
    assert isinstance(outcomes[0], UnknownOutcome)


def test_a_command_sent_to_a_leader_that_was_replaced_is_unknown_at_once() -> None:
    """A leader that hangs with our command may have logged it; its successor's caller is told so without waiting."""
    bench = Bench()
    bench.engine.leader_id = 2  # type: ignore[assignment]
    outcomes = bench.submit(topic("t"))
    bench.engine.leader_id = 3  # type: ignore[assignment]
    bench.after(0.1)
    assert isinstance(outcomes[0], UnknownOutcome)


def test_a_follower_answers_from_its_own_state_once_the_leader_was_asked() -> None:
    """No query leaves a follower: it waits for the read index, then its own state and live table answer."""
    bench = Bench()
    bench.open()
    bench.done(topic("t"))
    bench.engine.lose(2)
    outcomes: list[object] = []
    look(bench, outcomes)
    assert outcomes == []
    bench.engine.confirm()
    assert isinstance(outcomes[0], QueryResult)
    assert outcomes[0].offset == bench.controller.offset
    assert bench.wire.sent == []


def test_a_read_that_could_not_be_confirmed_is_asked_again() -> None:
    """While the leader moves a read waits for the next one; its caller sees one answer, and never an old one."""
    bench = Bench()
    bench.engine.leader_id = 2  # type: ignore[assignment]
    seen: list[object] = []
    bench.controller.read("linearizable", seen.append)
    bench.engine.confirm(ok=False)
    bench.after(0.05)
    assert seen == []
    assert bench.controller.parked == 0
    bench.engine.confirm(ok=False)
    bench.engine.leader_id = None
    bench.after(0.05)
    assert bench.controller.parked == 1
    bench.open()
    bench.settle()
    assert isinstance(seen[0], ReadView)
    assert seen[0].offset == bench.controller.offset
    assert len(seen) == 1


def test_not_leader_is_the_answer_when_forwarding_is_off() -> None:
    """``forward=False`` on a follower: NotLeader with the hint, nothing sent."""
    bench = Bench()
    bench.engine.leader_id = 2  # type: ignore[assignment]
    assert bench.submit(topic("t"), forward=False) == [NotLeader(2)]
    assert bench.wire.sent == []


def test_what_was_forwarded_here_is_answered_over_the_link() -> None:
    """The leader decides for a follower's caller and sends the outcome back; not leading, it says NotLeader."""
    bench = Bench()
    bench.engine.leader_id = 2  # type: ignore[assignment]
    asked = ForwardedCommand(5, 2500, CALLER, "17", "", topic("t"))
    bench.controller.receive(3, messages.encode(asked))
    assert messages.decode(bench.wire.sent[-1][1]) == CommandOutcome(5, NotLeader(2))
    bench.open()
    bench.controller.receive(3, messages.encode(asked))
    bench.engine.commit()
    reply = messages.decode(bench.wire.sent[-1][1])
    assert isinstance(reply, CommandOutcome)
    assert isinstance(reply.outcome, Answered)


def test_a_rule_that_fails_ends_its_command_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked is told that it failed, here and over the link, which stays; the error is raised once, where the
    loop tells it; what is asked after it is decided.
    """

    def failing(state: State, command: Command, context: Context) -> Decision | Refusal:
        if command == topic("bad"):
            raise ValueError("a planted error")
        return decide(state, command, context)

    bench = Bench()
    bench.open()
    later: list[Callable[[], None]] = []
    monkeypatch.setattr("quorate.controller.deciding.decide", failing)
    monkeypatch.setattr(bench.loop, "call_soon", later.append)
    bench.controller.receive(3, messages.encode(ForwardedCommand(5, 2500, CALLER, "17", "", topic("bad"))))
    outcomes = bench.submit(topic("bad"))
    assert len(later) == 2
    for told in later:
        with pytest.raises(ValueError, match="planted"):
            told()
    bench.engine.confirm()
    reply = messages.decode(bench.wire.sent[-1][1])
    assert isinstance(reply, CommandOutcome)
    for outcome in (reply.outcome, *outcomes):
        assert isinstance(outcome, Refused)
        assert outcome.refusal.code == "CallFailed"
    assert isinstance(bench.done(topic("good")), Answered)


@pytest.mark.parametrize("named", [False, True])
def test_what_no_entry_can_hold_is_refused_and_the_link_stays(named: bool) -> None:
    """A number that the link carries and no schema does, or that nothing carries: whoever asked is told so at once,
    once; what is asked after it is decided.
    """
    bench = Bench()
    bench.open()
    bench.done(RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2))
    bench.done(RaiseFeatureLevel(level=2))
    request_id = f"{bench.loop.time_ms()}-x" if named else ""
    carried, beyond = GrantLease(lease=2**63, ttl_s=5), GrantLease(lease=2**64, ttl_s=5)
    bench.controller.receive(3, messages.encode(ForwardedCommand(5, 2500, CALLER, "17", request_id, carried)))
    asked = [bench.submit(command, request_id=request_id) for command in (carried, beyond)]
    bench.engine.confirm()
    reply = messages.decode(bench.wire.sent[-1][1])
    assert isinstance(reply, CommandOutcome)
    bench.after(5)
    assert [len(outcomes) for outcomes in asked] == [1, 1]
    for outcome in (reply.outcome, *asked[0], *asked[1]):
        assert isinstance(outcome, Refused)
        assert outcome.refusal.code == "CommandTooLarge"
    assert isinstance(bench.done(topic("good")), Answered)


def test_an_answer_that_is_too_long_for_the_link_is_told_as_unknown() -> None:
    """A frame above its limit would close the link, and consensus is on it too."""
    bench = Bench(settings=ControllerSettings(command_bytes_max=1_000, group_entry_bytes_max=500))
    bench.open()
    bench.done(RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2))
    bench.done(RaiseFeatureLevel(level=2))
    for number in range(10):
        bench.done(PutKey(key=b"%d" % number, value=b"x" * 700))
    everything = Transact(success=(RangeKeys(key=b"0", range_end=b"\x00"),))
    bench.controller.receive(3, messages.encode(ForwardedCommand(5, 2500, CALLER, "grpc", "", everything)))
    bench.engine.confirm()
    payload = bench.wire.sent[-1][1]
    reply = messages.decode(payload)
    assert isinstance(reply, CommandOutcome)
    assert (reply.id, isinstance(reply.outcome, UnknownOutcome)) == (5, True)
    assert len(payload) < 200


def test_a_transaction_knows_the_next_revision() -> None:
    """Where the log ends with what is in flight: by that it bounds what it reads of its own."""
    bench = Bench()
    bench.open()
    bench.done(RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2))
    bench.done(RaiseFeatureLevel(level=2))
    end = bench.controller.offset
    bench.submit(PutKey(key=b"in flight"))
    told = [
        bench.submit(Transact(success=(PutKey(key=b"a"), RangeKeys(key=b"a", max_mod_revision=end + further))))
        for further in (0, 2)
    ]
    bench.settle()
    assert [len(one[0].reply.replies[1].found) for one in told] == [0, 1]


def test_a_query_is_answered_from_committed_state_once_the_leadership_is_confirmed() -> None:
    """A linearizable read never shows what is only in flight, and never answers unconfirmed."""
    bench = Bench()
    bench.open()
    bench.submit(topic("t"))
    outcomes: list[object] = []
    look(bench, outcomes)
    assert outcomes == []
    bench.engine.confirm()
    assert type(outcomes[0]).__name__ == "NotFound"
    bench.engine.commit()
    look(bench, outcomes)
    bench.engine.confirm()
    assert isinstance(outcomes[1], QueryResult)


def test_full_queues_answer_busy_at_once() -> None:
    """Neither the entries in flight nor the parked requests grow beyond their limit."""
    bench = Bench(settings=ControllerSettings(in_flight_max=1, parked_max=1))
    bench.submit(topic("waits"))
    assert isinstance(bench.submit(topic("t"))[0], Busy)
    bench.open()
    bench.engine.commit()
    bench.submit(topic("a"))
    assert isinstance(bench.submit(topic("b"))[0], Busy)


def test_a_repeated_request_id_gets_the_first_answer_and_runs_once() -> None:
    """A retry is told what the first attempt was told, whether that is applied yet or not."""
    bench = Bench()
    bench.open()
    now = bench.loop.time_ms()
    first = bench.submit(topic("t"), request_id=f"{now}-x")
    again = bench.submit(topic("t"), request_id=f"{now}-x")
    bench.engine.commit()
    third = bench.submit(topic("t"), request_id=f"{now}-x")
    bench.engine.confirm()
    assert (first[0].reply, first[0].offset) == (again[0].reply, again[0].offset) == (third[0].reply, third[0].offset)
    assert (first[0].repeated, again[0].repeated, third[0].repeated) == (False, True, True)
    assert bench.controller.offset == 3


def test_another_command_under_a_used_request_id_is_refused_by_name() -> None:
    """While the first is in flight, once it is applied, from another node, and at the next leader and after a restart;
    the caller would else be told that its change was made. The first command itself still gets its answer.
    """
    bench = Bench()
    bench.open()
    request_id = f"{bench.loop.time_ms()}-x"
    bench.submit(topic("t"), request_id=request_id)
    in_flight = bench.submit(topic("t", 8), request_id=request_id)
    bench.engine.commit()
    applied = bench.submit(DeleteTopic(topic="t"), request_id=request_id)
    bench.engine.confirm()
    offset = bench.controller.offset
    asked = ForwardedCommand(5, 2500, CALLER, "17", request_id, topic("u"))
    bench.controller.receive(3, messages.encode(asked))
    bench.engine.confirm()
    forwarded = messages.decode(bench.wire.sent[-1][1])
    assert isinstance(forwarded, CommandOutcome)
    for outcome in (*in_flight, *applied, forwarded.outcome):
        assert isinstance(outcome, Refused)
        assert outcome.refusal.code == "RequestIdReused"
    assert bench.controller.offset == offset

    follower = Bench(later_ms=100)
    follower.engine.log = list(bench.engine.log)
    follower.engine.commit()
    assert dict(follower.machine.requests.rows()) == dict(bench.machine.requests.rows())
    follower.open(9)
    restarted = ReplicatedState(bench.store, EventLog(bench.store), bench.metrics, RequestSettings())
    assert dict(restarted.requests.rows()) == dict(bench.machine.requests.rows())
    refused = follower.submit(topic("t", 8), request_id=request_id)
    again = follower.submit(topic("t"), request_id=request_id)
    follower.engine.confirm()
    assert refused[0].refusal.code == "RequestIdReused"
    assert again[0].repeated


def test_an_entry_of_a_lost_leadership_that_commits_after_all_is_answered() -> None:
    """Losing the leadership says nothing about an entry in flight; its commit, if seen, does."""
    bench = Bench()
    bench.open()
    outcomes = bench.submit(topic("t"))
    waiting = bench.submit(topic("bad name!"))
    bench.engine.lose(2)
    assert outcomes == []
    assert isinstance(waiting[0], Unavailable)
    bench.engine.commit()
    assert isinstance(outcomes[0], Answered)


def test_an_entry_replaced_by_another_leaders_provably_never_happened() -> None:
    """If another term's entry takes its index, the caller is told that nothing happened."""
    bench = Bench()
    bench.open()
    outcomes = bench.submit(topic("t"))
    bench.engine.lose(2)
    bench.engine.log[-1] = (bench.engine.term + 1, b"")  # type: ignore[assignment]
    bench.engine.commit()
    assert isinstance(outcomes[0], Unavailable)
    assert "t" not in bench.machine.state.topics


def test_an_entry_decided_in_another_term_is_not_executed() -> None:
    """A decision stored under a term it was not taken in is skipped on every node, and counted."""
    bench = Bench()
    bench.open()
    bench.submit(topic("t"))
    bench.engine.lose(2)
    term, entry = bench.engine.log[-1]
    bench.engine.log[-1] = (term + 1, entry)  # type: ignore[assignment]
    bench.engine.commit()
    assert bench.metrics.entries_not_executed == 1
    assert bench.controller.offset == 2


def times(bench: Bench) -> list[int]:
    """When each event of the log happened, as it says."""
    return [stamp.time_ms for _, batch in bench.store.scan("events") for stamp, _ in decode_events(batch)]


def test_time_in_the_log_never_falls() -> None:
    """The clock jumps back: what is decided then has the time of the last event, be that applied or still in flight."""
    bench = Bench()
    bench.open()
    bench.after(5.0)
    latest = bench.loop.time_ms()
    bench.submit(topic("t"))
    bench.loop.wall_skew_ms = -60_000
    bench.submit(topic("u"))
    bench.submit(topic("v"))
    bench.engine.commit()
    bench.done(topic("w"))
    assert times(bench)[2:] == [latest] * 4
    bench.after(61.0)
    bench.done(topic("x"))
    assert times(bench)[-1] == bench.loop.time_ms() > latest


def test_a_new_leader_whose_clock_is_behind_goes_on_at_the_last_events_time() -> None:
    """Ten minutes behind what it applied as a follower: its own term and what it decides are not before that."""
    bench, behind = Bench(), Bench(later_ms=-600_000)
    bench.open()
    bench.done(topic("t"))
    latest = bench.loop.time_ms()
    behind.engine.log = list(bench.engine.log)
    behind.engine.commit()
    behind.open(2)
    behind.done(topic("u"))
    assert times(behind)[2:] == [latest] * 3


def test_a_restart_reads_the_rows_and_equals_what_was() -> None:
    """State, offset and request table of a machine built on the same store are those of the first one."""
    bench = Bench()
    bench.open()
    bench.submit(topic("t"), request_id=f"{bench.loop.time_ms()}-x")
    bench.submit(topic("u", 8))
    bench.engine.commit()
    again = ReplicatedState(bench.store, EventLog(bench.store), bench.metrics, RequestSettings())
    assert (again.offset, again.applied_index(), again.term) == (4, bench.machine.applied_index(), bench.machine.term)
    assert again.time_ms == bench.machine.time_ms == bench.loop.time_ms()
    assert again.marked == bench.machine.marked == sums_of(again)


def test_a_follower_that_decodes_the_batch_reaches_the_same_state() -> None:
    """Evolving from bytes, as followers do, equals adopting the tip, as the leader does."""
    bench = Bench()
    bench.open()
    bench.submit(topic("t"), request_id=f"{bench.loop.time_ms()}-x")
    bench.submit(DeleteTopic(topic="t"))
    bench.engine.commit()
    store = MemoryStore()
    follower = ReplicatedState(store, EventLog(store), bench.metrics, RequestSettings())
    for index, (term, entry) in enumerate(bench.engine.log, start=1):
        follower.apply(index, term, entry)  # type: ignore[arg-type]
    follower.applied()
    assert follower.marked == bench.machine.marked == sums_of(follower)
    assert list(store.scan("events")) == list(bench.store.scan("events"))


def test_each_command_leaves_one_canonical_line() -> None:
    """The line names the command, the caller, the outcome and why."""
    bench = Bench()
    bench.open()
    bench.lines.clear()
    bench.submit(topic("t"), cause="17")
    bench.engine.commit()
    (line,) = bench.lines
    assert (line.command, line.principal, line.cause, line.outcome) == ("PutTopic", "tester", "17", "Answered")


def test_a_relayed_answer_leaves_no_second_line() -> None:
    """The leader writes the line of what it decided; the follower only of what it alone knows: that nobody answered."""
    bench = Bench()
    bench.engine.leader_id = 2  # type: ignore[assignment]
    bench.submit(topic("t"))
    bench.submit(topic("u"))
    first, second = (messages.decode(payload) for _, payload in bench.wire.sent)
    assert isinstance(first, ForwardedCommand)
    assert isinstance(second, ForwardedCommand)
    bench.controller.receive(2, messages.encode(CommandOutcome(first.id, Answered(Accepted(), 7))))
    assert bench.lines == []
    bench.controller.peer_disconnected(2)
    assert [line.outcome for line in bench.lines] == ["UnknownOutcome"]


def test_a_malformed_peer_message_changes_nothing() -> None:
    """Garbage from a peer is a PeerError, not a crash and not a command."""
    import pytest

    from quorate.errors import PeerError

    bench = Bench()
    asked = messages.encode(ForwardedCommand(1, 1, CALLER, "text", "", DeleteTopic(topic="t")))
    whole = messages.encode(CommandOutcome(1, NotLeader(None)))
    for garbage in (b"", b"\x81", b"\xc0", whole[:-1], asked.replace(b"text", b"\xf4ext")):
        with pytest.raises(PeerError):
            bench.controller.receive(2, garbage)
    assert bench.controller.offset == 0


def test_a_store_whose_rows_do_not_add_up_is_not_served() -> None:
    """A row that is gone, another one, one too many: found at the next start, whatever the disk says of them."""
    bench = Bench()
    bench.open()
    bench.done(topic("t"))
    for family, changed in (("rows", b"topic/default/t"), ("groups", b"one too many")):
        kept = bench.store.get(family, changed)  # type: ignore[arg-type]
        bench.store.write([StoreOp(family, changed, None if kept else b"x")])  # type: ignore[arg-type]
        index = bench.machine.applied_index()
        with pytest.raises(StorageError, match=f"do not add up to what was applied at index {index}; start"):
            ReplicatedState(bench.store, EventLog(bench.store), bench.metrics, RequestSettings())
        bench.store.write([StoreOp(family, changed, kept)])  # type: ignore[arg-type]
    ReplicatedState(bench.store, EventLog(bench.store), bench.metrics, RequestSettings())


def test_sums_are_there_at_every_entry_and_a_slice_of_many_has_the_same() -> None:
    """A follower that applies all at once marks each entry as a leader did that applied them one by one."""
    bench = Bench()
    bench.open()
    for queues in (4, 8, 8, 16):
        bench.done(topic("t", queues))
    bench.done(DeleteTopic(topic="t"))
    store = MemoryStore()
    follower = ReplicatedState(store, EventLog(store), bench.metrics, RequestSettings())
    for index, (term, entry) in enumerate(bench.engine.log, start=1):
        follower.apply(index, term, entry)  # type: ignore[arg-type]
    follower.applied()
    last = bench.machine.applied_index()
    marks = [bench.machine.sums.at(index) for index in range(1, last + 1)]
    assert marks == [follower.sums.at(index) for index in range(1, last + 1)]
    assert None not in marks
    assert follower.marked == sums_of(follower)


def marks_of(bench: Bench, own: RequestSettings) -> list[Mark | None]:
    """What a follower with these settings of its own adds up to after each entry of a bench's log."""
    store = MemoryStore()
    follower = ReplicatedState(store, EventLog(store), bench.metrics, own)
    for index, (term, entry) in enumerate(bench.engine.log, start=1):
        follower.apply(index, term, entry)  # type: ignore[arg-type]
        follower.applied()
    assert follower.marked == sums_of(follower)
    return [follower.sums.at(index) for index in range(1, len(bench.engine.log) + 1)]


@pytest.mark.parametrize("leaders", [RequestSettings(), RequestSettings(remembered_max=3, remembered_ms_max=50)])
def test_nodes_whose_own_limits_differ_keep_the_same(leaders: RequestSettings) -> None:
    """What is remembered is decided by the log: a leader's settings are recorded in it, a follower's do not matter."""
    bench = Bench(requests=leaders)
    bench.open()
    bench.engine.commit()
    for number in range(8):
        bench.submit(topic("t", 4 + number), request_id=f"{bench.loop.time_ms()}-{number}")
        bench.engine.commit()
        bench.after(0.02)
    expected = marks_of(bench, leaders)
    for own in (RequestSettings(), RequestSettings(remembered_max=1), RequestSettings(remembered_ms_max=1)):
        assert marks_of(bench, own) == expected
    last = expected[-1]
    assert last is not None
    assert (last.rows, last.whole) == (bench.machine.marked.rows, bench.machine.marked.whole)
    assert len(bench.machine.requests.replies) == (8 if leaders == RequestSettings() else 3)
    assert bench.agreement.overruled() == ()


ROOMY = (ControllerSettings(), KafkaSettings())
NARROW = (
    ControllerSettings(
        group_window_s=0.3, group_changes_max=1, group_entry_bytes_max=300, group_waiting_max=2, group_rows_max=5
    ),
    KafkaSettings(
        groups_max=1,
        group_members_max=1,
        group_member_bytes_max=64,
        group_session_timeout_min_ms=400,
        group_session_timeout_max_ms=5_000,
        group_initial_delay_s=0.0,
        group_expiry_s=8.0,
        group_rows_per_sweep=2,
    ),
)


class Coordinator:
    """What one node does for consumer groups, under limits of its own, whoever leads."""

    def __init__(self, controller: ControllerSettings, kafka: KafkaSettings) -> None:
        self.bench = bench = Bench(settings=controller, group_expiry_s=kafka.group_expiry_s)
        writer = GroupWriter(bench.controller, bench.machine, bench.loop, controller)
        bench.controller.listeners.add(writer)
        self.groups = Groups(kafka, bench.loop, Random(1), writer)
        self.offsets = GroupOffsets(kafka, bench.loop, self.groups, writer)

    def commit(self, group: str, offset: int) -> None:
        request = OffsetCommitRequest(group, -1, "", None, ())
        self.offsets.commit(request, OffsetCommitPartition(0, offset, 3, "x" * 20 * offset), lambda _error: None)

    def join(self, group: str) -> None:
        joined: list[JoinedGroup] = []
        request = JoinGroupRequest(group, 2_000, 2_000, "", None, "consumer", (("range", b"x" * 20),), False)
        self.groups.join(request, ("client", "host"), joined.append)
        self.pass_by(1.0)
        if joined and not joined[0].error:
            sync = SyncGroupRequest(group, joined[0].generation, joined[0].member_id, None, ())
            self.groups.sync(sync, lambda _error, _assignment: None)

    def pass_by(self, seconds: float) -> None:
        """Time, in which what is proposed is committed and what is old is looked for."""
        for _ in range(round(seconds / 0.1)):
            self.bench.after(0.1)
            self.bench.engine.commit()
            self.groups.sweep()
            self.offsets.sweep()

    def lead(self) -> None:
        """A story in which every limit of a narrow node tells: too many, too long, too often, too old."""
        self.bench.open()
        for number in range(12):
            self.commit(f"g{number % 6}", 1 + number)
            if number % 3 == 2:
                self.pass_by(1.0)
        for group in ("g0", "m1", "m2"):
            self.join(group)
            self.pass_by(1.0)
        for _ in range(20):
            self.pass_by(1.0)

    def follow(self, log: list[tuple[Term, bytes]]) -> list[Mark | None]:
        """Apply another's entries; what is added up to after each."""
        machine, found = self.bench.machine, []
        for index, (term, entry) in enumerate(log, start=1):
            machine.apply(Index(index), term, entry)
            machine.applied()
            found.append(machine.sums.at(index))
            self.pass_by(1.0)
        assert machine.marked == sums_of(machine)
        return found


def test_every_limit_of_groups_is_told_apart_below() -> None:
    """A setting of groups that comes later must differ between these nodes too."""
    for narrow, roomy in zip(NARROW, ROOMY, strict=True):
        names = [name for name in type(roomy).__struct_fields__ if name.startswith("group")]
        assert names
        assert [name for name in names if getattr(narrow, name) == getattr(roomy, name)] == []


@pytest.mark.parametrize(
    ("leads", "others", "at_once", "left"), [(NARROW, ROOMY, 1, 1), (ROOMY, NARROW, 3, 7)], ids=["narrow", "roomy"]
)
def test_nodes_whose_limits_of_groups_differ_keep_the_same(
    leads: tuple[ControllerSettings, KafkaSettings],
    others: tuple[ControllerSettings, KafkaSettings],
    at_once: int,
    left: int,
) -> None:
    """The leader judges, and its entries carry whole rows: what followers would have refused, or let lapse, they keep,
    and what they would have kept they let go.
    """
    leader = Coordinator(*leads)
    leader.lead()
    log, machine = leader.bench.engine.log, leader.bench.machine
    expected = [machine.sums.at(index) for index in range(1, len(log) + 1)]
    entries = [decode_entry(entry) for _, entry in log if entry]
    changes = [len(decode_changes(entry.batch)) for entry in entries if entry.kind == "groups"]
    assert (max(changes), len(machine.groups)) == (at_once, left)
    for own in (others, leads):
        assert Coordinator(*own).follow(log) == expected


def test_what_groups_keep_is_limited_by_the_log_whoever_leads() -> None:
    """The first leader's limits are recorded. One with roomier ones of its own, which leads next, refuses the same row
    and lets a position lapse as early; it says so.
    """
    first, second = Coordinator(*NARROW), Coordinator(*ROOMY)
    first.lead()
    second.bench.engine.log.extend(first.bench.engine.log)
    second.bench.open(2)
    state = second.bench.machine.state
    assert (in_force(state, GROUP_ROWS_MAX), in_force(state, GROUP_EXPIRY_S)) == (5, 8.0)
    assert second.bench.agreement.overruled() == (
        "controller.group_rows_max is 20000 in this node's settings; the cluster's 5 holds",
        "kafka.group_expiry_s is 604800 in this node's settings; the cluster's 8 holds",
    )
    for number in range(8):
        second.commit(f"n{number}", 1)
        second.pass_by(0.2)
    assert len(second.bench.machine.groups) == 5
    second.pass_by(20.0)
    assert list(second.offsets.of_groups()) == []


def test_limits_are_recorded_once_and_a_later_leader_yields_to_them() -> None:
    """The next leader's own settings are others: it says so and changes nothing."""
    bench = Bench(requests=RequestSettings(remembered_max=5))
    bench.open()
    bench.engine.commit()
    end = bench.machine.offset
    assert limits_of_requests(bench.machine.state) == (5, 3_600_000)
    bench.engine.lose()
    other = SettingsAgreement(
        bench.controller,
        own_limits(RequestSettings(remembered_max=7), 20_000, 604_800.0, unclean_segment_leaders=False),
    )
    bench.controller.listeners.add(other)
    bench.open(2)
    bench.engine.commit()
    assert bench.machine.offset == end + 1
    assert other.overruled() == ("requests.remembered_max is 7 in this node's settings; the cluster's 5 holds",)
