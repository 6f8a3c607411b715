"""Nodes compare what their rows add up to, and settle who is wrong when they differ (docs/adr/0053).

Rules: the leader tells its sums at its last entry, at heartbeats' pace; a follower compares them with its own at that
very entry and answers a difference. Then both look at themselves: the rows in memory and those in the store must add up
to what was carried along, and the events, folded anew from before they differed, to what the entities add up to; what
is in no event must be as the journal's entries say (rereading.py). Who finds itself wrong stops. If nobody has by
``verdict_after_s``, a majority of voters that agree at that entry is right, and the others stop; not one whose log
speaks for it, unless the log of one of the majority does too. Where neither settles it, both say so and go on: nothing
is guessed.

Theory: equal (index, term) is an equal log before it (Raft's log matching), so different sums there are a fault of
disk, memory or code, on one of the two. A node that was restarted, or whose ring is past that entry, says nothing.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

from quorate.clock import Scheduler
from quorate.consensus.ports import Index, RaftEngine, Store
from quorate.controller.listeners import Listener
from quorate.controller.machine import ReplicatedState
from quorate.controller.messages import (
    KIND,
    Message,
    StateIsWrong,
    SumsAre,
    SumsAsked,
    SumsAt,
    SumsMessage,
    SumsOf,
    encode,
)
from quorate.controller.ports import PeerLink
from quorate.controller.settings import ControllerSettings
from quorate.errors import InvariantBrokenError, QuorateError, StorageError
from quorate.metadata.sums import SUM_BYTES, Mark, SummedFamily, joined, summing
from quorate.metrics import Metrics
from quorate.model.rows import rows
from quorate.slices import Steps, in_slices

Replayed = Callable[[int, int], Steps[int | None]]
"""(agreed offset, offset) → what the entities add up to at ``offset`` by the events alone, folded from a state that is
not later than the agreed one; None: they are not there."""
ASKED_MAX = 64
"""Questions about entries that are not applied here yet; more are not answered."""
FAMILIES: tuple[SummedFamily, ...] = ("rows", "requests", "groups")


class StateIsWrongError(InvariantBrokenError):
    """This node's state is not what the log says, and it must not serve it; another node's is."""


class _Trial:
    """Somebody differs at one entry."""

    __slots__ = ("found", "index", "mine", "since", "told")

    def __init__(self, mine: Mark, since: float) -> None:
        self.mine = mine
        self.since = since
        self.index = mine.index
        self.found: dict[int, SumsOf] = {}
        """What each voter says of the entry."""
        self.told = False
        """The time for looking at oneself is over."""


class Comparison(Listener):
    """Compares this node's sums with the others'. ``wrong`` is called once, with why this node must stop."""

    def __init__(
        self,
        engine: RaftEngine,
        machine: ReplicatedState,
        store: Store,
        scheduler: Scheduler,
        peers: PeerLink,
        settings: ControllerSettings,
        metrics: Metrics,
        replayed: Replayed,
        reread: Callable[[int], Steps[str | None]],
        wrong: Callable[[Exception], None],
    ) -> None:
        self._engine, self._machine, self._store = engine, machine, store
        self._scheduler, self._peers, self._settings = scheduler, peers, settings
        self._replayed, self._reread, self._wrong = replayed, reread, wrong
        self._stopped, self._armed = True, False
        self._sent = -1
        self._pending: tuple[int, SumsAre] | None = None
        self._asked: set[tuple[int, int]] = set()
        """(peer, index) that could not be answered yet."""
        self._agreed: dict[int, Mark] = {}
        self._confirmed_at = -math.inf
        self._trial: _Trial | None = None
        self._looking: int | None = None
        self._proved: int | None = None
        self._ended: Exception | None = None
        self._gone: dict[int, str] = {}
        self.compared = 0
        self.differences = 0
        gauge = metrics.gauge
        gauge("state_comparisons", "Times this node compared its state with its leader's.", lambda: self.compared)
        gauge("state_differences", "Times a node's state was not another's.", lambda: self.differences)
        gauge("state_alarms", "Nodes whose state is, or was, another; more than 0: look.", lambda: len(self.alarms()))

    def start(self) -> None:
        """Begin."""
        self._stopped = False
        self._scheduler.call_later(self._settings.compare_again_s, self._again)

    def stop(self) -> None:
        """Compare no more."""
        self._stopped = True

    # -- what is known

    def alarms(self) -> tuple[str, ...]:
        """What an operator must know, in sentences; empty: no node is known to differ."""
        sentences = [*self._gone.values()]
        if self._ended is not None:
            sentences.append(str(self._ended))
        elif self._trial is not None:
            sentences.append(self._undecided(self._trial))
        return tuple(sentences)

    def nodes(self) -> tuple[int, ...]:
        """Those that ``alarms`` tells of."""
        found = {*self._gone}
        if self._ended is not None or self._trial is not None:
            found.add(int(self._engine.node_id))
        if self._trial is not None and self._ended is None:
            found |= {node for node, answer in self._trial.found.items() if not self._agrees(answer)}
        return tuple(sorted(found))

    @property
    def agrees(self) -> bool:
        """False: this node's state differs from another's, and nobody knows who is wrong."""
        return self._trial is None and self._ended is None

    def _undecided(self, trial: _Trial) -> str:
        others = _named(sorted(node for node, answer in trial.found.items() if not self._agrees(answer)))
        state = "nobody can tell which is wrong" if trial.told else "it is being settled which is wrong"
        return (
            f"the state of node {self._engine.node_id} differs from that of {others} at index {trial.index} "
            f"(offset {trial.mine.offset}): {state}"
        )

    # -- telling and comparing

    def slice_end(self) -> None:
        """What was applied is told, and compared, a period later, with all that comes meanwhile."""
        if not self._armed and not self._stopped:
            self._armed = True
            self._scheduler.call_later(self._settings.compare_period_s, self._soon)

    def installed(self, index: Index) -> None:
        """So is a snapshot."""
        self.slice_end()

    def _again(self) -> None:
        """Now and then the leader's are told though nothing is new, for those who missed them."""
        if not self._stopped:
            self._scheduler.call_later(self._settings.compare_again_s, self._again)
            self._sent = -1
            self._tick()

    def _soon(self) -> None:
        self._armed = False
        if not self._stopped:
            self._tick()

    def _tick(self) -> None:
        if self._engine.is_leader:
            self._tell()
        self._compare()
        for peer, index in list(self._asked):
            self._answer(peer, index)

    def _others(self) -> Iterator[int]:
        return (voter for voter in self._engine.voters if voter != self._engine.node_id)

    def _send(self, peer: int, message: Message) -> None:
        self._peers.send(peer, KIND, encode(message))

    def _tell(self) -> None:
        """The leader's sums, if they are new."""
        mark = self._machine.marked
        if mark.index == self._sent:
            return
        self._sent = mark.index
        payload = encode(SumsAre(packed(mark), tuple(self._gone.items())))
        for peer in self._others():
            self._peers.send(peer, KIND, payload)

    def sums_told(self, peer: int, message: SumsMessage) -> None:
        """What another voter says."""
        if self._stopped or peer not in self._engine.voters:
            return
        match message:
            case SumsAre():
                self._gone = {node: sentence for node, sentence in message.gone if node != self._engine.node_id}
                if self._pending is None or self._pending[1].sums.index > message.sums.index:
                    self._pending = (peer, message)
                self._compare()
            case SumsAsked(index=index):
                self._answer(peer, index)
            case SumsOf():
                self._said(peer, message)
            case StateIsWrong():
                self._judged(message)

    def _compare(self) -> None:
        """The leader's sums with ours at that entry, once it is applied here."""
        if self._pending is None or self._pending[1].sums.index > self._machine.applied_index():
            return
        (peer, message), self._pending = self._pending, None
        mine = self._machine.sums.at(message.sums.index)
        if mine is None:
            return
        self.compared += 1
        if _same(message.sums, mine):
            self._agreed[peer] = mine
            if self._trial is not None and self._trial.index < mine.index:
                self._ended_without(peer)
            now = self._scheduler.monotonic()
            if now - self._confirmed_at >= self._settings.compare_again_s:
                self._confirmed_at = now
                self._send(peer, SumsOf(mine.index, packed(mine)))
            return
        self._send(peer, SumsOf(mine.index, packed(mine)))
        self._differs(peer, mine, SumsOf(mine.index, message.sums))

    def _answer(self, peer: int, index: int) -> None:
        """Asked what ours are at an entry; later, if it is not applied here yet."""
        if index > self._machine.applied_index():
            if len(self._asked) < ASKED_MAX:
                self._asked.add((peer, index))
            return
        self._asked.discard((peer, index))
        mine = self._machine.sums.at(index)
        self._send(peer, SumsOf(index, None if mine is None else packed(mine), proved=self._proved == index))

    # -- a difference

    def _mine(self, index: int) -> Mark | None:
        """Ours at an entry; of one that is looked into they are kept."""
        trial = self._trial
        return trial.mine if trial is not None and trial.index == index else self._machine.sums.at(index)

    def _said(self, peer: int, message: SumsOf) -> None:
        """What a voter adds up to at an entry of ours."""
        if message.gone:
            self._gone[peer] = message.gone
            self._ended_without(peer)
        trial, mine = self._trial, self._mine(message.index)
        if message.sums is None or mine is None:
            return
        if _same(message.sums, mine):
            self._agreed[peer] = mine
            self._gone.pop(peer, None)
            if trial is not None and trial.index == mine.index:
                trial.found[peer] = message
                self._weigh()
            elif trial is not None and trial.index < mine.index:
                self._ended_without(peer)
            return
        self._differs(peer, mine, message)

    def disconnected(self, peer: int) -> None:
        """The link to a voter broke. One that differed may have stopped for that, or be about to come back."""
        trial = self._trial
        if trial is not None and (answer := trial.found.get(peer)) is not None and not self._agrees(answer):
            self._gone.setdefault(peer, f"node {peer} left: its state differed at index {trial.index}")
            self._ended_without(peer)

    def _agrees(self, answer: SumsOf) -> bool:
        return answer.sums is None or self._trial is None or _same(answer.sums, self._trial.mine)

    def _ended_without(self, peer: int) -> None:
        """It agrees later, or has stopped; if nobody else differs there is nothing to settle any more."""
        if self._trial is not None:
            self._trial.found.pop(peer, None)
            if all(self._agrees(answer) for answer in self._trial.found.values()):
                self._trial = None

    def _differs(self, peer: int, mine: Mark, theirs: SumsOf) -> None:
        trial, now = self._trial, self._scheduler.monotonic()
        if trial is None or (trial.told and now - trial.since > self._settings.compare_retry_s):
            self.differences += 1
            trial = self._trial = _Trial(mine, now)
            for other in self._others():
                if other != peer:
                    self._send(other, SumsAsked(mine.index))
            self._scheduler.call_later(self._settings.verdict_after_s, partial(self._due, trial))
        if trial.index != mine.index:
            return
        trial.found[peer] = theirs
        self._look(trial, self._agreed.get(peer))
        self._weigh()

    def _look(self, trial: _Trial, agreed: Mark | None) -> None:
        """At oneself, once for each entry."""
        if self._looking == trial.index:
            return
        self._looking = trial.index
        offset, index = (0, 0) if agreed is None or agreed.index >= trial.index else (agreed.offset, agreed.index)
        in_slices(self._steps(trial.mine, offset, index), self._scheduler, lambda result: self._looked(trial, result))

    def _steps(self, mine: Mark, agreed_offset: int, agreed_index: int) -> Steps[str | None]:
        """What is wrong here; ``""``: nothing, and the log says the same; None: nothing, and it does not say all."""
        machine, store = self._machine, self._store
        now = machine.marked
        pairs: tuple[Iterator[tuple[bytes, bytes]], ...] = (
            rows(machine.state),
            machine.requests.rows(),
            iter(list(machine.groups.starting_with(b""))),
        )
        stored = [store.scan(family) for family in FAMILIES]
        for where, sources in (("in memory", pairs), ("in the store", tuple(stored))):
            totals = []
            for family, each in zip(FAMILIES, sources, strict=True):
                totals.append((yield from summing(family, each)))
            if totals[0] != now.rows or joined(*totals) != now.whole:
                return f"the rows {where} are not those that were written up to index {now.index}"
        replayed = yield from self._replayed(agreed_offset, mine.offset)
        if replayed not in (None, mine.rows):
            return f"its events, folded anew, make another state at offset {mine.offset}"
        reread = yield from self._reread(agreed_index)
        return None if replayed is None and not reread else reread

    def _looked(self, trial: _Trial, result: Callable[[], str | None]) -> None:
        if self._stopped:
            return
        try:
            wrong = result()
        except StorageError as error:  # What cannot be read says nothing of the state: the node stops of that.
            self._stopped = True
            self._wrong(error)
            return
        except QuorateError as error:
            wrong = f"its state cannot be read again: {error}"
        if wrong:
            self._end(trial.index, wrong)
        elif wrong == "":
            self._proved = trial.index
            for peer in self._others():
                self._send(peer, SumsOf(trial.index, packed(trial.mine), proved=True))
            self._weigh()

    # -- the verdict

    def _due(self, trial: _Trial) -> None:
        trial.told = True
        self._weigh()

    def _weigh(self) -> None:
        """Is there a majority that agrees? Whoever is of it tells the others; each judges itself."""
        trial, engine = self._trial, self._engine
        if trial is None or not trial.told or self._stopped:
            return
        me = int(engine.node_id)
        answers = {**trial.found, me: SumsOf(trial.index, packed(trial.mine), proved=self._proved == trial.index)}
        side, wrong = outvoted(answers, len(engine.voters))
        for node in wrong:
            verdict = StateIsWrong(trial.index, tuple(side), answers[side[0]].sums or packed(trial.mine))
            if node == me:
                self._judged(verdict)
            elif me in side:
                where = f"its state differs from that of {_named(side)} at index {trial.index}"
                self._gone[node] = f"node {node} was told to stop: {where}"
                self._send(node, verdict)

    def _judged(self, verdict: StateIsWrong) -> None:
        """A majority agrees at an entry: is it with us?"""
        engine, mine = self._engine, self._mine(verdict.index)
        others = set(verdict.agree) & set(engine.voters) - {engine.node_id}
        if mine is not None and len(others) > len(engine.voters) // 2 and not _same(verdict.sums, mine):
            self._end(verdict.index, f"{_named(sorted(others))} agree on another")

    def _end(self, index: int, reason: str) -> None:
        """This node is the wrong one: let another lead, then stop."""
        if self._ended is not None:
            return
        engine = self._engine
        self._ended = StateIsWrongError(
            f"the state of node {engine.node_id} is wrong at index {index}: {reason}; "
            "its next start puts the store aside and makes it anew"
        )
        sentence = f"node {engine.node_id} stopped: its state was wrong at index {index}: {reason}"
        for peer in self._others():
            self._send(peer, SumsOf(index, None, gone=sentence))
        handed = engine.is_leader and engine.transfer_leadership()
        self._scheduler.call_later(self._settings.wrong_hand_over_s if handed else 0.0, self._stop_node)

    def _stop_node(self) -> None:
        if not self._stopped and self._ended is not None:
            self._stopped = True
            self._wrong(self._ended)


def outvoted(answers: dict[int, SumsOf], voters: int) -> tuple[list[int], list[int]]:
    """The nodes of a majority of ``voters`` that agree, and those who are wrong by it: not one whose events speak for
    it, unless they speak for one of the majority too. No majority: nobody and nobody.
    """
    sides: dict[SumsAt, list[int]] = {}
    for node, of in sorted(answers.items()):
        if of.sums is not None:
            sides.setdefault(of.sums, []).append(node)
    for sums, side in sides.items():
        if len(side) > voters // 2:
            proved = any(answers[node].proved for node in side)
            others = [node for node, of in sorted(answers.items()) if of.sums not in (None, sums)]
            return side, [node for node in others if proved or not answers[node].proved]
    return [], []


def packed(mark: Mark) -> SumsAt:
    """As it is sent."""
    entities, whole = (total.to_bytes(SUM_BYTES, "little") for total in (mark.rows, mark.whole))
    return SumsAt(mark.index, mark.term, mark.offset, entities, whole)


def _same(sums: SumsAt, mark: Mark) -> bool:
    return sums == packed(mark)


def _named(nodes: list[int]) -> str:
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, nodes))
