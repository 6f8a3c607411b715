"""Which members have more clients than their share: advice to them, and nothing else.

Rules: pure. A client's session goes where the client connects, and its messages wait at the member that has it: nothing
decided here could move one without breaking a connection or losing what waits. A member that is told may ask clients to
use another server (MQTT 5.0, section 4.13), in its own time. Nobody is advised for a small difference.
"""

from typing import Final

import msgspec

from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.context import Context
from quorate.model.sessions import ROLE
from quorate.model.state import State
from quorate.slices import Steps

PER_STEP: Final = 256


class HandOver(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A member has so many clients, and might hand some over."""

    member: str
    clients: int
    hand_over: int
    why: str
    """One sentence."""


def hand_over(state: State, context: Context, settings: BalanceSettings) -> Steps[tuple[HandOver, ...]]:
    """Who has too many, by name; connected clients alone are counted."""
    clients: dict[str, int] = {}
    for count, member in enumerate(state.members.values()):
        works = ROLE in member.roles and not member.fenced and not member.draining
        if works and context.members.alive(member.name, member.epoch) is not False:
            clients[member.name] = len(state.held.get(member.epoch, ()))
        if count % PER_STEP == 0:
            yield
    if not clients:
        return ()
    share = -(-sum(clients.values()) // len(clients))
    most = share * (100 + settings.clients_apart_percent) // 100
    return tuple(
        HandOver(
            member=name,
            clients=has,
            hand_over=min(has - share, settings.clients_max),
            why=f"{name} has {has:,} clients, and its share of all would be {share:,}",
        )
        for name, has in sorted(clients.items())
        if has > most and has - share >= settings.apart_min
    )
