"""Which open segments another copy should lead, so that no member, and no place, leads far more than another.

Rules: pure. A move goes only to a copy that is in sync in the life its member has, and whose member could be given a
new copy: not fenced, silent or to leave, with room on its disk and the labels its shard asks for. A segment whose
leader is not there, or is to leave, is the business of elections. Sealed segments stay: nothing is written to them.

Theory: a move makes the sum of the squares of what members lead smaller, and so that of places, and neither greater;
or both stay and the segment goes home, to the first of its copies, where placement wanted it. So plans that are
carried out come to an end.
"""

from typing import Final

import msgspec

from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.commands import ElectSegmentLeader
from quorate.metadata.context import Context
from quorate.metadata.placement import Wanted, unsuited
from quorate.model.segments import is_led, last
from quorate.model.state import Segment, Shard, State
from quorate.slices import Steps

HOME: Final = "the first copy"
SPREAD: Final = "a member that leads less"
PER_STEP: Final = 32


class SegmentMove(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The leadership of a segment goes from a member to another."""

    segment: str
    old: str
    new: str
    from_place: str
    to_place: str
    rule: str
    """``SPREAD`` or ``HOME``."""
    why: str
    """One sentence."""


class _Led(msgspec.Struct, frozen=True, gc=False):
    """A segment that may move; ``fit``: to whom, in the order of the copies."""

    segment: str
    leader: str
    fit: tuple[str, ...]
    first: str


class _Loads:
    """What members lead, and what their places lead; ``label`` names the place of a member that has it."""

    def __init__(self, state: State, label: str) -> None:
        self._state, self._label = state, label
        self.members: dict[str, int] = {}
        self._places: dict[str, int] = {}

    def place(self, member: str) -> str:
        """What it fails with; without the label a member is a place of its own."""
        found = self._state.members.get(member)
        return member if found is None else found.labels.get(self._label, "") or member

    def add(self, member: str, count: int) -> None:
        """It leads so many more."""
        place = self.place(member)
        self.members[member] = self.members.get(member, 0) + count
        self._places[place] = self._places.get(place, 0) + count

    def apart(self, old: str, new: str) -> tuple[int, int]:
        """How many more one member leads than the other, and its place than the other's (one place: none)."""
        here, there = self.place(old), self.place(new)
        return self.members[old] - self.members[new], self._places[here] - self._places[there]

    def gain(self, led: _Led, new: str, apart_min: int) -> int:
        """How much more even a move makes it; 0: it only goes home; less: it is none."""
        members, places = self.apart(led.leader, new)
        elsewhere = self.place(led.leader) != self.place(new)
        if members < 1 or (elsewhere and places < 1):
            return -1
        if max(members, places) < apart_min and new != led.first:
            return -1
        return members - 1 + (places - 1 if elsewhere else 0)


def segment_moves(
    state: State, context: Context, settings: BalanceSettings, moves_max: int
) -> Steps[tuple[list[SegmentMove], dict[str, int], dict[str, int]]]:
    """The moves, and how many open segments each member leads before and after them; some shards a step."""
    loads, waiting = _Loads(state, settings.label), list[_Led]()
    for count, name in enumerate(sorted(state.shards)):
        shard, found = state.shards[name], last(state, name)
        if not shard.deleting and found is not None and found.end_offset is None and is_led(state, found):
            for copy in found.copies:
                loads.add(copy, int(copy == found.leader))
            if _may_move(state, found, context, settings):
                waiting.append(_Led(found.name, found.leader, _fit(state, shard, found, context), found.copies[0]))
        if count % PER_STEP == 0:
            yield
    before, moves = dict(sorted(loads.members.items())), list[SegmentMove]()
    while len(moves) < moves_max:
        best, at, to = -1, 0, ""
        for number, led in enumerate(waiting):
            for new in led.fit:
                gain = loads.gain(led, new, settings.apart_min)
                if gain > best:
                    best, at, to = gain, number, new
            if number % PER_STEP == 0:
                yield
        if best < 0:
            break
        move = _move(loads, waiting.pop(at), to, settings.apart_min)
        loads.add(move.old, -1)
        loads.add(move.new, 1)
        moves.append(move)
    return moves, before, dict(sorted(loads.members.items()))


def segment_command(move: SegmentMove) -> ElectSegmentLeader:
    """The command that makes the move."""
    return ElectSegmentLeader(segment=move.segment, trigger="balance", wanted=move.new, reason=move.why)


def _may_move(state: State, found: Segment, context: Context, settings: BalanceSettings) -> bool:
    """Has it rested, and is its leader nothing for elections?"""
    since = 0 if found.election is None else found.election.time_ms
    heard = context.members.alive(found.leader, found.member_epoch)
    rested = context.now_ms - since >= settings.rest_s * 1000
    return rested and heard is not False and not state.members[found.leader].draining


def _fit(state: State, shard: Shard, found: Segment, context: Context) -> tuple[str, ...]:
    """Those that may lead it instead."""
    wanted = Wanted(shard.replication, shard.spread, shard.require)
    in_sync = {(one.member, one.member_epoch) for one in found.in_sync}
    others = (state.members.get(name) for name in found.copies if name != found.leader)
    return tuple(
        member.name
        for member in others
        if member is not None and (member.name, member.epoch) in in_sync and not unsuited(member, wanted, context)
    )


def _move(loads: _Loads, led: _Led, new: str, apart_min: int) -> SegmentMove:
    old = led.leader
    here, there = loads.place(old), loads.place(new)
    members, places = loads.apart(old, new)
    why = f"{old} leads {loads.members[old]} open segments, {new} leads {loads.members[new]}"
    if members < apart_min <= places:
        why = f"{here} leads {places} open segments more than {there}"
    home = max(members, places) < apart_min
    if home:
        why = f"{new} has the first copy, and leads fewer than {old}"
    return SegmentMove(
        segment=led.segment,
        old=old,
        new=new,
        from_place=here,
        to_place=there,
        rule=HOME if home else SPREAD,
        why=why,
    )
