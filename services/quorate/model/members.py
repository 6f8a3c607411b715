"""What is asked about members: their state in a word, which a selector means, and whether one may leave.

Rules: pure. RocketMQ's brokers are shown among the members, made of their broker sets when somebody asks: no second
fact, and nothing that can be told to leave here. A member's name has no colon; a broker's (``broker-set:id``) has one.
"""

from collections.abc import Callable, Iterator
from heapq import merge
from typing import Final, Literal, TypeVar, get_args

import msgspec

from quorate.model.names import following, is_number
from quorate.model.segments import holds_last_copy, leads_segments
from quorate.model.sessions import holds_clients
from quorate.model.state import BrokerSet, Member, Replica, State
from quorate.slices import Steps

T = TypeVar("T")
Condition = Literal["active", "fenced", "draining"]
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)
BROKER_ROLE: Final = "broker"
"""What RocketMQ's brokers do."""
PER_STEP: Final = 64
"""Broker sets or members that are looked at in one step."""
LAST_COPY: Final = "it has the last copy in sync of a segment"
STAYS: Final[tuple[tuple[Callable[[State, Member], bool], str], ...]] = (
    (leads_segments, "it leads segments"),
    (holds_clients, "it has clients"),
)
"""What else a member may not leave behind, and the word for it. Asked only of members that are to leave."""


class Selector(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """Which members are meant: those that have all of it. Empty: all of them."""

    roles: tuple[str, ...] = ()
    """One of these."""
    labels: dict[str, str] = {}
    """All of these; an empty value: whatever it is."""
    conditions: tuple[str, ...] = ()
    """One of these."""

    def means(self, member: Member) -> bool:
        """Is this one meant?"""
        if self.conditions and condition(member) not in self.conditions:
            return False
        if self.roles and not any(role in member.roles for role in self.roles):
            return False
        return all(name in member.labels and value in ("", member.labels[name]) for name, value in self.labels.items())


def condition(member: Member) -> Condition:
    """In one word: a fenced one is fenced, whether it is to leave or not."""
    if member.fenced:
        return "fenced"
    return "draining" if member.draining else "active"


def stays_for(state: State, member: Member, last_copy: Callable[[State, Member], bool] = holds_last_copy) -> str:
    """Why it may not leave, if it wants to; empty: it may. Last copies come last: they take a look at all it holds."""
    why = next((why for holds, why in STAYS if holds(state, member)), "")
    return why or (LAST_COPY if last_copy(state, member) else "")


def may_leave(state: State, member: Member, last_copy: Callable[[State, Member], bool] = holds_last_copy) -> bool:
    """It is to leave, and nothing keeps it any more."""
    return member.draining and not stays_for(state, member, last_copy)


def everyone(state: State) -> Iterator[Member]:
    """Members, and RocketMQ's brokers; in no particular order."""
    yield from state.members.values()
    for broker_set in state.broker_sets.values():
        for replica in broker_set.replicas:
            yield _broker(broker_set, replica)


def selected(
    state: State, selector: Selector, shown: Callable[[Member], T], after: str = "", limit: int | None = None
) -> Steps[list[T]]:
    """Those that are meant and come after a name, by name, as ``shown`` has them, ``limit`` at most. It costs a look at
    every broker set, and one at each member until there are enough.
    """
    brokers, found = list[str](), list[T]()
    for count, broker_set in enumerate(state.broker_sets.values(), start=1):
        brokers += [name for one in broker_set.replicas if (name := f"{broker_set.name}:{one.broker_id}") > after]
        if count % PER_STEP == 0:
            yield
    for count, name in enumerate(merge(following(state.member_names, after), sorted(brokers)), start=1):
        member = named(state, name)
        if member is not None and selector.means(member):
            found.append(shown(member))
            if len(found) == limit:
                break
        if count % PER_STEP == 0:
            yield
    return found


def named(state: State, name: str) -> Member | None:
    """A member, or a broker, by its name."""
    broker_set, colon, broker_id = name.rpartition(":")
    if not colon:
        return state.members.get(name)
    found = state.broker_sets.get(broker_set)
    replica = found.replica(int(broker_id)) if found is not None and is_number(broker_id) else None
    return None if found is None or replica is None else _broker(found, replica)


def broker_of(member: Member) -> tuple[str, str, int]:
    """Cluster, set and id of a broker that is shown as a member."""
    broker_set, _, broker_id = member.name.rpartition(":")
    return member.labels["cluster"], broker_set, int(broker_id)


def of_set(broker_set: BrokerSet) -> dict[str, Member]:
    """The brokers of a set as members, by name."""
    return {broker.name: broker for broker in (_broker(broker_set, one) for one in broker_set.replicas)}


def _broker(broker_set: BrokerSet, replica: Replica) -> Member:
    """It has no epoch and no incarnation of ours; its time-out is in its heartbeats, which are no facts. Its labels are
    the capabilities it told, and where it belongs: none of them may say otherwise.
    """
    return Member(
        name=f"{broker_set.name}:{replica.broker_id}",
        incarnation="",
        epoch=0,
        roles=(BROKER_ROLE,),
        addresses={"remoting": replica.address},
        labels={**replica.capabilities, "cluster": broker_set.cluster, "broker-set": broker_set.name},
        timeout_ms=0,
        fenced=replica.fenced,
        changed_ms=0,
    )
