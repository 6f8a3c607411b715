"""Room on the voters' disks, and in the state: what grows the log for good is refused before a disk is full.

Rules: each node tells itself and the others how much is free on its disk while that is less than the floor; who says
nothing for ``SAID_FOR`` periods is counted no more (its disk is fine, or it is gone). While one voter has too little,
the leader refuses by name what grows the state (``GROWING``). Elections, fences, sync state sets, what forgets and
deletes, votes and terms go on: the floor is their reserve. It ends by itself once a tenth more than the floor is free.
The same is refused while the rows of the state are more than ``state_bytes_max``.

Theory: the log of events is kept whole, so all voters fill at the same pace; a voter whose write fails stops, and a
majority of full disks is a cluster that stands still for good. So the low disk of one voter holds all back, as etcd's
NOSPACE alarm does. Nothing in the log says so: the refusal is the leader's, like any other.
"""

from collections.abc import Callable, Iterable
from typing import Final

from quorate.clock import Scheduler
from quorate.controller import messages
from quorate.controller.ports import PeerLink
from quorate.controller.settings import ControllerSettings
from quorate.metadata.commands import (
    ApplyBrokerId,
    ChangeConfig,
    Command,
    CreateShard,
    GrantLease,
    NextSegment,
    OpenSession,
    PutKey,
    PutSubscriptions,
    PutTopic,
    RegisterBroker,
    RegisterMember,
    RegisterSchema,
    Transact,
)
from quorate.metadata.keys import puts_keys
from quorate.metrics import Metrics

GROWING: Final[frozenset[type[Command]]] = frozenset(
    {
        ApplyBrokerId,
        RegisterBroker,
        PutTopic,
        ChangeConfig,
        PutKey,
        Transact,
        GrantLease,
        RegisterMember,
        RegisterSchema,
        CreateShard,
        NextSegment,
        OpenSession,
        PutSubscriptions,
    }
)
"""Commands that add what nobody takes away by himself."""
SAID_FOR: Final = 3
"""Periods for which another node's word counts."""
ENOUGH: Final = 1.1
"""Times the floor: where a low disk is fine again."""


class DiskSpace:
    """What is known of the disks; ``measured`` is called by the composition once a period."""

    def __init__(
        self,
        node_id: int,
        others: Callable[[], Iterable[int]],
        state_bytes: Callable[[], int],
        scheduler: Scheduler,
        peers: PeerLink,
        settings: ControllerSettings,
        metrics: Metrics,
    ) -> None:
        self._node_id = node_id
        self._others = others
        self._state_bytes = state_bytes
        self._scheduler = scheduler
        self._peers = peers
        self._settings = settings
        self._free: int | None = None
        self._low = False
        self._said: dict[int, tuple[int, float]] = {}
        """Others with too little: how much is free there, and until when their word counts."""
        metrics.gauge("disk_free_bytes", "Free on the disk of the data directory; -1: not measured.", self._measured)
        metrics.gauge("state_bytes", "Rows of the state, keys and values.", state_bytes)
        metrics.gauge("disks_low", "Voters whose disk has less than the floor, as this node knows.", self._count)

    def _measured(self) -> int:
        return -1 if self._free is None else self._free

    def _count(self) -> int:
        return len(self._lacking())

    def measured(self, free_bytes: int) -> None:
        """So much is free here; the others are told while it is too little."""
        self._free = free_bytes
        floor = self._settings.free_space_floor_bytes
        self._low = free_bytes < (floor * ENOUGH if self._low else floor)
        if self._low:
            message = messages.encode(messages.DiskIsLow(free_bytes))
            for other in self._others():
                self._peers.send(other, messages.KIND, message)

    def told(self, peer: int, message: messages.DiskIsLow) -> None:
        """Another node's disk has too little."""
        until = self._scheduler.monotonic() + SAID_FOR * self._settings.free_space_period_s
        self._said[peer] = (message.free_bytes, until)

    def _lacking(self) -> dict[int, int]:
        """Voters whose disk has too little, and how much is free there."""
        now = self._scheduler.monotonic()
        self._said = {peer: note for peer, note in self._said.items() if note[1] > now}
        disks = {peer: free for peer, (free, _) in self._said.items()}
        if self._low and self._free is not None:
            disks[self._node_id] = self._free
        return disks

    def alarms(self) -> tuple[str, ...]:
        """One sentence for each disk that has too little, and for a state that is too large."""
        floor = self._settings.free_space_floor_bytes >> 20
        low = tuple(
            f"the disk of node {node} has {free >> 20} MiB free, less than {floor}: what grows the log is refused"
            for node, free in sorted(self._lacking().items())
        )
        return (*low, self._large()) if self._is_large() else low

    def nodes(self) -> tuple[int, ...]:
        """Whose disk has too little; this one, where the state is too large, which it is everywhere."""
        return tuple(sorted({*self._lacking(), *((self._node_id,) if self._is_large() else ())}))

    def _is_large(self) -> bool:
        return self._state_bytes() > self._settings.state_bytes_max

    def _large(self) -> str:
        has, most = self._state_bytes() >> 20, self._settings.state_bytes_max >> 20
        return f"the state has {has} MiB, more than {most}: what grows it is refused"

    def lacks_room(self, command: Command) -> str | None:
        """Why the command cannot be taken now; None: it can."""
        if command.__class__ not in GROWING:
            return None
        if isinstance(command, ChangeConfig) and not any(value for value in command.changes.values()):
            return None  # It only unsets.
        if isinstance(command, Transact) and not puts_keys(command):
            return None  # It only reads and deletes.
        return self.lack()

    def lack(self) -> str | None:
        """Why nothing may grow now; None: there is room."""
        return next(iter(self.alarms()), None) if self._low or self._said or self._is_large() else None
