"""The one rule-set of a replicated thing: who may lead it, who wins, and why everybody else did not; who may be said
to be in sync with it, by whom, and when.

Rules: nothing here knows RocketMQ, a clock or a policy; who is asked for, and what may be believed of a report, is
decided before. An outcome does not depend on the order of the members, and names for each member the rule where it
fell. Verdicts and rules are stored in events: a name never changes its meaning.

Theory: only members that are alive, in sync and no learners stand. The rules then look at those that are left, one
rule after the other, until one is left; no two have the same id, so the last rule always decides. The in-sync set is
changed by its leader alone, behind fences: whoever was deposed, restarted or overtaken meanwhile does not pass.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, Generic, Literal, TypeVar

import msgspec

from quorate.events import Candidate

ELECTED: Final = "elected"
OUT: Final = "out"

NOT_ALIVE: Final = "not alive"
NOT_IN_SYNC: Final = "not in sync state set"
LEARNER: Final = "learner"
NOT_ASKED_FOR: Final = "not asked for"
LOWER_EPOCH: Final = "lower epoch"
LOWER_MAX_OFFSET: Final = "lower max offset"
LOWER_PRIORITY: Final = "lower priority"
HIGHER_BROKER_ID: Final = "higher broker id"

DECIDED_BY: Final[Mapping[str, str]] = {
    LOWER_EPOCH: "higher epoch",
    LOWER_MAX_OFFSET: "higher max offset",
    LOWER_PRIORITY: "higher priority",
    HIGHER_BROKER_ID: "lower broker id",
}
"""The rules that compare, in the order they are asked: how a loser falls by one → how the winner wins by it."""

FIRST_ELECTION: Final = "first election"
DESIGNATED: Final = "designated"
MOVED: Final = "address changed"
ONLY_CANDIDATE: Final = "only candidate"
OLD_MASTER_IS_ALIVE: Final = "old master is alive"


class Member(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One of the set as an election sees it: what is known of it, and what it reported."""

    broker_id: int
    alive: bool
    in_sync: bool
    learner: bool = False
    epoch: int = -1
    """-1: none reported, or none that is believed."""
    max_offset: int = -1
    confirm_offset: int = -1
    priority: int = 2**31 - 1
    """The lower number wins."""


Rule = Callable[[list[Member]], list[Member]]
"""The candidates that no other candidate beats, ordered by id."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The winner, the deciding rule, and the verdict on each member, by rising id."""

    winner: int | None
    decided_by: str
    """Empty when nobody won."""
    unclean: bool
    """Did it take members that are not in sync?"""
    candidates: tuple[Candidate, ...]


def elect(
    members: Iterable[Member],
    *,
    incumbent: int | None,
    wanted: int | None,
    unclean: bool,
    wide_offsets: bool = True,
) -> Outcome:
    """Choose a leader (Java ``DefaultElectPolicy.elect``).

    A living ``incumbent`` in sync stays, unless somebody else is ``wanted``; who is wanted wins, or nobody does. With
    ``unclean`` all living members stand if among those in sync nobody won. ``wide_offsets`` False: offsets are
    compared as Java does, by their difference in 32 bits.
    """
    ordered = sorted(members, key=_by_id)
    rules = _RULES if wide_offsets else _RULES_IN_32_BITS
    fallen: dict[int, str] = {}
    winner, decided_by = _judge(ordered, fallen, incumbent, wanted, rules, clean=True)
    if winner is not None or not unclean:
        return Outcome(winner, decided_by, False, _candidates(ordered, winner, fallen))
    fallen.clear()
    winner, decided_by = _judge(ordered, fallen, incumbent, wanted, rules, clean=False)
    return Outcome(winner, decided_by, winner is not None, _candidates(ordered, winner, fallen))


def appoint(members: Iterable[Member], winner: int, decided_by: str) -> Outcome:
    """Without an election: this one leads, as it is, and nobody else was asked for."""
    ordered = sorted(members, key=_by_id)
    fallen = {member.broker_id: NOT_ASKED_FOR for member in ordered}
    return Outcome(winner, decided_by, False, _candidates(ordered, winner, fallen))


_by_id: Final = attrgetter("broker_id")


def _judge(
    members: Sequence[Member],
    fallen: dict[int, str],
    incumbent: int | None,
    wanted: int | None,
    rules: Sequence[tuple[str, Rule]],
    *,
    clean: bool,
) -> tuple[int | None, str]:
    """The winner, if any, and the rule. ``fallen`` is told where each of the others fell."""
    favoured = incumbent if wanted is None else wanted
    standing: list[Member] = []
    present = False
    for member in members:
        broker_id = member.broker_id
        if not member.alive:
            fallen[broker_id] = NOT_ALIVE
        elif clean and not member.in_sync:
            fallen[broker_id] = NOT_IN_SYNC
        elif broker_id == favoured and (not member.learner or broker_id == incumbent):
            present = True  # A learner that leads already may stay: to stay is not to be elected.
        elif member.learner:
            fallen[broker_id] = LEARNER
        else:
            standing.append(member)
    if present or wanted is not None:
        for member in standing:
            fallen[member.broker_id] = NOT_ASKED_FOR
        if not present:
            return None, ""
        return favoured, OLD_MASTER_IS_ALIVE if favoured == incumbent else DESIGNATED
    return _compare(standing, fallen, rules) if standing else (None, "")


def _compare(standing: list[Member], fallen: dict[int, str], rules: Sequence[tuple[str, Rule]]) -> tuple[int, str]:
    """Rule after rule until one is left; the rule where its last rival fell has decided."""
    decided_by = ONLY_CANDIDATE
    for verdict, best in rules:
        if len(standing) == 1:
            break
        left = best(standing)
        if len(left) < len(standing):
            decided_by = DECIDED_BY[verdict]
            for member in standing:  # The others fall by a later rule, or win.
                fallen[member.broker_id] = verdict
            standing = left
    return standing[0].broker_id, decided_by


def _highest_epoch(standing: list[Member]) -> list[Member]:
    highest = max(member.epoch for member in standing)
    return [member for member in standing if member.epoch == highest]


def _highest_max_offset(standing: list[Member]) -> list[Member]:
    highest = max(member.max_offset for member in standing)
    return [member for member in standing if member.max_offset == highest]


def _highest_max_offset_in_32_bits(standing: list[Member]) -> list[Member]:
    """As Java's ``TreeSet`` has it: first is who comes before all that were first. Unequal offsets whose difference is
    nothing in 32 bits are a tie that priority is not asked about, so that the lower id stays first.
    """
    firsts: list[int] = []
    for member in standing:
        if all(_narrowed(first - member.max_offset) < 0 for first in firsts):
            firsts.append(member.max_offset)
    return [member for member in standing if member.max_offset == firsts[-1]]


def _narrowed(difference: int) -> int:
    """As Java's cast of a long to an int."""
    return (difference + 2**31) % 2**32 - 2**31


def _best_priority(standing: list[Member]) -> list[Member]:
    best = min(member.priority for member in standing)
    return [member for member in standing if member.priority == best]


def _lowest_id(standing: list[Member]) -> list[Member]:
    return standing[:1]


_RULES: Final = tuple(zip(DECIDED_BY, (_highest_epoch, _highest_max_offset, _best_priority, _lowest_id), strict=True))
_RULES_IN_32_BITS: Final = (_RULES[0], (LOWER_MAX_OFFSET, _highest_max_offset_in_32_bits), *_RULES[2:])


def _candidates(members: list[Member], winner: int | None, fallen: dict[int, str]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            broker_id=member.broker_id,
            alive=member.alive,
            in_sync=member.in_sync,
            epoch=member.epoch,
            max_offset=member.max_offset,
            confirm_offset=member.confirm_offset,
            priority=member.priority,
            learner=member.learner,
            verdict=ELECTED if member.broker_id == winner else OUT,
            out_by="" if member.broker_id == winner else fallen[member.broker_id],
        )
        for member in members
    )


# -- who is in sync

Id = TypeVar("Id", int, str)
Fence = Literal[
    "unchanged",
    "not the leader",
    "leader epoch",
    "member epoch",
    "set epoch",
    "empty",
    "stranger",
    "unfit",
    "without the leader",
    "exhausted",
]
"""What is wrong with a change."""


class InSync(msgspec.Struct, Generic[Id], frozen=True, gc=False, kw_only=True):
    """Who is in sync, and under which epochs: as it is, or as a leader believes and wants it."""

    leader: Id | None
    leader_epoch: int
    member_epoch: int = 0
    """Under which the leader is registered; 0 where members have none."""
    set_epoch: int
    ids: tuple[Id, ...]
    """Sorted, each once."""


class InSyncChange(msgspec.Struct, Generic[Id], frozen=True, gc=False):
    """Who is in sync from now on, by the word of this leader."""

    leader: Id
    ids: tuple[Id, ...]
    set_epoch: int


class Broken(msgspec.Struct, Generic[Id], frozen=True, gc=False):
    """The fence that did not hold; for ``stranger`` and ``unfit`` the first such member."""

    fence: Fence
    member: Id | None = None


def alter(
    now: InSync[Id],
    asked: InSync[Id],
    members: Collection[Id],
    fit: Callable[[Id], bool],
    *,
    epoch_max: int,
    equal_is_refused: bool = False,
    all_fit: bool = False,
) -> InSyncChange[Id] | Broken[Id]:
    """Who is in sync from now on; or the first fence, in this order, that forbids it.

    ``fit``: is this member alive, and is it the one that the leader saw catch up? Asked of those that are added, with
    ``all_fit`` of those that stay too. Members are judged one by one, by rising id. ``equal_is_refused``: a set that
    is so already is told before anything else, whoever asks.
    """
    if equal_is_refused and asked.ids == now.ids:
        return Broken("unchanged")
    if now.leader is None or asked.leader != now.leader:
        return Broken("not the leader")
    if asked.leader_epoch != now.leader_epoch:
        return Broken("leader epoch")
    if asked.member_epoch != now.member_epoch:
        return Broken("member epoch")
    if asked.set_epoch != now.set_epoch:
        return Broken("set epoch")
    if not asked.ids:
        return Broken("empty")
    for one in asked.ids:
        if one not in members:
            return Broken("stranger", one)
        if (all_fit or one not in now.ids) and not fit(one):
            return Broken("unfit", one)
    if now.leader not in asked.ids:
        return Broken("without the leader")
    if now.set_epoch >= epoch_max:
        return Broken("exhausted")
    return InSyncChange(now.leader, asked.ids, now.set_epoch + 1)
