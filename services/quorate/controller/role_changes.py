"""Telling brokers who is master (1008), until each has heard it, and recording that it was heard.

Rules: pushed by the leader as a two-way request to every living replica, again with back-off, until acknowledged,
superseded by a later election, fenced, or the replica's heartbeat shows the new epoch. One ``RoleChangeAcknowledged``
per election. Brokers also poll, so a lost push costs time, never correctness.
"""

from collections.abc import Sequence
from typing import Final

from quorate.clock import Scheduler
from quorate.controller.controller import Controller
from quorate.controller.listeners import Listener
from quorate.controller.live import LiveTable
from quorate.controller.outcomes import Caller, Outcome
from quorate.controller.paced import Agenda, SomeATurn
from quorate.controller.ports import BrokerLink, RoleChange
from quorate.controller.settings import ControllerSettings
from quorate.events import Event, MasterElected
from quorate.metadata.commands import AcknowledgedBy, AcknowledgeRoleChanges, RoleChangeDelivery
from quorate.model.state import BrokerSet

PER_TURN: Final = 64
"""Elections that a new leader pushes in one turn of the loop."""


class _Target:
    """One broker to be told; times in epoch milliseconds, 0 = not yet."""

    __slots__ = ("acknowledged_ms", "address", "backoff_s", "broker_id", "notified_ms")

    def __init__(self, broker_id: int, address: str, backoff_s: float) -> None:
        self.broker_id = broker_id
        self.address = address
        self.backoff_s = backoff_s
        self.notified_ms = 0
        self.acknowledged_ms = 0


class _Push:
    """The delivery of one election."""

    __slots__ = ("change", "committed_ms", "offset", "recorded", "targets")

    def __init__(self, offset: int, committed_ms: int, change: RoleChange, targets: dict[int, _Target]) -> None:
        self.offset = offset
        self.committed_ms = committed_ms
        self.change = change
        self.targets = targets
        self.recorded = False


class RoleChanges(Listener):
    """Active while this node leads."""

    concerns = frozenset((MasterElected,))

    def __init__(
        self, controller: Controller, scheduler: Scheduler, brokers: BrokerLink, settings: ControllerSettings
    ) -> None:
        self._controller = controller
        self._scheduler = scheduler
        self._brokers = brokers
        self._settings = settings
        self._me = Caller(f"node/{controller.node_id}", "")
        self._pushes: dict[str, _Push] = {}
        self._agenda = Agenda(scheduler, settings.deadline_sweep_s, self._due)
        self._delivered: list[RoleChangeDelivery] = []
        """To be recorded in a moment, several in one decision."""
        self._opening = SomeATurn[tuple[int, str]](scheduler, lambda due: self._push(due[1], due[0]))
        """What the leader before may have left, but for what is superseded meanwhile."""

    def __len__(self) -> int:
        """Elections whose delivery is under way."""
        return len(self._pushes)

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Each election is pushed."""
        for offset, event in events:
            # An entry of a leadership that is over: whoever leads now pushes it.
            if event.__class__ is MasterElected and self._controller.is_leader:
                self._push(event.broker_set, offset)

    def opened(self, term: int) -> None:
        """A new leader finishes what the old one may not have, a few a turn."""
        del term
        due = [
            (broker_set.election.offset, broker_set.name)
            for broker_set in self._controller.state.broker_sets.values()
            if broker_set.master is not None
            and broker_set.election is not None
            and not broker_set.election.acknowledged
        ]
        self._opening.begin(sorted(due), PER_TURN)  # The oldest first, whatever the order of the map.

    def lost(self) -> None:
        """Whoever leads next finds in the log what was not recorded."""
        self._opening.stop()
        self._pushes.clear()
        self._agenda.clear()
        self._delivered.clear()

    def _push(self, name: str, offset: int) -> None:
        broker_set = self._controller.state.broker_sets.get(name)
        if broker_set is None or broker_set.master is None:
            return
        if broker_set.election is None or broker_set.election.offset != offset:
            return  # A later one was applied in the same slice.
        if not self._controller.policy_for(name).notify_broker_role_changed:
            return
        change = RoleChange(
            master=broker_set.master,
            master_address=broker_set.address(broker_set.master) or "",
            master_epoch=broker_set.master_epoch,
            sync_state_set=broker_set.sync_state_set,
            sync_state_set_epoch=broker_set.sync_state_set_epoch,
        )
        targets = {
            replica.broker_id: _Target(replica.broker_id, replica.address, self._settings.role_push_backoff_s)
            for replica in broker_set.replicas
            if self._alive(broker_set, replica.broker_id)
        }
        push = self._pushes[name] = _Push(offset, self._scheduler.time_ms(), change, targets)
        for target in targets.values():
            self._notify(name, push, target)
        self._agenda.add(self._settings.role_push_record_after_s, (name, push, None))

    def _alive(self, broker_set: BrokerSet, broker_id: int) -> bool:
        live: LiveTable = self._controller.live
        now = self._scheduler.monotonic()
        return live.at(now).alive(broker_set.cluster, broker_set.name, broker_id) is True

    def _current(self, name: str, push: _Push) -> bool:
        return self._pushes.get(name) is push

    def _notify(self, name: str, push: _Push, target: _Target) -> None:
        if not target.notified_ms:
            target.notified_ms = self._scheduler.time_ms()

        def done(acknowledged: bool) -> None:
            if not self._current(name, push):
                return
            if acknowledged:
                self._controller.metrics.role_changes_acknowledged += 1
                self._heard(name, push, target)
            else:
                self._controller.metrics.role_changes_failed += 1
                wait_s, target.backoff_s = (
                    target.backoff_s,
                    min(target.backoff_s * 2, self._settings.role_push_backoff_max_s),
                )
                self._agenda.add(wait_s, (name, push, target))

        self._brokers.notify(target.address, push.change, done)

    def _due(self, item: tuple[str, _Push, _Target | None]) -> None:
        name, push, target = item
        if target is None:
            self._time_is_up(name, push)
        else:
            self._again(name, push, target)

    def _again(self, name: str, push: _Push, target: _Target) -> None:
        """Once more, unless nobody needs it now."""
        if not self._current(name, push):
            return
        broker_set = self._controller.state.broker_sets.get(name)
        replica = broker_set.replica(target.broker_id) if broker_set is not None else None
        if broker_set is None or broker_set.master_epoch != push.change.master_epoch:
            del self._pushes[name]
            return
        entry = self._controller.live.get(broker_set.cluster, name, target.broker_id)
        if replica is not None and entry is not None and entry.epoch >= push.change.master_epoch:
            self._heard(name, push, target)
        elif replica is None or replica.fenced or not self._alive(broker_set, target.broker_id):
            push.targets.pop(target.broker_id, None)
            self._complete(name, push)
        else:
            target.address = replica.address
            self._notify(name, push, target)

    def _heard(self, name: str, push: _Push, target: _Target) -> None:
        target.acknowledged_ms = self._scheduler.time_ms()
        self._complete(name, push)

    def _complete(self, name: str, push: _Push) -> None:
        if all(target.acknowledged_ms for target in push.targets.values()):
            self._record(name, push)
            if self._current(name, push):
                del self._pushes[name]

    def _time_is_up(self, name: str, push: _Push) -> None:
        """Record who has heard it by now; whoever has not is told on."""
        self._record(name, push)
        if self._current(name, push):
            self._complete(name, push)

    def _record(self, name: str, push: _Push) -> None:
        """The fact of the delivery, once."""
        if push.recorded or not self._current(name, push):
            return
        push.recorded = True
        acks = tuple(
            AcknowledgedBy(t.broker_id, t.notified_ms, t.acknowledged_ms)
            for t in sorted(push.targets.values(), key=lambda t: t.broker_id)
        )
        delivery = RoleChangeDelivery(
            broker_set=name,
            master_epoch=push.change.master_epoch,
            election_offset=push.offset,
            committed_ms=push.committed_ms,
            acks=acks,
        )
        if not self._delivered:
            self._scheduler.call_later(self._settings.role_push_gather_s, self._write_down)
        self._delivered.append(delivery)

    def _write_down(self) -> None:
        """The deliveries of a moment, so many in one entry; a rest a moment later."""
        most = self._settings.role_push_gather_max
        now, self._delivered = self._delivered[:most], self._delivered[most:]
        if self._delivered:
            self._scheduler.call_later(self._settings.role_push_gather_s, self._write_down)
        if now:
            command = AcknowledgeRoleChanges(deliveries=tuple(now))
            self._controller.submit(command, self._me, _ignored, cause="role change", forward=False)


def _ignored(outcome: Outcome) -> None:
    """A delivery that could not be recorded is not recorded."""
    del outcome
