"""The brokers of a set are told of one that registered: by 1008, with the epochs there are, and who the members are.

Rules: told by the leader when a broker registers, moves or says something new of itself; to the other living members,
again with back-off, until each has acknowledged, is fenced or falls silent. A broker takes a role only with a greater
epoch (Java ``ReplicasManager.changeBrokerRole``), so a stock one acknowledges and goes on. Nothing of it is written in
the log, and a new leader tells nothing again: who is in a set can be asked at any time (1003, 1006).
"""

from collections.abc import Sequence

from quorate.clock import Scheduler
from quorate.controller.controller import Controller
from quorate.controller.listeners import Listener
from quorate.controller.paced import UntilDone
from quorate.controller.ports import BrokerLink, RoleChange
from quorate.controller.settings import ControllerSettings
from quorate.events import BrokerAddressChanged, BrokerRegistered, Event
from quorate.model.state import BrokerSet

_Item = tuple[str, int]
"""A set, and the broker of it that is to be told who its members are."""


def members(broker_set: BrokerSet) -> dict[int, str]:
    """Registered id → address."""
    return {one.broker_id: one.address for one in broker_set.replicas if one.registered}


class MemberNews(Listener):
    """Active while this node leads."""

    concerns = frozenset((BrokerRegistered, BrokerAddressChanged))

    def __init__(
        self, controller: Controller, scheduler: Scheduler, brokers: BrokerLink, settings: ControllerSettings
    ) -> None:
        self._controller = controller
        self._scheduler = scheduler
        self._brokers = brokers
        self._term = 0
        self._untold: UntilDone[_Item] = UntilDone(scheduler, settings, self._do)

    def __len__(self) -> int:
        """Brokers to be told."""
        return len(self._untold)

    def opened(self, term: int) -> None:
        """From here on."""
        self._term = term

    def lost(self) -> None:
        """Whoever leads next tells of who registers then."""
        self._term = 0
        self._untold.clear()

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """Each that registered is told to the others of its set."""
        if not self._term:
            return
        for _, event in events:
            if isinstance(event, BrokerRegistered | BrokerAddressChanged):
                known = self._controller.state.known(event.broker_set)
                others = [] if known is None else [one for one in members(known) if one != event.broker_id]
                self._untold.add((event.broker_set, number) for number in others)

    def _do(self, item: _Item) -> bool:
        """Tell it; False: not now, or nobody needs it any more."""
        name, broker_id = item
        known = self._controller.state.known(name)
        if known is None or not self._listens(known, broker_id):
            self._untold.end(item)
            return False
        if known.master is None:
            self._untold.again(item)  # 1008 names a master.
            return False
        change = RoleChange(
            master=known.master,
            master_address=known.address(known.master) or "",
            master_epoch=known.master_epoch,
            sync_state_set=known.sync_state_set,
            sync_state_set_epoch=known.sync_state_set_epoch,
            members=members(known),
        )
        term = self._term

        def done(acknowledged: bool) -> None:
            if self._term != term or item not in self._untold:
                return
            if not acknowledged or self._told(name) != change.members:
                self._untold.again(item)
            else:
                self._untold.end(item)

        self._brokers.notify(known.address(broker_id) or "", change, done)
        return True

    def _told(self, name: str) -> dict[int, str]:
        known = self._controller.state.known(name)
        return {} if known is None else members(known)

    def _listens(self, broker_set: BrokerSet, broker_id: int) -> bool:
        """Is it there to be told?"""
        replica = broker_set.replica(broker_id)
        live = self._controller.live.at(self._scheduler.monotonic())
        return (
            replica is not None
            and not replica.fenced
            and live.alive(broker_set.cluster, broker_set.name, broker_id) is True
            and self._controller.policy_for(broker_set.name).notify_broker_role_changed
        )
