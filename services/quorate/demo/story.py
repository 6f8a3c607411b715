"""The demonstration's memory: a fold over facts and faults, and what it makes of them. Pure.

Rules: ``quorate.model`` says how the cluster is; here are times and figures beside it. A fault is something we did (a
SIGKILL, a restart). A change of leader or master with no fault near it is counted apart, because there should be none.
"""

from collections import deque
from dataclasses import dataclass, field

from immutables import Map

from quorate.cli.facts import Fact
from quorate.events import (
    ControllerLeaderElected,
    ElectionFailed,
    FeatureLevelChanged,
    KeyPut,
    LeaseEnded,
    MasterElected,
    MemberFenced,
    MemberUnfenced,
    SegmentLeaderElected,
)
from quorate.model import state as model
from quorate.model.election_words import kind_words, rule_words
from quorate.model.evolve import evolve
from quorate.model.words import lease_number, sentence

NEAR_MS = 15_000
"""A change within this long after a fault is put down to it."""
LINES_KEPT = 10


@dataclass
class Story:
    """Everything told so far. Times are epoch milliseconds."""

    state: model.State = model.EMPTY
    offset: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    """Of each set why it has the master it was given last."""
    lines: deque[tuple[str, int, str]] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    faults: int = 0
    leader_changes: int = 0
    unprovoked_leader_changes: int = 0
    failovers: int = 0
    unprovoked_failovers: int = 0
    failed_elections: int = 0
    failover_ms: list[int] = field(default_factory=list)
    services: dict[str, bool] = field(default_factory=dict)
    """Keys that were put under a lease: are they there?"""
    leases_expired: int = 0
    unprovoked_expirations: int = 0
    _held: dict[int, str] = field(default_factory=dict)
    _stopped: dict[str, int] = field(default_factory=dict)
    _node_faults: list[int] = field(default_factory=list)
    _set_faults: dict[str, int] = field(default_factory=dict)

    @property
    def sets(self) -> Map[str, model.BrokerSet]:
        """Broker sets, by name."""
        return self.state.broker_sets

    @property
    def leader(self) -> int | None:
        """The controller that leads."""
        return None if self.state.leader is None else self.state.leader.node_id

    def fault(self, time_ms: int, text: str, broker_set: str | None = None) -> str:
        """Something was done to a node (``broker_set`` None) or to a broker; the line to tell."""
        self.faults += 1
        if broker_set is None:
            self._node_faults.append(time_ms)
        else:
            self._set_faults[broker_set] = time_ms
        self.lines.append(("fault", time_ms, text))
        return text

    def repair(self, time_ms: int, text: str, broker_set: str | None = None) -> str:
        """A node or a broker was started again; a change of leader soon after a node's return is put down to that."""
        if broker_set is None:
            self._node_faults.append(time_ms)
        self.lines.append(("note", time_ms, text))
        return text

    def stopped(self, time_ms: int, text: str, key: str) -> str:
        """A service was stopped; nobody but its lease is to tell of it."""
        self._stopped[key] = time_ms
        self.lines.append(("fault", time_ms, text))
        return text

    def note(self, time_ms: int, text: str) -> str:
        """Something to know, which no change is put down to."""
        self.lines.append(("note", time_ms, text))
        return text

    def tell(self, fact: Fact) -> str | None:
        """Take a fact in; the line to tell, None for what is not worth one. Raises InvariantBrokenError for one that
        does not follow from those before.
        """
        led = self.leader is not None
        self.state, self.offset = evolve(self.state, fact.event, fact.stamp), fact.stamp.offset + 1
        event, now = fact.event, fact.stamp.time_ms
        match event:
            case MasterElected():
                line = self._elected(event, now)
            case ElectionFailed():
                self.failed_elections += 1
                line = sentence(event)
            case ControllerLeaderElected():
                line = self._leads(event, now, first=not led)
            case FeatureLevelChanged() | MemberFenced() | MemberUnfenced() | SegmentLeaderElected():
                line = sentence(event)
            case KeyPut() if event.lease:
                there = self.services.get(event.key, False)
                self.services[event.key], self._held[event.lease] = True, event.key
                if there:
                    return None
                line = f"{event.key} is there, under lease {lease_number(event.lease)}"
            case LeaseEnded():
                line = self._ended(event, now)
            case _:
                return None
        self.lines.append(("fact", now, line))
        return line

    def summary(self) -> dict[str, int | float | None]:
        """The figures of the whole run."""
        took = sorted(self.failover_ms)
        return {
            "faults": self.faults,
            "failovers": self.failovers,
            "failover_ms_p50": took[len(took) // 2] if took else None,
            "failover_ms_max": took[-1] if took else None,
            "leases_expired": self.leases_expired,
            "leases_expired_without_stop": self.unprovoked_expirations,
            "failed_elections": self.failed_elections,
            "leader_changes": self.leader_changes,
            "leader_changes_without_fault": self.unprovoked_leader_changes,
            "failovers_without_fault": self.unprovoked_failovers,
            "events": self.offset,
        }

    def _elected(self, event: MasterElected, now: int) -> str:
        why = f"{kind_words(event.evidence or event.trigger)}: {rule_words(event.decided_by)}"
        self.reasons[event.broker_set] = why
        line = sentence(event)
        if event.master_epoch > 1:
            self.failovers += 1
            since = now - self._set_faults.get(event.broker_set, -NEAR_MS)
            if 0 <= since < NEAR_MS:
                self.failover_ms.append(since)
                line += f" [{since} ms after the kill]"
                self._set_faults.pop(event.broker_set)
            else:
                self.unprovoked_failovers += 1
        return line

    def _ended(self, event: LeaseEnded, now: int) -> str:
        """An expired lease, and the key that went with it; a service that was stopped has brought it about."""
        line, key = sentence(event), self._held.pop(event.lease, None)
        if key is None or event.reason != "expired":
            return line
        if event.keys:
            self.services[key] = False
            line = f"{key} is gone: {line}"
        self.leases_expired += 1
        stopped = self._stopped.pop(key, None)
        if stopped is None:
            self.unprovoked_expirations += 1
            return line
        return f"{line} [{now - stopped} ms after the stop]"

    def _leads(self, event: ControllerLeaderElected, now: int, *, first: bool) -> str:
        if not first:
            self.leader_changes += 1
            if not any(0 <= now - fault < NEAR_MS for fault in self._node_faults):
                self.unprovoked_leader_changes += 1
        return sentence(event)
