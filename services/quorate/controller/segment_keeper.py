"""Segments whose leader is not there, or is to leave, get another; copies of who is gone are not waited for.

Rules: acts on what the log says of members, while it leads: who is alive is for others to find. A new leader looks at
all segments once, some a turn; after that a member's event costs what that member leads or holds. Elections are asked
for in batches, with rests between. Where nobody can lead, the segment waits until one of its members comes back, its
leader changes who is in sync, or who is not in sync may lead too; nothing is tried again before. Of a shard that is to
go, the copies of members that are gone are forgotten.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from quorate.clock import Scheduler
from quorate.controller.listeners import Listener
from quorate.controller.outcomes import Answered, Outcome, Refused
from quorate.controller.ports import Submit
from quorate.controller.settings import ControllerSettings
from quorate.events import (
    ConfigChanged,
    Event,
    MemberDraining,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
    SegmentCopyDeleted,
    SegmentInSyncAltered,
    ShardDeleting,
)
from quorate.metadata import limits
from quorate.metadata.commands import Command, ElectSegmentLeaders, ForgetCopies
from quorate.model.segments import parsed, segment, wants_leader
from quorate.model.state import State

BATCH: Final = 64
"""Elections that one decision holds at most: some 30 KiB."""
LOOKS_PER_TURN: Final = 256
RETRY_S: Final = 0.5
"""How soon is asked again what could not be decided."""


class SegmentKeeper(Listener):
    """``submit`` has this node, if it leads, decide a command."""

    concerns = frozenset(
        (
            ConfigChanged,
            MemberFenced,
            MemberDraining,
            MemberRegistered,
            MemberGone,
            MemberUnfenced,
            SegmentInSyncAltered,
            ShardDeleting,
            SegmentCopyDeleted,
        )
    )

    def __init__(
        self, state: Callable[[], State], scheduler: Scheduler, settings: ControllerSettings, submit: Submit
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._rest_s = settings.segment_pause_s
        self._submit = submit
        self._reign = 0
        """Of which opening what is asked for is; 0: this node does not lead."""
        self._openings = 0
        self._elections: dict[str, None] = {}
        """Segments that may need a leader, in this order."""
        self._deletions: dict[str, None] = {}
        """Shards that may wait for who is gone."""
        self.leaderless: dict[str, None] = {}
        """Segments that nobody can lead now, or nobody but who is to leave."""
        self._look: Iterator[None] | None = None
        self._due = False
        self._batch = BATCH
        """How many elections are asked for at once: fewer, while they are refused."""

    # -- as it hears of the controller

    def opened(self, term: int) -> None:
        """This node leads: all are looked at, for nobody knows what the leader before had seen."""
        self.lost()
        self._openings += 1
        self._reign = self._openings
        self._batch = BATCH
        self._look = self._all()
        self._later(0)

    def lost(self) -> None:
        """Another one acts."""
        self._reign = 0
        self._elections.clear()
        self._deletions.clear()
        self.leaderless.clear()
        self._look = None

    def committed(self, events: Sequence[tuple[int, Event]]) -> None:
        """What concerns leaders and deletions; also after ``lost``, when that is another one's business."""
        if not self._reign:
            return
        state = self._state()
        for _, event in events:
            match event:
                case MemberFenced() | MemberDraining() | MemberRegistered():
                    self._elections |= dict.fromkeys(state.leading.get(event.member, ()))
                case MemberGone():
                    self._elections |= dict.fromkeys(state.leading.get(event.member, ()))
                    self._deletions |= dict.fromkeys(name for name, shard in state.shards.items() if shard.deleting)
                case MemberUnfenced():
                    few, many = sorted((self.leaderless, state.holding.get(event.member, {})), key=len)
                    self._elections |= dict.fromkeys(name for name in few if name in many)
                case SegmentInSyncAltered() if event.segment in self.leaderless:
                    self._elections[event.segment] = None
                case ConfigChanged(scope=limits.SCOPE) if _lets_unclean_lead(event):
                    self._elections |= self.leaderless
                case ShardDeleting():
                    self._deletions[event.shard] = None
                    self._elections |= dict.fromkeys(name for name in self.leaderless if _shard(name) == event.shard)
                case SegmentCopyDeleted(reason="member gone"):
                    self._deletions |= dict.fromkeys(_deleting(state, (event.segment,)))
                case _:
                    continue
            self._later(0)

    def _all(self) -> Iterator[None]:
        """Every shard and segment, as they are in this moment."""
        state, looked = self._state(), 0
        for name, numbered in state.segments.items():
            if state.shards[name].deleting:
                self._deletions[name] = None
            for found in numbered.values():
                if wants_leader(state, found):
                    self._elections[found.name] = None
                looked += 1
                if looked % LOOKS_PER_TURN == 0:
                    yield

    # -- what is asked for

    def _later(self, delay_s: float) -> None:
        if not self._due:
            self._due = True
            self._scheduler.call_later(delay_s, self._turn)

    def _turn(self) -> None:
        """One thing, and then others have their turn."""
        self._due = False
        if not self._reign:
            return
        if self._look is not None:
            self._look = self._look if next(self._look, self) is not self else None
            self._later(0)
        elif self._elections:
            self._elect()
            self._later(self._rest_s)
        elif self._deletions:
            shard = next(iter(self._deletions))
            del self._deletions[shard]
            self._ask(ForgetCopies(shard=shard), self._deletions, (shard,))
            self._later(self._rest_s)

    def _elect(self) -> None:
        names = tuple(islice(self._elections, self._batch))
        for name in names:
            del self._elections[name]
        self._check(names)  # While they are decided, too, what changes may be what they wait for.
        needed = tuple(name for name in names if name in self.leaderless)
        if needed:
            self._ask(ElectSegmentLeaders(segments=needed), self._elections, needed)

    def _ask(self, command: Command, queue: dict[str, None], names: tuple[str, ...]) -> None:
        reign = self._reign

        def decided(outcome: Outcome) -> None:
            if self._reign != reign:
                return  # Another one leads, or this one anew.
            if command.__class__ is ElectSegmentLeaders and self._is_in_parts(outcome, names):
                return
            if outcome.__class__ is Answered or outcome.__class__ is Refused:
                self._check(names)
                return
            queue.update(dict.fromkeys(names))
            self._later(RETRY_S)

        self._submit(command, decided)

    def _is_in_parts(self, outcome: Outcome, names: tuple[str, ...]) -> bool:
        """Elections are refused where one of them fails, or where they are too long together: the others are asked for
        in smaller parts, down to the one that waits for something to change.
        """
        if outcome.__class__ is Answered:
            self._batch = min(2 * self._batch, BATCH)
        elif outcome.__class__ is Refused and len(names) > 1:
            self._batch = (len(names) + 1) // 2
            self._elections.update(dict.fromkeys(names))
            self._later(RETRY_S)
            return True
        return False

    def _check(self, names: Iterable[str]) -> None:
        """Those that have no leader still wait for something to change."""
        state = self._state()
        for name in names:
            found = segment(state, name)
            if found is not None and wants_leader(state, found):
                self.leaderless[name] = None
            else:
                self.leaderless.pop(name, None)


def _shard(name: str) -> str:
    return (parsed(name) or ("", 0))[0]


def _lets_unclean_lead(event: ConfigChanged) -> bool:
    """Is it allowed from now on?"""
    return any(change.name == limits.UNCLEAN_SEGMENT_LEADERS and change.new == "true" for change in event.changes)


def _deleting(state: State, segments: Iterable[str]) -> Iterator[str]:
    """Shards of these segments that are to go."""
    for name in segments:
        shard = state.shards.get(_shard(name))
        if shard is not None and shard.deleting:
            yield shard.name
