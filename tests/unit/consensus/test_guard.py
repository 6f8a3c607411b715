"""The guard's rules as values: what an AppendEntries may do, what may leave, who is elected, what reads answer."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.election_timing import ElectionTiming
from quorate.consensus.raft.flow import PeerFlow
from quorate.consensus.raft.guard import Present, Show, commit_ceiling, shape_append
from quorate.consensus.raft.held import HeldFrames
from quorate.consensus.raft.pace import Pace
from quorate.consensus.raft.read_rounds import ReadRounds
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.consensus.transport.codec import AppendEntries
from quorate.errors import InvariantBrokenError, UsageError

SETTINGS = EngineSettings()


class Log:
    """A log as a list of terms: entry ``base + i`` has ``terms[i]``; the first is the base's."""

    def __init__(self, terms: list[int], base: int = 1) -> None:
        self.terms = terms
        self.base = base

    @property
    def last_index(self) -> Index:
        return Index(self.base + len(self.terms) - 1)

    def term_at(self, index: Index) -> Term | None:
        at = index - self.base
        return Term(self.terms[at]) if 0 <= at < len(self.terms) else None


def append(prev: int, prev_term: int, terms: list[int], commit: int = 0, term: int = 9) -> AppendEntries:
    """An AppendEntries whose entries have these terms."""
    entries = tuple((Index(prev + 1 + i), Term(t), b"%d:%d" % (prev + 1 + i, t)) for i, t in enumerate(terms))
    return AppendEntries(Term(term), 1, Index(prev), Term(prev_term), Index(commit), entries)


def test_entries_we_have_are_cut_off_the_front() -> None:
    """Only what follows the matching part is shown, so that nothing matching is truncated."""
    shaped = shape_append(append(1, 0, [1, 1, 1, 1]), Log([0, 1, 1]), Index(1))
    assert shaped == Show(Index(3), Term(1), append(3, 1, [1, 1]).entries, Index(0))


def test_a_message_we_have_all_of_is_only_acknowledged() -> None:
    """When more follows in our log, the engine does not see the message at all."""
    assert shape_append(append(1, 0, [1, 1], commit=9), Log([0, 1, 1, 1]), Index(1)) == Present(Index(4), Index(3))


def test_a_heartbeat_at_the_end_is_only_acknowledged() -> None:
    """An empty message whose previous entry is our last adds nothing: it is all there."""
    assert shape_append(append(3, 1, [], commit=3), Log([0, 1, 1]), Index(1)) == Present(Index(4), Index(3))


def test_the_commit_index_stops_at_what_the_message_verifies() -> None:
    """Our own tail beyond the message's last entry is not verified by it, and not committed."""
    shaped = shape_append(append(2, 1, [], commit=9), Log([0, 1, 1, 1]), Index(1))
    assert shaped == Present(Index(3), Index(2))


def test_a_conflict_is_shown_at_the_start_of_its_term() -> None:
    """One reset answer steps over a whole conflicting term, down to the commit index at most."""
    log = Log([0, 1, 2, 2, 2, 2])
    assert shape_append(append(6, 3, []), log, Index(1)) == Show(Index(3), Term(3), (), Index(0))
    assert shape_append(append(6, 3, []), log, Index(4)) == Show(Index(5), Term(3), (), Index(0))


def test_a_conflicting_entry_truncates_from_there() -> None:
    """The first entry that differs, and nothing before it, is what the engine replaces."""
    shaped = shape_append(append(1, 0, [1, 3]), Log([0, 1, 2, 2]), Index(2))
    assert shaped == Show(Index(2), Term(1), append(2, 1, [3]).entries, Index(0))


def test_contradicting_a_committed_entry_stops_the_node() -> None:
    """Neither the previous entry nor a new one may contradict what is committed."""
    log = Log([0, 1, 1, 1])
    with pytest.raises(InvariantBrokenError):
        shape_append(append(3, 2, []), log, Index(3))
    with pytest.raises(InvariantBrokenError):
        shape_append(append(2, 1, [2]), log, Index(3))


TERMS = st.lists(st.integers(1, 3), max_size=8).map(sorted)


@given(mine=TERMS, theirs=TERMS, base=st.integers(1, 5), data=st.data())
def test_shaping_never_truncates_what_matches(
    mine: list[int], theirs: list[int], base: int, data: st.DataObject
) -> None:
    """For any two logs and any message of the leader, the matching prefix stands and nothing known is shown."""
    log, leader = Log([0, *mine], base), Log([0, *theirs])
    matching = 0
    while matching < min(len(mine), len(theirs)) and base == 1 and mine[matching] == theirs[matching]:
        matching += 1
    prev = data.draw(st.integers(1, leader.last_index))
    count = data.draw(st.integers(0, leader.last_index - prev))
    message = append(prev, leader.terms[prev - 1], theirs[prev - 1 : prev - 1 + count])
    commit = Index(base)
    if base != 1 and leader.term_at(Index(base)) != 0 and prev <= base:
        return  # The leader contradicts our base: not a pair of logs that Raft can produce.
    shaped = shape_append(message, log, commit)
    if isinstance(shaped, Present):
        assert all(log.term_at(index) == term for index, term, _ in message.entries)
        return
    here = log.term_at(shaped.prev_index)
    if here is None or here != shaped.prev_term:
        return  # The engine answers a reset and changes nothing.
    assert shaped.prev_index >= min(matching + 1, log.last_index, prev + count)
    assert all(log.term_at(index) != term for index, term, _ in shaped.entries[:1])


def test_a_reset_is_believed_once_per_flight() -> None:
    """After a reset, answers to anything sent before it are stale."""
    flow = PeerFlow()
    flow.sent(5, 10, 100)
    flow.sent(6, 20, 100)
    assert flow.take_reset(5)
    assert flow.bytes_in_flight == 0
    assert not flow.take_reset(6)
    flow.sent(7, 20, 50)
    assert flow.take_reset(7)


def test_bytes_in_flight_follow_the_acks() -> None:
    """A confirmed index frees what was sent up to it; heartbeats weigh nothing."""
    flow = PeerFlow()
    flow.sent(1, 10, 100)
    flow.sent(2, 10, 0)
    flow.sent(3, 15, 70)
    flow.confirmed(9)
    assert flow.bytes_in_flight == 170
    flow.confirmed(12)
    assert flow.bytes_in_flight == 70
    flow.confirmed(15)
    assert flow.bytes_in_flight == 0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_the_ceiling_is_what_a_majority_holds(durable: list[int]) -> None:
    """At least a majority is at or above the ceiling, and fewer than a majority above it."""
    quorum = len(durable) // 2 + 1
    ceiling = commit_ceiling(Index(durable[0]), durable[1:], quorum)
    assert sum(index >= ceiling for index in durable) >= quorum
    assert sum(index > ceiling for index in durable) < quorum


def test_frames_wait_for_their_operation_and_keep_their_order() -> None:
    """What waits for operation 2 does not leave at 1; of an older term nothing leaves."""
    held = HeldFrames()
    held.hold(1, Term(1), NodeId(2), b"old term")
    held.hold(2, Term(2), NodeId(2), b"first")
    held.hold(3, Term(2), NodeId(3), b"second")
    assert list(held.release(1, Term(2))) == []
    assert list(held.release(3, Term(2))) == [(2, b"first"), (3, b"second")]
    assert len(held) == 0


def test_only_acks_that_wait_for_the_same_operation_are_joined() -> None:
    """A stuck disk collects one plain ack per operation and peer; votes and resets are never joined."""
    held = HeldFrames()
    for i in range(100):
        held.hold(1, Term(1), NodeId(2), b"ack %d" % i, progress=True)
    held.hold(1, Term(1), NodeId(3), b"other peer", progress=True)
    held.hold(2, Term(1), NodeId(3), b"other operation", progress=True)
    held.hold(2, Term(1), NodeId(3), b"vote")
    held.hold(2, Term(1), NodeId(3), b"after the vote", progress=True)
    frames = [frame for _, frame in held.release(9, Term(1))]
    assert frames == [b"ack 99", b"other peer", b"other operation", b"vote", b"after the vote"]


def make_election(now: float = 0.0, voters: int = 3, me: int = 1) -> ElectionTiming:
    """Of node ``me``."""
    voted = [NodeId(i + 1) for i in range(voters)]
    return ElectionTiming(NodeId(me), voted, SETTINGS, Pace(SETTINGS, now), random.Random(1), now)


def test_who_asks_again_and_again_keeps_nobody_from_standing() -> None:
    """A node that hears no answers asks for pre-votes for ever; one that lags, and so waits longer than the other does
    between two questions, stands all the same. After a leader was heard the other is waited for once more.
    """
    pace, rng = Pace(SETTINGS, 0.0), random.Random(1)
    election = ElectionTiming(NodeId(1), [NodeId(1), NodeId(2), NodeId(3)], SETTINGS, pace, random.Random(1), 0.0)
    pace.note_heartbeat(SETTINGS.election_timeout_min_s, 0.0)
    quiet_s, now = SETTINGS.election_timeout_quiet_s, 0.0
    assert pace.timeout_min_s > quiet_s
    while not election.due(now):
        assert now < SETTINGS.election_timeout_max_s + quiet_s
        election.would_vote_for(NodeId(3), now)
        now += quiet_s * rng.uniform(0.2, 0.5)
    election.heard(NodeId(2), now)
    election.connection_closed(NodeId(2), now)
    due_at = election.due_at
    election.would_vote_for(NodeId(3), now)
    assert election.due_at > due_at


def test_a_leader_just_heard_is_protected() -> None:
    """Stickiness holds for the smallest election timeout in force after the last frame, and ends when its connection
    closes.
    """
    election = make_election()
    election.heard(NodeId(2), 10.0)
    assert election.protects_leader(10.24)
    assert not election.protects_leader(10.25)
    election.heard(NodeId(2), 11.0)
    election.connection_closed(NodeId(2), 11.1)
    assert not election.protects_leader(11.1)


def test_survivors_ask_one_after_the_other() -> None:
    """When the leader's connections close, no two survivors have the same slot, and all come soon."""
    due: list[float] = []
    for me in (1, 2, 4, 5):
        election = make_election(voters=5, me=me)
        election.heard(NodeId(3), 10.0)
        due.append(election.connection_closed(NodeId(3), 10.1))
    gaps = [later - sooner for sooner, later in zip(sorted(due), sorted(due)[1:], strict=False)]
    assert min(gaps) >= SETTINGS.close_jitter_s * 0.75
    assert max(due) <= 10.1 + 4 * SETTINGS.close_jitter_s


def test_pre_votes_count_once_and_only_in_their_round() -> None:
    """A majority of different voters of the present round wins it; hearing a leader ends it."""
    election = make_election(voters=5)
    first = election.ask(1.0)
    assert not election.would_win(first, NodeId(2))
    assert not election.would_win(first, NodeId(2))
    second = election.ask(2.0)
    assert not election.would_win(first, NodeId(3))
    assert not election.would_win(second, NodeId(2))
    assert election.would_win(second, NodeId(3))
    election.heard(NodeId(2), 2.1)
    assert not election.would_win(second, NodeId(4))


def test_a_vote_counts_once_and_only_for_its_candidacy() -> None:
    """A voter's repeated message, and a vote given to an earlier candidacy, are not counted."""
    election = make_election()
    election.campaign(1.0)
    ballot = election.ballot
    assert election.first_vote_of(NodeId(2), Term(5), ballot)
    assert not election.first_vote_of(NodeId(2), Term(5), ballot)
    assert not election.first_vote_of(NodeId(3), Term(5), ballot ^ 1)
    election.campaign(2.0)
    assert not election.first_vote_of(NodeId(3), Term(6), ballot)
    assert election.first_vote_of(NodeId(3), Term(6), election.ballot)


def test_the_cause_says_only_what_was_seen() -> None:
    """A first start, a closed connection, a silent leader and a handover are told apart."""
    election = make_election(now=0.0)
    assert election.cause(0.7, handover=False, first=True).kind == "first start"
    assert election.cause(0.7, handover=False, first=False).kind == "silent"
    election.heard(NodeId(3), 1.0)
    silent = election.cause(2.5, handover=False, first=True)
    assert (silent.kind, silent.previous_leader, silent.silent_for_ms) == ("silent", 3, 1500)
    assert election.cause(2.5, handover=True, first=False).kind == "handed over"
    election.connection_closed(NodeId(3), 2.5)
    assert election.cause(2.5, handover=False, first=False).kind == "connection closed"


def test_a_read_needs_a_majority_and_the_applied_index() -> None:
    """Neither the confirmation alone nor the applied index alone answers a read."""
    answers: list[Index | None] = []
    rounds = ReadRounds(NodeId(1), 2, 10)
    assert rounds.add(9.0, answers.append)
    number = rounds.begin(Term(3), Index(7))
    rounds.count(number, Term(3), NodeId(1))
    rounds.answer(Index(9))
    rounds.count(number, Term(2), NodeId(2))
    rounds.answer(Index(9))
    assert answers == []
    rounds.count(number, Term(3), NodeId(2))
    rounds.answer(Index(6))
    assert answers == []
    rounds.answer(Index(7))
    assert answers == [7]
    assert len(rounds) == 0


def test_a_question_is_answered_by_its_number_and_only_in_its_term() -> None:
    """Another number's index confirms nothing; 0 and a change of term refuse; a confirmed read outlives the term."""
    answers: list[Index | None] = []
    rounds = ReadRounds(NodeId(2), 2, 10, first=40)
    for deadline in (1.0, 2.0, 3.0):
        rounds.add(deadline, answers.append)
        number = rounds.begin(Term(3), Index(0))
        rounds.told(number + 7, Index(9))
        rounds.answer(Index(9))
        assert answers == []
        if deadline == 1.0:
            assert number == 41
            rounds.told(number, Index(0))
            assert answers == [None]
        elif deadline == 2.0:
            rounds.end_rounds(but=3)
            assert answers == []
            rounds.end_rounds(but=4)
            assert answers == [None]
        else:
            rounds.told(number, Index(5))
            rounds.end_rounds(but=4)
            rounds.answer(Index(4))
            assert answers == []
            rounds.answer(Index(5))
            assert answers == [5]
        answers.clear()
    assert len(rounds) == 0


def test_reads_are_limited_and_always_answered() -> None:
    """One read too many is not taken; at its deadline, or when leadership is lost, each gets None."""
    answers: list[Index | None] = []
    rounds = ReadRounds(NodeId(1), 2, 3)
    assert all(rounds.add(float(i), answers.append) for i in (1, 2, 3))
    assert not rounds.add(4.0, answers.append)
    rounds.expire(1.5)
    assert answers == [None]
    rounds.begin(Term(1), Index(1))
    rounds.expire(2.5)
    assert answers == [None, None, None]
    rounds.add(9.0, answers.append)
    rounds.fail()
    assert len(answers) == 4
    assert len(rounds) == 0


@pytest.mark.parametrize(
    "wrong", [{"chunk_bytes": 0}, {"window_chunks": 0}, {"resend_s": 99.0}, {"retain_entries": -1}]
)
def test_snapshot_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    """A window or chunk of nothing would never arrive."""
    with pytest.raises(UsageError):
        SnapshotSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"election_timeout_min_s": 2.0},
        {"heartbeat_s": 0.4},
        {"election_timeout_quiet_s": 0.1},
        {"pace_window_s": 0.0},
        {"tick_s": 0.2},
        {"read_timeout_s": 5.0},
        {"append_entries": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    """Contradicting timeouts and empty limits are usage errors at start."""
    with pytest.raises(UsageError):
        EngineSettings(**wrong)  # type: ignore[arg-type]
