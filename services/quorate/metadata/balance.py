"""Who should give up which leadership, so that no place leads far more than another: a plan, and nothing done yet.

Rules: pure, and the same on every node for the same input. A move goes only to a replica that may lead without loss:
alive, in sync, no learner. What priorities prefer comes first; then places are evened out, among replicas of the best
priority there is, so that the two never undo each other. A move makes the sum of the squares of all loads smaller, or
the priority better, so plans that are carried out come to an end. Few moves at a time, none for a difference below
``apart_min``, and none of a set that was just elected.

A *place* is what fails together: the host of an address, or a label the broker has. Leaders of segments are planned by
``segment_balance``, clients by ``session_balance``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.commands import Command, ElectionTrigger, ElectMaster, Refusal
from quorate.metadata.context import Context
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.metadata.segment_balance import SegmentMove, segment_command, segment_moves
from quorate.metadata.session_balance import HandOver, hand_over
from quorate.model.brokers import learners
from quorate.model.live import LiveView
from quorate.model.state import BrokerSet, Replica, State
from quorate.slices import Steps

PREFERRED: Final = "a better priority"
SPREAD: Final = "a place that leads less"
SETS_PER_STEP: Final = 32
_UNHEARD_PRIORITY: Final = 2**31 - 1


class Fit(msgspec.Struct, frozen=True, gc=False):
    """A replica that may lead now. ``priority``: as it reports; lower is better."""

    broker_id: int
    place: str
    priority: int


class Led(msgspec.Struct, frozen=True, gc=False):
    """A leadership, and who may have it; the leader is one of them, or it is not moved."""

    broker_set: str
    leader: int
    place: str
    fit: tuple[Fit, ...]


class Move(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One leadership goes from a replica to another."""

    broker_set: str
    old: int
    new: int
    from_place: str
    to_place: str
    rule: str
    """``PREFERRED`` or ``SPREAD``."""
    why: str
    """One sentence."""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """The moves in their order, and how many each place leads before and after them; then the same of segments, by
    member; then what nobody but the members themselves can do.
    """

    moves: tuple[Move, ...]
    before: dict[str, int]
    after: dict[str, int]
    segments: tuple[SegmentMove, ...] = ()
    segments_before: dict[str, int] = {}
    segments_after: dict[str, int] = {}
    hand_over: tuple[HandOver, ...] = ()
    """Advice: nothing is decided by it."""

    def commands(self) -> list[Command]:
        """What is asked for when it is carried out, in this order."""
        masters = [asked(move, "balance") for move in self.moves]
        return [*masters, *map(segment_command, self.segments)]


def plan(state: State, context: Context, settings: BalanceSettings) -> Steps[Plan]:
    """What would be moved now: masters, then leaders of segments as far as moves are left; a set or shard a step."""
    moves, before, after = yield from _masters(state, context, settings)
    left = settings.moves_max - len(moves)
    segments, had, has = yield from segment_moves(state, context, settings, left)
    advice = yield from hand_over(state, context, settings)
    return Plan(tuple(moves), before, after, tuple(segments), had, has, advice)


def _masters(
    state: State, context: Context, settings: BalanceSettings
) -> Steps[tuple[list[Move], dict[str, int], dict[str, int]]]:
    found: list[Led] = []
    loads: dict[str, int] = {}
    for name in sorted(state.broker_sets):
        broker_set = state.known(name)
        if broker_set is not None and broker_set.master is not None:
            led = _led(state, broker_set, broker_set.master, context.live, context.policy, settings.label)
            for replica in broker_set.replicas:
                loads.setdefault(place(replica, settings.label), 0)
            loads[led.place] = loads.get(led.place, 0) + 1
            last = 0 if broker_set.election is None else broker_set.election.time_ms
            if context.now_ms - last >= settings.rest_s * 1000 and any(fit.broker_id == led.leader for fit in led.fit):
                found.append(led)
        yield
    before, moves = dict(sorted(loads.items())), list[Move]()
    for move in _moves(found, loads, settings.apart_min):
        if move is not None and not isinstance(decide(state, asked(move, "balance"), context), Refusal):
            loads[move.from_place] -= 1
            loads[move.to_place] += 1
            moves.append(move)
        if len(moves) == settings.moves_max:
            break
        yield
    return moves, before, dict(sorted(loads.items()))


def asked(move: Move, trigger: ElectionTrigger) -> ElectMaster:
    """The command that makes the move."""
    return ElectMaster(broker_set=move.broker_set, broker_id=move.new, designate=True, trigger=trigger, reason=move.why)


def _led(state: State, broker_set: BrokerSet, master: int, live: LiveView, policy: PolicySettings, label: str) -> Led:
    barred = learners(state, broker_set) if policy.exclude_learners else frozenset[int]()
    fit = tuple(
        Fit(replica.broker_id, place(replica, label), _priority(broker_set, replica, live))
        for replica in broker_set.replicas
        if replica.broker_id in broker_set.sync_state_set
        and replica.broker_id not in barred
        and live.alive(broker_set.cluster, broker_set.name, replica.broker_id) is True
    )
    leader = broker_set.replica(master)
    return Led(broker_set.name, master, "" if leader is None else place(leader, label), fit)


def place(replica: Replica, label: str) -> str:
    """What a broker fails with: its label, or where it has none the host it serves at."""
    return replica.capabilities.get(label, "") or replica.address.rpartition(":")[0]


def _priority(broker_set: BrokerSet, replica: Replica, live: LiveView) -> int:
    info = live.info(broker_set.cluster, broker_set.name, replica.broker_id)
    return _UNHEARD_PRIORITY if info is None else info.priority


def _moves(found: list[Led], loads: Mapping[str, int], apart_min: int) -> Iterator[Move | None]:
    """One by one, and None now and then in between; ``loads`` is brought up to date after each. A set moves once."""
    waiting: list[Led] = []
    for number, led in enumerate(found):
        if number % SETS_PER_STEP == 0:
            yield None
        to, mine = _emptiest(led, loads), next(fit.priority for fit in led.fit if fit.broker_id == led.leader)
        if mine > to.priority:
            yield _move(led, to, PREFERRED, f"broker {to.broker_id} has priority {to.priority:,}, the master {mine:,}")
        else:
            waiting.append(led)
    while True:
        apart, at = 0, 0
        for number, led in enumerate(waiting):
            wide = loads[led.place] - loads[_emptiest(led, loads).place]
            if wide > apart:
                apart, at = wide, number
            if number % SETS_PER_STEP == 0:
                yield None
        if apart < apart_min:
            return
        led = waiting.pop(at)
        to = _emptiest(led, loads)
        why = f"{led.place} leads {loads[led.place]} sets, {to.place} leads {loads[to.place]}"
        yield _move(led, to, SPREAD, why)


def _emptiest(led: Led, loads: Mapping[str, int]) -> Fit:
    """Of the replicas of the best priority the one whose place leads least."""
    return min(led.fit, key=lambda fit: (fit.priority, loads[fit.place], fit.broker_id))


def _move(led: Led, to: Fit, rule: str, why: str) -> Move:
    return Move(
        broker_set=led.broker_set,
        old=led.leader,
        new=to.broker_id,
        from_place=led.place,
        to_place=to.place,
        rule=rule,
        why=why,
    )
