"""Planted bugs: each must be caught, or the simulator proves nothing.

Rules: a mutant is a small change to production classes, made in a child process that runs nothing else. ``names`` says
which invariants may catch it first. The last column of the table in docs/simulator.md comes from ``table``.
"""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Index, LeaderCause, NodeId, Term
from quorate.consensus.raft import follower, guard
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.elections import Elections
from quorate.consensus.raft.engine import GuardedEngine
from quorate.consensus.raft.follower import Follower
from quorate.consensus.raft.guard import commit_ceiling
from quorate.consensus.raft.leadership import Leadership
from quorate.consensus.raft.membership import Membership
from quorate.consensus.raft.pysyncobj_engine import PySyncObjEngine
from quorate.consensus.raft.pysyncobj_engine import _Core as Core
from quorate.consensus.raft.read_rounds import ReadRounds
from quorate.consensus.raft.reads import Reads
from quorate.consensus.raft.replication import Replication
from quorate.consensus.transport.codec import Ack, PreVoteAnswer, RequestVote, VoteGranted
from quorate.controller import deciding
from quorate.controller.deciding import Decider
from quorate.controller.machine import ReplicatedState
from quorate.metadata.requests import RequestTable
from quorate.metadata.sums import RunningSums
from tests.sim import scripted
from tests.sim.planted import EDITED
from tests.sim.planting import Mutant, swap

ROOT = Path(__file__).resolve().parents[2]
Node = Any
"""A production object whose privates a mutant reaches into."""


def _vote_not_durable() -> None:
    def grant_vote(self: Node, peer: NodeId, term: Term) -> None:
        self._outbox.send(peer, VoteGranted(term, self._answering_ballot))

    swap(Elections, "grant_vote", grant_vote)


def _candidacy_not_durable() -> None:
    def ask_vote(self: Node, peer: NodeId, term: Term, last_index: Index, last_term: Term) -> None:
        message = RequestVote(term, self.timing.ballot, last_index, last_term, self._handover)
        self._outbox.send(peer, message)

    swap(Elections, "ask_vote", ask_vote)


def _ack_not_durable() -> None:
    def acknowledge(self: Node, peer: NodeId, next_index: Index, *, reset: bool, success: bool) -> None:
        counts = self._membership.voting
        self._outbox.send(peer, Ack(self._core.term, self._answering_seq, next_index, reset, success, counts))

    swap(Follower, "acknowledge", acknowledge)


def _own_copy_at_once() -> None:
    def count(self: Node) -> None:
        self._core.count(commit_ceiling(self._journal.last_index, self._core.matches(), self._quorum))

    swap(Replication, "count", count)


def _answer_before_commit() -> None:
    original = Decider._propose

    def propose(self: Node, tip: Node, pending: Node, *rest: Node) -> bool:
        done = original(self, tip, pending, *rest)
        if done and self._in_flight and self._in_flight[-1].pending is pending:
            self._settle(pending, self._in_flight[-1].answer)
        return done

    swap(Decider, "_propose", propose)


def _answer_from_the_tip() -> None:
    swap(Decider, "_after_tip", lambda self, pending, outcome: self._settle(pending, outcome))


def _stale_term_at_apply() -> None:
    """As pysyncobj's own queue would: what a lost leadership proposed is proposed again, and apply does not mind."""
    propose, leadership, apply = PySyncObjEngine.propose, ReplicatedState.leadership, ReplicatedState.apply

    def remember(self: Node, entry: bytes, term: Term) -> Index | None:
        index = propose(self, entry, term)
        if index is not None:
            self._machine.mutant_queue = [*getattr(self._machine, "mutant_queue", []), (index, term, entry)]
            self._machine.mutant_engine = self
        return index

    def again(self: Node, term: Term, cause: LeaderCause | None) -> None:
        queue = getattr(self, "mutant_queue", [])
        if cause is not None:
            self.mutant_queue = []
            for _, _, entry in queue:
                propose(self.mutant_engine, entry, term)
        leadership(self, term, cause)

    def careless(self: Node, index: Index, term: Term, entry: bytes) -> None:
        self.mutant_queue = [waiting for waiting in getattr(self, "mutant_queue", []) if waiting[:2] != (index, term)]
        decided = Term(int.from_bytes(entry[18:26], "little")) if entry else term
        apply(self, index, decided, entry)

    swap(PySyncObjEngine, "propose", remember)
    swap(ReplicatedState, "leadership", again)
    swap(ReplicatedState, "apply", careless)


def _stale_read() -> None:
    def read_barrier(self: Node, done: Callable[[Index | None], None]) -> None:
        if self._core.role is Role.LEADER:
            done(self._applying.applied)
        else:
            original(self, done)

    original = Reads.barrier
    swap(Reads, "barrier", read_barrier)


def _follower_reads_alone() -> None:
    original = Reads.barrier

    def read_barrier(self: Node, done: Callable[[Index | None], None]) -> None:
        if self._core.role is Role.LEADER:
            original(self, done)
        else:
            done(self._applying.applied)

    swap(Reads, "barrier", read_barrier)


def _follower_does_not_wait() -> None:
    swap(ReadRounds, "answer", _answer_unapplied(ReadRounds.answer))


def _answer_unapplied(original: Callable[[Node, Index], None]) -> Callable[[Node, Index], None]:
    return lambda self, _applied: original(self, Index(1 << 60))


def _no_barrier() -> None:
    def open_term(self: Node) -> None:
        if not self.term and self._core.role is Role.LEADER and self.transfer is None:
            self.term = self._core.term
            self._machine.leadership(self._core.term, self._elections.cause)

    turn = GuardedEngine._turn

    def eager(self: Node) -> None:
        turn(self)
        open_term(self._leadership)

    swap(Leadership, "open", open_term)
    swap(GuardedEngine, "_turn", eager)


def _duplicate_apply() -> None:
    swap(Decider, "_known", lambda _self, _tip, _pending, _now_ms: None)


def _applied_index_late() -> None:
    """The applied index is not part of the write it belongs to, but of the next one."""
    machine: Any = import_module("quorate.controller.machine")
    original, genuine = machine.applied_ops, ReplicatedState.applied
    late: dict[int, list[Any]] = {}

    def applied(self: Node) -> None:
        def previous(*point: int) -> list[Any]:
            found = late.get(id(self._store), [])
            late[id(self._store)] = original(*point)
            return found

        machine.applied_ops = previous
        genuine(self)
        machine.applied_ops = original

    swap(ReplicatedState, "applied", applied)


def _time_by_the_clock() -> None:
    class Timeless(deciding.Tip):
        time_ms = property(lambda _self: 0, lambda _self, _time_ms: None)

    swap(deciding, "Tip", Timeless)


def _lost_request_table() -> None:
    def restoring(_rows: Node, settings: Node) -> Node:
        yield
        return RequestTable(settings=settings)

    swap(RequestTable, "restoring", staticmethod(restoring))


def _snapshot_without_requests() -> None:
    original = ReplicatedState.snapshot_rows
    swap(ReplicatedState, "snapshot_rows", lambda self: [row for row in original(self) if row[0] != "requests"])


def _evolve_by_chance() -> None:
    """As one that asks in which order a set is iterated: two nodes, or a leader and its followers, disagree."""
    machine: Any = import_module("quorate.controller.machine")
    original, calls = machine.evolve, [0]

    def evolve(state: Node, event: Node, stamp: Node) -> Node:
        calls[0] += 1
        after = original(state, event, stamp)
        if after.leader is not state.leader:
            leader = msgspec.structs.replace(after.leader, since_ms=after.leader.since_ms + calls[0] % 2)
            return msgspec.structs.replace(after, leader=leader)
        return after

    swap(machine, "evolve", evolve)


def _request_not_remembered() -> None:
    """One in fifty, on nodes that follow."""
    machine: Any = import_module("quorate.controller.machine")
    original, calls = machine.remember, [0]

    def remember(requests: Node, entry: Node, state: Node, before_ms: int) -> Node:
        calls[0] += 1
        return original(requests, entry, state, before_ms) if calls[0] % 50 else (requests, ())

    swap(machine, "remember", remember)


def _own_request_limits() -> None:
    """Each node's table is as long as its own settings say."""
    machine: Any = import_module("quorate.controller.machine")
    swap(machine, "limited", lambda requests, _state: requests)


def _sum_not_taken_off() -> None:
    genuine = RunningSums.entity

    def entity(self: Node, before: Node, key: bytes, value: bytes | None) -> None:
        if value is not None:
            genuine(self, before, key, value)

    swap(RunningSums, "entity", entity)


def _no_log_check() -> None:
    original = Core.request_vote

    def request_vote(self: Node, peer: NodeId, term: Term, _last_index: Index, _last_term: Term) -> None:
        original(self, peer, term, Index(1 << 40), Term(1 << 40))

    def on_pre_vote(self: Node, peer: NodeId, message: Node) -> None:
        protects = self._core.role is Role.LEADER or self.timing.protects_leader(self._clock.monotonic())
        granted = self._membership.voting and not protects and message.term > self._core.term
        self._outbox.send(peer, PreVoteAnswer(self._core.term, message.round, granted))

    swap(Core, "request_vote", request_vote)
    swap(Elections, "on_pre_vote", on_pre_vote)


def _no_generation_check() -> None:
    original = Journal._written

    def written(self: Node) -> None:
        reports = [msgspec.structs.replace(report, generation=self.generation) for report in self._reports]
        self._reports.clear()
        self._reports.extend(reports)
        original(self)

    swap(Journal, "_written", written)


def _truncates_what_matches() -> None:
    """BUG 3 of pysyncobj, with the guard against it taken away."""

    def shape(message: Node, _log: Node, _commit: Index) -> guard.Show:
        return guard.Show(message.prev_index, message.prev_term, message.entries, message.commit)

    swap(follower, "shape_append", shape)


def _forgets_that_it_forgot() -> None:
    swap(Membership, "_what_was_lost", lambda _self: "")


def _old_entries_sent() -> None:
    """The encoded entries are known by their first and last index only, not by the truncations since."""
    original = Replication._entries_from

    def entries_from(self: Node, start: Index) -> tuple[bytes, int]:
        (known_start, known_last, _), blob, count = self._blob
        if (known_start, known_last) == (start, self._journal.last_index):
            return blob, count
        return original(self, start)

    swap(Replication, "_entries_from", entries_from)


def _clip_without_term() -> None:
    def count(self: Node, ceiling: Index) -> None:
        self._SyncObj__raftCommitIndex = max(self.raftCommitIndex, ceiling)

    swap(Core, "count", count)


MUTANTS: dict[str, Mutant] = {
    "non-durable vote": Mutant("a vote leaves before it is on disk", _vote_not_durable),
    "non-durable candidacy": Mutant("a vote request leaves before its own vote is on disk", _candidacy_not_durable),
    "non-durable ack": Mutant("an acknowledgement leaves before its entries are on disk", _ack_not_durable),
    "own copy at once": Mutant("the leader counts its own copy before its fsync", _own_copy_at_once),
    "answer before commit": Mutant("a client is answered when its command was proposed", _answer_before_commit),
    "answer from the tip": Mutant(
        "an answer that writes nothing does not wait for what it was read from", _answer_from_the_tip
    ),
    "stale term at apply": Mutant(
        "entries of a lost leadership are proposed again and executed", _stale_term_at_apply, scripted.stale_decision
    ),
    "stale read": Mutant("a leader answers reads without asking anybody", _stale_read),
    "follower reads alone": Mutant("a follower answers reads without asking the leader", _follower_reads_alone),
    "follower does not wait": Mutant("a read does not wait until its index is applied here", _follower_does_not_wait),
    "no barrier": Mutant("a leader decides before its own first entry is applied", _no_barrier),
    "duplicate apply": Mutant("a retried request is run again", _duplicate_apply),
    "applied index late": Mutant("rows and applied index are not one write", _applied_index_late),
    "time by the clock": Mutant("an event has the clock's time, though the last one's is later", _time_by_the_clock),
    "lost request table": Mutant("a restart forgets which requests were answered", _lost_request_table),
    "snapshot without requests": Mutant("a snapshot leaves the request table out", _snapshot_without_requests),
    "evolve by chance": Mutant("what an event does to the state depends on more than both", _evolve_by_chance),
    "request not remembered": Mutant("some nodes do not remember some requests", _request_not_remembered),
    "own request limits": Mutant("a node's own settings decide what state is", _own_request_limits),
    "sum not taken off": Mutant("a row that is deleted stays in the sum", _sum_not_taken_off),
    "no log check": Mutant("votes go to candidates whose log is behind", _no_log_check),
    "no generation check": Mutant(
        "a sync report from before a truncation is believed",
        _no_generation_check,
        test="tests/unit/consensus/test_journal.py"
        "::test_a_report_from_before_a_truncation_does_not_count_entries_after_it",
    ),
    "truncates what matches": Mutant("entries that match are truncated and written again", _truncates_what_matches),
    "forgets that it forgot": Mutant(
        "a node that lost its journal votes and acknowledges as before", _forgets_that_it_forgot
    ),
    "old entries sent": Mutant(
        "a leader sends entries it encoded in an earlier leadership", _old_entries_sent, scripted.stale_entries
    ),
    "clip without term": Mutant(
        "the clip of the commit index may end in an older term", _clip_without_term, scripted.clip_term
    ),
    **EDITED,
}


def table(last: int, jobs: int, only: str = "") -> int:
    """Run every mutant (or only one) until it is caught, at most ``last`` seeds; print the rows. 1 if one survives.

    ``jobs`` mutants at a time, each with one process: the seed that catches it is the first that can.
    """
    chosen = [only] if only else list(MUTANTS)
    survivors = []
    print("| mutant | what is wrong | caught by seed | by | seconds |\n|---|---|---|---|---|")
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        for name, (where, by, took_s) in zip(chosen, pool.map(partial(_caught, last=last), chosen), strict=True):
            if not by:
                survivors.append(name)
            print(f"| {name} | {MUTANTS[name].what} | {where} | {by or '—'} | {took_s:.0f} |", flush=True)
    caught = len(chosen) - len(survivors)
    print(f"\n{caught} of {len(chosen)} caught; survivors: {survivors or 'none'}")
    return 1 if survivors else 0


def _caught(name: str, last: int) -> tuple[str, str, float]:
    """By which seed, and by what, empty if by nothing; the seconds it took."""
    began = time.monotonic()
    mutant = MUTANTS[name]
    where, by = _by_a_test(name, mutant) if mutant.test else _by_seeds(name, mutant, last)
    return where, by, time.monotonic() - began


def _by_seeds(name: str, mutant: Mutant, last: int) -> tuple[str, str]:
    """The first seed that catches it, and the invariant."""
    from tests.sim.runner import Options, run

    options = Options(first=1, last=last, jobs=1, mutant=name, stop_at_first=True, quiet=True)
    bad = sorted(run(options).bad, key=lambda outcome: outcome.seed)
    if not bad:
        return f"not in {last}", ""
    return f"{bad[0].seed}{' (scripted)' * (mutant.script is not None)}", bad[0].invariant


def _by_a_test(name: str, mutant: Mutant) -> tuple[str, str]:
    """Its unit test, run with the bug planted (``tests.sim.plugin``): that it fails, and not for want of the bug."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.sim.plugin", mutant.test]
    done = subprocess.run(
        command, env=os.environ | {"QUORATE_MUTANT": name}, cwd=ROOT, capture_output=True, check=False
    )
    return "—", f"`{mutant.test}`" if done.returncode == 1 else ""
