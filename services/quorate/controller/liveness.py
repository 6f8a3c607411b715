"""From silence and closed channels to facts: who is fenced, whose master must be replaced.

Rules: evidence per broker. A close makes it suspect; a refused dial, or a second controller whose channel closed too,
confirms it; else only the heartbeat timeout does. A broker this node has not heard from is *unknown* for one timeout:
it can be neither elected nor fenced. Only the leader acts, and when most brokers seem to vanish at once it first
re-proves its quorum. Fencing has hysteresis. Every node keeps the evidence, so a new leader knows at once. A pass over
facts and evidence visits the sets something happened to (watchlist.py), one pass at a time; what a pass asks for is
asked with rests between.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from quorate.clock import Scheduler
from quorate.consensus.ports import Index
from quorate.controller import messages
from quorate.controller.controller import Controller
from quorate.controller.listeners import Listener
from quorate.controller.live import LiveEntry, LiveKey, LiveNow
from quorate.controller.outcomes import Caller, Outcome
from quorate.controller.paced import PacedQueue
from quorate.controller.ports import BrokerLink, DialResult, PeerLink
from quorate.controller.settings import ControllerSettings
from quorate.controller.watchlist import Watchlist
from quorate.events import BrokerDataCleaned, Event
from quorate.metadata.commands import Command, ElectionTrigger, ElectMaster, Evidence, FenceBroker, UnfenceBroker
from quorate.model.state import BrokerSet, Replica

LOOKS_PER_SLICE = 128
"""How many replicas one turn of the loop looks at, unless it finds something to do; one set is not divided."""
CLOSED_PER_MESSAGE = 1000
"""How many closed channels one message tells of: some 50 bytes each, far below what a peer takes."""


class Liveness(Listener):
    """Watches the live table of one node; acts while it leads."""

    def __init__(
        self,
        controller: Controller,
        scheduler: Scheduler,
        brokers: BrokerLink,
        peers: PeerLink,
        settings: ControllerSettings,
    ) -> None:
        self._controller = controller
        self._scheduler = scheduler
        self._brokers = brokers
        self._peers = peers
        self._settings = settings
        self._me = Caller(f"node/{controller.node_id}", "")
        self._dead: list[LiveEntry] = []
        self._to_tell: list[LiveKey] = []
        """Closed here in this turn of the loop, for the leader to hear of."""
        self._to_dial = PacedQueue(scheduler, settings.failover_pause_s, self._dial)
        """Suspects. When a rack goes, other controllers confirm most of these deaths before they are dialled."""
        self._failovers = PacedQueue(scheduler, settings.failover_pause_s, self._fail_over)
        """Brokers whose death is confirmed, each waiting for its fencing or failover."""
        self._missed = PacedQueue(scheduler, settings.fencing_pause_s, self._fence_missed)
        """Members of sets that were never heard here."""
        self._recent: deque[float] = deque()
        self._asked: set[tuple[str, str, int]] = set()
        self._silent_since: dict[str, dict[int, float]] = {}
        """By set: replicas never heard here, and since when this leader has missed them."""
        self._watchlist = Watchlist(settings.scan_round)
        self._pass: Iterator[float] | None = None
        """The pass under way, or asked for: the next begins when it has ended."""
        self.looks = 0
        """Replicas that passes have looked at so far."""
        self._next_master_scan = 0.0
        self._next_scan = 0.0
        self._stopped = False

    def start(self) -> None:
        """Begin scanning."""
        self._next_scan = self._scheduler.monotonic() + self._settings.live_scan_period_s
        self._scheduler.call_later(self._settings.live_scan_period_s, self._scan)

    def stop(self) -> None:
        """Stop scanning."""
        self._stopped = True

    # -- closes

    def suspected(self, suspects: list[LiveEntry]) -> None:
        """Connections closed here. A leader asks another controller to confirm; a follower reports to the leader."""
        controller = self._controller
        if controller.is_leader:
            now = self._scheduler.monotonic()
            for entry in suspects:
                if not self._confirmed_by_second_observer(entry, now):
                    self._to_dial.add([entry])
            return
        if not self._to_tell:
            self._scheduler.call_soon(self._tell)
        self._to_tell.extend(entry.key for entry in suspects)

    def _tell(self) -> None:
        """All that closed in this turn at once: when a rack goes, they are many."""
        keys, self._to_tell = self._to_tell, []
        leader = self._controller.leader_id
        if leader is None or leader == self._controller.node_id or self._stopped:
            return
        for start in range(0, len(keys), CLOSED_PER_MESSAGE):
            note = messages.BrokersClosed(tuple(keys[start : start + CLOSED_PER_MESSAGE]))
            self._peers.send(leader, messages.KIND, messages.encode(note))

    def closed_elsewhere(self, peer: int, note: messages.BrokersClosed) -> None:
        """Another controller saw its channels to these brokers close."""
        now = self._scheduler.monotonic()
        for cluster, broker_set, broker_id in note.brokers:
            entry = self._controller.live.get(cluster, broker_set, broker_id)
            if entry is not None and entry.alive:
                entry.closed_elsewhere[peer] = now
                self._confirmed_by_second_observer(entry, now)

    def _confirmed_by_second_observer(self, entry: LiveEntry, now: float) -> bool:
        """Own channel closed, and another's since the last heartbeat, within the window."""
        closed_at, window = entry.closed_at, self._settings.close_confirm_window_s
        if closed_at is None or not entry.alive:
            return False
        if any(at >= entry.seen and abs(at - closed_at) <= window for at in entry.closed_elsewhere.values()):
            self._mark_dead(entry, "connection closed", now)
            return True
        return False

    def _dial(self, entry: LiveEntry) -> bool:
        """Does anybody still listen there? Not asked when it spoke, or its death was confirmed, meanwhile."""
        if not entry.suspect or self._stopped:
            return False
        entry.last_dial = self._scheduler.monotonic()
        closed_at = entry.closed_at

        def result(outcome: DialResult) -> None:
            if outcome == "refused" and entry.suspect and entry.closed_at == closed_at:
                self._mark_dead(entry, "connection closed", self._scheduler.monotonic())

        self._brokers.dial(entry.address, result)
        return True

    def _mark_dead(self, entry: LiveEntry, evidence: Evidence, now: float) -> None:
        self._controller.live.mark_dead(entry, evidence, now)
        self._touched(entry.broker_set)
        while self._recent and self._recent[0] < now - 1.0:
            self._recent.popleft()
        self._recent.append(now)
        if not self._dead:
            self._scheduler.call_soon(self._act)
        self._dead.append(entry)

    # -- acting on deaths

    def _act(self) -> None:
        """Fence and elect; but first check that this node still reaches a quorum."""
        dead, self._dead = self._dead, []
        if not self._controller.is_leader or self._stopped:
            return
        if self._mass_loss():
            self._proven(lambda: self._failovers.add(dead))
        else:
            self._failovers.add(dead)

    def _proven(self, then: Callable[[], None]) -> None:
        """Go on once a majority has confirmed that this node leads; else not at all."""

        def confirmed(index: Index | None) -> None:
            if index is not None and self._controller.is_leader:
                then()

        self._controller.engine.read_index(confirmed)

    def _mass_loss(self) -> bool:
        """Of those that were heard a second ago, with those whose death is not confirmed yet; those that died long
        before are no yardstick.
        """
        live, lost = self._controller.live, len(self._recent)
        vanished = lost + live.suspects
        share = self._settings.mass_loss_share * (live.living + lost)
        return vanished >= self._settings.mass_loss_min and vanished > share

    def _fail_over(self, entry: LiveEntry) -> bool:
        """A fencing, and perhaps an election; who spoke meanwhile is spared."""
        if not self._controller.is_leader or self._stopped:
            self._failovers.clear()
            return False
        broker_set = self._controller.state.broker_sets.get(entry.broker_set)
        if entry.alive or broker_set is None or broker_set.cluster != entry.cluster:
            return False
        replica = broker_set.replica(entry.broker_id)
        if replica is None:
            return False
        self._fence(broker_set, replica, entry)
        return True

    def _fence(self, broker_set: BrokerSet, replica: Replica, entry: LiveEntry | None) -> None:
        """Fence it, which replaces a master; for one that is fenced already ask for another."""
        heard_ms, detected_ms = self._times(entry)
        evidence: Evidence = "heartbeat expired"
        if entry is not None and entry.evidence:
            evidence = entry.evidence
        if not replica.fenced:
            self._ask(
                (broker_set.name, "fence", replica.broker_id),
                FenceBroker(
                    cluster=broker_set.cluster,
                    broker_set=broker_set.name,
                    broker_id=replica.broker_id,
                    evidence=evidence,
                    last_heartbeat_ms=heard_ms,
                    detected_ms=detected_ms,
                ),
                cause=evidence,
            )
        elif broker_set.master == replica.broker_id:
            self._elect(broker_set, "master lost", evidence, heard_ms, detected_ms)

    def _times(self, entry: LiveEntry | None) -> tuple[int, int]:
        """(last heartbeat, detection) in wall-clock ms; (0, now) for a broker never heard here."""
        now, now_ms = self._scheduler.monotonic(), self._scheduler.time_ms()
        if entry is None:
            return 0, now_ms
        died_at = entry.died_at if not entry.alive else now
        return now_ms - int((now - entry.seen) * 1000), now_ms - int((now - died_at) * 1000)

    def _elect(
        self, broker_set: BrokerSet, trigger: ElectionTrigger, evidence: Evidence, heard_ms: int, detected_ms: int
    ) -> None:
        command = ElectMaster(
            broker_set=broker_set.name,
            trigger=trigger,
            evidence=evidence,
            last_heartbeat_ms=heard_ms,
            detected_ms=detected_ms,
        )
        self._ask((broker_set.name, "elect", 0), command, cause=evidence or trigger)

    def _ask(self, what: tuple[str, str, int], command: Command, cause: str = "liveness") -> None:
        """Submit it unless the same is under way. Whatever comes of it, the set is looked at again."""
        if what in self._asked:
            return
        self._asked.add(what)

        def done(_: Outcome) -> None:
            self._asked.discard(what)
            self._touched(what[0])

        self._controller.submit(command, self._me, done, cause=cause, forward=False)

    # -- the scan

    def _scan(self) -> None:
        """Once a second: what is overdue; and, leading, whether facts and evidence agree."""
        if self._stopped:
            return
        self._scheduler.call_later(self._settings.live_scan_period_s, self._scan)
        now, due = self._scheduler.monotonic(), self._next_scan
        self._next_scan = now + self._settings.live_scan_period_s
        if now > due + self._settings.live_scan_period_s:
            return  # This node slept: the heartbeats of that time are still in its sockets, so silence says nothing.
        live = self._controller.live
        for entry in live.overdue(now):
            self._mark_dead(entry, "heartbeat expired", now)
        self._forget_strangers(live.some_dead(self._settings.scan_round))
        if not self._controller.is_leader:
            return
        not_since = now - self._settings.close_dial_retry_s
        self._to_dial.add(entry for entry in live.suspected() if entry.last_dial <= not_since)
        if self._pass is None:
            self._begin_pass(self._changed_sets())

    def _forget_strangers(self, dead: Iterable[LiveEntry]) -> None:
        """The dead that no broker set holds: cleaned, or never registered; their ids may be given to others."""
        live, sets = self._controller.live, self._controller.state.broker_sets
        for entry in dead:
            broker_set = sets.get(entry.broker_set)
            if broker_set is None or broker_set.cluster != entry.cluster or broker_set.replica(entry.broker_id) is None:
                live.forget(entry)

    # -- what happened to which set

    def _touched(self, broker_set: str) -> None:
        """Look at it in the next pass. Who does not lead looks at everything when it does."""
        if self._controller.is_leader:
            self._watchlist.changed(broker_set)

    def revived(self, entry: LiveEntry) -> None:
        """Its set may need an election."""
        self._touched(entry.broker_set)

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Leading, every change of a set passes here: nobody else decides."""
        for _, event in events:
            name = getattr(event, "broker_set", None)
            if name is not None:
                self._watchlist.changed(name)
            if isinstance(event, BrokerDataCleaned):
                self._forget_strangers(self._controller.live.dead_of(event.broker_set))

    def opened(self, term: int) -> None:
        """A new leader looks at everything at once."""
        del term
        self.lost()
        self._next_master_scan = self._scheduler.monotonic() + self._settings.inactive_master_scan_period_s
        live = self._controller.live
        self._forget_strangers(live.some_dead(len(live)))
        self._to_dial.add(live.suspected())
        self._go_on(self._look_at(sorted(self._controller.state.broker_sets), masters=True))

    def lost(self) -> None:
        """What was found and asked for belongs to a term that is over."""
        self._asked.clear()
        self._silent_since.clear()
        self._watchlist.clear()
        self._missed.clear()
        self._pass = None

    # -- a pass

    def _changed_sets(self) -> Iterator[float]:
        """A pass over what is on the list by the time it begins."""
        now = self._scheduler.monotonic()
        masters = now >= self._next_master_scan
        if masters:
            self._next_master_scan = now + self._settings.inactive_master_scan_period_s
        yield from self._look_at(self._watchlist.take(self._controller.state.broker_sets, now), masters=masters)

    def _begin_pass(self, steps: Iterator[float]) -> None:
        """Once a majority has confirmed that this node leads; the list waits for that too."""
        self._pass = steps

        def confirmed(index: Index | None) -> None:
            if self._pass is not steps:
                return
            if index is not None and self._controller.is_leader:
                self._go_on(steps)
            else:
                self._pass = None

        self._controller.engine.read_index(confirmed)

    def _go_on(self, steps: Iterator[float]) -> None:
        """A slice of it now, the rest in later turns; nothing of one that is not the pass under way any more."""
        self._pass = steps

        def step() -> None:
            if self._pass is not steps or self._stopped or not self._controller.is_leader:
                return
            rest_s = next(steps, None)
            if rest_s is None:
                self._pass = None
            elif rest_s:
                self._scheduler.call_later(rest_s, step)
            else:
                self._scheduler.call_soon(step)

        step()

    def _look_at(self, names: Iterable[str], *, masters: bool) -> Iterator[float]:
        """The pass itself: yields how long to rest, 0 for one turn, wherever other work may come between."""
        looked = self.looks
        for name in names:
            while self._failovers:  # What it would find first is in that queue.
                yield self._settings.failover_pause_s
            broker_set = self._controller.state.broker_sets.get(name)
            if broker_set is None:
                self._silent_since.pop(name, None)
                continue
            yield from self._reconcile(broker_set, masters=masters)
            if self.looks - looked >= LOOKS_PER_SLICE:
                looked = self.looks
                yield 0.0

    def _reconcile(self, broker_set: BrokerSet, *, masters: bool) -> Iterator[float]:
        """Ask for what facts lack; yields after each thing asked for. Says by itself when it must be looked at again:
        nothing that depends on time alone is waited for otherwise.
        """
        self._forget_the_missed(broker_set)
        lives = self._controller.live.at(self._scheduler.monotonic())
        self.looks += len(broker_set.replicas)
        anyone, master_gone = False, broker_set.master is None and broker_set.master_epoch > 0
        wrong: list[int] = []
        for replica in broker_set.replicas:
            alive = self._believed(broker_set, replica, lives)
            anyone = anyone or alive is True
            if alive is False and replica.fenced:
                master_gone = master_gone or broker_set.master == replica.broker_id
            elif alive is not None and alive is replica.fenced:
                wrong.append(replica.broker_id)
        if master_gone and anyone:
            self._watchlist.at(broker_set.name, self._next_master_scan)
            if masters:
                self._elect(broker_set, "inactive master scan", "", 0, self._scheduler.time_ms())
                yield self._settings.failover_pause_s
        for broker_id in wrong:
            if self._correct(broker_set.name, broker_id):
                yield self._settings.failover_pause_s

    def _believed(self, broker_set: BrokerSet, replica: Replica, lives: LiveNow) -> bool | None:
        """Alive, or dead beyond doubt; None: too early to say, and the set will be looked at when it is not."""
        name, broker_id = broker_set.name, replica.broker_id
        alive = lives.alive(broker_set.cluster, name, broker_id)
        if alive:
            return True
        live, now = self._controller.live, lives.now
        sure_from = now
        if alive is None:
            sure_from = live.judged_from
        elif live.get(broker_set.cluster, name, broker_id) is None:
            sure_from = self._missed_since(name, broker_id, now) + self._settings.heartbeat_timeout_s
        if sure_from <= now:
            return alive
        self._watchlist.at(name, sure_from)
        return None

    def _missed_since(self, broker_set: str, broker_id: int, now: float) -> float:
        """A replica never heard here gets one timeout from when it was first missed: it may just have registered."""
        return self._silent_since.setdefault(broker_set, {}).setdefault(broker_id, now)

    def _forget_the_missed(self, broker_set: BrokerSet) -> None:
        """Who was heard at last, or does not belong to its set any more, is not missed."""
        missed = self._silent_since.get(broker_set.name)
        if missed is None:
            return
        live, ids = self._controller.live, {replica.broker_id for replica in broker_set.replicas}
        for one in list(missed):
            if one not in ids or live.get(broker_set.cluster, broker_set.name, one) is not None:
                del missed[one]
        if not missed:
            del self._silent_since[broker_set.name]

    def _correct(self, name: str, broker_id: int) -> bool:
        """Facts and evidence differ about this replica, unless either has changed meanwhile. False: nothing asked for.
        Whoever was never heard can wait: they may be many, and nobody misses them.
        """
        broker_set = self._controller.state.broker_sets.get(name)
        replica = broker_set.replica(broker_id) if broker_set is not None else None
        if broker_set is None or replica is None:
            return False
        now, live = self._scheduler.monotonic(), self._controller.live
        entry = live.get(broker_set.cluster, name, broker_id)
        if entry is None:
            self._missed.add([(name, broker_id)])
            return False
        alive = live.at(now).alive(broker_set.cluster, name, broker_id)
        if alive is not replica.fenced:
            return False
        if not alive:
            self._fence(broker_set, replica, entry)
            return True
        counts_from = entry.alive_since + self._settings.unfence_after_s
        if counts_from > now:
            self._watchlist.at(name, counts_from)
            return False
        self._unfence(broker_set, replica, entry)
        return True

    def _fence_missed(self, missed: tuple[str, int]) -> bool:
        """A fencing of a replica that nobody heard of here, if that is still so."""
        name, broker_id = missed
        if not self._controller.is_leader or self._stopped:
            self._missed.clear()
            return False
        broker_set = self._controller.state.broker_sets.get(name)
        replica = broker_set.replica(broker_id) if broker_set is not None else None
        if broker_set is None or replica is None or replica.fenced:
            return False
        lives = self._controller.live.at(self._scheduler.monotonic())
        if self._believed(broker_set, replica, lives) is not False:
            return False
        self._fence(broker_set, replica, self._controller.live.get(broker_set.cluster, name, broker_id))
        return True

    def _unfence(self, broker_set: BrokerSet, replica: Replica, entry: LiveEntry) -> None:
        now, now_ms = self._scheduler.monotonic(), self._scheduler.time_ms()
        command = UnfenceBroker(
            cluster=broker_set.cluster,
            broker_set=broker_set.name,
            broker_id=replica.broker_id,
            detected_ms=now_ms - int((now - entry.alive_since) * 1000),
        )
        self._ask((broker_set.name, "unfence", replica.broker_id), command)
