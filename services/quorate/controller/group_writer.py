"""Writes consumer-group state to the log, batching many small changes into one entry.

Rules: at most one entry in flight and one a window, of bounded size, so that decisions hardly notice. Changes of one
key that wait together are one change, the last. ``done`` is called once, within ``answer_timeout_s``: *written* only
after commit and apply. The queue is bounded.
Theory: the first change after a quiet time is proposed at once; what comes while its entry is in flight, or before
the window is over, waits and goes together. So a lone commit costs one round to a majority, and thousands of
consumers cost twenty entries a second. Callbacks run in a turn of their own, so an exception in one
cannot interrupt an apply.
"""

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum

from quorate.clock import Scheduler
from quorate.consensus.ports import Index, Term
from quorate.controller.controller import Controller
from quorate.controller.listeners import Listener
from quorate.controller.machine import ReplicatedState
from quorate.controller.settings import ControllerSettings
from quorate.metadata.group_rows import GroupRowChange, encode_changes
from quorate.metadata.limits import GROUP_EXPIRY_S, GROUP_ROWS_MAX, in_force


class WriteResult(Enum):
    """What became of a change."""

    DONE = "committed and applied here"
    BUSY = "too many changes wait; nothing was proposed"
    NO_ROOM = "too many rows are kept, or this one is too long; nothing was proposed"
    NOT_LEADER = "this node does not lead, or not any more: another may have it"
    LATE = "no answer in time; it may still be written"


class _Waiter:
    """Someone who wants to know."""

    __slots__ = ("deadline", "done")

    def __init__(self, done: Callable[[WriteResult], None], deadline: float) -> None:
        self.done: Callable[[WriteResult], None] | None = done
        self.deadline = deadline

    def tell(self, written: WriteResult) -> None:
        """Once; later news is dropped."""
        done, self.done = self.done, None
        if done is not None:
            done(written)


class _Change:
    """The newest row of one key, and all who wait for it or for what it replaced."""

    __slots__ = ("row", "waiters")

    def __init__(self) -> None:
        self.row: bytes | None = None
        self.waiters: list[_Waiter] = []


class GroupWriter(Listener):
    """Batches changes of consumer groups. One per node; writes only while the node leads."""

    def __init__(
        self, controller: Controller, machine: ReplicatedState, scheduler: Scheduler, settings: ControllerSettings
    ) -> None:
        self._controller = controller
        self._machine = machine
        self._scheduler = scheduler
        self._settings = settings
        self._waiting: dict[bytes, _Change] = {}
        self._waiters: deque[_Waiter] = deque()
        self._flight: tuple[Index, Term] | None = None
        self._aboard: dict[bytes, list[_Waiter]] = {}
        self._next_at = 0.0
        self._armed = False
        self._watching = False

    @property
    def waiting(self) -> int:
        """Changes that wait, or are in flight."""
        return len(self._waiters)

    def __len__(self) -> int:
        """Rows kept, as applied here."""
        return len(self._machine.groups)

    def get(self, key: bytes) -> bytes | None:
        """The row as applied here."""
        return self._machine.groups.get(key)

    def starting_with(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose keys begin so, as of now."""
        return self._machine.groups.starting_with(prefix)

    def expiry_s(self) -> float:
        """How long after its commit a position lapses, as the log says."""
        return in_force(self._machine.state, GROUP_EXPIRY_S)

    def pending(self, key: bytes) -> bool:
        """Is a change of this row on its way?"""
        return key in self._waiting or key in self._aboard

    def put(self, key: bytes, row: bytes | None, done: Callable[[WriteResult], None], *, needed: bool = False) -> None:
        """Have the row written (None: removed). ``needed``: also where there is no room for others."""
        refusal = self._refusal(key, row, needed)
        if refusal is not None:
            done(refusal)
            return
        waiter = _Waiter(done, self._scheduler.monotonic() + self._controller.settings.answer_timeout_s)
        self._waiters.append(waiter)
        change = self._waiting.get(key)
        if change is None:
            change = self._waiting[key] = _Change()
        change.row = row
        change.waiters.append(waiter)
        self._arm()
        self._watch()

    def _refusal(self, key: bytes, row: bytes | None, needed: bool) -> WriteResult | None:
        limits = self._settings
        if not self._controller.is_leader:
            return WriteResult.NOT_LEADER
        if max(len(self._waiters), len(self._waiting)) >= limits.group_waiting_max:
            return WriteResult.BUSY
        if len(key) + len(row or b"") > limits.group_entry_bytes_max:
            return WriteResult.NO_ROOM
        rows = self._machine.groups
        new = row is not None and key not in rows and not self.pending(key)
        if not new or needed:
            return None
        # What waits, or is in flight, may all be new: the count may refuse a little early, never late.
        full = len(rows) + len(self._waiting) + len(self._aboard) >= in_force(self._machine.state, GROUP_ROWS_MAX)
        return WriteResult.NO_ROOM if full or self._controller.space.lack() is not None else None

    # -- proposing

    def _arm(self) -> None:
        if self._waiting and self._flight is None and not self._armed:
            self._armed = True
            self._scheduler.call_later(max(0.0, self._next_at - self._scheduler.monotonic()), self._propose)

    def _propose(self) -> None:
        self._armed = False
        if self._flight is not None or not self._waiting:
            return
        self._next_at = self._scheduler.monotonic() + self._settings.group_window_s
        changes, self._aboard = self._take()
        self._flight = self._controller.keep_groups(encode_changes(changes))
        if self._flight is None:
            self.lost()

    def _take(self) -> tuple[list[GroupRowChange], dict[bytes, list[_Waiter]]]:
        """The oldest changes, as many as one entry holds."""
        limits, size = self._settings, 0
        changes: list[GroupRowChange] = []
        aboard: dict[bytes, list[_Waiter]] = {}
        for key, change in list(self._waiting.items()):
            size += len(key) + len(change.row or b"")
            if changes and (size > limits.group_entry_bytes_max or len(changes) >= limits.group_changes_max):
                break
            del self._waiting[key]
            changes.append((key, change.row))
            aboard[key] = change.waiters
        return changes, aboard

    # -- endings

    def kept(self, index: Index, term: Term) -> None:
        """A groups entry was executed: whoever waits hears of it in a turn of its own."""
        self._scheduler.call_soon(lambda: self._applied(index, term))

    def _applied(self, index: Index, term: Term) -> None:
        """A groups entry was executed and stored; ours?"""
        if self._flight != (index, term):
            return
        self._flight = None
        aboard, self._aboard = self._aboard, {}
        for waiters in aboard.values():
            for waiter in waiters:
                waiter.tell(WriteResult.DONE)
        self._forget_told()
        self._arm()

    def lost(self) -> None:
        """The leadership ended: another leader answers for these rows now."""
        self._flight = None
        self._waiting.clear()
        self._aboard = {}
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.tell(WriteResult.NOT_LEADER)

    def _forget_told(self) -> None:
        while self._waiters and self._waiters[0].done is None:
            self._waiters.popleft()

    def _watch(self) -> None:
        """One timer for all deadlines, while somebody waits."""
        if self._waiters and not self._watching:
            self._watching = True
            delay = max(0.0, self._waiters[0].deadline - self._scheduler.monotonic())
            self._scheduler.call_later(delay, self._expire)

    def _expire(self) -> None:
        self._watching = False
        now = self._scheduler.monotonic()
        while self._waiters and (self._waiters[0].done is None or self._waiters[0].deadline <= now):
            self._waiters.popleft().tell(WriteResult.LATE)
        self._watch()
