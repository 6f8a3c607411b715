"""Room on the disks: how much a node finds free, and what may not be decided while that is less than the floor.

Rules: what grows the log is told by its events, not by the product's list of commands. A leader that has measured too
little on its own disk decides nothing that grows. What is told of other disks travels over wires that lose it, so of
that only the refusals are counted, and a life with one low disk says the rest (``simulation``).
"""

from quorate.events import (
    BrokerIdApplied,
    ConfigChanged,
    Event,
    KeyPut,
    LeaseGranted,
    MemberRegistered,
    SessionOpened,
    ShardCreated,
    TopicCreated,
    TopicUpdated,
)

FLOOR = 1 << 20
ENOUGH = FLOOR + FLOOR // 10
"""From here on a disk that was low is not low any more."""
LITTLE, HARDLY, PLENTY = FLOOR // 2, FLOOR + FLOOR // 20, 1 << 40
"""Free on a disk: too little; more than the floor, and not enough after too little; as ever."""
PERIOD_S = 0.2
REFUSED = "refused: NoRoom"
AFTERWARDS_S = 5.0
"""So long a disk that was low may still be answered of: a word of it that is late, and an answer that waits."""
GROWING = (
    BrokerIdApplied,
    KeyPut,
    LeaseGranted,
    MemberRegistered,
    SessionOpened,
    ShardCreated,
    TopicCreated,
    TopicUpdated,
)


def grows(event: Event) -> bool:
    """Does it add what nobody takes away by himself?"""
    if isinstance(event, ConfigChanged):
        return any(change.new is not None for change in event.changes)
    return isinstance(event, GROWING)
