"""The rounds in which linearizable reads are confirmed; ``Reads`` sends and hears them.

Rules: no clock, nothing sent: whoever calls says what time it is.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from quorate.consensus.ports import Index, NodeId, Term

ReadDone = Callable[[Index | None], None]


class _Read(msgspec.Struct, frozen=True):
    deadline: float
    done: ReadDone


class _Round(msgspec.Struct):
    number: int
    term: Term
    index: Index
    reads: list[_Read]
    confirmed: set[NodeId]


class ReadRounds:
    """Read index (Raft thesis §6.4), one round per loop turn for everything that waits: probes of the leader, or a
    follower's one question to it.

    A read is answered with the commit index of the leader at a moment after its round began, once a majority knew no
    later term *after* that moment, and once the index is applied here. Everything that cannot be known in time is
    answered None. ``first`` numbers the first round: two lives of a node must not use the same numbers, or an answer
    to the first would be taken for one to the second.
    """

    def __init__(self, node_id: NodeId, quorum: int, limit: int, first: int = 0) -> None:
        self._me = node_id
        self._quorum = quorum
        self._limit = limit
        self._number = first
        self.waiting = 0
        """Reads that were not answered yet."""
        self.queued: list[_Read] = []
        """What waits for a round."""
        self._rounds: dict[int, _Round] = {}
        self._confirmed: deque[tuple[Index, list[_Read]]] = deque()

    def __len__(self) -> int:
        return self.waiting

    def add(self, deadline: float, done: ReadDone) -> bool:
        """Queue a read; False when there are too many."""
        if self.waiting >= self._limit:
            return False
        self.waiting += 1
        self.queued.append(_Read(deadline, done))
        return True

    def begin(self, term: Term, commit: Index) -> int:
        """Start a round for all queued reads; returns its number. The caller sends the probes, then counts itself."""
        self._number += 1
        self._rounds[self._number] = _Round(self._number, term, commit, self.queued, {self._me})
        self.queued = []
        return self._number

    def count(self, number: int, term: Term, voter: NodeId) -> None:
        """A voter (or this node) knew no later term than ``term`` when it answered round ``number``."""
        round_ = self._rounds.get(number)
        if round_ is None or round_.term != term:
            return
        round_.confirmed.add(voter)
        if len(round_.confirmed) >= self._quorum:
            del self._rounds[number]
            self._confirmed.append((round_.index, round_.reads))

    def told(self, number: int, index: Index) -> None:
        """The leader's answer to the question of round ``number``; 0: it has none."""
        round_ = self._rounds.pop(number, None)
        if round_ is not None and index:
            self._confirmed.append((index, round_.reads))
        elif round_ is not None:
            self._refuse(round_.reads)

    def end_rounds(self, but: int = 0) -> None:
        """Nobody will confirm a round of another term than ``but``. What is confirmed stays: it is committed."""
        ended = [number for number, round_ in self._rounds.items() if round_.term != but]
        self._refuse([read for number in ended for read in self._rounds.pop(number).reads])

    def answer(self, applied: Index) -> None:
        """Answer what is confirmed and applied."""
        while self._confirmed and self._confirmed[0][0] <= applied:  # An answer may make ``fail`` empty it.
            index, reads = self._confirmed.popleft()
            self.waiting -= len(reads)
            for read in reads:
                read.done(index)

    def expire(self, now: float) -> None:
        """Answer None to what waited too long. Deadlines are in order of arrival, so only fronts are looked at."""
        overdue: list[_Read] = []
        for number in [n for n, r in self._rounds.items() if r.reads[0].deadline <= now]:
            overdue += self._rounds.pop(number).reads
        while self._confirmed and self._confirmed[0][1][0].deadline <= now:
            overdue += self._confirmed.popleft()[1]
        kept = [read for read in self.queued if read.deadline > now]
        if len(kept) < len(self.queued):
            overdue += [read for read in self.queued if read.deadline <= now]
            self.queued = kept
        self._refuse(overdue)

    def fail(self) -> None:
        """Leadership is lost: answer None to everything."""
        everything = self.queued
        for round_ in self._rounds.values():
            everything += round_.reads
        for _, reads in self._confirmed:
            everything += reads
        self.queued, self._rounds, self._confirmed = [], {}, deque()
        self._refuse(everything)

    def _refuse(self, reads: list[_Read]) -> None:
        self.waiting -= len(reads)
        for read in reads:
            read.done(None)
